"""Forward-backward passes over chains as plain loops, compiled once for chains of any length.

`LANES` folds lie side by side in the last axis of every array, so that one instruction works on all of
them; their number is a constant because loops whose length the compiler knows are several times faster.
The steps of all sequences follow each other in one axis, `starts` (N + 1,) has their first steps.

The emission of a step is a row of `rows` (R, K, L), exp(log p - peak) of every distinct observation, to
the power of the step's weight, which is 0 or 1 here: a blend of the row and ones, as a product and a sum
that are exact for both (1 + w (row - 1) would lose small densities). For other weights,
every step has a row of its own. `initial` and `moves` (from row to column) are relative to their largest
entries. They have one entry in the first axis, or one for every sequence and every step: the transition
into it. `links` (T, L), or empty for ones, are weights of 0 or 1 of the transitions into the steps, of
the initial distribution at first ones: zero cuts the chain there.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.lanes import LANES, load, same, store
from fitonce.core.native import compiled, inlined

_RENORMALISE = 64  # steps
BLOCK = 128  # steps
_TINY = 1e-250  # smaller sums may have lost terms to underflow


@compiled
def scaled_posterior(  # type: ignore[no-untyped-def]
    rows, index, weights, initial, moves, links, starts, coefficients, sources,
    nodes, marks, shares, inverses, firsts, pairs, work,
):  # fmt: skip
    """One group of folds, by probabilities that are normalised at every step.

    Every transition must be possible, and none exp(150) times as probable as another: then no divisor
    underflows, and backward messages, scaled by the normalisers of forward ones, stay below exp(150).

    Args:
        rows, index, weights: emissions (R, K, L), the row of each step (T,), zeros and ones (T, L).
        initial, moves: (1 or N, K, L) and (1 or T, K, K, L).
        links: (T, L), or (0, L).
        starts, coefficients: (N + 1,), and (N, L) the weight of each sequence in sums.
        sources: (T, L), or (0, L): then coefficients are ones, nodes and counts are sums over steps s of
            sources times those given x_1 .. x_s.
        nodes: out, (T, K, L) p(z_t = k); or (BLOCK + 1, K, L) of any content. Then forward messages of a
            block of steps are made again when the backward pass comes to it, which is faster than to
            wait for memory on chains that do not fit in the processor's cache.
        marks: (longest sequence / BLOCK, rounded up, K, L) of any content.
        shares: out, zero before, (R, K, L) sums over steps of coefficient, weight and node.
        inverses: out, (T, L) one over each normaliser; their product is 1 / Z.
        firsts, pairs: out, zero before, like `initial` and `moves`: expected counts times coefficients.
        work: (2, K, L) of any content.
    """
    states, table = nodes.shape[1], nodes.shape[1] * nodes.shape[1] * LANES
    width, blocked = states * LANES, len(nodes) < len(weights)
    varying, own_start = len(moves) > 1, len(initial) > 1
    cut, summed = len(links) > 0, len(sources) > 0
    message, onward = _at(work[0]), _at(work[1])
    given = (_at(rows), index, _at(weights))
    for n in range(len(starts) - 1):
        begin, end = starts[n], starts[n + 1]
        own = n * width if own_start else 0
        chain = (_at(initial), own, _at(moves), varying, _at(links), cut)
        size = BLOCK if blocked else end - begin
        last = begin + (end - 1 - begin) // size * size  # the first step of the last block
        for start in range(begin, end, size):
            if start > begin:
                _copy(states, _at(nodes), BLOCK * width, _at(nodes), 0)
                _copy(states, _at(nodes), 0, _at(marks), (start - begin) // size * width)
            span = (begin, start, min(start + size, end), start - 1 if blocked else 0)
            _forward_steps(states, span, given, chain, _at(nodes), _at(inverses))
        coefficient = load(_at(coefficients), n * LANES)
        for j in range(states):
            store(onward, j * LANES, same(0.0) if summed else same(1.0))
        for start in range(last, begin - 1, -size):
            stop = min(start + size, end)
            if start < last:  # only the last block is still there
                _copy(states, _at(marks), (start - begin) // size * width, _at(nodes), 0)
                span = (begin, start, stop, start - 1)
                _forward_steps(states, span, given, chain, _at(nodes), _at(inverses))
            for t in range(stop - 1, start - 1, -1):
                here = (t - start + 1 if blocked else t) * width
                if t + 1 < end:
                    move = (t + 1) * table if varying else 0
                    share = coefficient
                    _backward(states, _at(moves), move, message, onward)
                    if cut:
                        link = load(_at(links), (t + 1) * LANES)
                        _cut(states, link, message, onward)
                        share = coefficient * link
                    _count(states, _at(nodes), here, message, share, _at(pairs), move)
                if summed:
                    for j in range(states):
                        store(onward, j * LANES, load(onward, j * LANES) + load(_at(sources), t * LANES))
                elif (end - t) % _RENORMALISE == 0:
                    _renormalise(states, _at(nodes), here, onward)
                emission = (_at(rows), index[t] * width, load(_at(weights), t * LANES))
                factors = (coefficient, load(_at(inverses), t * LANES))
                _combine(states, emission, here, factors, _at(nodes), onward, message, _at(shares))
        link = load(_at(links), begin * LANES) if cut else same(1.0)
        for j in range(states):
            at = own + j * LANES
            node = load(_at(nodes), (1 if blocked else begin) * width + j * LANES)
            store(_at(firsts), at, load(_at(firsts), at) + coefficient * link * node)
    for at in range(0, pairs.size, LANES):  # so far without the transition itself
        store(_at(pairs), at, load(_at(pairs), at) * load(_at(moves), at))


@compiled
def zeros_and_ones(weights):  # type: ignore[no-untyped-def]
    """Whether the weights (n,) are nothing else."""
    for weight in weights:  # noqa: SIM110 - a loop for the compiler
        if weight * (weight - 1.0) != 0.0:
            return False
    return True


@compiled
def weights_of_steps(weights, seen, found):  # type: ignore[no-untyped-def]
    """Into found (T, F): weights (F, T) where steps are seen (T,), zero elsewhere."""
    for t in range(found.shape[0]):
        for fold in range(found.shape[1]):
            found[t, fold] = weights[fold, t] * seen[t]


@compiled
def held_out_losses(nodes, rows, index, scored, losses):  # type: ignore[no-untyped-def]
    """Into losses (F, M): -log sum_k p(z_t = k) p(x_t | k) at the steps t of scored (F, M), from nodes
    (T, K, F) and log densities (R, K, F), of which `index` (T,) is the row of each step. Returns (F,)
    where nodes that are zero, or nearly, may have mattered: their states are far more likely at a step
    than all others."""
    states = nodes.shape[1]
    unsure = np.zeros(scored.shape[0], np.bool_)
    for fold in range(scored.shape[0]):
        for place in range(scored.shape[1]):
            step = scored[fold, place]
            row = index[step]
            peak = rows[row, 0, fold]
            for k in range(1, states):
                peak = max(peak, rows[row, k, fold])
            total = 0.0
            for k in range(states):
                total += nodes[step, k, fold] * np.exp(rows[row, k, fold] - peak)
            if total > _TINY:  # false where it is not a number
                losses[fold, place] = -(np.log(total) + peak)
            else:
                losses[fold, place] = _loss_by_logarithms(states, nodes, rows, step, row, fold)
                unsure[fold] = True
    return unsure


@inlined
def _loss_by_logarithms(states, nodes, rows, step, row, fold):  # type: ignore[no-untyped-def]
    """The same where densities are far below that of a state which is impossible, or nearly."""
    peak, total = -np.inf, 0.0
    for k in range(states):
        if nodes[step, k, fold] > 0.0:
            peak = max(peak, np.log(nodes[step, k, fold]) + rows[row, k, fold])
    if peak == -np.inf:  # nothing is possible, or what is not a number hides it
        peak = 0.0
    for k in range(states):
        if nodes[step, k, fold] > 0.0:
            total += np.exp(np.log(nodes[step, k, fold]) + rows[row, k, fold] - peak)
    return -(np.log(total) + peak)


@inlined
def _at(array):  # type: ignore[no-untyped-def]
    """The address of the first number."""
    return array.ctypes.data


@inlined
def _copy(states, source, place, target, there):  # type: ignore[no-untyped-def]
    for j in range(states):
        store(target, there + j * LANES, load(source, place + j * LANES))


@inlined
def _forward_steps(states, span, given, chain, nodes, inverses):  # type: ignore[no-untyped-def]
    """Filtered probabilities and inverse normalisers of the steps from `start` until before `stop` of a
    sequence that starts at `begin`; those of step t are at place t - `before` of the nodes."""
    begin, start, stop, before = span
    rows, index, weights = given
    initial, own, moves, varying, links, cut = chain
    for t in range(start, stop):
        emission = (rows, index[t] * states * LANES, load(weights, t * LANES))
        link = links + 8 * t * LANES if cut else 0
        step = (initial, own, moves, t * states * states * LANES if varying else 0, link)
        inverse = _forward(states, emission, step, (t - before) * states * LANES, t == begin, nodes)
        store(inverses, t * LANES, inverse)


@inlined
def _forward(states, emission, chain, here, first, nodes):  # type: ignore[no-untyped-def]
    """p(z_t | x_1 .. x_t) at `here` from that of the step before it; returns one over its normaliser.
    `link` in the chain is the address of the weights of the transition, or zero for ones."""
    rows, row, weight = emission
    initial, own, moves, move, link = chain
    before, one, total = here - states * LANES, same(1.0), same(0.0)
    for j in range(states):  # the step before sums to one, so that a cut leaves ones
        if first:
            value = load(initial, own + j * LANES)
        else:
            value = same(0.0)
            for i in range(states):
                value += load(nodes, before + i * LANES) * load(moves, move + (i * states + j) * LANES)
        if link != 0:
            value = load(link, 0) * value + (one - load(link, 0))
        value *= weight * load(rows, row + j * LANES) + (one - weight)
        total += value
        store(nodes, here + j * LANES, value)
    inverse = one / total
    for j in range(states):
        store(nodes, here + j * LANES, load(nodes, here + j * LANES) * inverse)
    return inverse


@inlined
def _backward(states, moves, move, message, onward):  # type: ignore[no-untyped-def]
    """p(x_t+1 .. | z_t) over that of x_t+1 .. given earlier steps, from the message of step t + 1."""
    for i in range(states):
        value = same(0.0)
        for j in range(states):
            value += load(moves, move + (i * states + j) * LANES) * load(message, j * LANES)
        store(onward, i * LANES, value)


@inlined
def _cut(states, link, message, onward):  # type: ignore[no-untyped-def]
    """The same where the transition has a weight: without it all states are as probable."""
    total = same(0.0)
    for j in range(states):
        total += load(message, j * LANES)
    for i in range(states):
        store(onward, i * LANES, link * load(onward, i * LANES) + (same(1.0) - link) * total)


@inlined
def _renormalise(states, nodes, here, onward):  # type: ignore[no-untyped-def]
    """Remove what rounding has added up: nodes times `onward` sum to one."""
    total = same(0.0)
    for j in range(states):
        total += load(nodes, here + j * LANES) * load(onward, j * LANES)
    inverse = same(1.0) / total
    for j in range(states):
        store(onward, j * LANES, load(onward, j * LANES) * inverse)


@inlined
def _count(states, nodes, here, message, coefficient, pairs, into):  # type: ignore[no-untyped-def]
    """Add the expected transitions from t to t + 1, each divided by its probability."""
    for i in range(states):
        source = coefficient * load(nodes, here + i * LANES)
        for j in range(states):
            at = into + (i * states + j) * LANES
            store(pairs, at, load(pairs, at) + source * load(message, j * LANES))


@inlined
def _combine(states, emission, place, factors, nodes, onward, message, shares):  # type: ignore[no-untyped-def]
    """p(z_t | x), its share in the row's sums, and the message of step t."""
    rows, row, weight = emission
    coefficient, inverse = factors
    one, counted = same(1.0), coefficient * weight
    for j in range(states):
        after, here, at = load(onward, j * LANES), place + j * LANES, row + j * LANES
        node = load(nodes, here) * after
        store(nodes, here, node)
        store(shares, at, load(shares, at) + counted * node)
        emitted = (weight * load(rows, at) + (one - weight)) * inverse
        store(message, j * LANES, emitted * after)
