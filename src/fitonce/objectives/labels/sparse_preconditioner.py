"""An approximate inverse of H of 10^4 parameters or more.

Most features of a text are rare: they bend F little more than the prior does. A few thousand counts, of
features by tag and of transitions, have nearly all of the curvature: their covariances make a
matrix that is factored once. Features that occur at one step only have a matrix of rank one for each
step, with a closed inverse; for others the diagonal has to do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from fitonce.core.thread_pool import THREADS
from fitonce.engines import native_sparse as engine
from fitonce.objectives.base import LinearMap
from fitonce.objectives.labels.native_passes import Chains, LabelConditionals

_BLOCK = 1000  # parameters in the block
_STEEP = 2.0  # times the precision of the prior: parameters with less curvature are not in the block
_CERTAIN = 1e-5  # steps whose tag is as certain as this bend nothing
_DOUBTFUL, _STEPS = 0.1, 4000  # steps whose tag is not certain: with more, a part stands for all


def sparse_preconditioner(
    chains: Chains,
    known: LabelConditionals,
    coefficients: np.ndarray,
    precision: float,
    order: np.ndarray,
) -> LinearMap:
    """Of second derivatives of sums of log Z with coefficients (N,), plus a precision; `order` (D,) has
    the place of each parameter among weights (Q, K) and transitions (K, K)."""
    nodes, scale = known.nodes, chains.of_steps(coefficients)
    spread = scale[:, None] * nodes * (1.0 - nodes)
    pairs = np.zeros_like(known.onward)
    pairs[1:] = nodes[:-1, :, None] * known.onward[1:]
    moved = np.einsum("t,tij->ij", scale, pairs * (1.0 - pairs))
    flat = np.concatenate([chains.design.sums_of_squares(spread).ravel(), moved.ravel()])
    diagonal = flat[order] + precision
    steep = np.flatnonzero(diagonal > (1.0 + _STEEP) * precision)
    if len(steep) > _BLOCK:
        steep = np.sort(steep[np.argpartition(-diagonal[steep], _BLOCK)[:_BLOCK]])
    block = _block(chains, known, coefficients, order[steep])
    factor = _factor(block, precision)
    single = _Singles.of(chains, spread, precision, order)

    def solve(rhs: np.ndarray) -> np.ndarray:
        columns = rhs.reshape(len(rhs), -1)
        solved = columns / diagonal[:, None]
        single.solve(columns, solved)
        solved[steep] = linalg.cho_solve(factor, columns[steep], check_finite=False)
        return solved.reshape(rhs.shape)

    return solve


def _factor(block: np.ndarray, precision: float) -> tuple[np.ndarray, bool]:
    """Of the block and the prior. What was neglected may have made it indefinite: the diagonal then
    grows until it is not."""
    damping, diagonal = 0.0, np.diag(block).copy()
    while True:
        trial = block.copy()
        np.fill_diagonal(trial, (1.0 + damping) * diagonal + precision)
        try:
            return linalg.cho_factor(trial, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            damping = max(10.0 * damping, 1e-6)


@dataclass(frozen=True, eq=False)
class _Singles:
    """Parameters of features that occur at one step only.

    Attributes:
        members: (n,) their numbers.
        group: (n,) step and tag of each, numbered.
        value: (n,) the feature there.
        share: (G,) of the rank-one part of each group's inverse.
        precision: of the prior.
    """

    members: np.ndarray
    group: np.ndarray
    value: np.ndarray
    share: np.ndarray
    precision: float

    @classmethod
    def of(cls, chains: Chains, spread: np.ndarray, precision: float, order: np.ndarray) -> _Singles:
        states, rows = spread.shape[1], chains.design.transposed
        feature, tag = np.divmod(order, states)
        is_weight = feature < chains.design.width
        once = np.append(np.diff(rows.indptr) == 1, False)
        members = np.flatnonzero(is_weight & once[np.minimum(feature, chains.design.width)])
        entry = rows.indptr[feature[members]]
        step, value = rows.indices[entry], rows.data[entry]
        places, group = np.unique(step.astype(np.int64) * states + tag[members], return_inverse=True)
        curved = spread.ravel()[places]
        squares = np.bincount(group, value**2, len(places))
        return cls(members, group, value, curved / (precision + curved * squares), precision)

    def solve(self, columns: np.ndarray, solved: np.ndarray) -> None:
        """Into `solved` (D, m)."""
        if self.members.size == 0:
            return
        for column, found in zip(columns.T, solved.T, strict=True):
            own = column[self.members]
            along = self.share * np.bincount(self.group, self.value * own, len(self.share))
            found[self.members] = (own - self.value * along[self.group]) / self.precision


def _block(
    chains: Chains, known: LabelConditionals, coefficients: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """(M, M) covariances of the counts at the places `chosen` (M,): the lower triangle."""
    width, states = chains.design.width, known.nodes.shape[1]
    number = np.full((width + states) * states, -1, np.int32)
    number[chosen] = np.arange(len(chosen))
    number = number.reshape(width + states, states)
    rows = chains.design.matrix

    # At a start every tag is in doubt, and a metric of few digits will do.
    doubtful = np.count_nonzero(1.0 - np.einsum("tk,tk->t", known.nodes, known.nodes) > _DOUBTFUL)
    stride = max(doubtful // _STEPS, 1)
    part = np.zeros(len(coefficients))
    part[::stride] = stride * coefficients[::stride]

    def work(ends: tuple[int, int]) -> np.ndarray:
        begin, end = chains.starts[ends[0]], chains.starts[ends[1]]
        found = np.zeros((len(chosen), len(chosen)))
        engine.add_block(
            rows.indptr[begin : end + 1], rows.indices, rows.data, known.nodes[begin:end],
            known.onward[begin:end], chains.starts[ends[0] : ends[1] + 1] - begin,
            part[ends[0] : ends[1]], number[:width], number[width:], _CERTAIN, found,
        )  # fmt: skip
        return found

    return sum(THREADS.run(work, chains.shares()))
