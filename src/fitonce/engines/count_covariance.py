"""Covariances of sufficient statistics: the Hessian of log Z where potentials are linear.

With unary log-potentials features[t]' weights[:, k] and the same transitions at every step, the gradient
of log Z is the mean of the counts C = sum_t c_t, where c_t holds features[t] at the state of step t and
a one at the transition into it; the Hessian is their covariance. With V_t(j) the mean of all later
counts given z_t = j, from one backward pass,

    E[C C'] = sum_t E[c_t c_t'] + sum_t E[c_t V_t(z_t)'] + its transpose

so that the Hessian of many chains takes a few matrix products per step, where D tangents would take D
passes.
"""

from __future__ import annotations

from fitonce.core.deferred import jnp, lax
from fitonce.core.numerics import Array
from fitonce.engines import chain_groups as grouped


def count_covariance(
    unary: Array, pairwise: Array, lengths: Array, features: Array, coefficients: Array
) -> Array:
    """The sum over chains of coefficient times the covariance of their counts.

    Args:
        unary: (n, T, K).
        pairwise: (K, K).
        lengths: (n,).
        features: (n, T, Q), zero at padding.
        coefficients: (n,).

    Returns: (Q K + K K, Q K + K K), (feature, state) first and then transitions.
    """
    states, width = unary.shape[-1], features.shape[-1]
    nodes, moves = grouped.conditionals(unary, pairwise, lengths)
    along = jnp.moveaxis(features, 1, 0)  # (T, n, Q)
    scaled = along * coefficients[:, None]
    later = _with_later(nodes, moves, along, coefficients)
    edges = jnp.sum(nodes[:-1, :, None] * moves, 0)  # (K, K, n)
    counts = jnp.concatenate(
        [jnp.einsum("tnq,tkn->nkq", along, nodes).reshape(len(unary), -1),
         jnp.moveaxis(edges, -1, 0).reshape(len(unary), -1)], 1
    )  # fmt: skip
    same = jnp.einsum("tnq,tnr,tkn->kqr", scaled, along, nodes)
    own = jnp.einsum("kqr,kl->kqlr", same, jnp.eye(states)).reshape(width * states, -1)
    total = later + later.T - (counts * coefficients[:, None]).T @ counts
    total = total.at[: width * states, : width * states].add(own)
    diagonal = width * states + jnp.arange(states * states)
    total = total.at[diagonal, diagonal].add((edges @ coefficients).ravel())
    by_feature = jnp.arange(width * states).reshape(states, width).T.ravel()
    order = jnp.concatenate([by_feature, diagonal])
    return total[order][:, order]


def _with_later(nodes: Array, moves: Array, features: Array, coefficients: Array) -> Array:
    """sum_t E[c_t V_t(z_t)'], and the products of each transition with the features of its target step.

    Later counts have the state first, (K, n, K Q) for features and (K, n, K K) for transitions. Feature
    columns are (state, feature), so that the factors of matrix products are contiguous.
    """
    states, count = nodes.shape[1:]
    width = features.shape[-1]
    alike = jnp.eye(states)[:, None, :, None]

    def step(carry, inputs):  # type: ignore[no-untyped-def]
        later, sums, links = carry
        node, before, move, feature, weighted = inputs
        here = weighted[None] * node[:, :, None]  # (K, n, Q)
        sums = [s + jnp.einsum("knq,knd->kqd", here, v) for s, v in zip(sums, later, strict=True)]
        own = (alike * feature[None, :, None]).reshape(states, count, -1)
        with_own = (later[0] + own, later[1])
        into = jnp.moveaxis(move * (before * coefficients)[:, None], (0, 1, 2), (2, 0, 1))  # (j, n, i)
        links = [s + jnp.einsum("jni,jnd->jid", into, v) for s, v in zip(links, with_own, strict=True)]
        ways = move[..., None]  # (K, K, n, 1)
        by_feature, by_move = (sum(ways[:, j] * v[j] for j in range(states)) for v in with_own)
        moved = (alike * jnp.swapaxes(move, 1, 2)[:, :, None]).reshape(states, count, -1)
        return ((by_feature, by_move + moved), tuple(sums), tuple(links)), None

    inputs = (
        nodes,
        jnp.concatenate([jnp.zeros_like(nodes[:1]), nodes[:-1]]),
        jnp.concatenate([jnp.zeros((1, *moves.shape[1:])), moves]),
        features,
        features * coefficients[:, None],
    )
    sizes = (states * width, states * states)
    start = (
        tuple(jnp.zeros((states, count, size)) for size in sizes),
        tuple(jnp.zeros((states, width, size)) for size in sizes),
        tuple(jnp.zeros((states, states, size)) for size in sizes),
    )
    (_, sums, links), _ = lax.scan(step, start, inputs, reverse=True)
    from_features = jnp.concatenate([s.reshape(sizes[0], -1) for s in sums], 1)
    from_moves = jnp.concatenate([jnp.swapaxes(s, 0, 1).reshape(sizes[1], -1) for s in links], 1)
    return jnp.concatenate([from_features, from_moves])
