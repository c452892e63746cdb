"""Features in compressed rows, times weights and the reverse, as plain loops that need no lock.

`indptr`, `indices` and `values` are rows of features (T, Q), or of their transpose.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.native import compiled


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
    indptr, indices, values, nodes, onward, coefficients, number, moves, least, found
):
    """Add to found (M, M) the covariances within steps of some counts, features by state and transitions
    into the step: the lower triangle.

    Args:
        nodes, onward: (T, K) and (T, K, K), see `native_labels.conditional_moves`; `nodes` has one more
            step in front.
        coefficients: (T,) how often each step counts.
        number, moves: (Q, K) and (K, K) the place of a count among the M, below zero for all others.
        least: steps whose state is certain but for this, and states as improbable, count for nothing.
    """
    states, most = nodes.shape[1], 0
    for t in range(len(coefficients)):
        most = max(most, indptr[t + 1] - indptr[t])
    most = (most + states) * states
    place, kind = np.empty(most, np.int64), np.empty(most, np.int64)
    share, weight = np.empty(most), np.empty(most)
    for t in range(len(coefficients)):
        certain = 0.0
        for k in range(states):
            certain += nodes[t + 1, k] * nodes[t + 1, k]
        if coefficients[t] == 0.0 or 1.0 - certain < least:
            continue
        count = 0
        for entry in range(indptr[t], indptr[t + 1]):
            for k in range(states):
                row = number[indices[entry], k]
                if row >= 0 and nodes[t + 1, k] > least:
                    place[count], kind[count], weight[count] = row, k, values[entry]
                    share[count] = values[entry] * nodes[t + 1, k]
                    count += 1
        features = count
        for i in range(states):
            for k in range(states):
                pair = nodes[t, i] * onward[t, i, k]
                if moves[i, k] >= 0 and pair > least:
                    place[count], kind[count], weight[count] = moves[i, k], k, 1.0
                    share[count] = pair
                    count += 1
        for first in range(count):
            row, own = place[first], coefficients[t] * share[first]
            for second in range(count):
                if place[second] <= row:
                    together = 0.0  # the mean of the second where the first is
                    if second < features:
                        together = weight[second] if kind[second] == kind[first] else 0.0
                    elif second == first:
                        together = 1.0
                    elif first < features and kind[second] == kind[first]:
                        together = share[second] / nodes[t + 1, kind[first]]
                    found[row, place[second]] += own * (together - share[second])
