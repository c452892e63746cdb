"""What each fold left out, scored or not, as stretches: in files and in reports."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fitonce.results.result import CVResult


def stretches(owner: np.ndarray, index: np.ndarray, apart: Any = None) -> tuple[np.ndarray, ...]:
    """Consecutive indices of one owner as (owner, first, past the last).

    Args:
        owner, index: (n,) sorted by owner, and within it by index.
        apart: (n - 1,) further places to cut; None: none.
    """
    if not len(index):
        return (np.zeros(0, int),) * 3
    cut = (np.diff(owner) != 0) | (np.diff(index) != 1)
    cut = cut if apart is None else cut | apart
    first = np.concatenate([[0], np.flatnonzero(cut) + 1])
    last = np.concatenate([first[1:], [len(index)]]) - 1
    return owner[first], index[first], index[last] + 1


def flat(dropped: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Number of the fold, and index, of all that folds leave out."""
    owner = np.repeat(np.arange(len(dropped)), [len(part) for part in dropped])
    return owner, np.concatenate(dropped) if len(dropped) else np.zeros(0, int)


def to_dropped(
    owner: np.ndarray, start: np.ndarray, stop: np.ndarray, folds: int
) -> tuple[np.ndarray, ...]:
    """One array for each fold, from stretches that may come from a file."""
    parts = (owner, start, stop)
    if any(part.ndim != 1 or len(part) != len(owner) or part.dtype.kind not in "iu" for part in parts):
        raise ValueError("stretches that folds leave out must be three columns of integers")
    fine = (np.diff(owner) >= 0).all() and (start >= 0).all() and (stop > start).all()
    if not fine or (len(owner) and not 0 <= owner[0] <= owner[-1] < folds):
        raise ValueError("stretches that folds leave out are out of order or refer to no fold")
    if int((stop - start).sum()) > 2**31:
        raise ValueError("stretches that folds leave out are too long")
    ends = np.searchsorted(owner, np.arange(folds + 1))
    empty = np.zeros(0, int)
    return tuple(
        np.concatenate([empty, *(np.arange(a, b) for a, b in zip(start[k:m], stop[k:m], strict=True))])
        for k, m in pairwise(ends)
    )


def scored_otherwise(one: CVResult, other: CVResult) -> str:
    """A hint where the folds of two results are alike, but not what is scored in them; else empty."""
    points, others = (cv.pointwise["site"].nunique() for cv in (one, other))
    sizes = [int(cv.fit.summary.lengths.sum()) for cv in (one, other)]
    if points == others and sizes[0] != sizes[1]:
        return (
            f", of data with {sizes[0]:,} and {sizes[1]:,} steps: if only one has rows for gaps in "
            "its times, read both in the same way (both with --no-gaps, or none)"
        )
    if len(one.folds) != len(other.folds) or points == others:
        return ""
    return (
        f", which score {points:,} and {others:,} points: autoregressions condition on their first "
        "steps; make the folds from those of the highest order, model.modelled(fo.sequences(data))"
    )
