"""What comes beside data is laid beside it by its own index: one rule for every door.

A table or series with the labels of the data, such as dates or names of sites, is put into their order,
whatever order it has. Labels that are lacking, or come twice, are refused by name. An index 0, 1, 2, ...
beside other labels is none: such tables go by position, as arrays do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import counted, shortened
from fitonce.data.time_order import require_in_time, said
from fitonce.data.times import as_times, has_zones, looks_like_dates

_CLOSE = 1e-6  # of the distance of neighbours: numbers in files are rounded


def aligned(given: Any, labels: pd.Index | None, name: str, whose: str = "the data") -> Any:
    """A table or series in the order of `labels`, those of the data (None: arrays, which have none);
    anything else as it is. `name` and `whose` name both sides in messages."""
    if not isinstance(given, (pd.DataFrame, pd.Series)):
        return given
    given = with_dates(given, labels)
    own = given.index
    if labels is None:
        _require_order(own, name, whose)
        return given
    if own.equals(labels):
        return given
    unlabelled = _counts(own) and not (_are_rows(labels) and labels.isin(own).all())
    if unlabelled or (_are_rows(labels) and not _are_numbers(own)):
        require_in_time(own, name)
        return given
    return given.iloc[_places(own, labels, name, whose)]


def site_labels(sites: Any, names: tuple[Any, ...] | None) -> pd.Index | None:
    """What a map or a fit calls its sites, or else the `names` of their graph; None: numbers only."""
    named = getattr(getattr(sites, "data", None), "names", None)
    own = getattr(named, "sites", None) or names
    return pd.Index(own, tupleize_cols=False) if own else None


def require_same_order(labels: pd.Index, sites: pd.Index) -> None:
    """Raise if the data call sites as the graph does, but have them in another order."""
    if labels.equals(sites) or _counts(labels):
        return
    if isinstance(labels, pd.MultiIndex) or isinstance(sites, pd.MultiIndex):
        return
    ours, theirs = ([str(one) for one in index] for index in (labels, sites))
    apart = [place for place, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
    # Numbers from 0 and codes such as 1, 2, ... may have some in common by chance.
    alike_named = set(ours) == set(theirs) or not (_are_numbers(sites) or set(ours).isdisjoint(theirs))
    if apart and alike_named:
        wanted, came = shortened(theirs[apart[0]]), shortened(ours[apart[0]])
        raise ValueError(
            f"data must have its sites in the order of the graph, whose site {apart[0]} is "
            f"'{wanted}', got '{came}'; sort the data by the names of the graph, or "
            "drop its index (data.reset_index(drop=True)) if it has the right order"
        )


def require_after(given: Any, past: pd.Index, name: str) -> None:
    """Raise unless dates of what comes beside further steps are after those of the data."""
    if not isinstance(given, (pd.DataFrame, pd.Series)):
        return
    own = with_dates(given, past).index
    if _counts(own) or _are_rows(past) or len(own) == 0:
        return
    first, last = alike(own, past[-1:], name, "the data")
    if not first[0] > last[0]:
        raise ValueError(
            f"{name} must be of steps after {said(past[-1:])[0]}, the last of the data, got {_span(own)}"
        )


def _require_order(own: pd.Index, name: str, whose: str) -> None:
    """Raise where labels show that rows are not in order, beside arrays without labels."""
    require_in_time(own, name)
    back = np.flatnonzero(np.diff(own.to_numpy()) < 0) if _are_rows(own) else np.zeros(0, int)
    if back.size:
        raise ValueError(
            f"{name} must have rows in order, as {whose} has no index to find them by, but row "
            f"{own[back[0]]} is followed by {own[back[0] + 1]}"
        )


def with_dates(given: Any, labels: pd.Index | None) -> Any:
    """A table without labels of its own, labelled by its column that has them: the one that is called as
    the labels of the data are, or else the one column of dates."""
    if not isinstance(given, pd.DataFrame) or not _counts(given.index):
        return given
    called = None if labels is None or labels.name is None else str(labels.name)
    named = [column for column in given.columns if str(column) == called]
    named = named or [column for column in given.columns if looks_like_dates(given[column])]
    return given.set_index(named[0]) if len(named) == 1 and given.shape[1] > 1 else given


def _counts(index: pd.Index) -> bool:
    """Whether labels only count rows."""
    return index.name is None and index.equals(pd.RangeIndex(len(index)))


def _are_numbers(index: pd.Index) -> bool:
    return not isinstance(index, pd.MultiIndex) and pd.api.types.is_numeric_dtype(index.dtype)


def _are_rows(index: pd.Index) -> bool:
    """Whether labels are numbers of rows, perhaps of a larger table."""
    return index.name is None and pd.api.types.is_integer_dtype(index.dtype)


def _places(own: pd.Index, labels: pd.Index, name: str, whose: str) -> np.ndarray:
    """The row of each label."""
    found = alike(own, labels, name, whose)
    for index, shown, side in ((found[0], own, name), (found[1], labels, whose)):
        twice = np.flatnonzero(index.duplicated())
        if twice.size:
            raise ValueError(
                f"{name} cannot be laid beside {whose}, as {said(shown[twice[:1]])[0]} occurs twice in "
                f"{side}"
            )
    places = _located(*found)
    lacking = np.flatnonzero(places < 0)
    if lacking.size:
        first = said(labels[lacking[:1]])[0]
        more = f" and {counted(lacking.size - 1, 'other')}" if lacking.size > 1 else ""
        raise ValueError(
            f"{name} must have rows for all of {whose} ({_span(labels)}), got {_span(own)}, without "
            f"{first}{more}"
        )
    return places


def _located(own: pd.Index, labels: pd.Index) -> np.ndarray:
    if _are_numbers(own) and _are_numbers(labels) and len(labels) > 1:
        gaps = np.diff(np.sort(labels.to_numpy(float)))
        if gaps.min() > 0:
            order = np.argsort(own.to_numpy(float))
            ordered = pd.Index(own.to_numpy(float)[order])
            near = ordered.get_indexer(labels.astype(float), "nearest", tolerance=_CLOSE * gaps.min())
            return np.where(near < 0, -1, order[near])
    return np.asarray(own.get_indexer(labels))


def alike(own: pd.Index, labels: pd.Index, name: str, whose: str) -> tuple[pd.Index, pd.Index]:
    """Both sets of labels in a form in which equal ones are equal: dates and text that is dates as times
    without a zone, periods beside dates as periods, names as text."""
    if isinstance(own, pd.PeriodIndex) and isinstance(labels, pd.PeriodIndex):
        return own, labels
    periods = [index for index in (own, labels) if isinstance(index, pd.PeriodIndex)]
    ours, theirs = _dates(own, name), _dates(labels, name)
    if ours is not None and theirs is not None:
        zoned = [has_zones(pd.Series(index)) for index in (own, labels)]
        if zoned[0] != zoned[1]:
            have, lack = (name, whose) if zoned[0] else (whose, name)
            raise ValueError(f"{name}: {have} has times with a time zone, and {lack} without")
        if not periods:
            return pd.DatetimeIndex(ours), pd.DatetimeIndex(theirs)
        step: Any = periods[0].freq
        return pd.DatetimeIndex(ours).to_period(step), pd.DatetimeIndex(theirs).to_period(step)
    numbers = [_are_numbers(index) for index in (own, labels)]
    if all(numbers) or isinstance(own, pd.MultiIndex) or isinstance(labels, pd.MultiIndex):
        return own, labels
    return pd.Index([str(one) for one in own]), pd.Index([str(one) for one in labels])


def _dates(index: pd.Index, name: str) -> pd.Series | None:
    if isinstance(index, (pd.MultiIndex, pd.CategoricalIndex, pd.TimedeltaIndex)):
        return None
    column = pd.Series(index).reset_index(drop=True)
    dated = isinstance(index, pd.PeriodIndex) or looks_like_dates(column)
    return as_times(column, f"the index of {name}") if dated else None


def _span(index: pd.Index) -> str:
    """Labels in short: the first and the last of those that have an order."""
    if len(index) == 0:
        return "none"
    ordered = index.dtype.kind in "iufmM" or isinstance(index, pd.PeriodIndex)
    ends = said((index.sort_values() if ordered else index)[[0, -1]])
    if len(index) == 1:
        return ends[0]
    return f"{ends[0]} to {ends[1]}" if ordered else f"{ends[0]}, ..., {ends[1]}"
