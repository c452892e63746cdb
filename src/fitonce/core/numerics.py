"""Numerical helpers: float64 scope, checks of arguments, logarithms that are safe at zero."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fitonce.core.deferred import float64, jax, jit, jnp, loaded

if TYPE_CHECKING:
    Array = jax.Array
else:
    Array = Any  # only for annotations
EitherArray = Any  # of NumPy, or of JAX once a program uses it
_Function = TypeVar("_Function", bound=Callable[..., Any])


def in_float64(function: _Function) -> _Function:
    """Run `function` with JAX in float64, leaving the caller's configuration as it was."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with float64():
            return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def as_floats(array: EitherArray) -> EitherArray:
    """Numbers as floats. An array of JAX stays on its device: fetching it takes longer than the work."""
    return array if on_device(array) else np.asarray(array, float)


def on_device(array: EitherArray) -> bool:
    """Whether an array is one of JAX."""
    return loaded() and isinstance(array, jax.Array)


def distinct(places: np.ndarray) -> np.ndarray:
    """(m,) the distinct ones of small integers of at least 0, ascending, by counting: sorting millions
    takes a hundred times as long."""
    return np.flatnonzero(np.bincount(places))


@jit
def rows_of(array: Array, rows: Array) -> Array:
    """Some rows, all of which are there: outside a program, checks would be programs of their own."""
    return jnp.take(array, rows, axis=0, mode="clip")


def is_number(value: Any) -> bool:
    """Whether an argument is one finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the largest float
        return False


def is_count(value: Any, least: int = 1, most: float = np.inf) -> bool:
    """Whether an argument is an integer from `least` to `most`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and bool(least <= value <= most)


def as_numbers(value: Any, finite: bool = True) -> np.ndarray | None:
    """An argument as an array of (finite) numbers; None if it is not one."""
    try:
        given = np.asarray(value)
        texts = given.dtype.kind == "O" and any(isinstance(one, (str, bytes)) for one in given.flat)
        if given.dtype.kind not in "biufO" or texts:
            return None
        found = given.astype(float)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if not finite or np.isfinite(found).all() else None


def is_nan(value: Any, shape: tuple[int, ...]) -> bool:
    """Whether an argument is an array of this shape with nothing but nan."""
    found = as_numbers(value, finite=False)
    return found is not None and found.shape == shape and bool(np.isnan(found).all())


def squares_overflow(values: np.ndarray) -> bool:
    """Whether the largest of some finite numbers (not all zero) is too large or too small to be squared
    and summed in floats."""
    size = float(np.abs(values).max(initial=0.0))
    return size > 0 and not 1e-100 <= size <= 1e100


def lengths_of(vectors: np.ndarray) -> np.ndarray:
    """(...) Euclidean lengths of vectors (..., D), also where squares overflow or underflow."""
    unit = unit_of(vectors)
    return np.asarray(unit * np.linalg.norm(vectors / unit[..., None], axis=-1))


def unit_of(vectors: np.ndarray) -> np.ndarray:
    """(...) powers of two near the largest entries of vectors (..., D), which divided by them can be
    squared, and nothing is rounded."""
    size = np.abs(vectors).max(-1, initial=0.0)
    return np.asarray(np.ldexp(1.0, np.frexp(size)[1] - 1))


def safe_log(x: Array) -> Array:
    """log x, with log 0 = -inf and a derivative of zero there.

    An exact zero is a structural one (a forbidden transition): it does not change with the
    parameters, so its derivative is zero and not the nan that 0 * inf would give.
    """
    zero = x == 0  # not ~(x > 0), which would also turn nan and negative numbers into -inf
    return jnp.where(zero, -jnp.inf, jnp.log(jnp.where(zero, 1.0, x)))


def logsumexp(x: Array, axis: int) -> Array:
    """log sum exp along `axis`, exact for -inf entries in the value and in all derivatives."""
    peak = jax.lax.stop_gradient(jnp.max(x, axis, keepdims=True))
    peak = jnp.where(jnp.isfinite(peak), peak, 0.0)
    total = jnp.sum(jnp.exp(x - peak), axis)
    return safe_log(total) + jnp.squeeze(peak, axis)


def scale_log(weight: Array, log_value: Array) -> Array:
    """weight * log_value, with 0 * -inf = 0 and finite derivatives everywhere.

    A weight of zero deletes the term, even -inf; with any other weight -inf stays -inf.
    """
    impossible = log_value == -jnp.inf
    scaled = weight * jnp.where(impossible, 0.0, log_value)
    return jnp.where(impossible & (weight != 0), -jnp.inf, scaled)


def one_each(losses: Array, weights: Array, name: str) -> Array:
    """`losses`, after checking that there is one for each unit."""
    if jnp.shape(losses) != weights.shape:
        raise ValueError(
            f"{name} must return one loss for each of {len(weights)} units, "
            f"got shape {jnp.shape(losses)}"
        )
    return jnp.asarray(losses)


def unless_singular(operation: Callable[[np.ndarray], np.ndarray], matrices: np.ndarray) -> np.ndarray:
    """An operation of LAPACK on matrices (..., K, K); nan, from which searches step back, where one of
    them is singular to rounding."""
    try:
        return operation(matrices)
    except np.linalg.LinAlgError:
        if matrices.ndim == 2:
            return np.full_like(matrices, np.nan)
        return np.stack([unless_singular(operation, one) for one in matrices])
