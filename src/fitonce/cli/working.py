"""What commands share: read, fit, cross-validate, and what is written of it."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.archive import check_free
from fitonce.cli.choices import FIELDS, ModelChoice
from fitonce.cli.speaking import complain, stoppable
from fitonce.conll import read_conll
from fitonce.crossval import cross_validate
from fitonce.files import Columns, read
from fitonce.fit import Fit, fit
from fitonce.folds import Folds
from fitonce.graph import graph
from fitonce.influence import Influence, influence
from fitonce.labelled import labelled
from fitonce.result import CVResult
from fitonce.tables import read_table
from fitonce.word_features import word_features

CONLL = (".conll", ".iob2", ".bio", ".iob")
_EXACT = 20  # folds of a report that are also refitted
_FEW_PARAMETERS, _FEW_POINTS = 500, 200_000  # so that influence takes seconds


@dataclass(frozen=True, eq=False)
class Loaded:
    """A file as a model can use it."""

    data: Any
    choice: ModelChoice
    notes: list[str] = field(default_factory=list)


def load_file(
    path: Path, choice: ModelChoice, columns: Columns, edges: Path | None, exposure: str | None
) -> Loaded:
    """Read a file for a model."""
    if path.suffix.lower() in CONLL:
        return _tagged(path, choice)
    if choice.name == "crf":
        raise ValueError(f"--model crf reads CoNLL files ({', '.join(CONLL)}), got {path.name}")
    if edges is not None and not choice.on_graph:
        raise ValueError(f"--edges is for {', '.join(FIELDS)}, got --model {choice.name}")
    if choice.on_graph:
        return _on_graph(path, choice, columns, edges, exposure)
    if exposure is not None:
        raise ValueError(f"--exposure is for {', '.join(FIELDS)}, got --model {choice.name}")
    found = read(path, columns)
    return Loaded(found.data, choice, found.notes)


def _tagged(path: Path, choice: ModelChoice) -> Loaded:
    if choice.name != "crf":
        raise ValueError(f"a CoNLL file is for --model crf, got --model {choice.name}")
    found = read_conll(path)
    data = labelled(word_features(found.words), found.tags, tags=found.tag_names, words=found.words)
    return Loaded(data, choice, [str(found)])


def _on_graph(
    path: Path, choice: ModelChoice, columns: Columns, edges: Path | None, exposure: str | None
) -> Loaded:
    if edges is None:
        raise ValueError(f"--model {choice.name} needs --edges, a file with two columns of sites")
    table = read_table(path, columns.decimal)
    if exposure is not None and exposure not in table.columns:
        raise ValueError(f"'{exposure}' is not a column; columns are {', '.join(table.columns)}")
    others = [c for c in table.columns if table[c].dtype.kind in "biuf" and c != exposure]
    if columns.modelled is None and len(others) != 1:
        raise ValueError(
            f"a graph has one number for each site; choose its column with --columns, from "
            f"{', '.join(others) or 'none'}"
        )
    found = read(path, replace(columns, modelled=columns.modelled or (others[0],), gaps=False))
    known = None if exposure is None else _exposures(found.table[exposure])
    pairs = read_table(edges)
    if pairs.shape[1] < 2:
        raise ValueError(f"{edges.name} must have two columns of sites, got {pairs.shape[1]}")
    numbered, note = _numbered(pairs.iloc[:, :2], found.table, edges.name)
    links = graph(numbered, found.data.n_sites)
    notes = [*found.notes, *note, str(links)]
    return Loaded(found.data, replace(choice, edges=links, exposure=known), notes)


def _numbered(pairs: pd.DataFrame, table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Edges as row numbers; names are looked up in the column of the file that has them all."""
    pairs = pairs.set_axis(["i", "j"], axis=1)
    if all(dtype.kind in "iuf" for dtype in pairs.dtypes):
        return pairs, []
    names = pd.unique(pairs.astype(str).to_numpy().ravel())
    for column in table.columns:
        place = {str(label): row for row, label in enumerate(table[column])}
        if len(place) == len(table) and set(names) <= set(place):
            found = pairs.astype(str).map(place.__getitem__)
            return found, [f"sites of {name} are named by '{column}'"]
    raise ValueError(
        f"{name} must have row numbers from 0, or names that one column of the data has all of; "
        f"no column has all of {', '.join(names[:3])}, ..."
    )


