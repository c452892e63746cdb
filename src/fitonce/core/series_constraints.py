"""Constraints of time series: variances that may be zero, frequencies, stationary autoregressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fitonce.core.constraints import EachEntry
from fitonce.core.deferred import jax, jnp
from fitonce.core.numerics import Array


@dataclass(frozen=True)
class Variance(EachEntry):
    """Numbers that may be zero; free coordinates are their square roots, of either sign, in `unit`, one
    for all or, as a tuple, one for each.

    At zero the objective is even in the root, so that an optimum on the boundary is an ordinary
    stationary point: its curvature there is twice the slope in the variance, positive if zero is best.
    """

    unit: float | tuple[float, ...] = 1.0
    even: ClassVar[bool] = True  # the objective is, in every free coordinate

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.sqrt(np.ravel(value)) / np.asarray(self.unit)

    def to_value(self, free: Array) -> Array:
        return ((free * np.asarray(self.unit)) ** 2).reshape(self.shape)

    def values(self, free: np.ndarray) -> np.ndarray:
        return ((free * np.reshape(self.unit, (-1, 1))) ** 2).reshape(*self.shape, -1)

    def violation(self, value: np.ndarray) -> str | None:
        return None if np.all(value >= 0) else "numbers that are not negative"


@dataclass(frozen=True)
class Interval(EachEntry):
    """Numbers between `low` and `high`; free coordinates are log-odds of the place in between."""

    low: float = 0.0
    high: float = 1.0

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.log(np.ravel(value) - self.low) - np.log(self.high - np.ravel(value))

    def to_value(self, free: Array) -> Array:
        return (self.low + (self.high - self.low) * jax.nn.sigmoid(free)).reshape(self.shape)

    def values(self, free: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # the place is then an end
            share = 1.0 / (1.0 + np.exp(-free))
        return (self.low + (self.high - self.low) * share).reshape(*self.shape, -1)

    def violation(self, value: np.ndarray) -> str | None:
        inside = np.all((value > self.low) & (value < self.high))
        return None if inside else f"numbers between {self.low:g} and {self.high:g}"


@dataclass(frozen=True)
class Stationary(EachEntry):
    """Coefficients of stationary autoregressions x_t = sum_k phi_k x_t-k + noise along the last axis.

    Free coordinates x are x / sqrt(1 + x^2) = partial autocorrelations, from which Levinson's recursion
    makes the coefficients.

    """

    def to_free(self, value: np.ndarray) -> np.ndarray:
        partial = _partial(value)
        return np.ravel(partial / np.sqrt(1.0 - partial**2))

    def to_value(self, free: Array) -> Array:
        partial = (free / jnp.sqrt(1.0 + free**2)).reshape(self.shape)
        found = partial[..., :0]
        for order in range(self.shape[-1]):
            last = partial[..., order : order + 1]
            found = jnp.concatenate([found - last * found[..., ::-1], last], -1)
        return found

    def values(self, free: np.ndarray) -> np.ndarray:
        partial = (free / np.sqrt(1.0 + free**2)).reshape(*self.shape, -1)
        found = partial[..., :0, :]
        for order in range(self.shape[-1]):
            last = partial[..., order : order + 1, :]
            found = np.concatenate([found - last * found[..., ::-1, :], last], -2)
        return found

    def violation(self, value: np.ndarray) -> str | None:
        if np.all(np.abs(_partial(value)) < 1):
            return None
        return "coefficients of a stationary autoregression"


def _partial(coefficients: np.ndarray) -> np.ndarray:
    """Partial autocorrelations of autoregressions along the last axis, by Levinson's recursion read
    backwards; nan where there are none."""
    rest = np.asarray(coefficients, float)
    found = np.empty(rest.shape)
    with np.errstate(all="ignore"):
        for order in range(rest.shape[-1] - 1, -1, -1):
            last = rest[..., -1:]
            found[..., order] = last[..., 0]
            rest = (rest[..., :-1] + last * rest[..., :-1][..., ::-1]) / (1.0 - last**2)
    return found
