"""Closed forms of Gaussian regressions whose parts each state has for itself or all have in common.

With the design z of a row, coefficients b of a state and channel, residual e = x - b . z and v = exp(n),

    log p = -e^2 / (2 v) - n / 2

has the slopes z e / v by b and (e^2 / v - 1) / 2 by n, and the second derivatives -z z' / v, -z e / v
and -e^2 / (2 v). Channels are independent, and missing ones contribute nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitonce.models.emissions.closed_channels import COEFFICIENTS, COMMON
from fitonce.models.emissions.closed_forms import LOG_2PI, ClosedForms, Observations, Values, diagonal


@dataclass(frozen=True, eq=False)
class ClosedSwitchingRegression(ClosedForms):
    """Args:
    own: how many covariates have coefficients of each state; they come first.
    level: whether there is a mean.
    common: names of the parameters that all states share.
    strength, squares: prior of variances, `squares` (C,).
    precision: (C, Q) of the prior of coefficients, own ones first.
    """

    own: int
    level: bool
    common: tuple[str, ...]
    strength: float
    squares: np.ndarray
    precision: np.ndarray

    @property
    def shared(self) -> tuple[str, ...]:
        return self.common

    def design(self, rows: Observations) -> np.ndarray:
        """(R, q): own covariates, one for the mean, those in common."""
        ones = np.ones((len(rows.x), int(self.level)))
        return np.concatenate([rows.covariates[:, : self.own], ones, rows.covariates[:, self.own :]], 1)

    def _places(self) -> np.ndarray:
        """(C, q + 1) the coordinates of each channel's coefficients, in the order of the design, and of
        its variance; coordinates are in the order of the names of parameters."""
        channels, total = self.precision.shape
        sizes = (self.own, int(self.level), total - self.own, 1)
        starts = np.cumsum([0, *sizes]) * channels
        parts = [
            start + np.arange(channels * size).reshape(channels, size)
            for start, size in zip(starts, sizes, strict=False)
        ]
        return np.concatenate(parts, 1)

    def _coefficients(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """(K, C, q, ...) of all states and (K, C, ...) their variances."""
        used = {
            name: values[name] for name in (COEFFICIENTS, "mean", COMMON, "variance") if name in values
        }
        states = next(len(value) for name, value in used.items() if name not in self.common)
        for name in self.common:
            used[name] = np.repeat(used[name][None], states, 0)
        variance = used.pop("variance")
        if self.level:
            used["mean"] = used["mean"][:, :, None]
        none = np.zeros((*variance.shape[:2], 0, *variance.shape[2:]))
        return np.concatenate([none, *used.values()], 2), variance

    def _residual(self, coefficients: np.ndarray, rows: Observations) -> np.ndarray:
        """(R, K, C, ...), zero where missing."""
        more = (1,) * (coefficients.ndim - 3)
        x, seen = (part.reshape(len(part), 1, -1, *more) for part in (rows.x, rows.seen))
        return (x - np.tensordot(self.design(rows), coefficients, (1, 2))) * seen

    def operations(self, states: int, rows: Observations) -> int:
        return states * rows.x.size * (rows.covariates.shape[1] + 4)

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        coefficients, variance = self._coefficients(values)
        found = self._residual(coefficients, rows)
        np.square(found, out=found)
        found /= variance
        return -0.5 * (found.sum(2) + np.tensordot(rows.seen, np.log(variance) + LOG_2PI, (1, 1)))

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        coefficients, variance = self._coefficients(values)
        residual = self._residual(coefficients, rows)
        pulled = shares[:, :, None] * residual
        by_coefficient = np.tensordot(self.design(rows), pulled, (0, 0))  # (q, K, C, F)
        squares = np.einsum("rkcf,rkcf->kcf", pulled, residual)
        mass = np.moveaxis(np.tensordot(rows.seen, shares, (0, 0)), 0, 1)
        by_variance = 0.5 * (squares / variance - mass)
        return self._joined(np.moveaxis(by_coefficient, 0, 2) / variance[:, :, None], by_variance)

    def _joined(self, by_coefficient: np.ndarray, by_variance: np.ndarray) -> np.ndarray:
        """(K, P, ...) from derivatives (K, C, q, ...) and (K, C, ...)."""
        both = np.concatenate([by_coefficient, by_variance[:, :, None]], 2)
        found = np.empty((len(both), self._places().size, *both.shape[3:]))
        found[:, self._places()] = both
        return found

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        coefficients, variance = self._coefficients(values)
        residual = self._residual(coefficients, rows)
        by_coefficient = residual[..., None] * self.design(rows)[:, None, None] / variance[..., None]
        by_variance = 0.5 * (residual**2 / variance - rows.seen[:, None])
        both = np.concatenate([by_coefficient, by_variance[..., None]], 3)
        found = np.empty((*both.shape[:2], self._places().size))
        found[:, :, self._places()] = both
        return found

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        coefficients, variance = self._coefficients(values)
        residual, design, places = self._residual(coefficients, rows), self.design(rows), self._places()
        found = np.zeros((len(variance), places.size, places.size))
        for channel, place in enumerate(places):
            for state, share in enumerate(shares.T):
                e, v = residual[:, state, channel], variance[state, channel]
                block = np.empty((len(place), len(place)))
                block[:-1, :-1] = (design * (share * rows.seen[:, channel])[:, None]).T @ design
                block[:-1, -1] = block[-1, :-1] = design.T @ (share * e)
                block[-1, -1] = 0.5 * share @ e**2
                found[state][np.ix_(place, place)] = -block / v
        return found

    # --- priors ----------------------------------------------------------------------------------------

    def once(self, states: int) -> np.ndarray:
        """(K, C, q + 1) ones, and zeros for what states share in all but the first."""
        channels, total = self.precision.shape
        parts = [
            (COEFFICIENTS, self.own),
            ("mean", int(self.level)),
            (COMMON, total - self.own),
            ("variance", 1),
        ]
        common = np.concatenate([np.full(size, name in self.common) for name, size in parts])
        later = np.arange(states) > 0
        kept = 1.0 - (later[:, None] & common)
        return np.repeat(kept[:, None], channels, 1)

    def weights(self) -> np.ndarray:
        """(C, q) precisions in the order of the design, zero of the mean."""
        flat = np.zeros((len(self.precision), int(self.level)))
        return np.concatenate([self.precision[:, : self.own], flat, self.precision[:, self.own :]], 1)

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        coefficients, variance = self._coefficients(values)
        once = self.once(len(variance))[..., None]
        total = np.sum(once[:, :, :-1] * self.weights()[..., None] * coefficients**2, (0, 1, 2))
        of_variance = self.strength * np.log(variance) + self.squares[:, None] / variance
        return -0.5 * (total + np.sum(once[:, :, -1] * of_variance, (0, 1)))

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        coefficients, variance = self._coefficients(values)
        once = self.once(len(variance))[..., None]
        by_coefficient = -self.weights()[..., None] * coefficients
        by_variance = 0.5 * (self.squares[:, None] / variance - self.strength)
        return self._joined(once[:, :, :-1] * by_coefficient, once[:, :, -1] * by_variance)

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        _, variance = self._coefficients(values)
        once = self.once(len(variance))
        by_variance = -0.5 * self.squares / variance
        return diagonal(self._joined(-once[:, :, :-1] * self.weights(), once[:, :, -1] * by_variance))
