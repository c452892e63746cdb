"""What multiplies a model's weights: the features of all steps, in an array or in compressed rows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from fitonce.core.parallel import cores
from fitonce.core.thread_pool import THREADS
from fitonce.data.labelled import UNKNOWN, Labelled
from fitonce.engines import native_labels as engine
from fitonce.engines import native_sparse as sparse_engine

_SPARSE = 0.2  # share of numbers that are not zero: below, compressed rows are faster and smaller
_SMALL = 2**20  # numbers that are not worth compressing
_TOGETHER = 2**22  # numbers that are compressed at a time
_ARRAY = 2**28  # numbers: compressed rows that are larger stay compressed
_FEW = 2**18  # products that are not worth another thread


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
        chosen = self.matrix[steps]
        if self.is_sparse and chosen.shape[0] * chosen.shape[1] > _ARRAY:
            raise ValueError(
                f"this needs features in an array, and {chosen.shape[0]:,} x {chosen.shape[1]:,} are "
                "too many: labels that are kept with a probability and kernel='scan' are for fewer"
            )
        return chosen.toarray() if self.is_sparse else chosen

    def scores(self, weights: np.ndarray) -> np.ndarray:
        """(T, K) features times weights (Q, K)."""
        return _times(self.matrix, weights) if self.is_sparse else self.matrix @ weights

    @cached_property
    def transposed(self) -> Any:
        """(Q, T)."""
        return _rows(self.matrix.T.tocsr()) if self.is_sparse else self.matrix.T

    @cached_property
    def _squared(self) -> Any:
        rows = self.transposed
        return sparse.csr_array((rows.data**2, rows.indices, rows.indptr), shape=rows.shape)

    def sums(self, nodes: np.ndarray) -> np.ndarray:
        """(Q, M) sums over all steps of features times numbers (T, M)."""
        return _times(self.transposed, nodes) if self.is_sparse else self.transposed @ nodes

    def sums_of_squares(self, nodes: np.ndarray) -> np.ndarray:
        """(Q, M) the same of squared features, in compressed rows."""
        return _times(self._squared, nodes)

    def label_counts(self, labels: np.ndarray, coefficients: np.ndarray, states: int) -> np.ndarray:
        """(Q, K) sums over all steps of features at their labels (T,), times coefficients (T,)."""
        if self.is_sparse:
            found = np.zeros((self.width, states))
            rows = (self.matrix.indptr, self.matrix.indices, self.matrix.data)
            sparse_engine.add_label_counts(*rows, labels.astype(np.int64), coefficients, found)
            return found
        known = np.flatnonzero(labels != UNKNOWN)
        chosen = np.zeros((len(labels), states))
        chosen[known, labels[known]] = coefficients[known]
        return self.sums(chosen)

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


def _rows(matrix: Any) -> sparse.csr_array:
    """Compressed rows of one kind of integers, for which loops are compiled once, without zeros."""
    found = sparse.csr_array(matrix, dtype=float, copy=True)
    found.eliminate_zeros()
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    return found


def _times(rows: sparse.csr_array, dense: np.ndarray) -> np.ndarray:
    """(T, K) of rows (T, Q) and an array (Q, K), on all cores: each has about as many numbers."""
    found, dense = np.empty((rows.shape[0], dense.shape[1])), np.ascontiguousarray(dense)
    count = cores() if rows.nnz * dense.shape[1] > _FEW else 1
    inner = np.searchsorted(rows.indptr, np.linspace(0, rows.nnz, count + 1)[1:-1])
    ends = [0, *inner.tolist(), rows.shape[0]]

    def work(span: tuple[int, int]) -> None:
        sparse_engine.rows_times(rows.indptr, rows.indices, rows.data, dense, *span, found)

    THREADS.run(work, list(itertools.pairwise(ends)))
    return found


def design_of(model: Any, data: Labelled) -> tuple[Design, np.ndarray | None]:
    """The model's design of the data, and given scores (T, K) or None."""
    if data.is_sparse:
        matrix, scores = model.design(data.features, data.lengths)
        return Design(_rows(matrix)), scores
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
    joined = sparse.vstack(rows, format="csr")
    return Design(_rows(joined)), None if scores[0] is None else np.concatenate(scores)
