"""Many chains with the same transitions: a step of all of them is one matrix product.

Arrays are (T, F, K, n): n chains in each of F groups that share transitions (F, K, K). As in
`chain_scan`, passes are scaled where nothing can underflow and in log space otherwise. Expected
transition counts are summed over chains, which is all that a gradient needs.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from fitonce.core.deferred import custom_jvp, jnp, lax
from fitonce.core.numerics import Array, logsumexp
from fitonce.engines import chain_scan as scan


class Expected(NamedTuple):
    """Log-partition functions and posterior expectations.

    Attributes:
        log_partition: (F, n).
        nodes: (T, F, K, n) p(z_t), zero at padding.
        edges: (F, K, K) expected transition counts, a sum over chains weighted by their coefficients.
    """

    log_partition: Array
    nodes: Array
    edges: Array


def expected(unary: Array, pairwise: Array, lengths: Array, coefficients: Array) -> Expected:
    """Expectations for unary log-potentials (F, n, T, K), pairwise (F, K, K), lengths (n,) and
    coefficients (n,) or (F, n) of the chains in `Expected.edges`."""
    lanes = jnp.moveaxis(unary, (2, 3), (0, 2))
    coefficients = jnp.broadcast_to(coefficients, unary.shape[:2])
    steps, groups, states, count = lanes.shape
    by_state = jnp.swapaxes(lanes, 1, 2).reshape(steps, states, groups * count)
    moves = jnp.moveaxis(pairwise, 0, -1)[None]
    safe = partial(scan.cannot_underflow, by_state, moves, entries=False)
    return scan.fastest(safe, _scaled, _logs, lanes, pairwise, lengths, coefficients)


@custom_jvp
def total_log_partition(unary: Array, pairwise: Array, lengths: Array, coefficients: Array) -> Array:
    """(F,) sums over chains of coefficient (F, n) times log Z; arguments as for `expected`."""
    return jnp.sum(scaled(coefficients, expected(unary, pairwise, lengths, coefficients)[0]), 1)


def scaled(coefficients: Array, values: Array) -> Array:
    """Products in which a zero coefficient removes even infinite values."""
    return jnp.where(coefficients == 0, 0.0, coefficients * values)


@total_log_partition.defjvp
def _total_jvp(primals, tangents):  # type: ignore[no-untyped-def]
    """d log Z = sum of marginals times tangents; differentiating the marginals gives d2 log Z."""
    unary, pairwise, lengths, coefficients = primals
    d_unary, d_pairwise, _, d_coefficients = tangents
    value, nodes, edges = expected(unary, pairwise, lengths, coefficients)
    nodes = jnp.moveaxis(nodes, (0, 2), (2, 3)) * coefficients[..., None, None]
    slope = jnp.sum(nodes * d_unary, (1, 2, 3)) + jnp.sum(edges * d_pairwise, (1, 2))
    # Linear in the tangent, so not `scaled`.
    slope += jnp.sum(d_coefficients * jnp.where(jnp.isfinite(value), value, 0.0), 1)
    return jnp.sum(scaled(coefficients, value), 1), slope


def conditionals(unary: Array, pairwise: Array, lengths: Array) -> tuple[Array, Array]:
    """For one group with unary (n, T, K) and pairwise (K, K): p(z_t), (T, K, n), zero at padding, and
    p(z_t+1 | z_t), (T - 1, K, K, n), zero into padding."""
    lanes = jnp.moveaxis(unary, 0, 2)
    safe = partial(scan.cannot_underflow, lanes, pairwise[None, :, :, None], entries=False)
    return scan.fastest(safe, _scaled_conditionals, _log_conditionals, lanes, pairwise, lengths)


class _Messages(NamedTuple):
    """Emissions and transitions scaled to at most 1, their log maxima, and normalised messages."""

    emission: Array
    transition: Array
    peak: Array
    highest: Array
    ahead: Array
    behind: Array
    valid: Array


def _messages(unary: Array, pairwise: Array, lengths: Array) -> _Messages:
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
    inputs = (emission[1:], valid[1:])
    last, ahead = lax.scan(forward, start, inputs)
    first, behind = lax.scan(backward, jnp.ones_like(start), inputs, reverse=True)
    ahead, behind = jnp.concatenate([ahead, last[None]]), jnp.concatenate([first[None], behind])
    return _Messages(emission, transition, peak, highest, ahead, behind, valid)


def _nodes(messages: _Messages) -> Array:
    nodes = messages.ahead * messages.behind
    return nodes / jnp.sum(nodes, 2, keepdims=True) * messages.valid[:, None, None]


def _scaled(unary: Array, pairwise: Array, lengths: Array, coefficients: Array) -> Expected:
    m = _messages(unary, pairwise, lengths)
    predicted = jnp.swapaxes(m.transition, 1, 2) @ m.ahead[:-1]
    incoming = m.emission[1:] * m.behind[1:]
    share = incoming / jnp.sum(predicted * incoming, 2, keepdims=True)
    share = share * (m.valid[1:, None] * coefficients)[:, :, None]
    edges = m.transition * jnp.einsum("tfin,tfjn->fij", m.ahead[:-1], share)
    scales = jnp.log(jnp.sum(predicted * m.emission[1:], 2)) + m.peak[1:, :, 0] + m.highest[:, :, 0]
    begun = jnp.log(jnp.sum(m.emission[0], 1)) + m.peak[0, :, 0]
    value = begun + jnp.sum(jnp.where(m.valid[1:, None], scales, 0.0), 0)
    return Expected(value, _nodes(m), edges)


def _logs(unary: Array, pairwise: Array, lengths: Array, coefficients: Array) -> Expected:
    steps, groups, states, count = unary.shape
    lanes = jnp.swapaxes(unary, 1, 2).reshape(steps, states, groups * count)
    moves = jnp.repeat(jnp.moveaxis(pairwise, 0, -1), count, -1)[None]
    value, nodes, edges = scan.log_posterior(lanes, moves, jnp.tile(lengths, groups))
    edges = jnp.einsum("ijfn,fn->fij", edges[0].reshape(states, states, groups, count), coefficients)
    nodes = jnp.swapaxes(nodes.reshape(steps, states, groups, count), 1, 2)
    return Expected(value.reshape(groups, count), nodes, edges)


def _scaled_conditionals(unary: Array, pairwise: Array, lengths: Array) -> tuple[Array, Array]:
    m = _messages(unary[:, None], pairwise[None], lengths)
    incoming = (m.emission[1:] * m.behind[1:])[:, 0]
    moves = m.transition[0][:, :, None] * incoming[:, None]
    moves = moves / (m.transition[0] @ incoming)[:, :, None] * m.valid[1:, None, None]
    return _nodes(m)[:, 0], moves


def _log_conditionals(unary: Array, pairwise: Array, lengths: Array) -> tuple[Array, Array]:
    shared = jnp.broadcast_to(pairwise[None, :, :, None], (1, *pairwise.shape, unary.shape[-1]))
    ahead, behind = scan.log_messages(unary, shared, lengths)
    norm = logsumexp(ahead[-1], 0)
    valid = jnp.arange(len(unary))[:, None] < lengths
    nodes = jnp.exp(ahead + behind - jnp.where(norm > -jnp.inf, norm, 0.0))
    onward = behind[:-1, :, None]
    possible = onward > -jnp.inf
    into = shared + (unary[1:] + behind[1:])[:, None]
    moves = jnp.where(possible, jnp.exp(into - jnp.where(possible, onward, 0.0)), 0.0)
    # Padding may hold any value, including infinity.
    return jnp.where(valid[:, None], nodes, 0.0), jnp.where(valid[1:, None, None], moves, 0.0)
