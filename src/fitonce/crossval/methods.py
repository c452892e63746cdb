"""From weights to parameters, for all folds: the ladder of methods, cheapest first.

| method    | parameters of fold o                    | work per fold                     |
|-----------|-----------------------------------------|-----------------------------------|
| `none`    | theta1                                  | none: the control                 |
| `ij`      | theta1 - H^-1 (g + J (u_o - u_0))       | a matrix product                  |
| `onestep` | theta1 - H^-1 grad F(theta1, w_o)       | one gradient                      |
| `newton`  | theta1 - H_o^-1 grad F(theta1, w_o)     | one gradient and Hessian          |
| `exact`   | argmin F(., w_o), started at theta1     | about five gradients, one Hessian |

g is the gradient that the fit left, at rounding level for a stationary one. `ij` is the paper's
Algorithm 1 (and its leave-structure-out algorithm for whole sequences).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fitonce.core.status import Outcome, Rung, Status
from fitonce.crossval.batches import Batches
from fitonce.crossval.fold_states import FoldParameters, is_large, start
from fitonce.crossval.refine import refine
from fitonce.crossval.refine_products import fold_solve
from fitonce.fitting.certificate import certify, direction
from fitonce.fitting.curvature import Curvature

Method = Callable[[Curvature, Batches], FoldParameters]
_SOLVED = 1e-6  # relative residual of a step by products
_APPROXIMATE = Status(Outcome.APPROXIMATE, "")


def none(curvature: Curvature, batches: Batches) -> FoldParameters:
    """The control: parameters of the full fit."""
    return _approximate(_at_the_fit(curvature, batches), Rung.NONE)


def ij(curvature: Curvature, batches: Batches) -> FoldParameters:
    """The infinitesimal jackknife: first order along the path of the scheme."""
    objective = curvature.objective
    base = np.asarray(objective.coordinates(objective.base))
    # With fewer folds than parameters, the few products with J that they need are cheaper than J.
    few = batches.n_folds < len(curvature.theta) and objective.traits.products
    cross = None if few and not objective.traits.cheap_cross else curvature.J

    def slopes(weights: np.ndarray, _: np.ndarray) -> tuple[np.ndarray]:
        change = np.asarray(objective.coordinates(weights)) - base
        along = objective.slopes_along(curvature.theta, change) if cross is None else change @ cross.T
        return (curvature.gradient - curvature.ignored + along,)

    known = (curvature.theta, curvature.gradient - curvature.ignored)
    (slope,) = batches.map(slopes, "expansion", _everyone(batches), knows=known)
    thetas = curvature.theta - curvature.solve(slope.T).T
    return _approximate(thetas, Rung.IJ)


def onestep(curvature: Curvature, batches: Batches) -> FoldParameters:
    """One step of the fold's own gradient through the full fit's H: no path."""
    objective = curvature.objective
    if objective.traits.linear_in_weights and objective.traits.cheap_cross:
        return _approximate(ij(curvature, batches).thetas, Rung.ONESTEP)
    thetas = _at_the_fit(curvature, batches)
    _, gradients = batches.values_and_gradients(thetas, _everyone(batches))
    thetas = curvature.theta - curvature.solve((gradients - curvature.ignored).T).T
    return _approximate(thetas, Rung.ONESTEP)


def newton(curvature: Curvature, batches: Batches) -> FoldParameters:
    """One Newton step with the fold's own Hessian."""
    if is_large(curvature, batches):
        return large_newton(curvature, batches)
    everyone = _everyone(batches)
    thetas = _at_the_fit(curvature, batches)
    before, gradients = batches.values_and_gradients(thetas, everyone)
    (hessians,) = batches.map(
        lambda weights, _, t: (curvature.objective.hessians(t, weights),),
        "fold Hessians",
        everyone,
        thetas,
        per_fold=len(curvature.theta),
    )
    batches.hessians_used[:] += 1
    status, inverses = [], np.full_like(hessians, np.nan)
    for fold, (gradient, hessian) in enumerate(zip(gradients, hessians, strict=True)):
        sound = certify(gradient, hessian, 0.0, curvature.names, np.inf)
        status.append(_APPROXIMATE if sound.ok else sound)
        if sound.ok:
            inverses[fold] = np.linalg.inv(hessian)
            thetas[fold] -= np.linalg.solve(hessian, gradient)
        else:
            thetas[fold] = np.nan
    after, gradients = batches.values_and_gradients(thetas, everyone)
    with np.errstate(invalid="ignore"):
        rise = np.where(after - before > 1e-12 * np.abs(before), after - before, 0.0)
    for fold in np.flatnonzero(rise > 0).tolist():
        lowest = direction(np.linalg.eigh(hessians[fold])[1][:, 0], curvature.names)
        status[fold] = Status(
            Outcome.OVERSHOT,
            f"the step raised the fold's objective by {rise[fold]:.2g} nats, since its Hessian at the "
            f"full fit is nearly flat along {lowest}; use onestep or exact",
        )
    rungs = np.full(len(thetas), Rung.NEWTON, object)
    return FoldParameters(thetas, status, inverses, gradients, rungs, True)


