"""Log-partition and posterior marginals of chains, by a scan over time or by a balanced tree.

A chain of T steps with K states has unary log-potentials (T, K) and pairwise log-potentials
(K, K), the same at every step, or (T - 1, K, K); `pairwise[i, j]` is for state i now, j next:

    log Z = log sum_z exp( sum_t unary[t, z_t] + sum_t pairwise[t, z_t, z_t+1] )

All functions take leading batch axes (folds, sequences) and `lengths` for padded sequences.
Internally the batch is the last axis, so that a step over many folds is one vector operation.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from fitonce.core.deferred import custom_jvp, jax, jnp, lax
from fitonce.core.numerics import Array, logsumexp, safe_log
from fitonce.engines import chain_scan as scan
from fitonce.engines import chain_tree as tree
from fitonce.engines import viterbi

Kernel = Literal["scan", "tree"]
KERNELS = ("scan", "tree")
_TINY = 1e-250  # smaller sums may have lost terms to underflow
_MANY_STATES = 6  # measured with 100 sequences on 2 cores: as fast at 2 and 3, 4 times faster at 16


def default_kernel() -> Kernel:
    """The fastest kernel on this backend: the scan on a CPU, the tree elsewhere."""
    return "scan" if jax.default_backend() == "cpu" else "tree"


def shares_products(unary: Array, coefficient: Array, kernel: Kernel | None) -> bool:
    """Whether `chain_groups` is the faster engine for unary potentials (F, N, T, K): it needs whole
    chains (coefficient (F, N)), several sequences and enough states for matrix products to pay."""
    _, sequences, steps, states = unary.shape
    scans_whole = coefficient.ndim == 2 and (kernel or default_kernel()) == "scan"
    return scans_whole and steps > 1 and states >= _MANY_STATES and sequences > 1


def log_partition(
    unary: Array, pairwise: Array, lengths: Array | None = None, kernel: Kernel | None = None
) -> Array:
    """log Z of each chain of the batch.

    Args:
        unary: (..., T, K).
        pairwise: (..., K, K) or (..., T - 1, K, K), batch axes broadcast against unary's; an array
            with as many axes as `unary` is taken to be the same at every step.
        lengths: (...) integers; steps from `lengths` on are padding. None: all T steps.
        kernel: "scan", "tree" or None for the backend's default.

    Returns: (...), -inf where no path is possible.
    """
    value = _log_partition(kernel or default_kernel(), *_flatten(unary, pairwise, lengths))
    return value.reshape(unary.shape[:-2])


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
        at: (F, M) indices into the flattened (N * T) grid of unary (F, N, T, K). Only these marginals
            are returned, (F, M, K), which is much cheaper when there are few.
    """
    flat = _flatten(unary, pairwise, lengths)
    if (kernel or default_kernel()) == "tree":
        nodes = jax.grad(lambda u: jnp.sum(tree.log_partition(u, *flat[1:])))(flat[0])
    elif at is not None and unary.shape[-2] > 1:
        return scan.nodes_at(*flat, _times_and_lanes(unary, at))
    else:
        _, nodes, _ = scan.posterior(*flat)
    nodes = _unflatten(nodes, unary.shape)
    return nodes if at is None else _chosen(nodes, at)


def _times_and_lanes(unary: Array, at: Array) -> tuple[Array, Array]:
    rows, steps = unary.shape[-3:-1]
    return at % steps, jnp.arange(unary.shape[0])[:, None] * rows + at // steps


def _chosen(nodes: Array, at: Array) -> Array:
    """(F, M, K) of (F, N, T, K)."""
    return jnp.take_along_axis(nodes.reshape(nodes.shape[0], -1, nodes.shape[-1]), at[..., None], 1)


def held_out_losses(
    unary: Array,
    pairwise: Array,
    lengths: Array | None,
    kernel: Kernel | None,
    emission: Array,
    at: Array,
) -> Array:
    """(F, M): -log sum_k p(z = k) exp(emission) at the steps `at` (F, M), see `marginals`, of log
    densities emission (F, M, K). States count however improbable they are: a step may be likelier in
    one of them than in all others by more than a float holds."""
    if (kernel or default_kernel()) == "scan" and unary.shape[-2] > 1:
        places = _times_and_lanes(unary, at)
        states = scan.nodes_at(*_flatten(unary, pairwise, lengths), places, logarithms=True)
        return -logsumexp(states + emission, -1)
    nodes = marginals(unary, pairwise, lengths, kernel, at=at)

    def by_logarithms() -> Array:
        states = _chosen(log_marginals(unary, pairwise, lengths), at)
        return -logsumexp(states + emission, -1)

    peak = jnp.max(emission, -1, keepdims=True)
    sure = jnp.all(jnp.sum(nodes * jnp.exp(emission - peak), -1) > _TINY)  # false for what is no number
    return lax.cond(sure, lambda: -logsumexp(safe_log(nodes) + emission, -1), by_logarithms)


