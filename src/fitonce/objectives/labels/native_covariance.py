"""The Hessian of sums of log Z by the native engine: covariances of counts."""

from __future__ import annotations

import numpy as np

from fitonce.engines import native_label_covariance as engine
from fitonce.objectives.labels.native_passes import Chains, LabelConditionals, conditionals

_BYTES = 2**27  # of covariances of single steps


def count_covariance(chains: Chains, coefficients: np.ndarray) -> np.ndarray:
    """(Q K + K K, Q K + K K) the sum over chains of coefficient (N,) times the covariance of their
    counts, (feature, state) first and then transitions."""
    states, width = chains.unary.shape[1], chains.design.width
    square, split = states * states, width * states
    total = np.zeros((split + square, split + square))
    among = total[:split, :split].reshape(width, states, width, states)
    if chains.design.is_sparse:
        _add_sparse(chains, coefficients, among)
        stretch = _BYTES // (8 * states * (square + 3 * states))
    else:
        stretch = _BYTES // (8 * states * (square + 3 * states + split))
    for first, last in chains.cut(stretch):
        part, scale = chains.between(first, last), coefficients[first:last]
        if not scale.any():
            continue
        known = conditionals(part)
        weight = part.of_steps(scale)
        with_moves, moved = _with_transitions(part, known, scale)
        found = part.design.sums((weight[:, None, None] * with_moves).reshape(len(weight), -1))
        total[:split, split:] += found.reshape(split, square)
        total[split:, split:] += moved + moved.T
        if not chains.design.is_sparse:
            _add_dense(part, known, weight, among)
    total[split:, :split] = total[:split, split:].T
    return total


def _with_transitions(
    part: Chains, known: LabelConditionals, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    square = part.transition.size

    def work(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        steps = slice(part.starts[first], part.starts[last])
        nodes, onward = known.nodes[steps], known.onward[steps]
        starts = part.starts[first : last + 1] - part.starts[first]
        found, moved = np.empty((*nodes.shape, square)), np.zeros((square, square))
        engine.with_transitions(nodes, onward, starts, scale[first:last], found, moved)
        return found, moved

    found, moved = zip(*part.on_threads(work), strict=True)
    return np.concatenate(found), np.sum(moved, 0)


def _add_dense(part: Chains, known: LabelConditionals, weight: np.ndarray, among: np.ndarray) -> None:
    """Add covariances of features with each other to among (Q, K, Q, K): a matrix product for each state
    of the one and all that are not before it of the other."""
    states, features = part.unary.shape[1], part.design.matrix

    def work(first: int, last: int) -> np.ndarray:
        steps = slice(part.starts[first], part.starts[last])
        starts = part.starts[first : last + 1] - part.starts[first]
        found = np.empty((states, steps.stop - steps.start, states * features.shape[1]))
        engine.with_features(features[steps], known.nodes[steps], known.onward[steps], starts, found)
        return found

    ends = 0
    for found in part.on_threads(work):
        steps = slice(ends, ends + found.shape[1])
        ends = steps.stop
        scaled = (features[steps] * weight[steps, None]).T
        for i in range(states):
            later = found[i][:, i * features.shape[1] :]
            block = (scaled @ later).reshape(len(scaled), states - i, -1)  # (Q, j, Q)
            among[:, i, :, i:] += np.swapaxes(block, 1, 2)
            among[:, i + 1 :, :, i] += np.transpose(block[:, 1:], (2, 1, 0))


def _add_sparse(chains: Chains, coefficients: np.ndarray, among: np.ndarray) -> None:
    width, states = among.shape[:2]

    def work(first: int, last: int) -> np.ndarray:
        found = np.zeros((width, width, states * states))
        part = chains.between(first, last)
        for begin, end in part.cut(_BYTES // (8 * states * 3 * states)):
            some = part.between(begin, end)
            known = conditionals(some)
            rows = some.design.matrix
            engine.of_sparse_features(
                rows.indptr, rows.indices, rows.data, known.nodes, known.onward, some.starts,
                coefficients[first + begin : first + end], found,
            )  # fmt: skip
        return found

    for found in chains.on_threads(work):
        ordered = np.swapaxes(found.reshape(width, width, states, states), 1, 2)  # (Q, K, Q, K)
        among += ordered
        among += np.moveaxis(ordered, (2, 3), (0, 1))
