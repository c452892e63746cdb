"""Chains by a balanced tree of matrix products: log2(T) rounds, for highly parallel devices."""

from __future__ import annotations

from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array, logsumexp
from fitonce.engines.chain_scan import valid_steps


def log_partition(unary: Array, pairwise: Array, lengths: Array | None) -> Array:
    """log Z by log2(T) rounds of products of neighbouring K x K matrices, in log space."""
    steps, states, batch = unary.shape
    identity = jnp.where(jnp.eye(states, dtype=bool), 0.0, -jnp.inf)[None, :, :, None]
    links = jnp.broadcast_to(pairwise + unary[1:, None], (steps - 1, states, states, batch))
    valid = valid_steps(unary, lengths, 1)
    if valid is not None:
        links = jnp.where(valid[:, None, None], links, identity)
    while links.shape[0] > 1:
        if links.shape[0] % 2:
            links = jnp.concatenate([links, jnp.broadcast_to(identity, links[:1].shape)])
        links = logsumexp(links[::2, :, :, None] + links[1::2, None], 2)
    ends = unary[0] if steps == 1 else logsumexp(unary[0][:, None] + links[0], 0)
    return logsumexp(ends, 0)
