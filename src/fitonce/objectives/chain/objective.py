"""F(theta, w) of chains of hidden states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.core.chunks import chunks
from fitonce.core.numerics import Array, in_float64
from fitonce.core.parallel import Parallel, everywhere, placed
from fitonce.core.parameters import ParameterSpace
from fitonce.data.sequences import Collection, Sequences, sequences
from fitonce.engines.chain import KERNELS, Kernel, best_path
from fitonce.models.base import ChainModel
from fitonce.objectives import priors
from fitonce.objectives.base import CLUSTERS, Objective, Program, Traits
from fitonce.objectives.chain import observed_information, programs
from fitonce.objectives.chain.complete_information import preconditioner
from fitonce.objectives.chain.layout import Layout, layout_of
from fitonce.objectives.chain.posteriors import Sample
from fitonce.objectives.derivatives import Derivatives
from fitonce.objectives.schemes import A, C, ChainScheme, Scheme, Structures

_TANGENTS = 100  # parameters: fewer are as fast by tangents
_SLOPE_BYTES = 2**30


@in_float64
def chain_objective(model: ChainModel, data: Any, kernel: Kernel | None = None) -> ChainObjective:
    """F of a chain on data, at scheme A."""
    if kernel is not None and kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {KERNELS} or None, got '{kernel}'")
    read = model.modelled(sequences(data))
    prepared = model.prepare(read)
    program = Program(model, ParameterSpace(model.parameters(prepared)), A(), kernel)
    return ChainObjective(program, read.weights, read, prepared, layout_of(read))


@dataclass(frozen=True, eq=False)
class ChainObjective(Objective):
    """F of a chain; see `Objective`.

    Attributes:
        prepared, layout: the data as the model and the engine read it.
        parallel: where work runs, see `core.parallel`.
    """

    program: Program
    base: np.ndarray
    data: Sequences
    prepared: Any
    layout: Layout
    parallel: Parallel = None

    @property
    def collection(self) -> Collection:
        return self.data

    @cached_property
    def traits(self) -> Traits:
        model, whole = self.model, isinstance(self.scheme, Structures)
        by_state = model.by_state(self.prepared)
        return Traits(
            site="time",
            resampling=("block", "iid", "structures"),
            linear_in_weights=whole,
            closed_form_hessian=by_state
            and self.space.size >= _TANGENTS
            and isinstance(self.scheme, (A, Structures)),
            cheap_cross=whole,
            products=True,
            blocks=by_state,
            strongly_nonquadratic=model.emission.traits.strongly_nonquadratic,
            m_steps="all" if model.has_m_steps else "none",
        )

    @cached_property
    def _derivatives(self) -> Derivatives:
        data = (self.prepared, self.layout)
        return Derivatives(programs.values, self.program, data, self.bytes_per_fold, self.parallel)

    @property
    def clusters(self) -> np.ndarray:
        """(P,) contiguous stretches, which count as one observation each; sequences are their own."""
        count = len(self.base)
        return np.arange(count) // (1 if self._whole else -(-count // CLUSTERS))

    @property
    def bytes_per_fold(self) -> int:
        return int(self.model.bytes_per_fold(self.prepared))

    def bytes_per_loss(self, touched: int) -> int:
        """Losses of sequences take these alone, those of points all of the data."""
        if self._whole:
            return max(self.bytes_per_fold * touched // len(self.base), 1)
        return self.bytes_per_fold

    @property
    def _whole(self) -> bool:
        return self.scheme.kind == "sequences"

    @in_float64
    def start(self, rng: np.random.Generator | None) -> np.ndarray:
        return self.space.to_free(self.model.start(self.prepared, rng))

    @in_float64
    def log_prior(self, theta: np.ndarray) -> float:
        return float(priors.log_prior(self.program, jnp.asarray(theta), self.prepared))

    @in_float64
    def coordinates(self, weights: np.ndarray) -> Array:  # type: ignore[override]
        w = jnp.asarray(weights, float)
        path = partial(self.scheme.path, layout=self.layout)
        return path(w) if w.ndim == 1 else jax.vmap(path)(w)

    # --- derivatives -----------------------------------------------------------------------------------

    @in_float64
    def gradients(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return self._derivatives.gradients(thetas, self.coordinates(weights))

    @in_float64
    def values_and_gradients(
        self, thetas: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return self._derivatives.values_and_gradients(thetas, self.coordinates(weights))

    @in_float64
    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if self.traits.closed_form_hessian:
            return np.stack([self._by_scores(t, w) for t, w in zip(thetas, weights, strict=True)])
        return self._derivatives.hessians(np.asarray(thetas), self.coordinates(weights))

    def _by_scores(self, theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """H (D, D) as matrix products of scores, which pays where there are many parameters."""
        sample = self.sample(weights)
        hessian, _ = observed_information.split_hessian(self.parallel, sample, theta)
        for some, rows in priors.hessian_rows(self.program, theta, self.prepared):
            hessian[some] -= np.asarray(rows)
        return hessian

    @in_float64
    def device_hessian(self, theta: np.ndarray) -> Array | None:
        if jax.default_backend() == "cpu" or not self.traits.closed_form_hessian:
            return None
        devices = len(jax.devices()) if self.parallel == "devices" else 1
        hessian, _ = observed_information.device_hessian(self.sample(self.base), theta, devices)
        for some, rows in priors.hessian_rows(self.program, theta, self.prepared):
            hessian = observed_information.plus(hessian, -rows, (some.start, 0))
        return hessian

    @in_float64
    def cross(self, theta: np.ndarray) -> np.ndarray:
        """J: a gradient for each sequence, or with H."""
        if self._whole:
            return self._sequence_slopes(theta)
        u = self.coordinates(self.base)
        closed = self.traits.closed_form_hessian
        return self._derivatives.cross_rows(theta, u) if closed else self._derivatives.cross(theta, u)

    def _sequence_slopes(self, theta: np.ndarray) -> np.ndarray:
        """(D, N), some sequences at a time."""
        count = len(self.base)
        per = self.bytes_per_fold // count + 16 * len(theta)
        found = np.empty((count, len(theta)))
        for some, _ in chunks(count, int(np.clip(_SLOPE_BYTES // per, 1, count))):
            part = (self.prepared.take(jnp.asarray(some)), self.layout.take(jnp.asarray(some)))
            found[some] = programs.sequence_slopes(self.program, jnp.asarray(theta), *part)
        return found.T

    @in_float64
    def products(
        self, thetas: np.ndarray, directions: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray]:
        return (self._derivatives.products(thetas, directions, self.coordinates(weights)),)

    @in_float64
    def products_at(self, theta: np.ndarray, directions: np.ndarray) -> np.ndarray:
        return self._derivatives.products_at(theta, directions, self.coordinates(self.base))

    @in_float64
    def slopes_along(self, theta: np.ndarray, changes: np.ndarray) -> np.ndarray:
        return self._derivatives.slopes_along(theta, self.coordinates(self.base), changes)

    @in_float64
    def preconditioner(
        self, theta: np.ndarray, weights: np.ndarray | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        """By the complete-data information, state by state; the identity where a model has no blocks."""
        if not self.traits.blocks:
            return np.array
        return preconditioner(self.sample(self.base if weights is None else weights), theta)

    @in_float64
    def sample(self, weights: np.ndarray) -> Sample:
        """The sequences with these weights, of sites or of sequences."""
        grid, coefficients = np.ones(self.layout.observed.shape), np.ones(len(self.layout.observed))
        if self._whole:
            coefficients = np.asarray(weights)
        else:
            grid = np.asarray(self.layout.to_grid(jnp.asarray(weights)))
        return Sample(self.program, grid, coefficients, self.prepared, self.layout)

    @in_float64
    def m_step(
        self, theta: np.ndarray, weights: np.ndarray | None = None
    ) -> tuple[float, np.ndarray | None]:
        u, at = self.coordinates(self.base if weights is None else weights), jnp.asarray(theta)
        value, counts = programs.expectations(self.program, at, u, self.prepared, self.layout)
        new = self.model.maximise(self.space.to_params(at), counts, self.prepared)
        return float(value), self.space.to_free(new)

    # --- hidden states and losses ------------------------------------------------------------------------

    @in_float64
    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        arrays = (jnp.asarray(theta), self.prepared, self.layout)
        values, slopes = programs.leave_one_out(self.program, *arrays)
        return np.asarray(values), np.asarray(slopes)

    @in_float64
    def state_probabilities(self, theta: np.ndarray) -> np.ndarray:
        sites = jnp.arange(len(self.data.weights))[None]
        slots, weights = self.layout.to_slots(sites), jnp.asarray(self.data.weights)[None]
        arrays = (jnp.asarray(theta)[None], weights, slots, self.prepared, self.layout)
        return np.asarray(programs.posterior(self.program, *arrays)[1][0])

    @in_float64
    def decode(self, theta: np.ndarray) -> list[np.ndarray]:
        """(T_n,) integers for each sequence, by Viterbi's algorithm."""
        chain = self.model.potentials(self.space.to_params(jnp.asarray(theta)), self.prepared)
        everything = jnp.ones(self.data.n_sites)
        ((_, unary, pairwise),) = A().terms(chain, everything, self.layout)
        paths, _ = best_path(unary, pairwise[None], self.layout.lengths)
        return [np.asarray(path)[:length] for path, length in zip(paths, self.data.lengths, strict=True)]

    @in_float64
    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        program = self.program if self._whole else replace(self.program, scheme=A())
        arrays = (jnp.asarray(thetas), jnp.asarray(weights), self.prepared, self.layout)
        return np.asarray(programs.log_likelihoods(program, *arrays))

    @in_float64
    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        """(F, M): -log p(x_t | kept data), or of whole sequences, of what is `scored` (F, M)."""
        t, w, s = (placed(array, self.parallel) for array in (thetas, weights, scored))
        data = (self.prepared, self.layout)
        if self._whole:
            return np.asarray(programs.sequence_losses(self.program, t, s, *data))
        return np.asarray(programs.pointwise_losses(self.program, t, w, s, *data))

    # --- the same, elsewhere -----------------------------------------------------------------------------

    @in_float64
    def run_on(self, parallel: Parallel) -> ChainObjective:
        """On several devices the data are on each of them."""
        if parallel == self.parallel:
            return self
        prepared, layout = self.prepared, self.layout
        if parallel == "devices":
            prepared, layout = jax.device_put((prepared, layout), everywhere())
        return replace(self, parallel=parallel, prepared=prepared, layout=layout)

    def with_scheme(self, scheme: Scheme) -> ChainObjective:
        if scheme == self.scheme:
            return self
        if not isinstance(scheme, ChainScheme):
            raise ValueError(
                f"scheme {scheme.name} leaves labels out, but this model's states are hidden: use A or B"
                if isinstance(scheme, C)
                else f"scheme {scheme.name} must have `terms`, what it does to a chain; use A or B"
            )
        base = self.data.sequence_weights if scheme.kind == "sequences" else self.data.weights
        return replace(self, program=replace(self.program, scheme=scheme), base=base)

    def for_prediction(self, data: Any = None) -> ChainObjective:
        if data is None:
            return self
        other = chain_objective(self.model, data, self.program.kernel)
        if other.space.size != self.space.size:
            raise ValueError(f"data must have the {len(self.data.channels)} channels of the fit's data")
        return other
