"""From weights to parameters, for many folds at once: the ladder of methods, cheapest first.

| method    | parameters of fold o                    | work per fold            |
|-----------|-----------------------------------------|--------------------------|
| `none`    | theta1                                  | none: the control        |
| `ij`      | theta1 - H^-1 (g + J (u_o - u_0))       | a matrix product         |
| `onestep` | theta1 - H^-1 grad F(theta1, w_o)       | one gradient             |
| `newton`  | theta1 - H_o^-1 grad F(theta1, w_o)     | one gradient and Hessian |
| `exact`   | argmin F(., w_o), started at theta1     | a few of both            |

g is the gradient that the fit left, at rounding level for a stationary one. `ij` is the paper's
Algorithm 1 (and its leave-structure-out algorithm for whole sequences).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fitonce.curvature import Curvature
from fitonce.newton import certify, direction, minimise
from fitonce.status import Outcome, Status

EXACT_TOLERANCE = 1e-6  # standard errors; Newton's last steps end far below


class FoldParameters(NamedTuple):
    """What a method returns for a batch of folds."""

    thetas: np.ndarray  # (F, D); nan where the status is not ok and there is no usable number
    status: list[Status]


Method = Callable[[Curvature, np.ndarray], FoldParameters]

_APPROXIMATE = Status(Outcome.APPROXIMATE, "")


def none(curvature: Curvature, weights: np.ndarray) -> FoldParameters:
    """The control: parameters of the full fit."""
    return FoldParameters(_at_the_fit(curvature, weights), [_APPROXIMATE] * len(weights))


def ij(curvature: Curvature, weights: np.ndarray) -> FoldParameters:
    """The infinitesimal jackknife: first order along the path of the scheme."""
    objective = curvature.objective
    start = np.asarray(objective.coordinates(objective.base))
    change = np.asarray(objective.coordinates(weights)) - start
    slope = curvature.gradient[:, None] + curvature.J @ change.T
    return _approximate(curvature.theta - curvature.solve(slope).T)


def onestep(curvature: Curvature, weights: np.ndarray) -> FoldParameters:
    """One step of the fold's own gradient through the full fit's H: no path."""
    thetas = _at_the_fit(curvature, weights)
    gradients = curvature.objective.gradients(thetas, weights)
    return _approximate(curvature.theta - curvature.solve(gradients.T).T)


def newton(curvature: Curvature, weights: np.ndarray) -> FoldParameters:
    """One Newton step with the fold's own Hessian."""
    thetas = _at_the_fit(curvature, weights)
    gradients = curvature.objective.gradients(thetas, weights)
    hessians = curvature.objective.hessians(thetas, weights)
    status = []
    for row, gradient, hessian in zip(thetas, gradients, hessians, strict=True):
        sound = certify(gradient, hessian, 0.0, curvature.names, np.inf)
        if sound.ok:
            row -= np.linalg.solve(hessian, gradient)
        else:
            row[:] = np.nan
        status.append(_APPROXIMATE if sound.ok else sound)
    rise = _rise(curvature, thetas, weights)
    for fold in np.flatnonzero(rise > 0):
        lowest = direction(np.linalg.eigh(hessians[fold])[1][:, 0], curvature.names)
        status[fold] = Status(
            Outcome.OVERSHOT,
            f"the step raised the fold's objective by {rise[fold]:.2g} nats, since its Hessian at the "
            f"full fit is nearly flat along {lowest}; use onestep or exact",
        )
    return FoldParameters(thetas, status)


def exact(curvature: Curvature, weights: np.ndarray) -> FoldParameters:
    """The fold's own optimum, refitted from the full fit to a certified minimum."""
    thetas = _at_the_fit(curvature, weights)
    ends = minimise(curvature.objective, thetas, weights, tolerance=EXACT_TOLERANCE)
    status = [ends.status(f, curvature.names, EXACT_TOLERANCE) for f in range(len(weights))]
    return FoldParameters(ends.thetas, status)


def _rise(curvature: Curvature, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(F,) how much higher the folds' objectives are than at the full fit, beyond rounding."""
    before, _ = curvature.objective.values_and_gradients(_at_the_fit(curvature, weights), weights)
    after, _ = curvature.objective.values_and_gradients(thetas, weights)
    rise = after - before
    return np.where(rise > 1e-12 * np.abs(before), rise, 0.0)


def _at_the_fit(curvature: Curvature, weights: np.ndarray) -> np.ndarray:
    return np.tile(curvature.theta, (len(weights), 1))


def _approximate(thetas: np.ndarray) -> FoldParameters:
    bad = Status(Outcome.NOT_FINITE, "the step is not finite; the fold's gradient overflows")
    finite = np.isfinite(thetas).all(1)
    return FoldParameters(thetas, [_APPROXIMATE if good else bad for good in finite])


METHODS: dict[str, Method] = {
    "none": none,
    "ij": ij,
    "onestep": onestep,
    "newton": newton,
    "exact": exact,
}
