"""Derivatives of objectives that are one JAX program each, all folds at once.

The sum over folds is differentiated, so that one program serves all folds and its inner loops run over
them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fitonce.core import memory
from fitonce.core.chunks import chunks, common_rows, unit_rows
from fitonce.core.deferred import jax, jit, jnp
from fitonce.core.numerics import Array, in_float64, on_device, rows_of
from fitonce.core.parallel import Parallel, placed
from fitonce.objectives.base import Objective, Program, ValuesAndSlopes

Values = Callable[..., Array]
_TANGENT_BYTES = 2**30


@partial(jit, static_argnums=(0, 1))
def _gradients(values: Values, program: Program, thetas: Array, coordinates: Array, *data: Any) -> Array:
    """(F, D)."""
    return jax.grad(lambda t: jnp.sum(values(program, t, coordinates, *data)))(thetas)


@partial(jit, static_argnums=(0, 1))
def _values_and_gradients(
    values: Values, program: Program, thetas: Array, coordinates: Array, *data: Any
) -> tuple[Array, Array]:
    """(F,), (F, D)."""

    def total(t: Array) -> tuple[Array, Array]:
        found = values(program, t, coordinates, *data)
        return jnp.sum(found), found

    gradients, found = jax.grad(total, has_aux=True)(thetas)
    return found, gradients


@partial(jit, static_argnums=(0, 1))
def _hessians(values: Values, program: Program, thetas: Array, coordinates: Array, *data: Any) -> Array:
    """(F, D, D): the D unit directions pushed through the gradient, all folds at once."""

    def column(direction: Array) -> Array:
        along = jnp.broadcast_to(direction, thetas.shape)
        return _products(values, program, thetas, along, coordinates, *data)

    return jax.vmap(column, out_axes=-1)(jnp.eye(thetas.shape[1]))


@partial(jit, static_argnums=(0, 1))
def _second(
    values: Values, program: Program, theta: Array, coordinates: Array, *data: Any
) -> tuple[Array, Array]:
    """H (D, D) and J (D, P) of F at one point, in one forward-over-reverse pass."""

    def both(t: Array) -> tuple[Array, Array]:
        one = lambda t, u: values(program, t[None], u[None], *data)[0]  # noqa: E731
        return jax.grad(one, argnums=(0, 1))(t, coordinates)

    return jax.vmap(lambda d: jax.jvp(both, (theta,), (d,))[1])(jnp.eye(theta.shape[0]))


@partial(jit, static_argnums=(0, 1))
def _products(
    values: Values, program: Program, thetas: Array, directions: Array, coordinates: Array, *data: Any
) -> Array:
    """(F, D): each fold's Hessian times its direction (F, D)."""
    slope = lambda t: _gradients(values, program, t, coordinates, *data)  # noqa: E731
    return jax.jvp(slope, (thetas,), (directions,))[1]


@partial(jit, static_argnums=(0, 1))
def _products_at(
    values: Values, program: Program, theta: Array, directions: Array, coordinates: Array, *data: Any
) -> Array:
    """(m, D): the Hessian at one point times directions (m, D), which share one forward sweep."""
    slope = lambda t: _gradients(values, program, t[None], coordinates[None], *data)[0]  # noqa: E731
    return jax.vmap(lambda d: jax.jvp(slope, (theta,), (d,))[1])(directions)


@partial(jit, static_argnums=(0, 1))
def _cross_rows(
    values: Values, program: Program, theta: Array, directions: Array, coordinates: Array, *data: Any
) -> Array:
    """(m, P): rows of J along directions (m, D)."""

    def slope(t: Array) -> Array:
        return jax.grad(lambda u: values(program, t[None], u[None], *data)[0])(coordinates)

    return jax.vmap(lambda d: jax.jvp(slope, (theta,), (d,))[1])(directions)


@partial(jit, static_argnums=(0, 1))
def _slopes_along(
    values: Values, program: Program, thetas: Array, coordinates: Array, changes: Array, *data: Any
) -> Array:
    """(F, D): derivatives of the gradients along changes (F, P) of the coordinates."""
    slope = lambda u: _gradients(values, program, thetas, u, *data)  # noqa: E731
    return jax.jvp(slope, (coordinates,), (changes,))[1]


def _padded(array: Any, rows: np.ndarray) -> Any:
    if on_device(array):
        return rows_of(array, jax.device_put(rows))
    return np.asarray(array)[rows]


