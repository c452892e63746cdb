"""Parameters of many folds that are one step from the full fit, made when they are asked for.

A row for each of a hundred thousand labels, with thousands of parameters, would not fit in memory. Each
follows from the slope of its own point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from fitonce.core.chunks import pieces
from fitonce.fitting.curvature import Curvature

_BYTES = 2**26  # of rows that are made at a time
KEPT_BYTES = 2**28  # of rows that are kept rather than made again
_SPARSE = 0.05  # share of numbers that are not zero
Swept = Callable[[np.ndarray], Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]]


class SteppedThetas:
    """(F, D) theta1 - H^-1 (g - s_t), indexed by rows like an array.

    Args:
        curve: H and g at the full fit.
        sites: (F,) the point of each row.
        swept: from sites to pieces of losses, their slopes and pulls s_t, in order.
    """

    def __init__(self, curve: Curvature, sites: np.ndarray, swept: Swept) -> None:
        self._curve, self._sites, self._swept = curve, sites, swept
        self._set: dict[int, np.ndarray] = {}
        self.shape, self.ndim, self.dtype = (len(sites), len(curve.theta)), 2, np.dtype(float)

    def __len__(self) -> int:
        return len(self._sites)

    def __getitem__(self, rows: Any) -> np.ndarray:
        numbers = np.atleast_1d(np.arange(len(self))[rows])
        found = np.empty((len(numbers), self.shape[1]))
        start = 0
        for some in pieces(numbers, 8 * self.shape[1], _BYTES):
            for *_, pulls in self._swept(self._sites[some]):
                found[start : start + len(pulls)] = self._curve.theta + one_step(self._curve, pulls)
                start += len(pulls)
        for place, number in enumerate(numbers):
            if int(number) in self._set:
                found[place] = self._set[int(number)]
        return found[0] if np.ndim(np.arange(len(self))[rows]) == 0 else found

    def __setitem__(self, rows: np.ndarray, values: np.ndarray) -> None:
        for number, value in zip(rows, values, strict=True):
            self._set[int(number)] = np.array(value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or float, copy=False)


def one_step(curve: Curvature, pulls: np.ndarray, many: bool = False) -> np.ndarray:
    """(n, D) moves -H^-1 (g - s) of points with pulls s (n, D).

    With `many` points altogether H is inverted, once: pulls that are mostly zero, as those of single
    labels with sparse features, then take a few rows of the inverse each, where solving takes all of H.
    """
    filled = np.count_nonzero(pulls)
    if many and curve.hessian_operator.dense and filled < _SPARSE * pulls.size:
        return sparse.csr_array(pulls) @ curve.inverse - curve.solve(curve.gradient)
    return -curve.solve((curve.gradient - pulls).T).T
