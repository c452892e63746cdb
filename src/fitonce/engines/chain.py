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

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

from fitonce.numerics import Array, logsumexp, safe_log

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
    unary: Array, pairwise: Array, lengths: Array | None = None, kernel: Kernel | None = None
) -> Array:
    """Posterior p(z_t = k), (..., T, K), zero on padding. Arguments as `log_partition`."""
    flat = _flatten(unary, pairwise, lengths)
    kernel = kernel or default_kernel()
    if kernel == "scan":
        _, posterior, _ = _scan_posterior(*flat)
    else:
        posterior = jax.grad(lambda u: jnp.sum(_tree(u, *flat[1:])))(flat[0])
    return jnp.moveaxis(posterior, -1, 0).reshape(unary.shape)


def _flatten(
    unary: Array, pairwise: Array, lengths: Array | None
) -> tuple[Array, Array, Array | None]:
    """To unary (T, K, B), pairwise (1 or T - 1, K, K, B) and lengths (B)."""
    *batch, steps, states = unary.shape
    if pairwise.ndim <= unary.ndim:
        pairwise = pairwise[..., None, :, :]
    pairwise = jnp.broadcast_to(pairwise, (*batch, *pairwise.shape[-3:]))
    unary = jnp.moveaxis(unary.reshape(-1, steps, states), 0, -1)
    pairwise = jnp.moveaxis(pairwise.reshape(-1, *pairwise.shape[-3:]), 0, -1)
    if lengths is not None:
        lengths = jnp.broadcast_to(lengths, tuple(batch)).reshape(-1)
    return unary, pairwise, lengths


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _log_partition(kernel: Kernel, unary: Array, pairwise: Array, lengths: Array | None) -> Array:
    return _tree(unary, pairwise, lengths) if kernel == "tree" else _scan_posterior(
        unary, pairwise, lengths
    )[0]


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


def _scan_posterior(
    unary: Array, pairwise: Array, lengths: Array | None
) -> tuple[Array, Array, Array]:
    """log Z (B), node marginals (T, K, B), edge marginals like `pairwise` (summed if shared)."""
    if unary.shape[0] == 1:
        value = logsumexp(unary[0], 0)
        nodes = jnp.exp(unary - jnp.where(value > -jnp.inf, value, 0.0))
        return value, nodes, jnp.zeros_like(pairwise)
    return lax.cond(
        _cannot_underflow(unary, pairwise), _scaled_posterior, _log_posterior, unary, pairwise, lengths
    )


def _cannot_underflow(unary: Array, pairwise: Array) -> Array:
    """Whether scaled probabilities stay in range for every chain of the batch.

    If every transition is possible, then at each step any state has a share of the mass of at least
    exp(-(range of the pairwise) - (range of the unary at this step)) / K.
    """
    highest = jnp.max(unary, 1)
    lowest = jnp.min(jnp.where(unary > -jnp.inf, unary, jnp.inf), 1)
    unary_range = jnp.max(highest - lowest)
    pairwise_range = jnp.max(jnp.max(pairwise, (1, 2)) - jnp.min(pairwise, (1, 2)))
    return unary_range + pairwise_range < _SAFE_RANGE  # false for nan and inf too


