"""From weights to parameters, for all folds: the ladder of methods, cheapest first.

| method    | parameters of fold o                    | work per fold                     |
|-----------|-----------------------------------------|-----------------------------------|
| `none`    | theta1                                  | none: the control                 |
| `ij`      | theta1 - H^-1 (g + J (u_o - u_0))       | a matrix product                  |
| `onestep` | theta1 - H^-1 grad F(theta1, w_o)       | one gradient                      |
| `newton`  | theta1 - H_o^-1 grad F(theta1, w_o)     | one gradient and Hessian          |
| `exact`   | argmin F(., w_o), started at theta1     | about five gradients, one Hessian |

g is the gradient left by the fit, at rounding level for a stationary one. `ij` is the paper's
Algorithm 1 (and its leave-structure-out algorithm for whole sequences).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fitonce.core.arguments import shown
from fitonce.core.numerics import EitherArray, in_float64, on_device
from fitonce.core.status import Outcome, Rung, Status
from fitonce.crossval.batches import Batches
from fitonce.crossval.fold_states import FoldParameters, at_full_fit, is_large, start
from fitonce.crossval.mirrors import Mirrors, mirrors_of
from fitonce.crossval.refine import refine
from fitonce.crossval.refine_products import fold_solve
from fitonce.fitting.certificate import direction, refusal
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.factor import factor_of

Method = Callable[[Curvature, Batches], FoldParameters]
_SOLVED = 1e-6  # relative residual of a step by products
_APPROXIMATE = Status(Outcome.APPROXIMATE, "")


def none(curvature: Curvature, batches: Batches) -> FoldParameters:
    """The control: parameters of the full fit."""
    return _approximate(at_full_fit(batches, curvature), Rung.NONE)


def ij(curvature: Curvature, batches: Batches) -> FoldParameters:
    """The infinitesimal jackknife: first order along the path of the scheme."""
    objective = curvature.objective
    base = np.asarray(objective.coordinates(objective.base))
    # With fewer folds than parameters, products with J are cheaper than J.
    few = batches.n_folds < len(curvature.theta) and objective.traits.products
    cross = None if few and not objective.traits.cheap_cross else curvature.J

    @in_float64
    def slopes(weights: EitherArray, _: np.ndarray) -> tuple[EitherArray]:
        u = objective.coordinates(weights)
        change = (u if on_device(weights) else np.asarray(u)) - base
        along = objective.slopes_along(curvature.theta, change) if cross is None else change @ cross.T
        return (curvature.gradient - curvature.ignored + along,)

    known = (curvature.theta, curvature.gradient - curvature.ignored)
    (slope,) = batches.map(slopes, "expansion", batches.every_fold, depends_on=known)
    return _approximate(curvature.theta - curvature.solve(slope.T).T, Rung.IJ)


def onestep(curvature: Curvature, batches: Batches) -> FoldParameters:
    """One step with the fold's own gradient and the full fit's H: no path."""
    traits = curvature.objective.traits
    if traits.linear_in_weights and traits.cheap_cross:
        return _approximate(ij(curvature, batches).thetas, Rung.ONESTEP)
    _, gradients = batches.values_and_gradients(at_full_fit(batches, curvature), batches.every_fold)
    steps = curvature.solve((gradients - curvature.ignored).T).T
    return _approximate(curvature.theta - steps, Rung.ONESTEP)


def newton(curvature: Curvature, batches: Batches) -> FoldParameters:
    """One Newton step with the fold's own Hessian."""
    if is_large(curvature, batches):
        return large_newton(curvature, batches)
    thetas = at_full_fit(batches, curvature)
    before, gradients = batches.values_and_gradients(thetas, batches.every_fold)
    (hessians,) = batches.map(
        lambda weights, _, t: (curvature.objective.hessians(t, weights),),
        "fold Hessians",
        batches.every_fold,
        thetas,
        per_fold=len(curvature.theta),
    )
    batches.hessians_used[:] += 1
    status, inverses = [], np.full_like(hessians, np.nan)
    _hold(mirrors_of(curvature), gradients, hessians)
    for fold, (gradient, hessian) in enumerate(zip(gradients, hessians, strict=True)):
        refused = refusal(gradient, hessian, factor_of(hessian), curvature.names)
        status.append(refused or _APPROXIMATE)
        if refused is None:
            inverses[fold] = np.linalg.inv(hessian)
            thetas[fold] -= np.linalg.solve(hessian, gradient)
        else:
            thetas[fold] = np.nan

    def flat(fold: int) -> str:
        lowest = direction(np.linalg.eigh(hessians[fold])[1][:, 0], curvature.names)
        return f", since its Hessian at the full fit is nearly flat along {lowest}"

    return _stepped(batches, thetas, before, status, inverses, flat)


