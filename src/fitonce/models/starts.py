"""Where fits of chains begin: states as clusters of steps.

States may differ by their pattern: high in one channel, low in another. Levels that rise in every
channel do not start such states. Steps are clustered in all channels together, on scales with equal
noise. Every state starts as a model of one state does at the steps of its cluster.

Each way of clustering misses some states, so that random starts have several: single steps, means over
windows (for states that overlap but last), random segments, and splits of the widest cluster.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.vq import ClusterError

from fitonce.core.parameters import Params
from fitonce.models.emissions.base import Emission, Rows, best_kmeans

_MOST = 20_000  # steps that are clustered; the others go to the nearest cluster
_ENTRIES = 2_000_000  # of these in all columns
_LEAST_NOISE = 0.05  # of the spread of a column
_SOME = 1000  # steps that are looked at: they must differ in more ways than there are states
_ATTEMPTS = 3  # of k-means, some of whose clusters may become empty
_CLUSTERINGS = 4  # kinds of clusters, as in `_labels`
_TRIES = 8  # runs of k-means for the first start
_WINDOWS = (4, 12, 36)  # steps
_STRANGERS = 0.1  # share of other steps added to a cluster, so that no state rules anything out
_AT_LEAST = 5  # such steps
_SEGMENTS = (4, 40)  # steps of a segment, at least and at most


class ObservedSteps(NamedTuple):
    """Observed steps in order: the `row` of each, its `sequence` and its `time` there, all (M,)."""

    row: np.ndarray
    sequence: np.ndarray
    time: np.ndarray

    @classmethod
    def of(cls, rows: Rows, index: Any, grid: tuple[int, int]) -> ObservedSteps:
        """Of rows that are the steps of `grid` = (N, T) in order, or those whose numbers `index` has."""
        cells = np.arange(math.prod(grid)) if index is None else np.asarray(index).ravel()
        seen = np.flatnonzero(np.asarray(rows.counts)[cells] > 0)
        return cls(cells[seen], *np.divmod(seen, grid[1]))


def clustered(
    emission: Emission,
    n_states: int,
    rows: Rows,
    steps: ObservedSteps,
    rng: np.random.Generator | None,
) -> Params:
    """Starting values of the emission's parameters.

    Args:
        emission: of one state at a time, in any number of channels.
        n_states: K.
        rows: the observations.
        steps: where these are.
        rng: of a random start; None: the first one.
    """
    several = rows.x.shape[1] > 1 and _starts_alone(emission, n_states, rows)
    points = _points(emission, rows, steps) if several else None
    if points is None:
        return emission.start(n_states, rows, rng)
    kind = 0 if rng is None else int(rng.integers(_CLUSTERINGS + 1))
    if kind == _CLUSTERINGS:  # as the emission itself starts
        return emission.start(n_states, rows, rng)
    random = rng or np.random.default_rng(0)
    labels = _labels(points, steps, n_states, kind, random, rng is None)
    if labels is None:
        return emission.start(n_states, rows, rng)
    return _of_clusters(emission, n_states, rows, steps.row, labels, random)


def _starts_alone(emission: Emission, n_states: int, rows: Rows) -> bool:
    """Whether each state may start as a model of one state does: its parameters are the first axis."""
    if n_states == 1 or emission.lags or emission.memory or emission.traits.along_time:
        return False
    if emission.is_supported:  # of states by their numbers: by an M step
        return emission.traits.m_step
    try:
        alone, every = emission.parameters(1, rows), emission.parameters(n_states, rows)
    except (ValueError, AssertionError):  # of one's own, for so many states only
        return False
    return all(
        alone[name].shape == one.shape or alone[name].shape == (1, *one.shape[1:])
        for name, one in every.items()
    )


def _points(emission: Emission, rows: Rows, steps: ObservedSteps) -> np.ndarray | None:
    """(M, F) what steps are clustered by, with unit noise in each column, by successive steps; means
    where only some channels were observed. None: nothing varies."""
    found = emission.features(_at(rows, steps.row))
    known = np.isfinite(found)
    if not known.any():
        return None
    found = found[:, known.any(0)]
    means, spread = np.nanmean(found, 0), np.nanstd(found, 0)
    varies = spread > 1e-12 * np.abs(means)
    if not varies.any():
        return None
    found, means, spread = found[:, varies], means[varies], spread[varies]
    next_to = (np.diff(steps.sequence) == 0) & (np.diff(steps.time) == 1)
    changes = np.diff(found, axis=0)[next_to]
    pairs = np.isfinite(changes).sum(0)
    noise = np.sqrt(np.nansum(changes**2, 0) / (2.0 * np.maximum(pairs, 1)))
    scale = np.clip(np.where(pairs > 0, noise, spread), _LEAST_NOISE * spread, spread)
    return np.nan_to_num((found - means) / scale)


def _labels(
    points: np.ndarray,
    steps: ObservedSteps,
    n_states: int,
    kind: int,
    random: np.random.Generator,
    first: bool,
) -> np.ndarray | None:
    """(M,) the cluster of each step; None where there are too few."""
    if kind == 1:
        longest = max(len(points) // (4 * n_states), 1)
        points = _smoothed(points, steps.sequence, min(int(random.choice(_WINDOWS)), longest))
    if len(np.unique(points[:: max(len(points) // _SOME, 1)].round(9), axis=0)) <= n_states:
        return None
    most = int(np.clip(_ENTRIES // points.shape[1], _SOME, _MOST))
    some = points if len(points) <= most else random.choice(points, most, replace=False)
    if kind == 2:
        centres = _segments(points, n_states, random)
    elif kind == 3:
        centres = _by_splits(some, n_states, random)
    else:
        centres = _kmeans(some, n_states, random, _TRIES if first else 1)
    if first:
        centres = centres[np.argsort(centres[:, 0], kind="stable")]
    return _nearest(points, centres)


def _kmeans(points: np.ndarray, n: int, rng: np.random.Generator, tries: int) -> np.ndarray:
    """(n, F) centres."""
    for _ in range(_ATTEMPTS):
        with suppress(ClusterError):  # a cluster was empty
            return best_kmeans(points, n, rng, tries, missing="raise")[0]
    return points[rng.choice(len(points), n, replace=len(points) < n)]


def _by_splits(points: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, F) centres: the widest cluster is split in two, until there are n."""
    parts = [points]
    while len(parts) < n:
        widths = [((part - part.mean(0)) ** 2).sum() for part in parts]
        widest = parts.pop(int(np.argmax(widths)))
        near = (
            _nearest(widest, _kmeans(widest, 2, rng, 1)) if len(widest) > 2 else np.arange(len(widest))
        )
        halves = [widest[near == side] for side in (0, 1)]
        if min(map(len, halves)) == 0:
            halves = [widest, widest[:1]]
        parts += halves
    return np.stack([part.mean(0) for part in parts])


