"""Negative binomial and zero-inflated Poisson emissions, and regressions of counts on covariates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, gammaln, logit

from fitonce.core.arguments import require, require_number, require_text
from fitonce.core.numerics import is_number
from fitonce.core.parameters import Params
from fitonce.core.predictive import Tails
from fitonce.data.sequences import Sequences
from fitonce.models.emissions import densities
from fitonce.models.emissions.base import (
    EmissionTraits,
    Rows,
    require_beta,
    require_counts_of,
    require_gamma,
    spread_levels,
    upright,
)
from fitonce.models.emissions.channelwise import Channelwise, Random, in_every_state
from fitonce.models.emissions.closed_channels import FLAT, BetaPrior, Coordinate, GammaPrior, Prior
from fitonce.models.emissions.counts import Binomial, rising_rates
from fitonce.models.emissions.densities import Density, Maths, numpy_maths


@dataclass(frozen=True)
class _Counts(Channelwise):
    """Counts with a mean, by its logarithm.

    Args:
        exposure: the name of a covariate, the exposure: means are per unit of it.
    """

    exposure: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("exposure", self.exposure, optional=True)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.linear if self.exposure is None else (*self.linear, self.exposure)

    @property
    def traits(self) -> EmissionTraits:
        return replace(super().traits, exposure=True)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        require_counts_of(data, f"a {self.name} emission")
        if self.exposure is not None:
            known = data.covariates_of((self.exposure,))
            if not (known > 0).all():
                raise ValueError(f"the exposure '{self.exposure}' must be positive, got {known.min():g}")

    def features(self, rows: Rows) -> np.ndarray:
        exposure = 1.0 if self.exposure is None else np.asarray(rows.covariates)[:, -1:]
        return np.sqrt(rows.values() / exposure)

    def constant(self, x: np.ndarray, exposure: np.ndarray | None) -> np.ndarray:
        return -gammaln(x + 1.0)

    def argument(self, x: Any, covariates: Any, maths: Maths) -> tuple[Any, Any]:
        if self.exposure is None:
            return x, 0.0
        return x, upright(maths.np.log(covariates[:, -1]), x)

    def rates(self, n_states: int, rows: Rows, rng: Random) -> np.ndarray:
        """Increasing starting rates per unit of exposure."""
        if self.exposure is None:
            return rising_rates(n_states, rows, rng)
        exposure = np.asarray(rows.covariates)[:, -1]
        with_it = Rows(rows.x, rows.observed, rows.covariates, rows.counts, exposure)
        return rising_rates(n_states, with_it, rng)


@dataclass(frozen=True)
class NegativeBinomial(_Counts):
    """Counts that vary more than Poisson counts: `mean` and `size`, both (K, C); the variance is
    mean + mean^2 / size.

    Args:
        size_prior: Gamma prior of the size, which keeps it from the infinity that Poisson counts have.
    """

    size_prior: tuple[float, float] = (2.0, 0.1)

    density: ClassVar[Density] = densities.NegativeBinomialDensity()
    coordinates: ClassVar[Any] = (
        Coordinate("mean", "positive"),
        Coordinate("size", "positive"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_gamma("size_prior", self.size_prior)

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        return FLAT, GammaPrior(*self.size_prior)

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        return {"mean": self.rates(n_states, rows, rng), "size": in_every_state(5.0, n_states, rows)}


@dataclass(frozen=True)
class ZeroInflatedPoisson(_Counts):
    """Poisson counts with `rate`, and with probability `zeros` a zero instead; both (K, C).

    Args:
        zeros_prior: Beta prior of `zeros`; above one, so that a state without any has an optimum.
    """

    zeros_prior: tuple[float, float] = (1.1, 1.1)

    density: ClassVar[Density] = densities.ZeroInflatedDensity()
    coordinates: ClassVar[Any] = (
        Coordinate("rate", "positive"),
        Coordinate("zeros", "proportion"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_beta("zeros_prior", self.zeros_prior)

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        return GammaPrior(), BetaPrior(*self.zeros_prior)

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        return {"rate": self.rates(n_states, rows, rng), "zeros": in_every_state(0.2, n_states, rows)}


@dataclass(frozen=True)
class PoissonRegression(_Counts):
    """Poisson counts with log mean = log `rate` + coefficients . covariates (+ log exposure).

    Args:
        shape, inverse_scale: Gamma prior on the rates; 1 and 0 make it flat.
    """

    shape: float = 1.0
    inverse_scale: float = 0.0

    density: ClassVar[Density] = densities.PoissonDensity()
    coordinates: ClassVar[Any] = (Coordinate("rate", "positive"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("shape", self.shape, above=0)
        require_number("inverse_scale", self.inverse_scale, least=0)

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        return (GammaPrior(self.shape, self.inverse_scale),)

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        return {"rate": self.rates(n_states, rows, rng)}


@dataclass(frozen=True)
class BinomialRegression(Channelwise):
    """Counts of successes: log-odds = log-odds of `rate` + coefficients . covariates.

    Args:
        trials: their number, or the name of a covariate that has it; None: the exposure of a map where
            there is one, and else 1, for yes or no.
        rate_prior: Beta prior of the rate.
    """

    trials: int | str | None = None
    rate_prior: tuple[float, float] = (1.1, 1.1)

    density: ClassVar[Density] = densities.BinomialDensity()
    coordinates: ClassVar[Any] = (Coordinate("rate", "proportion"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        trials: Any = self.trials
        whole = is_number(trials) and trials >= 1 and trials == int(trials)
        fine = whole or trials is None or isinstance(trials, str)
        wanted = "an integer of at least 1, the name of a covariate or None"
        require(fine, "trials", wanted, trials)
        require_beta("rate_prior", self.rate_prior)

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.linear, self.trials) if isinstance(self.trials, str) else self.linear

    @property
    def traits(self) -> EmissionTraits:
        return replace(super().traits, exposure=self.trials is None)

    def _trials(self, x: Any, covariates: Any, exposure: Any = None) -> Any:
        if exposure is not None:
            return upright(exposure, x)
        return upright(covariates[:, -1], x) if isinstance(self.trials, str) else float(self.trials or 1)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        if exposure is not None:
            Binomial().check(data, exposure)
            return
        require_counts_of(data, "a binomial emission")
        trials: Any = self.trials or 1
        if isinstance(trials, str):
            trials = data.covariates_of((trials,))
            bad = trials[(trials < 1) | (trials != np.floor(trials))]
            if bad.size:
                raise ValueError(
                    f"the trials '{self.trials}' must be integers of at least 1, got {bad[0]:g}"
                )
        over = data.observed & (data.values > trials)
        if over.any():
            most = np.broadcast_to(trials, data.values.shape)[over][0]
            raise ValueError(
                f"a binomial count cannot exceed its trials, got {data.values[over][0]:g} of {most:g}"
            )

    def argument(self, x: Any, covariates: Any, maths: Maths) -> tuple[Any, Any]:
        return (x, self._trials(x, covariates)), 0.0

    def exposed(self, x: Any, offset: Any, exposure: Any, maths: Maths) -> tuple[Any, Any]:
        return (x[0], self._trials(x[0], None, exposure)), offset

    def tails(self, params: Params, rows: Rows) -> Tails:
        arrays = {name: np.asarray(value) for name, value in params.items()}
        return self.density.tails(*self._located(arrays, rows, numpy_maths()))

    def drawn(self, at: Any, known: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        trials = np.broadcast_to(self._trials(at[0], known), at[0].shape).astype(int)
        return rng.binomial(trials, expit(at[0])).astype(float)

    def moments_at(self, at: Any, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = self._trials(at[0], known) * expit(at[0])
        return mean, mean * expit(-at[0])

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        return (BetaPrior(*self.rate_prior),)

    def features(self, rows: Rows) -> np.ndarray:
        x = rows.values()
        trials = np.broadcast_to(self._trials(x, np.asarray(rows.covariates)), x.shape)
        return np.arcsin(np.sqrt(x / np.where(trials > 0, trials, np.nan)))

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        """Shares of successes as they spread over rows, away from 0 and 1, and increasing."""
        x = np.asarray(rows.x, float)
        trials = self._trials(x, np.asarray(rows.covariates), rows.exposure)
        weights = rows.weights()
        wins, tried = (weights * x).sum(0), (weights * trials).sum(0)
        overall = (wins + 0.5) / (tried + 1.0)
        # One more trial of the overall share: a yes or no is not as far out as one of a thousand.
        share = (x + overall) / (trials + 1.0)
        found = spread_levels(n_states, Rows(share, rows.observed, rows.covariates, rows.counts), rng)
        found = np.clip(found, 0.05 * overall, 1.0 - 0.05 * (1.0 - overall))
        apart = 0.01 * upright(np.arange(n_states), x)  # states that start alike would stay so
        return {"rate": expit(logit(found) + apart)}
