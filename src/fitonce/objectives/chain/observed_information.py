"""Observed information of chains by Louis' identity: complete-data less missing information.

    H = - E[ d2 log p(x, z) ] - Cov( d log p(x, z) ) - d2 log p(theta),   both given x

The first term is `complete_information`, the second `engines.score_covariance`. This takes a few matrix
products of D columns, where tangents would take D passes over the data.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from fitonce.core import lapack
from fitonce.core.deferred import jax, jit, jnp
from fitonce.core.numerics import Array, in_float64
from fitonce.core.parallel import Parallel, Workers, groups, mesh_of
from fitonce.engines import score_covariance as scores
from fitonce.objectives.base import Program
from fitonce.objectives.chain.complete_information import information_of, summed
from fitonce.objectives.chain.posteriors import Sample, counts, pieces_of


@in_float64
def likelihood_hessian(
    sample: Sample, theta: np.ndarray, *, devices: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """- sum_n coefficient_n d2 log p(x_n) (D, D), and the slopes of log p(x_n) (N, D).

    Args:
        sample: the sequences.
        theta: (D,).
        devices: how many to split sequences over, in dense arrays; 1: on a CPU, a loop over steps.
    """
    if devices > 1 or jax.default_backend() != "cpu":
        found, slopes = device_hessian(sample, theta, devices)
        return np.array(found), slopes
    size, parts = len(theta), []
    hessian, slopes = np.zeros((size, size)), np.empty((len(sample.grid), size))
    for chunk in sample.chunks():
        pieces, shares = pieces_of(sample.program, jax.device_put(theta), *chunk.arrays)
        means = scores.sparse(pieces, chunk.coefficients, hessian)
        slopes[chunk.numbers[chunk.real]] = means[chunk.real]
        first, moves = counts(pieces, chunk.coefficients)
        parts.append(information_of(sample, theta, chunk, first, moves, shares))
    scores.symmetrised(hessian)
    hessian *= -1.0
    for block, values in summed(parts).blocks(sample.split):
        hessian[block] += values
    back = np.argsort(sample.split.order)
    return _permuted(hessian, back), slopes[:, back]


@in_float64
def device_hessian(sample: Sample, theta: np.ndarray, devices: int = 1) -> tuple[Array, np.ndarray]:
    """The same in dense arrays, with the matrix left on the device."""
    size, at, parts = len(theta), jax.device_put(theta), []
    work = _dense_part if devices == 1 else _sharded_part(sample.program, devices)
    total, slopes = jnp.zeros((size, size)), np.empty((len(sample.grid), size))
    for chunk in sample.chunks(devices):
        weight = jax.device_put(chunk.coefficients)
        covariance, means, *found = work(sample.program, at, weight, *chunk.arrays)
        total = _less(total, covariance)
        slopes[chunk.numbers[chunk.real]] = np.asarray(means)[chunk.real]
        parts.append(information_of(sample, theta, chunk, *found))
    for block, values in summed(parts).blocks(sample.split):
        total = plus(total, jax.device_put(values), (block[0].start, block[1].start))
    back = np.argsort(sample.split.order)
    return _reordered(total, jax.device_put(back)), slopes[:, back]


@partial(jit, static_argnums=0)
def _dense_part(
    program: Program,
    theta: Array,
    coefficients: Array,
    weights: Array,
    prepared: Any,
    observed: Array,
    lengths: Array,
) -> tuple[Array, Array, Array, Array, Array]:
    """Covariance and means of scores, expected first states and transitions, p(z_t) times weights."""
    pieces, shares = pieces_of(program, theta, weights, prepared, observed, lengths)
    found = scores.dense(pieces, coefficients)
    return found.covariance, found.means, *counts(pieces, coefficients), shares


@lru_cache(maxsize=8)
def _sharded_part(program: Program, devices: int) -> Any:
    """The same with sequences split over devices; covariance and expected counts are summed."""
    mesh = mesh_of(devices)
    whole, split = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("part")

    def part(theta: Array, *arrays: Any) -> tuple[Array, ...]:
        covariance, means, first, moves, shares = _dense_part(program, theta, *arrays)
        covariance, first, moves = (jax.lax.psum(each, "part") for each in (covariance, first, moves))
        return covariance, means, first, moves, shares

    mapped = jax.shard_map(
        lapack.safe(part),
        mesh=mesh,
        in_specs=(whole, split, split, split, split, split),
        out_specs=(whole, split, whole, whole, jax.sharding.PartitionSpec(None, "part")),
        check_vma=False,
    )
    compiled = jax.jit(mapped)
    return lambda _, *arrays: compiled(*arrays)


_less = jit(lambda matrix, part: matrix - part, donate_argnums=0)
_reordered = jit(lambda matrix, order: matrix[order][:, order])


@partial(jit, donate_argnums=0)
def plus(total: Array, values: Array, start: tuple[int, int]) -> Array:
    """`total`, whose memory is reused, with a block of values added."""
    here = jax.lax.dynamic_slice(total, start, values.shape)
    return jax.lax.dynamic_update_slice(total, here + values, start)


def _permuted(matrix: np.ndarray, order: np.ndarray) -> np.ndarray:
    """matrix[order][:, order], with only one copy of the whole matrix."""
    if np.array_equal(order, np.arange(len(order))):
        return matrix
    found = np.empty_like(matrix)
    for start in range(0, len(order), 1024):
        rows = order[start : start + 1024]
        found[start : start + 1024] = matrix[rows][:, order]
    return found


def split_hessian(
    parallel: Parallel, sample: Sample, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`likelihood_hessian`, run on devices or workers as `parallel` says."""
    if parallel == "devices":
        return likelihood_hessian(sample, theta, devices=len(jax.devices()))
    if not isinstance(parallel, Workers):
        return likelihood_hessian(sample, theta)
    members = groups(sample.lengths, parallel.n)
    tasks = [(sample.some(group), theta) for group in members]
    hessian, slopes = np.zeros((len(theta), len(theta))), np.empty((len(sample.grid), len(theta)))
    parts = parallel.run(likelihood_hessian, tasks)
    for group, (part, rows) in zip(members, parts, strict=True):
        hessian += part
        slopes[group] = rows
    return hessian, slopes
