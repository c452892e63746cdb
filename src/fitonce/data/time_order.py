"""The order of steps in time: one rule for files and for tables in Python.

Times of a sequence increase, and none occurs twice. A file is sorted, with a note. A table in Python is
refused instead: folds, masks and results count rows, which must stay the user's.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fitonce.core.wording import short_name
from fitonce.data.places import in_words
from fitonce.data.times import as_times, looks_like_dates, readings

# Names of columns and indices of numbers that say when.
TIMES = ("time", "date", "t", "step", "timestep", "time_step", "tick", "period", "second", "minute",
         "hour", "day", "week", "month", "quarter", "year")  # fmt: skip

_YEARS = 1500, 2200


def order_in_time(times: pd.Series, labels: pd.Index, called: str, hint: str) -> np.ndarray:
    """The order of rows in time, which refuses a time that occurs twice, by its label; `hint` is a
    sentence that says what to do then."""
    twice = np.flatnonzero(times.duplicated())
    if twice.size:
        raise ValueError(
            f"{called} must differ between the rows of a sequence, but {said(labels[twice[:1]])[0]} "
            f"occurs twice{hint and '. '}{hint}"
        )
    return np.argsort(times.to_numpy(), kind="stable")


def times_of(index: pd.Index, called: str) -> pd.Series | None:
    """The times that an index holds, dates without a zone in UTC; None where it names or numbers rows.
    `called` names it in messages."""
    if isinstance(index, pd.CategoricalIndex):
        index = pd.Index(index.to_numpy(), name=index.name)
    if isinstance(index, pd.MultiIndex):
        return None
    column = pd.Series(index).reset_index(drop=True)
    if isinstance(index, pd.TimedeltaIndex):
        return column
    if isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex)):
        return as_times(column, called)
    if pd.api.types.is_numeric_dtype(index.dtype):
        # Months and hours of a named index may come again.
        timed = (str(index.name).lower() in TIMES or _are_years(column)) and column.notna().all()
        return column.astype(float) if timed and not column.duplicated().any() else None
    if not looks_like_dates(column):
        return None
    found = readings(column)
    rising = [times for times in found if times.is_monotonic_increasing]
    return rising[0] if rising else as_times(column, called) if found else None


def _are_years(column: pd.Series) -> bool:
    """Whether numbers are those of successive years."""
    if not pd.api.types.is_integer_dtype(column.dtype) or column.nunique() < 2:
        return False
    first, last = column.min(), column.max()
    return bool(_YEARS[0] <= first and last <= _YEARS[1] and last - first == column.nunique() - 1)


def require_in_time(index: pd.Index, whose: str, hint: str = "") -> None:
    """Raise unless the times of a table increase and none occurs twice; `whose` rows they are, and
    `hint` is what to do where one does."""
    called = f"dates of {whose}"
    times = times_of(index, called)
    if times is None:
        return
    order_in_time(times, index, called, hint)
    moments = times.to_numpy()
    back = np.flatnonzero(moments[1:] < moments[:-1])
    if back.size:
        before, after = said(index[[back[0], back[0] + 1]])
        text = index.dtype.kind not in "iufmM" and not isinstance(index, pd.PeriodIndex)
        how = "pd.to_datetime, then data.sort_index()" if text else "data.sort_index()"
        raise ValueError(
            f"{called} must increase from row to row, but {before} is followed by {after}. Sort the "
            f"rows ({how}), or drop the dates (data.reset_index(drop=True)) if rows are in order"
        )


def said(index: pd.Index) -> list[str]:
    """Labels of an index in messages."""
    return [short_name(one) for one in in_words(index)]
