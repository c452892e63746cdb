"""Regions of a graph that count as one observation each in standard errors.

Losses of neighbours are alike where their hidden states are. Sums over regions are nearly independent if
regions are large against the length of that correlation, so that few pairs of sites that are alike lie
in different ones; but the more regions there are, the better their spread is known. So there are as many
as leave no more than a tenth of the variance of the sum to pairs in different regions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from fitonce.data.graph import Graph, partition

_NUMBERS = (32, 24, 16, 12, 8, 6, 4)  # of regions
_BIAS = 0.1
_MOST_HOPS = 30
_MOST_PAIRS = 5_000_000  # that are followed: beyond, correlation is taken to end
_NEGLIGIBLE = 1e-3  # of the variance of a loss


def independent_regions(graph: Graph, losses: np.ndarray, states: np.ndarray | None) -> np.ndarray:
    """(V,) labels of connected regions of similar size.

    Args:
        losses: (V,) what each site adds to the deviation of the mean.
        states: (V, K) probabilities of hidden states, through which losses of different sites depend on
            each other; None: by the losses themselves.
    """
    alike = losses if states is None or states.shape[1] < 2 else _by_state(losses, states)
    variance = float(losses @ losses)
    pairs = []
    for distance in _pairs_by_hops(graph):
        together = float(alike[distance.row] @ alike[distance.col])
        if together <= _NEGLIGIBLE * variance:
            break
        pairs.append((distance, alike[distance.row] * alike[distance.col]))
    total = variance + sum(float(products.sum()) for _, products in pairs)
    numbers = [min(_NUMBERS[0], graph.n_sites), *(n for n in _NUMBERS[1:] if n < graph.n_sites)]

    def nearly_independent(number: int) -> bool:
        labels = partition(graph, number)
        across = sum(
            float(products[labels[distance.row] != labels[distance.col]].sum())
            for distance, products in pairs
        )
        return across <= _BIAS * total

    first = bisect_left(numbers, True, hi=len(numbers) - 1, key=nearly_independent)
    return partition(graph, numbers[first])


def _by_state(losses: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(V,) the part of the losses that the states explain."""
    weight = np.maximum(states.sum(0), np.finfo(float).tiny)
    explained = states @ (states.T @ losses / weight)
    return explained - explained.mean()


def _pairs_by_hops(graph: Graph) -> Iterator[sparse.coo_array]:
    """Pairs of sites one hop apart, two hops apart, ..."""
    near = graph.matrix.astype(np.int8)
    seen, reached = sparse.eye_array(graph.n_sites, format="csr", dtype=np.int8), near
    degrees = np.asarray(near.sum(1)).ravel()
    for _ in range(_MOST_HOPS):
        if (
            reached.nnz == 0
            or np.bincount(reached.indices, minlength=len(degrees)) @ degrees > _MOST_PAIRS
        ):
            return
        yield reached.tocoo()
        seen = seen + reached
        further = (reached.astype(np.int32) @ near).astype(bool).astype(np.int8)
        reached = (further - further.multiply(seen)).tocsr()
        reached.eliminate_zeros()
