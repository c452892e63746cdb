"""F(theta, w) of chains of hidden states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fitonce.core import memory
from fitonce.core.arguments import require
from fitonce.core.chunks import chunks
from fitonce.core.deferred import jax, jnp
from fitonce.core.devices import on_cpu
from fitonce.core.numerics import Array, in_float64
from fitonce.core.parallel import Parallel, everywhere
from fitonce.core.parameters import ParameterSpace
from fitonce.data.sequences import Sequences, sequences, sequences_like
from fitonce.engines.chain import KERNELS, Kernel, best_path
from fitonce.models.base import ChainModel
from fitonce.models.hmm import HMM
from fitonce.objectives import priors
from fitonce.objectives.base import MANY_SEQUENCES, LinearMap, Program, Traits
from fitonce.objectives.chain import observed_information, programs
from fitonce.objectives.chain.complete_information import preconditioner
from fitonce.objectives.chain.layout import ChainLayout, chain_layout
from fitonce.objectives.chain.posteriors import Sample
from fitonce.objectives.chain.simulation import FittedHMM
from fitonce.objectives.derivatives import AutodiffObjective
from fitonce.objectives.prepared import PreparedObjective, require_fit, require_same_channels
from fitonce.objectives.schemes import A, C, ChainScheme, Scheme, Structures
from fitonce.objectives.simulation import Simulator

_TANGENTS = 100  # parameters: with fewer, tangents are as fast as scores
_SLOPE_BYTES = 2**30


@in_float64
def chain_objective(
    model: ChainModel, data: Any, kernel: Kernel | None = None, like: ChainObjective | None = None
) -> ChainObjective:
    """F of a chain on data, at scheme A; `like`: that of the fit, where they are to be predicted for."""
    return unplaced(model, data, kernel, like).placed()


def unplaced(
    model: ChainModel, data: Any, kernel: Kernel | None = None, like: ChainObjective | None = None
) -> ChainObjective:
    """The same, with arrays that JAX has not seen yet."""
    require(
        not (kernel is not None and kernel not in KERNELS),
        "kernel",
        "'native', 'scan', 'tree' or None",
        kernel,
    )
    read = model.modelled(sequences(data))
    if like is None:
        read.require_observed()
        prepared = model.prepare(read)
        space = ParameterSpace(model.parameters(prepared))
    else:  # free coordinates are in units of the data of the fit
        require_same_channels(read, like.data)
        prepared, space = model.prepare(read.filled_like(like.data)), like.space
    program = Program(model, space, A(), kernel)
    return ChainObjective(program, read.weights, read, prepared, chain_layout(read))


@dataclass(frozen=True, eq=False, repr=False)
class ChainObjective(PreparedObjective, AutodiffObjective):
    """F of a chain; see `Objective`. `parallel`: where work runs, see `core.parallel`."""

    program: Program
    base: np.ndarray
    data: Sequences
    prepared: Any
    layout: ChainLayout
    parallel: Parallel = None

    values = staticmethod(programs.values)

    @in_float64
    def placed(self) -> ChainObjective:
        """The same with its arrays on JAX's device."""
        prepared, layout = jax.device_put(self.arrays)
        return replace(self, prepared=prepared, layout=layout)

    @property
    def arrays(self) -> tuple[Any, ChainLayout]:
        return self.prepared, self.layout

    @cached_property
    def traits(self) -> Traits:
        model, by_sequence = self.model, isinstance(self.scheme, Structures)
        by_state = model.by_state(self.prepared)
        has_scores = by_state and (by_sequence or isinstance(self.scheme, A))
        return Traits(
            site="time",
            resampling=(*(("block", "iid") if self._telescopes else ()), "structures"),
            linear_in_weights=by_sequence,
            closed_form_hessian=has_scores and self.space.size >= _TANGENTS,
            cheap_cross=by_sequence,
            cheap_rows=True,
            products=True,
            blocks=by_state,
            strongly_nonquadratic=model.emission.traits.strongly_nonquadratic,
            sequences=True,
            simulates=isinstance(model, HMM),
            m_steps="all" if model.starts_with_em else "none",
            weights_of_jax=True,
        )

    @property
    def _telescopes(self) -> bool:
        """Whether log p(x_t | x_<t) of observed steps add up to the log-likelihood: that a sequence did
        not end at a step says something, even if nothing was observed there."""
        ends = isinstance(self.model, HMM) and self.model.chain.end_prior is not None
        return not ends or bool((self.data.observed.any(-1) | ~self.data.valid).all())

    @property
    def clusters(self) -> np.ndarray:
        """(P,) sequences, one observation each, or steps along time where sequences are few."""
        if self._whole or self.along_time:
            return np.arange(len(self.base))
        return np.repeat(np.arange(self.collection.n_sequences), self.collection.lengths)

    @property
    def along_time(self) -> bool:
        lengths = np.asarray(self.collection.lengths, float)
        alike = lengths.sum() ** 2 / np.sum(lengths**2)  # as many of equal length
        return not self._whole and bool(alike < MANY_SEQUENCES - 0.5)

    def transition(self, theta: np.ndarray) -> np.ndarray | None:
        params = self.space.params_at(theta)
        if not isinstance(self.model, HMM):
            found = params.get("transition")
            return None if found is None else np.asarray(found)
        return self.model.mean_moves(params, self.prepared)

    def bytes_per_loss(self, touched: int) -> int:
        """Losses of sequences read these only, losses of points all of the data."""
        if self._whole:
            return max(self.bytes_per_fold * touched // len(self.base), 1)
        return self.bytes_per_fold

    @property
    def _whole(self) -> bool:
        return self.scheme.kind == "sequences"

    # --- derivatives -----------------------------------------------------------------------------------

    @in_float64
    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if self.traits.closed_form_hessian:
            return np.stack([self._by_scores(t, w) for t, w in zip(thetas, weights, strict=True)])
        return super().hessians(thetas, weights)

    def _by_scores(self, theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """H (D, D) from matrix products of scores, which pays with many parameters."""
        hessian, _ = observed_information.split_hessian(self.parallel, self.sample(weights), theta)
        for some, rows in priors.hessian_rows(self.program, theta, self.prepared):
            hessian[some] -= np.asarray(rows)
        return hessian

    @in_float64
    def device_hessian(self, theta: np.ndarray) -> Array | None:
        if on_cpu() or not self.traits.closed_form_hessian:
            return None
        devices = len(jax.devices()) if self.parallel == "devices" else 1
        hessian, _ = observed_information.device_hessian(self.sample(self.base), theta, devices)
        for some, rows in priors.hessian_rows(self.program, theta, self.prepared):
            hessian = observed_information.plus(hessian, -rows, (some.start, 0))
        return hessian

    @in_float64
    def cross(self, theta: np.ndarray) -> np.ndarray:
        """J: for whole sequences, the gradient of each, some at a time."""
        if not self._whole:
            closed = self.traits.closed_form_hessian
            return self.cross_by_rows(theta) if closed else super().cross(theta)
        count = len(self.base)
        per = self.bytes_per_fold // count + 16 * len(theta)
        found = np.empty((count, len(theta)))
        room = memory.room(_SLOPE_BYTES, per, "the gradient of one sequence")
        for some, _ in chunks(count, int(np.clip(room // per, 1, count))):
            part = (self.prepared.take(jax.device_put(some)), self.layout.take(jax.device_put(some)))
            found[some] = programs.sequence_slopes(self.program, jax.device_put(theta), *part)
        return found.T

    @in_float64
    def preconditioner(self, theta: np.ndarray, weights: np.ndarray | None = None) -> LinearMap:
        """The inverse complete-data information, state by state; the identity without blocks."""
        if not self.traits.blocks:
            return np.array
        return preconditioner(self.sample(self.base if weights is None else weights), theta)

    @in_float64
    def sample(self, weights: np.ndarray) -> Sample:
        """The sequences, with weights of sites or of sequences."""
        grid, coefficients = np.ones(self.layout.observed.shape), np.ones(len(self.layout.observed))
        if self._whole:
            coefficients = np.asarray(weights)
        else:
            grid = np.asarray(self.layout.to_grid(jax.device_put(weights)))
        return Sample(self.program, grid, coefficients, self.prepared, self.layout)

    @in_float64
    def m_step(
        self, theta: np.ndarray, weights: np.ndarray | None = None
    ) -> tuple[float, np.ndarray | None]:
        u, at = self.coordinates(self.base if weights is None else weights), jax.device_put(theta)
        value, counts = programs.expectations(self.program, at, u, *self.arrays)
        new = self.model.maximise(self.space.to_params(at), counts, self.prepared)
        return float(value), self.free_or_none(new)

    # --- hidden states and losses ----------------------------------------------------------------------

    @property
    def _with_states(self) -> Program:
        """The program of inference, which keeps latent states whatever the scheme."""
        return replace(self.program, scheme=A())

    @in_float64
    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = programs.leave_one_out(self._with_states, jax.device_put(theta), *self.arrays)
        return np.asarray(values), np.asarray(slopes)

    @in_float64
    def state_probabilities(self, theta: np.ndarray) -> np.ndarray:
        found = self.hidden_probabilities(theta)
        return self.model.by_states(found) if isinstance(self.model, HMM) else found

    @in_float64
    def hidden_probabilities(self, theta: np.ndarray) -> np.ndarray:
        """(sites, E) of the engine's states, which may be stages of states."""
        slots = self.layout.to_slots(np.arange(len(self.data.weights))[None])  # type: ignore[arg-type]
        at = (theta[None], self.data.weights[None], slots)
        return np.asarray(programs.posterior(self._with_states, *at, *self.arrays)[1][0])

    @in_float64
    def simulator(self, theta: np.ndarray) -> Simulator:
        if not self.traits.simulates:
            return super().simulator(theta)
        params = {name: np.asarray(value) for name, value in self.space.params_at(theta).items()}
        return FittedHMM(self.model, params, self.data, self.hidden_probabilities(theta))

    @in_float64
    def decode(self, theta: np.ndarray) -> list[np.ndarray]:
        """(T_n,) integers for each sequence, by the Viterbi algorithm."""
        chain = self.model.potentials(self.space.to_params(jax.device_put(theta)), self.prepared)
        ((_, unary, pairwise),) = A().terms(chain, jnp.ones(self.data.n_sites), self.layout)
        pairwise = pairwise[None] if pairwise.ndim == 2 else pairwise
        paths, _ = best_path(unary, pairwise, self.layout.lengths)
        stages = self.model.chain.n_stages if isinstance(self.model, HMM) else 1
        lengths = self.data.lengths
        return [np.asarray(p)[:length] // stages for p, length in zip(paths, lengths, strict=True)]

    @in_float64
    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        program = self.program if self._whole else self._with_states
        work = lambda t, w: programs.log_likelihoods(program, t, w, *self.arrays)  # noqa: E731
        return self.by_rows(work, thetas, weights)

    @in_float64
    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        """(F, M): -log p(x_t | kept data) of sites, or -log p(x_n) of sequences, `scored` (F, M)."""

        def work(t: Array, w: Array, s: Array) -> Array:
            if self._whole:
                return programs.sequence_losses(self.program, t, s, *self.arrays)
            return programs.pointwise_losses(self._with_states, t, w, s, *self.arrays)

        return self.by_rows(work, thetas, weights, scored)

    # --- other devices, schemes and data ---------------------------------------------------------------

    @in_float64
    def run_on(self, parallel: Parallel) -> ChainObjective:
        """With several devices, each has a copy of the data."""
        if parallel == self.parallel:
            return self
        prepared, layout = self.arrays
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
                else f"scheme {scheme.name} must have `terms`, the potentials of a chain; use A or B"
            )
        base = self.data.sequence_weights if scheme.kind == "sequences" else self.data.weights
        return replace(self, program=replace(self.program, scheme=scheme), base=base)

    def _of(self, data: Any, like: ChainObjective | None = None) -> ChainObjective:
        """The same model on other data."""
        return chain_objective(self.model, data, self.program.kernel, like)

    @property
    def content(self) -> list[Any]:
        data = self.data  # by name: a journal of compiled loops needs no JAX
        return [data.values, data.observed, data.lengths, data.conditioned, data.covariates]

    def shortened(self, sites: int) -> ChainObjective:
        """Whole sequences, or the beginning of a long one; all where parameters depend on the data, or
        where the beginning alone is refused, as if it is constant."""
        data = self.data
        if data.n_sites <= sites:
            return self
        count = max(int(np.searchsorted(np.cumsum(data.lengths), sites)), 1)
        known = data.observed if data.conditioned is None else data.observed | data.conditioned
        lengths = np.minimum(data.lengths[:count], sites)
        part = (slice(count), slice(int(lengths.max())))
        try:
            other = self._of(data.part(part, known, lengths))
            require_fit(other)
        except ValueError:
            return self
        if other.space.size != self.space.size:
            return self
        same_units = replace(other, program=replace(other.program, space=self.space))
        return same_units.with_scheme(self.scheme)

    def for_prediction(self, data: Any = None) -> ChainObjective:
        return self if data is None else self._of(sequences_like(self.data, data), self)