class AutodiffObjective(Objective):
    """An objective that is one JAX program, from which all derivatives follow.

    Attributes:
        values: program, thetas (F, D), path coordinates (F, P) and `arrays` to F of every fold, (F,).
        parallel: where folds run, see `core.parallel`.
    """

    values: ClassVar[Values]
    parallel: Parallel = None

    @property
    @abstractmethod
    def arrays(self) -> tuple[Any, ...]:
        """The data, as `values` reads them."""

    @property
    def _together(self) -> int:
        """How many tangents fit into memory."""
        one = 2 * self.bytes_per_fold  # a tangent beside every value
        room = memory.room(2 * _TANGENT_BYTES, one, "one direction of H")
        return int(np.clip(room // one, 1, 512))

    @in_float64
    def values_and_gradients(self, thetas: np.ndarray, weights: np.ndarray) -> ValuesAndSlopes:
        return self._run(_values_and_gradients, thetas, weights)

    @in_float64
    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """A single one comes from the program that J needs, too: one compilation less."""
        u = self.coordinates(weights)
        if self._together < self.space.size:
            unit = np.eye(self.space.size)
            return np.stack([self._products_at(t, unit, v) for t, v in zip(thetas, u, strict=True)])
        if len(thetas) == 1:
            return self._second(thetas[0], u[0])[0][None]
        return np.asarray(_hessians(self.values, self.program, jax.device_put(thetas), u, *self.arrays))

    @in_float64
    def cross(self, theta: np.ndarray) -> np.ndarray:
        if self._together < self.space.size:
            return self.cross_by_rows(theta)
        return self._second(theta, self.coordinates(self.base))[1]

    @in_float64
    def cross_by_rows(self, theta: np.ndarray) -> np.ndarray:
        """J without H, some rows at a time."""
        u = jax.device_put(self.coordinates(self.base))
        found = np.empty((len(theta), len(u)))
        for some, unit in unit_rows(len(theta), self._together):
            at = (jax.device_put(theta), jax.device_put(unit), u)
            found[some] = _cross_rows(self.values, self.program, *at, *self.arrays)
        return found

    @in_float64
    def products(self, thetas: np.ndarray, directions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return self._run(_products, thetas, directions, weights)

    @in_float64
    def products_at(self, theta: np.ndarray, directions: np.ndarray) -> np.ndarray:
        return self._products_at(theta, directions, self.coordinates(self.base))

    @in_float64
    def slopes_along(self, theta: np.ndarray, changes: np.ndarray) -> np.ndarray:
        u = jnp.broadcast_to(jax.device_put(self.coordinates(self.base)), changes.shape)
        thetas = jnp.broadcast_to(jax.device_put(theta), (len(changes), len(theta)))
        at = (thetas, u, jax.device_put(changes))
        return np.asarray(_slopes_along(self.values, self.program, *at, *self.arrays))

    def _run(self, compiled: Any, *arrays: Any) -> Any:
        """A compiled function of F, of arrays with a fold axis, weights last, and of the data."""

        def along_path(*arrays: Any) -> Any:
            u = placed(self.coordinates(arrays[-1]), self.parallel)
            return compiled(self.values, self.program, *arrays[:-1], u, *self.arrays)

        return self.by_rows(along_path, *arrays)

    def by_rows(self, work: Any, *arrays: Any) -> Any:
        """`work` on arrays with a fold axis, padded to common lengths and put where folds run."""
        count = len(arrays[0])
        rows = common_rows(count, self.bytes_per_fold)
        if self.traits.cheap_rows and len(rows) > count:
            arrays = tuple(_padded(array, rows) for array in arrays)
        found = work(*(placed(array, self.parallel) for array in arrays))
        return jax.tree_util.tree_map(lambda a: np.asarray(a)[:count], found)

    def _products_at(self, theta: np.ndarray, directions: np.ndarray, u: Any) -> np.ndarray:
        found = np.empty(directions.shape)
        for some, _ in chunks(len(directions), min(self._together, len(directions))):
            at = (jax.device_put(theta), jax.device_put(directions[some]), jax.device_put(u))
            found[some] = _products_at(self.values, self.program, *at, *self.arrays)
        return found

    def _second(self, theta: np.ndarray, u: Any) -> tuple[np.ndarray, np.ndarray]:
        at = (jax.device_put(theta), jax.device_put(u))
        hessian, cross = map(np.asarray, _second(self.values, self.program, *at, *self.arrays))
        return 0.5 * (hessian + hessian.T), cross
