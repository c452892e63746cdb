"""Kalman filter in JAX, for accelerators: one step after the other ("scan"), or all steps at once in
log2(T) rounds ("tree"), by associative elements (Särkkä and García-Fernández 2021).

The same numbers as `kalman`, whose conventions hold here: weights w scale the information of a step,
shares its term in the log-likelihood, diffuse directions are further columns of the mean. In an element
they are columns, too: what it does to the mean is linear, column by column.

Matrices are (..., i, j, N, F): sequences and folds come last, so that a step is one operation on
vectors. Sequences are padded to L steps; padding is not observed.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.deferred import jax, jit, jnp, lax
from fitonce.core.numerics import Array, EitherArray
from fitonce.engines.kalman import UNDETERMINED

_LOG_2PI = float(np.log(2.0 * np.pi))


class Padded(NamedTuple):
    """Data of N sequences, padded.

    Attributes:
        y: (L, C, N), zero where nothing is observed.
        seen: (L, C, N), ones and zeros.
        places: (L, N) of each step among the steps of all sequences.
        floor: (C,) of S.
        scale: (q, F) what is known of diffuse directions of the first state, beside a flat prior.
    """

    y: EitherArray
    seen: EitherArray
    places: EitherArray
    floor: EitherArray
    scale: EitherArray


class FilterSteps(NamedTuple):
    """Matrices of steps: a first axis of one entry or of L, except in the body of a scan."""

    loading: Array
    errors: Array  # y - d, zero where nothing is observed
    noise: Array  # w H + (1 - w) S, the identity where nothing is observed
    held: Array  # S, likewise
    moving: Array
    drift: Array
    shaking: Array
    weights: Array
    shares: Array
    counts: Array


def _times(first: Array, second: Array) -> Array:
    return jnp.sum(first[..., :, :, None, :, :] * second[..., None, :, :, :, :], -4)


def _turned(matrix: Array) -> Array:
    return jnp.swapaxes(matrix, -4, -3)


def _eye(size: int) -> Array:
    return jnp.eye(size)[:, :, None, None]


def _factor(matrix: Array) -> tuple[list[list[Array]], Array]:
    """The Cholesky factor of positive definite (..., c, c, N, F), entry by entry, and log |matrix|."""
    size = matrix.shape[-4]
    found: list[list[Any]] = [[jnp.zeros(()) for _ in range(size)] for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = matrix[..., i, j, :, :] - sum(found[i][k] * found[j][k] for k in range(j))
            found[i][j] = jnp.sqrt(rest) if i == j else rest / found[j][j]
    return found, 2.0 * jnp.stack([jnp.log(found[i][i]) for i in range(size)]).sum(0)


def _solved(factor: list[list[Array]], right: Array) -> Array:
    """matrix^-1 right (..., c, m, N, F)."""
    size = len(factor)
    rows: list[Any] = [right[..., i, :, :, :] for i in range(size)]
    lower = [[entry[..., None, :, :] if entry.ndim else entry for entry in row] for row in factor]
    for i in range(size):
        rows[i] = (rows[i] - sum(lower[i][k] * rows[k] for k in range(i))) / lower[i][i]
    for i in reversed(range(size)):
        rows[i] = (rows[i] - sum(lower[k][i] * rows[k] for k in range(i + 1, size))) / lower[i][i]
    return jnp.stack(rows, -4)


def _inverse(matrix: Array) -> Array:
    """Of (..., n, n, N, F), of any kind."""
    if matrix.shape[-4] == 1:
        return 1.0 / matrix
    ahead = jnp.moveaxis(matrix, (-4, -3), (-2, -1))
    return jnp.moveaxis(jnp.linalg.inv(ahead), (-2, -1), (-4, -3))


def _laid(array: Array, places: Array) -> Array:
    """(1 or T, ..., F) to (1, ..., 1, F) or (L, ..., N, F)."""
    if array.shape[0] == 1:
        return array[..., None, :]
    return jnp.moveaxis(array[places], 1, -2)


def _dense(entries: np.ndarray, values: Array, shape: tuple[int, int]) -> Array:
    """(1 or T, i, j, F) from values (1 or T, K, F) of the entries (K, 2)."""
    found = jnp.zeros((values.shape[0], *shape, values.shape[-1]))
    return found.at[:, entries[:, 0], entries[:, 1]].set(values)


def _steps(
    used: dict[str, np.ndarray], given: Padded, arrays: dict[str, Array], weights: Array, shares: Array
) -> FilterSteps:
    states, width = arrays["mean"].shape[0], given.y.shape[1]
    shapes = {"loading": (width, states), "moving": (states, states), "shaking": (states, states)}
    dense = {name: _dense(used[name], arrays[name], shapes[name]) for name in shapes}
    laid = {
        name: _laid(dense.get(name, arrays[name]), given.places)
        for name in ("loading", "offset", "noise", "moving", "drift", "shaking")
    }
    seen = given.seen[..., None]  # (L, C, N, 1)
    both, one = seen[:, :, None] * seen[:, None], _eye(width)
    floor = jnp.eye(width)[:, :, None, None] * given.floor[:, None, None, None]
    beyond = (1.0 - both) * one
    w = weights[:, None, None]
    return FilterSteps(
        laid["loading"] * seen[:, :, None],
        ((given.y[..., None] - laid["offset"]) * seen)[:, :, None],
        both * (laid["noise"] + (1.0 - w) * floor) + beyond,
        both * (laid["noise"] + floor) + beyond,
        laid["moving"],
        laid["drift"][:, :, None],
        laid["shaking"],
        weights,
        shares,
        given.seen.sum(1)[..., None],
    )


def _errors(one: FilterSteps, mean: Array) -> Array:
    """V (..., C, M, N, F): y - d in its first column, minus Z A."""
    found = -_times(one.loading, mean)
    return found.at[..., :, :1, :, :].add(one.errors)


def _observed(one: FilterSteps, mean: Array, spread: Array) -> tuple[Any, Array, Array, Array]:
    """The factor of G, its log-determinant, Z P and V, of steps whose states have this distribution."""
    cross = _times(one.loading, spread)
    w = one.weights[..., None, None, :, :]
    factor, log_det = _factor(w * _times(cross, _turned(one.loading)) + one.noise)
    return factor, log_det, cross, _errors(one, mean)


def _terms(one: FilterSteps, factor: Any, log_det: Array, errors: Array) -> tuple[Array, Array]:
    """The logarithms of a step's term (..., N, F), and its products of errors (..., M, M, N, F)."""
    w, share = one.weights, one.shares
    logs = w * one.counts * _LOG_2PI + log_det - (1.0 - w) * _factor(one.held)[1]
    products = _times(_turned(errors), _solved(factor, errors))
    return share * logs, (share * w)[..., None, None, :, :] * products


