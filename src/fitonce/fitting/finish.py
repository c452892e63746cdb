"""The end of a fit: from near a minimum to a certified one, with its H.

With few parameters Newton's method uses H itself, with many it uses products with H. H is then formed
once if memory allows, and its factor certifies the minimum. Otherwise the curvature found by products is
the evidence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from fitonce.core import memory
from fitonce.core.numerics import lengths_of
from fitonce.core.status import Outcome, Status
from fitonce.core.wording import counted
from fitonce.fitting.certificate import (
    certify_by_bound,
    certify_by_factor,
    certify_by_products,
    lost_to_rounding,
    not_finite,
    refusal,
)
from fitonce.fitting.conjugate_gradients import conjugate_gradients
from fitonce.fitting.footprint import matrix_bytes
from fitonce.fitting.hessian import (
    LARGE,
    PRODUCTS_PAY,
    DenseHessian,
    DeviceHessian,
    HessianOperator,
    ImplicitHessian,
    IndefiniteError,
)
from fitonce.fitting.newton import ASIDE, minimise, off_saddle
from fitonce.fitting.newton_cg import newton_cg_afresh
from fitonce.objectives.base import Objective

_MOST_SADDLES = 3
_SOLVED = 1e-3  # relative residual
_TIGHTER = 1e-3  # of the tolerance: a last Newton step that far is one that proves itself
_PROVED = 0.03  # the same where products are dear: enough for the proof, at rounding level or not
_BY_PRODUCTS = 8  # times as many steps: each is cheaper, and networks need many
_LOOK = 60  # products in the search for negative curvature


class Finished(NamedTuple):
    """The end point of a fit.

    Attributes:
        theta, gradient: (D,).
        hessian: H there, to multiply and to solve with.
        distance: from stationary, in standard errors; nan where H is not positive definite.
        lowest: smallest eigenvalue of H; nan where H is not formed.
        status: whether it is a minimum.
    """

    theta: np.ndarray
    gradient: np.ndarray
    hessian: HessianOperator
    distance: float
    lowest: float
    status: Status


def by_products(objective: Objective) -> bool:
    """Whether there are so many parameters that Newton's method uses products with H."""
    return objective.space.size > PRODUCTS_PAY and objective.traits.products


def is_formed(objective: Objective) -> bool:
    """Whether H is formed: where memory allows, and always where there is no other way."""
    if not by_products(objective):
        return True
    return objective.traits.formed and matrix_bytes(objective.space.size) <= memory.left()


def finish(objective: Objective, theta: np.ndarray, tolerance: float, max_steps: int) -> Finished:
    """From `theta` to a minimum, in at most `max_steps` Newton steps."""
    found = _finish(objective, theta, tolerance, max_steps)
    convex = objective.least_curvature is not None
    if convex and found.status.outcome is Outcome.NOT_A_MINIMUM:
        return found._replace(status=lost_to_rounding(found.lowest))
    return found


def _finish(objective: Objective, theta: np.ndarray, tolerance: float, max_steps: int) -> Finished:
    formed = is_formed(objective)
    if formed:
        size = objective.space.size
        memory.hold(matrix_bytes(size), f"H of {counted(size, 'parameter')}")
    if not by_products(objective):
        return _with_matrix(objective, theta, tolerance, max_steps)
    theta = _descend(objective, theta, tolerance, max_steps) if max_steps else theta
    proved = _by_bound(objective, theta, tolerance, formed)
    if proved is not None:
        return proved
    if not formed:
        return _without_matrix(objective, theta, tolerance)
    return _off_saddles(objective, _factored(objective, theta, tolerance), tolerance, max_steps)


def _with_matrix(objective: Objective, theta: np.ndarray, tolerance: float, max_steps: int) -> Finished:
    names, base = list(objective.space.names), objective.base[None]
    end = minimise(objective, theta[None], base, tolerance=tolerance, max_steps=max_steps)
    for _ in range(_MOST_SADDLES if max_steps else 0):
        if not end.is_saddle(0):
            break
        end = off_saddle(objective, end, base[0], tolerance=tolerance)
    hessian = DenseHessian(end.hessians[0], names, factor=end.factors[0])
    status, distance = end.status(0, names, tolerance), float(end.distances[0])
    return Finished(end.thetas[0], end.gradients[0], hessian, distance, end.lowest(0), status)


def _by_bound(
    objective: Objective, theta: np.ndarray, tolerance: float, formed: bool
) -> Finished | None:
    """At a point of a convex objective whose gradient alone proves that it is close enough; H is formed
    when it is asked for. None where it does not."""
    least = objective.least_curvature
    if least is None:
        return None
    gradient = objective.gradients(theta[None], objective.base[None])[0]
    distance = float(lengths_of(gradient) / np.sqrt(least))
    if not distance <= tolerance:
        return None
    hessian: HessianOperator
    if formed:
        form = lambda: objective.hessians(theta[None], objective.base[None])[0]  # noqa: E731
        hessian = DenseHessian(form, list(objective.space.names))
    else:
        hessian = ImplicitHessian(objective, theta)
    status = certify_by_bound(gradient, distance, least)
    return Finished(theta, gradient, hessian, distance, least, status)


