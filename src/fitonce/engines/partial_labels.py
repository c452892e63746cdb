"""The mean of log p(kept states) of a chain when each known state is kept at random.

Given two kept states, the chain between them is independent of the rest, so the logarithm is a sum over
stretches from one kept state to the next. Its mean is a sum over all (T + 1) T / 2 stretches, weighted
by the probability that both ends are kept and nothing in between. With probabilities of 0 and 1 it is
the log-partition function with the kept states fixed.
"""

from __future__ import annotations

from fitonce.core.deferred import jnp, lax
from fitonce.core.numerics import Array, logsumexp, scale_log


def mean_log_partition(
    unary: Array, pairwise: Array, lengths: Array, labels: Array, weights: Array
) -> Array:
    """(B,) mean log-partition functions.

    Args:
        unary: (B, T, K).
        pairwise: (B, K, K).
        lengths: (B,).
        labels, weights: (B, T) states (arbitrary where unknown) and the probability of keeping each.
    """
    batch, steps, _ = unary.shape
    # A stretch starts at a kept step, or before the first step (with probability 1).
    started = jnp.concatenate([jnp.ones((batch, 1)), weights], 1)
    row = jnp.arange(batch)[:, None]
    onward = jnp.concatenate([jnp.zeros_like(unary[:, :1]), pairwise[row, labels]], 1)

    def lag(carry, length):  # type: ignore[no-untyped-def]
        incoming, chance, total = carry
        place = jnp.arange(steps + 1)[None] + length
        inside = place < lengths[:, None]
        place = jnp.minimum(place, steps - 1)
        here = incoming + unary[row, place]
        kept = jnp.where(inside, weights[row, place], 0.0)
        state = jnp.take_along_axis(here, labels[row, place][..., None], 2)[..., 0]
        total += jnp.sum(scale_log(chance * kept, jnp.where(inside, state, 0.0)), 1)
        chance = jnp.where(inside, chance * (1.0 - kept), 0.0)
        at_end = place == lengths[:, None] - 1
        total += jnp.sum(scale_log(jnp.where(at_end, chance, 0.0), logsumexp(here, -1)), 1)
        chance = jnp.where(at_end, 0.0, chance)
        return (logsumexp(here[..., None] + pairwise[:, None], 2), chance, total), None

    (_, _, total), _ = lax.scan(lag, (onward, started, jnp.zeros(batch)), jnp.arange(steps))
    return total
