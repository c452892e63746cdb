"""Chains by a scan over time: arrays with time first and the batch last, (T, K, B).

There are two versions. The scaled one normalises probabilities at each step: it is four times faster,
and exact as long as no probability can underflow. A bound on the potentials checks this before the
pass; where it fails, the pass runs in log space, which is always exact. Small arrays always do: there
compiling both versions takes longer than the logarithms.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from fitonce.core.deferred import jnp, lax
from fitonce.core.numerics import Array, logsumexp, safe_log

# exp(-600) is far above the smallest normal double, exp(-708): the margin absorbs factors of K.
_SAFE_RANGE = 600.0
_FEW_STATES = 8  # up to this number a sum over states is written out
SMALL = 2**16  # potentials

_Chain = tuple[Array, Array, Array | None]  # emissions or unary potentials, transitions, lengths
_Step = Callable[[Array, Array, Array], Array]  # a message after an emission and a transition


def posterior(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array, Array]:
    """log Z (B), node marginals (T, K, B), edge marginals like `pairwise` (summed if shared)."""
    if unary.shape[0] == 1:
        value = logsumexp(unary[0], 0)
        nodes = jnp.exp(unary - jnp.where(value > -jnp.inf, value, 0.0))
        return value, nodes, jnp.zeros_like(pairwise)
    safe = partial(cannot_underflow, unary, pairwise, entries=False)
    return fastest(safe, _scaled_posterior, log_posterior, unary, pairwise, lengths)


def fastest(safe: Callable[[], Array], scaled: Any, logs: Any, unary: Array, *others: Any) -> Any:
    """scaled(unary, *others) where that is safe, and logs(unary, *others) otherwise."""
    if unary.size <= SMALL:
        return logs(unary, *others)
    return lax.cond(safe(), scaled, logs, unary, *others)


def cannot_underflow(unary: Array, pairwise: Array, *, entries: bool = True) -> Array:
    """Whether scaled probabilities and their derivatives stay in range, for every chain.

    Let p be the range of the pairwise potentials at a step, all of them finite, and u that of the
    finite unary ones. Then every possible state has at least exp(-p - u) / K of the forward mass, and
    every divisor is at least exp(-2p) / K, also where some states are impossible; derivatives divide by
    its square, exp(-4p). A step without a possible state is left to log space.

    With impossible transitions, let p be the range of the possible ones. A similar bound holds if every
    state can reach every other in two steps (as in IOB2 tagging) and all states are possible after the
    first step: two steps take at least exp(-2p - 2u) / K^3 of the largest mass to any state. No divisor
    is then below exp(-4 (p + u)), nor its square below exp(-8 (p + u)).

    Where all transitions are possible, the divisors do not depend on u. A state whose probability
    underflows then contributes nothing to log Z and its derivatives, which is accurate to 1e-300; it
    must be in range only if its logarithm is needed (`entries`).
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
    """The smallest finite potential."""
    return jnp.min(jnp.where(potentials == -jnp.inf, jnp.inf, potentials), axis)


