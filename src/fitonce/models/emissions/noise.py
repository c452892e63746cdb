"""The noise of regression emissions: a variance that is the same in every channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from fitonce.core.constraints import Constraint, Positive
from fitonce.core.numerics import Array, is_number
from fitonce.core.parameters import Params
from fitonce.models.emissions.base import Rows
from fitonce.models.emissions.regression import spread_of

Noise = Literal["fixed", "shared", "state"]
NOISES = ("fixed", "shared", "state")
_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class NoiseModel:
    """The variance of what a regression leaves: one number, the same in every channel.

    Args:
        kind: "fixed" at `variance`, "shared" by all states, or one for each "state"; both learned.
        variance: the fixed one.
        strength, scale: log-prior -(strength / 2) C (log v + scale^2 / v) of each learned variance v, C
            the number of channels: `strength` pseudo-observations of spread `scale`. None: a tenth of
            the standard deviation of all the data.
    """

    kind: Noise
    variance: float
    strength: float
    scale: float | None

    def __post_init__(self) -> None:
        if self.kind not in NOISES:
            raise ValueError(f"noise must be one of {NOISES}, got {self.kind!r}")
        if not (is_number(self.variance) and self.variance > 0):
            raise ValueError(f"variance must be a positive number, got {self.variance!r}")
        if not (is_number(self.strength) and self.strength >= 0):
            raise ValueError(f"strength must be a number that is not negative, got {self.strength!r}")
        if self.scale is not None and not (is_number(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be a positive number or None, got {self.scale!r}")

    def parameters(self, n_states: int) -> dict[str, Constraint]:
        if self.kind == "fixed":
            return {}
        return {"variance": Positive((n_states,) if self.kind == "state" else ())}

    def value(self, params: Params) -> Any:
        """A number, or (K,)."""
        return params.get("variance", self.variance)

    def log_prior(self, params: Params, rows: Rows) -> Array:
        if self.kind == "fixed":
            return jnp.zeros(())
        variance, square = params["variance"], self._prior_variance(rows)
        channels = rows.x.shape[1]
        return -0.5 * self.strength * channels * jnp.sum(jnp.log(variance) + square / variance)

    def log_density(self, residual: Array, params: Params, rows: Rows) -> Array:
        """(R, K) of residuals (K, C, R), skipping channels that were not observed."""
        count: Any = residual.shape[1]
        if rows.observed is not None:
            residual = jnp.where(rows.observed.T, residual, 0.0)
            count = jnp.sum(rows.observed, -1)[:, None]
        variance = self.value(params)
        square = jnp.sum(residual**2, 1).T
        return -0.5 * (square / variance + count * (jnp.log(variance) + _LOG_2PI))

    def best(self, squares: np.ndarray, counts: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """The best variance for sums of squares (K,) over so many entries (K,)."""
        if self.kind == "fixed":
            return {}
        prior = self.strength * rows.x.shape[1]
        if self.kind == "shared":
            squares, counts = squares.sum(), counts.sum()
        spread = float(self._prior_variance(rows))
        total, mass = squares + prior * spread, counts + prior
        # A state without mass has nothing to say; one that fits its rows exactly keeps a variance.
        best = np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), spread)
        return {"variance": np.maximum(best, 1e-12 * max(spread, np.finfo(float).tiny))}

    def _prior_variance(self, rows: Rows) -> Any:
        return 0.01 * spread_of(rows) if self.scale is None else self.scale**2
