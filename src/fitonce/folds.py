"""Folds: which weights go to zero.

Every maker takes the data (or just its length) and returns `Folds`; `sites` and `from_splitter` take
what makes the folds before it. A fold leaves out sites (points inside sequences) or whole sequences;
what it leaves out is scored unless it was missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pandas as pd

from fitonce.data import Sequences, sequences

Kind = Literal["sites", "sequences"]
_MAX_REDRAWS = 1000


@dataclass(frozen=True, eq=False)
class Folds:
    """Index sets of what each fold leaves out, and what it scores.

    Attributes:
        kind: "sites" or "sequences": what an index means.
        dropped: one sorted integer array per fold, the weights that go to zero.
        scored: one array per fold, the part of `dropped` whose loss counts.
        base: (size,) the weights of the full fit, 0 where missing from the start.
        label: how the folds were made, in words.
        lengths: of the sequences they were made for; None when only a count was given.
    """

    kind: Kind
    dropped: tuple[np.ndarray, ...]
    scored: tuple[np.ndarray, ...]
    base: np.ndarray
    label: str
    lengths: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.dropped)

    @property
    def size(self) -> int:
        """How many sites (or sequences) there are to leave out."""
        return len(self.base)

    @property
    def weights(self) -> np.ndarray:
        """(folds, sites) or (folds, sequences): 1 kept, 0 left out or missing."""
        return self.weights_of(range(len(self)))

    def weights_of(self, folds: Iterable[int]) -> np.ndarray:
        """The rows of `weights` for some folds, without building all of them."""
        chosen = list(folds)
        weights = np.tile(self.base, (len(chosen), 1))
        for row, fold in zip(weights, chosen, strict=True):
            row[self.dropped[fold]] = 0.0
        return weights

    @property
    def kept(self) -> np.ndarray:
        """(folds,) the share of the weight that each fold keeps."""
        sizes = [len(indices) for indices in self.dropped]
        number = np.repeat(np.arange(len(self)), sizes)
        gone = np.bincount(number, self.base[np.concatenate(self.dropped)])
        return 1.0 - gone / self.base.sum()

    def rebased(self, base: np.ndarray) -> Folds:
        """The same index sets on data with these weights, whose missing sites are not scored."""
        if len(base) != self.size:
            raise ValueError(f"folds have {self.size:,} {self.kind}, data has {len(base):,}")
        if np.array_equal(base, self.base):
            return self
        shape = _Shape(np.asarray(base), np.array([len(base)]), np.array([0]), self.lengths)
        return _folds(self.kind, self.dropped, shape, self.label, self.scored)

    def describe(self) -> str:
        """One line: how many folds, of what, how large."""
        sizes = np.array([len(indices) for indices in self.scored])
        what = "points" if self.kind == "sites" else "sequences"
        span = (
            f"{sizes.min():,}" if sizes.min() == sizes.max() else (f"{sizes.min():,} to {sizes.max():,}")
        )
        return f"{len(self):,} folds, {self.label}: {span} of {self.size:,} {what} scored in each"

    def __repr__(self) -> str:
        return f"Folds({self.describe()})"


def iid(data: Any, percent: float, n: int, seed: int = 0) -> Folds:
    """`n` folds of `percent` % of the observed sites, drawn at random without replacement."""
    shape = _shape(data)
    rng = np.random.default_rng(seed)
    observed = np.flatnonzero(shape.base)
    count = _count(percent, len(observed), "observed sites")
    sets = [rng.choice(observed, count, replace=False) for _ in range(_at_least_one(n))]
    return _folds("sites", sets, shape, f"{percent:g} % of points at random (seed {seed})")


def blocks(data: Any, percent: float, n: int, seed: int = 0) -> Folds:
    """`n` contiguous blocks of floor(percent * T / 100) steps, the end of each drawn uniformly.

    With several sequences a block stays within one, drawn in proportion to the places it offers.
    A block that holds only missing sites is drawn again: there would be nothing to score.
    (The paper's index set has one element more than its stated share; ours has exactly the share.)
    """
    shape = _shape(data)
    rng = np.random.default_rng(seed)
    widths = [_count(percent, t, f"steps of sequence {i}") for i, t in enumerate(shape.lengths)]
    places = np.array([length - width + 1 for length, width in zip(shape.lengths, widths, strict=True)])
    sets = []
    for fold in range(_at_least_one(n)):
        for _ in range(_MAX_REDRAWS):
            which = rng.choice(len(places), p=places / places.sum())
            start = shape.offsets[which] + rng.integers(places[which])
            block = np.arange(start, start + widths[which])
            if shape.base[block].any():
                break
        else:
            raise ValueError(f"fold {fold}: {_MAX_REDRAWS} blocks in a row held only missing sites")
        sets.append(block)
    return _folds("sites", sets, shape, f"contiguous blocks of {percent:g} % (seed {seed})")


def future(
    data: Any,
    start: int | Sequence[int] | None = None,
    *,
    steps: int | Sequence[int] | None = None,
    horizon: int | None = None,
) -> Folds:
    """Leave out the end of every sequence: one fold per value of `start`, or of `steps`.

    Args:
        data: the data, or its length.
        start: first step left out, counted from the start of each sequence.
        steps: how many last steps to leave out instead.
        horizon: score only the first `horizon` steps left out; the later ones are still unseen.
    """
    shape = _shape(data)
    if (start is None) == (steps is None):
        raise ValueError(
            "future takes either start or steps, got " + ("neither" if start is None else "both")
        )
    name, given = ("start", start) if start is not None else ("steps", steps)
    chosen = np.atleast_1d(np.asarray(given))
    if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer) or (chosen < 0).any():
        raise ValueError(f"{name} must be a non-negative integer or a list of them, got {given}")
    if horizon is not None and not _between(horizon, 1):
        raise ValueError(f"horizon must be an integer of at least 1, got {horizon}")
    dropped, scored = [], []
    for value in chosen:
        drop, score = [], []
        for offset, length in zip(shape.offsets, shape.lengths, strict=True):
            first = min(value, length) if start is not None else max(length - value, 0)
            last = length if horizon is None else min(length, first + horizon)
            drop.append(np.arange(offset + first, offset + length))
            score.append(np.arange(offset + first, offset + last))
        dropped.append(np.concatenate(drop))
        scored.append(np.concatenate(score))
    label = "leave-future-out" + ("" if horizon is None else f", scored {horizon} steps ahead")
    return _folds("sites", dropped, shape, label, scored)


def kfold(data: Any, k: int, *, blocks: bool = True, seed: int = 0) -> Folds:
    """Every site left out once, in `k` folds: contiguous stretches of time, or at random.

    Stretches run through all sites in order, so with several sequences one may span a boundary.
    """
    shape = _shape(data)
    total = len(shape.base)
    if not _between(k, 2, total):
        raise ValueError(f"k must be an integer between 2 and the number of sites ({total}), got {k}")
    order = np.arange(total) if blocks else np.random.default_rng(seed).permutation(total)
    label = f"{k}-fold over time, " + ("in blocks" if blocks else f"at random (seed {seed})")
    return _folds("sites", np.array_split(order, k), shape, label)


def structures(
    data: Any, *, k: int | None = None, groups: Sequence[Any] | None = None, seed: int = 0
) -> Folds:
    """Leave whole sequences out: one at a time, in `k` random folds, or by group.

    Args:
        data: the data, or the number of sequences.
        k: put the sequences, shuffled by `seed`, into k folds of nearly equal size.
        groups: one label per sequence; each distinct label is a fold.
    """
    shape = _shape(data, "sequences")
    count = len(shape.base)
    if k is not None and groups is not None:
        raise ValueError("structures takes k or groups, got both")
    if count < 2:
        raise ValueError(f"leaving sequences out needs at least 2 sequences, got {count}")
    if k is not None:
        if not _between(k, 2, count):
            raise ValueError(
                f"k must be an integer between 2 and the number of sequences ({count}), got {k}"
            )
        order = np.random.default_rng(seed).permutation(count)
        label = f"{k}-fold over sequences (seed {seed})"
        return _folds("sequences", np.array_split(order, k), shape, label)
    if groups is not None:
        labels = np.asarray(groups)
        if labels.shape != (count,):
            raise ValueError(
                f"groups must have one label for each of {count} sequences, got shape {labels.shape}"
            )
        unlabelled = np.flatnonzero(pd.isna(labels))
        if unlabelled.size:
            raise ValueError(f"groups must label every sequence, but sequence {unlabelled[0]} has none")
        sets = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        return _folds("sequences", sets, shape, "leave-one-group-of-sequences-out")
    return _folds("sequences", list(np.arange(count)[:, None]), shape, "leave-one-sequence-out")


def points(data: Any) -> Folds:
    """Every observed site on its own: leave-one-out."""
    shape = _shape(data)
    observed = np.flatnonzero(shape.base)
    if len(observed) < 2:
        raise ValueError(f"leaving one out needs at least 2 observed sites, got {len(observed)}")
    alone = tuple(observed[:, None])  # sound by construction: no need to check each of them
    return Folds("sites", alone, alone, shape.base, "leave-one-out", shape.made_for)


def sites(index_sets: Iterable[Any], data: Any) -> Folds:
    """Your own folds: one collection of site indices each."""
    if not isinstance(index_sets, Iterable):
        raise ValueError(
            f"sites takes a list of index sets and then the data, got {type(index_sets).__name__} first"
        )
    sets = [sorted(item) if isinstance(item, (set, frozenset)) else item for item in index_sets]
    if sets and all(np.ndim(item) == 0 for item in sets):
        raise ValueError("sites takes a list of index sets, one per fold, got a single list of indices")
    return _folds("sites", sets, _shape(data), "given index sets")


def from_splitter(
    splitter: Any, data: Any, *, over: Kind = "sites", y: Any = None, groups: Any = None
) -> Folds:
    """Folds of any scikit-learn splitter: score its test set, leave out all that it does not train on.

    For `TimeSeriesSplit` this leaves out the whole future and scores the next stretch of it.
    """
    if not hasattr(splitter, "split"):
        raise ValueError(f"splitter must have a split method, got {type(splitter).__name__}")
    if over not in ("sites", "sequences"):
        raise ValueError(f"over must be 'sites' or 'sequences', got {over!r}")
    shape = _shape(data, over)
    everything = np.arange(len(shape.base))
    dropped, scored = [], []
    for train, test in splitter.split(everything, y, groups):
        dropped.append(np.setdiff1d(everything, train))
        scored.append(np.asarray(test))
    return _folds(over, dropped, shape, f"{splitter}", scored)


# --- checks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    base: np.ndarray  # weights of the full fit
    lengths: np.ndarray  # of each sequence
    offsets: np.ndarray  # first site of each sequence
    made_for: np.ndarray | None  # lengths, where the data itself was given


def _shape(data: Any, kind: Kind = "sites") -> _Shape:
    if isinstance(data, (bool, np.bool_)) or data is None:
        raise ValueError(f"folds need the data or its length, got {data!r}")
    if isinstance(data, (int, np.integer)):
        if data < 1:
            raise ValueError(f"the length of the data must be at least 1, got {data}")
        return _Shape(np.ones(int(data)), np.array([int(data)]), np.array([0]), None)
    read: Sequences = sequences(data)
    lengths = read.lengths
    base = read.weights
    if kind == "sequences":
        base = read.observed.any((1, 2)).astype(float)
    return _Shape(base, lengths, np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)


def _count(percent: float, total: int, what: str) -> int:
    if not isinstance(percent, (int, float, np.number)) or not 0 < percent < 100:
        raise ValueError(f"percent must be between 0 and 100, exclusive, got {percent!r}")
    count = math.floor(Fraction(str(percent)) * int(total) / 100)  # floats: 0.57 % of 10,000 is 56
    if count < 1:
        raise ValueError(f"{percent:g} % of {total} {what} is less than one")
    return count


def _at_least_one(n: int) -> int:
    if not _between(n, 1):
        raise ValueError(f"n, the number of folds, must be an integer of at least 1, got {n}")
    return n


def _between(value: Any, least: int, most: float = math.inf) -> bool:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and bool(least <= value <= most)


def _folds(
    kind: Kind, sets: Sequence[Any], shape: _Shape, label: str, scored: Sequence[Any] | None = None
) -> Folds:
    if len(sets) == 0:
        raise ValueError("there must be at least one fold, got none")
    dropped = [_index_set(item, fold, shape.base, kind) for fold, item in enumerate(sets)]
    score = dropped if scored is None else [np.unique(np.asarray(s, int)) for s in scored]
    for fold, (out, counted) in enumerate(zip(dropped, score, strict=True)):
        kept = np.zeros(0, int) if scored is None else np.setdiff1d(counted, out)
        if kept.size:
            raise ValueError(f"fold {fold} scores {kind[:-1]} {kept[0]}, which it does not leave out")
    score = [indices[shape.base[indices] > 0] for indices in score]
    for fold, (out, counted) in enumerate(zip(dropped, score, strict=True)):
        if len(counted) == 0:
            raise ValueError(f"fold {fold} has nothing to score: all {kind} it would score are missing")
        if shape.base.sum() == shape.base[out].sum():
            raise ValueError(f"fold {fold} leaves out every observed one of {len(shape.base)} {kind}")
    return Folds(kind, tuple(dropped), tuple(score), shape.base, label, shape.made_for)


def _index_set(item: Any, fold: int, base: np.ndarray, kind: Kind) -> np.ndarray:
    indices = np.atleast_1d(np.asarray(item))
    if indices.dtype == bool:
        if indices.shape != base.shape:
            raise ValueError(f"fold {fold}: a mask must have {len(base)} entries, got {indices.shape}")
        indices = np.flatnonzero(indices)
    if indices.size == 0:
        raise ValueError(f"fold {fold} leaves out nothing")
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"fold {fold} must be a list of integer indices, got {item!r:.80}")
    outside = indices[(indices < 0) | (indices >= len(base))]
    if outside.size:
        raise ValueError(
            f"fold {fold} has index {outside[0]}, outside the {len(base)} {kind} (0 to {len(base) - 1})"
        )
    chosen = np.zeros(len(base), bool)  # sorts and drops repetitions, fifty times faster than unique
    chosen[indices] = True
    return np.flatnonzero(chosen)