def _scaled_messages(
    unary: Array, pairwise: Array, lengths: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Emissions and transitions scaled to at most 1, and forward and backward messages (T, K, B)."""
    emission = jnp.exp(unary - _peak(unary, 1))
    transition = jnp.exp(pairwise - _peak(pairwise, (1, 2)))

    def forward(filtered: Array, emit: Array, move: Array) -> Array:
        new = jnp.sum(filtered[:, None] * move, 0) * emit
        return new / jnp.sum(new, 0)

    def backward(message: Array, emit: Array, move: Array) -> Array:
        new = jnp.sum(move * (emit * message)[None], 1)
        return new / jnp.sum(new, 0)

    first = emission[0] / jnp.sum(emission[0], 0)
    ends, chain = (first, jnp.ones_like(first)), (emission, transition, lengths)
    return emission, transition, *_both_ways(forward, backward, ends, chain)


def _both_ways(
    forward: _Step, backward: _Step, ends: tuple[Array, Array], chain: _Chain
) -> tuple[Array, Array]:
    """Forward and backward messages (T, K, B) from those at both ends, unchanged by padding.

    Each loop carries and stores a single array: on a CPU every further output of a loop body is another
    kernel launch per step, more expensive than recomputing it outside, vectorised.
    """
    unary, pairwise, lengths = chain
    shared = pairwise.shape[0] == 1
    inputs = (unary[1:], valid_steps(unary, lengths, 1), None if shared else pairwise)

    def run(step: _Step, start: Array, reverse: bool) -> tuple[Array, Array]:
        def body(message, at):  # type: ignore[no-untyped-def]
            emit, keep, move = at
            new = step(message, emit, pairwise[0] if shared else move)
            return new if keep is None else jnp.where(keep, new, message), message

        return lax.scan(body, start, inputs, reverse=reverse)

    last, ahead = run(forward, ends[0], False)
    first, behind = run(backward, ends[1], True)
    return jnp.concatenate([ahead, last[None]]), jnp.concatenate([first[None], behind])


def _scaled_posterior(
    unary: Array, pairwise: Array, lengths: Array | None
) -> tuple[Array, Array, Array]:
    emission, transition, ahead, behind = _scaled_messages(unary, pairwise, lengths)
    nodes = ahead * behind
    nodes = nodes / jnp.sum(nodes, 1, keepdims=True)
    incoming = emission[1:] * behind[1:]
    predicted = _predict(ahead[:-1], transition)
    share = incoming / jnp.sum(predicted * incoming, 1, keepdims=True)
    # Without the barrier XLA fuses the division into the sum over time and repeats it K times.
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
    return reduce(operator.add, parts)


def log_messages(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array]:
    """Forward and backward log messages (T, K, B)."""

    def forward(message: Array, emit: Array, move: Array) -> Array:
        return logsumexp(message[:, None] + move, 0) + emit

    def backward(message: Array, emit: Array, move: Array) -> Array:
        return logsumexp(move + (emit + message)[None], 1)

    ends = (unary[0], jnp.zeros_like(unary[0]))
    return _both_ways(forward, backward, ends, (unary, pairwise, lengths))


def log_posterior(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array, Array]:
    """`posterior` in log space."""
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


def nodes_at(
    unary: Array,
    pairwise: Array,
    lengths: Array | None,
    places: tuple[Array, Array],
    logarithms: bool = False,
) -> Array:
    """Node marginals (*S, K) at the given times and lanes, arrays of any shape S, or their logarithms,
    which do not underflow."""
    time, lane = places

    def scaled(*chain: Array) -> Array:
        _, _, ahead, behind = _scaled_messages(*chain)
        weight = ahead[time, :, lane] * behind[time, :, lane]
        shares = weight / jnp.sum(weight, -1, keepdims=True)
        return safe_log(shares) if logarithms else shares

    def logs(*chain: Array) -> Array:
        ahead, behind = log_messages(*chain)
        weight = ahead[time, :, lane] + behind[time, :, lane]
        norm = logsumexp(weight, -1)[..., None]
        found = weight - jnp.where(norm > -jnp.inf, norm, 0.0)
        return found if logarithms else jnp.exp(found)

    safe = partial(cannot_underflow, unary, pairwise)
    return fastest(safe, scaled, logs, unary, pairwise, lengths)


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
    """(T, B) increments of log Z, step by step."""

    def scaled(*chain: Array) -> Array:
        emission, transition, ahead, _ = _scaled_messages(*chain)
        rest = jnp.sum(_predict(ahead[:-1], transition) * emission[1:], 1)
        steps = jnp.log(jnp.concatenate([jnp.sum(emission[:1], 1), rest])) + _peak(unary, 1)[:, 0]
        return _on_valid(steps.at[1:].add(_peak(pairwise, (1, 2))[:, 0, 0]), unary, lengths)

    def logs(*chain: Array) -> Array:
        totals = logsumexp(log_messages(*chain)[0], 1)
        return jnp.concatenate([totals[:1], totals[1:] - totals[:-1]])

    safe = partial(cannot_underflow, unary, pairwise)
    return fastest(safe, scaled, logs, unary, pairwise, lengths)


def leave_one_out(
    unary: Array, pairwise: Array, lengths: Array | None, emitted: Array, first: Array
) -> Array:
    """(T, B) log p(x_t | x_-t); `unary` is `emitted` (T, K, B) plus `first` (1, K, B) at step 0."""

    def scaled(*chain: Array) -> Array:
        _, transition, ahead, behind = _scaled_messages(*chain)
        before = jnp.concatenate([jnp.exp(first - _peak(first, 1)), _predict(ahead[:-1], transition)])
        others = before * behind
        peak = _peak(emitted, 1)
        here = jnp.sum(others * jnp.exp(emitted - peak), 1) / jnp.sum(others, 1)
        return jnp.log(here) + peak[:, 0]

    def logs(*chain: Array) -> Array:
        ahead, behind = log_messages(*chain)
        reached = logsumexp(ahead[:-1, :, None] + pairwise, 1)
        others = jnp.concatenate([first, reached]) + behind
        return logsumexp(others + emitted, 1) - logsumexp(others, 1)

    def safe() -> Array:
        return cannot_underflow(unary, pairwise) & jnp.all(jnp.isfinite(first))

    return _on_valid(fastest(safe, scaled, logs, unary, pairwise, lengths), unary, lengths)


def _peak(potentials: Array, axis: int | tuple[int, ...]) -> Array:
    """The largest potential along `axis`, kept as an axis; a constant shift, so without derivative."""
    return lax.stop_gradient(jnp.max(potentials, axis, keepdims=True))


def valid_steps(unary: Array, lengths: Array | None, first: int = 0) -> Array | None:
    """(T - first, B): true for steps from `first` on that are not padding; None without lengths."""
    return None if lengths is None else jnp.arange(first, unary.shape[0])[:, None] < lengths


def _on_valid(values: Array, unary: Array, lengths: Array | None) -> Array:
    """Values (T, B), zero on padding."""
    valid = valid_steps(unary, lengths)
    return values if valid is None else jnp.where(valid, values, 0.0)
