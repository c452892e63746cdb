"""F(theta, w) of a custom density, which takes the weights itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import shown
from fitonce.core.deferred import jax, jit
from fitonce.core.numerics import Array, in_float64
from fitonce.core.parallel import Parallel, everywhere, placed
from fitonce.core.parameters import ParameterSpace
from fitonce.data.sequences import Collection, Points, Sequences
from fitonce.models.custom import Custom
from fitonce.objectives import priors
from fitonce.objectives.base import LinearMap, Program, Traits
from fitonce.objectives.derivatives import AutodiffObjective
from fitonce.objectives.family import Family
from fitonce.objectives.prepared import PreparedObjective
from fitonce.objectives.schemes import Own, Scheme


@partial(jit, static_argnums=0)
def log_likelihoods(program: Program, thetas: Array, weights: Array, prepared: Any) -> Array:
    """(F,) weighted log-likelihoods."""
    params = jax.vmap(program.space.to_params)(thetas)
    found = jax.vmap(program.model.log_density, (0, None, 0))(params, prepared, weights)
    if found.shape != thetas.shape[:1]:
        raise ValueError(f"log_density must return a scalar, got shape {found.shape[1:]}")
    return found


def _values(program: Program, thetas: Array, weights: Array, prepared: Any) -> Array:
    likelihood = log_likelihoods(program, thetas, weights, prepared)
    return -likelihood - priors.log_priors(program, thetas, prepared)


@partial(jit, static_argnums=0)
def _losses(program: Program, thetas: Array, weights: Array, scored: Array, data: Any) -> Array:
    """(F, M)."""

    def one(theta: Array, weight: Array, indices: Array) -> Array:
        return program.model.losses(program.space.to_params(theta), data, weight, indices)

    return jax.vmap(one)(thetas, weights, scored)


@in_float64
def custom_objective(model: Custom, data: Any, kernel: None = None) -> CustomObjective:
    """F of a custom density on a pytree of arrays."""
    if kernel is not None:
        raise ValueError(f"a Custom model has one kernel: kernel must be None, got {shown(kernel)}")
    if isinstance(data, Sequences):
        raise ValueError(
            "Custom takes plain arrays, got Sequences; pass data.values[0] and handle missing values"
        )
    plain = data.to_numpy() if isinstance(data, (pd.DataFrame, pd.Series)) else data
    # Copied: JAX may go on reading the user's own arrays, which may change.
    prepared = jax.tree_util.tree_map(lambda array: jax.device_put(np.array(array)), plain)
    program = Program(model, ParameterSpace(model.space()), Own())
    return CustomObjective(program, np.ones(model.count(prepared)), data, prepared)


@dataclass(frozen=True, eq=False, repr=False)
class CustomObjective(PreparedObjective, AutodiffObjective):
    """F of a custom density; see `Objective`. `prepared`: the data as arrays."""

    program: Program
    base: np.ndarray
    data: Any
    prepared: Any
    parallel: Parallel = None

    values, layout = staticmethod(_values), None

    @property
    def arrays(self) -> tuple[Any]:
        return (self.prepared,)

    @property
    def collection(self) -> Collection:
        return Points(len(self.base), self._fingerprint)

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for leaf in jax.tree_util.tree_leaves(self.prepared):
            array = np.asarray(leaf)
            digest.update(f"{array.shape} {array.dtype}".encode() + array.tobytes())
        return digest.hexdigest()[:32]

    @property
    def loss_data(self) -> Any:
        return self.prepared

    @property
    def traits(self) -> Traits:
        kinds = ("block", "iid")
        return Traits(
            site="time",
            exchangeable=not self.along_time,
            resampling=kinds,
            hidden_states=False,
            products=True,
            weights_of_jax=True,
        )

    @property
    def clusters(self) -> np.ndarray:
        """(P,) points, in the order of their dates where they have some."""
        dates = self._dates
        return np.arange(len(self.base)) if dates is None else np.argsort(np.argsort(dates))

    @property
    def along_time(self) -> bool:
        """Whether the model or dates say so."""
        return self.model.along_time or self._dates is not None

    @cached_property
    def _dates(self) -> pd.Index | None:
        """An index of dates that differ, one for each point."""
        if not isinstance(self.data, (pd.DataFrame, pd.Series)):
            return None
        index = self.data.index
        dated = isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex))
        return index if dated and index.is_unique and len(index) == len(self.base) else None

    def start(self, rng: np.random.Generator | None) -> np.ndarray:
        return self.space.to_free(self.model.init)

    def preconditioner(self, theta: np.ndarray, weights: np.ndarray | None = None) -> LinearMap:
        """The identity: nothing is known about the density."""
        return np.array

    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise ValueError("a Custom model has no chain to sweep; use cross_validate on fo.folds.points")

    @in_float64
    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        arrays = (jax.device_put(thetas), jax.device_put(weights), self.prepared)
        return np.asarray(log_likelihoods(self.program, *arrays))

    @in_float64
    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        arrays = (placed(array, self.parallel) for array in (thetas, weights, scored))
        return np.asarray(_losses(self.program, *arrays, self.prepared))

    def check_weights(self, theta: np.ndarray, weights: np.ndarray) -> None:
        if self(theta, weights) == self(theta):
            raise ValueError(
                "log_density must depend on weights, but leaving out fold 0 did not change its value"
            )

    def with_scheme(self, scheme: Scheme) -> CustomObjective:
        """The density has a single path."""
        return self

    @in_float64
    def run_on(self, parallel: Parallel) -> CustomObjective:
        """With several devices, each has a copy of the data."""
        prepared = self.prepared
        if parallel == "devices":
            prepared = jax.device_put(prepared, everywhere())
        return replace(self, parallel=parallel, prepared=prepared)

    def for_resampling(self, kind: str) -> CustomObjective:
        return self


CUSTOM = Family("custom", lambda model: isinstance(model, Custom), custom_objective)
