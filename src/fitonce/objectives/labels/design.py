"""What multiplies a model's weights: the features of all steps, in an array or in compressed rows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from fitonce.data.labelled import Labelled
from fitonce.engines import native_labels as engine

_SPARSE = 0.2  # share of numbers that are not zero: below, compressed rows are faster and smaller
_SMALL = 2**20  # numbers that are not worth compressing
_TOGETHER = 2**22  # numbers that are compressed at a time


@dataclass(frozen=True, eq=False)
class Design:
    """Features of steps.

    Attributes:
        matrix: (T, Q), an array or in compressed rows.
    """

    matrix: Any

    @property
    def width(self) -> int:
        """Q."""
        return int(self.matrix.shape[1])

    @property
    def is_sparse(self) -> bool:
        return not isinstance(self.matrix, np.ndarray)

    def some(self, steps: np.ndarray | slice) -> Design:
        """Of some of the steps."""
        return Design(self.matrix[steps])

    def dense(self, steps: np.ndarray | slice = slice(None)) -> np.ndarray:
        """(n, Q) features of some steps as an array."""
        return self.matrix[steps].toarray() if self.is_sparse else self.matrix[steps]

    def scores(self, weights: np.ndarray) -> np.ndarray:
        """(T, K) features times weights (Q, K)."""
        return self.matrix @ weights

    @cached_property
    def _transposed(self) -> Any:
        return self.matrix.T.tocsr() if self.is_sparse else self.matrix.T

    def sums(self, nodes: np.ndarray) -> np.ndarray:
        """(Q, M) sums over all steps of features times numbers (T, M)."""
        return self._transposed @ nodes

    def sums_by_chain(self, starts: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """(N, Q, K) the same over the steps of each chain, which begin at starts (N + 1,)."""
        found = np.zeros((len(starts) - 1, self.width, nodes.shape[1]))
        if self.is_sparse:
            chain = np.repeat(np.arange(len(found)), np.diff(starts))
            rows = (self.matrix.indptr, self.matrix.indices, self.matrix.data)
            engine.add_products(*rows, chain, np.ascontiguousarray(nodes), found)
            return found
        for n, (begin, end) in enumerate(itertools.pairwise(starts)):
            np.matmul(self.matrix[begin:end].T, nodes[begin:end], out=found[n])
        return found

    def squares(self, weights: np.ndarray) -> np.ndarray:
        """(K, Q, Q) sums over all steps of products of features, times weights (T, K)."""
        found = np.empty((weights.shape[1], self.width, self.width))
        if self.is_sparse:
            blocks = np.zeros((self.width, self.width, weights.shape[1]))
            rows = (self.matrix.indptr, self.matrix.indices, self.matrix.data)
            engine.add_squares(*rows, np.ascontiguousarray(weights), blocks)
            found[:] = np.moveaxis(blocks, 2, 0)
            return found
        for k, weight in enumerate(weights.T):
            rows = self.matrix * np.sqrt(weight)[:, None]
            np.matmul(rows.T, rows, out=found[k])
        return found


def design_of(model: Any, data: Labelled) -> tuple[Design, np.ndarray | None]:
    """The model's design of the data, and given scores (T, K) or None."""
    filled = np.count_nonzero(data.features) / data.features.size
    if filled > _SPARSE or data.features.size < _SMALL:
        matrix, scores = model.design(data.features, data.lengths)
        return Design(np.ascontiguousarray(matrix)), scores
    rows, scores, steps = [], [], np.concatenate([[0], np.cumsum(data.lengths)])
    count = max(_TOGETHER // data.features.shape[1], 1)
    cuts = np.unique(np.searchsorted(steps[:-1], np.arange(0, steps[-1], count)))
    cuts = cuts[cuts < len(data.lengths)]
    for first, last in zip(cuts, [*cuts[1:], len(steps) - 1], strict=True):
        part, given = model.design(data.features[steps[first] : steps[last]], data.lengths[first:last])
        rows.append(sparse.csr_array(part))
        scores.append(given)
    joined = sparse.csr_array(sparse.vstack(rows, format="csr"))
    return Design(joined), None if scores[0] is None else np.concatenate(scores)