def _scanned(steps: FilterSteps, mean: Array, spread: Array) -> tuple[Array, Array]:
    """Sums over steps of logarithms (N, F) and of products (M, M, N, F), one step after the other."""
    length = steps.errors.shape[0]
    moving = {name: array for name, array in steps._asdict().items() if array.shape[0] == length}
    still = {name: array[0] for name, array in steps._asdict().items() if name not in moving}

    def body(carry: Any, now: dict[str, Array]) -> tuple[Any, None]:
        a, p, logs, products = carry
        one = FilterSteps(**still, **now)
        factor, log_det, cross, errors = _observed(one, a, p)
        more = _terms(one, factor, log_det, errors)
        w = one.weights[None, None]
        gain = w * _turned(_solved(factor, cross))
        af, pf = a + _times(gain, errors), p - _times(gain, cross)
        after = _times(one.moving, af).at[:, :1].add(one.drift)
        late = _times(_times(one.moving, pf), _turned(one.moving)) + one.shaking
        return (after, 0.5 * (late + _turned(late)), logs + more[0], products + more[1]), None

    batch = steps.weights.shape[1:]
    columns = mean.shape[1]
    zeros = jnp.zeros(batch), jnp.zeros((columns, columns, *batch))
    first = [jnp.broadcast_to(array, (*array.shape[:2], *batch)) for array in (mean, spread)]
    (_, _, logs, products), _ = lax.scan(body, (*first, *zeros), moving)
    return logs, products


class _Element(NamedTuple):
    """What steps do: from a state before them, x, to N(A x + b, C) after them, and what their data say
    of x in information form, eta and J."""

    a: Array
    b: Array
    c: Array
    eta: Array
    j: Array


def _joined(first: _Element, second: _Element) -> _Element:
    inner = _inverse(_eye(first.c.shape[-3]) + _times(first.c, second.j))
    onward, back = _times(second.a, inner), _times(_turned(first.a), _turned(inner))
    spread = _times(_times(onward, first.c), _turned(second.a)) + second.c
    known = _times(_times(back, second.j), first.a) + first.j
    return _Element(
        _times(onward, first.a),
        _times(onward, first.b + _times(first.c, second.eta)) + second.b,
        0.5 * (spread + _turned(spread)),
        _times(back, second.eta - _times(second.j, first.b)) + first.eta,
        0.5 * (known + _turned(known)),
    )


def _before(array: Array, length: int) -> Array:
    """Of the steps before."""
    return array if array.shape[0] < length else jnp.concatenate([array[:1], array[:-1]])


