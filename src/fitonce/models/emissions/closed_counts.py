"""Closed forms of Poisson, binomial, categorical and multinomial emissions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.models.emissions.closed_forms import (
    ClosedForms,
    Observations,
    Values,
    diagonal,
    sums_over_rows,
    x_log,
)


@dataclass(frozen=True)
class ClosedPoisson(ClosedForms):
    """Free coordinates are log rates; the prior is Gamma(shape, rate)."""

    shape: float
    rate: float

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        rate = values["rate"]
        logs = _product(rows.x * rows.seen, np.log(rate))
        return logs - _product(rows.seen, rate) + rows.constant[:, None, None]

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        counted = sums_over_rows(rows.x * rows.seen, shares)
        return counted - values["rate"] * sums_over_rows(rows.seen, shares)

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        return rows.seen[:, None] * (rows.x[:, None] - values["rate"])

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        return diagonal(-values["rate"] * (shares.T @ rows.seen))

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        rate = values["rate"]
        return np.sum(x_log(self.shape - 1.0, rate) - self.rate * rate, (0, 1))

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        return self.shape - 1.0 - self.rate * values["rate"]

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        return diagonal(-self.rate * values["rate"])


@dataclass(frozen=True)
class ClosedBinomial(ClosedForms):
    """Free coordinates are log-odds; the prior is Beta(a, b)."""

    a: float
    b: float
    trials: float

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        rate, failures = values["rate"], self.trials - rows.x
        logs = _product(rows.x * rows.seen, np.log(rate))
        return logs + _product(failures * rows.seen, np.log1p(-rate)) + rows.constant[:, None, None]

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        counted = sums_over_rows(rows.x * rows.seen, shares)
        return counted - self.trials * values["rate"] * sums_over_rows(rows.seen, shares)

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        return rows.seen[:, None] * (rows.x[:, None] - self.trials * values["rate"])

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        rate = values["rate"]
        return diagonal(-self.trials * rate * (1.0 - rate) * (shares.T @ rows.seen))

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        rate = values["rate"]
        return np.sum(x_log(self.a - 1.0, rate) + x_log(self.b - 1.0, 1.0 - rate), (0, 1))

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        return self.a - 1.0 - (self.a + self.b - 2.0) * values["rate"]

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        rate = values["rate"]
        return diagonal(-(self.a + self.b - 2.0) * rate * (1.0 - rate))


@dataclass(frozen=True)
class ClosedCategorical(ClosedForms):
    """Free coordinates are log-ratios to the last category, by channel; the prior is Dirichlet, with a
    concentration for all categories, or one for each."""

    n_categories: int
    concentration: Any

    def _counts(self, rows: Observations) -> np.ndarray:
        """(R, C, M) ones at the category of each value, zeros where missing."""
        return (rows.x[..., None] == np.arange(self.n_categories)) * rows.seen[..., None]

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        logs = np.log(values["probability"])  # (K, C, M, F)
        found = np.zeros((len(rows.x), len(logs), logs.shape[-1]))
        category = rows.x.astype(int)
        for channel in range(rows.x.shape[1]):
            chosen = np.moveaxis(logs[:, channel], 1, 0)[category[:, channel]]
            found += rows.seen[:, channel, None, None] * chosen
        return found

    def _free(self, counted: np.ndarray, probability: np.ndarray) -> np.ndarray:
        """Counts (K, C, M, ...) minus what is expected of them, in free coordinates (K, P, ...)."""
        excess = counted - counted.sum(2, keepdims=True) * probability
        return excess[:, :, :-1].reshape(len(excess), -1, *excess.shape[3:])

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        counts = self._counts(rows)
        counted = sums_over_rows(counts.reshape(len(rows.x), -1), shares)
        return self._free(counted.reshape(values["probability"].shape), values["probability"])

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        probability, counts = values["probability"], self._counts(rows)
        excess = counts[:, None] - counts.sum(2)[:, None, :, None] * probability
        return excess[..., :-1].reshape(len(rows.x), len(probability), -1)

    def _spread(self, totals: np.ndarray, probability: np.ndarray) -> np.ndarray:
        """(K, P, P): minus totals (K, C) times the covariance of a draw, one block for each channel."""
        states, channels, categories = probability.shape
        width = categories - 1
        found = np.zeros((states, channels, width, channels, width))
        p = probability[..., :-1]
        for channel in range(channels):
            own = p[:, channel]
            block = diagonal(own) - own[:, :, None] * own[:, None]
            found[:, channel, :, channel] = -totals[:, channel, None, None] * block
        return found.reshape(states, channels * width, channels * width)

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        return self._spread(shares.T @ self._counts(rows).sum(2), values["probability"])

    def _excess(self, probability: np.ndarray) -> np.ndarray:
        """Concentrations less one, of the shape of probabilities (K, C, M, ...)."""
        excess = np.broadcast_to(np.asarray(self.concentration) - 1.0, probability.shape[:3])
        shape = (*excess.shape, *(1,) * (probability.ndim - 3))
        return np.broadcast_to(excess.reshape(shape), probability.shape)

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        probability = values["probability"]
        return np.sum(x_log(self._excess(probability), probability), (0, 1, 2))

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        probability = values["probability"]
        return self._free(self._excess(probability), probability)

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        probability = values["probability"]
        return self._spread(self._excess(probability).sum(2), probability)


@dataclass(frozen=True)
class ClosedMultinomial(ClosedCategorical):
    """The same for counts of categories, groups of `n_categories` channels."""

    def _counts(self, rows: Observations) -> np.ndarray:
        return (rows.x * rows.seen).reshape(len(rows.x), -1, self.n_categories)

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        logs = np.log(values["probability"])
        flat = logs.reshape(len(logs), -1, logs.shape[-1])
        return _product(rows.x * rows.seen, flat) + rows.constant[:, None, None]


def _product(features: np.ndarray, natural: np.ndarray) -> np.ndarray:
    """(R, K, F): the sum over channels of features (R, C) times (K, C, F)."""
    states, channels, folds = natural.shape
    flat = np.swapaxes(natural, 0, 1).reshape(channels, -1)
    return (features @ flat).reshape(len(features), states, folds)
