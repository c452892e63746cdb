"""Forward-backward passes over many chains that share their transitions, as plain loops.

The steps of all chains follow each other in one axis, `starts` (N + 1,) has their first steps. Nothing
is compiled for a shape: chains may have any lengths. `emission` (T, K) and `moves` (K, K) are
exponentials relative to the largest of each step and of all transitions.

Probabilities are normalised at every step. What underflows is less than the smallest number, but grows
in relation to the rest where that shrinks: `lost` bounds the growth, so that a chain in which it could
matter is recognised and done again in logarithms.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.native import compiled

_SMALLEST = 2.3e-308  # normal numbers are at least this; smaller ones have fewer digits


@compiled
def scaled_messages(emission, moves, starts, ahead, behind, inverses, lost):  # type: ignore[no-untyped-def]
    """Messages of all chains.

    Args:
        emission, moves, starts: see above.
        ahead: out, (T, K) p(z_t | x_1 .. x_t).
        behind: out, (T, K) p(x_t+1 .. | z_t) over that of x_t+1 .. given earlier steps.
        inverses: out, (T,) one over each normaliser; their product is 1 / Z, relative to the peaks.
        lost: out, (N,) bound of the relative error by underflow; not finite where a chain is impossible.
    """
    states = emission.shape[1]
    backward = np.ascontiguousarray(moves.T)
    message = np.empty(states)
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        share, worst = 0.0, 0.0
        for t in range(begin, end):
            if t == begin:
                for j in range(states):
                    ahead[t, j] = 1.0
            else:
                for j in range(states):
                    ahead[t, j] = 0.0
                for i in range(states):
                    before = ahead[t - 1, i]
                    for j in range(states):
                        ahead[t, j] += before * moves[i, j]
            total = 0.0
            for j in range(states):
                ahead[t, j] *= emission[t, j]
                total += ahead[t, j]
            inverses[t] = 1.0 / total
            for j in range(states):
                ahead[t, j] *= inverses[t]
            share = (share + states * _SMALLEST) * inverses[t]
            worst = max(worst, share)
        for j in range(states):
            behind[end - 1, j] = 1.0
        share = 0.0
        for t in range(end - 1, begin, -1):
            for j in range(states):
                message[j] = emission[t, j] * behind[t, j] * inverses[t]
                behind[t - 1, j] = 0.0
            for j in range(states):
                after = message[j]
                for i in range(states):
                    behind[t - 1, i] += backward[j, i] * after
            share = (share + states * _SMALLEST) * inverses[t]
            worst = max(worst, share)
            for i in range(states):  # so large only where the state is all but impossible
                if not behind[t - 1, i] < 1e300:
                    worst = np.inf
        lost[n] = worst if worst == worst else np.inf


@compiled
def pair_counts(emission, moves, starts, ahead, behind, inverses, coefficients, pairs):  # type: ignore[no-untyped-def]
    """pairs (1, K, K) or (N, K, K), zero before: expected transitions of all chains or of each, times
    coefficients (N,)."""
    states, each = emission.shape[1], len(pairs) > 1
    message = np.empty(states)
    for n in range(len(starts) - 1):
        if coefficients[n] == 0.0:
            continue
        found = pairs[n if each else 0]
        for t in range(starts[n] + 1, starts[n + 1]):
            scale = coefficients[n] * inverses[t]
            for j in range(states):
                message[j] = scale * emission[t, j] * behind[t, j]
            for i in range(states):
                before = ahead[t - 1, i]
                for j in range(states):
                    found[i, j] += before * message[j]
    for n in range(len(pairs)):  # so far without the transition itself
        for i in range(states):
            for j in range(states):
                pairs[n, i, j] *= moves[i, j]


@compiled
def conditional_moves(emission, moves, starts, ahead, behind, back, onward):  # type: ignore[no-untyped-def]
    """back (T, K, K): p(z_t-1 = i | z_t = j, x), onward (T, K, K): p(z_t = j | z_t-1 = i, x); zero at
    first steps and where the condition is impossible."""
    states = emission.shape[1]
    reached = np.empty(states)
    for n in range(len(starts) - 1):
        back[starts[n]] = 0.0
        onward[starts[n]] = 0.0
        for t in range(starts[n] + 1, starts[n + 1]):
            for j in range(states):
                reached[j] = 0.0
            for i in range(states):
                total = 0.0
                for j in range(states):
                    back[t, i, j] = ahead[t - 1, i] * moves[i, j]
                    reached[j] += back[t, i, j]
                    onward[t, i, j] = moves[i, j] * emission[t, j] * behind[t, j]
                    total += onward[t, i, j]
                scale = 1.0 / total if total > 0.0 else 0.0
                for j in range(states):
                    onward[t, i, j] *= scale
            for j in range(states):
                reached[j] = 1.0 / reached[j] if reached[j] > 0.0 else 0.0
            for i in range(states):
                for j in range(states):
                    back[t, i, j] *= reached[j]


@compiled
def tangent(nodes, back, onward, d_unary, d_moves, starts, coefficients, d_nodes, d_pairs):  # type: ignore[no-untyped-def]
    """Derivatives along one direction of the logarithms of potentials.

    The derivative of log p(z_t = k, x) is the mean of the derivatives of all potentials given z_t = k,
    which one pass each way finds without dividing; see `native_chain_logs.tangents`.

    Args:
        nodes, back, onward: (T, K) p(z_t) and (T, K, K) from `conditional_moves`.
        d_unary, d_moves: (T, K) and (K, K).
        starts, coefficients: (N + 1,), and (N,) weights of chains in `d_pairs`.
        d_nodes: out, (T, K) of p(z_t).
        d_pairs: out, (K, K), zero before: of expected transitions.
    """
    states = nodes.shape[1]
    after, later, ahead = np.empty(states), np.empty(states), np.empty(states)
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        for t in range(begin, end):
            for j in range(states):
                d_nodes[t, j] = d_unary[t, j]
            if t > begin:
                for i in range(states):
                    before = d_nodes[t - 1, i]
                    for j in range(states):
                        d_nodes[t, j] += back[t, i, j] * (before + d_moves[i, j])
        mean = 0.0
        for j in range(states):
            mean += nodes[end - 1, j] * d_nodes[end - 1, j]
            after[j] = 0.0
        for t in range(end - 1, begin - 1, -1):
            if t > begin:
                for i in range(states):
                    before, scale, total = (
                        d_nodes[t - 1, i] - mean,
                        coefficients[n] * nodes[t - 1, i],
                        0.0,
                    )
                    for j in range(states):
                        ahead[j] = d_moves[i, j] + d_unary[t, j] + after[j]
                        d_pairs[i, j] += scale * onward[t, i, j] * (before + ahead[j])
                    for j in range(states):
                        total += onward[t, i, j] * ahead[j]
                    later[i] = total
            for j in range(states):
                d_nodes[t, j] = nodes[t, j] * (d_nodes[t, j] + after[j] - mean)
                after[j] = later[j]


@compiled
def add_squares(indptr, indices, values, weights, found):  # type: ignore[no-untyped-def]
    """found (Q, Q, K), zero before: sums over steps of products of features, times weights (T, K)."""
    states = weights.shape[1]
    for t in range(len(weights)):
        for first in range(indptr[t], indptr[t + 1]):
            for second in range(indptr[t], indptr[t + 1]):
                scale = values[first] * values[second]
                block = found[indices[first], indices[second]]
                for k in range(states):
                    block[k] += scale * weights[t, k]


@compiled
def add_products(indptr, indices, values, chain, nodes, found):  # type: ignore[no-untyped-def]
    """found (N, Q, K), zero before: sums over the steps of each chain of features times nodes.

    Args:
        indptr, indices, values: features (T, Q) in compressed rows.
        chain: (T,) the chain of each step.
        nodes: (T, K).
    """
    states = nodes.shape[1]
    for t in range(len(chain)):
        for place in range(indptr[t], indptr[t + 1]):
            feature = indices[place]
            for k in range(states):
                found[chain[t], feature, k] += values[place] * nodes[t, k]
