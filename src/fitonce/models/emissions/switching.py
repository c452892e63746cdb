"""Gaussian regressions whose parts each state has for itself or all states have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fitonce.core.arguments import read_names, require_choice, require_number
from fitonce.core.constraints import Constraint, Free, Positive
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
    sum_channels,
    upright,
)
from fitonce.models.emissions.closed_channels import COEFFICIENTS, COMMON
from fitonce.models.emissions.closed_forms import LOG_2PI, ClosedForms, Observations
from fitonce.models.emissions.closed_switching import ClosedSwitchingRegression
from fitonce.models.emissions.regression import starting_shares
from fitonce.models.emissions.switching_steps import best_regressions

_MEANS, _VARIANCES = ("state", "shared", "zero"), ("state", "shared")


@dataclass(frozen=True)
class SwitchingRegression(Emission):
    """Numbers with mean = `mean` + `coefficients` . covariates + `shared_coefficients` . others, and a
    `variance`: Markov-switching regression, in which states differ in some of these and share the rest.

    `coefficients` are (K, C, Q) and `shared_coefficients` (C, S); `mean` and `variance` are (K, C), or
    (C,) where states share them.

    Args:
        regressors: names of covariates of the data whose coefficients each state has for itself.
        shared: names of covariates whose coefficients all states share.
        mean: "state" (each has its own), "shared" or "zero" (none: the regression has no intercept).
        variance: "state" or "shared".
        coefficient_scale: prior standard deviation of coefficients, for covariates and channels of unit
            spread; None: flat.
        strength, scale: prior of the variance, see `Gaussian`; `strength=0` is maximum likelihood.
    """

    regressors: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    mean: Literal["state", "shared", "zero"] = "state"
    variance: Literal["state", "shared"] = "state"
    coefficient_scale: float | None = 10.0
    strength: float = 1.0
    scale: float | None = None

    def __post_init__(self) -> None:
        for name in ("regressors", "shared"):
            names = read_names(name, getattr(self, name), "names of covariates")
            object.__setattr__(self, name, names)
        if len(set(self.reads)) < len(self.reads):
            raise ValueError(f"regressors and shared ones must differ, got {list(self.reads)}")
        for name, known in (("mean", _MEANS), ("variance", _VARIANCES)):
            require_choice(name, getattr(self, name), known)
        if not self.regressors and "state" not in (self.mean, self.variance):
            raise ValueError(
                "states must differ in something: give regressors, mean='state' or variance='state'"
            )
        require_number("strength", self.strength, least=0)
        for name in ("coefficient_scale", "scale"):
            value = getattr(self, name)
            require_number(name, value, above=0, optional=True)

    @property
    def traits(self) -> EmissionTraits:
        return EmissionTraits(m_step=True, em_starts=True)

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.regressors, *self.shared)

    @property
    def in_common(self) -> tuple[str, ...]:
        """Names of parameters that all states share."""
        named = {
            "mean": self.mean == "shared",
            COMMON: self.shared,
            "variance": self.variance == "shared",
        }
        return tuple(name for name, common in named.items() if common)

    def covariates(self, data: Sequences) -> np.ndarray | None:
        return data.covariates_of(self.reads) if self.reads else None

    def check_to_fit(self, data: Sequences) -> None:
        for name in self.reads:
            values = data.covariates_of((name,))[data.valid]
            if np.ptp(values) == 0 and (self.mean != "zero" or values[0, 0] == 0):
                raise ValueError(
                    f"covariate '{name}' is constant ({values[0, 0]:g}); leave it out, for the mean is "
                    "that already"
                )
        for channel, name in enumerate(data.channels):
            values = data.values[..., channel][data.observed[..., channel]]
            if np.ptp(values) == 0 and (self.scale is None or self.strength == 0):
                raise ValueError(
                    f"channel '{name}' is constant ({values[0]:g}), so its variance has no estimate; "
                    "drop the channel, or set its prior spread with scale="
                )

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        tail = rows.x.shape[1:]
        unit, origin = Units.of(*channel_moments(np.asarray(rows.x), rows.weights()))
        known = channel_moments(np.asarray(rows.covariates), np.asarray(rows.counts)[:, None])
        slope = np.asarray(unit)[..., None] / Units.of(*known).unit
        own, found = len(self.regressors), {}
        if own:
            found[COEFFICIENTS] = in_units(Free((n_states, *tail, own)), slope[..., :own])
        if self.mean != "zero":
            shape = tail if self.mean == "shared" else (n_states, *tail)
            found["mean"] = in_units(Free(shape), unit, origin)
        if self.shared:
            found[COMMON] = in_units(Free((*tail, len(self.shared))), slope[..., own:])
        shape = tail if self.variance == "shared" else (n_states, *tail)
        return found | {"variance": in_units(Positive(shape), unit**2)}

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        """One regression for all, then one for each cluster of its residuals, or of their sizes where
        only variances differ."""
        spread = channel_moments(np.asarray(rows.x), rows.weights())[1]
        spread = np.where(spread > 0, spread, (self.scale or 1.0) ** 2)
        whole = replace(self, mean="zero" if self.mean == "zero" else "state", variance="state")
        fitted = whole.maximise({"variance": spread[None]}, np.ones((len(rows.x), 1)), rows)
        left = np.asarray(rows.x, float) - whole._means(fitted, np.asarray(rows.covariates))[:, 0]
        if not self.regressors and self.mean != "state":
            left = np.abs(left)
        plain = replace(rows, x=left.reshape(len(left), -1), covariates=np.zeros((len(left), 0)))
        shares = starting_shares(plain, n_states, rng)
        shape = spread.shape if self.variance == "shared" else (n_states, *spread.shape)
        noise = np.broadcast_to(fitted["variance"][0], shape)
        return self.maximise({"variance": noise}, shares, rows)

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """The best regressions at the current variances, and then the best variances."""
        arrays = rows.arrays()
        flat = arrays._replace(
            x=arrays.x.reshape(len(arrays.x), -1), seen=arrays.seen.reshape(len(arrays.x), -1)
        )
        variance = np.asarray(params["variance"], float)
        variance = variance[None] if self.variance == "shared" else variance
        variance = np.broadcast_to(
            variance.reshape(len(variance), -1), (shares.shape[1], flat.x.shape[1])
        )
        found = best_regressions(self._closed(flat), variance, shares, flat)
        if rows.x.ndim == 2:
            return found
        return {
            name: value.squeeze(-2 if name in (COEFFICIENTS, COMMON) else -1)
            for name, value in found.items()
        }

    def _precision(self, x: Any, weights: Any, covariates: Any, counts: Any) -> Any:
        """(C, Q) of the prior of coefficients, in NumPy or JAX."""
        if self.coefficient_scale is None or not self.reads:
            return np.zeros((*x.shape[1:], len(self.reads)))
        spread = channel_moments(covariates, counts[:, None])[1]
        of_channels = channel_moments(x, weights)[1]
        return coefficient_precision(spread, of_channels, self.coefficient_scale)

    def _squares(self, x: Any, weights: Any) -> Any:
        """(C,) of the prior of variances, in NumPy or JAX."""
        if self.scale is not None:
            return np.full(x.shape[1:], self.strength * self.scale**2)
        return 0.01 * self.strength * channel_moments(x, weights)[1]

    def log_prior(self, params: Params, rows: Rows) -> Array:
        weights = jnp.ones_like(rows.x) if rows.observed is None else rows.observed.astype(float)
        weights = weights * upright(rows.counts, rows.x)
        precision = self._precision(rows.x, weights, rows.covariates, rows.counts)
        own, variance = len(self.regressors), params["variance"]
        squares = self._squares(rows.x, weights)
        value = jnp.sum(self.strength * jnp.log(variance) + squares / variance)
        if self.regressors:
            value += jnp.sum(precision[..., :own] * params[COEFFICIENTS] ** 2)
        if self.shared:
            value += jnp.sum(precision[..., own:] * params[COMMON] ** 2)
        return -0.5 * value

    def _means(self, params: Params, known: Any) -> Any:
        """(R, K or 1, C) in NumPy or JAX."""
        own = len(self.regressors)
        found = params["mean"][None] if self.mean != "zero" else np.zeros((1, 1))
        found = found[:, None] if self.mean == "shared" else found
        if own:
            maths = np if isinstance(params[COEFFICIENTS], np.ndarray) else jnp
            found = found + maths.tensordot(known[:, :own], params[COEFFICIENTS], (1, -1))
        if self.shared:
            maths = np if isinstance(params[COMMON], np.ndarray) else jnp
            found = found + maths.tensordot(known[:, own:], params[COMMON], (1, -1))[:, None]
        return found

    def log_density(self, params: Params, rows: Rows) -> Array:
        residual = rows.x[:, None] - self._means(params, rows.covariates)
        variance = params["variance"][None]
        variance = variance[:, None] if self.variance == "shared" else variance
        return sum_channels(-0.5 * (residual**2 / variance + jnp.log(variance) + LOG_2PI), rows)

    def draw(
        self, params: Params, states: np.ndarray, known: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        means = self._means(params, known)
        means = np.broadcast_to(means, (len(states), *means.shape[1:]))
        chosen = states if means.shape[1] > 1 else np.zeros_like(states)
        means = means[np.arange(len(states)), chosen]
        variance = params["variance"] if self.variance == "shared" else params["variance"][states]
        noise = rng.normal(size=(len(states), np.shape(params["variance"])[-1]))
        return means + np.sqrt(variance) * noise

    def closed_forms(self, rows: Observations) -> ClosedForms:
        return self._closed(rows)

    def _closed(self, rows: Observations) -> ClosedSwitchingRegression:
        weights = rows.seen * rows.counts[:, None]
        return ClosedSwitchingRegression(
            len(self.regressors),
            self.mean != "zero",
            self.in_common,
            self.strength,
            np.asarray(self._squares(rows.x, weights)),
            np.asarray(self._precision(rows.x, weights, rows.covariates, rows.counts)),
        )
