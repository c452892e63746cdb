"""Autoregressions around means that states share, or that switch with them.

    x_t - m_k = sum_l a_kl (x_t-l - m_j(l)) + noise,        z_t = k, z_t-l = j(l)

The mean of `LinearAutoregression` is in a bias of each state, which moves with its weights; here a state
has a mean (Hamilton's model), from which the series moves to that of the next state with a jump. Means
that switch make a step depend on the states of the p steps before it, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from fitonce.core.arguments import require_choice, require_number
from fitonce.core.constraints import Constraint, Free
from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array
from fitonce.core.parameters import Params
from fitonce.core.units import Units, in_units
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.autoregression import Lagged, check_order
from fitonce.models.emissions.base import Rows, channel_moments
from fitonce.models.emissions.closed_forms import ClosedForms, Observations
from fitonce.models.emissions.closed_switching_autoregression import ClosedSwitchingAutoregression
from fitonce.models.emissions.regression import (
    NoiseModel,
    mean_variance,
    ridge,
    spread_of,
    starting_shares,
)
from fitonce.models.histories import histories

_SHARED = ("state", "shared")


@dataclass(frozen=True)
class SwitchingAutoregression(Lagged):
    """`mean` () or (K,), `weight` (K, p), or (p,) where states share it, the latest step first, and
    `variance` (K,) or (); of one channel. The first p steps of a sequence are only conditioned on.

    Args:
        order: p.
        weight: "state" (each has its own) or "shared".
        variance: "state" or "shared".
        mean: "state" (Hamilton's model, of which each step depends on the states of p + 1 steps: work
            grows with K^(2 p + 2)), "shared" or "zero".
        weight_scale: prior standard deviation of weights, around zero; None: flat.
        strength, scale: prior of the variance, see `Gaussian`; `strength=0` is maximum likelihood.
    """

    noise: NoiseModel = field(init=False, repr=False)
    weight: Literal["state", "shared"] = "state"
    variance: Literal["state", "shared"] = "state"
    mean: Literal["state", "shared", "zero"] = "shared"
    weight_scale: float | None = 1.0
    strength: float = 1.0
    scale: float | None = None

    def __post_init__(self) -> None:
        check_order(self.order, 1)
        choices = {"weight": _SHARED, "variance": _SHARED, "mean": (*_SHARED, "zero")}
        for name, known in choices.items():
            require_choice(name, getattr(self, name), known)
        if "state" not in (self.weight, self.variance, self.mean):
            raise ValueError(
                "states must differ in something: weight='state', variance='state' or mean='state'"
            )
        scale = self.weight_scale
        require_number("weight_scale", scale, above=0, optional=True)
        noise = NoiseModel(self.variance, 1.0, self.strength, self.scale)
        object.__setattr__(self, "noise", noise)

    @property
    def memory(self) -> int:
        return self.order if self.mean == "state" else 0

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        if len(data.channels) != 1:
            raise ValueError(f"a SwitchingAutoregression needs one channel, got {len(data.channels)}")

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        found: dict[str, Constraint] = {}
        if self.mean != "zero":
            unit, origin = Units.of(*channel_moments(np.asarray(rows.x), rows.weights()))
            several = (n_states,) if self.mean == "state" else ()
            found["mean"] = in_units(Free(several), unit[0], origin[0])
        own = (n_states,) if self.weight == "state" else ()
        found["weight"] = Free((*own, self.order))
        return found | self.noise.parameters(n_states, rows)

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        """Regressions of clusters, or of random segments; means of these, where they switch."""
        if self.mean == "state":
            return self._start_of_means(n_states, rows, rng)
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

    def _start_of_means(
        self, n_states: int, rows: Rows, rng: np.random.Generator | None
    ) -> dict[str, np.ndarray]:
        """Without weights, or with random ones."""
        seen = np.asarray(rows.counts)[:, None] > 0
        shares = starting_shares(rows, n_states, rng) * seen
        mass = np.maximum(shares.sum(0), 1e-6)
        x = np.asarray(rows.x)
        mean = (shares * x).sum(0) / mass
        weight = np.zeros((n_states, self.order))
        if rng is not None:
            weight += rng.uniform(-0.5, 0.8) / np.arange(1, self.order + 1) ** 2
        sizes = self.noise.best((shares * (x - mean) ** 2).sum(0), shares.sum(0), rows)
        return {"mean": mean, "weight": weight if self.weight == "state" else weight[0], **sizes}

    def _means(self, params: Params, known: Any) -> Any:
        """(m, E or 1), in NumPy or JAX."""
        weight = params["weight"] if self.weight == "state" else params["weight"][None]
        if self.mean != "state":
            centre = params.get("mean", 0.0)
            return centre + (known - centre) @ weight.T
        tuples = histories(len(params["mean"]), self.order)
        weight = weight[tuples[:, 0] if self.weight == "state" else np.zeros(len(tuples), int)]
        means = params["mean"][tuples]
        return means[:, 0] - (weight * means[:, 1:]).sum(1) + known @ weight.T

    def means(self, params: Params, known: np.ndarray) -> np.ndarray:
        columns = len(params["transition"]) ** (self.memory + 1)
        return np.broadcast_to(self._means(params, known), (len(known), columns))[..., None]

    def log_prior(self, params: Params, rows: Rows) -> Array:
        value = self.noise.log_prior(params, rows)
        if self.weight_scale is not None:
            value -= 0.5 * jnp.sum(params["weight"] ** 2) / self.weight_scale**2
        return value

    def log_density(self, params: Params, rows: Rows) -> Array:
        means = self._means(params, rows.covariates)
        if self.memory and self.variance == "state":
            tuples = histories(len(params["mean"]), self.order)
            params = {**params, "variance": params["variance"][tuples[:, 0]]}
        return self.noise.log_density((rows.x - means).T[:, None], params, rows)

    def draw(
        self, params: Params, states: np.ndarray, known: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        means, count = (
            self.means(params, known)[np.arange(len(states)), states],
            len(params["transition"]),
        )
        spread = np.sqrt(self.noise.per_state(params, count))[states // count**self.memory]
        return means + spread[:, None] * rng.normal(size=means.shape)

    def closed_forms(self, rows: Observations) -> ClosedForms:
        spread = float(mean_variance(rows.x, rows.seen * rows.counts[:, None]))
        return ClosedSwitchingAutoregression(
            self.order,
            self.memory,
            self.mean,
            self.weight,
            self.variance,
            0.0 if self.weight_scale is None else 1.0 / self.weight_scale**2,
            self.strength,
            float(self.noise.prior_variance(spread)),
        )
