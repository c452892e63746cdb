"""Times: reading them, and the regular grid that they lie on.

The step of a grid is a number, a fixed duration, or calendar months.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

_QUARTER = r"\d{4}-?Q[1-4]"
_MONTH = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_DATE = "|".join(
    [
        r"\d{4}-\d{1,2}-\d", r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}", r"\d{1,2}:\d{2}", r"\d{4}/\d{1,2}/\d",
        r"^\d{4}-\d{2}$", rf"^{_MONTH}[a-z]*[ -]\d{{4}}$", rf"^\d{{4}}[ -]{_MONTH}[a-z]*$",
        rf"^\d{{1,2}}[ -]{_MONTH}[a-z]*[ -]\d{{4}}$", rf"^{_MONTH}[a-z]* \d{{1,2}},? \d{{4}}$",
        rf"^{_QUARTER}$", r"^(?:1[89]|20)\d\d(?:0[1-9]|1[012])(?:0[1-9]|[12]\d|3[01])$",
    ]
)  # fmt: skip
# After a clock time: the end of 31-12-2024 is none.
_ZONE = r"(?:\d:\d{2}(?::\d{2}(?:[.,]\d+)?)?|T\d{2,6}) ?(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)$"
_NUMBERED = r"^\s*(\d{1,2})[./-](\d{1,2})[./-]\d"  # day and month, or month and day


@dataclass(frozen=True, eq=False)
class TimeGrid:
    """Rows on a regular grid.

    Attributes:
        places: (rows,) the step of each row, increasing from 0.
        known: (rows,) the times of the rows.
        step: between neighbours: a number, a `Timedelta`, months, or days of the week.
    """

    places: np.ndarray
    known: pd.Index
    step: float | pd.Timedelta | pd.DateOffset

    def times(self) -> pd.Index:
        """(steps,) times of all steps; those of rows are unchanged."""
        count = int(self.places[-1]) + 1
        lacking = np.setdiff1d(np.arange(count), self.places)
        added = pd.Index([self.known[0] + int(place) * self.step for place in lacking])
        together = self.known.append(added.astype(self.known.dtype))
        return together[np.argsort(np.concatenate([self.places, lacking]))]


def regular_grid(times: pd.Series) -> TimeGrid | None:
    """The grid that increasing times lie on; None if they do not lie on one."""
    known = pd.Index(times)
    if times.dtype.kind != "M":
        fit = _places(times.to_numpy(float))
        return None if fit is None else TimeGrid(fit[0], known, float(fit[1]))
    fit = _places(times.to_numpy().astype("datetime64[ns]").astype(np.int64))
    if fit is not None:
        return TimeGrid(fit[0], known, pd.Timedelta(int(fit[1]), "ns"))
    return _monthly(pd.DatetimeIndex(known))


def weekday_grid(times: pd.Series) -> TimeGrid | None:
    """The grid of the days of the week on which increasing dates fall; None if some share a day."""
    known = pd.DatetimeIndex(times)
    days = known.normalize()
    if not ((days[1:] > days[:-1]).all() and (known - days == known[0] - days[0]).all()):
        return None
    mask = np.isin(np.arange(7), known.day_of_week)
    dates = days.to_numpy().astype("datetime64[D]")
    places = np.busday_count(dates[0], dates, weekmask=mask)
    step: Any = pd.offsets.CustomBusinessDay(weekmask="".join("01"[int(day)] for day in mask))
    return TimeGrid(places, known, step)


def _places(ticks: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Multiples of a common step for increasing numbers, and the step; None if there is none."""
    steps = np.diff(ticks)
    step = np.median(steps) if (steps == np.median(steps)).mean() > 0.5 else steps.min()
    with np.errstate(invalid="ignore", over="ignore"):
        places = (ticks - ticks[0]) / step
    whole = np.round(places)
    if not np.abs(places - whole).max() <= 1e-6 or (np.diff(whole) <= 0).any():
        return None
    return whole.astype(np.int64), step


def _monthly(known: pd.DatetimeIndex) -> TimeGrid | None:
    """A grid of months, quarters or years: the same day and time in each, or the last day of each."""
    last = bool((known.day == known.days_in_month).all())
    same_day = (known.day == known.day[0]).all() or last
    if not same_day or not (known - known.normalize() == known[0] - known[0].normalize()).all():
        return None
    fit = _places((12 * known.year + known.month).to_numpy(np.int64))
    if fit is None:
        return None
    day: dict[str, Any] = {"day": 31} if last else {}
    return TimeGrid(fit[0], known, pd.DateOffset(months=int(fit[1]), **day))


