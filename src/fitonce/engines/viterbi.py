"""The most probable state sequence of a chain (Viterbi)."""

from __future__ import annotations

from fitonce.core.deferred import jnp, lax
from fitonce.core.numerics import Array
from fitonce.engines.chain_scan import valid_steps


def best_path(unary: Array, pairwise: Array, lengths: Array | None) -> tuple[Array, Array]:
    """States (T, B), the last one repeated over padding, and their total log-potential (B,)."""
    _, states, batch = unary.shape
    shared = pairwise.shape[0] == 1
    stay = jnp.broadcast_to(jnp.arange(states)[:, None], (states, batch))

    def forward(best, inputs):  # type: ignore[no-untyped-def]
        emit, keep, move = inputs
        reached = best[:, None] + (pairwise[0] if shared else move)
        new, origin = jnp.max(reached, 0) + emit, jnp.argmax(reached, 0)
        if keep is not None:
            new, origin = jnp.where(keep, new, best), jnp.where(keep, origin, stay)
        return new, origin

    inputs = (unary[1:], valid_steps(unary, lengths, 1), None if shared else pairwise)
    best, origins = lax.scan(forward, unary[0], inputs)
    last = jnp.argmax(best, 0)

    def backward(state, origin):  # type: ignore[no-untyped-def]
        before = jnp.take_along_axis(origin, state[None], 0)[0]
        return before, before

    _, path = lax.scan(backward, last, origins, reverse=True)
    return jnp.concatenate([path, last[None]]), jnp.max(best, 0)
