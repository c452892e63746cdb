"""Closed forms of Gaussian emissions with full or tied covariances, for rows without missing channels.

With the Cholesky factor L of a covariance, W = L^-1, S a matrix of weighted squares and M = W S W', the
function f(L) = -1/2 trace(W S W') has the derivatives

    df / dL_ab             =  (W' M)_ab                                      a >= b
    d2f / dL_ab dL_cd      = -M_bd (W'W)_ac - W_bc (M W)_da - W_da (M W)_bc

Free coordinates are the entries of L row by row, with logarithms on the diagonal, and then the means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitonce.core.numerics import unless_singular
from fitonce.models.emissions.closed_forms import LOG_2PI, ClosedForms, Observations, Values
from fitonce.models.emissions.closed_gaussian import NormalPrior


@dataclass(frozen=True)
class ClosedFullGaussian(ClosedForms):
    """`prior` with squares (C, C); `tied`: whether all states share a covariance."""

    prior: NormalPrior
    tied: bool = False

    @property
    def shared(self) -> tuple[str, ...]:
        return ("covariance",) if self.tied else ()

    def _factors(self, values: Values) -> list[list[tuple[np.ndarray, np.ndarray]]]:
        """The Cholesky factor and its inverse, for each state and fold."""
        covariance = values["covariance"][None] if self.tied else values["covariance"]
        factors = unless_singular(np.linalg.cholesky, np.moveaxis(covariance, -1, 1))
        inverses = np.linalg.inv(factors)
        pairs = [list(zip(*both, strict=True)) for both in zip(factors, inverses, strict=True)]
        return pairs * len(values["mean"]) if self.tied else pairs

    def _factors_alone(self, values: Values) -> list[tuple[np.ndarray, np.ndarray]]:
        """The same for each state, where there is no axis of folds."""
        return [pairs[0] for pairs in self._factors(values.lifted())]

    def operations(self, states: int, rows: Observations) -> int:
        return states * rows.x.size * rows.x.shape[1]

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        mean = values["mean"]
        states, channels, folds = mean.shape
        factors, found = self._factors(values), np.empty((len(rows.x), states, folds))
        for k in range(states):
            for f in range(folds):
                factor, inverse = factors[k][f]
                white = (rows.x - mean[k, :, f]) @ inverse.T
                constant = 2.0 * np.log(np.diagonal(factor)).sum() + channels * LOG_2PI
                found[:, k, f] = -0.5 * (np.einsum("rc,rc->r", white, white) + constant)
        return found

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        mean = values["mean"]
        states, channels, folds = mean.shape
        factors, found = self._factors(values), np.empty((states, _width(channels) + channels, folds))
        for k in range(states):
            for f in range(folds):
                mass, first, second = _moments(rows.x - mean[k, :, f], shares[:, k, f])
                factor, inverse = factors[k][f]
                found[k, :, f] = np.append(
                    _slope(factor, inverse, mass, second), inverse.T @ (inverse @ first)
                )
        return found

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        mean = values["mean"]
        states, channels = mean.shape
        lower = np.tril_indices(channels)
        found = np.empty((len(rows.x), states, _width(channels) + channels))
        for k, (factor, inverse) in enumerate(self._factors_alone(values)):
            white = (rows.x - mean[k]) @ inverse.T
            solved = white @ inverse
            by_factor = solved[:, lower[0]] * white[:, lower[1]]
            on_diagonal = lower[0] == lower[1]
            by_factor[:, on_diagonal] = by_factor[:, on_diagonal] * np.diagonal(factor) - 1.0
            found[:, k] = np.concatenate([by_factor, solved], 1)
        return found

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        found = []
        for k, (factor, inverse) in enumerate(self._factors_alone(values)):
            mass, first, second = _moments(rows.x - values["mean"][k], shares[:, k])
            found.append(_matrix(factor, inverse, mass, first, second))
        return np.stack(found)

    def _of_covariance(self, state: int) -> tuple[float, np.ndarray]:
        """Strength and squares of the prior; a covariance that states share has one prior, that of the
        first."""
        once = 0.0 if self.tied and state else 1.0
        return once * self.prior.strength, once * self.prior.squares

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        away, prior = self.prior.away(values["mean"]), self.prior
        total = -0.5 * prior.precision * np.sum(away**2, (0, 1))
        for k, pairs in enumerate(self._factors(values)):
            strength, squares = self._of_covariance(k)
            for f, (factor, inverse) in enumerate(pairs):
                log_det = 2.0 * np.log(np.diagonal(factor)).sum()
                trace = np.sum((inverse @ squares) * inverse)
                pulled = prior.mean_weight * np.sum((inverse @ away[k, :, f]) ** 2)
                total[f] -= 0.5 * (strength * log_det + trace + pulled)
        return total

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        away, weight = self.prior.away(values["mean"]), self.prior.mean_weight
        states, channels, folds = away.shape
        found = np.empty((states, _width(channels) + channels, folds))
        for k, pairs in enumerate(self._factors(values)):
            strength, squares = self._of_covariance(k)
            for f, (factor, inverse) in enumerate(pairs):
                gap = away[k, :, f]
                slope = _slope(factor, inverse, strength, squares + weight * np.outer(gap, gap))
                pull = -weight * inverse.T @ (inverse @ gap) - self.prior.precision * gap
                found[k, :, f] = np.append(slope, pull)
        return found

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        away, weight = self.prior.away(values["mean"]), self.prior.mean_weight
        found = []
        for k, (factor, inverse) in enumerate(self._factors_alone(values)):
            square = self._of_covariance(k)[1] + weight * np.outer(away[k], away[k])
            found.append(_matrix(factor, inverse, weight, -weight * away[k], square))
        own = np.arange(_width(away.shape[1]), found[0].shape[0])
        curvature = np.stack(found)
        curvature[:, own, own] -= self.prior.precision
        return curvature


def _width(channels: int) -> int:
    return channels * (channels + 1) // 2


def _moments(residual: np.ndarray, shares: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Sums of shares, of shares times residuals (C,) and times their products (C, C)."""
    weighted = shares[:, None] * residual
    return shares.sum(), weighted.sum(0), weighted.T @ residual


