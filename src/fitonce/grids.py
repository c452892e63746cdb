"""Regular times: which step of a grid each row is at, and what times the steps between them have.

A grid is of numbers, of stretches of time of one length, or of the calendar's months, which have not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True, eq=False)
class Grid:
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


def regular_grid(times: pd.Series) -> Grid | None:
    """The grid that rising times lie on; None where they do not lie on one."""
    known = pd.Index(times)
    if times.dtype.kind != "M":
        found = _places(times.to_numpy(float))
        return None if found is None else Grid(found[0], known, float(found[1]))
    found = _places(times.to_numpy().astype("datetime64[ns]").astype(np.int64))
    if found is not None:
        return Grid(found[0], known, pd.Timedelta(int(found[1]), "ns"))
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


def _monthly(known: pd.DatetimeIndex) -> Grid | None:
    """Months, quarters or years: the same day and hour of each, or the last day of each."""
    last = bool((known.day == known.days_in_month).all())
    same_day = (known.day == known.day[0]).all() or last
    if not same_day or not (known - known.normalize() == known[0] - known[0].normalize()).all():
        return None
    found = _places((12 * known.year + known.month).to_numpy(np.int64))
    if found is None:
        return None
    day: dict[str, Any] = {"day": 31} if last else {}
    return Grid(found[0], known, pd.DateOffset(months=int(found[1]), **day))