def _hold(mirrors: Mirrors, gradients: np.ndarray, hessians: np.ndarray) -> None:
    """Variances of zero stay there, and unit roots on their circle, whatever their curvature in a fold:
    by symmetry, no step of others depends on them. See `from_zero` for folds that would leave them."""
    for along, across in zip(mirrors.along, mirrors.across, strict=True):
        others = np.eye(len(along)) - np.outer(across, along)
        gradients[:] = gradients @ others.T
        hessians[:] = others @ hessians @ others.T + np.outer(across, across)


def large_newton(curvature: Curvature, batches: Batches) -> FoldParameters:
    """The same by products with the folds' Hessians."""
    thetas = at_full_fit(batches, curvature)
    before, gradients = batches.values_and_gradients(thetas, batches.every_fold)
    solution = fold_solve(curvature, batches, thetas, gradients, batches.every_fold)
    status = []
    for gradient, low, left in zip(gradients, solution.lowest, solution.residuals, strict=True):
        if not gradient.any():
            status.append(_APPROXIMATE)
        elif not np.isfinite(gradient).all() or np.isnan(low):
            status.append(Status(Outcome.NOT_FINITE, "the fold's gradient or Hessian is not finite"))
        elif low <= 0:
            text = "the fold's Hessian at the full fit is not positive definite"
            status.append(Status(Outcome.NOT_A_MINIMUM, text))
        elif left > _SOLVED:
            text = f"the step was solved only to a relative residual of {left:.1e}"
            status.append(Status(Outcome.NOT_STATIONARY, text))
        else:
            status.append(_APPROXIMATE)
    sound = np.array([s.ok for s in status])
    thetas = np.where(sound[:, None], thetas - solution.x, np.nan)
    return _stepped(batches, thetas, before, status)


def _stepped(
    batches: Batches,
    thetas: np.ndarray,
    before: np.ndarray,
    status: list[Status],
    inverses: np.ndarray | None = None,
    why: Callable[[int], str] = lambda fold: "",
) -> FoldParameters:
    """The result of Newton steps to thetas (F, D); those that raised the objective above its value
    `before` (F,) are marked as overshot, for the reason `why`."""
    after, gradients = batches.values_and_gradients(thetas, batches.every_fold)
    with np.errstate(invalid="ignore"):
        rise = after - before
        overshot = rise > 1e-12 * np.abs(before)
    overshot &= [one.ok for one in status]  # others have no step
    for fold in np.flatnonzero(overshot).tolist():
        text = f"the step raised the fold's objective by {rise[fold]:.2g} nats{why(fold)}"
        status[fold] = Status(Outcome.OVERSHOT, f"{text}; use onestep or exact")
    rungs = np.full(len(thetas), Rung.NEWTON, object)
    return FoldParameters(thetas, status, rungs, inverses, gradients, True)


def exact(curvature: Curvature, batches: Batches) -> FoldParameters:
    """The fold's own optimum, refined from the full fit to a certified minimum."""
    state = start(batches, curvature)
    refine(batches, state, batches.every_fold, curvature)
    return FoldParameters(state.thetas, state.status, state.rungs, state.inverses, state.gradients, True)


def _approximate(thetas: np.ndarray, rung: Rung) -> FoldParameters:
    bad = Status(Outcome.NOT_FINITE, "the step is not finite; the fold's gradient overflows")
    status = [_APPROXIMATE if finite else bad for finite in np.isfinite(thetas).all(1)]
    return FoldParameters(thetas, status, np.full(len(thetas), rung, object))


METHODS: dict[str, Method] = {
    "none": none,
    "ij": ij,
    "onestep": onestep,
    "newton": newton,
    "exact": exact,
}


def resolve_method(method: Any) -> str:
    """Check a `method=` argument."""
    if isinstance(method, str) and method in ("auto", *METHODS):
        return method
    raise ValueError(f"method must be 'auto' or one of {list(METHODS)}, got {shown(method)}")
