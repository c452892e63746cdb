"""Categories whose probabilities depend on covariates: a softmax in every state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.core.arguments import require_count
from fitonce.core.constraints import Constraint, Free, Simplex
from fitonce.core.deferred import jax, jnp
from fitonce.core.numerics import Array
from fitonce.core.parameters import Params
from fitonce.core.units import Units, in_units
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import (
    Emission,
    EmissionTraits,
    Rows,
    channel_moments,
    dirichlet_log_prior,
    sum_channels,
)
from fitonce.models.emissions.categories import (
    Categorical,
    drawn_categories,
    read_concentration,
    require_categories,
)
from fitonce.models.emissions.channelwise import (
    read_regressors,
    require_coefficient_scale,
    require_varying,
)
from fitonce.models.emissions.closed_channels import COEFFICIENTS, CentredPrior
from fitonce.models.emissions.closed_counts import ClosedCategorical
from fitonce.models.emissions.closed_forms import ClosedForms, Observations
from fitonce.models.emissions.closed_softmax import ClosedSoftmax
from fitonce.models.emissions.densities import jax_maths


@dataclass(frozen=True)
class CategoricalRegression(Emission):
    """Integer categories 0 .. n_categories - 1, whose log-ratios to the last one, the reference, are
    those of `probability` (K, C, M) + `coefficients` (K, C, M - 1, Q) . covariates; on a
    graph without C.

    Args:
        n_categories: M.
        regressors: names of covariates of the data (`fo.sequences(..., covariates=)`).
        concentration: Dirichlet prior of the probabilities, which hold where covariates are zero: a
            number, or one for each category.
        coefficient_scale: prior standard deviation of coefficients for covariates of unit spread; None:
            flat.
    """

    n_categories: int
    regressors: tuple[str, ...]
    concentration: Any = 1.1
    coefficient_scale: float | None = 10.0

    traits = EmissionTraits()

    def __post_init__(self) -> None:
        require_count("n_categories", self.n_categories, 2)
        object.__setattr__(self, "regressors", read_regressors(self.regressors))
        checked = read_concentration(self.concentration, self.n_categories)
        object.__setattr__(self, "concentration", checked)
        require_coefficient_scale(self.coefficient_scale)

    @property
    def name(self) -> str:
        return "categorical regression"

    @property
    def reads(self) -> tuple[str, ...]:
        return self.regressors

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        require_categories(data, self.n_categories, "a categorical regression")

    def check_to_fit(self, data: Sequences) -> None:
        require_varying(data, self.regressors)

    def covariates(self, data: Sequences) -> np.ndarray | None:
        return data.covariates_of(self.regressors) if self.regressors else None

    def _plain(self) -> Categorical:
        return Categorical(self.n_categories, self.concentration)

    def _prior(self, covariates: Any, counts: Any, channels: tuple[int, ...]) -> CentredPrior:
        """Of coefficients (..., C, M - 1, Q)."""
        shape = (*channels, self.n_categories - 1, len(self.regressors))
        if self.coefficient_scale is None:
            return CentredPrior(np.zeros(shape))
        spread = channel_moments(covariates, counts[:, None])[1] / self.coefficient_scale**2
        return CentredPrior(spread * np.ones(shape))

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        channels, width = rows.x.shape[1:], self.n_categories - 1
        known, counts = np.asarray(rows.covariates), np.asarray(rows.counts)[:, None]
        free = Free((n_states, *channels, width, len(self.regressors)))
        unit = Units.of(*channel_moments(known, counts)).unit
        return {
            "probability": Simplex((n_states, *channels, self.n_categories)),
            COEFFICIENTS: in_units(free, 1.0 / unit),
        }

    def features(self, rows: Rows) -> np.ndarray:
        return self._plain().features(rows)

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        found = self._plain().start(n_states, rows, rng)
        shape = (*found["probability"].shape[:-1], self.n_categories - 1, len(self.regressors))
        return found | {COEFFICIENTS: np.zeros(shape)}

    def log_prior(self, params: Params, rows: Rows) -> Array:
        probability = params["probability"]
        prior = self._prior(rows.covariates, rows.counts, rows.x.shape[1:])
        value = dirichlet_log_prior(probability, np.asarray(self.concentration), probability > 0)
        return value + jnp.sum(prior.log(params[COEFFICIENTS], jax_maths()))

    def log_density(self, params: Params, rows: Rows) -> Array:
        ratios = jnp.tensordot(rows.covariates, params[COEFFICIENTS], (1, -1))  # (R, K, ..., M - 1)
        ratios = jnp.concatenate([ratios, jnp.zeros_like(ratios[..., :1])], -1)
        logs = jax.nn.log_softmax(jnp.log(params["probability"]) + ratios, -1)
        category = rows.x.astype(int)[:, None, ..., None]
        return sum_channels(jnp.take_along_axis(logs, category, -1)[..., 0], rows)

    def draw(
        self, params: Params, states: np.ndarray, known: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        ratios = np.log(params["probability"][states])
        ratios[..., :-1] += np.einsum("mcjq,mq->mcj", params[COEFFICIENTS][states], known)
        shares = np.exp(ratios - ratios.max(-1, keepdims=True))
        return drawn_categories(shares / shares.sum(-1, keepdims=True), rng)

    def closed_forms(self, rows: Observations) -> ClosedForms:
        plain = ClosedCategorical(self.n_categories, self.concentration)
        prior = self._prior(rows.covariates, rows.counts, rows.x.shape[1:])
        return ClosedSoftmax(plain, prior)
