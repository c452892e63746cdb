"""Dates that a table lacks: its rows are read as consecutive steps, whatever their dates are."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from fitonce.core.wording import counted
from fitonce.data.times import regular_grid

_FEWEST = 4  # rows that show a rhythm
_MOSTLY = 0.5  # of the rows follow on the one before: other dates are irregular
_MOST = 20.0  # steps without a row, times the rows
_DAY, _FEW_DAYS, _WEEKS = pd.Timedelta(days=1), pd.Timedelta(days=3), pd.Timedelta(days=13)


class GapsWarning(UserWarning):
    """Dates are regular but for gaps."""


class Gaps(NamedTuple):
    """What a regular time lacks: how many steps, the first of them, and the frequency of the steps as
    pandas calls it (empty where it has no such text)."""

    steps: int
    first: pd.Timestamp
    frequency: str


def warn_of_gaps(indices: Iterable[pd.Index]) -> None:
    """Warn if the dates of tables lack steps of an otherwise regular time."""
    found = [gaps for gaps in map(gaps_of, indices) if gaps is not None]
    if not found:
        return
    lacking, (_, first, frequency) = sum(gaps.steps for gaps in found), found[0]
    shown = f"{first:%Y-%m-%d}" if first == first.normalize() else f"{first:%Y-%m-%d %H:%M:%S}"
    several = f" in {len(found)} sequences" if len(found) > 1 else ""
    how = f"data.asfreq({frequency!r})" if frequency else "data.reindex(...) with all steps"
    warnings.warn(
        f"dates of data lack {counted(lacking, 'step')}{several}, the first of them {shown}: rows "
        "beside a gap are read as neighbours; if steps are missing, give them rows of NaN, as "
        f"{how} does",
        GapsWarning,
        stacklevel=3,
    )


def gaps_of(index: pd.Index) -> Gaps | None:
    """The gaps of dates that are regular but for them; None of all others."""
    if isinstance(index, pd.PeriodIndex):  # whose `asfreq` converts periods and adds none
        without = gaps_of(index.to_timestamp())
        return None if without is None else without._replace(frequency="")
    if not isinstance(index, pd.DatetimeIndex) or index.freq is not None or len(index) < _FEWEST:
        return None
    # Days of a time zone are regular by the clock, and hours around its changes are not.
    readings = [index] if index.tz is None else [index, index.tz_convert("UTC")]
    found = [(_gaps_in(reading.tz_localize(None)), reading.tz) for reading in readings]
    if any(gaps is None for gaps, _ in found):
        return None
    some = [(gaps, zone) for gaps, zone in found if isinstance(gaps, Gaps)]
    if not some:
        return None
    least, zone = min(some, key=lambda pair: pair[0].steps)
    if zone is index.tz:
        return least
    first = least.first.tz_localize(zone).tz_convert(index.tz).tz_localize(None)
    return least._replace(first=first)  # by the clock of the user's table


def _gaps_in(times: pd.DatetimeIndex) -> Gaps | str | None:
    """None where there are no gaps; a word where times are not regular."""
    if times.hasnans or not (times.is_unique and times.is_monotonic_increasing):
        return "unordered"
    grid = regular_grid(times.to_series())
    if grid is None or (np.diff(grid.places) == 1).mean() <= _MOSTLY:
        return "irregular"
    steps = int(grid.places[-1]) + 1
    if steps == len(times):
        return None
    if steps > _MOST * len(times):
        return "irregular"
    lacking = np.setdiff1d(np.arange(steps), grid.places)
    start, step = times[0], cast("Any", grid.step)
    if not isinstance(step, pd.Timedelta):
        return Gaps(len(lacking), start + int(lacking[0]) * step, _months(times, step))
    missing = pd.DatetimeIndex(start + lacking * step)
    expected = _expected(times, missing, step)
    if not expected.any():
        return None
    weekdays = np.array_equal(np.unique(times.day_of_week), np.arange(5))
    business = step == _DAY and weekdays and times[-1] - start >= _WEEKS
    frequency = "B" if business else _of(step) if expected.all() else ""
    return Gaps(int(expected.sum()), missing[expected][0], frequency)


def _of(step: pd.Timedelta) -> str:
    days = pd.offsets.Day(step // _DAY) if step % _DAY == pd.Timedelta(0) else None
    return str((days or pd.tseries.frequencies.to_offset(step)).freqstr)


def _expected(times: pd.DatetimeIndex, missing: pd.DatetimeIndex, step: pd.Timedelta) -> np.ndarray:
    """Which of the steps without a row are not at a time of day, or on a day of the week, that never has
    rows: nights and weekends are closed."""
    fine, span = np.ones(len(missing), bool), times[-1] - times[0]
    if step < _DAY and span >= _FEW_DAYS:
        fine &= (missing - missing.normalize()).isin(times - times.normalize())
    if step <= _DAY and span >= _WEEKS:
        fine &= missing.day_of_week.isin(times.day_of_week)
    return fine


def _months(times: pd.DatetimeIndex, step: Any) -> str:
    if (times.day == 1).all():
        return str(pd.offsets.MonthBegin(step.months).freqstr)
    return str(pd.offsets.MonthEnd(step.months).freqstr) if times.is_month_end.all() else ""
