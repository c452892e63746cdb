"""From starting points most of the way to a minimum; `newton` goes the rest."""

from __future__ import annotations

import time
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy import optimize

from fitonce.em import MOST_EM, can_maximise, expectation_maximisation
from fitonce.hessian import PRODUCTS_PAY
from fitonce.models.base import Maximises
from fitonce.models.custom import Custom
from fitonce.objective import Objective
from fitonce.params import Params

_MOST_ITERATIONS = 500
_BEFORE_NEWTON = 100  # iterations where a Hessian costs a few gradients: Newton's method ends sooner
_MOST_OF_MANY = 3000
_MOST_EM, _EM_STEP = 50, 1e-3  # free coordinates: logarithms of rates


class Run(NamedTuple):
    """Where a descent ended: `x` (D,), the objective there, and how long it took."""

    x: np.ndarray
    value: float
    seconds: float


def starting_points(
    objective: Objective, init: Params | None, restarts: int, seed: int
) -> list[np.ndarray]:
    """Free vectors to start from: the given one, or from the data."""
    model, space = objective.program.model, objective.program.space
    if init is not None or isinstance(model, Custom):
        return [space.to_free(model.init if init is None else init)]
    rng = np.random.default_rng(seed)
    found = [
        space.to_free(model.start(objective.prepared, rng if start else None))
        for start in range(restarts)
    ]
    return found[:1] if all(np.array_equal(found[0], other) for other in found) else found


def descend(objective: Objective, start: np.ndarray, max_iterations: int | None = None) -> Run:
    """From one start most of the way down."""
    if start.size == 0:
        raise ValueError("the model has no free parameters: every one of them is frozen")
    usual = _BEFORE_NEWTON if objective.closed_form else _MOST_ITERATIONS
    if objective.has_products and start.size > PRODUCTS_PAY:  # networks: gradients lead farther than H
        usual = _MOST_OF_MANY
    model, most = objective.program.model, max_iterations or usual
    started = time.perf_counter()
    if can_maximise(objective):
        theta = expectation_maximisation(objective, start, objective.base, max_iterations or MOST_EM)
    elif isinstance(model, Maximises):
        theta = _em(objective, start, most)
        if model.learns_factors:  # M steps leave the coupling where it started
            theta = _lbfgs(objective, theta, most)
    else:
        theta = _lbfgs(objective, start, most)
    return Run(theta, objective.value(theta), time.perf_counter() - started)


def _em(objective: Objective, start: np.ndarray, most: int) -> np.ndarray:
    """EM until steps are small; it slows down there, and Newton's method does not."""
    model, space, theta = objective.program.model, objective.program.space, start
    for _ in range(min(most, _MOST_EM)):
        params = space.to_params(jnp.asarray(theta))
        new = model.maximise(params, objective.posterior(theta), objective.prepared)
        try:
            found = space.to_free(new)
        except ValueError:  # a class that explains nothing: leave the rest to Newton's method
            break
        step, theta = np.abs(found - theta).max(), found
        if step < _EM_STEP:
            break
    return theta


def _lbfgs(objective: Objective, start: np.ndarray, most: int) -> np.ndarray:
    def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = objective.values_and_gradients(theta[None], objective.base[None])
        # SciPy's line search needs numbers to step back from.
        value = float(values[0]) if np.isfinite(values[0]) else 1e300
        return value, np.nan_to_num(gradients[0], posinf=0.0, neginf=0.0)

    return optimize.minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": most, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-6},
    ).x
