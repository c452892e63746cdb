"""The JAX programs of labelled chains, on one bucket of sequences.

A row is one sequence with the parameters and the known labels of one fold. Most of a fold's objective
is a sum over all sequences, the same for every fold; rows are the terms that the fold changes.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from fitonce.core.deferred import jax, jit, jnp
from fitonce.core.numerics import Array
from fitonce.data.labelled import UNKNOWN
from fitonce.engines import chain as chain_engine
from fitonce.engines.chain_groups import expected
from fitonce.engines.count_covariance import count_covariance
from fitonce.engines.partial_labels import mean_log_partition
from fitonce.models.potentials import Linear
from fitonce.objectives.base import Program


class PaddedBucket(NamedTuple):
    """A bucket of n sequences, padded to T steps.

    Attributes:
        design: (n, T, Q) what multiplies the model's weights.
        scores: (n, T, K) given scores, or None.
        lengths: (n,).
    """

    design: Array
    scores: Array | None
    lengths: Array


def _linear(program: Program, thetas: Array) -> Linear:
    """The model's parameters with a leading axis."""
    return jax.vmap(lambda theta: program.model.stack(program.space.to_params(theta)))(thetas)


def _unary(linear: Linear, design: Array, scores: Array | None) -> Array:
    """Log-potentials (..., T, K); `linear`'s leading axes are broadcast against those of `design`."""
    unary = design @ linear.weights
    unary = unary if scores is None else unary + scores
    return unary.at[..., 0, :].add(linear.first)


def _rows(
    program: Program, thetas: Array, places: Array, grid: PaddedBucket
) -> tuple[Array, Array, Array]:
    """Unary (R, T, K), pairwise (R, K, K) and lengths (R,) of the sequences at places (R,)."""
    linear = _linear(program, thetas)
    scores = None if grid.scores is None else grid.scores[places]
    return _unary(linear, grid.design[places], scores), linear.transition, grid.lengths[places]


def _ordered(order: Array, by_feature: Array, moves: Array) -> Array:
    """Counts of features by tag (n, Q, K) and of transitions (n, K, K) as slopes (n, D)."""
    flat = [counts.reshape(len(counts), -1) for counts in (by_feature, moves)]
    return jnp.concatenate(flat, 1)[:, order]


def _with_labels(unary: Array, labels: Array) -> Array:
    """Unary potentials that exclude all other states where a label (R, T) is known."""
    states = jnp.arange(unary.shape[-1])
    other = (labels[..., None] != UNKNOWN) & (labels[..., None] != states)
    return jnp.where(other, -jnp.inf, unary)


@partial(jit, static_argnums=0)
def totals(
    program: Program, thetas: Array, coefficients: Array, order: Array, grid: PaddedBucket
) -> tuple[Array, Array]:
    """(F,) sums of coefficient (n,) times log Z over a bucket, and slopes (F, D): expected counts."""
    linear = _linear(program, thetas)
    apart = Linear(linear.weights[:, None], linear.transition, linear.first[:, None])
    unary = _unary(apart, grid.design, grid.scores)
    found = expected(unary, linear.transition, grid.lengths, coefficients)
    weighted = grid.design * coefficients[:, None, None]
    by_feature = jnp.einsum("ntq,tfkn->fqk", weighted, found.nodes)
    # A sequence that is left out may be impossible: 0 * -inf.
    values = jnp.where(coefficients != 0, found.log_partition, 0.0)
    return values @ coefficients, _ordered(order, by_feature, found.edges)


@partial(jit, static_argnums=0)
def log_partitions(
    program: Program, thetas: Array, places: Array, labels: Array, order: Array, grid: PaddedBucket
) -> tuple[Array, Array]:
    """log sum over all z that agree with the known `labels` (R, T), (R,), and its slopes (R, D)."""
    unary, pairwise, lengths = _rows(program, thetas, places, grid)
    unary = _with_labels(unary, labels)
    values, nodes, moves = chain_engine.log_posterior(unary, pairwise, lengths)
    by_feature = jnp.einsum("rtq,rtk->rqk", grid.design[places], nodes)
    return values, _ordered(order, by_feature, moves)


@partial(jit, static_argnums=0)
def mean_log_partitions(
    program: Program, thetas: Array, places: Array, labels: Array, weights: Array, grid: PaddedBucket
) -> tuple[Array, Array]:
    """The same when labels are kept with probabilities `weights` (R, T)."""

    def total(t: Array) -> tuple[Array, Array]:
        chains = _rows(program, t, places, grid)
        values = mean_log_partition(*chains, jnp.maximum(labels, 0), weights)
        return jnp.sum(values), values

    slopes, values = jax.grad(total, has_aux=True)(thetas)
    return values, slopes


@partial(jit, static_argnums=0)
def log_marginals(
    program: Program, thetas: Array, places: Array, labels: Array, grid: PaddedBucket
) -> Array:
    """(R, T, K) log p(z_t | known labels, x)."""
    unary, pairwise, lengths = _rows(program, thetas, places, grid)
    return chain_engine.log_marginals(_with_labels(unary, labels), pairwise, lengths)


@partial(jit, static_argnums=0)
def best_paths(
    program: Program, thetas: Array, places: Array, grid: PaddedBucket
) -> tuple[Array, Array]:
    """(R, T) the jointly most probable states, and (R,) their total log-potentials."""
    return chain_engine.best_path(*_rows(program, thetas, places, grid))


@partial(jit, static_argnums=0)
def covariance(
    program: Program,
    theta: Array,
    places: Array,
    labels: Array,
    coefficients: Array,
    order: Array,
    grid: PaddedBucket,
) -> Array:
    """(D, D) sum of coefficient (R,) times the second derivatives of `log_partitions`."""
    thetas = jnp.broadcast_to(theta, (len(places), len(theta)))
    unary, pairwise, lengths = _rows(program, thetas, places, grid)
    unary = _with_labels(unary, labels)
    found = count_covariance(unary, pairwise[0], lengths, grid.design[places], coefficients)
    return found[order][:, order]


@partial(jit, static_argnums=0)
def mean_curvature(
    program: Program,
    theta: Array,
    places: Array,
    labels: Array,
    weights: Array,
    coefficients: Array,
    grid: PaddedBucket,
) -> Array:
    """The same of `mean_log_partitions`, by D tangents."""

    def total(t: Array) -> Array:
        chains = _rows(program, jnp.broadcast_to(t, (len(places), len(t))), places, grid)
        return coefficients @ mean_log_partition(*chains, jnp.maximum(labels, 0), weights)

    return jax.hessian(total)(theta)