def _at_once(steps: FilterSteps, mean: Array, spread: Array) -> tuple[Array, Array]:
    """As `_scanned`, in rounds."""
    length, batch = steps.weights.shape[0], steps.weights.shape[1:]
    size, columns = mean.shape[:2]
    moving, drift, shaking = (
        _before(array, length) for array in (steps.moving, steps.drift, steps.shaking)
    )
    begins = (jnp.arange(length) == 0)[:, None, None, None, None]
    start = jnp.pad(drift, ((0, 0), (0, 0), (0, columns - 1), (0, 0), (0, 0)))
    means = jnp.broadcast_to(jnp.where(begins, mean, start), (length, size, columns, *batch))
    spreads = jnp.broadcast_to(jnp.where(begins, spread, shaking), (length, size, size, *batch))
    factor, _, cross, errors = _observed(steps, means, spreads)
    w = steps.weights[:, None, None]
    gain = w * _turned(_solved(factor, cross))
    move = jnp.where(begins, 0.0, moving)
    seen = w * _times(_turned(move), _turned(_solved(factor, steps.loading)))
    element = _Element(
        move - _times(gain, _times(steps.loading, move)),
        means + _times(gain, errors),
        spreads - _times(gain, cross),
        _times(seen, errors),
        _times(seen, _times(steps.loading, move)),
    )
    found = lax.associative_scan(_joined, element)
    after = _times(moving[1:] if moving.shape[0] == length else moving, found.b[:-1])
    after = after.at[:, :, :1].add(drift[1:] if drift.shape[0] == length else drift)
    on = moving[1:] if moving.shape[0] == length else moving
    late = _times(_times(on, found.c[:-1]), _turned(on))
    late = late + (shaking[1:] if shaking.shape[0] == length else shaking)
    means = jnp.concatenate([means[:1], after])
    spreads = jnp.concatenate([spreads[:1], late])
    factor, log_det, _, errors = _observed(steps, means, spreads)
    logs, products = _terms(steps, factor, log_det, errors)
    return logs.sum(0), products.sum(0)


def _integrated(logs: Array, products: Array, scale: Array) -> Array:
    """(N, F) log-likelihoods, nan where diffuse directions are not determined."""
    values = -0.5 * (logs + products[0, 0])
    size = products.shape[0] - 1
    if not size:
        return values
    inner, outer = products[1:, 1:], products[1:, :1]
    scaled = lax.stop_gradient(inner * scale[:, None, None] * scale[None, :, None])
    finite = jnp.isfinite(scaled).all((0, 1))
    matrices = jnp.moveaxis(jnp.where(finite, scaled, _eye(size)), (0, 1), (-2, -1))
    least = matrices[..., 0, 0] if size == 1 else jnp.linalg.eigvalsh(matrices)[..., 0]
    lost = ~(finite & (least > UNDETERMINED))
    factor, log_det = _factor(jnp.where(lost, _eye(size), inner))
    outer = jnp.where(lost, 0.0, outer)
    squares = _times(_turned(outer), _solved(factor, outer))[0, 0]
    return jnp.where(lost, jnp.nan, values + 0.5 * (squares - log_det))


def _of_sequences(
    kernel: str, used: Any, given: Padded, arrays: Any, weights: Any, shares: Any
) -> Array:
    """(N, F)."""
    entries = {name: np.array(places, int).reshape(-1, 2) for name, places in used}
    steps = _steps(entries, given, arrays, weights, shares)
    mean, spread = arrays["mean"][:, :, None], arrays["spread"][:, :, None]
    sums = (_scanned if kernel == "scan" else _at_once)(steps, mean, spread)
    return _integrated(*sums, given.scale)


@partial(jit, static_argnums=(0, 1))
def log_likelihoods(
    kernel: str, used: Any, given: Padded, arrays: dict[str, Array], weights: Array, shares: Array
) -> Array:
    """(N, F) of sequences.

    Args:
        kernel: "scan" or "tree".
        used: pairs of "loading", "moving", "shaking" and the places of their entries, as tuples.
        given: the data.
        arrays: as `Layout.arrays`, (..., F).
        weights, shares: (L, N, F).
    """
    return _of_sequences(kernel, used, given, arrays, weights, shares)


@partial(jit, static_argnums=(0, 1))
def with_slopes(
    kernel: str,
    used: Any,
    given: Padded,
    arrays: Any,
    weights: Array,
    shares: Array,
    coefficients: Array,
) -> tuple[Array, dict[str, Array]]:
    """`log_likelihoods`, and derivatives of their sums by `arrays`, weighted by coefficients (N, F)."""

    def total(at: dict[str, Array]) -> tuple[Array, Array]:
        values = _of_sequences(kernel, used, given, at, weights, shares)
        return jnp.sum(coefficients * values), values

    (_, values), slopes = jax.value_and_grad(total, has_aux=True)(arrays)
    return values, slopes
