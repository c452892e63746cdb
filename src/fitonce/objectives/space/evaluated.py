"""What objectives ask of folds at their parameters, the same of Gaussian observations and of counts."""

from __future__ import annotations

import numpy as np

from fitonce.objectives.space.densities import log_densities, log_densities_by_precision
from fitonce.objectives.space.laplace import LaplacePass
from fitonce.objectives.space.layout import Layout, Paths
from fitonce.objectives.space.passes import Back, Pass, contracted


class GaussianPass:
    """Of Gaussian observations; see `LaplacePass` for counts."""

    def __init__(self, one: Pass) -> None:
        self.layout, self.thetas, self.folds = one.layout, one.thetas, one.folds
        self._one = one

    @property
    def of_sequences(self) -> np.ndarray:
        """(F, N) log-likelihoods, nan where there is none."""
        return self._one.of_sequences

    @property
    def log_likelihoods(self) -> np.ndarray:
        """(F,) sums over sequences, times their coefficients."""
        return self._one.log_likelihoods

    def slopes(self) -> np.ndarray:
        """(F, D) derivatives of the log-likelihoods by theta."""
        return contracted(self.layout, self.thetas, self._one.back().bars)

    def by_units(self, increments: bool) -> np.ndarray:
        """(F, T) derivatives by weights of information or, for increments, of terms."""
        by_weights, by_shares = self._one.by_steps(self._one.back())
        return (by_shares if increments else by_weights).T

    def left_out(self) -> np.ndarray:
        """(F, T) log p(y_t | all other steps)."""
        back = self._one.back(own=True)
        return log_densities_by_precision(self.layout.steps.seen, back, self.folds)

    def heldout(self, wanted: np.ndarray) -> np.ndarray:
        """(m, F) log p(y_t | kept data) of left-out steps `wanted` (m,)."""
        return log_densities(self.layout, self._one, self._one.back(wanted), wanted)

    def back(self, wanted: np.ndarray, *, whole: bool = False) -> Back:
        """The pass backward."""
        return self._one.back(wanted, whole=whole)


Evaluated = GaussianPass | LaplacePass


def evaluated(
    layout: Layout,
    thetas: np.ndarray,
    paths: Paths,
    end: int | None = None,
    *,
    states: bool = True,
    wanted: np.ndarray | None = None,
) -> Evaluated:
    """At most LANES folds at thetas (F, D); see `Pass`."""
    if layout.model.density is None:
        return GaussianPass(Pass(layout, thetas, paths, end, states=states, wanted=wanted))
    return LaplacePass(layout, thetas, paths, end)
