"""Messages of one fold in logarithms, exact whatever the potentials, and what follows from them.

Conditional probabilities, derivatives, the best path. Arrays as in `native_chain`, without lanes.
Entries are assigned one by one: Numba takes long to compile an assignment of rows.
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
def log_messages(rows, index, weights, initial, moves, links, starts, ahead, behind):  # type: ignore[no-untyped-def]
    """Logarithms of forward and backward messages, (T, K) each, of one fold.

    Args:
        rows, index, weights: log densities (R, K), the row of each step (T,) and any weights (T,); zero
            deletes even an impossible emission.
        initial, moves, starts: as above, without the last axis and as logarithms.
        links: (T,) any weights; zero deletes even an impossible transition.
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
                    ahead[t, j] = _power(links[t], first[j])
                else:
                    for i in range(states):
                        terms[i] = ahead[t - 1, i] + _power(links[t], move[i, j])
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
                    terms[j] = _power(links[t], move[i, j]) + emitted[j]
                behind[t - 1, i] = _log_sum(terms)


@compiled
def reached(ahead, initial, moves, starts, found):  # type: ignore[no-untyped-def]
    """found (T, K): logarithms of what reaches a step from before it, without its own emission."""
    states = ahead.shape[1]
    terms = np.empty(states)
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        for j in range(states):
            found[begin, j] = initial[n if len(initial) > 1 else 0, j]
        for t in range(begin + 1, end):
            move = moves[t if len(moves) > 1 else 0]
            for j in range(states):
                for i in range(states):
                    terms[i] = ahead[t - 1, i] + move[i, j]
                found[t, j] = _log_sum(terms)


@compiled
def conditionals(  # type: ignore[no-untyped-def]
    rows, index, weights, moves, links, starts, ahead, behind, nodes, back, onward, values
):  # fmt: skip
    """What follows from messages: p(z_t = k) (T, K), p(z_t-1 = i | z_t = j, x_1 .. x_t) and
    p(z_t = j | z_t-1 = i, x_t ..) (T, K, K), zero where the condition is impossible and at first steps,
    and log Z (N,)."""
    states = ahead.shape[1]
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        values[n] = _log_sum(ahead[end - 1])
        for t in range(begin, end):
            for j in range(states):
                nodes[t, j] = ahead[t, j] + behind[t, j]
            _normalise(nodes[t])
            if t == begin:
                back[t] = 0.0
                onward[t] = 0.0
                continue
            move = moves[t if len(moves) > 1 else 0]
            for j in range(states):
                emitted = weights[t] * rows[index[t], j] if weights[t] != 0.0 else 0.0
                for i in range(states):
                    moved = _power(links[t], move[i, j]) + emitted
                    back[t, i, j] = ahead[t - 1, i] + moved
                    onward[t, i, j] = moved + behind[t, j]
            for i in range(states):
                _normalise(back[t, :, i])
                _normalise(onward[t, i])


@inlined
def _power(weight, logarithm):  # type: ignore[no-untyped-def]
    """Zero deletes a term, even minus infinity."""
    return weight * logarithm if weight != 0.0 else 0.0


@inlined
def _normalise(logs):  # type: ignore[no-untyped-def]
    """Logarithms to probabilities; zeros where nothing is possible. By differences from the largest: a
    total that was found elsewhere is off by its rounding, which for large counts is much."""
    peak, total = logs[0], 0.0
    for log in logs:
        peak = max(peak, log)
    for j in range(len(logs)):
        logs[j] = np.exp(logs[j] - peak) if peak > -np.inf else 0.0
        total += logs[j]
    if total > 0.0:
        for j in range(len(logs)):
            logs[j] /= total


@inlined
def _spans(d_moves):  # type: ignore[no-untyped-def]
    """(K, 2) from which direction until before which one transitions out of each state have derivatives:
    a few, where directions are coordinates."""
    states, count = d_moves.shape[1], d_moves.shape[3]
    spans = np.zeros((states, 2), np.int64)
    for i in range(states):
        begin, end = count, 0
        for m in range(count):
            used = len(d_moves) > 1
            for j in range(states):
                used = used or d_moves[0, i, j, m] != 0.0
            if used:
                begin, end = min(begin, m), m + 1
        spans[i, 0], spans[i, 1] = begin, end
    return spans


@inlined
def _reach(n, starts, back, d_emission, d_initial, d_moves, links, spans, reach):  # type: ignore[no-untyped-def]
    """Derivatives of log p(z_t = k, x_1 .. x_t) of the sequence n."""
    states, count = reach.shape[1], reach.shape[2]
    begin, first = starts[n], n if len(d_initial) > 1 else 0
    for j in range(states):
        for m in range(count):
            reach[begin, j, m] = links[begin] * d_initial[first, j, m] + d_emission[begin, j, m]
    for t in range(begin + 1, starts[n + 1]):
        d_move = d_moves[t if len(d_moves) > 1 else 0]
        for j in range(states):
            for m in range(count):
                reach[t, j, m] = d_emission[t, j, m]
            for i in range(states):
                share = back[t, i, j]
                for m in range(count):
                    reach[t, j, m] += share * reach[t - 1, i, m]
                for m in range(spans[i, 0], spans[i, 1]):
                    reach[t, j, m] += share * links[t] * d_move[i, j, m]


@compiled
def prefix_tangents(  # type: ignore[no-untyped-def]
    filtered, back, d_emission, d_initial, d_moves, links, starts, reach, d_values
):  # fmt: skip
    """d_values (T, M): derivatives of log p(x_1 .. x_t); arguments as for `tangents`, and p(z_t | x_1 ..
    x_t) (T, K); `reach` is of any content."""
    states, count, spans = reach.shape[1], reach.shape[2], _spans(d_moves)
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        _reach(n, starts, back, d_emission, d_initial, d_moves, links, spans, reach)
        for t in range(begin, end):
            for m in range(count):
                d_values[t, m] = 0.0
            for j in range(states):
                for m in range(count):
                    d_values[t, m] += filtered[t, j] * reach[t, j, m]


