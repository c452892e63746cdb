"""The record of folds, and the checks that every maker of them shares."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from fitonce.data.graph import Graph
from fitonce.data.sequences import Collection, sequences

Kind = Literal["sites", "sequences"]


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

    @property
    def fingerprint(self) -> str:
        """The same for folds that drop and score the same."""
        digest = hashlib.sha256(self.kind.encode())
        for part in (*self.dropped, *self.scored):
            digest.update(np.asarray([len(part), *part], np.int64).tobytes())
        return digest.hexdigest()[:32]

    def some(self, which: Iterable[int]) -> Folds:
        """The folds `which`, as folds of their own."""
        chosen = [int(fold) for fold in which]
        for fold in chosen:
            if not 0 <= fold < len(self):
                raise ValueError(f"folds must be between 0 and {len(self) - 1}, got {fold}")
        dropped, scored = ([part[fold] for fold in chosen] for part in (self.dropped, self.scored))
        label = f"{len(chosen)} of {len(self):,}, {self.label}"
        return replace(self, dropped=tuple(dropped), scored=tuple(scored), label=label)

    def rebased(self, base: np.ndarray) -> Folds:
        """The same index sets on data with these weights, whose missing sites are not scored."""
        if len(base) != self.size:
            raise ValueError(f"folds have {self.size:,} {self.kind}, data has {len(base):,}")
        if np.array_equal(base, self.base):
            return self
        shape = Shape(np.asarray(base), np.array([len(base)]), np.array([0]), self.lengths)
        return make_folds(self.kind, self.dropped, shape, self.label, self.scored)

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


@dataclass(frozen=True)
class Shape:
    """What folds must know of the data."""

    base: np.ndarray  # weights of the full fit
    lengths: np.ndarray  # of each sequence
    offsets: np.ndarray  # first site of each sequence
    made_for: np.ndarray | None  # lengths, where the data itself was given


def shape_of(data: Any, kind: Kind = "sites") -> Shape:
    """Of the data, of its length, or of a graph or a model that has one."""
    graph = getattr(data, "graph", data)
    data = graph.n_sites if isinstance(graph, Graph) else data
    if isinstance(data, (bool, np.bool_)) or data is None:
        raise ValueError(f"folds need the data or its length, got {data!r}")
    if isinstance(data, (int, np.integer)):
        if data < 1:
            raise ValueError(f"the length of the data must be at least 1, got {data}")
        return Shape(np.ones(int(data)), np.array([int(data)]), np.array([0]), None)
    read = data if isinstance(data, Collection) else sequences(data)
    base = read.sequence_weights if kind == "sequences" else read.weights
    return Shape(base, read.lengths, read.offsets, read.lengths)


def share_of(percent: float, total: int, what: str, instead: str = "") -> int:
    """floor(percent * total / 100), at least one; `instead` is advice where it is less."""
    if not isinstance(percent, (int, float, np.number)) or not 0 < percent < 100:
        raise ValueError(f"percent must be between 0 and 100, exclusive, got {percent!r}")
    count = math.floor(Fraction(str(percent)) * int(total) / 100)  # floats: 0.57 % of 10,000 is 56
    if count < 1:
        raise ValueError(f"{percent:g} % of {total} {what} is less than one{instead}")
    return count


def at_least_one(n: int) -> int:
    """`n`, a number of folds."""
    if not is_between(n, 1):
        raise ValueError(f"n, the number of folds, must be an integer of at least 1, got {n}")
    return n


def is_between(value: Any, least: int, most: float = math.inf) -> bool:
    """Whether `value` is an integer, and in that range."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and bool(least <= value <= most)


def make_folds(
    kind: Kind, sets: Sequence[Any], shape: Shape, label: str, scored: Sequence[Any] | None = None
) -> Folds:
    """Folds of index sets, all checked."""
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
            raise ValueError(
                f"fold {fold} has nothing to score: all {kind} it would score are missing; make the "
                "folds from the data (data=, for folds on graphs), which says what is missing"
            )
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
