"""Gaussian mixtures: every state has several Gaussian components, as in `GMMHMM` of hmmlearn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitonce.core.arguments import require
from fitonce.core.constraints import Constraint, Simplex
from fitonce.core.deferred import jax, jnp
from fitonce.core.memory import require_fits
from fitonce.core.numerics import Array, as_numbers, in_float64, is_count, safe_log
from fitonce.core.parameters import Params
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import (
    Emission,
    EmissionTraits,
    Rows,
    dirichlet_log_prior,
    freeze_value,
)
from fitonce.models.emissions.closed_forms import ClosedForms, Observations, Values
from fitonce.models.emissions.closed_mixture import WEIGHT, ClosedMixture
from fitonce.models.emissions.gaussian import Gaussian, kmeans_centres, read_gaussian
from fitonce.models.emissions.gaussian_steps import best_full


@dataclass(frozen=True)
class GaussianMixture(Emission):
    """A mixture of M Gaussians in every state: `weight` (K, M), `mean` (K, M, C), and `variance` (K, M)
    or (K, M, C), or `covariance` (K, M, C, C), or (K, C, C) where the components of a state share it.

    Args:
        n_components: M.
        component: a `Gaussian`, whose covariance and priors every component has, or a covariance alone:
            "diag", "spherical", "full", "fixed", or "tied": that of all components of one state.
        concentration: Dirichlet prior of the weights: a number, or one for each entry of (M,) or (K, M).
    """

    n_components: int = 2
    component: Any = "diag"
    concentration: Any = 1.1

    def __post_init__(self) -> None:
        require(is_count(self.n_components), "n_components", "a positive integer", self.n_components)
        require_fits("n_components", self.n_components, lambda n: 24 * n, "the components of a state")
        given: Any = self.component
        object.__setattr__(self, "component", read_gaussian("component", given))
        prior = as_numbers(self.concentration)
        last = None if prior is None else prior.shape[-1:]
        fine = prior is not None and last in ((), (self.n_components,)) and (prior > 0).all()
        wanted = "a positive number or one for each component"
        require(fine, "concentration", wanted, self.concentration)
        object.__setattr__(self, "concentration", freeze_value(prior))

    @property
    def name(self) -> str:
        return "Gaussian mixture"

    @property
    def traits(self) -> EmissionTraits:
        return EmissionTraits(m_step=True, em_starts=True)

    @property
    def _tied(self) -> bool:
        return self.component.covariance == "tied"

    @property
    def _part(self) -> Gaussian:
        """The Gaussian of K M states. A covariance that M of them share has one prior, in M parts."""
        one = self.component
        if not self._tied:
            return one
        squares = None if one.squares is None else np.asarray(one.squares) / self.n_components
        return replace(
            one, covariance="full", strength=one.strength / self.n_components, squares=squares
        )

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        self.component.check(data)

    def check_to_fit(self, data: Sequences) -> None:
        self.component.check_to_fit(data)

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        count = self.n_components
        found: dict[str, Constraint] = {WEIGHT: Simplex((n_states, count))}
        for name, one in self._part.parameters(n_states * count, rows).items():
            shared = self._tied and name == "covariance"
            shape = (n_states, *one.shape[1:]) if shared else (n_states, count, *one.shape[1:])
            found[name] = replace(one, shape=shape)  # type: ignore[type-var]
        return found

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        """Clusters for the states, and clusters within these for their components."""
        count = self.n_components
        x = np.asarray(rows.x, float).reshape(len(rows.x), -1)
        seen = rows.mask().reshape(x.shape) & (np.asarray(rows.counts) > 0)[:, None]
        spread = np.array([x[seen[:, c], c].std() for c in range(x.shape[1])])
        spread = np.where(spread > 0, spread, 1.0)
        outer = kmeans_centres(x, seen, spread, n_states, rng)
        distance = (((x[:, None] - outer) / spread) ** 2 * seen[:, None]).sum(-1)
        nearest = np.where(seen.any(1), distance.argmin(1), -1)
        inner = [
            kmeans_centres(x[nearest == k], seen[nearest == k], spread, count, rng)
            if seen[nearest == k].all(1).sum() >= count
            else outer[k] + 0.5 * spread * np.linspace(-1.0, 1.0, count)[:, None]
            for k in range(n_states)
        ]
        found = self._part.start(n_states * count, rows, rng)
        found["mean"] = np.stack(inner).reshape(n_states, count, *rows.x.shape[1:])
        for name in set(found) - {"mean"}:
            value = found[name].reshape(n_states, count, *found[name].shape[1:])
            found[name] = value[:, 0] if self._tied else value
        return found | {WEIGHT: np.full((n_states, count), 1.0 / count)}

    def _flat(self, params: Params, maths: Any) -> dict[str, Any]:
        """Parameters of all components, as of states."""
        names = set(params) & {"mean", "variance", "covariance"}
        found = {name: maths.asarray(params[name]) for name in names}
        for name, value in found.items():
            shared = self._tied and name == "covariance"
            repeated = maths.repeat(value, self.n_components, 0) if shared else None
            found[name] = value.reshape(-1, *value.shape[2:]) if repeated is None else repeated
        return found

    def log_prior(self, params: Params, rows: Rows) -> Array:
        weight = params[WEIGHT]
        value = self._part.log_prior(self._flat(params, jnp), rows)
        concentration = np.broadcast_to(self.concentration, weight.shape)
        return value + dirichlet_log_prior(weight, concentration, weight > 0)

    def _table(self, params: Params, rows: Rows) -> Array:
        """(R, K, M) log densities of components, with their weights."""
        weight = params[WEIGHT]
        found = self._part.log_density(self._flat(params, jnp), rows)
        return found.reshape(len(rows.x), *weight.shape) + safe_log(weight)

    def log_density(self, params: Params, rows: Rows) -> Array:
        return jax.scipy.special.logsumexp(self._table(params, rows), axis=-1)

    def closed_forms(self, rows: Observations) -> ClosedForms | None:
        parts, channels = self._part.closed_forms(rows), rows.x.shape[1]
        if parts is None:
            return None
        shape, of_means = self._part.covariance, ("mean", channels)
        sizes = {
            "full": (("covariance", channels * (channels + 1) // 2), of_means),
            "diag": (of_means, ("variance", channels)),
            "spherical": (of_means, ("variance", 1)),
            "fixed": (of_means,),
        }[shape]
        together = ("covariance",) if self._tied else ()
        return ClosedMixture(parts, sizes, together, np.asarray(self.concentration, float))

    @in_float64
    def _responsibilities(self, params: Params, rows: Rows) -> np.ndarray:
        """(R, K, M)."""
        arrays = rows.arrays()
        closed = self.closed_forms(arrays) if np.ndim(rows.x) == 2 else None
        if isinstance(closed, ClosedMixture):
            own = {name: np.asarray(value) for name, value in params.items()}
            lifted = Values.at(np.empty(0), own).lifted()
            return closed.responsibilities(lifted, arrays)[..., 0]
        return np.asarray(jax.nn.softmax(self._table(params, rows), -1))

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """A step of EM over the components: better parameters, not the best ones."""
        states, count = np.shape(params[WEIGHT])
        own = shares[:, :, None] * self._responsibilities(params, rows)
        weighted = own.reshape(len(shares), -1)
        flat = self._flat(params, np)
        if self._tied:
            prior = replace(self.component, covariance="full").normal_prior(
                np.asarray(rows.x, float), rows.weights()
            )
            mean, covariance = best_full(flat["mean"], flat["covariance"], weighted, rows, prior, count)
            best = {"mean": mean, "covariance": covariance}
        else:
            best = self._part.maximise(flat, weighted, rows)
        for name in set(best) - ({"covariance"} if self._tied else set()):
            best[name] = best[name].reshape(states, count, *best[name].shape[1:])
        mass = np.maximum(own.sum(0) + np.asarray(self.concentration) - 1.0, 1e-8)
        return best | {WEIGHT: mass / mass.sum(1, keepdims=True)}

    def draw(
        self, params: Params, states: np.ndarray, known: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        below = np.cumsum(params[WEIGHT], 1)[states]
        which = (rng.random(len(states))[:, None] > below[:, :-1]).sum(1)
        component = states * self.n_components + which
        return self._part.draw(self._flat(params, np), component, known, rng)
