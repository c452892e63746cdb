"""Columns of a map: names of sites, what was observed at them, and their regions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import listed
from fitonce.data.cells import as_numbers
from fitonce.data.covariates import with_truths
from fitonce.data.sequences import Sequences, sequences

_NAMED = ("name", "namelsad", "label", "title", "geoid", "id", "code")  # beginnings of usual columns


def require_column(table: pd.DataFrame, name: str | None) -> None:
    """Raise unless the table has the column."""
    if name is None or name in table.columns:
        return
    alike = [column for column in table.columns if str(column).lower() == name.lower()]
    hint = f"did you mean '{alike[0]}'" if alike else f"columns are {listed(table.columns, 20)}"
    raise ValueError(f"'{name}' is not a column; {hint}")


def site_names(
    table: pd.DataFrame, names: Any, others: tuple[str | None, ...], notes: list[str]
) -> tuple[tuple[str, ...], str | None]:
    """The names of the sites, and which columns they come from."""
    if names is not None:
        columns = [names] if isinstance(names, str) else list(names)
        called = _together(table, columns)
        twice = pd.Series(called)[pd.Series(called).duplicated()]
        if len(twice):
            times = called.count(twice.iloc[0])
            raise ValueError(
                f"{_quoted(columns)} must name each site once, but '{twice.iloc[0]}' names {times}"
                f"{_more(table, columns)}"
            )
        return called, _quoted(columns)
    free = [c for c in table.columns if c not in others and table[c].dtype.kind not in "bfM"]
    free = [c for c in free if table[c].notna().all() and table[c].astype(str).is_unique]
    ranked = sorted(free, key=lambda c: (_rank(str(c)), table[c].dtype.kind in "iu"))
    if not ranked:
        return tuple(f"site {number}" for number in range(len(table))), None
    return _together(table, [ranked[0]]), _quoted([ranked[0]])


def _rank(column: str) -> int:
    starts = [place for place, usual in enumerate(_NAMED) if column.lower().startswith(usual)]
    return starts[0] if starts else len(_NAMED)


def _together(table: pd.DataFrame, columns: list[str]) -> tuple[str, ...]:
    cells = [table[column].map(_said) for column in columns]
    return tuple(", ".join(row) for row in zip(*cells, strict=True))


def _said(cell: Any) -> str:
    whole = isinstance(cell, float) and cell == cell and cell % 1 == 0
    return str(int(cell)) if whole else "unnamed" if cell is None or cell != cell else str(cell)


def _more(table: pd.DataFrame, columns: list[str]) -> str:
    """A column that makes names unique, as advice."""
    for other in table.columns:
        if other not in columns and table[other].dtype.kind != "f":
            called = _together(table, [*columns, other])
            if len(set(called)) == len(called):
                return f"; '{','.join([*columns, other])}' together would"
    return ""


def _quoted(columns: list[str]) -> str:
    return " and ".join(f"'{column}'" for column in columns)


def observed_at(
    table: pd.DataFrame,
    counts: str,
    exposure: str | None,
    missing: float | None,
    called: tuple[str, ...],
    notes: list[str],
) -> tuple[Sequences, np.ndarray | None]:
    """What was counted, and exposures; sites without an exposure are missing."""
    values = _numbers(table[counts], called)
    if missing is not None:
        values = np.where(values == missing, np.nan, values)
    known = None
    if exposure is not None:
        known = _numbers(table[exposure], called)
        none = ~(known > 0)
        wrong = np.flatnonzero((none & (values > 0)) | (known < 0))
        if wrong.size:
            site = wrong[0]
            raise ValueError(
                f"'{exposure}' must be positive where something was counted, got {known[site]:g} at "
                f"{called[site]}, which has {values[site]:g}"
            )
        if none.any():
            notes.append(f"without {exposure}, so missing: {listed(np.array(called)[none], 5)}")
        values, known = np.where(none, np.nan, values), np.where(none, 1.0, known)
        notes.append(f"exposure: {exposure}")
    if np.isnan(values).all():
        raise ValueError(f"'{counts}' must have a number for some site, got none")
    return sequences([pd.DataFrame({counts: values})]), known


def with_covariates(
    data: Sequences,
    table: pd.DataFrame,
    columns: tuple[str, ...],
    called: tuple[str, ...],
    notes: list[str],
) -> Sequences:
    """The data with columns of the map as covariates, which must be known at every site."""
    if not columns:
        return data
    for column in columns:
        if column in data.channels:
            raise ValueError(f"'{column}' is what is modelled, and cannot be a covariate of itself")
    truths = with_truths(table[list(columns)])
    known = np.stack([_numbers(truths[column], called) for column in columns], 1)
    for column, values in zip(columns, known.T, strict=True):
        lacking = np.flatnonzero(~np.isfinite(values))
        if lacking.size:
            raise ValueError(
                f"'{column}' must have a number for every site, got {values[lacking[0]]:g} at "
                f"{called[lacking[0]]}"
            )
    notes.append(f"covariates: {', '.join(columns)}")
    return replace(data, covariates=known[None], covariate_names=columns)


def _numbers(column: pd.Series, called: tuple[str, ...]) -> np.ndarray:
    found = as_numbers(column).to_numpy(float, na_value=np.nan)
    bad = np.flatnonzero(
        np.isnan(found) & column.notna().to_numpy() & (column.astype(str) != "").to_numpy()
    )
    if bad.size:
        site = bad[0]
        raise ValueError(
            f"'{column.name}' must hold numbers, got {column.iloc[site]!r} at {called[site]}"
        )
    return found


def region_labels(column: pd.Series, called: tuple[str, ...]) -> tuple[str, ...]:
    """The region of each site."""
    lacking = np.flatnonzero(column.isna().to_numpy())
    if lacking.size:
        raise ValueError(
            f"'{column.name}' must have a region for every site, got none for {called[lacking[0]]}"
        )
    return tuple(_said(cell) for cell in column)
