"""Data of one's own models: an array or a table, or a dict or tuple of arrays, tables and series.

Tables and series that are given together are laid beside each other by their labels, see `alignment`;
dates follow the rule of `time_order`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import shown
from fitonce.core.deferred import jax
from fitonce.data.alignment import aligned
from fitonce.data.time_order import require_in_time, times_of

_TWICE = (
    "For several things at one time give both as a MultiIndex, or drop the dates "
    "(data.reset_index(drop=True)); clusters= then says what belongs together"
)


def read_own(data: Any) -> tuple[Any, pd.Index | None]:
    """A copy of the data as a pytree of arrays of numbers, and the labels of their rows or None.

    The first table or series with labels gives them; the others are put into its order.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(data)
    named = [(f"data{jax.tree_util.keystr(path)}", leaf) for path, leaf in leaves]
    tables = [(name, leaf) for name, leaf in named if isinstance(leaf, (pd.DataFrame, pd.Series))]
    labelled = [one for one in tables if not _counts(one[1].index)] or tables
    first, labels = (labelled[0][0], labelled[0][1].index) if labelled else ("", None)
    if labels is not None:
        require_in_time(labels, first, _TWICE)
    arrays = [_numbers(name, _beside(name, leaf, first, labels)) for name, leaf in named]
    return jax.tree_util.tree_unflatten(tree, arrays), labels


def are_times(labels: pd.Index | None) -> bool:
    """Whether labels are dates or times, one after another."""
    times = None if labels is None else times_of(labels, "dates of data")
    return times is not None and times.dtype.kind in "mM"


def _counts(index: pd.Index) -> bool:
    return index.name is None and index.equals(pd.RangeIndex(len(index)))


def _beside(name: str, leaf: Any, first: str, labels: pd.Index | None) -> Any:
    """A table or series with a row for each label, in their order; anything else as it is."""
    if labels is None or name == first or not isinstance(leaf, (pd.DataFrame, pd.Series)):
        return leaf
    if len(leaf) != len(labels):
        return leaf
    found = aligned(leaf, labels, name, first)
    square = isinstance(found, pd.DataFrame) and found.shape[1] == len(labels) and not _counts(labels)
    if square and labels.is_unique and set(found.columns) == set(labels):  # such as distances
        found = found.loc[:, labels]
    return found


def _numbers(name: str, leaf: Any) -> np.ndarray:
    if isinstance(leaf, pd.DataFrame):
        bad = [column for column in leaf if not pd.api.types.is_numeric_dtype(leaf[column])]
        if bad:
            come = f"{shown(leaf[bad[0]].iloc[0])} in column {shown(bad[0])}" if len(leaf) else "text"
            raise ValueError(f"{name} must hold numbers alone, got {come}; give what is read")
    found = np.array(leaf)
    if found.dtype.kind not in "OUSMm":
        return found
    try:
        if found.dtype.kind == "O":
            return np.array(leaf, float)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name} must hold numbers, got {shown(found.flat[0] if found.size else leaf)}")
