"""Chains by a scan over time: arrays with time first and the batch last, (T, K, B).

There are two arithmetics. The scaled one normalises probabilities at each step: four times faster,
and exact as long as no probability can underflow. A bound from the potentials proves that before the
pass; where it cannot, the pass runs in log space, which is exact without conditions.
"""

from __future__ import annotations

import functools
import operator

import jax.numpy as jnp
from jax import lax

from fitonce.core.numerics import Array, logsumexp

# exp(-600) is far above the smallest normal double, exp(-708): the margin absorbs factors of K.
_SAFE_RANGE = 600.0
_FEW_STATES = 8  # up to here a sum over states is written out


def posterior(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array, Array]:
    """log Z (B), node marginals (T, K, B), edge marginals like `pairwise` (summed if shared)."""
    if unary.shape[0] == 1:
        value = logsumexp(unary[0], 0)
        nodes = jnp.exp(unary - jnp.where(value > -jnp.inf, value, 0.0))
        return value, nodes, jnp.zeros_like(pairwise)
    return lax.cond(
        cannot_underflow(unary, pairwise, entries=False),
        _scaled_posterior,
        log_posterior,
        unary,
        pairwise,
        lengths,
    )


def cannot_underflow(unary: Array, pairwise: Array, *, entries: bool = True) -> Array:
    """Whether scaled probabilities and their derivatives stay in range, for every chain.

    Let p be the range of the pairwise potentials at a step, all of them possible, and u that of the
    possible unary ones. Then every possible state has at least exp(-p - u) / K of the forward mass, and
    every sum that is divided by is at least exp(-2p) / K, also where some states are impossible;
    derivatives divide by its square, exp(-4p). A step without a possible state is left to log space.

    With impossible transitions, p the range of the others, the same holds with other constants where two
    steps lead from every state to every other (as they do for tags that begin and go on) and all states
    are possible after the first step: whichever state holds the most mass, two steps take at least
    exp(-2p - 2u) / K^3 of it anywhere. No sum is then below exp(-4 (p + u)), nor its square below
    exp(-8 (p + u)).

    Where all moves are possible, the sums do not depend on u. A state whose share underflows then counts
    for nothing in log Z and in its derivatives, which is right to 1e-300; only where the logarithm of
    that share is asked for (`entries`) must it be in range.
    """
    highest = jnp.max(unary, 1)
    unary_range = jnp.max(highest - _lowest(unary, 1))
    pairwise_range = jnp.max(jnp.max(pairwise, (1, 2)) - _lowest(pairwise, (1, 2)))
    possible = jnp.all(jnp.isfinite(highest))
    every_move = jnp.all(pairwise > -jnp.inf)
    reach = unary_range if entries else 0.0 * unary_range  # nan and inf stay: they compare false
    dense = every_move & (reach + 4.0 * pairwise_range < _SAFE_RANGE)
    moves = jnp.all(pairwise > -jnp.inf, (0, 3)).astype(unary.dtype)
    by_two = jnp.all(moves @ moves > 0) & jnp.all(unary[1:] > -jnp.inf)
    return possible & (dense | (by_two & (8.0 * (unary_range + pairwise_range) < _SAFE_RANGE)))


def _lowest(potentials: Array, axis: int | tuple[int, ...]) -> Array:
    """The lowest of the possible."""
    return jnp.min(jnp.where(potentials == -jnp.inf, jnp.inf, potentials), axis)


