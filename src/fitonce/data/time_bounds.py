"""Rows chosen by time: what a bound such as 2024-02, Feb 2024 or 2024Q1 names."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd

_NUMBERED = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4}|\d{2})(?!\d)")
# Spellings that pandas does not read, or reads as a day of the first century.
_WRITTEN = [
    (re.compile(r"(\d{1,2})[./ -](\d{4})"), r"\2-\1"),
    (re.compile(r"(\d{4})[./ -](\d{1,2})"), r"\1-\2"),
    (re.compile(r"(\d{4})[./ -]?Q([1-4])", re.IGNORECASE), r"\1Q\2"),
    (re.compile(r"(?:Q([1-4])|([1-4])Q)[./ -]?(\d{4})", re.IGNORECASE), r"\3Q\1\2"),
    (re.compile(r"(\d{4})[./ -]*([a-z]{3,9})\.?", re.IGNORECASE), r"\2 \1"),
    (re.compile(r"([a-z]{3,9})[./, -]*(\d{4})", re.IGNORECASE), r"\1 \2"),
]


def between(
    times: pd.Series,
    first: str | None,
    last: str | None,
    day_first: bool | None = None,
    zoned: bool = False,
) -> np.ndarray:
    """Mask of the times that are not before `first` and not after `last`, whose day, month, quarter or
    year is meant as a whole unless it has a time of day.

    Args:
        times: of the rows, as numbers or in UTC.
        first: the first to keep, as text.
        last: the last.
        day_first: whether the dates of the file have the day before the month; None: they do not tell.
        zoned: whether they have a time zone.
    """
    keep = np.ones(len(times), bool)
    if first is not None:
        keep &= (times >= _named(times, first, day_first, zoned)[0]).to_numpy()
    if last is not None:
        start, end = _named(times, last, day_first, zoned)
        keep &= (times <= start if end is None else times < end).to_numpy()
    return keep


def _named(times: pd.Series, text: str, day_first: bool | None, zoned: bool) -> tuple[Any, Any]:
    """Where the period that a bound names starts, and where it ends; None for a number or a moment."""
    if times.dtype.kind != "M":
        return _number(times, text), None
    written = text.strip()
    for form, plain in _WRITTEN:
        written = form.sub(plain, written) if form.fullmatch(written) else written
    try:
        period: Any = pd.Period(written)
        start, end = period.start_time, (period + 1).start_time
    except (ValueError, TypeError, OverflowError, AttributeError):  # NaT has no start
        raise _unlike(times, text) from None
    if period.year < 100:  # where none is given: a time of day, a day of any year
        raise _unlike(times, text)
    length = end - start
    if length > pd.Timedelta(days=1):
        return start, end
    moment = _read(written, _day_leads(written, day_first))
    if moment is None:
        raise _unlike(times, text)
    if moment.tz is not None:
        if not zoned:
            raise ValueError(
                f"a time to choose rows by must have no time zone, as those of the file, got '{text}'"
            )
        moment = moment.tz_convert("UTC").tz_localize(None)
    return moment, moment + length if length == pd.Timedelta(days=1) else None


def _number(times: pd.Series, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _unlike(times, text) from None
    if not np.isfinite(number):
        raise _unlike(times, text)
    return number


def _unlike(times: pd.Series, text: str) -> ValueError:
    example = f"{times.iloc[0]:%Y-%m-%d}" if times.dtype.kind == "M" else str(times.iloc[0])
    return ValueError(
        f"a time to choose rows by must be like those of the file, such as {example}, got '{text}'"
    )


def _read(text: str, day_first: bool) -> pd.Timestamp | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a day above 12 where months are first
        try:
            return pd.to_datetime(text, dayfirst=day_first)
        except (ValueError, OverflowError):
            return None


def _day_leads(text: str, day_first: bool | None) -> bool:
    """Whether the first of two numbers is the day, as in the file or else as the numbers tell; False
    where a date does not start with two numbers."""
    numbered = _NUMBERED.match(text)
    if numbered is None or numbered[1] == numbered[2]:
        return False
    pair = int(numbered[1]), int(numbered[2])
    possible = [leads for leads in (True, False) if pair[leads] <= 12]
    if day_first in possible:
        return bool(day_first)
    read = [f"{_read(text, leads):%Y-%m-%d}" for leads in possible]
    if day_first is not None and possible:
        order = "day" if day_first else "month"
        raise ValueError(
            f"'{text}' has no month {pair[day_first]}, and the dates of the file have the {order} "
            f"first; write it as {read[0]} if that is meant"
        )
    if len(possible) == 2:
        raise ValueError(
            f"'{text}' could be read with the day or the month first; write it as {' or '.join(read)}"
        )
    return bool(possible and possible[0])
