"""Checks of output files, and results as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.writing import check_free, write_text
from fitonce.results.result import CVResult
from fitonce.results.site_losses import oddest

SCHEMA = 1  # of what --json prints
_ODD = ("place", "site", "value", "expected", "direction", "p", "loss")
_LISTED = 10  # odd sites


def check_outputs(
    paths: list[Path | None], plot: Path | None, force: bool, read: tuple[Path | None, ...] = ()
) -> None:
    """Raise before the work if an output could not be written after it, or would replace a file that is
    `read`."""
    wanted = [path for path in (*paths, plot) if path is not None]
    inputs = [path for path in read if path is not None and path.exists()]
    for path in wanted:
        if any(path.exists() and path.samefile(other) for other in inputs):
            raise ValueError(f"{path} is read by this command, and cannot be written by it too")
    for place, path in enumerate(wanted):
        if path.absolute() in [other.absolute() for other in wanted[:place]]:
            raise ValueError(f"each output needs a file of its own, got {path} twice")
        check_free(path, force)
    if plot is None:
        return
    from matplotlib.figure import Figure

    if plot.suffix.lower().removeprefix(".") not in Figure().canvas.get_supported_filetypes():
        raise ValueError(f"--plot must end in .png, .pdf or .svg, got {plot.name}")


def as_document(result: CVResult) -> dict[str, Any]:
    """A result as numbers and strings, for --json."""
    counts = result.folds["verdict"].value_counts()
    named = {
        "estimate": result.estimate, "se": result.se, "control": result.control, "error": result.error,
        "stretches": result.stretches,
        "tolerance": result.tolerance, "seconds": result.seconds,
    }  # fmt: skip
    return {
        **{name: plain(value) for name, value in named.items()},
        "interval": [plain(end) for end in result.interval()],
        "other_optima": {
            "search": result.optima_search,
            "moved": int((result.folds["optimum"] != 0).sum()),
            "better_fit": result.better_theta is not None,
        },
        "method": result.method,
        "scheme": result.scheme,
        "loss": result.loss,
        "folds": len(result.folds),
        "left_out": result.left_out,
        "verdicts": {str(name): int(count) for name, count in counts.items()},
        "failed": result.n_failed,
        "treatment": result.treatment,
        "doubts": result.doubts,
        "fit": {
            "model": result.summary.model,
            "status": str(result.fit.status),
            "ok": bool(result.fit.ok),
        },
        **_odd(result),
    }


def _odd(result: CVResult) -> dict[str, Any]:
    """The sites of a map that lie furthest from what was expected of them."""
    if result.predicted is None or not result.folds["ok"].any():
        return {}
    known, beyond = oddest(result.site_losses())
    return {"odd": table_rows(known.head(_LISTED)[list(_ODD)]), "beyond_chance": beyond}


def table_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table as dicts, for --json."""
    return [
        {str(key): plain(value) for key, value in row.items()}
        for row in table.reset_index(drop=table.index.name is None).to_dict(orient="records")
    ]


def write_table(rows: pd.DataFrame, path: Path, force: bool) -> Path:
    """Write all rows as CSV, or as JSON (.json)."""
    as_rows = path.suffix.lower() == ".json"
    text = as_json(table_rows(rows.set_index(rows.columns[0]))) if as_rows else as_csv(rows)
    return write_text(path, text, force=force)


def as_json(document: Any) -> str:
    """Indented JSON; numbers that are not finite must already be None."""
    return json.dumps(document, indent=1, allow_nan=False)


def as_csv(table: pd.DataFrame) -> str:
    """The table as CSV, in which no text is a formula of a spreadsheet: an apostrophe is before it."""
    texts = {name: column.map(_tame) for name, column in table.items() if column.dtype.kind in "OUT"}
    renamed = {name: _tame(name) for name in table.columns}
    return (
        table.assign(**{str(name): column for name, column in texts.items()})
        .rename(columns=renamed)
        .to_csv(index=False)
    )


def _tame(cell: Any) -> Any:
    """Text that a spreadsheet would run begins with = or @, or with a sign and calls something."""
    if not isinstance(cell, str) or not cell:
        return cell
    calls = cell[0] in "+-" and any(sign in cell for sign in "(|!")
    return f"'{cell}" if cell[0] in "=@\t\r" or calls else cell


def print_json(document: Mapping[str, Any] | list[dict[str, Any]]) -> None:
    """Print JSON to stdout, to which --json prints nothing else; a table as the key `rows`. Every key is
    in the table of docs/commands.md, and `schema` changes when one is taken away or means something
    else."""
    keys = {"rows": document} if isinstance(document, list) else document
    print(as_json(plain({"schema": SCHEMA, **keys})))


def plain(value: Any) -> Any:
    """A value, or those of lists and dicts, as JSON has them."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return str(value)
