"""Derivatives of objectives that are one JAX program each, all folds at once.

`values` is a family's function of the program, thetas (F, D), path coordinates (F, P) and data, which
returns F of every fold, (F,). What follows from it is derived here: the sum over folds is
differentiated, so that one program serves all of them and its inner loops run over folds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.core.chunks import chunks, unit_rows
from fitonce.core.numerics import Array
from fitonce.core.parallel import Parallel, placed
from fitonce.objectives.base import Program

Values = Callable[..., Array]
_TANGENT_BYTES = 2**30


@partial(jax.jit, static_argnums=(0, 1))
def _gradients(values: Values, program: Program, thetas: Array, coordinates: Array, *data: Any) -> Array:
    """(F, D)."""
    return jax.grad(lambda t: jnp.sum(values(program, t, coordinates, *data)))(thetas)


@partial(jax.jit, static_argnums=(0, 1))
def _values_and_gradients(
    values: Values, program: Program, thetas: Array, coordinates: Array, *data: Any
) -> tuple[Array, Array]:
    """(F,), (F, D)."""

    def total(t: Array) -> tuple[Array, Array]:
        found = values(program, t, coordinates, *data)
        return jnp.sum(found), found

    gradients, found = jax.grad(total, has_aux=True)(thetas)
    return found, gradients


@partial(jax.jit, static_argnums=(0, 1))
def _hessians(values: Values, program: Program, thetas: Array, coordinates: Array, *data: Any) -> Array:
    """(F, D, D): the D unit directions pushed through the gradient, all folds at once."""
    slope = lambda t: _gradients(values, program, t, coordinates, *data)  # noqa: E731

    def column(direction: Array) -> Array:
        return jax.jvp(slope, (thetas,), (jnp.broadcast_to(direction, thetas.shape),))[1]

    return jnp.moveaxis(jax.vmap(column)(jnp.eye(thetas.shape[1])), 0, -1)


@partial(jax.jit, static_argnums=(0, 1))
def _second(
    values: Values, program: Program, theta: Array, coordinates: Array, *data: Any
) -> tuple[Array, Array]:
    """H (D, D) and J (D, P) of F at one point, in one forward-over-reverse pass."""

    def both(t: Array) -> tuple[Array, Array]:
        one = lambda t, u: values(program, t[None], u[None], *data)[0]  # noqa: E731
        return jax.grad(one, argnums=(0, 1))(t, coordinates)

    return jax.vmap(lambda d: jax.jvp(both, (theta,), (d,))[1])(jnp.eye(theta.shape[0]))


@partial(jax.jit, static_argnums=(0, 1))
def _products(
    values: Values, program: Program, thetas: Array, directions: Array, coordinates: Array, *data: Any
) -> Array:
    """(F, D): each fold's Hessian times its direction (F, D)."""
    slope = lambda t: _gradients(values, program, t, coordinates, *data)  # noqa: E731
    return jax.jvp(slope, (thetas,), (directions,))[1]


@partial(jax.jit, static_argnums=(0, 1))
def _products_at(
    values: Values, program: Program, theta: Array, directions: Array, coordinates: Array, *data: Any
) -> Array:
    """(m, D): the Hessian at one point times directions (m, D), which share its forward sweep."""
    slope = lambda t: _gradients(values, program, t[None], coordinates[None], *data)[0]  # noqa: E731
    return jax.vmap(lambda d: jax.jvp(slope, (theta,), (d,))[1])(directions)


@partial(jax.jit, static_argnums=(0, 1))
def _cross_rows(
    values: Values, program: Program, theta: Array, directions: Array, coordinates: Array, *data: Any
) -> Array:
    """(m, P): rows of J along directions (m, D)."""

    def slope(t: Array) -> Array:
        return jax.grad(lambda u: values(program, t[None], u[None], *data)[0])(coordinates)

    return jax.vmap(lambda d: jax.jvp(slope, (theta,), (d,))[1])(directions)


@partial(jax.jit, static_argnums=(0, 1))
def _slopes_along(
    values: Values, program: Program, thetas: Array, coordinates: Array, changes: Array, *data: Any
) -> Array:
    """(F, D): how gradients change along changes (F, P) of the coordinates."""
    slope = lambda u: _gradients(values, program, thetas, u, *data)  # noqa: E731
    return jax.jvp(slope, (coordinates,), (changes,))[1]


