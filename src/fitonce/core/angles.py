"""Angles in radians, written as numbers within (-pi, pi], along the first axis of arrays."""

from __future__ import annotations

import math

import numpy as np

TURN = 2.0 * np.pi


def wrapped(angles: np.ndarray) -> np.ndarray:
    """The same angles within (-pi, pi]."""
    turned = np.pi - np.mod(np.pi - np.asarray(angles, float), TURN)
    return np.where(turned <= -np.pi, np.pi, turned)  # by rounding


def mean_direction(angles: np.ndarray) -> np.ndarray:
    """The direction of the mean of the unit vectors of angles (n, ...)."""
    return wrapped(np.angle(np.exp(1j * angles).mean(0)))


def quantiles_of_angles(angles: np.ndarray, probability: float) -> np.ndarray:
    """Quantiles of angles (n, ...), anticlockwise from opposite the circular median: the point of
    least mean distance along the circle, which is the quantile of one half."""
    middle = _median_samples(angles)
    return wrapped(middle + np.quantile(wrapped(angles - middle), probability, axis=0))


def _median_samples(angles: np.ndarray) -> np.ndarray:
    """The samples of least mean distance from all angles (n, ...)."""
    ordered = np.sort(wrapped(angles), 0).reshape(len(angles), -1)
    found = np.empty(ordered.shape[1])
    for column, values in enumerate(ordered.T):
        after = np.concatenate([values, values + TURN])
        sums = np.concatenate([[0.0], np.cumsum(after)])
        first = np.arange(len(values))
        last = np.searchsorted(after, values + np.pi, "right")  # samples within half a turn ahead
        ahead = sums[last] - sums[first] - (last - first) * values
        whole = first + len(values)  # the rest is behind the next turn of the same sample
        behind = (whole - last) * (values + TURN) - (sums[whole] - sums[last])
        found[column] = values[(ahead + behind).argmin()]
    return found.reshape(angles.shape[1:])


def shortest_arcs(angles: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Where the shortest arcs that hold this share of angles (n, ...) begin and end, anticlockwise."""
    ordered = np.sort(wrapped(angles), 0)
    held = min(max(math.ceil(level * len(ordered)), 1), len(ordered))
    ends = np.concatenate([ordered, ordered + TURN])[held - 1 : held - 1 + len(ordered)]
    shortest = (ends - ordered).argmin(0)[None]
    begin, end = (np.take_along_axis(part, shortest, 0)[0] for part in (ordered, ends))
    return begin, wrapped(end)


def turns_of(lower: np.ndarray, upper: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Arcs (h,) of consecutive steps as bands on a line without jumps, a turn apart from each other: all
    that reach into (-pi, pi], to be cut there."""
    begin = np.unwrap(lower)
    end = begin + np.mod(upper - lower, TURN)
    first, last = np.ceil((begin.min() - np.pi) / TURN), np.floor((end.max() + np.pi) / TURN)
    return [(begin - k * TURN, end - k * TURN) for k in np.arange(first, last + 1)]
