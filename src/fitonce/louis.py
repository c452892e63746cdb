"""The Hessian of chains by Louis' identity: what all states seen would tell, less what they hide.

    H = - E[ d2 log p(x, z) ] - Cov( d log p(x, z) ) - d2 log p(theta),   both given x

The first term is `complete`, the second `engines.scores`. For a chain with D = K P emission parameters
this takes a few matrix products of D columns, where tangents would take D passes over the data.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.by_state import Split
from fitonce.complete import information_of, summed
from fitonce.engines import scores
from fitonce.numerics import Array, in_float64
from fitonce.objective import Program
from fitonce.posteriors import chunks_of, counts, pieces_of
from fitonce.potentials import Layout


@in_float64
def likelihood_hessian(
    program: Program,
    theta: np.ndarray,
    grid: np.ndarray,
    coefficients: np.ndarray,
    prepared: Any,
    layout: Layout,
    *,
    devices: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """- sum_n coefficient_n d2 log p(x_n) (D, D), and the slopes of log p(x_n) (N, D).

    Args:
        grid: (N, T) weights of the emissions.
        coefficients: (N,) weights of the sequences.
        devices: over which sequences are split, in dense arrays; 1: on a CPU by its loop over steps.
    """
    if devices > 1 or jax.default_backend() != "cpu":
        found, slopes = device_hessian(program, theta, grid, coefficients, prepared, layout, devices)
        return np.array(found), slopes
    split = Split(program.space, program.model.n_states)
    size = program.space.size
    total, slopes = np.zeros((size, size)), np.empty((len(coefficients), size))
    parts = []
    for numbers, real, arrays in chunks_of(program, grid, prepared, layout):
        weight = coefficients[numbers] * real
        pieces, shares = pieces_of(program, jnp.asarray(theta), *arrays)
        slopes[numbers[real]] = scores.sparse(pieces, weight, total)[real]
        first, moves = counts(pieces, weight)
        rows = arrays[1].rows
        parts.append(information_of(program, theta, first, moves, shares, rows, weight, prepared))
    hessian = scores.symmetrised(total)
    hessian *= -1.0
    for block, values in summed(parts).blocks(split):
        hessian[block] += values
    back = np.argsort(split.order)
    return _permuted(hessian, back), slopes[:, back]


@in_float64
def device_hessian(
    program: Program,
    theta: np.ndarray,
    grid: np.ndarray,
    coefficients: np.ndarray,
    prepared: Any,
    layout: Layout,
    devices: int = 1,
) -> tuple[Array, np.ndarray]:
    """The same in dense arrays, with the matrix left where it was made."""
    split = Split(program.space, program.model.n_states)
    size, at = program.space.size, jnp.asarray(theta)
    total, slopes = jnp.zeros((size, size)), np.empty((len(coefficients), size))
    parts = []
    for numbers, real, arrays in chunks_of(program, grid, prepared, layout, devices):
        weight = coefficients[numbers] * real
        work = _dense_part if devices == 1 else _sharded_part(program, devices)
        covariance, means, shares, first, moves = work(program, at, jnp.asarray(weight), *arrays)
        total = _less(total, covariance)
        slopes[numbers[real]] = np.asarray(means)[real]
        rows = arrays[1].rows
        parts.append(information_of(program, theta, first, moves, shares, rows, weight, prepared))
    for block, values in summed(parts).blocks(split):
        start = (block[0].start, block[1].start)
        total = plus(total, jnp.asarray(values), start)
    back = np.argsort(split.order)
    return _reordered(total, jnp.asarray(back)), slopes[:, back]


@partial(jax.jit, static_argnums=0)
def _dense_part(
    program: Program,
    theta: Array,
    coefficients: Array,
    weights: Array,
    prepared: Any,
    observed: Array,
    lengths: Array,
) -> tuple[Array, Array, Array, Array, Array]:
    """Covariance of scores, their means, p(z_t) times weights, and expected first states and moves."""
    pieces, shares = pieces_of(program, theta, weights, prepared, observed, lengths)
    found = scores.dense(pieces, coefficients)
    return found.covariance, found.means, shares, *counts(pieces, coefficients)


@lru_cache(maxsize=8)
def _sharded_part(program: Program, devices: int) -> Any:
    """The same with sequences split over devices, and sums over them."""
    mesh = jax.make_mesh((devices,), ("part",), axis_types=(jax.sharding.AxisType.Auto,))
    whole, split = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("part")

    def part(theta: Array, *arrays: Any) -> tuple[Array, ...]:
        covariance, means, shares, first, moves = _dense_part(program, theta, *arrays)
        sums = (jax.lax.psum(each, "part") for each in (covariance, first, moves))
        covariance, first, moves = sums
        return covariance, means, shares, first, moves

    mapped = jax.shard_map(
        part,
        mesh=mesh,
        in_specs=(whole, split, split, split, split, split),
        out_specs=(whole, split, jax.sharding.PartitionSpec(None, "part"), whole, whole),
        check_vma=False,
    )
    compiled = jax.jit(mapped)
    return lambda _, *arrays: compiled(*arrays)


@partial(jax.jit, donate_argnums=0)
def _less(total: Array, part: Array) -> Array:
    return total - part


@partial(jax.jit, donate_argnums=0)
def plus(total: Array, values: Array, start: tuple[int, int]) -> Array:
    """`total`, which is given up, with a block of values added."""
    here = jax.lax.dynamic_slice(total, start, values.shape)
    return jax.lax.dynamic_update_slice(total, here + values, start)


@jax.jit
def _reordered(total: Array, order: Array) -> Array:
    return total[order][:, order]


def _permuted(matrix: np.ndarray, order: np.ndarray) -> np.ndarray:
    """matrix[order][:, order], without a second copy of all rows at once."""
    if np.array_equal(order, np.arange(len(order))):
        return matrix
    found = np.empty_like(matrix)
    for start in range(0, len(order), 1024):
        rows = order[start : start + 1024]
        found[start : start + 1024] = matrix[rows][:, order]
    return found
