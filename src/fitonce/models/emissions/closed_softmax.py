"""Closed forms of regressions of categories: the softmax of a linear function of covariates.

The log-ratio of category j to the last one is free_j + coefficients_j . u, so that with d = (u, 1)
derivatives by both are residuals (indicator - probability) times d, and minus the covariance of a draw
times d d'. Free coordinates of a state are its coefficients, and then log-ratios where u is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitonce.models.emissions.closed_channels import COEFFICIENTS, Prior
from fitonce.models.emissions.closed_counts import ClosedCategorical
from fitonce.models.emissions.closed_forms import ClosedForms, Observations, Values
from fitonce.models.emissions.densities import numpy_maths


@dataclass(frozen=True, eq=False)
class ClosedSoftmax(ClosedForms):
    """Args:
    plain: the categories without covariates, whose prior that of the probabilities is.
    coefficients: the prior of the coefficients.
    """

    plain: ClosedCategorical
    coefficients: Prior

    def numbers(self, states: int, rows: Observations) -> int:
        return 3 * states * rows.x.size * self.plain.n_categories

    def operations(self, states: int, rows: Observations) -> int:
        return self.numbers(states, rows) * (rows.covariates.shape[1] + 5)

    def _log_probabilities(self, values: Values, rows: Observations) -> np.ndarray:
        """(R, K, C, M, F)."""
        found = np.repeat(np.log(values["probability"])[None], len(rows.x), 0)
        found[:, :, :, :-1] += np.tensordot(rows.covariates, values[COEFFICIENTS], (1, 3))
        found -= found.max(3, keepdims=True)
        return found - np.log(np.exp(found).sum(3, keepdims=True))

    def _indicators(self, rows: Observations) -> np.ndarray:
        """(R, C, M), zeros where missing."""
        return (rows.x[..., None] == np.arange(self.plain.n_categories)) * rows.seen[..., None]

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        logs = self._log_probabilities(values, rows)
        return np.einsum("rkcmf,rcm->rkf", logs, self._indicators(rows))

    def _residuals(self, values: Values, rows: Observations) -> np.ndarray:
        """(R, K, C, M - 1, F): indicators less probabilities, zero where missing."""
        expected = np.exp(self._log_probabilities(values, rows)[:, :, :, :-1])
        seen = rows.seen[:, None, :, None, None]
        return self._indicators(rows)[:, None, :, :-1, None] - seen * expected

    def _design(self, rows: Observations) -> np.ndarray:
        return np.concatenate([rows.covariates, np.ones((len(rows.x), 1))], 1)

    def _joined(self, found: np.ndarray) -> np.ndarray:
        """(..., C, M - 1, Q + 1, F) to (..., P, F)."""
        shape = (*found.shape[:-4], -1, found.shape[-1])
        parts = (found[..., :-1, :], found[..., -1:, :])
        return np.concatenate([part.reshape(shape) for part in parts], -2)

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        weighted = shares[:, :, None, None] * self._residuals(values, rows)
        return self._joined(np.einsum("rkcjf,rq->kcjqf", weighted, self._design(rows)))

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        residuals = self._residuals(values.lifted(), rows)
        design = self._design(rows)[:, None, None, None, :, None]
        return self._joined(residuals[:, :, :, :, None] * design)[..., 0]

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        lifted, design = values.lifted(), self._design(rows)
        p = np.exp(self._log_probabilities(lifted, rows)[:, :, :, :-1, 0])  # (R, K, C, M - 1)
        _, states, channels, width = p.shape
        size = width * design.shape[1]
        found = np.zeros((states, channels, size, channels, size))
        for channel in range(channels):
            weights = shares * rows.seen[:, channel, None]
            own = p[:, :, channel]
            spread = own[..., None] * (np.eye(width) - own[:, :, None])
            blocks = np.einsum("rk,rkij,ra,rb->kiajb", weights, spread, design, design, optimize=True)
            found[:, channel, :, channel] = -blocks.reshape(states, size, size)
        grid = np.arange(channels * size).reshape(channels, width, -1)
        order = np.concatenate([grid[..., :-1].ravel(), grid[..., -1].ravel()])
        return found.reshape(states, len(order), len(order))[:, order[:, None], order]

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        of_coefficients = self.coefficients.log(values[COEFFICIENTS], numpy_maths())
        return self.plain.log_prior(values, rows) + of_coefficients.sum((0, 1, 2, 3))

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        slope = self.coefficients.slope(values[COEFFICIENTS])
        plain = self.plain.prior_slopes(values, rows)
        return np.concatenate([slope.reshape(len(slope), -1, slope.shape[-1]), plain], 1)

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        at = values[COEFFICIENTS]
        second = self.coefficients.second(at[..., None]).reshape(len(at), -1)
        plain = self.plain.prior_curvature(values, rows)
        size, width = second.shape[1], second.shape[1] + plain.shape[1]
        found = np.zeros((len(at), width, width))
        found[:, np.arange(size), np.arange(size)] = second
        found[:, size:, size:] = plain
        return found
