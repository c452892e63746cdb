"""Poisson and binomial emissions. Channels are independent given the state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from fitonce.core.arguments import require, require_number
from fitonce.core.constraints import Constraint, Positive, Proportion
from fitonce.core.deferred import jax, jnp
from fitonce.core.numerics import Array, is_number
from fitonce.core.parameters import Params
from fitonce.core.predictive import Tails
from fitonce.data.sequences import Sequences
from fitonce.models.emissions import closed_counts as closed
from fitonce.models.emissions.base import (
    Emission,
    EmissionTraits,
    Rows,
    gamma_log_prior,
    require_counts_of,
    spread_levels,
    sum_channels,
    upright,
    weighted_sums,
)
from fitonce.models.emissions.closed_forms import ClosedForms, Observations
from fitonce.models.emissions.tails import binomial_tails, poisson_tails


def rising_rates(n_states: int, rows: Rows, rng: np.random.Generator | None) -> np.ndarray:
    """Increasing starting rates per unit of exposure, away from zero, whose logarithm is infinite."""
    rising = upright(1.0 + 0.01 * np.arange(n_states), rows.x)
    lowest: Any = 0.1
    if rows.exposure is not None:
        counts = np.asarray(rows.counts)
        overall = np.asarray(rows.x).T @ counts / (np.asarray(rows.exposure) @ counts)
        lowest = np.where(overall > 0, 0.05 * overall, 0.005)
    return np.maximum(spread_levels(n_states, rows, rng), lowest) * rising


@dataclass(frozen=True)
class Poisson(Emission):
    """Counts with mean `rate`, (K, C) or (K,), times the exposure if there is one.

    Args:
        shape, rate: Gamma prior on the rates; 1 and 0 make it flat.
    """

    shape: float = 1.0
    rate: float = 0.0

    traits = EmissionTraits(exposure=True, m_step=True, tails=True)

    def __post_init__(self) -> None:
        require_number("shape", self.shape, above=0)
        require_number("rate", self.rate, least=0)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        require_counts_of(data, "a Poisson emission")

    def constant(self, x: np.ndarray, exposure: np.ndarray | None) -> np.ndarray:
        log_exposure = 0.0 if exposure is None else upright(np.log(exposure), x)
        return x * log_exposure - gammaln(x + 1.0)

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        return {"rate": Positive((n_states, *rows.x.shape[1:]))}

    def features(self, rows: Rows) -> np.ndarray:
        return np.sqrt(rows.values())

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        return {"rate": rising_rates(n_states, rows, rng)}

    def log_prior(self, params: Params, rows: Rows) -> Array:
        return gamma_log_prior(params["rate"], self.shape, self.rate)

    def log_density(self, params: Params, rows: Rows) -> Array:
        rate, x = params["rate"], rows.x[:, None]
        mean = rate if rows.exposure is None else upright(rows.exposure, x) * rate
        return sum_channels(x * jnp.log(rate) - mean, rows)

    def closed_forms(self, rows: Observations) -> ClosedForms:
        return closed.ClosedPoisson(self.shape, self.rate)

    def draw(self, params: Params, states: np.ndarray, known: np.ndarray, rng: Any) -> np.ndarray:
        return rng.poisson(params["rate"][states]).astype(float)

    def moments(
        self, params: Params, states: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return params["rate"][states], params["rate"][states]

    def tails(self, params: Params, rows: Rows) -> Tails:
        exposure = 1.0 if rows.exposure is None else np.asarray(rows.exposure)[:, None]
        return poisson_tails(np.asarray(rows.x)[:, None], exposure * np.asarray(params["rate"]))

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        exposure = 1.0 if rows.exposure is None else upright(rows.exposure, rows.x)
        counts = weighted_sums(rows.x, shares, rows) + self.shape - 1.0
        return {"rate": counts / (weighted_sums(exposure, shares, rows) + self.rate)}


@dataclass(frozen=True)
class Binomial(Emission):
    """Counts of successes in a number of trials with probability `rate`, (K, C) or (K,).

    Args:
        a, b: Beta prior on the rates; 1 and 1 make it flat.
        trials: number of trials of every count; None: given by the exposure.
    """

    a: float = 1.0
    b: float = 1.0
    trials: int | None = None

    traits = EmissionTraits(exposure=True, m_step=True, tails=True)

    def __post_init__(self) -> None:
        require_number("a", self.a, above=0)
        require_number("b", self.b, above=0)
        trials: Any = self.trials
        whole = trials is None or (is_number(trials) and trials >= 1 and trials == int(trials))
        require(whole, "trials", "an integer of at least 1 or None", trials)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        require_counts_of(data, "a binomial emission")
        if exposure is None and self.trials is None:
            raise ValueError(
                "a binomial emission needs trials=, or on a graph exposure=, its number of trials"
            )
        if exposure is None:
            highest = float(data.values[data.observed].max())
            if highest > float(self.trials or 0):
                raise ValueError(
                    f"a binomial count cannot exceed its trials={self.trials}, got {highest:g}"
                )
            return
        fractional = np.flatnonzero(exposure != np.floor(exposure))
        if fractional.size:
            site = fractional[0]
            raise ValueError(
                f"a binomial exposure must be an integer, got {exposure[site]:g} at site {site}"
            )
        x = np.where(data.observed, data.values, 0.0)[0, :, 0]
        over = np.flatnonzero(x > exposure)
        if over.size:
            site = over[0]
            raise ValueError(
                f"a binomial count cannot exceed its exposure, but site {site} has {x[site]:g} of "
                f"{exposure[site]:g}"
            )

    def _trials(self, x: Any, exposure: Any) -> Any:
        """Numbers of trials that broadcast against x."""
        return float(self.trials or 0) if exposure is None else upright(exposure, x)

    def constant(self, x: np.ndarray, exposure: np.ndarray | None) -> np.ndarray:
        trials = self._trials(x, exposure)
        return gammaln(trials + 1.0) - gammaln(x + 1.0) - gammaln(np.maximum(trials - x, 0.0) + 1.0)

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        return {"rate": Proportion((n_states, *rows.x.shape[1:]))}

    def features(self, rows: Rows) -> np.ndarray:
        return np.arcsin(np.sqrt(rows.values() / float(self.trials or 1)))

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        if rows.exposure is None:
            rates = spread_levels(n_states, rows, rng) / float(self.trials or 1)
        else:
            rates = rising_rates(n_states, rows, rng)
        # Away from 0 and 1, whose log-odds are infinite, and still increasing.
        place = upright(np.arange(n_states) / n_states, rows.x)
        return {"rate": np.clip(rates, 1e-4 * (1.0 + place), 0.98 + 0.02 * place)}

    def log_prior(self, params: Params, rows: Rows) -> Array:
        rate = params["rate"]
        xlogy = jax.scipy.special.xlogy
        return jnp.sum(xlogy(self.a - 1.0, rate) + xlogy(self.b - 1.0, 1.0 - rate))

    def log_density(self, params: Params, rows: Rows) -> Array:
        rate, x = params["rate"], rows.x[:, None]
        failures = self._trials(x, rows.exposure) - x
        xlogy, xlog1py = jax.scipy.special.xlogy, jax.scipy.special.xlog1py
        return sum_channels(xlogy(x, rate) + xlog1py(failures, -rate), rows)

    def closed_forms(self, rows: Observations) -> ClosedForms:
        return closed.ClosedBinomial(self.a, self.b, float(self.trials or 0))

    def draw(self, params: Params, states: np.ndarray, known: np.ndarray, rng: Any) -> np.ndarray:
        return rng.binomial(int(self.trials or 0), params["rate"][states]).astype(float)

    def moments(
        self, params: Params, states: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rate = params["rate"][states]
        return int(self.trials or 0) * rate, int(self.trials or 0) * rate * (1.0 - rate)

    def tails(self, params: Params, rows: Rows) -> Tails:
        x = np.asarray(rows.x)[:, None]
        return binomial_tails(x, self._trials(x, rows.exposure), np.asarray(params["rate"]))

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        counts = weighted_sums(rows.x, shares, rows) + self.a - 1.0
        trials = weighted_sums(self._trials(rows.x, rows.exposure), shares, rows)
        return {"rate": counts / (trials + self.a + self.b - 2.0)}
