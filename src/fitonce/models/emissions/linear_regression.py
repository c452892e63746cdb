"""Linear regressions on covariates with any covariance of the noise, one for each state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.core.constraints import Constraint, Free
from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array
from fitonce.core.parameters import Params
from fitonce.core.units import Units, in_units
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import (
    Emission,
    EmissionTraits,
    Rows,
    channel_moments,
    coefficient_precision,
)
from fitonce.models.emissions.channelwise import (
    read_regressors,
    require_coefficient_scale,
    require_varying,
)
from fitonce.models.emissions.closed_channels import COEFFICIENTS, CentredPrior
from fitonce.models.emissions.densities import jax_maths
from fitonce.models.emissions.gaussian import read_gaussian


@dataclass(frozen=True)
class LinearRegression(Emission):
    """Numbers around `mean` (K, C) + `coefficients` (K, C, Q) . covariates, with the covariance of a
    `Gaussian`. Derivatives are by JAX; `GaussianRegression` has independent channels and closed forms.

    Args:
        regressors: names of covariates of the data (`fo.sequences(..., covariates=)`).
        noise: a `Gaussian`, with its priors, or its covariance alone: "full", "tied", "diag" ...
        coefficient_scale: prior standard deviation of coefficients for covariates and channels of unit
            spread; None: flat.
    """

    regressors: tuple[str, ...]
    noise: Any = "full"
    coefficient_scale: float | None = 10.0

    traits = EmissionTraits()

    def __post_init__(self) -> None:
        object.__setattr__(self, "regressors", read_regressors(self.regressors))
        require_coefficient_scale(self.coefficient_scale)
        given: Any = self.noise
        object.__setattr__(self, "noise", read_gaussian("noise", given))

    @property
    def name(self) -> str:
        return "linear regression"

    @property
    def reads(self) -> tuple[str, ...]:
        return self.regressors

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        self.noise.check(data)

    def check_to_fit(self, data: Sequences) -> None:
        self.noise.check_to_fit(data)
        require_varying(data, self.regressors)

    def covariates(self, data: Sequences) -> np.ndarray | None:
        return data.covariates_of(self.regressors) if self.regressors else None

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        if not rows.x.shape[1:]:
            raise ValueError("a linear regression is for chains; on a graph use GaussianRegression")
        unit = Units.of(*channel_moments(np.asarray(rows.x), rows.weights())).unit
        known, counts = np.asarray(rows.covariates), np.asarray(rows.counts)[:, None]
        of_covariates = Units.of(*channel_moments(known, counts)).unit
        free = Free((n_states, rows.x.shape[1], len(self.regressors)))
        found = self.noise.parameters(n_states, rows)
        return found | {COEFFICIENTS: in_units(free, unit[:, None] / of_covariates)}

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        found = self.noise.start(n_states, rows, rng)
        return found | {COEFFICIENTS: np.zeros((n_states, rows.x.shape[1], len(self.regressors)))}

    def _prior(self, rows: Rows) -> CentredPrior:
        shape = (rows.x.shape[1], len(self.regressors))
        if self.coefficient_scale is None:
            return CentredPrior(np.zeros(shape))
        weights = jnp.ones_like(rows.x) if rows.observed is None else rows.observed.astype(float)
        of_channels = channel_moments(rows.x, weights * rows.counts[:, None])[1]
        spread = channel_moments(rows.covariates, rows.counts[:, None])[1]
        return CentredPrior(coefficient_precision(spread, of_channels, self.coefficient_scale))

    def log_prior(self, params: Params, rows: Rows) -> Array:
        of_coefficients = self._prior(rows).log(params[COEFFICIENTS], jax_maths())
        return self.noise.log_prior(params, rows) + jnp.sum(of_coefficients)

    def log_density(self, params: Params, rows: Rows) -> Array:
        means = params["mean"] + jnp.tensordot(rows.covariates, params[COEFFICIENTS], (1, 2))
        return self.noise.log_density_of(rows.x[:, None] - means, params, rows)

    def draw(
        self, params: Params, states: np.ndarray, known: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        moved = np.einsum("mcq,mq->mc", params[COEFFICIENTS][states], known)
        return self.noise.draw(params, states, known, rng) + moved

    def moments(
        self, params: Params, states: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        moved = np.einsum("mcq,mq->mc", params[COEFFICIENTS][states], known)
        mean, variance = self.noise.moments(params, states, known)
        return mean + moved, variance
