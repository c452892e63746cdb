"""Many chains with the same transitions: a step of all of them is one matrix product.

Arrays are (T, F, K, n): n chains in each of F groups, which share transitions (F, K, K). The arithmetic
is that of `scan`: scaled where nothing can underflow, in logarithms where it could. What chains count
is returned summed over them, which is all that a gradient needs.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from fitonce.engines import scan
from fitonce.numerics import Array


class Expected(NamedTuple):
    """What chains expect.

    Attributes:
        log_partition: (F, n).
        nodes: (T, F, K, n) p(z_t), zero at padding.
        edges: (F, K, K) expected moves, summed over chains and steps by coefficients.
    """

    log_partition: Array
    nodes: Array
    edges: Array


def expected(unary: Array, pairwise: Array, lengths: Array, coefficients: Array) -> Expected:
    """Of chains with unary log-potentials (F, n, T, K), pairwise (F, K, K), lengths (n,) and
    coefficients (n,) of their moves in the sum."""
    lanes = jnp.moveaxis(unary, (2, 3), (0, 2))
    steps, groups, states, count = lanes.shape
    by_state = jnp.swapaxes(lanes, 1, 2).reshape(steps, states, groups * count)
    moves = jnp.moveaxis(pairwise, 0, -1)[None]
    arrays = (lanes, pairwise, lengths, coefficients)
    return lax.cond(scan.cannot_underflow(by_state, moves), _scaled, _logs, *arrays)


def _scaled(unary: Array, pairwise: Array, lengths: Array, coefficients: Array) -> Expected:
    peak = jnp.max(unary, 2, keepdims=True)
    highest = jnp.max(pairwise, (1, 2), keepdims=True)
    emission, transition = jnp.exp(unary - peak), jnp.exp(pairwise - highest)
    onward = jnp.swapaxes(transition, 1, 2)
    valid = jnp.arange(len(unary))[:, None] < lengths  # (T, n)

    def forward(filtered, inputs):  # type: ignore[no-untyped-def]
        emit, keep = inputs
        new = (onward @ filtered) * emit
        return jnp.where(keep, new / jnp.sum(new, 1, keepdims=True), filtered), filtered

    def backward(message, inputs):  # type: ignore[no-untyped-def]
        emit, keep = inputs
        new = transition @ (emit * message)
        return jnp.where(keep, new / jnp.sum(new, 1, keepdims=True), message), message

    start = emission[0] / jnp.sum(emission[0], 1, keepdims=True)
    last, ahead = lax.scan(forward, start, (emission[1:], valid[1:]))
    ahead = jnp.concatenate([ahead, last[None]])
    inputs = (emission[1:], valid[1:])
    first, behind = lax.scan(backward, jnp.ones_like(start), inputs, reverse=True)
    behind = jnp.concatenate([first[None], behind])
    nodes = ahead * behind
    nodes = nodes / jnp.sum(nodes, 2, keepdims=True) * valid[:, None, None]
    predicted = onward @ ahead[:-1]
    incoming = emission[1:] * behind[1:]
    share = incoming / jnp.sum(predicted * incoming, 2, keepdims=True)
    share = share * (valid[1:] * coefficients)[:, None, None]
    edges = transition * jnp.einsum("tfin,tfjn->fij", ahead[:-1], share)
    scales = jnp.log(jnp.sum(predicted * emission[1:], 2)) + peak[1:, :, 0] + highest[:, :, 0]
    begun = jnp.log(jnp.sum(emission[0], 1)) + peak[0, :, 0]
    value = begun + jnp.sum(jnp.where(valid[1:, None], scales, 0.0), 0)
    return Expected(value, nodes, edges)


def _logs(unary: Array, pairwise: Array, lengths: Array, coefficients: Array) -> Expected:
    steps, groups, states, count = unary.shape
    lanes = jnp.swapaxes(unary, 1, 2).reshape(steps, states, groups * count)
    moves = jnp.repeat(jnp.moveaxis(pairwise, 0, -1), count, -1)[None]
    value, nodes, edges = scan.posterior(lanes, moves, jnp.tile(lengths, groups))
    edges = edges[0].reshape(states, states, groups, count) @ coefficients
    nodes = jnp.swapaxes(nodes.reshape(steps, states, groups, count), 1, 2)
    return Expected(value.reshape(groups, count), nodes, jnp.moveaxis(edges, -1, 0))
