"""Where fits of chains begin: states as clusters of steps.

States may differ by their pattern, high in one channel and low in another, so that levels which rise in
every channel are no start for them. Steps are clustered in all channels together, on scales with equal
noise. Every state starts as a model of one state does at the steps of its cluster.

Each way of clustering misses some states, so that random starts have several: single steps, means over
windows (for states that overlap but last), random segments, and splits of the widest cluster.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from fitonce.core.parameters import Params
from fitonce.models.emissions.base import Emission, Rows, best_kmeans

_MOST = 20_000  # steps that are clustered; the others go to the nearest cluster
_SOME = 1000  # steps of which there must be as many kinds as states
_TRIES = 8  # runs of k-means for the first start
_WINDOWS = (4, 12, 36)  # steps
_STRANGERS = 0.1  # of a cluster's steps are of all others, so that no state rules anything out
_AT_LEAST = 5  # such steps
_SEGMENTS = (4, 40)  # steps of a segment, at least and at most


def clustered(
    emission: Emission,
    n_states: int,
    rows: Rows,
    steps: np.ndarray,
    rng: np.random.Generator | None,
) -> Params:
    """Starting values of the emission's parameters.

    Args:
        emission: of one state at a time, in any number of channels.
        n_states: K.
        rows: the observations.
        steps: (N, T) the row of each step.
        rng: of a random start; None: the first one.
    """
    usual = emission.start(n_states, rows, rng)
    if n_states == 1 or emission.lags or emission.memory or emission.traits.along_time:
        return usual
    points = _points(emission, rows, steps)
    if points is None or (rng is None and points.shape[-1] == 1):
        return usual
    kind = 0 if rng is None else int(rng.integers(5))
    if kind == 4:  # levels of each channel by themselves
        return usual
    random = rng or np.random.default_rng(0)
    labels = _labels(points, n_states, kind, random, rng is None)
    if labels is None:
        return usual
    return _of_clusters(emission, n_states, rows, steps, labels, usual, random)


def _points(emission: Emission, rows: Rows, steps: np.ndarray) -> np.ndarray | None:
    """(N, T, F) what steps are clustered by, with unit noise in each column, by successive steps; nan
    where nothing was observed, and means where only some channels were. None: nothing varies."""
    found = emission.features(rows)[steps]
    empty = ~np.isfinite(found).any(-1) | (np.asarray(rows.counts)[steps] == 0)
    flat = found[~empty]
    if not len(flat):
        return None
    means, spread = np.nanmean(flat, 0), np.nanstd(flat, 0)
    varies = spread > 1e-12 * np.abs(means)
    if not varies.any():
        return None
    changes = np.diff(found[..., varies], axis=1).reshape(-1, int(varies.sum()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns that are never observed twice
        noise = np.sqrt(np.nanmean(changes**2, 0) / 2.0)
    spread = spread[varies]
    noise = np.where(np.isfinite(noise), noise, spread)
    scale = np.clip(noise, 0.05 * spread, spread)
    points = (found[..., varies] - means[varies]) / scale
    points[~np.isfinite(points)] = 0.0
    points[empty] = np.nan
    return points


def _labels(
    points: np.ndarray, n_states: int, kind: int, random: np.random.Generator, first: bool
) -> np.ndarray | None:
    """(N, T) the cluster of each step, -1 where nothing was observed; None where there are too few."""
    if kind in (1, 2):
        longest = max(points.shape[1] // (4 * n_states), 1)
        points = _smoothed(points, min(int(random.choice(_WINDOWS)), longest))
    seen = np.isfinite(points[..., 0])
    flat = points[seen]
    if len(np.unique(flat[:: max(len(flat) // _SOME, 1)].round(9), axis=0)) <= n_states:
        return None
    some = flat if len(flat) <= _MOST else random.choice(flat, _MOST, replace=False)
    if kind == 2:
        centres = _segments(points, seen, n_states, random)
    elif kind == 3:
        centres = _by_splits(some, n_states, random)
    else:
        centres = _kmeans(some, n_states, random, _TRIES if first else 1)
    if first:
        centres = centres[np.argsort(centres[:, 0], kind="stable")]
    labels = np.full(seen.shape, -1)
    labels[seen] = _nearest(flat, centres)
    return labels


def _kmeans(points: np.ndarray, n: int, rng: np.random.Generator, tries: int) -> np.ndarray:
    """(n, F) centres."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an empty cluster, which keeps its old centre
        return best_kmeans(points, n, rng, tries)[0]


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