def _descend(objective: Objective, theta: np.ndarray, tolerance: float, max_steps: int) -> np.ndarray:
    everyone = objective.base[None]
    if objective.least_curvature is not None:  # so that the gradient alone is proof, see `_by_bound`
        tolerance *= _TIGHTER if objective.traits.formed else _PROVED
    return newton_cg_afresh(
        lambda t, _: objective.values_and_gradients(t, everyone),
        lambda t, v, _: objective.products(t, v, everyone),
        objective.preconditioner,
        theta,
        tolerance=tolerance,
        most_steps=_BY_PRODUCTS * max_steps,
        convex=objective.least_curvature is not None and not objective.traits.formed,
    ).thetas[0]


def _off_saddles(objective: Objective, found: Finished, tolerance: float, max_steps: int) -> Finished:
    """From a saddle downhill along the eigenvector of its lowest eigenvalue, a few times."""
    for _ in range(_MOST_SADDLES if max_steps else 0):
        if found.status.outcome is not Outcome.NOT_A_MINIMUM:
            break
        size = len(found.theta)
        operator = LinearOperator((size, size), matvec=found.hessian.product, dtype=float)
        start = np.random.default_rng(0).normal(size=size)
        try:
            down = eigsh(operator, 1, which="SA", tol=1e-2, v0=start, maxiter=60)[1][:, 0]
        except ArpackError:
            break
        step = ASIDE * down / np.abs(down).max()
        sides = np.stack([found.theta + step, found.theta - step])
        values, _ = objective.values_and_gradients(sides, np.tile(objective.base, (2, 1)))
        theta = _descend(objective, sides[int(np.argmin(values))], tolerance, max_steps)
        found = _factored(objective, theta, tolerance)
    return found


def _factored(objective: Objective, theta: np.ndarray, tolerance: float) -> Finished:
    """At a point with many parameters: the factor of H certifies a minimum."""
    base, names = objective.base[None], list(objective.space.names)
    gradient = objective.gradients(theta[None], base)[0]
    on_device = objective.device_hessian(theta)
    hessian: Any = (
        DeviceHessian(on_device, names)
        if on_device is not None
        else DenseHessian(objective.hessians(theta[None], base)[0], names)
    )
    try:
        step = hessian.solve(gradient)
    except IndefiniteError as error:
        if len(theta) <= LARGE:  # few enough to ask why
            matrix = hessian.matrix()
            status = refusal(gradient, matrix, None, names) or not_finite()
            finite = np.isfinite(matrix).all()
            lowest = float(np.linalg.eigvalsh(matrix)[0]) if finite else np.nan
            return Finished(theta, gradient, hessian, np.nan, lowest, status)
        finite = np.isfinite(gradient).all() and np.isfinite(hessian.product(gradient)).all()
        status = Status(Outcome.NOT_A_MINIMUM, str(error)) if finite else not_finite()
        return Finished(theta, gradient, hessian, np.nan, np.nan, status)
    distance = float(np.sqrt(max(gradient @ step, 0.0)))
    ends = (hessian.lowest, hessian.lowest_scaled)
    status = certify_by_factor(gradient, distance, ends, names, tolerance)
    return Finished(theta, gradient, hessian, distance, ends[0], status)


def _without_matrix(objective: Objective, theta: np.ndarray, tolerance: float) -> Finished:
    """At a point where H is not formed: solve for the gradient and for a random direction."""
    gradient = objective.gradients(theta[None], objective.base[None])[0]
    hessian = ImplicitHessian(objective, theta)
    found = conjugate_gradients(
        lambda v, _: objective.products_at(theta, v),
        np.stack([gradient, np.random.default_rng(0).normal(size=len(theta))]),
        lambda v, _: hessian.precondition(v.T).T,
        tolerance=1e-8,
        most=_LOOK,
    )
    lowest = float(found.lowest.min()) if gradient.any() else float(found.lowest[1])
    square = float(gradient @ found.x[0])
    if found.residuals[0] > _SOLVED:  # a partial solution is too short: take an upper bound
        square = float(gradient @ hessian.precondition(gradient)) / min(lowest, 1.0)
    distance = np.sqrt(square) if lowest > 0 and square >= 0 else np.nan
    status = certify_by_products(gradient, distance, lowest, bool(distance <= tolerance))
    return Finished(theta, gradient, hessian, float(distance), np.nan, status)
