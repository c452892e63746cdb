"""What the search for other optima found, fold by fold."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Search:
    """Which optimum each fold is in, one row per fold.

    Attributes:
        optimum: the number of the optimum of the full fit that it continues, 0 for the one that the fit
            is at; -1 for another.
        gain: by how much the objective is below that at the optimum that continues the fit's, in nats.
        shift: by how much the mean loss differs from that there.
        ways: how often its optimum was found: from the full fit, its other optima, random starts; 1
            where only another fold led to it, and 0 where something lower was met that could not be
            certified.
        searched: whether the fold had random starts of its own.
        unseen: the estimated chance that another start ends in an optimum that none has met, by Good and
            Turing: the share of descents that alone ended where they did; 0 without descents.
        better: (D,) an optimum of all data that is better than the fit, if one was found.
        better_by: by how much, in nats.
        starts: how many random starts a fold could have.
    """

    optimum: np.ndarray
    gain: np.ndarray
    shift: np.ndarray
    ways: np.ndarray
    searched: np.ndarray
    unseen: np.ndarray
    better: np.ndarray | None = None
    better_by: float = float("nan")
    starts: int = 0

    @classmethod
    def of(cls, n_folds: int) -> Search:
        """Before the search."""
        zeros = lambda kind: np.zeros(n_folds, kind)  # noqa: E731
        ways, unseen = np.ones(n_folds, int), zeros(float)
        return cls(zeros(int), zeros(float), zeros(float), ways, zeros(bool), unseen)

    def some(self, rows: np.ndarray) -> Search:
        """Of the folds with these numbers (n,), which may repeat."""
        names = ("optimum", "gain", "shift", "ways", "searched", "unseen")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})
