"""What comes beside data is laid beside it by its own index: one rule for every door.

A table or series with the labels of the data, such as dates or names of sites, is put into their order,
whatever order it has. Labels that are lacking, or come twice, are refused by name. An index 0, 1, 2, ...
beside other labels is none: such tables go by position, as arrays do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import counted, shortened
from fitonce.data.places import printable
from fitonce.data.time_order import require_in_time, said
from fitonce.data.times import as_times, has_zones, looks_like_dates

_CLOSE = 1e-6  # of the distance of neighbours: numbers in files are rounded


def aligned(
    given: Any,
    labels: pd.Index | None,
    name: str,
    whose: str = "the data",
    lengths: Sequence[int] | np.ndarray | None = None,
) -> Any:
    """A table or series in the order of the data's labels; anything else as it is.

    Labels of several sequences start with their names, see `data.indices.site_index`. A table that has
    labels of steps alone is put in order by them if no step occurs twice. Else its order must be that of
    the data.

    Args:
        labels: those of the data; None: arrays, which have none.
        name, whose: what messages call the table and the data.
        lengths: of the sequences whose rows follow one another; None: there is one.
    """
    if not isinstance(given, (pd.DataFrame, pd.Series)):
        return given
    given = with_dates(given, labels)
    own = given.index
    if isinstance(labels, pd.MultiIndex) and labels.nlevels == own.nlevels + 1:
        labels = labels.droplevel(0)
        if _are_rows(labels) and not labels.is_unique:  # counted in each sequence, which says nothing
            labels = None
    # pandas warns of dates beside objects
    if labels is not None and own.dtype == labels.dtype and own.equals(labels):
        return given
    if labels is None or _has_none(own, labels) or (_are_rows(labels) and not _are_numbers(own)):
        _require_order(own, name, whose, lengths)
        return given
    return given.iloc[_places(own, labels, name, whose)]


def _has_none(own: pd.Index, labels: pd.Index) -> bool:
    """Whether a table has no labels beside those of the data, only its own numbers of rows."""
    return _counts(own) and not (_are_rows(labels) and bool(labels.isin(own).all()))


def site_labels(sites: Any, names: tuple[Any, ...] | None) -> pd.Index | None:
    """What a map or a fit calls its sites, or else the `names` of their graph; None: numbers only."""
    named = getattr(getattr(sites, "data", None), "names", None)
    own = getattr(named, "sites", None) or names
    return pd.Index(own, tupleize_cols=False) if own else None


def require_same_order(labels: pd.Index, sites: pd.Index) -> None:
    """Raise if the data have the sites of the graph in another order, or sites of other names."""
    if labels.equals(sites) or _counts(labels):
        return
    if isinstance(labels, pd.MultiIndex) or isinstance(sites, pd.MultiIndex):
        return
    ours, theirs = (_text(index).tolist() for index in (labels, sites))
    apart = [place for place, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
    named = not (_are_numbers(sites) or _are_numbers(labels) or looks_like_dates(pd.Series(labels)))
    if apart and (named or are_called_alike(sites, labels)):
        wanted, came = shortened(theirs[apart[0]]), shortened(ours[apart[0]])
        raise ValueError(
            f"data must have sites in the order of the graph, whose site {apart[0]} is "
            f"'{wanted}', got '{came}'. Sort the data by the names of the graph, or "
            "drop their index (data.reset_index(drop=True)) if the order is right"
        )


def are_called_alike(sites: pd.Index, others: pd.Index) -> bool:
    """Whether sites of a graph and of data can be found by their names. Numbers must all be the same:
    counts from 0 and codes from 1 have some in common by chance."""
    ours, theirs = set(map(str, sites)), set(map(str, others))
    return ours == theirs or not (_are_numbers(sites) or ours.isdisjoint(theirs))


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


def _require_order(own: pd.Index, name: str, whose: str, lengths: Any) -> None:
    """Raise where labels show that rows of a sequence are not in order, beside data without labels."""
    ends = [len(own)] if lengths is None else np.cumsum(lengths)
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        part = own[start:end]
        require_in_time(part, name)
        back = np.flatnonzero(np.diff(part.to_numpy()) < 0) if _are_rows(part) else np.zeros(0, int)
        if back.size:
            raise ValueError(
                f"{name} must have rows in order, as {whose} have no index to find them by. Row "
                f"{part[back[0]]} is followed by {part[back[0] + 1]}"
            )


def with_dates(given: Any, labels: pd.Index | None) -> Any:
    """A table whose labels stand in a column, labelled by it. That column is called as the labels of the
    data are, or it is the only one of dates."""
    if not isinstance(given, pd.DataFrame):
        return given
    elsewhere = labels is not None and not _are_rows(labels) and _are_rows(given.index)
    if not (_counts(given.index) or elsewhere):
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
    for index, side in ((own, name), (labels, whose)):
        empty = np.flatnonzero(index.to_frame().isna().to_numpy().any(1))
        if empty.size:
            raise ValueError(
                f"{name} cannot be laid beside {whose}, as the index of {side} has a missing label in "
                f"row {empty[0]}"
            )
    found = alike(own, labels, name, whose)
    for index, shown, side in ((found[0], own, name), (found[1], labels, whose)):
        twice = np.flatnonzero(index.duplicated())
        if twice.size:
            raise ValueError(
                f"{name} cannot be laid beside {whose}, as {said(shown[twice[:1]])[0]} occurs "
                f"twice in {side}"
            )
    places = _located(*found)
    lacking = np.flatnonzero(places < 0)
    if lacking.size:
        first = said(labels[lacking[:1]])[0]
        more = f" and {counted(lacking.size - 1, 'other')}" if lacking.size > 1 else ""
        strange = np.flatnonzero(~found[0].isin(found[1]))
        instead = f", but with {said(own[strange[:1]])[0]}" if strange.size else ""
        raise ValueError(
            f"{name} must have rows for all of {whose} ({_span(labels)}), got {_span(own)}, without "
            f"{first}{more}{instead}"
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
    without a zone, periods beside dates as periods, names as text; and so level by level."""
    if own.nlevels == labels.nlevels > 1:
        levels = [
            alike(own.get_level_values(level), labels.get_level_values(level), name, whose)
            for level in range(own.nlevels)
        ]
        return (
            pd.MultiIndex.from_arrays([one for one, _ in levels]),
            pd.MultiIndex.from_arrays([other for _, other in levels]),
        )
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
    return _text(own), _text(labels)


def _text(index: pd.Index) -> pd.Index:
    """Names as results have them, without control characters."""
    return pd.Index([printable(str(one)) for one in index])


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
