"""Sequences in buckets of similar length: each bucket is padded to its longest and compiled once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from fitonce.core.chunks import chunks
from fitonce.core.deferred import jax
from fitonce.core.numerics import in_float64
from fitonce.objectives.base import Program, ValuesAndSlopes
from fitonce.objectives.labels import programs
from fitonce.objectives.labels.entries import order_of
from fitonce.objectives.labels.programs import PaddedBucket

_MOST = 6  # each bucket is one more program to compile
_WASTE = 0.2  # share of the steps that may be padding
_FEW = 20_000  # steps that are not worth another program
_CHUNK, _CHUNK_DEVICE = 128, 4096
_PARTIAL_CHUNK = 8  # with labels kept in part: memory grows with the square of the length
_BYTES = 2**28  # for expected later counts in a chunk of the Hessian


@dataclass(frozen=True, eq=False)
class Bucket:
    """Sequences of similar length.

    Attributes:
        members: (n,) numbers of the sequences.
        lengths: (n,) of each.
        sites: (n, T) the site at each step; arbitrary at padding.
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
    """The fewest buckets, at most `most`, that keep padding low; their bounds minimise padding."""
    for count in range(1, most + 1):
        ends = _ends(lengths, count)
        steps = int(np.take(ends, np.searchsorted(ends, lengths)).sum())
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
    """The longest length in each bucket: the cut of the sorted distinct lengths into at most `most`
    stretches that pads least, by dynamic programming."""
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
    last = len(sizes) - 1
    ends = [last]
    for cut in reversed(cuts):
        last = int(cut[last])
        ends.append(last)
    return sorted({int(sizes[end]) for end in ends})


def _usual_chunk(padded: PaddedBucket, count: int) -> int:
    return _CHUNK if jax.default_backend() == "cpu" else _CHUNK_DEVICE


