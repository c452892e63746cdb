"""Closed forms of regressions on known quantities, with noise of one variance in all channels.

With residual e of C channels, and variance v = exp(n),

    log p = -|e|^2 / (2 v) - C n / 2

has the slopes g / v by coefficients, where g are those of -|e|^2 / 2, and (|e|^2 / v - C) / 2 by n. Its
second derivatives are those of -|e|^2 / 2 over v for coefficients, -g / v for those and n, and
-|e|^2 / (2 v) for n. Where some channels are missing, C is the number of the others.

Free coordinates of a state are its biases, the log variance if it is learned, and its weights.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.core.native import compiled
from fitonce.models.emissions.closed_forms import LOG_2PI, ClosedForms, Observations, Values, diagonal

_BLOCK_BYTES = 2**20  # of residuals at a time, so that they stay near the processor


@dataclass(frozen=True)
class ClosedRegression(ClosedForms):
    """A subclass has squares |e|^2 and their derivatives by P' coefficients: biases, then weights.

    Args:
        noise: "fixed", "shared" or "state", see `NoiseModel`.
        variance: that of fixed noise.
        strength, prior_variance: of the prior of learned variances.
    """

    noise: str
    variance: float
    strength: float
    prior_variance: float

    @abstractmethod
    def coefficients(self, values: Values) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Biases and weights."""

    @abstractmethod
    def prior(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """(P',) mean and precision of the coefficients of each state."""

    @abstractmethod
    def squares(self, values: Values, rows: Observations) -> np.ndarray:
        """(R, K, F)."""

    @abstractmethod
    def pulls(
        self, values: Values, shares: np.ndarray, rows: Observations
    ) -> tuple[np.ndarray, np.ndarray]:
        """(K, P', F) slopes of -1/2 sum_r shares[r, k, f] |e|^2, and the sums themselves (K, F) without
        the factor."""

    @abstractmethod
    def pulls_of_rows(self, values: Values, rows: Observations) -> np.ndarray:
        """(R, K, P') slopes of -|e|^2 / 2, of one fold."""

    @abstractmethod
    def hessian_of_squares(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        """(K, P', P') second derivatives of 1/2 sum_r shares[r, k] |e|^2, of one fold."""

    @property
    def shared(self) -> tuple[str, ...]:
        return ("variance",) if self.noise == "shared" else ()

    def flat(self, values: Values) -> np.ndarray:
        """(K, P', ...)."""
        biases, weights = self.coefficients(values)
        rest = biases[0].shape[2:]
        return np.concatenate([part.reshape(len(part), -1, *rest) for part in biases + weights], 1)

    def variance_place(self, values: Values) -> int:
        """Of the log variance among the coordinates."""
        return sum(part.shape[1] for part in self.coefficients(values)[0])

    def _joined(self, values: Values, by_coefficient: np.ndarray, by_noise: np.ndarray) -> np.ndarray:
        """(K, P, ...) from derivatives (K, P', ...) and (K, ...)."""
        if self.noise == "fixed":
            return by_coefficient
        return np.insert(by_coefficient, self.variance_place(values), by_noise, 1)

    def variance_of(self, values: Values) -> np.ndarray:
        """(K, F), or (K,) without an axis for folds."""
        variance = values.get("variance", np.asarray(self.variance))
        return np.broadcast_to(variance, self.coefficients(values)[0][0][:, 0].shape)

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        variance, seen = self.variance_of(values), rows.seen.sum(1)[:, None, None]
        squares = self.squares(values, rows)
        return -0.5 * (squares / variance + seen * (np.log(variance) + LOG_2PI))

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        variance = self.variance_of(values)
        pulls, squares = self.pulls(values, shares, rows)
        mass = np.tensordot(rows.seen.sum(1), shares, 1)
        return self._joined(values, pulls / variance[:, None], 0.5 * (squares / variance - mass))

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        variance = self.variance_of(values)
        squares = self.squares(values.lifted(), rows)[..., 0]
        by_noise = 0.5 * (squares / variance - rows.seen.sum(1)[:, None])
        pulls = self.pulls_of_rows(values, rows) / variance[:, None]
        if self.noise == "fixed":
            return pulls
        return np.insert(pulls, self.variance_place(values), by_noise, 2)

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        variance = self.variance_of(values)
        found = -self.hessian_of_squares(values, shares, rows) / variance[:, None, None]
        if self.noise == "fixed":
            return found
        pulls, squares = self.pulls(values.lifted(), shares[..., None], rows)
        place, cross = self.variance_place(values), -pulls[..., 0] / variance[:, None]
        corner = -0.5 * squares[:, 0] / variance
        beside = np.insert(cross, place, corner, 1)
        found = np.insert(found, place, cross, 1)
        return np.insert(found, place, beside, 2)

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        off, precision = self._off(values)
        total = -0.5 * np.tensordot(precision, (off**2).sum(0), 1)
        if self.noise == "fixed":
            return total
        variance = np.atleast_2d(values["variance"])
        spread = np.sum(np.log(variance) + self.prior_variance / variance, 0)
        return total - 0.5 * self.strength * rows.x.shape[1] * spread

    def _off(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """(K, P', ...) coefficients less their prior mean, and the precision (P',)."""
        mean, precision = self.prior(values)
        flat = self.flat(values)
        return flat - mean.reshape(-1, *(1,) * (flat.ndim - 2)), precision

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        off, precision = self._off(values)
        strength = 0.5 * self.strength * rows.x.shape[1]
        by_noise = strength * (self.prior_variance / self.variance_of(values) - 1.0)
        return self._joined(values, -precision[:, None] * off, self._once(by_noise))

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        off, precision = self._off(values)
        by_noise = (
            -0.5 * self.strength * rows.x.shape[1] * self.prior_variance / self.variance_of(values)
        )
        bend = np.broadcast_to(-precision, off.shape)
        return diagonal(self._joined(values, bend, self._once(by_noise)))

    def _once(self, by_noise: np.ndarray) -> np.ndarray:
        """(K, ...): a shared variance has one prior, here that of the first state."""
        if self.noise == "shared":
            by_noise = np.where(np.arange(len(by_noise)) == 0, by_noise.T, 0.0).T
        return by_noise


@dataclass(frozen=True)
class ClosedLinearRegression(ClosedRegression):
    """`bias` (K, C) and, if there are covariates, `weight` (K, C, Q).

    Args:
        weight_scale, bias_scale: prior standard deviations around the identity and around zero; None:
            flat.
    """

    weight_scale: float | None
    bias_scale: float | None

    def numbers(self, states: int, rows: Observations) -> int:
        return states * len(rows.x)

    def operations(self, states: int, rows: Observations) -> int:
        return states * rows.x.size * (rows.covariates.shape[1] + 3)

    def coefficients(self, values: Values) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return [values["bias"]], [values["weight"]] if "weight" in values else []

    def prior(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        channels = values["bias"].shape[1]
        shape = values["weight"].shape[1:3] if "weight" in values else (channels, 0)
        precisions = (
            0.0 if scale is None else scale**-2.0 for scale in (self.bias_scale, self.weight_scale)
        )
        precision = np.repeat(list(precisions), (channels, int(np.prod(shape))))
        return np.append(np.zeros(channels), np.eye(*shape)), precision

    def squares(self, values: Values, rows: Observations) -> np.ndarray:
        states, _, folds = values["bias"].shape
        found = np.zeros((len(rows.x), states, folds))
        for some, _, mean in _means(values, rows):
            _add_squares(rows.x[some], rows.seen[some], mean, found[some])
        return found

    def pulls(
        self, values: Values, shares: np.ndarray, rows: Observations
    ) -> tuple[np.ndarray, np.ndarray]:
        states, channels, folds = values["bias"].shape
        total, squares = np.zeros(()), np.zeros((states, folds))
        for some, design, mean in _means(values, rows):
            _pull(rows.x[some], rows.seen[some], np.ascontiguousarray(shares[some]), mean, squares)
            total = total + design.T @ mean.reshape(len(mean), -1)
        pulled = np.moveaxis(total.reshape(-1, states, channels, folds), 0, 2)
        weights = pulled[:, :, :-1].reshape(states, -1, folds)
        return np.concatenate([pulled[:, :, -1], weights], 1), squares

    def pulls_of_rows(self, values: Values, rows: Observations) -> np.ndarray:
        residual = rows.seen[:, None] * (rows.x[:, None] - _mean(values, rows))
        if "weight" not in values:
            return residual
        weights = residual[..., None] * rows.covariates[:, None, None]
        return np.concatenate([residual, weights.reshape(*residual.shape[:2], -1)], 2)

    def hessian_of_squares(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        design = with_intercept(rows.covariates if "weight" in values else rows.covariates[:, :0])
        channels, width = rows.x.shape[1], design.shape[1]
        found = np.zeros((shares.shape[1], channels * width, channels * width))
        weights = channels + np.arange(channels * (width - 1)).reshape(channels, -1)
        # The bias is last, as in the design.
        places = np.concatenate([weights, np.arange(channels)[:, None]], 1)
        same = bool((rows.seen == rows.seen[:, :1]).all())
        for state, share in enumerate(shares.T):
            for channel, place in enumerate(places):
                if channel == 0 or not same:
                    weight = share * rows.seen[:, channel]
                    gram = (design * weight[:, None]).T @ design
                found[state][np.ix_(place, place)] = gram
        return found


def with_intercept(columns: np.ndarray) -> np.ndarray:
    """Columns (R, Q) followed by a column of ones."""
    return np.concatenate([columns, np.ones((len(columns), 1))], 1)


def _mean(values: Any, rows: Any) -> np.ndarray:
    """(R, K, C), or (1, K, C) where it is the same in all rows."""
    if "weight" not in values:
        return values["bias"][None]
    return values["bias"] + np.tensordot(rows.covariates, values["weight"], (1, 2))


def _means(values: Values, rows: Observations) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Some rows at a time: their place, their design (r, Q + 1) and means (r, K, C, F)."""
    bias = values["bias"]
    coefficients = bias[None]
    if "weight" in values:
        coefficients = np.concatenate([np.moveaxis(values["weight"], 2, 0), coefficients])
    flat = coefficients.reshape(len(coefficients), -1)
    size = max(_BLOCK_BYTES // (8 * flat.shape[1]), 1)
    for start in range(0, len(rows.x), size):
        some = slice(start, min(start + size, len(rows.x)))
        design = with_intercept(rows.covariates[some, : len(flat) - 1])
        yield some, design, (design @ flat).reshape(len(design), *bias.shape)


@compiled
def _add_squares(x, seen, mean, found):  # type: ignore[no-untyped-def]
    """Add to found (R, K, F) the sums over channels of (x - mean)^2, where seen; mean (R, K, C, F)."""
    count, states, channels, folds = mean.shape
    for r in range(count):
        for k in range(states):
            for c in range(channels):
                if seen[r, c] != 0.0:
                    for f in range(folds):
                        residual = x[r, c] - mean[r, k, c, f]
                        found[r, k, f] += residual * residual


@compiled
def _pull(x, seen, shares, mean, squares):  # type: ignore[no-untyped-def]
    """Replace mean (R, K, C, F) by shares (R, K, F) times x - mean, zero where not seen, and add to
    squares (K, F) the sums of shares times (x - mean)^2."""
    count, states, channels, folds = mean.shape
    for r in range(count):
        for k in range(states):
            for c in range(channels):
                if seen[r, c] != 0.0:
                    for f in range(folds):
                        residual = x[r, c] - mean[r, k, c, f]
                        pulled = shares[r, k, f] * residual
                        squares[k, f] += pulled * residual
                        mean[r, k, c, f] = pulled
                else:
                    for f in range(folds):
                        mean[r, k, c, f] = 0.0
