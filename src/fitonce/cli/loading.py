"""A file to data and the model that they are for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.cli.choices import FIELDS, ModelChoice
from fitonce.cli.edges import edges_of
from fitonce.conll import read_conll
from fitonce.files import Columns, read
from fitonce.graph import graph
from fitonce.labelled import labelled
from fitonce.names import Names
from fitonce.tables import read_table
from fitonce.word_features import word_features

CONLL = (".conll", ".iob2", ".bio", ".iob")


@dataclass(frozen=True, eq=False)
class Loaded:
    """A file as a model can use it."""

    data: Any
    choice: ModelChoice
    notes: list[str] = field(default_factory=list)

    @cached_property
    def model(self) -> Any:
        """What was asked for, for these data."""
        return self.choice.build(self.data)

    def __str__(self) -> str:
        if not self.choice.on_graph:
            return str(self.data)
        missing = int((self.data.weights == 0).sum())
        return f"{self.data.n_sites:,} sites, {missing:,} missing"


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
    for option, value in (
        ("--time", columns.time), ("--group", columns.group),
        ("--from", columns.first), ("--to", columns.last),
    ):  # fmt: skip
        if value is not None:
            raise ValueError(f"{option} is for sequences, got --model {choice.name}")
    table = read_table(path, columns.decimal)
    if exposure is not None and exposure not in table.columns:
        raise ValueError(f"'{exposure}' is not a column; columns are {', '.join(table.columns)}")
    others = [c for c in table.columns if table[c].dtype.kind in "biuf" and c != exposure]
    if columns.modelled is None and len(others) != 1:
        raise ValueError(
            f"a graph has one number for each site; choose its column with --columns, from "
            f"{', '.join(others) or 'none'}"
        )
    chosen = columns.modelled or (others[0],)
    found = read(path, replace(columns, modelled=chosen, gaps=False, ordered=False))
    known = None if exposure is None else _exposures(found.table[exposure])
    apart = [name for name in found.table.columns if name not in (*chosen, exposure)]
    numbered, column = edges_of(edges, found.table[apart])
    links = graph(numbered, found.data.n_sites)
    notes = [*found.notes, str(links)]
    data = found.data
    if column is not None:
        notes.append(f"sites are named by '{column}'")
        data = replace(data, names=Names(("the graph",), tuple(map(str, found.table[column]))))
    notes += [] if exposure is None else [f"exposure: {exposure}"]
    return Loaded(data, replace(choice, edges=links, exposure=known), notes)


def _exposures(column: pd.Series) -> np.ndarray:
    """Of the rows in the order in which they are modelled."""
    found = pd.to_numeric(column, errors="coerce")
    bad = np.flatnonzero(found.isna())
    if bad.size:
        got = column.iloc[bad[0]]
        raise ValueError(f"'{column.name}' must be a number in every row, got {got!r} in row {bad[0]}")
    return found.to_numpy(float)