def large_newton(curvature: Curvature, batches: Batches) -> FoldParameters:
    """The same by products with the folds' Hessians."""
    everyone, thetas = _everyone(batches), _at_the_fit(curvature, batches)
    before, gradients = batches.values_and_gradients(thetas, everyone)
    found = fold_solve(curvature, batches, thetas, gradients, everyone)
    status = []
    for gradient, low, left in zip(gradients, found.lowest, found.residuals, strict=True):
        if not gradient.any():
            status.append(_APPROXIMATE)
        elif not np.isfinite(gradient).all() or np.isnan(low):
            status.append(Status(Outcome.NOT_FINITE, "the fold's gradient or Hessian is not finite"))
        elif low <= 0:
            text = "the fold's Hessian at the full fit goes downhill somewhere"
            status.append(Status(Outcome.NOT_A_MINIMUM, text))
        elif left > _SOLVED:
            text = f"the step is solved to a relative residual of {left:.1e} only"
            status.append(Status(Outcome.NOT_STATIONARY, text))
        else:
            status.append(_APPROXIMATE)
    sound = np.array([s.ok for s in status])
    thetas = np.where(sound[:, None], thetas - found.x, np.nan)
    after, gradients = batches.values_and_gradients(thetas, everyone)
    with np.errstate(invalid="ignore"):
        rise = np.where(after - before > 1e-12 * np.abs(before), after - before, 0.0)
    for fold in np.flatnonzero(rise > 0).tolist():
        text = f"the step raised the fold's objective by {rise[fold]:.2g} nats; use onestep or exact"
        status[fold] = Status(Outcome.OVERSHOT, text)
    return FoldParameters(
        thetas, status, None, gradients, np.full(len(thetas), Rung.NEWTON, object), True
    )


def exact(curvature: Curvature, batches: Batches) -> FoldParameters:
    """The fold's own optimum, refined from the full fit to a certified minimum."""
    state = start(batches, curvature)
    refine(batches, state, _everyone(batches), curvature)
    return FoldParameters(state.thetas, state.status, state.inverses, state.gradients, state.rungs, True)


def _everyone(batches: Batches) -> np.ndarray:
    return np.arange(batches.n_folds)


def _at_the_fit(curvature: Curvature, batches: Batches) -> np.ndarray:
    return np.tile(curvature.theta, (batches.n_folds, 1))


def _approximate(thetas: np.ndarray, rung: Rung) -> FoldParameters:
    bad = Status(Outcome.NOT_FINITE, "the step is not finite; the fold's gradient overflows")
    finite = np.isfinite(thetas).all(1)
    status = [_APPROXIMATE if good else bad for good in finite]
    rungs = np.full(len(thetas), rung, object)
    return FoldParameters(thetas, status, None, None, rungs)


METHODS: dict[str, Method] = {
    "none": none,
    "ij": ij,
    "onestep": onestep,
    "newton": newton,
    "exact": exact,
}
