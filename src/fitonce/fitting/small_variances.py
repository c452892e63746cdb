"""Variances at zero or so near to it that curvature says nothing about how far they may be from it.

The objective is even in the root of a variance. Where its minimum is beside zero it has two, a root and
its negative, with a shallow saddle between them: curvature there is that of a ripple in a wide valley.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit

HALF = 0.5  # nats: so much higher is the objective one standard error from its minimum
_NEAR = 10.0  # standard errors of a root: no variance farther from zero is asked about zero
_LEAST_RISE, _MOST_RISE = 0.1, 2.5  # nats at a standard error, where a parabola has half a nat
_DECADES, _HALVINGS = 12.0, 40  # of the search elsewhere


@dataclass(frozen=True)
class SmallVariances:
    """Per free coordinate (D,):

    Attributes:
        at_zero: whether it is the root of a variance that is zero.
        beside: whether it is the root of one that is not, but zero is less than half a nat worse.
        rise: of these, how many nats zero is worse at most, other parameters following.
        worse: of both, the root at which the objective is half a nat higher.
    """

    at_zero: np.ndarray
    beside: np.ndarray
    rise: np.ndarray
    worse: np.ndarray


def small_variances(fit: Fit, errors: np.ndarray) -> SmallVariances:
    """Those of a fit, given standard errors of its free coordinates by curvature."""
    theta, space = fit.theta, fit.objective.space
    zero = space.at_zero(theta, errors)
    beside, rise, worse = np.zeros(len(theta), bool), np.full(len(theta), np.nan), theta.copy()
    near = space.even & (np.abs(theta) < _NEAR * errors) & ~zero  # False for nan
    for place in map(int, np.flatnonzero(zero | near)):
        along = fit.hessian_operator.solve(np.eye(len(theta))[place])
        if zero[place]:
            worse[place] = _worse_than_zero(fit, place, along, float(errors[place]))
            continue
        rise[place] = _rise(fit, _following(fit, place, along, 0.0))
        beside[place] = rise[place] < HALF
        if beside[place]:
            worse[place] = _worse_beside_zero(fit, place, along)
    return SmallVariances(zero, beside, rise, worse)


def _rise(fit: Fit, theta: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return fit.objective(theta) - fit.value


def _following(fit: Fit, place: int, along: np.ndarray, ratio: float) -> np.ndarray:
    """Parameters with a variance times `ratio`, to which others are linear: they follow the variance,
    not its root, by which all slopes vanish at zero."""
    others = 0.5 * fit.theta[place] * (ratio - 1.0) / along[place]
    theta = fit.theta + others * along
    theta[place] = fit.theta[place] * np.sqrt(ratio)
    return theta


def _worse_beside_zero(fit: Fit, place: int, along: np.ndarray) -> float:
    """The root of a variance that is not zero at which the objective is half a nat higher."""
    power = _searched(lambda power: _rise(fit, _following(fit, place, along, 1.0 + 10.0**power)))
    return float(fit.theta[place] * np.sqrt(1.0 + 10.0**power))


def _worse_than_zero(fit: Fit, place: int, along: np.ndarray, error: float) -> float:
    """The root of a variance at zero at which the objective is half a nat higher, others following to
    first order: a standard error, but measured where the objective is far from a parabola."""
    step = along / error
    if _LEAST_RISE <= _rise(fit, fit.theta + step) <= _MOST_RISE:
        return error
    return error * 10.0 ** _searched(lambda power: _rise(fit, fit.theta + 10.0**power * step))


def _searched(rise: Callable[[float], float]) -> float:
    """The power of ten, by halving, at which a rise is half a nat; infinity where it is nowhere."""
    low, high = -_DECADES, _DECADES
    if rise(high) < HALF:
        return np.inf
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        lower = rise(middle) < HALF  # False for what is not finite
        low, high = (middle, high) if lower else (low, middle)
    return 0.5 * (low + high)
