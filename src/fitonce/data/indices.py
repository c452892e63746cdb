"""Arrays of sites and steps with the index that the user's tables had: pandas in, pandas out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fitonce.data.sequences import Collection, Sequences
from fitonce.data.time_order import times_of
from fitonce.data.times import TimeGrid, has_zones, regular_grid, weekday_grid

_WEEKS = pd.Timedelta(days=13)  # that show which days of the week have steps


def indices_of(data: Collection) -> tuple[pd.Index, ...] | None:
    """The index of each sequence; None where not all were tables of pandas."""
    return data.indices if isinstance(data, Sequences) else None


def site_index(data: Collection) -> pd.Index | None:
    """The index of all sites, with the names of sequences before it where there are several; None where
    not all were tables of pandas."""
    indices = indices_of(data)
    if indices is None or len(indices) == 1:
        return None if indices is None else indices[0]
    names = list(range(len(indices))) if data.names is None else list(data.names.sequences)
    which = np.repeat(np.arange(len(names)), data.lengths)
    steps = indices[0].append(list(indices[1:]))
    levels = [steps.get_level_values(level) for level in range(steps.nlevels)]
    return pd.MultiIndex.from_arrays([pd.Index(names)[which], *levels], names=["sequence", *steps.names])


def of_states(probabilities: np.ndarray, index: pd.Index | None) -> Any:
    """(n, K) probabilities of states, as a table where there is an index."""
    if index is None:
        return probabilities
    columns = pd.RangeIndex(probabilities.shape[1], name="state")
    return pd.DataFrame(probabilities, index=index, columns=columns)


def continued(index: pd.Index, steps: int) -> pd.Index | None:
    """The next steps of an index that goes on regularly; None of one that does not."""
    if isinstance(index, pd.PeriodIndex):
        return pd.period_range(index[-1] + 1, periods=steps, freq=index.freq, name=index.name)
    if isinstance(index, pd.DatetimeIndex):
        return _later(index, steps)
    if not (index.dtype.kind in "iuf" and len(index) > 1):
        return None
    numbers = index.to_numpy()
    gaps = np.diff(numbers)
    if not np.allclose(gaps, gaps[0], rtol=1e-9, atol=0.0):
        return None
    return pd.Index(numbers[-1] + gaps[0] * np.arange(1, steps + 1), name=index.name)


def dated(index: pd.Index) -> pd.Index:
    """Dates where an index has text or objects that can be read as such; any other as it is."""
    if index.dtype.kind in "iufmMb" or isinstance(index, (pd.PeriodIndex, pd.MultiIndex)):
        return index
    times = times_of(index, "dates of data")
    if times is None:
        return index
    found = pd.DatetimeIndex(times, name=index.name)
    return found.tz_localize("UTC") if has_zones(pd.Series(index)) and found.tz is None else found


def _without_gaps(grid: TimeGrid | None) -> bool:
    return grid is not None and bool(grid.places[-1] == len(grid.places) - 1)


def _later(index: pd.DatetimeIndex, steps: int) -> pd.DatetimeIndex | None:
    """The next times of regular ones, in days of the clock where there is a time zone."""
    if index.freq is not None:
        return pd.date_range(index[-1], periods=steps + 1, freq=index.freq, name=index.name)[1:]
    local = index.tz_localize(None)
    if len(local) < 3 or not (local.is_unique and local.is_monotonic_increasing):
        return None
    grid = regular_grid(local.to_series())
    if not _without_gaps(grid) and local[-1] - local[0] >= _WEEKS:
        grid = weekday_grid(local.to_series())
    if grid is None or not _without_gaps(grid):
        return None
    step: Any = grid.step
    times = [local[0] + number * step for number in range(len(local), len(local) + steps)]
    found = pd.DatetimeIndex(times, name=index.name).as_unit(index.unit)
    if index.tz is None:
        return found
    return found.tz_localize(index.tz, ambiguous=np.ones(steps, bool), nonexistent="shift_forward")