def _hessian_chunk(parameters: int, padded: PaddedBucket, count: int) -> int:
    """All of a bucket at once if memory allows; a few rows share one small program."""
    if count <= _CHUNK < len(padded.lengths):
        return _CHUNK
    states = math.isqrt(parameters) + 1  # at most: there are K^2 transitions among the parameters
    return min(len(padded.lengths), max(_BYTES // (8 * parameters * states), _CHUNK))


@dataclass(frozen=True, eq=False)
class Buckets:
    """Features of all sequences in buckets, and the programs that run on them.

    A row is one sequence with the parameters and the known labels of one fold.

    Attributes:
        program: what is compiled.
        order: (D,) see `order_of`.
        buckets: which sequences are in each.
        padded: their features.
        bucket_of, place: (N,) the bucket of each sequence, and its place there.
    """

    program: Program
    order: np.ndarray
    buckets: list[Bucket]
    padded: list[PaddedBucket]
    bucket_of: np.ndarray
    place: np.ndarray

    @property
    def longest(self) -> int:
        return max(bucket.sites.shape[1] for bucket in self.buckets)

    def totals(self, thetas: np.ndarray, coefficients: np.ndarray) -> ValuesAndSlopes:
        """Sums over all sequences of coefficient (N,) times log Z, (F,), and their slopes (F, D)."""
        values, slopes = np.zeros(len(thetas)), np.zeros(thetas.shape)
        order = jax.device_put(self.order)
        for bucket, padded in zip(self.buckets, self.padded, strict=True):
            scale = jax.device_put(coefficients[bucket.members])
            found = programs.totals(self.program, jax.device_put(thetas), scale, order, padded)
            values += np.asarray(found[0])
            slopes += np.asarray(found[1])
        return values, slopes

    def log_partitions(
        self,
        thetas: np.ndarray,
        sequences: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> ValuesAndSlopes:
        """(R,) log sum over the states that agree with the known labels, and slopes (R, D).

        Args:
            thetas: (R, D).
            sequences: (R,).
            labels: (R, longest), -1 where not known.
            weights: (R, longest) the probability that a label is kept; None: all known ones are.
        """
        values, slopes = np.empty(len(sequences)), np.empty(thetas.shape)
        size = _usual_chunk if weights is None else lambda *_: _PARTIAL_CHUNK
        for some, _, padded, places in self._chunks(sequences, size):
            steps = padded.design.shape[1]
            rows = (
                self.program,
                jax.device_put(thetas[some]),
                places,
                jax.device_put(labels[some, :steps]),
            )
            if weights is None:
                found = programs.log_partitions(*rows, jax.device_put(self.order), padded)
            else:
                kept = jax.device_put(weights[some, :steps])
                found = programs.mean_log_partitions(*rows, kept, padded)
            values[some], slopes[some] = map(np.asarray, found)
        return values, slopes

    def log_marginals(
        self, thetas: np.ndarray, sequences: np.ndarray, labels: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Chunks of row numbers (n,) and log p(z_t | known labels, x) (n, T, K)."""
        for some, _, padded, places in self._chunks(sequences):
            known = jax.device_put(labels[some, : padded.design.shape[1]])
            arrays = (jax.device_put(thetas[some]), places, known, padded)
            yield some, np.asarray(programs.log_marginals(self.program, *arrays))

    def best_paths(
        self, theta: np.ndarray, sequences: np.ndarray | None = None
    ) -> list[np.ndarray | None]:
        """The most probable states of sequences (R,), by default of all; None where no path is
        possible."""
        chosen = np.arange(len(self.place)) if sequences is None else sequences
        found: list[np.ndarray | None] = [None] * len(chosen)
        for some, _, padded, places in self._chunks(chosen):
            thetas = jax.device_put(np.tile(theta, (len(some), 1)))
            paths, totals = map(np.asarray, programs.best_paths(self.program, thetas, places, padded))
            lengths = np.asarray(padded.lengths)[np.asarray(places)]
            for row, path, length, total in zip(some, paths, lengths, totals, strict=True):
                found[row] = path[:length] if total > -np.inf else None
        return found

    def covariance(
        self,
        theta: np.ndarray,
        coefficients: np.ndarray,
        sequences: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """(D, D) sum over rows of coefficient (R,) times second derivatives of `log_partitions`, all at
        one theta (D,)."""
        total = np.zeros((len(theta), len(theta)))
        at, order = jax.device_put(theta), jax.device_put(self.order)
        used = np.flatnonzero(coefficients)
        size = partial(_hessian_chunk, len(theta)) if weights is None else lambda *_: _PARTIAL_CHUNK
        for chunk, real, padded, places in self._chunks(sequences[used], size):
            some, steps = used[chunk], padded.design.shape[1]
            scale = jax.device_put(np.where(real, coefficients[some], 0.0))
            rows = (self.program, at, places, jax.device_put(labels[some, :steps]))
            if weights is None:
                total += np.asarray(programs.covariance(*rows, scale, order, padded))
            else:
                kept = jax.device_put(weights[some, :steps])
                total += np.asarray(programs.mean_curvature(*rows, kept, scale, padded))
        return total

    def _chunks(
        self, sequences: np.ndarray, size: Callable[[PaddedBucket, int], int] = _usual_chunk
    ) -> Iterator[tuple[np.ndarray, np.ndarray, PaddedBucket, jax.Array]]:
        """Row numbers of one bucket, which of them are not padding, the bucket, and the places of their
        sequences in it; `size`: rows of a chunk, given the bucket and the number of rows in it."""
        for number, padded in enumerate(self.padded):
            inside = np.flatnonzero(self.bucket_of[sequences] == number)
            for index, real in chunks(len(inside), size(padded, len(inside))):
                some = inside[index]
                yield some, real, padded, jax.device_put(self.place[sequences[some]])


@in_float64
def in_buckets(
    program: Program, design: np.ndarray, scores: np.ndarray | None, lengths: np.ndarray
) -> Buckets:
    """Sequences of these lengths; `design` (sites, Q) and `scores` (sites, K) as a model makes them."""
    buckets = bucketed(lengths)
    bucket_of, place = np.empty((2, len(lengths)), int)
    padded = []
    for number, bucket in enumerate(buckets):
        bucket_of[bucket.members], place[bucket.members] = number, np.arange(len(bucket.members))
        given = None if scores is None else jax.device_put(bucket.grid(scores))
        features = jax.device_put(bucket.grid(design))
        padded.append(PaddedBucket(features, given, jax.device_put(bucket.lengths)))
    return Buckets(program, order_of(program), buckets, padded, bucket_of, place)
