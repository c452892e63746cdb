"""Closed forms of Gaussian emissions with fixed, spherical, diagonal or full covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.native import compiled
from fitonce.models.emissions.closed_forms import LOG_2PI, ClosedForms, Observations, Values, diagonal


@compiled
def _squares(x, seen, mean, precision, constant, found):  # type: ignore[no-untyped-def]
    """found (R, K, F): -1/2 sum over channels of (x - mean)^2 precision + constant, where seen."""
    count, channels = x.shape
    states, _, folds = mean.shape
    for r in range(count):
        for k in range(states):
            for f in range(folds):
                found[r, k, f] = 0.0
            for c in range(channels):
                if seen[r, c] != 0.0:
                    for f in range(folds):
                        residual = x[r, c] - mean[k, c, f]
                        square = residual * residual * precision[k, c, f]
                        found[r, k, f] -= 0.5 * (square + constant[k, c, f])


@compiled
def _moments(x, seen, mean, shares, found):  # type: ignore[no-untyped-def]
    """found (3, K, C, F): sums of shares (R, K, F) times 1, x - mean and (x - mean)^2, where seen."""
    count, channels = x.shape
    states, _, folds = mean.shape
    found[:] = 0.0
    for r in range(count):
        for k in range(states):
            for c in range(channels):
                if seen[r, c] != 0.0:
                    for f in range(folds):
                        residual = x[r, c] - mean[k, c, f]
                        share = shares[r, k, f]
                        found[0, k, c, f] += share
                        found[1, k, c, f] += share * residual
                        found[2, k, c, f] += share * residual * residual


def _moments_of(mean: np.ndarray, shares: np.ndarray, rows: Observations) -> np.ndarray:
    """(3, K, C, F)."""
    found = np.empty((3, *mean.shape))
    arrays = (rows.x, rows.seen, mean, shares)
    _moments(*map(np.ascontiguousarray, arrays), found)
    return found


class NormalPrior(NamedTuple):
    """Of means and covariances, see `Gaussian`; `centre` is (C,) or (), `squares` the same, or (C, C) of
    matrices."""

    mean_scale: float | None
    centre: np.ndarray
    mean_weight: float
    strength: float
    squares: np.ndarray
    variance_rate: float

    @property
    def precision(self) -> float:
        """Of means, whatever their covariance."""
        return 0.0 if self.mean_scale is None else self.mean_scale**-2.0

    def away(self, mean: np.ndarray) -> np.ndarray:
        """Means (K, C, ...) less their centre."""
        return mean - self.centre.reshape(1, -1, *(1,) * (mean.ndim - 2))


@dataclass(frozen=True)
class ClosedGaussian(ClosedForms):
    """Independent channels. Free coordinates of a state are its means and, where they are learned, the
    logarithms of its variances: one for each channel, or one for all if `spherical`.

    Args:
        learned: whether variances are parameters.
        spherical: whether they are shared by the channels of a state.
        fixed_variance: a number or (C,), used where they are not learned.
        prior: of means and variances.
    """

    learned: bool
    spherical: bool
    fixed_variance: Any
    prior: NormalPrior

    def _variance(self, values: Values) -> np.ndarray:
        mean = values["mean"]
        if not self.learned:
            fixed = np.broadcast_to(np.asarray(self.fixed_variance, float), mean.shape[1:2])
            return np.broadcast_to(fixed.reshape(1, -1, *(1,) * (mean.ndim - 2)), mean.shape)
        variance = values["variance"]
        return np.broadcast_to(variance[:, None], mean.shape) if self.spherical else variance

    def _joined(self, by_mean: np.ndarray, by_variance: np.ndarray, axis: int) -> np.ndarray:
        """Derivatives by means and by log variances, both with channels in `axis`, one after another."""
        if not self.learned:
            return by_mean
        if self.spherical:
            by_variance = by_variance.sum(axis, keepdims=True)
        return np.concatenate([by_mean, by_variance], axis)

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        variance = self._variance(values)
        found = np.empty((len(rows.x), variance.shape[0], variance.shape[2]))
        parts = (rows.x, rows.seen, values["mean"], 1.0 / variance, np.log(variance) + LOG_2PI)
        _squares(*map(np.ascontiguousarray, parts), found)
        return found

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        variance = self._variance(values)
        mass, first, second = _moments_of(values["mean"], shares, rows)
        return self._joined(first / variance, 0.5 * (second / variance - mass), 1)

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        variance, seen = self._variance(values), rows.seen[:, None]
        residual = seen * (rows.x[:, None] - values["mean"])
        return self._joined(residual / variance, 0.5 * (residual**2 / variance - seen), 2)

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        variance = self._variance(values)
        mass, first, second = _moments_of(values["mean"][..., None], shares[..., None], rows)[..., 0]
        return self._matrix(-mass / variance, -first / variance, -0.5 * second / variance)

    def _matrix(self, means: np.ndarray, cross: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """(K, P, P) from entries (K, C): of means, of a mean with its log variance, of log variances."""
        if not self.learned:
            return diagonal(means)
        if self.spherical:
            corner = variances.sum(1)[:, None, None]
            return np.block([[diagonal(means), cross[..., None]], [cross[:, None], corner]])
        across = diagonal(cross)
        return np.block([[diagonal(means), across], [across, diagonal(variances)]])

    def _squares(self, mean: np.ndarray) -> np.ndarray:
        """Those of the prior: pseudo-observations, and those at the centre of means."""
        own = self.prior.squares.reshape(1, -1, *(1,) * (mean.ndim - 2))
        return own + self.prior.mean_weight * self.prior.away(mean) ** 2

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        mean, variance, prior = values["mean"], self._variance(values), self.prior
        total = -0.5 * prior.precision * prior.away(mean) ** 2
        if self.learned:
            total = total - 0.5 * (prior.strength * np.log(variance) + self._squares(mean) / variance)
            total = total - prior.variance_rate * variance
        else:
            total = total - 0.5 * prior.mean_weight * prior.away(mean) ** 2 / variance
        return np.sum(total, (0, 1))

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        mean, variance, prior = values["mean"], self._variance(values), self.prior
        pull = -(prior.precision + prior.mean_weight / variance) * prior.away(mean)
        spread = 0.5 * (self._squares(mean) / variance - prior.strength)
        return self._joined(pull, spread - prior.variance_rate * variance, 1)

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        mean, variance, prior = values["mean"], self._variance(values), self.prior
        pull = -(prior.precision + prior.mean_weight / variance)
        bend = -0.5 * self._squares(mean) / variance - prior.variance_rate * variance
        return self._matrix(pull, prior.mean_weight * prior.away(mean) / variance, bend)
