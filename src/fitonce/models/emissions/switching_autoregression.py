"""Autoregressions around a mean that all states share.

    x_t - m = sum_l a_kl (x_t-l - m) + noise,        z_t = k

The mean of `LinearAutoregression` is in a bias of each state, which moves with its weights; here states
that differ in their memory or their noise have one mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from fitonce.core.constraints import Constraint, Free
from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array, is_number
from fitonce.core.parameters import Params
from fitonce.core.units import Units, in_units
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.autoregression import Lagged, check_order
from fitonce.models.emissions.base import Rows, channel_moments
from fitonce.models.emissions.regression import NoiseModel, ridge, spread_of, starting_shares

_SHARED = ("state", "shared")


@dataclass(frozen=True)
class SwitchingAutoregression(Lagged):
    """`mean` (), `weight` (K, p), or (p,) where states share it, the latest step first, and `variance`
    (K,) or (); of one channel. The first p steps of a sequence are only conditioned on.

    Args:
        order: p.
        weight: "state" (each has its own) or "shared".
        variance: "state" or "shared".
        mean: "shared" or "zero".
        weight_scale: prior standard deviation of weights, around zero; None: flat.
        strength, scale: prior of the variance, see `Gaussian`; `strength=0` is maximum likelihood.
    """

    noise: NoiseModel = field(init=False, repr=False)
    weight: Literal["state", "shared"] = "state"
    variance: Literal["state", "shared"] = "state"
    mean: Literal["shared", "zero"] = "shared"
    weight_scale: float | None = 1.0
    strength: float = 1.0
    scale: float | None = None

    def __post_init__(self) -> None:
        check_order(self.order, 1)
        choices = {"weight": _SHARED, "variance": _SHARED, "mean": ("shared", "zero")}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}, got {getattr(self, name)!r}")
        if "state" not in (self.weight, self.variance):
            raise ValueError("states must differ in something: weight='state' or variance='state'")
        scale = self.weight_scale
        if scale is not None and not (is_number(scale) and scale > 0):
            raise ValueError(f"weight_scale must be a positive number or None, got {scale!r}")
        noise = NoiseModel(self.variance, 1.0, self.strength, self.scale)
        object.__setattr__(self, "noise", noise)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        super().check(data, exposure)
        if len(data.channels) != 1:
            raise ValueError(f"a SwitchingAutoregression needs one channel, got {len(data.channels)}")

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        found: dict[str, Constraint] = {}
        if self.mean == "shared":
            unit, origin = Units.of(*channel_moments(np.asarray(rows.x), rows.weights()))
            found["mean"] = in_units(Free(()), unit[0], origin[0])
        own = (n_states,) if self.weight == "state" else ()
        found["weight"] = Free((*own, self.order))
        return found | self.noise.parameters(n_states, rows)

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        """Regressions of clusters, or of random segments."""
        centre = float(channel_moments(np.asarray(rows.x), rows.weights())[0][0])
        centre = centre if self.mean == "shared" else 0.0
        around = replace(rows, x=rows.x - centre, covariates=rows.covariates - centre)
        shares, flat = starting_shares(rows, n_states, rng), np.zeros((1, self.order + 1))
        if self.weight == "shared":  # one regression for all
            shares = np.ones_like(shares)
        noise = np.full(n_states, max(float(spread_of(rows)), np.finfo(float).tiny))
        coefficients, *_ = ridge(around, shares, noise, flat, np.full(self.order + 1, 1e-6))
        weight = coefficients[:, 0, :-1]
        own = starting_shares(rows, n_states, rng) * (np.asarray(rows.counts) > 0)[:, None]
        left = np.asarray(around.x) - np.asarray(around.covariates) @ weight.T  # (R, K)
        sizes = self.noise.best((own * left**2).sum(0), own.sum(0), rows)
        found = {"weight": weight if self.weight == "state" else weight[0], **sizes}
        return found | ({"mean": np.asarray(centre)} if self.mean == "shared" else {})

    def _means(self, params: Params, known: Any) -> Any:
        """(m, K or 1), in NumPy or JAX."""
        centre = params.get("mean", 0.0)
        weight = params["weight"] if self.weight == "state" else params["weight"][None]
        return centre + (known - centre) @ weight.T

    def means(self, params: Params, known: np.ndarray) -> np.ndarray:
        found = self._means(params, known)
        states = len(params["weight"] if self.weight == "state" else params["variance"])
        return np.broadcast_to(found, (len(known), states))[..., None]

    def log_prior(self, params: Params, rows: Rows) -> Array:
        value = self.noise.log_prior(params, rows)
        if self.weight_scale is not None:
            value -= 0.5 * jnp.sum(params["weight"] ** 2) / self.weight_scale**2
        return value

    def log_density(self, params: Params, rows: Rows) -> Array:
        means = self._means(params, rows.covariates)
        return self.noise.log_density((rows.x - means).T[:, None], params, rows)
