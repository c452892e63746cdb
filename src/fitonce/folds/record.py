"""The `Folds` dataclass, and the checks shared by the functions that make folds."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from fitonce.core.arguments import naming, refusal, require, shown
from fitonce.core.memory import require_fits
from fitonce.core.numerics import distinct, is_count, is_number
from fitonce.core.wording import counted, span
from fitonce.data.alignment import aligned, site_labels
from fitonce.data.graph import Graph
from fitonce.data.indices import indices_of, site_index
from fitonce.data.places import numbered
from fitonce.data.sequences import Collection, sequences, with_lengths

Kind = Literal["sites", "sequences"]
_FEW = 0.02  # of the sites: that fewer are in no fold is not worth a word


@dataclass(frozen=True, eq=False)
class Folds:
    """Index sets of what each fold leaves out, and what it scores.

    Attributes:
        kind: "sites" or "sequences": what an index means.
        dropped: one sorted integer array per fold, the weights that are set to zero.
        scored: one array per fold, the part of `dropped` whose loss counts.
        base: (size,) the weights of the full fit, 0 where missing.
        label: how the folds were made, in words.
        lengths: of the sequences that they were made for; None if only a count was given.
        graph: on which they were made, whose sites have neighbours and no order.
        along_time: whether they are stretches of time.
        together: whether sequences of a fold belong together: standard errors take folds, not
            sequences, as independent.
    """

    kind: Kind
    dropped: tuple[np.ndarray, ...]
    scored: tuple[np.ndarray, ...]
    base: np.ndarray
    label: str
    lengths: np.ndarray | None = None
    graph: Graph | None = None
    along_time: bool = False
    together: bool = False

    def __len__(self) -> int:
        return len(self.dropped)

    @property
    def size(self) -> int:
        """The number of sites (or sequences)."""
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

    @cached_property
    def kept(self) -> np.ndarray:
        """(folds,) the share of the total weight that each fold keeps."""
        fold = np.repeat(np.arange(len(self)), [len(indices) for indices in self.dropped])
        left_out = np.bincount(fold, self.base[np.concatenate(self.dropped)], minlength=len(self))
        return 1.0 - left_out / self.base.sum()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what the folds leave out and score."""
        digest = hashlib.sha256(self.kind.encode())
        for part in (*self.dropped, *self.scored):
            digest.update(np.int64(len(part)).tobytes())
            digest.update(np.asarray(part, np.int64).tobytes())
        return digest.hexdigest()[:32]

    @cached_property
    def all_scored(self) -> np.ndarray:
        """What the folds score, one after the other."""
        return np.concatenate(self.scored)

    @cached_property
    def n_scored(self) -> int:
        """How many sites, or sequences, are scored in some fold."""
        return len(distinct(self.all_scored))

    def some(self, which: Iterable[int]) -> Folds:
        """A subset of the folds."""
        wanted = "a list of numbers of folds"
        require(isinstance(which, Iterable) and not isinstance(which, str), "which", wanted, which)
        chosen = list(which)
        for fold in chosen:
            if not is_count(fold, 0, len(self) - 1):
                raise ValueError(
                    f"which: folds must be between 0 and {len(self) - 1}, got {shown(fold)}"
                )
        dropped, scored = ([part[fold] for fold in chosen] for part in (self.dropped, self.scored))
        label = f"{len(chosen)} of {len(self):,}, {self.label}"
        return replace(self, dropped=tuple(dropped), scored=tuple(scored), label=label)

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """(n,) the first of each group of folds that leave out and score the same, and (folds,) which of
        these each fold is: stretches drawn at random often repeat."""
        numbers: dict[bytes, int] = {}
        first: list[int] = []
        which = np.zeros(len(self), int)
        for fold, (dropped, scored) in enumerate(zip(self.dropped, self.scored, strict=True)):
            all_of_it = len(scored) == len(dropped)  # what is scored is a part of what is left out
            parts = (dropped,) if all_of_it else (dropped, scored)
            key = b"|".join(np.asarray(part, np.int64).tobytes() for part in parts)
            if numbers.setdefault(key, len(first)) == len(first):
                first.append(fold)
            which[fold] = numbers[key]
        return np.array(first), which

    def rebased(self, base: np.ndarray) -> Folds:
        """The same index sets for data with these weights; missing sites are not scored."""
        if len(base) != self.size:
            raise ValueError(f"folds have {self.size:,} {self.kind}, data has {len(base):,}")
        if np.array_equal(base, self.base):
            return self
        shape = Shape(np.asarray(base), np.array([len(base)]), self.lengths)
        made = make_folds(self.kind, self.dropped, shape, self.label, self.scored)
        about = replace(made, graph=self.graph, along_time=self.along_time)
        return replace(about, together=self.together)

    def describe(self) -> str:
        """One line: how many folds, of what, how large."""
        sizes = span(np.array([len(indices) for indices in self.scored]))
        total = counted(self.size, "point" if self.kind == "sites" else "sequence")
        never = self._never_drawn
        none = f", {never:,} in none" if never > _FEW * self.base.sum() else ""
        return f"{counted(len(self), 'fold')}, {self.label}: {sizes} of {total} scored in each{none}"

    @property
    def _never_drawn(self) -> int:
        """Observed sites that chance left in no fold, of folds that are drawn at random; the point that
        matters most may be one of them."""
        if self.kind != "sites" or "(seed" not in self.label or "-fold" in self.label:
            return 0
        left = self.base > 0
        left[self.all_scored] = False
        return int(left.sum())

    def __repr__(self) -> str:
        return f"Folds({self.describe()})"