def _segments(points: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, F) the means of random segments."""
    length = int(rng.integers(_SEGMENTS[0], _SEGMENTS[1] + 1))
    length = max(min(length, len(points) // (2 * n)), 1)
    begin = rng.choice(len(points) - length + 1, n, replace=len(points) - length < n)
    return np.stack([points[at : at + length].mean(0) for at in begin])


def _nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """(R,) the numbers of the nearest centres."""
    return ((centres**2).sum(1) - 2.0 * points @ centres.T).argmin(1)


def _smoothed(points: np.ndarray, sequence: np.ndarray, window: int) -> np.ndarray:
    """Means over windows of so many steps of a sequence."""
    place = np.arange(len(points))
    begin = np.searchsorted(sequence, sequence)
    end = np.searchsorted(sequence, sequence, side="right")
    first = np.maximum(place - (window - 1) // 2, begin)
    last = np.minimum(place + window // 2 + 1, end)
    sums = np.concatenate([np.zeros((1, points.shape[1])), np.cumsum(points, 0)])
    return (sums[last] - sums[first]) / (last - first)[:, None]


def _of_clusters(
    emission: Emission,
    n_states: int,
    rows: Rows,
    row: np.ndarray,
    labels: np.ndarray,
    rng: np.random.Generator,
) -> Params:
    """Every state as a model of one state starts at the steps of its cluster and at some others; what
    states share as that starts at all steps."""
    shares = np.zeros((len(rows.counts), n_states))
    np.add.at(shares, (row, labels), 1.0)
    if emission.is_supported:
        spread = shares.sum(1, keepdims=True) / n_states
        mixed = (1.0 - _STRANGERS) * shares + _STRANGERS * spread
        return emission.maximise(emission.start(n_states, rows, None), mixed, rows)
    alone = emission.parameters(1, rows)
    found: dict[str, Any] = dict(emission.start(1, rows, None))
    starts = [emission.start(1, _with_strangers(rows, counts, rng), None) for counts in shares.T]
    for name, constraint in emission.parameters(n_states, rows).items():
        if constraint.shape != alone[name].shape:
            found[name] = np.concatenate([start[name] for start in starts])
    return found


def _with_strangers(rows: Rows, counts: np.ndarray, rng: np.random.Generator) -> Rows:
    """The rows of a cluster, which occur `counts` (R,) times, and some others, so that every channel was
    observed a few times."""
    usual = np.asarray(rows.counts, float)
    seen = rows.mask().reshape(len(usual), -1)

    def drawn(number: int, among: np.ndarray) -> np.ndarray:
        weights = usual * among
        some = rng.choice(len(usual), number, p=weights / weights.sum())
        return np.bincount(some, minlength=len(usual))

    counts = counts + drawn(max(int(_STRANGERS * counts.sum()), _AT_LEAST), np.ones(len(usual)))
    for channel in np.flatnonzero((counts > 0) @ seen < _AT_LEAST):
        if (usual * seen[:, channel]).any():
            counts = counts + drawn(_AT_LEAST, seen[:, channel])
    kept = np.flatnonzero(counts)
    return replace(_at(rows, kept), counts=counts[kept])


def _at(rows: Rows, row: np.ndarray) -> Rows:
    """Rows by their numbers, each counted once."""

    def take(values: Any) -> Any:
        return None if values is None else np.asarray(values)[row]

    return replace(
        rows,
        x=take(rows.x),
        observed=take(rows.observed),
        covariates=take(rows.covariates),
        counts=np.ones(len(row)),
        exposure=take(rows.exposure),
        constant=take(rows.constant),
    )
