"""The best optimum of each fold that the search for others has met so far.

Descents end near an optimum and foretell its value. That is enough to go on with; only where a fold
stays in the end is it refitted and certified, since a refit takes Hessians, which cost more than the
descent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.core.status import Outcome, Rung
from fitonce.crossval.evidence import Evidence
from fitonce.crossval.fold_states import FoldParameters
from fitonce.crossval.losses import Scoring
from fitonce.crossval.refine import refitted
from fitonce.crossval.search_record import Search
from fitonce.fitting.optima import ROUNDING

LOWER = 1e-3  # nats: a fold moves for no less


class _End(NamedTuple):
    """Where a descent of a fold ended, (D,), the value that is foretold of the optimum there, and the
    number of the full fit's optimum that it began at, -1 for another."""

    theta: np.ndarray
    value: float
    number: int


class FoldOptima:
    """The best optimum of each fold so far.

    Attributes:
        values, thetas: (F,) and (F, D), foretold ones among them until `settle`.
        before: (F,) the values at the optima that continue the full fit's.
        certain: (F,) the lowest values of what is certified.
        margins: (F,) nats: a fold moves for no less.
    """

    def __init__(self, scoring: Scoring, parameters: FoldParameters, evidence: Evidence) -> None:
        self.scoring, self.parameters, self.evidence = scoring, parameters, evidence
        self.thetas = parameters.thetas.copy()
        self.values = self._objectives()
        self.before, self.certain = self.values.copy(), self.values.copy()
        self.margins = LOWER + ROUNDING * np.abs(np.where(np.isfinite(self.values), self.values, 0.0))
        self._arrived = np.zeros(len(self.values), bool)  # whether `before` is the value of an optimum
        self._foretold: dict[int, list[_End]] = {}  # by fold, each lower than those before
        self._news = np.zeros(0, int)

    def _objectives(self) -> np.ndarray:
        """(F,) at the folds' parameters, less what the next step promises; inf without parameters."""
        thetas, batches = self.parameters.thetas, self.scoring.batches
        finite = np.flatnonzero(np.isfinite(thetas).all(1))
        values = np.full(len(thetas), np.inf)
        values[finite] = batches.values_and_gradients(thetas[finite], finite)[0]
        short = np.array([one.outcome is Outcome.APPROXIMATE for one in self.parameters.status])
        return values - np.where(short, 0.5 * np.nan_to_num(self.evidence.distances) ** 2, 0.0)

    def lower(self, folds: np.ndarray, values: np.ndarray) -> np.ndarray:
        """(n,) whether values (n,) of folds (n,) are lower than their best by enough to move."""
        with np.errstate(invalid="ignore"):
            return values < (self.values - self.margins)[folds]

    def take(
        self, folds: np.ndarray, thetas: np.ndarray, values: np.ndarray, numbers: np.ndarray
    ) -> bool:
        """Move folds (n,) to where descents ended, thetas (n, D), if the optima there have lower values
        (n,). Returns whether one moved."""
        self._finish_approximate(folds)
        rows = np.flatnonzero(self.lower(folds, values))
        for row in rows:
            fold, end = int(folds[row]), _End(thetas[row], float(values[row]), int(numbers[row]))
            self._foretold.setdefault(fold, []).append(end)
            self.values[fold], self.thetas[fold] = end.value, end.theta
        self._news = np.union1d(self._news, folds[rows[numbers[rows] < 0]])
        return bool(rows.size)

    def news(self) -> np.ndarray:
        """(n,) the folds that went to optima which are not the full fit's since this was asked for the
        last time; those that gained most first."""
        folds, self._news = self._news, np.zeros(0, int)
        return folds[np.argsort(self.values[folds] - self.before[folds], kind="stable")]

    def _finish_approximate(self, folds: np.ndarray) -> None:
        """Take the values of those folds (n,) that are a step from the full fit at their own optimum, to
        compare it with another."""
        status = self.parameters.status
        waits = [
            status[fold].outcome is Outcome.APPROXIMATE and fold not in self._foretold for fold in folds
        ]
        short = folds[np.array(waits, bool) & ~self._arrived[folds]]
        starts, scoring = self.parameters.thetas[short], self.scoring
        for fold, end, ended in refitted(scoring.batches, short, starts, scoring.curve):
            if ended.ok:
                self.values[fold] = self.before[fold] = self.certain[fold] = end.values[0]
                self._arrived[fold] = True

    def settle(self, found: Search) -> None:
        """Refit every fold from the lowest of what was foretold that ends in a certified minimum, and
        record it; folds without one stay where they were."""
        batches = self.scoring.batches
        while self._foretold and not batches.spent():
            folds = np.array(sorted(self._foretold))
            lowest = [self._foretold[fold].pop() for fold in folds]
            numbers = {int(fold): end.number for fold, end in zip(folds, lowest, strict=True)}
            starts = np.stack([end.theta for end in lowest])
            for fold, end, status in refitted(batches, folds, starts, self.scoring.curve):
                if status.ok and end.values[0] < self.certain[fold] - self.margins[fold]:
                    self.certain[fold], found.optimum[fold] = end.values[0], numbers[fold]
                    self.parameters.thetas[fold], self.parameters.status[fold] = end.thetas[0], status
                    self.parameters.rungs[fold] = Rung.OTHER
                    self.evidence.distances[fold] = end.distances[0]
                    self._foretold[fold].clear()
            self._foretold = {fold: ends for fold, ends in self._foretold.items() if ends}
        self.values, self.thetas = self.certain, self.parameters.thetas
