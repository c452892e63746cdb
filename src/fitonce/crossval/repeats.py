"""Folds that leave out and score the same: worked on once, reported for each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np

from fitonce.crossval.evidence import Evidence
from fitonce.crossval.fold_states import FoldParameters
from fitonce.crossval.leaving import Left
from fitonce.crossval.search_record import Search

T = TypeVar("T")


class Found(NamedTuple):
    """What came of folds, one row or key per fold.

    Attributes:
        parameters, evidence: of all folds.
        work: (2, F) numbers of gradients and Hessians.
        search: that for other optima, None where there was none.
        left: the folds that left the boundary.
        remarks: what else is said about folds.
    """

    parameters: FoldParameters
    evidence: Evidence
    work: np.ndarray
    search: Search | None = None
    left: Mapping[int, Left] = MappingProxyType({})
    remarks: Mapping[int, str] = MappingProxyType({})

    def repeated(self, first: np.ndarray, which: np.ndarray) -> Found:
        """Of all folds (F,), from those of the distinct ones, see `Folds.distinct`. Work counts once."""
        if len(first) == len(which):
            return self
        work = np.zeros((len(self.work), len(which)), self.work.dtype)
        work[:, first] = self.work
        return Found(
            self.parameters.some(which),
            self.evidence.some(which),
            work,
            None if self.search is None else self.search.some(which),
            _for_each(self.left, which),
            _for_each(self.remarks, which),
        )


def _for_each(found: Mapping[int, T], which: np.ndarray) -> dict[int, T]:
    return {fold: found[row] for fold, row in enumerate(which.tolist()) if row in found}
