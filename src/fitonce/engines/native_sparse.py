"""Features in compressed rows, times weights and the reverse, as plain loops that need no lock.

`indptr`, `indices` and `values` are rows of features (T, Q), or of their transpose.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.native import compiled, inlined


@compiled
def rows_times(indptr, indices, values, dense, first, last, found):  # type: ignore[no-untyped-def]
    """found (T, K): rows from the first on and before the last, times dense (Q, K)."""
    columns = dense.shape[1]
    for t in range(first, last):
        for k in range(columns):
            found[t, k] = 0.0
        for place in range(indptr[t], indptr[t + 1]):
            row, value = indices[place], values[place]
            for k in range(columns):
                found[t, k] += value * dense[row, k]


@compiled
def add_label_counts(indptr, indices, values, labels, coefficients, found):  # type: ignore[no-untyped-def]
    """Add to found (Q, K) the features of every step at its label, times coefficients (T,); labels below
    zero count for nothing."""
    for t in range(len(labels)):
        label, scale = labels[t], coefficients[t]
        if label >= 0 and scale != 0.0:
            for place in range(indptr[t], indptr[t + 1]):
                found[indices[place], label] += scale * values[place]


@compiled
def add_block(  # type: ignore[no-untyped-def]
    indptr, indices, values, nodes, onward, starts, coefficients, number, moves, least, found
):
    """Add to found (M, M) the covariances of some counts of chains, of features by state and of
    transitions: the lower triangle. See `native_label_covariance` for deviations.

    Args:
        nodes, onward, starts, coefficients: as there.
        number, moves: (Q, K) and (K, K) the place of a count among the M, below zero for all others.
        least: probabilities and covariances of states below this count for nothing.
    """
    states, longest, most = nodes.shape[1], 0, 0
    for n in range(len(starts) - 1):
        longest = max(longest, starts[n + 1] - starts[n])
        steps = starts[n + 1] - starts[n]
        most = max(most, (indptr[starts[n + 1]] - indptr[starts[n]] + steps * states) * states)
    first = np.empty(longest + 1, np.int64)
    place, state, origin = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    share, weight = np.empty(most), np.empty(most)
    before, now = np.empty((states, states)), np.empty((states, states))
    for n in range(len(starts) - 1):
        begin, end, count = starts[n], starts[n + 1], 0
        if coefficients[n] == 0.0:
            continue
        for t in range(begin, end):  # the counts of each step
            first[t - begin] = count
            if _certain(nodes[t], least):
                continue
            for entry in range(indptr[t], indptr[t + 1]):
                for k in range(states):
                    row = number[indices[entry], k]
                    if row >= 0 and nodes[t, k] > least:
                        place[count], state[count], origin[count] = row, k, -1
                        weight[count], share[count] = values[entry], values[entry] * nodes[t, k]
                        count += 1
            for i in range(states if t > begin else 0):
                for k in range(states):
                    pair = nodes[t - 1, i] * onward[t, i, k]
                    if moves[i, k] >= 0 and pair > least:
                        place[count], state[count], origin[count] = moves[i, k], k, i
                        weight[count], share[count] = onward[t, i, k], pair
                        count += 1
        first[end - begin] = count
        for s in range(begin, end):
            if first[s - begin] == first[s - begin + 1]:
                continue
            _within(
                first, place, state, origin, weight, share, s - begin, nodes[s], coefficients[n], found
            )
            for i in range(states):
                for j in range(states):
                    now[i, j] = (1.0 if i == j else 0.0) - nodes[s, j]
            for t in range(s + 1, end):
                before, now = now, before
                largest = 0.0
                for i in range(states):
                    for j in range(states):
                        total = 0.0
                        for k in range(states):
                            total += before[i, k] * onward[t, k, j]
                        now[i, j] = total
                        largest = max(largest, abs(nodes[s, i] * total))
                if largest < least:
                    break
                for one in range(first[s - begin], first[s - begin + 1]):
                    scale = coefficients[n] * share[one]
                    for other in range(first[t - begin], first[t - begin + 1]):
                        source = origin[other]
                        if source < 0:
                            mean = weight[other] * now[state[one], state[other]]
                        else:
                            mean = weight[other] * before[state[one], source]
                        row, column = place[one], place[other]
                        if row == column:
                            mean *= 2.0
                        found[max(row, column), min(row, column)] += scale * mean


@inlined
def _certain(node, least):  # type: ignore[no-untyped-def]
    """Whether the state of a step is all but known."""
    total = 0.0
    for share in node:
        total += share * share
    return 1.0 - total < least


@inlined
def _within(first, place, state, origin, weight, share, step, node, coefficient, found):  # type: ignore[no-untyped-def]
    """Add covariances of the counts of one step with each other."""
    for one in range(first[step], first[step + 1]):
        row, scale = place[one], coefficient * share[one]
        for other in range(first[step], first[step + 1]):
            if place[other] > row:
                continue
            mean = 0.0  # of the other where the one is
            if state[other] == state[one]:
                if origin[other] < 0:
                    mean = weight[other]
                elif origin[one] < 0:
                    mean = share[other] / node[state[one]]
                elif one == other:
                    mean = 1.0
            found[row, place[other]] += scale * (mean - share[other])
