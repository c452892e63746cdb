"""F(theta, w) of a custom density, which takes the weights itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from fitonce.core.arguments import shown
from fitonce.core.deferred import jax, jit
from fitonce.core.numerics import Array, in_float64
from fitonce.core.parallel import Parallel, everywhere, placed
from fitonce.core.parameters import ParameterSpace
from fitonce.data.own import are_times, read_own
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
    found = jax.vmap(program.model.density, (0, None, 0))(params, prepared, weights)
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
    plain, labels = read_own(data)
    prepared = jax.tree_util.tree_map(jax.device_put, plain)
    program = Program(model, ParameterSpace(model.space()), Own())
    count = model.count(prepared)
    times = are_times(labels) and labels is not None and len(labels) == count
    return CustomObjective(program, np.ones(count), data, prepared, times)


@dataclass(frozen=True, eq=False, repr=False)
class CustomObjective(PreparedObjective, AutodiffObjective):
    """F of a custom density; see `Objective`. `prepared`: the data as arrays; `dated`: whether they have
    a date for each point, in order."""

    program: Program
    base: np.ndarray
    data: Any
    prepared: Any
    dated: bool = False
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
        """(P,) points."""
        return np.arange(len(self.base))

    @property
    def along_time(self) -> bool:
        """Whether the model or dates say so."""
        return self.model.along_time or self.dated

    def start(self, rng: np.random.Generator | None) -> np.ndarray:
        return self.space.to_free(self.model.init)

    def preconditioner(self, theta: np.ndarray, weights: np.ndarray | None = None) -> LinearMap:
        """The identity: nothing is known about the density."""
        return np.array

    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise ValueError(
            "loo and influence sweep a chain or a graph, which a Custom does not have; leave out each "
            f"point by fo.cross_validate(fit, fo.folds.points({len(self.base)}))"
        )

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
