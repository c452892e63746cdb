"""Log-partition and posterior marginals of chains, by a scan over time or by a balanced tree.

A chain of T steps with K states has unary log-potentials (T, K) and pairwise log-potentials
(K, K), the same at every step, or (T - 1, K, K); `pairwise[i, j]` is for state i now, j next:

    log Z = log sum_z exp( sum_t unary[t, z_t] + sum_t pairwise[t, z_t, z_t+1] )

All functions take leading batch axes (folds, sequences) and `lengths` for padded sequences.
The batch runs in the last axis inside, so that a step over many folds is one vector operation.

The scan has two arithmetics. The scaled one normalises probabilities at each step: four times
faster, and exact as long as no probability can underflow. A bound from the potentials proves that
before the pass; where it cannot, the pass runs in log space, which is exact without conditions.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

from fitonce.numerics import Array, logsumexp

Kernel = Literal["scan", "tree"]
KERNELS = ("scan", "tree")

# exp(-600) is far above the smallest normal double, exp(-708): the margin absorbs factors of K.
_SAFE_RANGE = 600.0


def default_kernel() -> Kernel:
    """The kernel that is fastest on this backend: the scan on a CPU, the tree elsewhere."""
    return "scan" if jax.default_backend() == "cpu" else "tree"


def log_partition(
    unary: Array, pairwise: Array, lengths: Array | None = None, kernel: Kernel | None = None
) -> Array:
    """log Z of each chain of the batch.

    Args:
        unary: (..., T, K).
        pairwise: (..., K, K) or (..., T - 1, K, K), batch axes broadcast against unary's; an array
            with as many axes as `unary` is read as the same at every step.
        lengths: (...) integers; steps from `lengths` on are padding. None: all T steps.
        kernel: "scan", "tree" or None for the backend's default.

    Returns: (...), -inf where no path is possible.
    """
    batch = unary.shape[:-2]
    value = _log_partition(kernel or default_kernel(), *_flatten(unary, pairwise, lengths))
    return value.reshape(batch)


def marginals(
    unary: Array,
    pairwise: Array,
    lengths: Array | None = None,
    kernel: Kernel | None = None,
    *,
    at: Array | None = None,
) -> Array:
    """Posterior p(z_t = k), (..., T, K), zero on padding. Arguments as `log_partition`.

    Args:
        at: (F, M) for unary (F, N, T, K): places in the flattened (N * T) grid; returns (F, M, K) for
            just these, which is much less work than all of them when they are few.
    """
    flat = _flatten(unary, pairwise, lengths)
    if (kernel or default_kernel()) == "tree":
        nodes = jax.grad(lambda u: jnp.sum(_tree(u, *flat[1:])))(flat[0])
    elif at is not None and unary.shape[-2] > 1:
        rows, steps = unary.shape[-3:-1]
        lane = jnp.arange(unary.shape[0])[:, None] * rows + at // steps
        return _scan_nodes(*flat, (at % steps, lane))
    else:
        _, nodes, _ = _scan_posterior(*flat)
    nodes = jnp.moveaxis(nodes, -1, 0).reshape(unary.shape)
    if at is None:
        return nodes
    return jnp.take_along_axis(nodes.reshape(unary.shape[0], -1, unary.shape[-1]), at[..., None], 1)


def _flatten(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array, Array | None]:
    """To unary (T, K, B), pairwise (1 or T - 1, K, K, B) and lengths (B)."""
    *batch, steps, states = unary.shape
    if pairwise.ndim <= unary.ndim:
        pairwise = pairwise[..., None, :, :]
    pairwise = jnp.broadcast_to(pairwise, (*batch, *pairwise.shape[-3:]))
    lanes = math.prod(batch)
    unary = jnp.moveaxis(unary.reshape(lanes, steps, states), 0, -1)
    pairwise = jnp.moveaxis(pairwise.reshape(lanes, *pairwise.shape[-3:]), 0, -1)
    if lengths is not None:
        lengths = jnp.broadcast_to(lengths, tuple(batch)).reshape(-1)
    return unary, pairwise, lengths


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _log_partition(kernel: Kernel, unary: Array, pairwise: Array, lengths: Array | None) -> Array:
    return (
        _tree(unary, pairwise, lengths)
        if kernel == "tree"
        else _scan_posterior(unary, pairwise, lengths)[0]
    )


@_log_partition.defjvp
def _log_partition_jvp(kernel, primals, tangents):  # type: ignore[no-untyped-def]
    """d log Z = sum of marginals times tangents; differentiating the marginals gives d2 log Z."""
    unary, pairwise, lengths = primals
    d_unary, d_pairwise, _ = tangents
    if kernel == "tree":
        return jax.jvp(lambda u, p: _tree(u, p, lengths), (unary, pairwise), (d_unary, d_pairwise))
    value, nodes, edges = _scan_posterior(unary, pairwise, lengths)
    return value, jnp.sum(nodes * d_unary, (0, 1)) + jnp.sum(edges * d_pairwise, (0, 1, 2))


# --- scan -----------------------------------------------------------------------------------------


def _scan_posterior(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array, Array]:
    """log Z (B), node marginals (T, K, B), edge marginals like `pairwise` (summed if shared)."""
    if unary.shape[0] == 1:
        value = logsumexp(unary[0], 0)
        nodes = jnp.exp(unary - jnp.where(value > -jnp.inf, value, 0.0))
        return value, nodes, jnp.zeros_like(pairwise)
    return lax.cond(
        _cannot_underflow(unary, pairwise),
        _scaled_posterior,
        _log_posterior,
        unary,
        pairwise,
        lengths,
    )


def _cannot_underflow(unary: Array, pairwise: Array) -> Array:
    """Whether scaled probabilities and their derivatives stay in range, for every chain.

    Let p be the range of the pairwise potentials at a step, all of them possible, and u that of the
    possible unary ones. Then every possible state has at least exp(-p - u) / K of the forward mass, and
    every sum that is divided by is at least exp(-2p) / K, also where some states are impossible;
    derivatives divide by its square, exp(-4p). A step without a possible state is left to log space.
    """
    highest = jnp.max(unary, 1)
    lowest = jnp.min(jnp.where(unary > -jnp.inf, unary, jnp.inf), 1)
    unary_range = jnp.max(highest - lowest)
    pairwise_range = jnp.max(jnp.max(pairwise, (1, 2)) - jnp.min(pairwise, (1, 2)))
    possible = jnp.all(jnp.isfinite(highest))
    return possible & (unary_range + 4.0 * pairwise_range < _SAFE_RANGE)  # false for nan and inf


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

    inputs = (emission[1:], _valid_steps(unary, lengths, 1), None if shared else transition)
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
    predicted = jnp.sum(ahead[:-1, :, None] * transition, 1)
    share = incoming / jnp.sum(predicted * incoming, 1, keepdims=True)
    edges = ahead[:-1, :, None] * share[:, None]
    scales = jnp.log(jnp.sum(predicted * emission[1:], 1))
    scales += _peak(unary, 1)[1:, 0] + _peak(pairwise, (1, 2))[:, 0, 0]
    valid = _valid_steps(unary, lengths)
    if valid is not None:
        nodes = nodes * valid[:, None]
        edges = jnp.where(valid[1:, None, None], edges, 0.0)
        scales = jnp.where(valid[1:], scales, 0.0)
    edges = transition * (jnp.sum(edges, 0, keepdims=True) if pairwise.shape[0] == 1 else edges)
    first = jnp.log(jnp.sum(emission[0], 0)) + _peak(unary, 1)[0, 0]
    return first + jnp.sum(scales, 0), nodes, edges


def _log_messages(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array]:
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

    inputs = (unary[1:], _valid_steps(unary, lengths, 1), None if shared else pairwise)
    ahead = _stack_last(lax.scan(forward, unary[0], inputs))
    behind = _stack_first(lax.scan(backward, jnp.zeros_like(unary[0]), inputs, reverse=True))
    return ahead, behind


def _log_posterior(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array, Array]:
    ahead, behind = _log_messages(unary, pairwise, lengths)
    value = logsumexp(ahead[-1], 0)
    norm = jnp.where(value > -jnp.inf, value, 0.0)
    nodes = jnp.exp(ahead + behind - norm)
    incoming = unary[1:] + behind[1:]
    edges = jnp.exp(ahead[:-1, :, None] + pairwise + incoming[:, None] - norm)
    valid = _valid_steps(unary, lengths)
    if valid is not None:
        nodes = nodes * valid[:, None]
        edges = edges * valid[1:, None, None]
    return value, nodes, jnp.sum(edges, 0, keepdims=True) if pairwise.shape[0] == 1 else edges


def _scan_nodes(
    unary: Array, pairwise: Array, lengths: Array | None, places: tuple[Array, Array]
) -> Array:
    """Node marginals at (time, lane) places of any shape S: (*S, K)."""
    time, lane = places

    def scaled(*chain: Array) -> Array:
        _, _, ahead, behind = _scaled_messages(*chain)
        weight = ahead[time, :, lane] * behind[time, :, lane]
        return weight / jnp.sum(weight, -1, keepdims=True)

    def logs(*chain: Array) -> Array:
        ahead, behind = _log_messages(*chain)
        weight = ahead[time, :, lane] + behind[time, :, lane]
        norm = logsumexp(weight, -1)[..., None]
        return jnp.exp(weight - jnp.where(norm > -jnp.inf, norm, 0.0))

    return lax.cond(_cannot_underflow(unary, pairwise), scaled, logs, unary, pairwise, lengths)


def _peak(potentials: Array, axis: int | tuple[int, ...]) -> Array:
    """The largest potential along `axis`, kept as an axis; a constant shift, so without derivative."""
    return lax.stop_gradient(jnp.max(potentials, axis, keepdims=True))


def _stack_last(scanned: tuple[Array, Array]) -> Array:
    return jnp.concatenate([scanned[1], scanned[0][None]])


def _stack_first(scanned: tuple[Array, Array]) -> Array:
    return jnp.concatenate([scanned[0][None], scanned[1]])


def _valid_steps(unary: Array, lengths: Array | None, first: int = 0) -> Array | None:
    """(T - first, B): true where a step, from step `first` on, is not padding."""
    if lengths is None:
        return None
    return jnp.arange(first, unary.shape[0])[:, None] < lengths


# --- tree -----------------------------------------------------------------------------------------


def _tree(unary: Array, pairwise: Array, lengths: Array | None) -> Array:
    """log Z by log2(T) rounds of products of neighbouring K x K matrices, in log space."""
    steps, states, batch = unary.shape
    identity = jnp.where(jnp.eye(states, dtype=bool), 0.0, -jnp.inf)[None, :, :, None]
    links = jnp.broadcast_to(pairwise + unary[1:, None], (steps - 1, states, states, batch))
    valid = _valid_steps(unary, lengths, 1)
    if valid is not None:
        links = jnp.where(valid[:, None, None], links, identity)
    while links.shape[0] > 1:
        if links.shape[0] % 2:
            links = jnp.concatenate([links, jnp.broadcast_to(identity, links[:1].shape)])
        links = logsumexp(links[::2, :, :, None] + links[1::2, None], 2)
    ends = unary[0] if steps == 1 else logsumexp(unary[0][:, None] + links[0], 0)
    return logsumexp(ends, 0)