def _scaled_posterior(
    unary: Array, pairwise: Array, lengths: Array | None
) -> tuple[Array, Array, Array]:
    unary_peak = lax.stop_gradient(jnp.max(unary, 1))
    pairwise_peak = lax.stop_gradient(jnp.max(pairwise, (1, 2)))
    emission = jnp.exp(unary - unary_peak[:, None])
    transition = jnp.exp(pairwise - pairwise_peak[:, None, None])
    shared = pairwise.shape[0] == 1
    valid = _valid_steps(unary, lengths)
    later = None if valid is None else valid[1:]
    moves = None if shared else transition

    # Each loop carries and stores one array, nothing else: on a CPU every further output of a loop
    # body is another kernel launch per step, dearer than computing it again outside, vectorised.
    def forward(filtered, inputs):  # type: ignore[no-untyped-def]
        emit, keep, move = inputs
        move = transition[0] if shared else move
        new = jnp.sum(filtered[:, None] * move, 0) * emit
        new = new / jnp.sum(new, 0)
        return new if keep is None else jnp.where(keep, new, filtered), filtered

    def backward(message, inputs):  # type: ignore[no-untyped-def]
        emit, keep, move = inputs
        move = transition[0] if shared else move
        new = jnp.sum(move * (emit * message)[None], 1)
        new = new / jnp.sum(new, 0)
        return new if keep is None else jnp.where(keep, new, message), message

    first = jnp.sum(emission[0], 0)
    inputs = (emission[1:], later, moves)
    last, filtered = lax.scan(forward, emission[0] / first, inputs)
    start, messages = lax.scan(backward, jnp.ones_like(last), inputs, reverse=True)

    nodes = jnp.concatenate([filtered, last[None]]) * jnp.concatenate([start[None], messages])
    nodes = nodes / jnp.sum(nodes, 1, keepdims=True)
    ahead = emission[1:] * messages
    predicted = jnp.sum(filtered[:, :, None] * transition, 1)
    joint = filtered[:, :, None] * (ahead / jnp.sum(predicted * ahead, 1, keepdims=True))[:, None]
    scales = jnp.log(jnp.sum(predicted * emission[1:], 1)) + unary_peak[1:] + pairwise_peak
    if valid is not None:
        nodes = nodes * valid[:, None]
        joint = jnp.where(later[:, None, None], joint, 0.0)
        scales = jnp.where(later, scales, 0.0)
    edges = transition * (jnp.sum(joint, 0, keepdims=True) if shared else joint)
    value = jnp.log(first) + unary_peak[0] + jnp.sum(scales, 0)
    return value, nodes, edges


def _log_posterior(
    unary: Array, pairwise: Array, lengths: Array | None
) -> tuple[Array, Array, Array]:
    shared = pairwise.shape[0] == 1
    valid = _valid_steps(unary, lengths)

    def forward(state, inputs):  # type: ignore[no-untyped-def]
        emit, keep, move = inputs
        move = pairwise[0] if shared else move
        new = logsumexp(state[:, None] + move, 0) + emit
        new = new if keep is None else jnp.where(keep, new, state)
        return new, new

    def backward(message, inputs):  # type: ignore[no-untyped-def]
        emit, keep, move = inputs
        move = pairwise[0] if shared else move
        new = logsumexp(move + (emit + message)[None], 1)
        new = new if keep is None else jnp.where(keep, new, message)
        return new, message

    later = None if valid is None else valid[1:]
    inputs = (unary[1:], later, None if shared else pairwise)
    last, ahead = lax.scan(forward, unary[0], inputs)
    ahead = jnp.concatenate([unary[:1], ahead])
    first, behind = lax.scan(backward, jnp.zeros_like(last), inputs, reverse=True)
    behind = jnp.concatenate([first[None], behind])

    value = logsumexp(last, 0)
    norm = jnp.where(value > -jnp.inf, value, 0.0)
    nodes = jnp.exp(ahead + behind - norm)
    edges = jnp.exp(
        ahead[:-1, :, None] + pairwise + (unary[1:] + behind[1:])[:, None] - norm
    )
    if valid is not None:
        nodes = nodes * valid[:, None]
        edges = edges * later[:, None, None]
    return value, nodes, jnp.sum(edges, 0, keepdims=True) if shared else edges


def _valid_steps(unary: Array, lengths: Array | None) -> Array | None:
    if lengths is None:
        return None
    return jnp.arange(unary.shape[0])[:, None] < lengths


# --- tree -----------------------------------------------------------------------------------------


def _tree(unary: Array, pairwise: Array, lengths: Array | None) -> Array:
    """log Z by log2(T) rounds of products of neighbouring K x K matrices, in log space."""
    steps, states, batch = unary.shape
    identity = jnp.where(jnp.eye(states, dtype=bool), 0.0, -jnp.inf)[None, :, :, None]
    links = jnp.broadcast_to(
        pairwise + unary[1:, None], (steps - 1, states, states, batch)
    )
    valid = _valid_steps(unary, lengths)
    if valid is not None:
        links = jnp.where(valid[1:, None, None], links, identity)
    while links.shape[0] > 1:
        if links.shape[0] % 2:
            links = jnp.concatenate([links, jnp.broadcast_to(identity, links[:1].shape)])
        links = logsumexp(links[::2, :, :, None] + links[1::2, None], 2)
    ends = unary[0] if steps == 1 else logsumexp(unary[0][:, None] + links[0], 0)
    return logsumexp(ends, 0)
