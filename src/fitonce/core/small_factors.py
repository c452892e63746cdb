"""Cholesky factors and triangular solves of many small matrices, as loops over their rows.

On a CPU LAPACK has one matrix at a time (see `core.lapack`). For covariances of a few channels in
hundreds of folds a loop over their rows, all folds at once, is faster.
"""

from __future__ import annotations

from fitonce.core.deferred import jax, jnp, lax
from fitonce.core.devices import on_cpu
from fitonce.core.numerics import Array


def cholesky(matrices: Array) -> Array:
    """Lower factors of positive definite matrices (..., n, n); nan where one is not."""
    if not on_cpu():
        return jnp.linalg.cholesky(matrices)
    size = matrices.shape[-1]
    below = jnp.arange(size)[:, None] >= jnp.arange(size)

    def column(j: Array, factor: Array) -> Array:
        row = _take(factor, j, -2)
        rest = _take(matrices, j, -1) - jnp.einsum("...ik,...k->...i", factor, row)
        found = rest / jnp.sqrt(_take(rest, j, -1)[..., None])
        found = jnp.where(_take(below, j, -1), found, 0.0)
        return factor + found[..., None] * (jnp.arange(size) == j)

    return _loop(size, column, jnp.zeros_like(matrices))


def solve_lower(factors: Array, right: Array) -> Array:
    """Solutions (..., n, m) of lower triangular systems, factors (..., n, n) and right (..., n, m)."""
    if not on_cpu():
        return jax.scipy.linalg.solve_triangular(factors, right, lower=True)
    size = factors.shape[-1]
    shape = jnp.broadcast_shapes(factors.shape[:-2], right.shape[:-2])
    right = jnp.broadcast_to(right, (*shape, *right.shape[-2:]))

    def row(i: Array, found: Array) -> Array:
        # Rows of `found` from i on are still zero.
        known = jnp.einsum("...k,...km->...m", _take(factors, i, -2), found)
        value = (_take(right, i, -2) - known) / _take(_take(factors, i, -2), i, -1)[..., None]
        return found + value[..., None, :] * (jnp.arange(size) == i)[:, None]

    return _loop(size, row, jnp.zeros_like(right))


def _take(array: Array, index: Array, axis: int) -> Array:
    return lax.dynamic_index_in_dim(array, index, axis, keepdims=False)


def _loop(count: int, body: object, start: Array) -> Array:
    """By a scan, which has derivatives in both directions."""

    def step(state: Array, index: Array) -> tuple[Array, None]:
        return body(index, state), None  # type: ignore[operator]

    return lax.scan(step, start, jnp.arange(count))[0]