def _scaled_messages(
    unary: Array, pairwise: Array, lengths: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Emissions and transitions scaled to at most one, and forward and backward messages (T, K, B).

    Each loop carries and stores one array and nothing else: on a CPU every further output of a loop
    body is another kernel launch per step, dearer than computing it again outside, vectorised.
    """
    emission = jnp.exp(unary - _peak(unary, 1))
    transition = jnp.exp(pairwise - _peak(pairwise, (1, 2)))
    shared = pairwise.shape[0] == 1

    def forward(filtered, inputs):  # type: ignore[no-untyped-def]
        emit, keep, move = inputs
        new = jnp.sum(filtered[:, None] * (transition[0] if shared else move), 0) * emit
        new = new / jnp.sum(new, 0)
        return new if keep is None else jnp.where(keep, new, filtered), filtered

    def backward(message, inputs):  # type: ignore[no-untyped-def]
        emit, keep, move = inputs
        new = jnp.sum((transition[0] if shared else move) * (emit * message)[None], 1)
        new = new / jnp.sum(new, 0)
        return new if keep is None else jnp.where(keep, new, message), message

    inputs = (emission[1:], valid_steps(unary, lengths, 1), None if shared else transition)
    start = emission[0] / jnp.sum(emission[0], 0)
    ahead = _stack_last(lax.scan(forward, start, inputs))
    behind = _stack_first(lax.scan(backward, jnp.ones_like(start), inputs, reverse=True))
    return emission, transition, ahead, behind


def _scaled_posterior(
    unary: Array, pairwise: Array, lengths: Array | None
) -> tuple[Array, Array, Array]:
    emission, transition, ahead, behind = _scaled_messages(unary, pairwise, lengths)
    nodes = ahead * behind
    nodes = nodes / jnp.sum(nodes, 1, keepdims=True)
    incoming = emission[1:] * behind[1:]
    predicted = _predict(ahead[:-1], transition)
    share = incoming / jnp.sum(predicted * incoming, 1, keepdims=True)
    # Without the barrier XLA fuses the division into the sum over time, and divides K times over.
    share = lax.optimization_barrier(share)
    edges = ahead[:-1, :, None] * share[:, None]
    scales = jnp.log(jnp.sum(predicted * emission[1:], 1))
    scales += _peak(unary, 1)[1:, 0] + _peak(pairwise, (1, 2))[:, 0, 0]
    valid = valid_steps(unary, lengths)
    if valid is not None:
        nodes = nodes * valid[:, None]
        edges = jnp.where(valid[1:, None, None], edges, 0.0)
        scales = jnp.where(valid[1:], scales, 0.0)
    edges = transition * (jnp.sum(edges, 0, keepdims=True) if pairwise.shape[0] == 1 else edges)
    first = jnp.log(jnp.sum(emission[0], 0)) + _peak(unary, 1)[0, 0]
    return first + jnp.sum(scales, 0), nodes, edges


def _predict(filtered: Array, transition: Array) -> Array:
    """(T - 1, K, B): sum_i filtered[i] transition[i, j], one fused loop where K is small."""
    states = filtered.shape[1]
    if states > _FEW_STATES:
        return jnp.sum(filtered[:, :, None] * transition, 1)
    parts = [filtered[:, i, None] * transition[:, i] for i in range(states)]
    return functools.reduce(operator.add, parts)


def log_messages(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array]:
    """Forward and backward log messages (T, K, B)."""
    shared = pairwise.shape[0] == 1

    def forward(state, inputs):  # type: ignore[no-untyped-def]
        emit, keep, move = inputs
        new = logsumexp(state[:, None] + (pairwise[0] if shared else move), 0) + emit
        return new if keep is None else jnp.where(keep, new, state), state

    def backward(message, inputs):  # type: ignore[no-untyped-def]
        emit, keep, move = inputs
        new = logsumexp((pairwise[0] if shared else move) + (emit + message)[None], 1)
        return new if keep is None else jnp.where(keep, new, message), message

    inputs = (unary[1:], valid_steps(unary, lengths, 1), None if shared else pairwise)
    ahead = _stack_last(lax.scan(forward, unary[0], inputs))
    behind = _stack_first(lax.scan(backward, jnp.zeros_like(unary[0]), inputs, reverse=True))
    return ahead, behind


def log_posterior(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array, Array]:
    """The same as `posterior`, in log space."""
    ahead, behind = log_messages(unary, pairwise, lengths)
    value = logsumexp(ahead[-1], 0)
    norm = jnp.where(value > -jnp.inf, value, 0.0)
    nodes = jnp.exp(ahead + behind - norm)
    incoming = unary[1:] + behind[1:]
    edges = jnp.exp(ahead[:-1, :, None] + pairwise + incoming[:, None] - norm)
    valid = valid_steps(unary, lengths)
    if valid is not None:
        nodes = jnp.where(valid[:, None], nodes, 0.0)
        edges = jnp.where(valid[1:, None, None], edges, 0.0)
    return value, nodes, jnp.sum(edges, 0, keepdims=True) if pairwise.shape[0] == 1 else edges


def nodes_at(unary: Array, pairwise: Array, lengths: Array | None, places: tuple[Array, Array]) -> Array:
    """Node marginals at (time, lane) places of any shape S: (*S, K)."""
    time, lane = places

    def scaled(*chain: Array) -> Array:
        _, _, ahead, behind = _scaled_messages(*chain)
        weight = ahead[time, :, lane] * behind[time, :, lane]
        return weight / jnp.sum(weight, -1, keepdims=True)

    def logs(*chain: Array) -> Array:
        ahead, behind = log_messages(*chain)
        weight = ahead[time, :, lane] + behind[time, :, lane]
        norm = logsumexp(weight, -1)[..., None]
        return jnp.exp(weight - jnp.where(norm > -jnp.inf, norm, 0.0))

    return lax.cond(cannot_underflow(unary, pairwise), scaled, logs, unary, pairwise, lengths)


def log_nodes(unary: Array, pairwise: Array, lengths: Array | None) -> Array:
    """(T, K, B) logarithms of node marginals."""
    if unary.shape[0] == 1:
        ahead, behind = unary, jnp.zeros_like(unary)
    else:
        ahead, behind = log_messages(unary, pairwise, lengths)
    total = ahead + behind
    norm = logsumexp(total, 1)[:, None]
    return total - jnp.where(norm > -jnp.inf, norm, 0.0)


def increments(unary: Array, pairwise: Array, lengths: Array | None) -> Array:
    """(T, B) what each step adds to log Z."""
    chain = (unary, pairwise, lengths)
    return lax.cond(cannot_underflow(unary, pairwise), _scaled_increments, _log_increments, *chain)


def _scaled_increments(unary: Array, pairwise: Array, lengths: Array | None) -> Array:
    emission, transition, ahead, _ = _scaled_messages(unary, pairwise, lengths)
    rest = jnp.sum(_predict(ahead[:-1], transition) * emission[1:], 1)
    steps = jnp.log(jnp.concatenate([jnp.sum(emission[:1], 1), rest])) + _peak(unary, 1)[:, 0]
    steps = steps.at[1:].add(_peak(pairwise, (1, 2))[:, 0, 0])
    valid = valid_steps(unary, lengths)
    return steps if valid is None else jnp.where(valid, steps, 0.0)


def _log_increments(unary: Array, pairwise: Array, lengths: Array | None) -> Array:
    ahead, _ = log_messages(unary, pairwise, lengths)
    totals = logsumexp(ahead, 1)
    return jnp.concatenate([totals[:1], totals[1:] - totals[:-1]])


def leave_one_out(
    unary: Array, pairwise: Array, lengths: Array | None, emitted: Array, first: Array
) -> Array:
    """(T, B) log p(x_t | x_-t); `emitted` (T, K, B) without and `unary` with `first` (1, K, B)."""
    safe = cannot_underflow(unary, pairwise) & jnp.all(jnp.isfinite(first))
    chain = (unary, pairwise, lengths)
    return lax.cond(safe, _scaled_leave_one_out, _log_leave_one_out, *chain, emitted, first)


def _scaled_leave_one_out(
    unary: Array, pairwise: Array, lengths: Array | None, emitted: Array, first: Array
) -> Array:
    _, transition, ahead, behind = _scaled_messages(unary, pairwise, lengths)
    before = jnp.concatenate([jnp.exp(first - _peak(first, 1)), _predict(ahead[:-1], transition)])
    others = before * behind
    peak = _peak(emitted, 1)
    here = jnp.sum(others * jnp.exp(emitted - peak), 1) / jnp.sum(others, 1)
    value = jnp.log(here) + peak[:, 0]
    valid = valid_steps(unary, lengths)
    return value if valid is None else jnp.where(valid, value, 0.0)


def _log_leave_one_out(
    unary: Array, pairwise: Array, lengths: Array | None, emitted: Array, first: Array
) -> Array:
    ahead, behind = log_messages(unary, pairwise, lengths)
    reached = logsumexp(ahead[:-1, :, None] + pairwise, 1)
    others = jnp.concatenate([first, reached]) + behind
    value = logsumexp(others + emitted, 1) - logsumexp(others, 1)
    valid = valid_steps(unary, lengths)
    return value if valid is None else jnp.where(valid, value, 0.0)


def _peak(potentials: Array, axis: int | tuple[int, ...]) -> Array:
    """The largest potential along `axis`, kept as an axis; a constant shift, so without derivative."""
    return lax.stop_gradient(jnp.max(potentials, axis, keepdims=True))


def _stack_last(scanned: tuple[Array, Array]) -> Array:
    return jnp.concatenate([scanned[1], scanned[0][None]])


def _stack_first(scanned: tuple[Array, Array]) -> Array:
    return jnp.concatenate([scanned[0][None], scanned[1]])


def valid_steps(unary: Array, lengths: Array | None, first: int = 0) -> Array | None:
    """(T - first, B): true where a step, from step `first` on, is not padding."""
    if lengths is None:
        return None
    return jnp.arange(first, unary.shape[0])[:, None] < lengths
