"""Messages of one fold in logarithms, exact whatever the potentials, and what follows from them.

Conditional probabilities, derivatives, the best path. Arrays as in `native_chain`, without lanes.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.native import compiled, inlined


@inlined
def _log_sum(terms):  # type: ignore[no-untyped-def]
    """log sum exp of a vector; minus infinity where nothing is possible."""
    peak = terms[0]
    for term in terms:
        peak = max(peak, term)
    if not np.isfinite(peak):
        return peak
    total = 0.0
    for term in terms:
        total += np.exp(term - peak)
    return peak + np.log(total)


@compiled
def log_messages(rows, index, weights, initial, moves, starts, ahead, behind):  # type: ignore[no-untyped-def]
    """Logarithms of forward and backward messages, (T, K) each, of one fold.

    Args:
        rows, index, weights: log densities (R, K), the row of each step (T,) and any weights (T,); zero
            deletes even an impossible emission.
        initial, moves, starts: as above, without the last axis and as logarithms.
    """
    states = ahead.shape[1]
    terms, emitted = np.empty(states), np.empty(states)
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        first = initial[n if len(initial) > 1 else 0]
        for t in range(begin, end):
            move = moves[t if len(moves) > 1 else 0]
            for j in range(states):
                if t == begin:
                    ahead[t, j] = first[j]
                else:
                    for i in range(states):
                        terms[i] = ahead[t - 1, i] + move[i, j]
                    ahead[t, j] = _log_sum(terms)
                if weights[t] != 0.0:
                    ahead[t, j] += weights[t] * rows[index[t], j]
        behind[end - 1] = 0.0
        for t in range(end - 1, begin, -1):
            move = moves[t if len(moves) > 1 else 0]
            for j in range(states):
                emitted[j] = behind[t, j]
                if weights[t] != 0.0:
                    emitted[j] += weights[t] * rows[index[t], j]
            for i in range(states):
                for j in range(states):
                    terms[j] = move[i, j] + emitted[j]
                behind[t - 1, i] = _log_sum(terms)


@compiled
def reached(ahead, initial, moves, starts, found):  # type: ignore[no-untyped-def]
    """found (T, K): logarithms of what reaches a step from before it, without its own emission."""
    states = ahead.shape[1]
    terms = np.empty(states)
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        found[begin] = initial[n if len(initial) > 1 else 0]
        for t in range(begin + 1, end):
            move = moves[t if len(moves) > 1 else 0]
            for j in range(states):
                for i in range(states):
                    terms[i] = ahead[t - 1, i] + move[i, j]
                found[t, j] = _log_sum(terms)


@compiled
def conditionals(rows, index, weights, moves, starts, ahead, behind, nodes, back, onward, values):  # type: ignore[no-untyped-def]
    """What follows from messages: p(z_t = k) (T, K), p(z_t-1 = i | z_t = j, x_1 .. x_t) and
    p(z_t = j | z_t-1 = i, x_t ..) (T, K, K), zero where the condition is impossible and at first steps,
    and log Z (N,)."""
    states = ahead.shape[1]
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        values[n] = _log_sum(ahead[end - 1])
        for t in range(begin, end):
            for j in range(states):
                joint = ahead[t, j] + behind[t, j]
                nodes[t, j] = np.exp(joint - values[n]) if joint > -np.inf else 0.0
            if t == begin:
                back[t] = 0.0
                onward[t] = 0.0
                continue
            move = moves[t if len(moves) > 1 else 0]
            for j in range(states):
                emitted = weights[t] * rows[index[t], j] if weights[t] != 0.0 else 0.0
                for i in range(states):
                    back[t, i, j] = _share(ahead[t - 1, i] + move[i, j] + emitted, ahead[t, j])
                    onward[t, i, j] = _share(move[i, j] + emitted + behind[t, j], behind[t - 1, i])


@inlined
def _share(part, whole):  # type: ignore[no-untyped-def]
    return np.exp(part - whole) if part > -np.inf else 0.0


@compiled
def tangents(  # type: ignore[no-untyped-def]
    nodes, back, onward, d_emission, d_initial, d_moves, starts, coefficients, reach, d_pairs, d_values
):  # fmt: skip
    """Derivatives along M directions of the logarithms of potentials, M in the last axis.

    The derivative of log p(z_t = k, x) is the mean of the derivatives of all potentials given z_t = k,
    which is found by one pass each way; it can neither underflow nor divide by zero.

    Args:
        nodes, back, onward: from `conditionals`.
        d_emission, d_initial, d_moves: (T, K, M), (1 or N, K, M) and (1 or T, K, K, M).
        starts, coefficients: (N + 1,), and (N,) weights of sequences in `d_pairs`.
        reach: out, (T, K, M) derivatives of log p(z_t = k, x).
        d_pairs: out, like d_moves: of expected transitions, zero before.
        d_values: out, (N, M) of log Z.
    """
    states, count = reach.shape[1], reach.shape[2]
    after, later = np.empty((states, count)), np.empty((states, count))
    mean = np.empty(count)
    own_moves = len(d_moves) > 1
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        reach[begin] = d_initial[n if len(d_initial) > 1 else 0] + d_emission[begin]
        for t in range(begin + 1, end):
            d_move = d_moves[t if own_moves else 0]
            for j in range(states):
                for m in range(count):
                    reach[t, j, m] = d_emission[t, j, m]
                for i in range(states):
                    share = back[t, i, j]
                    for m in range(count):
                        reach[t, j, m] += share * (reach[t - 1, i, m] + d_move[i, j, m])
        mean[:] = 0.0
        for j in range(states):
            for m in range(count):
                mean[m] += nodes[end - 1, j] * reach[end - 1, j, m]
        d_values[n] = mean
        after[:] = 0.0
        for t in range(end - 1, begin, -1):
            d_move = d_moves[t if own_moves else 0]
            d_pair = d_pairs[t if own_moves else 0]
            for i in range(states):
                later[i] = 0.0
                for j in range(states):
                    share = onward[t, i, j]
                    scale = coefficients[n] * nodes[t - 1, i] * share
                    for m in range(count):
                        ahead = d_move[i, j, m] + d_emission[t, j, m] + after[j, m]
                        later[i, m] += share * ahead
                        d_pair[i, j, m] += scale * (reach[t - 1, i, m] + ahead - mean[m])
            for j in range(states):
                for m in range(count):
                    reach[t, j, m] += after[j, m]
                    after[j, m] = later[j, m]
        for j in range(states):
            for m in range(count):
                reach[begin, j, m] += after[j, m]


@compiled
def best_path(rows, index, moves, initial, starts, path):  # type: ignore[no-untyped-def]
    """The states (T,) with the largest total log-potential, of one fold; arguments as `log_messages`."""
    states = rows.shape[1]
    source = np.empty((len(path), states), np.int64)
    best, new = np.empty(states), np.empty(states)
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        best[:] = initial[n if len(initial) > 1 else 0]
        for t in range(begin, end):
            move = moves[t if len(moves) > 1 else 0]
            for j in range(states):
                new[j] = best[j]
                if t > begin:
                    source[t, j] = 0
                    new[j] = -np.inf
                    for i in range(states):
                        if best[i] + move[i, j] > new[j]:
                            new[j] = best[i] + move[i, j]
                            source[t, j] = i
            for j in range(states):
                best[j] = new[j] + rows[index[t], j]
        path[end - 1] = np.argmax(best)
        for t in range(end - 1, begin, -1):
            path[t - 1] = source[t, path[t]]