@compiled
def tangents(  # type: ignore[no-untyped-def]
    nodes, back, onward, d_emission, d_initial, d_moves, moves, links, starts, coefficients, factors,
    reach, d_firsts, d_pairs, d_links, d_values,
):  # fmt: skip
    """Derivatives along M directions of the logarithms of potentials, M in the last axis.

    The derivative of log p(z_t = k, x) is the mean of the derivatives of all potentials given z_t = k,
    which is found by one pass each way; it can neither underflow nor divide by zero.

    Args:
        nodes, back, onward: from `conditionals`.
        d_emission, d_initial, d_moves: (T, K, M), (1 or N, K, M) and (1 or T, K, K, M); the latter two
            before they are multiplied by links.
        moves: (1 or T, K, K) logarithms.
        links: (T,) weights of transitions into steps, of the initial distribution at first ones.
        starts, coefficients: (N + 1,), and (N,) weights of sequences in `d_firsts` and `d_pairs`.
        factors: (T, K), or (0, K).
        reach: out, (T, K, M) derivatives of log p(z_t = k, x); with factors, of log p(z_t = k | x) times
            these.
        d_firsts, d_pairs: out, like d_initial and d_moves: of expected first states and transitions
            times links, zero before.
        d_links: out, (T, M) or (0, M), zero before: of the expected log transition into each step, for
            fixed logarithms.
        d_values: out, (N, M) of log Z.
    """
    states, count, spans = reach.shape[1], reach.shape[2], _spans(d_moves)
    after, later = np.empty((states, count)), np.empty((states, count))
    mean, before = np.empty(count), np.empty(count)
    own_moves, with_links, scaled = len(d_moves) > 1, len(d_links) > 0, len(factors) > 0
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        _reach(n, starts, back, d_emission, d_initial, d_moves, links, spans, reach)
        for m in range(count):
            mean[m] = 0.0
        for j in range(states):
            for m in range(count):
                mean[m] += nodes[end - 1, j] * reach[end - 1, j, m]
                after[j, m] = 0.0
        for m in range(count):
            d_values[n, m] = mean[m]
        for t in range(end - 1, begin, -1):
            d_move = d_moves[t if own_moves else 0]
            d_pair = d_pairs[t if own_moves else 0]
            move = moves[t if len(moves) > 1 else 0]
            for j in range(states):
                factor = factors[t, j] if scaled else 1.0
                for m in range(count):
                    less = mean[m] if scaled else 0.0
                    reach[t, j, m] = factor * (reach[t, j, m] + after[j, m] - less)
                    after[j, m] += d_emission[t, j, m]
            for i in range(states):
                for m in range(count):
                    later[i, m] = 0.0
                    before[m] = reach[t - 1, i, m] - mean[m]
                for j in range(states):
                    share = onward[t, i, j]
                    both = nodes[t - 1, i] * share
                    scale = coefficients[n] * links[t] * both
                    for m in range(count):
                        later[i, m] += share * after[j, m]
                        d_pair[i, j, m] += scale * (before[m] + after[j, m])
                    for m in range(spans[i, 0], spans[i, 1]):
                        moved = links[t] * d_move[i, j, m]
                        later[i, m] += share * moved
                        d_pair[i, j, m] += scale * moved
                    if with_links and both > 0.0:
                        for m in range(count):
                            d_links[t, m] += both * move[i, j] * (before[m] + after[j, m])
                        for m in range(spans[i, 0], spans[i, 1]):
                            d_links[t, m] += both * move[i, j] * links[t] * d_move[i, j, m]
            for j in range(states):
                for m in range(count):
                    after[j, m] = later[j, m]
        d_first = d_firsts[n if len(d_firsts) > 1 else 0]
        for j in range(states):
            share = coefficients[n] * links[begin] * nodes[begin, j]
            factor = factors[begin, j] if scaled else 1.0
            for m in range(count):
                here = reach[begin, j, m] + after[j, m]
                d_first[j, m] += share * (here - mean[m])
                reach[begin, j, m] = factor * (here - mean[m]) if scaled else here


@compiled
def weighted_counts(filtered, back, sources, starts, nodes, pairs):  # type: ignore[no-untyped-def]
    """Sums over steps s of sources (T,) times what is expected given x_1 .. x_s.

    Args:
        filtered, back: (T, K) p(z_t | x_1 .. x_t), and as in `conditionals`.
        nodes, pairs: out, (T, K) and (T, K, K), zero at first steps: of states, and of transitions into
            each step.
    """
    states = filtered.shape[1]
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        for i in range(states):
            for j in range(states):
                pairs[begin, i, j] = 0.0
        for t in range(begin, end):
            for j in range(states):
                nodes[t, j] = sources[t] * filtered[t, j]
        for t in range(end - 1, begin, -1):
            for i in range(states):
                for j in range(states):
                    pairs[t, i, j] = back[t, i, j] * nodes[t, j]
                    nodes[t - 1, i] += pairs[t, i, j]


@compiled
def best_path(rows, index, moves, initial, starts, path):  # type: ignore[no-untyped-def]
    """The states (T,) with the largest total log-potential, of one fold; arguments as `log_messages`."""
    states = rows.shape[1]
    source = np.empty((len(path), states), np.int64)
    best, new = np.empty(states), np.empty(states)
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        for j in range(states):
            best[j] = initial[n if len(initial) > 1 else 0, j]
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
