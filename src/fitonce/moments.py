"""Columns of times: numbers or dates, in one format and one zone."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd


def as_times(column: pd.Series, time: str) -> pd.Series:
    """Numbers, or moments without a zone; `time` is the column's name, for messages."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    found = column if column.dtype.kind in "iufM" else _moments(column, time)
    if isinstance(found.dtype, pd.DatetimeTZDtype):
        found = found.dt.tz_convert("UTC").dt.tz_localize(None)
    finite = np.isfinite(found.to_numpy(float)) if found.dtype.kind == "f" else found.notna()
    bad = np.flatnonzero(~finite)
    if bad.size:
        cell = column.iloc[bad[0]]
        got = f"an empty cell in row {column.index[bad[0]]}" if pd.isna(cell) else f"{str(cell)!r}"
        raise ValueError(f"'{time}' must be a number or a date in every row, got {got}")
    return found


def _moments(column: pd.Series, time: str) -> pd.Series:
    """Dates in one format for all rows. Where days and months could be exchanged, what rises counts."""
    zones = has_zones(column)
    standard = pd.to_datetime(column, errors="coerce", format="ISO8601", utc=zones)
    if standard.notna().all():
        return standard
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas guesses the format; so do we, twice
        ways = [
            pd.to_datetime(column, errors="coerce", dayfirst=first, utc=zones) for first in (False, True)
        ]
    whole = [found for found in ways if found.notna().all()]
    if not whole:
        return standard
    if len(whole) == 2 and not whole[0].equals(whole[1]):
        rising = [found for found in whole if found.is_monotonic_increasing]
        if len(rising) != 1:
            raise ValueError(
                f"'{time}' could be read with the day or the month first, such as {column.iloc[0]!r}; "
                "write dates as 2024-12-31"
            )
        return rising[0]
    return whole[0]


def has_zones(column: pd.Series) -> bool:
    """Whether times say their zone, so that they can be compared across a change of clocks."""
    if column.dtype.kind in "iufM" or isinstance(column.dtype, pd.PeriodDtype):
        return isinstance(column.dtype, pd.DatetimeTZDtype)
    return bool(column.dropna().astype(str).str.contains(r"(?:Z|[+-]\d{2}:?\d{2})$").any())


def between(times: pd.Series, first: str | None, last: str | None) -> np.ndarray:
    """Which are not before `first` and not after `last`."""
    keep = np.ones(len(times), bool)
    for bound, is_first in ((first, True), (last, False)):
        if bound is None:
            continue
        try:
            edge = _naive(pd.Timestamp(bound)) if times.dtype.kind == "M" else float(bound)
        except (ValueError, TypeError):
            raise ValueError(
                f"a time to choose rows by must be like those of the file, got '{bound}'"
            ) from None
        keep &= (times >= edge).to_numpy() if is_first else (times <= edge).to_numpy()
    return keep


def _naive(moment: pd.Timestamp) -> pd.Timestamp:
    return moment if moment.tz is None else moment.tz_convert("UTC").tz_localize(None)