def _exposures(column: pd.Series) -> np.ndarray:
    """Of the rows in the order in which they are modelled."""
    found = pd.to_numeric(column, errors="coerce")
    bad = np.flatnonzero(found.isna())
    if bad.size:
        got = column.iloc[bad[0]]
        raise ValueError(f"'{column.name}' must be a number in every row, got {got!r} in row {bad[0]}")
    return found.to_numpy(float)


def check_outputs(paths: list[Path | None], force: bool) -> None:
    """Say before the work what could not be written after it."""
    for path in paths:
        if path is not None:
            check_free(path, force)


def check_picture(path: Path | None) -> None:
    """That matplotlib knows the ending."""
    from matplotlib.figure import Figure

    known = Figure().canvas.get_supported_filetypes()
    if path is not None and path.suffix.lower().removeprefix(".") not in known:
        raise ValueError(f"--plot must end in .png, .pdf or .svg, got {path.name}")


def fitted(loaded: Loaded, restarts: int, seed: int, bars: bool | None) -> Fit:
    """The fit of what was asked to what was read."""
    model = loaded.choice.build(loaded.data)
    return fit(model, loaded.data, restarts=restarts, seed=seed, progress=bars)


def validated(fit: Fit, folds: Folds, bars: bool | None, **how: Any) -> tuple[CVResult, bool]:
    """Cross-validate; Ctrl-C ends with what there is. Returns the result and whether that happened."""
    with stoppable() as stop:
        result = cross_validate(fit, folds, progress=bars, stop=stop, **how)
        return result, stop()


def made_for_report(fit: Fit, folds: Folds, result: CVResult) -> dict[str, Any]:
    """What the result says of some folds beside exact refits of them, and influence."""
    more: dict[str, Any] = {}
    which = np.unique(np.linspace(0, len(folds) - 1, min(_EXACT, len(folds))).astype(int))
    try:
        more["scatter"] = _pairs(fit, folds, which, result)
        more["scatter_labels"] = (result.method, f"exact refits of {len(which)} folds")
    except ValueError as error:
        complain(f"the report has no exact refits: {error}")
    more["influence"] = influence_for_report(fit)
    return more


def influence_for_report(fit: Fit) -> pd.DataFrame | None:
    """The table, where it takes seconds."""
    if len(fit.theta) > _FEW_PARAMETERS or len(fit.problem.base) > _FEW_POINTS:
        return None
    try:
        found = influence(fit)
    except ValueError as error:
        complain(f"the report has no influence: {error}")
        return None
    return found.table if isinstance(found, Influence) else None


def _pairs(fit: Fit, folds: Folds, which: np.ndarray, result: CVResult) -> pd.DataFrame:
    some = folds.some(which)
    how: dict[str, Any] = {"check": False, "progress": False, "loss": result.loss}
    if folds.kind == "sites" and result.scheme in ("A", "B", "C"):
        how["scheme"] = result.scheme
    exact = cross_validate(fit, some, method="exact", **how).pointwise
    rows = result.pointwise[result.pointwise["fold"].isin(which)].reset_index(drop=True)
    pairs = rows[["fold", "sequence", "time", "site", "control"]]
    return pairs.assign(approximate=rows["loss"], exact=exact["loss"])


def command_line() -> str:
    """What was typed, with the program's name for its path."""
    return shlex.join(["fitonce", *sys.argv[1:]])


def summary(result: CVResult) -> dict[str, Any]:
    """A result as plain numbers and words, for --json."""
    counts = result.folds["verdict"].value_counts()
    named = {
        "estimate": result.estimate, "se": result.se, "control": result.control, "error": result.error,
        "tolerance": result.tolerance, "seconds": result.seconds,
    }  # fmt: skip
    return {
        **{name: _plain(value) for name, value in named.items()},
        "method": result.method,
        "scheme": result.scheme,
        "loss": result.loss,
        "folds": len(result.folds),
        "left_out": result.left_out,
        "verdicts": {str(name): int(count) for name, count in counts.items()},
        "failed": result.n_failed,
        "treatment": result.treatment,
        "fit": {"status": str(result.fit.status), "ok": bool(result.fit.ok)},
    }


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table, for --json."""
    return [
        {str(key): _plain(value) for key, value in row.items()}
        for row in table.reset_index().to_dict(orient="records")
    ]


def print_json(document: Any) -> None:
    """To standard output, where nothing else goes with --json."""
    print(json.dumps(document, indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return str(value)
