"""A file of edges: two columns of sites, by the number of their row or by name, with or without a line
of names above."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fitonce.tables import read_table


def edges_of(path: Path, sites: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """Pairs of row numbers of the table of sites, and its column that names them, if one does."""
    pairs = _two_columns(path, None)
    if all(dtype.kind in "iuf" for dtype in pairs.dtypes):
        words = [c for c in sites.columns if sites[c].dtype.kind not in "biuf" and sites[c].is_unique]
        return _complete(pairs, path), (words[0] if words else None)
    pairs = _two_columns(path, False)  # the first line may be an edge
    column = _naming(pairs, sites, path)
    place = {str(name): row for row, name in enumerate(sites[column])}
    above = 0 if set(pairs.iloc[0].astype(str)) <= set(place) else 1
    pairs = _complete(pairs.iloc[above:], path).astype(str)
    unknown = [name for name in pd.unique(pairs.to_numpy().ravel()) if name not in place]
    if unknown:
        raise ValueError(
            f"{path.name} must have row numbers from 0, or names from a column of the data; "
            f"'{column}' lacks {', '.join(map(repr, unknown[:3]))}"
        )
    return pairs.map(place.__getitem__), column


def _two_columns(path: Path, names_first: bool | None) -> pd.DataFrame:
    table = read_table(path, names_first=names_first)
    if table.shape[1] < 2:
        raise ValueError(f"{path.name} must have two columns of sites, got {table.shape[1]}")
    if table.empty:
        raise ValueError(f"{path.name} must have a row for each edge, got none")
    return table.iloc[:, :2].set_axis(["i", "j"], axis=1)


def _complete(pairs: pd.DataFrame, path: Path) -> pd.DataFrame:
    lacking = pairs.index[pairs.isna().any(axis=1)]
    if len(lacking):
        raise ValueError(f"{path.name} must have two sites in every row, but row {lacking[0]} has not")
    return pairs


def _naming(pairs: pd.DataFrame, sites: pd.DataFrame, path: Path) -> str:
    """The column that tells sites apart and has most of the names."""
    names = set(pairs.astype(str).to_numpy().ravel())
    known = {c: len(names & set(sites[c].astype(str))) for c in sites.columns if sites[c].is_unique}
    best = max(known, key=lambda column: known[column], default=None)
    if best is None or not known[best]:
        some = ", ".join(map(repr, sorted(names)[:3]))
        raise ValueError(
            f"{path.name} must have row numbers from 0, or names from a column of the data; "
            f"no column has {some}"
        )
    return best