@dataclass(frozen=True, eq=False)
class Derivatives:
    """All derivatives of `values`; thetas are (F, D), coordinates u (F, P), results NumPy.

    Attributes:
        values: see the module's text.
        program, data: what it is given first and last.
        bytes_per_fold: about how much memory one fold needs, from which tangents that run together are
            counted.
        parallel: where folds are, see `core.parallel`.
    """

    values: Values
    program: Program
    data: tuple[Any, ...]
    bytes_per_fold: int
    parallel: Parallel = None

    @property
    def together(self) -> int:
        """How many tangents run together, by memory."""
        return int(np.clip(_TANGENT_BYTES // self.bytes_per_fold, 1, 512))

    @property
    def all_at_once(self) -> bool:
        """Whether a tangent for each parameter fits into memory."""
        return self.together >= self.program.space.size

    def values_and_gradients(self, thetas: Any, u: Any) -> tuple[np.ndarray, np.ndarray]:
        """(F,), (F, D)."""
        arrays = (self._put(thetas), self._put(u))
        found = _values_and_gradients(self.values, self.program, *arrays, *self.data)
        return np.asarray(found[0]), np.asarray(found[1])

    def gradients(self, thetas: Any, u: Any) -> np.ndarray:
        """(F, D)."""
        arrays = (self._put(thetas), self._put(u))
        return np.asarray(_gradients(self.values, self.program, *arrays, *self.data))

    def hessians(self, thetas: Any, u: Any) -> np.ndarray:
        """(F, D, D). A single one comes from the program that J needs too: one compilation less."""
        if not self.all_at_once:
            unit = np.eye(self.program.space.size)
            return np.stack([self.products_at(t, unit, v) for t, v in zip(thetas, u, strict=True)])
        if len(thetas) == 1:
            return self._second(thetas[0], u[0])[0][None]
        arrays = (jnp.asarray(thetas), jnp.asarray(u))
        return np.asarray(_hessians(self.values, self.program, *arrays, *self.data))

    def cross(self, theta: Any, u: Any) -> np.ndarray:
        """J (D, P) at one point."""
        return self._second(theta, u)[1] if self.all_at_once else self.cross_rows(theta, u)

    def cross_rows(self, theta: Any, u: Any) -> np.ndarray:
        """The same without H, some rows at a time."""
        found = np.empty((len(theta), len(u)))
        for some, unit in unit_rows(len(theta), self.together):
            arrays = (jnp.asarray(theta), jnp.asarray(unit), jnp.asarray(u))
            found[some] = _cross_rows(self.values, self.program, *arrays, *self.data)
        return found

    def products(self, thetas: Any, directions: Any, u: Any) -> np.ndarray:
        """(F, D) each fold's Hessian times its direction."""
        arrays = map(self._put, (thetas, directions, u))
        return np.asarray(_products(self.values, self.program, *arrays, *self.data))

    def products_at(self, theta: Any, directions: np.ndarray, u: Any) -> np.ndarray:
        """(m, D) the Hessian at one point times directions (m, D), some at a time."""
        found = np.empty(directions.shape)
        for some, _ in chunks(len(directions), min(self.together, len(directions))):
            arrays = (jnp.asarray(theta), jnp.asarray(directions[some]), jnp.asarray(u))
            found[some] = _products_at(self.values, self.program, *arrays, *self.data)
        return found

    def slopes_along(self, theta: Any, u: Any, changes: np.ndarray) -> np.ndarray:
        """(F, D) J at one point times changes (F, P), without J."""
        at = jnp.broadcast_to(jnp.asarray(u), changes.shape)
        thetas = jnp.broadcast_to(jnp.asarray(theta), (len(changes), len(theta)))
        arrays = (thetas, at, jnp.asarray(changes))
        return np.asarray(_slopes_along(self.values, self.program, *arrays, *self.data))

    def _put(self, array: Any) -> Array:
        return placed(array, self.parallel)

    def _second(self, theta: Any, u: Any) -> tuple[np.ndarray, np.ndarray]:
        arrays = (jnp.asarray(theta), jnp.asarray(u))
        hessian, cross = map(np.asarray, _second(self.values, self.program, *arrays, *self.data))
        return 0.5 * (hessian + hessian.T), cross
