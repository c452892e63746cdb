"""Regular times: which step of a grid each row is at, and what times the steps between them have.

A grid is of numbers, of stretches of time of one length, or of the calendar's months, which have not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
import numpy as np
import pandas as pd
import warnings


@dataclass(frozen=True, eq=False)
class TimeGrid:
    """Rows on a regular grid.

    Attributes:
        places: (rows,) the step that each row is at, rising from 0.
        known: (rows,) their times.
        step: between neighbours: a number, a `Timedelta`, or months.
    """

    places: np.ndarray
    known: pd.Index
    step: float | pd.Timedelta | pd.DateOffset

    def times(self) -> pd.Index:
        """Of all steps; those of rows as they are."""
        count = int(self.places[-1]) + 1
        lacking = np.setdiff1d(np.arange(count), self.places)
        added = pd.Index([self.known[0] + int(place) * self.step for place in lacking])
        together = self.known.append(added.astype(self.known.dtype))
        return together[np.argsort(np.concatenate([self.places, lacking]))]


def regular_grid(times: pd.Series) -> TimeGrid | None:
    """The grid that rising times lie on; None where they do not lie on one."""
    known = pd.Index(times)
    if times.dtype.kind != "M":
        found = _places(times.to_numpy(float))
        return None if found is None else TimeGrid(found[0], known, float(found[1]))
    found = _places(times.to_numpy().astype("datetime64[ns]").astype(np.int64))
    if found is not None:
        return TimeGrid(found[0], known, pd.Timedelta(int(found[1]), "ns"))
    return _monthly(pd.DatetimeIndex(known))


def _places(ticks: np.ndarray) -> tuple[np.ndarray, float] | None:
    steps = np.diff(ticks)
    step = np.median(steps) if (steps == np.median(steps)).mean() > 0.5 else steps.min()
    with np.errstate(invalid="ignore", over="ignore"):
        places = (ticks - ticks[0]) / step
    whole = np.round(places)
    if not np.abs(places - whole).max() <= 1e-6 or (np.diff(whole) <= 0).any():
        return None
    return whole.astype(np.int64), step


def _monthly(known: pd.DatetimeIndex) -> TimeGrid | None:
    """Months, quarters or years: the same day and hour of each, or the last day of each."""
    last = bool((known.day == known.days_in_month).all())
    same_day = (known.day == known.day[0]).all() or last
    if not same_day or not (known - known.normalize() == known[0] - known[0].normalize()).all():
        return None
    found = _places((12 * known.year + known.month).to_numpy(np.int64))
    if found is None:
        return None
    day: dict[str, Any] = {"day": 31} if last else {}
    return TimeGrid(found[0], known, pd.DateOffset(months=int(found[1]), **day))


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
