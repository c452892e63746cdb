"""Covariances of counts of chains, as plain loops: the Hessian of log Z where potentials are linear.

What `count_covariance` does for padded arrays, for chains of any lengths. Counts of a chain are features
of each step at its state, and transitions. With P_t(i, j) = p(z_t = j | z_t-1 = i, x), all covariances
follow from deviations p(z_s = j | z_t = i) - p(z_s = j) = (I - 1 p_t') P_t+1 ... P_s, which are passed
on from step to step and never the difference of large numbers.

Arrays as in `native_labels`; `nodes` (T, K) and `onward` (T, K, K) are p_t and P_t, `coefficients` (N,)
multiply each chain.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.native import compiled, inlined

_NEGLIGIBLE = 1e-20  # a covariance between two steps: there are fewer than 1e10 such terms


@compiled
def with_transitions(nodes, onward, starts, coefficients, found, moved):  # type: ignore[no-untyped-def]
    """Covariances with transition counts.

    Args:
        found: out, (T, K, K K) of each state of each step with the counts of its chain, not multiplied
            by the coefficient.
        moved: out, (K K, K K), zero before: of the counts with each other, summed over chains; the whole
            is this and its transpose.
    """
    states = nodes.shape[1]
    square = states * states
    later, new = np.empty((states, square)), np.empty((states, square))
    past, mean = np.empty((states, square)), np.empty(square)
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        later[:] = 0.0
        for t in range(end - 1, begin - 1, -1):
            if t + 1 < end:
                _later(nodes[t], onward[t + 1], later, new, mean)
                later, new = new, later
            for i in range(states):
                for m in range(square):
                    found[t, i, m] = nodes[t, i] * later[i, m]
            if t > begin:
                _with_each_other(nodes[t - 1], onward[t], later, coefficients[n], mean, moved)
        past[:] = 0.0
        for t in range(begin + 1, end):
            _past(nodes[t - 1], nodes[t], onward[t], past, new)
            past, new = new, past
            for i in range(states):
                for m in range(square):
                    found[t, i, m] += past[i, m]


@inlined
def _later(node, move, later, new, mean):  # type: ignore[no-untyped-def]
    """new (K, K K): the mean of all later transition counts given the state of a step, less their mean;
    from that of the next step."""
    states = len(node)
    mean[:] = 0.0
    for i in range(states):
        new[i] = 0.0
        for j in range(states):
            share = move[i, j]
            for m in range(states * states):
                new[i, m] += share * later[j, m]
            new[i, i * states + j] += share
        for m in range(states * states):
            mean[m] += node[i] * new[i, m]
    for i in range(states):
        for m in range(states * states):
            new[i, m] -= mean[m]


@inlined
def _with_each_other(before, move, later, coefficient, pairs, moved):  # type: ignore[no-untyped-def]
    """Add the covariances of a transition with itself (half of them) and with all later ones."""
    states = len(before)
    for a in range(states):
        for b in range(states):
            pairs[a * states + b] = before[a] * move[a, b]
    for row in range(states * states):
        pair, into = coefficient * pairs[row], row % states
        if pair != 0.0:
            for m in range(states * states):
                moved[row, m] += pair * (later[into, m] - 0.5 * pairs[m])
            moved[row, row] += 0.5 * pair


@inlined
def _past(before, node, move, past, new):  # type: ignore[no-untyped-def]
    """new (K, K K): covariances of the states of a step with the transitions up to it; from those of the
    step before."""
    states = len(node)
    new[:] = 0.0
    for k in range(states):
        for i in range(states):
            share = move[k, i]
            for m in range(states * states):
                new[i, m] += share * past[k, m]
    for a in range(states):
        for b in range(states):
            pair = before[a] * move[a, b]
            for i in range(states):
                new[i, a * states + b] -= pair * node[i]
            new[b, a * states + b] += pair


@compiled
def with_features(features, nodes, onward, starts, found):  # type: ignore[no-untyped-def]
    """found (K, T, K Q): covariances of each state of each step with the sums of features (T, Q) at each
    state over its chain."""
    states, width = nodes.shape[1], features.shape[1]
    later, new = np.empty((states, states * width)), np.empty((states, states * width))
    mean = np.empty(states * width)
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        later[:] = 0.0
        for t in range(end - 1, begin - 1, -1):
            if t + 1 < end:
                _later_features(features[t + 1], nodes[t], onward[t + 1], later, new, mean)
                later, new = new, later
            for i in range(states):
                for m in range(states * width):
                    found[i, t, m] = nodes[t, i] * later[i, m]
        new[:] = 0.0
        for t in range(begin, end):
            later[:] = 0.0
            if t > begin:  # the covariances with all steps up to the one before
                for k in range(states):
                    for i in range(states):
                        share = onward[t, k, i]
                        for m in range(states * width):
                            later[i, m] += share * new[k, m]
            for i in range(states):
                for j in range(states):
                    own = (nodes[t, i] if i == j else 0.0) - nodes[t, i] * nodes[t, j]
                    for q in range(width):
                        later[i, j * width + q] += own * features[t, q]
                for m in range(states * width):
                    found[i, t, m] += later[i, m]
            later, new = new, later


@inlined
def _later_features(feature, node, move, later, new, mean):  # type: ignore[no-untyped-def]
    """As `_later`, of sums of features."""
    states, width = len(node), len(feature)
    mean[:] = 0.0
    for i in range(states):
        new[i] = 0.0
        for j in range(states):
            share = move[i, j]
            for m in range(states * width):
                new[i, m] += share * later[j, m]
            for q in range(width):
                new[i, j * width + q] += share * feature[q]
        for m in range(states * width):
            mean[m] += node[i] * new[i, m]
    for i in range(states):
        for m in range(states * width):
            new[i, m] -= mean[m]


@compiled
def of_sparse_features(indptr, indices, values, nodes, onward, starts, coefficients, found):  # type: ignore[no-untyped-def]
    """Add covariances of features in compressed rows to found (Q, Q, K K): those of a step with itself
    (half of them) and with later ones, so that the whole is this and its transpose."""
    states = nodes.shape[1]
    deviation, new = np.empty((states, states)), np.empty((states, states))
    covariance = np.empty(states * states)
    for n in range(len(starts) - 1):
        if coefficients[n] == 0.0:
            continue
        for s in range(starts[n], starts[n + 1]):
            for i in range(states):
                for j in range(states):
                    deviation[i, j] = (1.0 if i == j else 0.0) - nodes[s, j]
            for t in range(s, starts[n + 1]):
                if t > s:
                    new[:] = 0.0
                    for i in range(states):
                        for k in range(states):
                            for j in range(states):
                                new[i, j] += deviation[i, k] * onward[t, k, j]
                    deviation, new = new, deviation
                largest = 0.0
                half = 0.5 if t == s else 1.0
                for i in range(states):
                    for j in range(states):
                        value = half * coefficients[n] * nodes[s, i] * deviation[i, j]
                        covariance[i * states + j] = value
                        largest = max(largest, abs(value))
                if largest < _NEGLIGIBLE:
                    break
                for first in range(indptr[s], indptr[s + 1]):
                    for second in range(indptr[t], indptr[t + 1]):
                        scale = values[first] * values[second]
                        block = found[indices[first], indices[second]]
                        for m in range(states * states):
                            block[m] += scale * covariance[m]