def _slope(factor: np.ndarray, inverse: np.ndarray, mass: float, square: np.ndarray) -> np.ndarray:
    """Derivatives of f(L) - mass log det L by the free coordinates of L."""
    rows, columns = np.tril_indices(len(factor))
    found = (inverse.T @ (inverse @ square @ inverse.T))[rows, columns]
    on_diagonal = rows == columns
    found[on_diagonal] = found[on_diagonal] * np.diagonal(factor) - mass
    return found


def _matrix(
    factor: np.ndarray, inverse: np.ndarray, mass: float, first: np.ndarray, square: np.ndarray
) -> np.ndarray:
    """Second derivatives by the free coordinates of L and by the mean, from moments around it."""
    channels = len(factor)
    a, b = np.tril_indices(channels)
    precision, middle = inverse.T @ inverse, inverse @ square @ inverse.T
    through = middle @ inverse  # M W
    by_factor = -middle[np.ix_(b, b)] * precision[np.ix_(a, a)]
    # d2f[ab, cd] has W_bc (M W)_da and the same with both pairs exchanged.
    mixed = inverse[b[:, None], a[None]] * through[b[None], a[:, None]]
    by_factor -= mixed + mixed.T
    scale = np.where(a == b, factor[a, a], 1.0)
    slope = (inverse.T @ middle)[a, b]
    by_factor = by_factor * scale[:, None] * scale + np.diag(np.where(a == b, slope * scale, 0.0))
    white, solved = inverse @ first, precision @ first
    cross = -(precision[:, a] * white[b] + inverse[b].T * solved[a]) * scale
    return np.block([[by_factor, cross.T], [cross, -mass * precision]])
