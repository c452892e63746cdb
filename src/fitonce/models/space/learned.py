"""What is learned in place of coefficients with units: numbers without, about the level of the data.

An intercept grows with the level of the data, and lies along a ridge with the coefficients of the past.
That of the data about their mean does neither: it is learned, and the intercept follows. Beside a unit
root, where data do not determine the mean of the process, they determine both of these as before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.core.constraints import as_tuples
from fitonce.models.space.system import Series

_FINE = 1e-12  # of the size of a covariate: it does not change


@dataclass(frozen=True)
class Level:
    """What the level of the data adds to an intercept: (centre + linear) * product of 1 - sums.

    Attributes:
        name: of the intercept.
        centre: of the data, a number or, as a tuple, one for each channel.
        linear: names of coefficients and their factors, numbers or tuples over the last axis.
        past: names of the coefficients of each polynomial in the lags, of which 1 - their sum is what a
            level leaves.
    """

    name: str
    centre: Any
    linear: tuple[tuple[str, Any], ...] = ()
    past: tuple[tuple[str, ...], ...] = ()

    def added(self, values: Mapping[str, Any]) -> Any:
        """At values (*shape, F), or (*shape,) of one."""
        extra = np.ndim(values[self.name]) - np.ndim(self.centre)
        found = np.reshape(self.centre, np.shape(self.centre) + (1,) * extra)
        for name, factor in self.linear:
            value, last = values[name], np.ndim(values[name]) - 1 - extra
            shape = (1,) * last + (-1,) + (1,) * extra
            term = value * (factor if not isinstance(factor, tuple) else np.reshape(factor, shape))
            found = found + (term.sum(last) if isinstance(factor, tuple) else term)
        for names in self.past:
            left = 1.0
            for name in names:
                value = values[name]
                left = left - (value.sum(0) if np.ndim(value) > extra else value)
            found = found * left
        return found


@dataclass(frozen=True)
class Learned:
    """The map from what is learned to the parameters as they are reported, and back.

    Attributes:
        units: names and the units that they have, numbers or nested tuples.
        levels: of intercepts.
    """

    units: tuple[tuple[str, Any], ...] = ()
    levels: tuple[Level, ...] = ()

    @property
    def names(self) -> set[str]:
        """Of parameters that differ from what is learned."""
        return {name for name, _ in self.units} | {level.name for level in self.levels}

    def reported(self, values: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(values)
        for name, unit in self.units:
            found[name] = found[name] * _shaped(unit, found[name])
        for level in self.levels:
            found[level.name] = found[level.name] + level.added(found)
        return found

    def learned(self, values: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(values)
        for level in self.levels:
            found[level.name] = found[level.name] - level.added(values)
        for name, unit in self.units:
            found[name] = found[name] / _shaped(unit, found[name])
        return found

    def without(self, names: set[str]) -> Learned | None:
        """The same where some parameters are known; None where nothing is left to do."""
        units = tuple(pair for pair in self.units if pair[0] not in names)
        levels = tuple(level for level in self.levels if level.name not in names)
        return Learned(units, levels) if units or levels else None


def _shaped(unit: Any, value: Any) -> np.ndarray:
    return np.reshape(unit, np.shape(unit) + (1,) * (np.ndim(value) - np.ndim(unit)))


def power_of_four(size: float) -> float:
    """So that coordinates of slightly different data are the same."""
    return 4.0 ** round(math.log2(size) / 2.0) if size > 0 and math.isfinite(size) else 1.0


def units_of_coefficients(steps: Series) -> np.ndarray:
    """(C, Q) of a channel for each covariate: how many of its units one of the covariate's is."""
    if not len(steps.covariates):
        return np.ones((steps.y.shape[1], steps.covariates.shape[1]))
    sizes, spreads = np.abs(steps.covariates).max(0), steps.covariates.std(0)
    spreads = np.where(spreads > _FINE * sizes, spreads, sizes)
    own = np.array([power_of_four(spread) for spread in spreads])
    return steps.unit[:, None] / own


def nested(array: Any) -> Any:
    """Numbers, or nested tuples of them."""
    return as_tuples(np.asarray(array, float).tolist())


def differences(order: int, seasonal: int, season: int) -> np.ndarray:
    """(m,) the coefficients of the past in y_t = sum_j delta_j y_t-j + u_t, of differences."""
    found = np.ones(1)
    for _ in range(order):
        found = np.convolve(found, [1.0, -1.0])
    for _ in range(seasonal):
        found = np.convolve(found, np.r_[1.0, np.zeros(season - 1), -1.0])
    return -found[1:]


def means_of_changes(steps: Series, past: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(C,) and (Q,) means of y_t - sum_j past_j y_t-j, of channels where all of these are observed, and
    of covariates at the same steps of the first channel; zeros where there are none."""
    reach, weights = len(past), np.r_[1.0, -past]
    first = np.repeat(steps.starts[:-1], np.diff(steps.starts))
    inside = np.arange(len(first)) - first >= reach
    y, known = np.where(steps.seen, steps.y, 0.0), steps.covariates
    seen, changed, moved = (
        np.repeat(inside[:, None], y.shape[1], 1),
        np.zeros(y.shape),
        np.zeros(known.shape),
    )
    for lag, weight in enumerate(weights):
        if weight:
            seen &= np.roll(steps.seen, lag, 0)
            changed += weight * np.roll(y, lag, 0)
            moved += weight * np.roll(known, lag, 0)
    count = np.maximum(seen.sum(0), 1)
    means = np.where(seen, changed, 0.0).sum(0) / count
    return means, moved[seen[:, 0]].sum(0) / count[0]
