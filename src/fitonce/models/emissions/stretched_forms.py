"""Closed forms by free coordinates that are counted in units of the data, see `core.units`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitonce.models.emissions.closed_forms import ClosedForms, Observations, Values


@dataclass(frozen=True, eq=False)
class StretchedForms(ClosedForms):
    """`plain` closed forms by the coordinates of plain constraints, times `stretch` (K, P)."""

    plain: ClosedForms
    stretch: np.ndarray

    @property
    def shared(self) -> tuple[str, ...]:
        return self.plain.shared

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        return self.plain.log_density(values, rows)

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        return self.stretch[..., None] * self.plain.slopes(values, shares, rows)

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        return self.stretch * self.plain.scores(values, rows)

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        return self._twice(self.plain.curvature(values, shares, rows))

    def metric(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        return self._twice(self.plain.metric(values, shares, rows))

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        return self.plain.log_prior(values, rows)

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        return self.stretch[..., None] * self.plain.prior_slopes(values, rows)

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        return self._twice(self.plain.prior_curvature(values, rows))

    def _twice(self, blocks: np.ndarray) -> np.ndarray:
        return self.stretch[:, :, None] * blocks * self.stretch[:, None, :]
