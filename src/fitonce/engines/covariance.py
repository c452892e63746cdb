"""Covariances of what a chain counts: second derivatives of log Z where potentials are linear.

With unary log-potentials features[t]' weights[:, k] and the same transitions at every step, the slope of
log Z is the mean of the counts C = sum_t c_t, where c_t holds features[t] at the state of step t and a one
at the move into it; the Hessian is their covariance. With V_t(j) the mean of all later counts given
z_t = j, from one backward pass,

    E[C C'] = sum_t E[c_t c_t'] + sum_t E[c_t V_t(z_t)'] + its transpose

so that the Hessian of many chains is a few matrix products a step. Pushing D tangents through a chain takes
D passes instead.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from fitonce.engines import scan
from fitonce.numerics import Array, logsumexp


def count_covariance(
    unary: Array, pairwise: Array, lengths: Array, features: Array, coefficients: Array
) -> Array:
    """Sum over chains of coefficient times the covariance of their counts.

    Args:
        unary: (B, T, K).
        pairwise: (K, K).
        lengths: (B,).
        features: (B, T, Q), zero at padding.
        coefficients: (B,).

    Returns: (Q K + K K, Q K + K K), of features by state and then moves.
    """
    states, width = unary.shape[-1], features.shape[-1]
    nodes, moves = _posterior(unary, pairwise, lengths)
    edges = nodes[:-1, :, :, None] * moves  # (T - 1, B, K, K)
    weighted = jnp.moveaxis(features, 0, 1) * coefficients[None, :, None]  # (T, B, Q)
    along = jnp.moveaxis(features, 0, 1)
    later = _products(nodes, moves, edges, along, weighted, coefficients)
    counts = jnp.concatenate(
        [
            jnp.einsum("tbq,tbk->bqk", along, nodes).reshape(len(unary), -1),
            jnp.sum(edges, 0).reshape(len(unary), -1),
        ],
        1,
    )
    same = jnp.einsum("tbq,tbr,tbk->qkr", weighted, along, nodes)
    own = jnp.einsum("qkr,kl->qkrl", same, jnp.eye(states)).reshape(width * states, width * states)
    moved = jnp.diag(jnp.einsum("b,tbij->ij", coefficients, edges).ravel())
    total = later + later.T - (counts * coefficients[:, None]).T @ counts
    total = total.at[: width * states, : width * states].add(own)
    return total.at[width * states :, width * states :].add(moved)


def _posterior(unary: Array, pairwise: Array, lengths: Array) -> tuple[Array, Array]:
    """p(z_t) (T, B, K), zero at padding, and p(z_t+1 | z_t) (T - 1, B, K, K), zero into padding."""
    lanes = jnp.moveaxis(unary, 0, -1)
    shared = jnp.broadcast_to(pairwise[None, :, :, None], (1, *pairwise.shape, len(unary)))
    ahead, behind = scan.log_messages(lanes, shared, lengths)
    norm = logsumexp(ahead[-1], 0)
    valid = scan.valid_steps(lanes, lengths)
    nodes = jnp.exp(ahead + behind - norm) * valid[:, None]
    onward = behind[:-1, :, None]
    into = shared + (lanes[1:] + behind[1:])[:, None]
    moves = jnp.where(onward > -jnp.inf, jnp.exp(into - jnp.where(onward > -jnp.inf, onward, 0.0)), 0.0)
    moves = moves * valid[1:, None, None]
    return jnp.moveaxis(nodes, -1, 1), jnp.moveaxis(moves, -1, 1)


def _products(
    nodes: Array, moves: Array, edges: Array, features: Array, weighted: Array, coefficients: Array
) -> Array:
    """sum_t E[c_t V_t(z_t)'], and of each move with the features of the step that it leads to."""
    batch, states = nodes.shape[1:]
    width = features.shape[-1]
    by_feature = width * states
    size = by_feature + states * states
    each = jnp.arange(states)

    def step(carry, inputs):  # type: ignore[no-untyped-def]
        later, rows, links = carry
        node, move, edge, feature, scaled = inputs
        rows += jnp.einsum("bq,bk,bkd->qkd", scaled, node, later)
        here = later[..., :by_feature].reshape(batch, states, width, states)
        here = here.at[:, each, :, each].add(feature[None])
        with_own = jnp.concatenate([here.reshape(batch, states, -1), later[..., by_feature:]], -1)
        links += jnp.einsum("bij,bjd->ijd", coefficients[:, None, None] * edge, with_own)
        before = jnp.einsum("bij,bjd->bid", move, with_own)
        into = before[..., by_feature:].reshape(batch, states, states, states)
        into = into.at[:, each, each].add(move)
        before = jnp.concatenate([before[..., :by_feature], into.reshape(batch, states, -1)], -1)
        return (before, rows, links), None

    empty = jnp.zeros((1, *moves.shape[1:]))
    inputs = (
        nodes,
        jnp.concatenate([empty, moves]),
        jnp.concatenate([empty, edges]),
        features,
        weighted,
    )
    start = (
        jnp.zeros((batch, states, size)),
        jnp.zeros((width, states, size)),
        jnp.zeros((states, states, size)),
    )
    (_, rows, links), _ = lax.scan(step, start, inputs, reverse=True)
    return jnp.concatenate([rows.reshape(by_feature, size), links.reshape(states * states, size)])
