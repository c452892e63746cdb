"""Parts of a structural time series: each has states of its own, and they add up in the observation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.models.space.system import Values


class Component(NamedTuple):
    """States of a part, for F folds.

    Attributes:
        loading: (n,).
        moving: (n, n, F).
        shaking: (n, n, F).
        diffuse: whether nothing is known about its first state; otherwise it is stationary.
    """

    loading: np.ndarray
    moving: np.ndarray
    shaking: np.ndarray
    diffuse: bool = True


def _on_diagonal(size: int, places: list[int], variance: np.ndarray) -> np.ndarray:
    found = np.zeros((size, size, variance.shape[-1]), variance.dtype)
    found[places, places] = variance
    return found


def _same(matrix: np.ndarray, folds: int) -> np.ndarray:
    return np.repeat(matrix[..., None], folds, -1)


def level(values: Values, slope: bool, folds: int) -> Component:
    """A level, with a slope where asked for; each moves where it has a variance."""
    size = 1 + slope
    moving = np.eye(size)
    moving[0, slope] = 1.0
    still = np.zeros(folds)
    shaking = _on_diagonal(size, [0], values.get("level", still))
    if "slope" in values:
        shaking = shaking + _on_diagonal(size, [1], values["slope"])
    return Component(np.eye(size)[0], _same(moving, folds), shaking)


def dummies(period: int, variance: np.ndarray) -> Component:
    """Seasons whose sum over a period is noise."""
    size = period - 1
    moving = np.eye(size, k=-1)
    moving[0] = -1.0
    folds = variance.shape[-1]
    return Component(np.eye(size)[0], _same(moving, folds), _on_diagonal(size, [0], variance))


def harmonics(period: float, count: int, variance: np.ndarray) -> Component:
    """Seasons that are sums of waves of period, period / 2, ..., all with one variance. A wave of two
    steps only changes its sign: it has no second state."""
    size = 2 * count - (2 * count == period)
    moving, loading = np.zeros((2 * count, 2 * count)), np.zeros(2 * count)
    for number in range(count):
        angle = 2.0 * np.pi * (number + 1) / period
        turn = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        moving[2 * number : 2 * number + 2, 2 * number : 2 * number + 2] = turn
        loading[2 * number] = 1.0
    moving, folds = moving[:size, :size], variance.shape[-1]
    return Component(
        loading[:size], _same(moving, folds), _on_diagonal(size, list(range(size)), variance)
    )


def cycle(frequency: np.ndarray, damping: np.ndarray, variance: np.ndarray) -> Component:
    """A wave of a frequency that is estimated, each turn `damping` times as large as the one before."""
    along, across = damping * np.cos(frequency), damping * np.sin(frequency)
    moving = np.stack([np.stack([along, across]), np.stack([-across, along])])
    return Component(np.array([1.0, 0.0]), moving, _on_diagonal(2, [0, 1], variance))


def autoregression(coefficients: np.ndarray, variance: np.ndarray) -> Component:
    """A stationary autoregression, (p, F) coefficients."""
    size = len(coefficients)
    moving = _same(np.eye(size, k=1), variance.shape[-1]).astype(coefficients.dtype)
    moving[:, 0] = coefficients
    loading = np.eye(size)[0]
    return Component(loading, moving, _on_diagonal(size, [0], variance), diffuse=False)
