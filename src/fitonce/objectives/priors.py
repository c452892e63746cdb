"""Log priors of every family, and their derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from fitonce.core.chunks import unit_rows
from fitonce.core.deferred import jax, jit
from fitonce.core.numerics import Array
from fitonce.objectives.base import Program

_DIRECTIONS = 256  # rows of second derivatives at a time


@partial(jit, static_argnums=0)
def log_prior(program: Program, theta: Array, prepared: Any) -> Array:
    """The log prior density at a free vector (D,), up to a constant."""
    return program.model.log_prior_at(program.space.to_params(theta), prepared)


def log_priors(program: Program, thetas: Array, prepared: Any) -> Array:
    """(F,) of thetas (F, D)."""
    return jax.vmap(lambda theta: log_prior(program, theta, prepared))(thetas)


@partial(jit, static_argnums=0)
def values_and_slopes(program: Program, thetas: Array, prepared: Any) -> tuple[Array, Array]:
    """(F,) and (F, D)."""
    return jax.vmap(jax.value_and_grad(lambda theta: log_prior(program, theta, prepared)))(thetas)


@partial(jit, static_argnums=0)
def products(program: Program, theta: Array, directions: Array, prepared: Any) -> Array:
    """(m, D): the Hessian of the log prior at theta (D,) times directions (m, D)."""
    slope = jax.grad(lambda t: log_prior(program, t, prepared))
    return jax.vmap(lambda d: jax.jvp(slope, (theta,), (d,))[1])(directions)


def hessian_rows(program: Program, theta: np.ndarray, prepared: Any) -> Iterator[tuple[slice, Array]]:
    """Row numbers and rows of the Hessian of the log prior (D, D), some at a time."""
    for numbers, unit in unit_rows(program.space.size, _DIRECTIONS):
        rows = products(program, jax.device_put(theta), jax.device_put(unit), prepared)
        some = slice(int(numbers[0]), int(numbers[-1]) + 1)
        yield some, rows[: some.stop - some.start]


def hessian(program: Program, theta: np.ndarray, prepared: Any) -> np.ndarray:
    """(D, D)."""
    found = np.empty((program.space.size, program.space.size))
    for some, rows in hessian_rows(program, theta, prepared):
        found[some] = rows
    return found