def looks_like_dates(column: pd.Series) -> bool:
    """Whether cells are dates, or text that can be read as such."""
    if column.dtype.kind == "M":
        return True
    if column.dtype.kind in "biufc":
        return False
    sample = column.dropna().astype(str).head(20)
    if sample.empty or not sample.str.contains(_DATE).all():
        return False
    times = pd.to_datetime(_plain(sample), errors="coerce", format="mixed", utc=True)
    return bool(times.notna().all())


def as_times(column: pd.Series, called: str, groups: pd.Series | None = None) -> pd.Series:
    """The column as numbers, or as times without a zone (UTC); `called` names it in messages,
    `groups` is the sequence of each row, if there are several."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    times = column if column.dtype.kind in "iufM" else _parsed(column, called, groups)
    if isinstance(times.dtype, pd.DatetimeTZDtype):
        times = times.dt.tz_convert("UTC").dt.tz_localize(None)
    finite = np.isfinite(times.to_numpy(float)) if times.dtype.kind == "f" else times.notna()
    bad = np.flatnonzero(~finite)
    if bad.size:
        cell = column.iloc[bad[0]]
        got = f"an empty cell in row {column.index[bad[0]]}" if pd.isna(cell) else f"{str(cell)!r}"
        raise ValueError(f"{called} must be a number or a date in every row, got {got}")
    return times


def _parsed(column: pd.Series, called: str, groups: pd.Series | None) -> pd.Series:
    """Dates in one format for all rows. If day and month could be swapped, the order that increases in
    every sequence wins."""
    found = readings(column)
    if len(found) == 2:
        found = [reading for reading in found if _increases(reading, groups)]
        if len(found) != 1:
            raise ValueError(
                f"{called} could be read with the day or the month first, such as {column.iloc[0]!r}; "
                "write dates as 2024-12-31"
            )
    if found:
        return found[0]
    return pd.to_datetime(_plain(column), errors="coerce", format="ISO8601", utc=has_zones(column))


def readings(column: pd.Series) -> list[pd.Series]:
    """What text may say when read as dates in one format: two where day and month could be swapped, none
    where a cell is no date."""
    zones, column = has_zones(column), _plain(column)
    standard = pd.to_datetime(column, errors="coerce", format="ISO8601", utc=zones)
    if standard.notna().all():
        return [standard]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas warns that it guesses the format
        found = [
            pd.to_datetime(column, errors="coerce", dayfirst=first, utc=zones) for first in (False, True)
        ]
    found = [reading for reading in found if reading.notna().all()]
    return found[:1] if len(found) == 2 and found[0].equals(found[1]) else found


def _plain(column: pd.Series) -> pd.Series:
    """Text with quarters as their first month, and its time zone as ISO 8601 writes it, not in words."""
    if column.dtype.kind not in "biufcmM" and column.astype(str).str.fullmatch(_QUARTER).all():
        return column.astype(str).map(lambda cell: f"{cell[:4]}-{3 * int(cell[-1]) - 2:02d}")
    if not has_zones(column):
        return column
    return column.astype(str).str.replace(r"\s*(?:UTC|GMT)\s*$", "Z", regex=True)


def _increases(times: pd.Series, groups: pd.Series | None) -> bool:
    if groups is None:
        return times.is_monotonic_increasing
    return bool(times.groupby(groups, sort=False, observed=True).is_monotonic_increasing.all())


def day_first(column: pd.Series, times: pd.Series) -> bool | None:
    """Whether the dates of a column, which were read as `times`, have the day before the month; None
    where none of them tells."""
    if column.dtype.kind in "iufM" or isinstance(column.dtype, pd.PeriodDtype):
        return None
    pairs = column.astype(str).str.extract(_NUMBERED).astype(float)
    telling = (pairs[0] != pairs[1]) & pairs.notna().all(axis=1)
    if not telling.any():
        return None
    return bool((times.dt.month == pairs[1])[telling].mean() > 0.5)


def has_zones(column: pd.Series) -> bool:
    """Whether times have a time zone, so that they can be compared across clock changes."""
    if column.dtype.kind in "iufM" or isinstance(column.dtype, pd.PeriodDtype):
        return isinstance(column.dtype, pd.DatetimeTZDtype)
    return bool(column.dropna().astype(str).str.strip().str.contains(_ZONE).any())
