"""Edge lists in files: two columns of sites, by row number or by name, with or without a header."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fitonce.data.cells import as_numbers
from fitonce.data.table_files import read_table


def edges_of(path: Path, sites: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """Edges as pairs of row numbers (E, 2), and the column that names the sites, or None.

    Args:
        path: the file of edges.
        sites: columns of the data that are not modelled, one row per site.
    """
    pairs = read_table(path, names_first=False)
    if pairs.shape[1] < 2:
        raise ValueError(f"{path.name} must have two columns of sites, got {pairs.shape[1]}")
    pairs = pairs.iloc[:, :2].set_axis(["i", "j"], axis=1)
    numbers = pairs.apply(as_numbers).notna().all(axis=1)
    if numbers.iloc[1:].all() and (len(pairs) > 1 or numbers.all()):
        return _by_number(_complete(pairs[numbers], path).apply(as_numbers), sites, path)
    column = _name_column(pairs, sites, path)
    place = {str(name): row for row, name in enumerate(sites[column])}
    is_header = not set(pairs.iloc[0].astype(str)) & set(place)
    pairs = _complete(pairs.iloc[int(is_header) :], path).astype(str)
    unknown = [name for name in pd.unique(pairs.to_numpy().ravel()) if name not in place]
    if unknown:
        raise ValueError(
            f"{path.name} must have row numbers from 0 or names from a column of the data; "
            f"'{column}' lacks {', '.join(map(repr, unknown[:3]))}"
        )
    return pairs.map(place.__getitem__), column


def _by_number(pairs: pd.DataFrame, sites: pd.DataFrame, path: Path) -> tuple[pd.DataFrame, str | None]:
    """Edges by row number from 0, or by a column of integers such as county codes."""
    used = set(pairs.to_numpy().ravel())
    codes = [
        name
        for name in sites.columns
        if sites[name].dtype.kind in "iu"
        and sites[name].is_unique
        and used <= set(sites[name])
        and not np.array_equal(sites[name], np.arange(len(sites)))
    ]
    rows = used <= set(range(len(sites)))
    if rows and codes:
        raise ValueError(
            f"numbers in {path.name} could be row numbers from 0 or values of '{codes[0]}'; "
            f"leave '{codes[0]}' out of the data, or use names"
        )
    if codes:
        place = {int(code): row for row, code in enumerate(sites[codes[0]])}
        return pairs.map(lambda code: place[int(code)]), codes[0]
    words = [c for c in sites.columns if sites[c].dtype.kind not in "biuf" and sites[c].is_unique]
    return pairs, (words[0] if words else None)


def _complete(pairs: pd.DataFrame, path: Path) -> pd.DataFrame:
    if pairs.empty:
        raise ValueError(f"{path.name} must have a row for each edge, got none")
    lacking = pairs.index[pairs.isna().any(axis=1)]
    if len(lacking):
        raise ValueError(f"{path.name} must have two sites in every row, but row {lacking[0]} does not")
    return pairs


def _name_column(pairs: pd.DataFrame, sites: pd.DataFrame, path: Path) -> str:
    """The column of distinct values that has most of the names."""
    names = set(pairs.dropna().astype(str).to_numpy().ravel())
    known = {c: len(names & set(sites[c].astype(str))) for c in sites.columns if sites[c].is_unique}
    best = max(known, key=lambda column: known[column], default=None)
    if best is None or not known[best]:
        raise ValueError(
            f"{path.name} must have row numbers from 0 or names from a column of the data; "
            f"no column has {', '.join(map(repr, sorted(names)[:3]))}"
        )
    return best
