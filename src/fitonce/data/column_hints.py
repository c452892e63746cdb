"""What a table looks like beyond what was said of it: columns that number sequences or steps, and times
that stop every night or weekend. Each is pointed out with the option that it probably belongs to."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from fitonce.core.wording import counted
from fitonce.data.times import weekday_grid

_OF_SEQUENCES = re.compile(
    r"(?i:(^|_)(id|seq|sequence|series|subject|subj|group|trial|session|run|animal|patient|person|user)(_|$))"
    r"|[a-z]I[Dd]$"
)
PERIODS = ("day", "week")  # to group by
_FEW_ROWS = 6
_MANY_MISSING = 0.2  # of the steps: gaps that are worth a word
_NIGHT = 4  # hours of the day without a row
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def hints(table: pd.DataFrame, modelled: list[str], others: list[str], grouped: bool) -> list[str]:
    """Sentences on columns: `modelled` without having been named, and `others` without any role; whether
    sequences are told apart."""
    if len(table) < _FEW_ROWS:
        return []
    found = []
    for name in [*modelled, *others]:
        taken = "is modelled as a number" if name in modelled else "is not used"
        if not grouped and _tells_sequences_apart(table[name], name):
            found.append(f"'{name}' {taken}, but looks like a name of sequences: --group {name}")
        elif name in modelled and _counts_steps(table[name]):
            found.append(
                f"'{name}' {taken}, but only counts rows: --time {name}, if these are the steps"
            )
    if found and modelled:
        named = [name for name in modelled if not any(f"'{name}' is" in hint for hint in found)]
        found += (
            [f"to model the others only: --columns {','.join(named)}"] if 0 < len(named) < 10 else []
        )
    return found


def _tells_sequences_apart(column: pd.Series, name: str) -> bool:
    """Whether a column with such a name has one value for each of several stretches of rows."""
    if column.isna().any() or not _OF_SEQUENCES.search(name):
        return False
    runs = 1 + int((column.to_numpy()[1:] != column.to_numpy()[:-1]).sum())
    return 1 < runs == column.nunique() <= len(column) // 2


def _counts_steps(column: pd.Series) -> bool:
    """Whether numbers go up by one from row to row, or begin again where they began."""
    if column.dtype.kind not in "iuf" or column.isna().any():
        return False
    values = column.to_numpy(float)
    steps = np.diff(values)
    again = (values[1:] == values[0]) & (steps < 0)
    return bool(((steps == 1) | again).all() and (steps == 1).mean() > 0.6)


def rhythm_hint(times: pd.Series, inserted: int) -> list[str]:
    """A sentence on nights or weekends, if the times of the rows stop there and much became missing."""
    if times.dtype.kind != "M" or inserted < _MANY_MISSING * (len(times) + inserted):
        return []
    steps = times.sort_values().diff().dropna()
    within = steps[steps > pd.Timedelta(0)].min()
    missing = f"{inserted:,} of {len(times) + inserted:,} steps became missing"
    hours = np.unique(times.dt.hour)
    if within <= pd.Timedelta(hours=1) and 24 - len(hours) >= _NIGHT:
        advice = _advice("--no-gaps", "night", "day")
        return [f"no row is from {_absent_hours(hours)} on any day, and {missing}; {advice}"]
    if within <= pd.Timedelta(days=1) and _of_weekdays(times):
        days = np.unique(times.dt.day_of_week)
        absent = " or ".join(_DAYS[day] for day in range(7) if day not in days)
        option = "--weekdays" if within == pd.Timedelta(days=1) else "--no-gaps"
        advice = _advice(option, "weekend", "week")
        return [f"no row is from a {absent}, and {missing}; {advice}"]
    return []


def closed_hint(times: pd.Series) -> list[str]:
    """A sentence on weekdays without rows, where rows of weekdays are taken as consecutive steps."""
    if times.dtype.kind != "M" or not _of_weekdays(times):
        return []
    grid = weekday_grid(times.sort_values())
    absent = 0 if grid is None else int(grid.places[-1]) + 1 - len(times)
    if absent <= 0:
        return []
    days = f"{counted(absent, 'weekday')} without a row {'is' if absent == 1 else 'are'}"
    return [f"{days} closed up like the weekends; --weekdays makes such days missing"]


def _of_weekdays(times: pd.Series) -> bool:
    """Whether rows are of more than two weeks, and of five or six days in all of them."""
    days = times.dt.day_of_week.nunique()
    return days in (5, 6) and times.max() - times.min() > pd.Timedelta(days=14)


def _advice(option: str, gap: str, period: str) -> str:
    """Which of the three readings is for what."""
    return (
        f"use {option} if nothing happens over the {gap} (states go on where they stopped, as in "
        f"opening hours and trading days), --group {period} if each {period} starts afresh, and neither "
        "if states go on changing while nobody counts"
    )


def _absent_hours(hours: np.ndarray) -> str:
    """The longest time of day without rows, "18:00 to 8:00"."""
    around = np.append(hours, hours[0] + 24)
    place = int(np.argmax(np.diff(around)))
    return f"{(around[place] + 1) % 24}:00 to {around[place + 1] % 24}:00"


def with_periods(table: pd.DataFrame, group: str, times: pd.Series) -> pd.DataFrame:
    """The table with a column of calendar days or weeks (their Mondays), to group by."""
    if times.dtype.kind != "M":
        raise ValueError(f"--group {group} needs a column of dates, or a column of that name")
    days = times.dt.normalize()
    if group == "week":
        days = days - pd.to_timedelta(days.dt.day_of_week, unit="D")
    return table.assign(**{group: days.dt.strftime("%Y-%m-%d")})
