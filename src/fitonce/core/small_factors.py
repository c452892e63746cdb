"""Cholesky factors and triangular solves of many small matrices, as loops over their rows.

On a CPU no program of ours calls LAPACK for a batch of matrices: jaxlib 0.10 runs such a call on the
threads that the program itself holds, and both then wait for each other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import metadata
from typing import Any

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


def without_lapack(function: Callable[..., Any]) -> Callable[..., Any]:
    """A user's function of arrays, with our loops for its Cholesky factors and triangular solves where
    LAPACK's could wait for themselves: on a CPU, with a jaxlib before 0.11. What is inside a loop or a
    rule of its own for derivatives stays as it is, and so do other factors."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if not on_cpu() or _later_jaxlib():
            return function(*args)
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
        if not _mentions(closed.jaxpr):
            return function(*args)
        found = _evaluated(closed.jaxpr, closed.consts, jax.tree_util.tree_leaves(args))
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shapes), found)

    return call


@functools.cache
def _later_jaxlib() -> bool:
    return tuple(int(part) for part in metadata.version("jaxlib").split(".")[:2]) >= (0, 11)


def _inner(equation: Any) -> Any:
    """The jaxpr of a call, such as that of a function inside `jit`; None for other equations."""
    return equation.params["jaxpr"] if equation.primitive.name in ("jit", "pjit") else None


def _mentions(jaxpr: Any) -> bool:
    """Whether a factor or a solve is in it, or in what it calls."""
    return any(
        equation.primitive.name in _LOOPS or (_inner(equation) and _mentions(_inner(equation).jaxpr))
        for equation in jaxpr.eqns
    )


def _evaluated(jaxpr: Any, constants: Any, arguments: Any) -> list[Array]:
    """The results of a jaxpr, equation by equation, with our loops in the place of LAPACK."""
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

    def value(variable: Any) -> Any:
        return variable.val if hasattr(variable, "val") else known[variable]

    for equation in jaxpr.eqns:
        given, inner = [value(one) for one in equation.invars], _inner(equation)
        if equation.primitive.name in _LOOPS:
            found = [_LOOPS[equation.primitive.name](*given, **equation.params)]
        elif inner is not None and _mentions(inner.jaxpr):
            found = _evaluated(inner.jaxpr, inner.consts, given)
        else:
            bound = equation.primitive.get_bind_params(equation.params)
            functions, options = bound if isinstance(bound, tuple) else ((), bound)  # by version of JAX
            found = equation.primitive.bind(*functions, *given, **options)
            found = found if equation.primitive.multiple_results else [found]
        known.update(zip(equation.outvars, found, strict=True))
    return [value(one) for one in jaxpr.outvars]


def _solve(
    matrix: Array, right: Array, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool,
    **_: Any,
) -> Array:  # fmt: skip
    """`jax.lax.linalg.triangular_solve`, by `solve_lower`."""
    if unit_diagonal:
        size = matrix.shape[-1]
        matrix = jnp.where(jnp.eye(size, dtype=bool), 1.0, matrix)
    if transpose_a == left_side:  # x a = b is a' x' = b'
        matrix, lower = jnp.swapaxes(matrix, -1, -2), not lower
    right = right if left_side else jnp.swapaxes(right, -1, -2)
    if not lower:  # the last equation first
        matrix, right = matrix[..., ::-1, ::-1], right[..., ::-1, :]
    found = solve_lower(matrix, right)
    found = found if lower else found[..., ::-1, :]
    return found if left_side else jnp.swapaxes(found, -1, -2)


_LOOPS: dict[str, Callable[..., Array]] = {
    "cholesky": lambda matrix, **_: cholesky(matrix),
    "triangular_solve": _solve,
}