def increments(unary: Array, pairwise: Array, lengths: Array | None = None) -> Array:
    """log p(x_t | x_<t), (..., T): the increments of log Z, zero on padding.

    Only for potentials whose latent part is normalised, so that later steps have no influence. Always
    by the scan: the tree has no prefixes.
    """
    return _unflatten(scan.increments(*_flatten(unary, pairwise, lengths)), unary.shape[:-1])


def leave_one_out(
    emission: Array, initial: Array, pairwise: Array, lengths: Array | None = None
) -> Array:
    """log p(x_t | x_-t) for every t, (..., T): each observation given all others of its chain.

    Args:
        emission: (..., T, K), zero where missing.
        initial: (..., K).
        pairwise, lengths: as for `log_partition`.
    """
    unary = emission.at[..., 0, :].add(initial)
    flat = _flatten(unary, pairwise, lengths)
    emitted, _, _ = _flatten(emission, pairwise, lengths)
    first = jnp.moveaxis(jnp.broadcast_to(initial, unary[..., 0, :].shape), -1, 0)
    first = first.reshape(1, unary.shape[-1], -1)
    return _unflatten(scan.leave_one_out(*flat, emitted, first), unary.shape[:-1])


def log_posterior(
    unary: Array, pairwise: Array, lengths: Array | None = None
) -> tuple[Array, Array, Array]:
    """log Z (...), p(z_t) (..., T, K) and expected transition counts (..., K, K) of chains with the same
    transitions at every step, in log space throughout."""
    value, nodes, edges = scan.log_posterior(*_flatten(unary, pairwise, lengths))
    batch, states = unary.shape[:-2], unary.shape[-1]
    moves = _unflatten(edges[0], (*batch, states, states))
    return value.reshape(batch), _unflatten(nodes, unary.shape), moves


def log_marginals(unary: Array, pairwise: Array, lengths: Array | None = None) -> Array:
    """log p(z_t = k), (..., T, K), in log space throughout: exact where probabilities underflow."""
    return _unflatten(scan.log_nodes(*_flatten(unary, pairwise, lengths)), unary.shape)


def best_path(unary: Array, pairwise: Array, lengths: Array | None = None) -> tuple[Array, Array]:
    """The states (..., T) with the largest total log-potential, and that total (...)."""
    states, values = viterbi.best_path(*_flatten(unary, pairwise, lengths))
    return _unflatten(states, unary.shape[:-1]), values.reshape(unary.shape[:-2])


def _flatten(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array, Array | None]:
    """Unary (T, K, B), pairwise (1 or T - 1, K, K, B) and lengths (B,)."""
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


def _unflatten(array: Array, shape: tuple[int, ...]) -> Array:
    """Inverse of `_flatten` for one array with the batch last."""
    return jnp.moveaxis(array, -1, 0).reshape(shape)


@partial(custom_jvp, nondiff_argnums=(0,))
def _log_partition(kernel: Kernel, unary: Array, pairwise: Array, lengths: Array | None) -> Array:
    if kernel == "tree":
        return tree.log_partition(unary, pairwise, lengths)
    return scan.posterior(unary, pairwise, lengths)[0]


@_log_partition.defjvp
def _log_partition_jvp(kernel, primals, tangents):  # type: ignore[no-untyped-def]
    """d log Z = sum of marginals times tangents; differentiating the marginals gives d2 log Z."""
    unary, pairwise, lengths = primals
    d_unary, d_pairwise, _ = tangents
    if kernel == "tree":
        by_tree = lambda u, p: tree.log_partition(u, p, lengths)  # noqa: E731
        return jax.jvp(by_tree, (unary, pairwise), (d_unary, d_pairwise))
    value, nodes, edges = scan.posterior(unary, pairwise, lengths)
    return value, jnp.sum(nodes * d_unary, (0, 1)) + jnp.sum(edges * d_pairwise, (0, 1, 2))