@dataclass(frozen=True)
class Shape:
    """What making folds needs to know about the data."""

    base: np.ndarray  # weights of the full fit
    lengths: np.ndarray  # of each sequence
    made_for: np.ndarray | None  # lengths, if the data itself was given
    data: Collection | None = None

    @property
    def offsets(self) -> np.ndarray:
        """The first site of each sequence."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def indices(self) -> tuple[pd.Index, ...] | None:
        """Of the tables of pandas that the data were."""
        return None if self.data is None else indices_of(self.data)

    def labels(self, kind: Kind) -> pd.Index | None:
        """What the data call their sites or sequences; None: numbers only."""
        if self.data is None:
            return None
        if kind == "sites":
            index = site_index(self.data)
            return site_labels(self, None) if index is None and len(self.lengths) == 1 else index
        names = None if self.data.names is None else self.data.names.sequences
        return None if names is None or names == numbered(len(names)) else pd.Index(names)

    def aligned(self, given: Any, kind: Kind, name: str) -> Any:
        """A table or series in the order of sites or sequences, by its index, see `alignment.aligned`;
        anything else as it is."""
        if not isinstance(given, (pd.DataFrame, pd.Series)):
            return given
        if kind == "sequences":
            return aligned(given, self.labels(kind), name, "the sequences")
        return aligned(given, self.labels(kind), name, lengths=self.lengths)


def shape_of(data: Any, kind: Kind = "sites", lengths: Any = None) -> Shape:
    """The shape of data, given as such, by its length, or by a graph or a model with a graph; `lengths`:
    of the sequences, where these are the rows of one array or table."""
    data = with_lengths(data, lengths)
    graph = getattr(data, "graph", data)
    data = graph.n_sites if isinstance(graph, Graph) else data
    if isinstance(data, (bool, np.bool_)) or data is None:
        raise ValueError(f"folds need the data or its length, got {shown(data)}")
    if isinstance(data, (int, np.integer)):
        if data < 1:
            raise ValueError(f"the length of the data must be at least 1, got {shown(data)}")
        require_fits("the length of the data", int(data), lambda n: 24 * n, "weights of the folds")
        return Shape(np.ones(int(data)), np.array([int(data)]), None)
    read = data if isinstance(data, Collection) else sequences(data)
    base = read.sequence_weights if kind == "sequences" else read.weights
    return Shape(base, read.lengths, read.lengths, read)


def share_of(percent: float, total: int, what: str, instead: str = "") -> int:
    """floor(percent * total / 100), which must be at least 1; `instead` is advice if it is not."""
    between = is_number(percent) and 0 < percent < 100
    require(between, "percent", "between 0 and 100, exclusive", percent)
    count = math.floor(Fraction(str(percent)) * int(total) / 100)  # with floats, 0.57 % of 10,000 is 56
    if count < 1:
        share = f"{percent:g} % of {total} {what}"
        raise ValueError(f"percent must leave something out: {share} is less than one{instead}")
    return count


def at_least_one(n: int, size: int = 1) -> int:
    """`n`, a number of folds of this size, checked."""
    if not is_count(n):
        raise ValueError(f"n, the number of folds, must be an integer of at least 1, got {shown(n)}")
    require_fits("n, the number of folds,", n, lambda count: count * (112 + 8 * size), "their indices")
    return n


def check_k(k: Any, count: int, things: str) -> None:
    """Raise unless `count` things can be split into `k` folds."""
    if not is_count(k, 2, count):
        wanted = f"an integer between 2 and the number of {things} ({count})"
        raise refusal("k", wanted, k)


def make_folds(
    kind: Kind,
    sets: Sequence[Any],
    shape: Shape,
    label: str,
    scored: Sequence[Any] | None = None,
    *,
    given: str = "data",
) -> Folds:
    """Folds from index sets, checked. Only observed ones of `scored` (None: `sets`) are scored. `given`:
    the argument that they follow from, which an error names."""
    with naming(given):
        return _made(kind, sets, shape, label, scored)


def _made(
    kind: Kind, sets: Sequence[Any], shape: Shape, label: str, scored: Sequence[Any] | None
) -> Folds:
    if len(sets) == 0:
        raise ValueError("there must be at least one fold, got none")
    dropped = [_index_set(item, fold, shape.base, kind) for fold, item in enumerate(sets)]
    wanted = dropped if scored is None else [np.unique(np.asarray(item, int)) for item in scored]
    observed, total = [], shape.base.sum()
    for fold, (out, indices) in enumerate(zip(dropped, wanted, strict=True)):
        kept = indices[:0] if indices is out else np.setdiff1d(indices, out)
        if len(kept):
            raise ValueError(f"fold {fold} scores {kind[:-1]} {kept[0]}, which it does not leave out")
        observed.append(indices[shape.base[indices] > 0])
        if len(observed[-1]) == 0:
            raise ValueError(
                f"fold {fold} has nothing to score: all {kind} it would score are missing; make the "
                "folds from the data (data=, for folds on graphs), which says what is missing"
            )
        if total == shape.base[out].sum():
            raise ValueError(f"fold {fold} leaves out all observed {kind}; at least one must be kept")
    return Folds(kind, tuple(dropped), tuple(observed), shape.base, label, shape.made_for)


def _index_set(item: Any, fold: int, base: np.ndarray, kind: Kind) -> np.ndarray:
    try:
        indices = np.atleast_1d(np.asarray(item))
    except ValueError:  # ragged
        indices = np.zeros((1, 1))
    if indices.dtype == bool:
        if indices.shape != base.shape:
            raise ValueError(f"fold {fold}: a mask must have {len(base)} entries, got {indices.shape}")
        indices = np.flatnonzero(indices)
    if indices.size == 0:
        raise ValueError(f"fold {fold} leaves out nothing")
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"fold {fold} must be a list of integer indices, got {shown(item)}")
    outside = indices[(indices < 0) | (indices >= len(base))]
    if outside.size:
        raise ValueError(
            f"fold {fold} has index {outside[0]}, outside the {len(base)} {kind} (0 to {len(base) - 1})"
        )
    chosen = np.zeros(len(base), bool)  # sorts 50 times faster than np.unique
    chosen[indices] = True
    found = np.flatnonzero(chosen)
    if len(found) < len(indices):
        if len(indices) == len(base) and found[-1] <= 1:
            raise ValueError(
                f"fold {fold} is a mask of zeros and ones, which would be read as indices; give bools, "
                "such as mask == 1"
            )
        times = np.bincount(indices)
        raise ValueError(f"fold {fold} has index {np.argmax(times > 1)} more than once")
    return found