def _segments(points: np.ndarray, seen: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, F) the means of random segments."""
    sequence, time = np.nonzero(seen)
    length = int(rng.integers(_SEGMENTS[0], _SEGMENTS[1] + 1))
    length = max(min(length, len(time) // (2 * n)), 1)
    found = []
    for start in rng.choice(len(time), n, replace=len(time) < n):
        part = points[sequence[start], time[start] : time[start] + length]
        found.append(np.nanmean(part, 0))
    return np.stack(found)


def _nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """(R,) the numbers of the nearest centres."""
    return ((centres**2).sum(1) - 2.0 * points @ centres.T).argmin(1)


def _smoothed(points: np.ndarray, window: int) -> np.ndarray:
    """Means over windows of so many steps, where observed."""
    if window < 2:
        return points
    seen = np.isfinite(points[..., :1])
    sums = np.cumsum(np.where(seen, points, 0.0), 1)
    counts = np.cumsum(seen, 1)
    last = np.minimum(np.arange(points.shape[1]) + window // 2, points.shape[1] - 1)
    before = np.arange(points.shape[1]) - (window - window // 2)

    def within(total: np.ndarray) -> np.ndarray:
        return total[:, last] - np.where((before >= 0)[:, None], total[:, np.maximum(before, 0)], 0)

    found = within(sums) / np.maximum(within(counts), 1)
    return np.where(seen, found, np.nan)


def _of_clusters(
    emission: Emission,
    n_states: int,
    rows: Rows,
    steps: np.ndarray,
    labels: np.ndarray,
    usual: Params,
    rng: np.random.Generator,
) -> Params:
    """Every state as a model of one state starts at the steps of its cluster and at some others; what
    states share as usual."""
    shares = np.zeros((len(rows.counts), n_states))
    np.add.at(shares, (steps[labels >= 0], labels[labels >= 0]), 1.0)
    if getattr(emission, "support", None) is not None:  # of each state by its number
        spread = shares.sum(1, keepdims=True) / n_states
        return emission.maximise(usual, (1.0 - _STRANGERS) * shares + _STRANGERS * spread, rows)
    alone = emission.parameters(1, rows)
    found: dict[str, Any] = dict(usual)
    starts = [emission.start(1, _with_strangers(rows, counts, rng), None) for counts in shares.T]
    for name, constraint in emission.parameters(n_states, rows).items():
        if constraint.shape != alone[name].shape:
            found[name] = np.concatenate([start[name] for start in starts])
    return found


def _with_strangers(rows: Rows, counts: np.ndarray, rng: np.random.Generator) -> Rows:
    """The rows of a cluster, which occur `counts` (R,) times, and some others."""
    known = np.flatnonzero(np.asarray(rows.counts) > 0)
    number = max(int(_STRANGERS * counts.sum()), _AT_LEAST)
    some = rng.choice(known, number)
    counts = counts + np.bincount(some, minlength=len(counts))
    kept = counts > 0
    take: Any = lambda values: None if values is None else np.asarray(values)[kept]  # noqa: E731
    return replace(
        rows,
        x=take(rows.x),
        observed=take(rows.observed),
        covariates=take(rows.covariates),
        counts=counts[kept],
        exposure=take(rows.exposure),
        constant=take(rows.constant),
    )
