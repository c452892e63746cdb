"""Labelled data laid out for an objective: features in buckets, labels in a grid, counts of labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.core.numerics import in_float64
from fitonce.data.labelled import UNKNOWN, Labelled
from fitonce.objectives.base import Program
from fitonce.objectives.labels import programs as rows
from fitonce.objectives.labels.programs import PaddedBucket

_MOST = 6  # each bucket is one more program to compile
_WASTE = 0.2  # of the steps that may be padding
_FEW = 20_000  # steps that are not worth another program


@dataclass(frozen=True, eq=False)
class Bucket:
    """Sequences of similar length.

    Attributes:
        members: (n,) numbers of the sequences.
        lengths: (n,) of each.
        sites: (n, T) the site at each step; any, at padding.
    """

    members: np.ndarray
    lengths: np.ndarray
    sites: np.ndarray

    @property
    def valid(self) -> np.ndarray:
        """(n, T): true where there is a step rather than padding."""
        return np.arange(self.sites.shape[1])[None] < self.lengths[:, None]

    def grid(self, values: np.ndarray) -> np.ndarray:
        """Values (sites, ...) as (n, T, ...), zero at padding."""
        found = values[self.sites]
        found[~self.valid] = 0
        return found


def bucketed(lengths: np.ndarray, most: int = _MOST) -> list[Bucket]:
    """As few buckets as keep padding low, and at most so many, chosen so that padding is least."""
    for count in range(1, most + 1):
        ends = _ends(lengths, count)
        places = np.searchsorted(ends, lengths)
        steps = int(np.take(ends, places).sum())
        if steps <= _FEW or steps - lengths.sum() <= _WASTE * steps:
            break
    offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    made = []
    for shortest, longest in zip([0, *ends[:-1]], ends, strict=True):
        members = np.flatnonzero((lengths > shortest) & (lengths <= longest))
        inside = np.minimum(np.arange(longest)[None], lengths[members][:, None] - 1)
        made.append(Bucket(members, lengths[members], offsets[members][:, None] + inside))
    return made


def _ends(lengths: np.ndarray, most: int) -> list[int]:
    """The longest length in each bucket: the cheapest cut of the sorted distinct lengths into at most
    `most` stretches, by dynamic programming."""
    sizes, counts = np.unique(lengths, return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)])
    cost = below[1:] * sizes  # of one bucket up to each size
    cuts: list[np.ndarray] = []
    for _ in range(min(most, len(sizes)) - 1):
        # of a last bucket that begins after size i and ends at size j
        with_last = cost[:, None] + (below[None, 1:] - below[1:, None]) * sizes[None, :]
        with_last[np.tril_indices(len(sizes), -1)] = np.iinfo(with_last.dtype).max
        cuts.append(with_last.argmin(0))
        cost = with_last.min(0)
    ends, last = [], len(sizes) - 1
    for cut in reversed(cuts):
        ends.append(last)
        last = int(cut[last])
    ends.append(last)
    return sorted({int(sizes[end]) for end in ends})


@dataclass(frozen=True, eq=False)
class Corpus:
    """Labelled data as a model of labels reads it.

    Attributes:
        data: what was given.
        shelves: its features in buckets.
        design: (sites, Q) what multiplies the model's weights.
        scores: (sites, K) that are given, or None.
        order: (D,) each parameter's place among weights (Q, K) and transitions (K, K).
    """

    data: Labelled
    shelves: Shelves
    design: np.ndarray
    scores: np.ndarray | None
    order: np.ndarray

    @cached_property
    def sequence(self) -> np.ndarray:
        """(sites,) the sequence of each site."""
        return np.repeat(np.arange(self.data.n_sequences), self.data.lengths)

    @cached_property
    def time(self) -> np.ndarray:
        """(sites,) the place of each site in its sequence."""
        return np.arange(self.data.n_sites) - self.data.offsets[self.sequence]

    @cached_property
    def labels(self) -> np.ndarray:
        """(N, longest), -1 where unknown and at padding."""
        grid = np.full((self.data.n_sequences, self.shelves.longest), UNKNOWN, np.int32)
        grid[self.sequence, self.time] = self.data.labels
        return grid

    @cached_property
    def is_complete(self) -> np.ndarray:
        """(N,) whether all labels of a sequence are known."""
        return np.minimum.reduceat(self.data.labels, self.data.offsets) != UNKNOWN

    @cached_property
    def complete_scores(self) -> tuple[float, np.ndarray]:
        """The score of all complete sequences' labels is a constant plus slopes (D,) times theta."""
        constants, slopes = self.scores_of(np.flatnonzero(self.is_complete))
        return float(constants.sum()), slopes.sum(0)

    def scores_of(self, sequences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of single complete sequences (R,): constants (R,) and slopes (R, D)."""
        lengths = self.data.lengths[sequences]
        row = np.repeat(np.arange(len(sequences)), lengths)
        time = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        sites = self.data.offsets[sequences][row] + time
        tag, states = self.data.labels[sites], len(self.data.tags)
        width = self.design.shape[1]
        by_feature = np.zeros((len(sequences), width, states))
        np.add.at(by_feature, (row[:, None], np.arange(width), tag[:, None]), self.design[sites])
        moves = np.zeros((len(sequences), states, states))
        later = time > 0
        np.add.at(moves, (row[later], tag[np.flatnonzero(later) - 1], tag[later]), 1.0)
        shapes = ((len(sequences), width * states), (len(sequences), states * states))
        parts = [a.reshape(s) for a, s in zip((by_feature, moves), shapes, strict=True)]
        flat = np.concatenate(parts, 1)
        given = np.zeros(len(sites)) if self.scores is None else self.scores[sites, tag]
        return np.bincount(row, given, len(sequences)), flat[:, self.order]


@in_float64
def corpus_of(program: Program, data: Labelled) -> Corpus:
    """`data` as the program's model reads it."""
    design, scores = program.model.design(data.features, data.lengths)
    shelves = shelved(design, scores, data.lengths)
    return Corpus(data, shelves, design, scores, np.asarray(rows.order(program)))


_CHUNK, _CHUNK_DEVICE = 128, 4096
_FEW_ROWS = 8  # with labels kept in part: memory goes with the square of the length
_BYTES = 2**28  # of later counts that a chunk of the Hessian may hold


@dataclass(frozen=True, eq=False)
class Shelves:
    """Sequences of features in buckets.

    Attributes:
        buckets: which sequences are in each.
        grids: their features.
        shelf, place: (N,) the bucket of each sequence, and its row there.
    """

    buckets: list[Bucket]
    grids: list[PaddedBucket]
    shelf: np.ndarray
    place: np.ndarray

    @property
    def longest(self) -> int:
        return max(bucket.sites.shape[1] for bucket in self.buckets)

    @property
    def padding(self) -> float:
        """The share of all steps that is padding."""
        steps = sum(bucket.sites.size for bucket in self.buckets)
        return 1.0 - sum(int(bucket.lengths.sum()) for bucket in self.buckets) / steps

    def totals(
        self, program: Program, thetas: np.ndarray, coefficients: np.ndarray, order: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sums over all sequences of coefficient (N,) times log Z, (F,), and their slopes (F, D)."""
        values, slopes = np.zeros(len(thetas)), np.zeros(thetas.shape)
        for bucket, grid in zip(self.buckets, self.grids, strict=True):
            counted = jnp.asarray(coefficients[bucket.members])
            found = rows.totals(program, jnp.asarray(thetas), counted, jnp.asarray(order), grid)
            values += np.asarray(found[0])
            slopes += np.asarray(found[1])
        return values, slopes

    def log_partitions(
        self,
        program: Program,
        thetas: np.ndarray,
        sequences: np.ndarray,
        labels: np.ndarray,
        order: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(R,) log sum over states that have the known labels, and slopes (R, D).

        Args:
            program: what is compiled.
            thetas: (R, D).
            sequences: (R,).
            labels: (R, longest), -1 where not known.
            order: (D,) of the parameters, see `rows.order`.
            weights: (R, longest) with what probability a label is kept; None: all known ones are.
        """
        values, slopes = np.empty(len(sequences)), np.empty(thetas.shape)
        size = None if weights is None else _FEW_ROWS
        for some, grid, places in self._chunks(sequences, size):
            steps = grid.design.shape[1]
            arrays = (jnp.asarray(thetas[some]), places, jnp.asarray(labels[some, :steps]))
            if weights is None:
                found = rows.log_partitions(program, *arrays, jnp.asarray(order), grid)
            else:
                kept = jnp.asarray(weights[some, :steps])
                found = rows.mean_log_partitions(program, *arrays, kept, grid)
            values[some], slopes[some] = map(np.asarray, found)
        return values, slopes

    def log_marginals(
        self, program: Program, thetas: np.ndarray, sequences: np.ndarray, labels: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Chunks of row numbers (n,) and log p(z_t | known labels, x) (n, T, K)."""
        for some, grid, places in self._chunks(sequences):
            known = jnp.asarray(labels[some, : grid.design.shape[1]])
            found = rows.log_marginals(program, jnp.asarray(thetas[some]), places, known, grid)
            yield some, np.asarray(found)

    def best_paths(self, program: Program, theta: np.ndarray) -> list[np.ndarray | None]:
        """The most probable states of every sequence; None where no path is possible."""
        everyone = np.arange(len(self.shelf))
        found: list[np.ndarray | None] = [None] * len(everyone)
        for some, grid, places in self._chunks(everyone):
            thetas = jnp.asarray(np.tile(theta, (len(some), 1)))
            paths, totals = map(np.asarray, rows.best_paths(program, thetas, places, grid))
            lengths = np.asarray(grid.lengths)[np.asarray(places)]
            for row, path, length, total in zip(some, paths, lengths, totals, strict=True):
                found[row] = path[:length] if total > -np.inf else None
        return found

    def covariance(
        self,
        program: Program,
        theta: np.ndarray,
        sequences: np.ndarray,
        coefficients: np.ndarray,
        order: np.ndarray,
        labels: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """(D, D) sum over rows of coefficient (R,) times second derivatives of `log_partitions`, all at
        one theta (D,); labels None: none is known."""
        total = np.zeros((len(theta), len(theta)))
        t, places_of = jnp.asarray(theta), jnp.asarray(order)
        for number, grid in enumerate(self.grids):
            inside = np.flatnonzero((self.shelf[sequences] == number) & (coefficients != 0))
            steps = grid.design.shape[1]
            size = _FEW_ROWS if weights is not None else _most_rows(grid, len(inside), len(theta))
            for some, real in _split(inside, size):
                known = (
                    np.full((len(some), steps), UNKNOWN, np.int32)
                    if labels is None
                    else labels[some, :steps]
                )
                scale = jnp.asarray(np.where(real, coefficients[some], 0.0))
                at = (t, jnp.asarray(self.place[sequences[some]]), jnp.asarray(known))
                if weights is None:
                    total += np.asarray(rows.covariance(program, *at, scale, places_of, grid))
                else:
                    kept = jnp.asarray(weights[some, :steps])
                    total += np.asarray(rows.mean_curvature(program, *at, kept, scale, grid))
        return total

    def _chunks(
        self, sequences: np.ndarray, size: int | None = None
    ) -> Iterator[tuple[np.ndarray, PaddedBucket, jax.Array]]:
        """Row numbers of one bucket, its grid, and the rows' places in it."""
        size = size or (_CHUNK if jax.default_backend() == "cpu" else _CHUNK_DEVICE)
        for number, grid in enumerate(self.grids):
            for some, _ in _split(np.flatnonzero(self.shelf[sequences] == number), size):
                yield some, grid, jnp.asarray(self.place[sequences[some]])


def _most_rows(grid: PaddedBucket, count: int, size: int) -> int:
    """All of a bucket at once if memory allows; few rows share the chunks of other few rows."""
    if count <= _CHUNK < len(grid.lengths):
        return _CHUNK
    states = math.isqrt(size) + 1  # at most: there are K^2 transitions among the parameters
    return min(len(grid.lengths), max(_BYTES // (8 * size * states), _CHUNK))


def _split(numbers: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Chunks of one size, the last one padded by repeating its last entry; and what is not padding."""
    for start in range(0, len(numbers), size):
        index = np.arange(start, start + size)
        yield numbers[np.minimum(index, len(numbers) - 1)], index < len(numbers)


@in_float64
def shelved(design: np.ndarray, scores: np.ndarray | None, lengths: np.ndarray) -> Shelves:
    """Sequences of these lengths; `design` (sites, Q) and `scores` (sites, K) as a model makes them."""
    buckets = bucketed(lengths)
    shelf, place = np.empty((2, len(lengths)), int)
    grids = []
    for number, bucket in enumerate(buckets):
        shelf[bucket.members], place[bucket.members] = number, np.arange(len(bucket.members))
        given = None if scores is None else jnp.asarray(bucket.grid(scores))
        grids.append(PaddedBucket(jnp.asarray(bucket.grid(design)), given, jnp.asarray(bucket.lengths)))
    return Shelves(buckets, grids, shelf, place)
