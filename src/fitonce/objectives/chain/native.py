"""F of chains by the native engine: plain loops and NumPy, nothing to compile for new data.

H and J come from derivatives of expected counts along the parameters. Whatever has no
native form is left to `ChainObjective`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg
from scipy.special import logsumexp

from fitonce.core.devices import on_cpu
from fitonce.core.lanes import LANES
from fitonce.core.numerics import in_float64
from fitonce.core.thread_pool import THREADS
from fitonce.engines import native_chain as engine
from fitonce.engines import native_chain_logs as logs_engine
from fitonce.models.base import ChainModel
from fitonce.models.hmm import HMM
from fitonce.objectives.base import LinearMap, Traits, ValuesAndSlopes
from fitonce.objectives.chain import native_curvature as curvature
from fitonce.objectives.chain.complete_information import definite_factor
from fitonce.objectives.chain.costs import Costs
from fitonce.objectives.chain.fold_groups import group_size, in_groups
from fitonce.objectives.chain.native_parts import Parts, closed_forms, has_closed_forms
from fitonce.objectives.chain.objective import ChainObjective, unplaced
from fitonce.objectives.chain.passes import conditionals, losses_by_logarithms, posterior
from fitonce.objectives.chain.posteriors import Split
from fitonce.objectives.chain.steps import Steps
from fitonce.objectives.schemes import A, B, Increments, Scheme, Structures

_AT_ONCE = 64  # steps that some state rules out, whose slopes are differences of gradients
_FEW = 40  # parameters of an emission without closed forms
# What a group of folds and conditional probabilities of one fold take; longer chains are left to JAX.
_ARRAYS, _MOST_BYTES = 5, 2**33
_MANY = 500  # parameters: beyond, Newton's method works by products, which autoregressions have by JAX


@in_float64
def best_objective(
    model: ChainModel, data: Any, kernel: str | None = None, like: ChainObjective | None = None
) -> ChainObjective:
    """The native objective of a chain where there is one and this is a CPU, else that of JAX.

    Args:
        model, data: the chain.
        kernel: "native", or one of JAX ("scan", "tree"); None: the best.
        like: that of the fit, where the data are to be predicted for.
    """
    made = unplaced(model, data, None if kernel == "native" else kernel, like)  # type: ignore[arg-type]
    if kernel not in (None, "native") or (kernel is None and not on_cpu()):
        return made.placed()
    if _is_native(made):
        return _native(made)
    if kernel == "native":
        raise ValueError(
            f"kernel='native' needs an emission with closed forms (for autoregressions, at most {_MANY} "
            f"parameters) or at most {_FEW} parameters, which {model} has not"
        )
    return made.placed()


def _native(made: ChainObjective) -> NativeChainObjective:
    fields = (made.program, made.base, made.data, made.prepared, made.layout, made.parallel)
    return NativeChainObjective(*fields)


def _is_native(objective: ChainObjective) -> bool:
    """Whether the native objective can take its place: a closed form, or few emission parameters."""
    model, space = objective.model, objective.space
    if not isinstance(model, HMM) or not _has_loops(objective.scheme):
        return False
    steps, states = _steps(objective), model.n_hidden
    if 8 * len(steps.index) * states * (_ARRAYS * LANES + 2 * states) > _MOST_BYTES:
        return False
    if closed_forms(model, steps) is None:
        return space.size - len(Split(space, model.n_states).chain) <= _FEW
    traits = model.emission.traits
    return space.size <= _MANY or not (traits.information or traits.metric)


def _steps(objective: ChainObjective) -> Steps:
    """Only emissions with closed forms are known to weigh rows by their counts."""
    weighs = has_closed_forms(objective.model.emission)
    return Steps.of(objective.data, objective.prepared, weighs)


def _has_loops(scheme: Scheme) -> bool:
    return isinstance(scheme, (A, Structures, Increments)) or (
        isinstance(scheme, B) and not scheme.normalised
    )


@dataclass(frozen=True, eq=False, repr=False)
class NativeChainObjective(ChainObjective):
    """See the module docstring."""

    @cached_property
    def steps(self) -> Steps:
        return _steps(self)

    @cached_property
    def parts(self) -> Parts:
        return Parts(self.program, self.prepared, self.steps)

    def coordinates(self, weights: np.ndarray) -> np.ndarray:  # type: ignore[override]
        """The weights; where transitions have their own, also those of the transitions into steps."""
        weights = np.asarray(weights, float)
        if not self.parts.own_links:
            return weights
        rows = weights.reshape(-1, len(self.base))
        links = np.ones((len(rows), self.steps.n_links))
        into = ~self.steps.is_first
        links[:, self.steps.links[into]] = self.parts.links(rows.T)[into].T
        return np.concatenate([weights, links.reshape(*weights.shape[:-1], self.steps.n_links)], -1)

    def log_prior(self, theta: np.ndarray) -> float:
        return float(self.parts.log_prior(self.parts.values(theta[None]))[0])

    def values_and_gradients(self, thetas: np.ndarray, weights: np.ndarray) -> ValuesAndSlopes:
        parts = self._in_groups(lambda some: self._group(thetas[some], weights[some]), len(thetas))
        values, slopes = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(slopes)

    def _group(self, thetas: np.ndarray, weights: np.ndarray) -> ValuesAndSlopes:
        # A line search may go far beyond what numbers can hold; infinite values send it back.
        with np.errstate(all="ignore"):
            values = self.parts.values(thetas)
            found = posterior(self.steps, self.parts.potentials(values, weights), nodes=False)
            return -found.values - self.parts.log_prior(values), -self.parts.pulled_back(values, found)

    @cached_property
    def _costs(self) -> Costs:
        states, rows, closed = self.model.n_emitting, self.steps.rows, self.parts.closed
        densities = states * rows.x.size if closed is None else closed.operations(states, rows)
        steps, hidden = len(self.steps.index), self.model.n_hidden
        return Costs(steps * hidden**2 + densities, steps * hidden, self.space.size)

    @property
    def _tangents_pay(self) -> bool:
        """Not where tangents are those of JAX."""
        return self._costs.tangents_pay and not isinstance(self.scheme, Increments)

    @property
    def gradients_per_hessian(self) -> float:
        costs = self._costs
        return costs.tangents / costs.gradient if self._tangents_pay else super().gradients_per_hessian

    @cached_property
    def _group_size(self) -> int:
        # Programs of JAX are compiled for every size.
        return (
            LANES
            if self.parts.closed is None
            else group_size(self._costs.operations, self.bytes_per_fold)
        )

    def _in_groups(self, work: Callable[[slice], Any], folds: int) -> list[Any]:
        return in_groups(work, folds, self._group_size, self._costs.operations)

    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        def work(some: slice) -> np.ndarray:
            given = parts.potentials(parts.values(thetas[some]), weights[some])
            return posterior(self.steps, given, nodes=False).values

        parts = self.parts if self._whole else self._by_site.parts
        return np.concatenate(self._in_groups(work, len(thetas)))

    @in_float64
    def m_step(
        self, theta: np.ndarray, weights: np.ndarray | None = None
    ) -> tuple[float, np.ndarray | None]:
        weights = self.base if weights is None else weights
        values = self.parts.values(theta[None])
        found = posterior(self.steps, self.parts.potentials(values, weights[None]), nodes=False)
        value = -found.values - self.parts.log_prior(values)
        params = dict(values.alone())
        shares = np.zeros((len(self.prepared.rows.counts), self.model.n_states))
        shares[self.steps.places] = self.model.by_states(found.shares[..., 0])
        counts = self.steps.gathered(found.firsts[..., 0], found.pairs[..., 0], self.parts.tables)
        new = self.model.maximise_counts(params, *counts, shares, self.prepared)
        return float(value[0]), self.free_or_none(new)

    @property
    def bytes_per_fold(self) -> int:
        """Rows, nodes, weights and what densities take, each in its lane."""
        states, rows, closed = self.model.n_emitting, self.steps.rows, self.parts.closed
        held = states * rows.x.size if closed is None else closed.numbers(states, rows)
        hidden = self.model.n_hidden
        return 8 * (len(self.steps.index) * (2 * hidden + 4) + 3 * len(rows.x) * hidden + held)

    @property
    def bytes_per_point(self) -> int:
        """Messages, conditional probabilities, scores, and derivatives along one direction."""
        states, own = self.model.n_hidden, self.parts.own.shape[1]
        return 8 * len(self.steps.index) * states * (2 * states + own + 10)

    @property
    def bytes_of_directions(self) -> int:
        return self.parts.bytes_of_directions

    # --- second derivatives ----------------------------------------------------------------------------

    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if isinstance(self.scheme, Increments):
            at_base = self._by_site if (weights == self.base).all() else self._by_jax
            return at_base.hessians(thetas, weights)

        def one(fold: int) -> np.ndarray:
            found = curvature.products(self.parts, self.parts.point(thetas[fold], weights[fold]))
            return 0.5 * (found + found.T)

        return np.stack(THREADS.run(one, range(len(thetas)), self._costs.operations * self.space.size))

    def cross(self, theta: np.ndarray) -> np.ndarray:
        """J, (D, coordinates)."""
        point = self.parts.point(theta, self.base)
        if self._whole:
            return curvature.slopes_of_sequences(self.parts, point)
        if isinstance(self.scheme, Increments):
            return curvature.slopes_of_increments(self.parts, point)
        return curvature.slopes_of_sites(self.parts, point, self.coordinates(self.base).size)

    def products(self, thetas: np.ndarray, directions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if isinstance(self.scheme, Increments):
            return self._by_jax.products(thetas, directions, weights)

        def one(fold: int) -> np.ndarray:
            point = self.parts.point(thetas[fold], weights[fold])
            return curvature.products(self.parts, point, directions[fold][None])

        return np.concatenate(THREADS.run(one, range(len(thetas)), self._costs.operations))

    def products_at(self, theta: np.ndarray, directions: np.ndarray) -> np.ndarray:
        here = self._by_site if isinstance(self.scheme, Increments) else self
        return curvature.products(self.parts, here.parts.point(theta, self.base), directions)

    def slopes_along(self, theta: np.ndarray, changes: np.ndarray) -> np.ndarray:
        return changes @ self.cross(theta).T

    # --- hidden states and losses ----------------------------------------------------------------------

    @cached_property
    def _by_jax(self) -> ChainObjective:
        """The same by JAX, for what has no loops."""
        fields = (self.program, self.base, self.data, self.prepared, self.layout, self.parallel)
        return ChainObjective(*fields).placed()

    @cached_property
    def _by_site(self) -> NativeChainObjective:
        """The same with weights of sites, whose hidden states are kept."""
        if isinstance(self.scheme, A):
            return self
        return replace(self, program=replace(self.program, scheme=A()), base=self.data.weights)

    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        point = self._by_site.parts.point(theta, self.data.weights)
        known, steps, given = point.known, self.steps, point.given
        density = given.rows[steps.index, :, 0]
        emitted = np.where(given.weights > 0, density, 0.0)
        # p(z_t | all other x): what reaches t from before it, without its own emission.
        chain = (np.ascontiguousarray(part[..., 0]) for part in (given.initial, given.moves))
        before = np.empty(density.shape)
        logs_engine.reached(known.ahead, *chain, steps.starts, before)
        others = before + known.behind
        others = others - logsumexp(others, axis=-1, keepdims=True)
        values = np.where(steps.seen > 0, logsumexp(others + emitted, axis=-1), 0.0)
        cavity, slopes = np.exp(others), np.empty((self.space.size, len(values)))
        for some, moved in self.parts.directions(point):
            reach = curvature.tangents(point, moved).reach
            own = np.einsum("tk,tkm->tm", known.nodes, reach)
            slopes[some] = (own - np.einsum("tk,tkm->tm", cavity, reach - moved[0])).T * steps.seen
        # A state that rules a step out has no derivative of its own there, but a share without the step.
        ruled_out = (np.isneginf(emitted) & (cavity > 0)).any(1) & (steps.seen > 0)
        for few in np.array_split(np.flatnonzero(ruled_out), -(-int(ruled_out.sum()) // _AT_ONCE) or 1):
            slopes[:, few] = self._slopes_by_gradients(theta, few)
        return values, slopes

    def _slopes_by_gradients(self, theta: np.ndarray, sites: np.ndarray) -> np.ndarray:
        """(D, n) derivatives of log p(x_t | all other x) of some sites (n,)."""
        weights = np.tile(self.data.weights, (len(sites) + 1, 1))
        weights[1 + np.arange(len(sites)), sites] = 0.0
        found = self._by_site.gradients(np.tile(theta, (len(weights), 1)), weights)
        return (found[1:] - found[0]).T

    def hidden_probabilities(self, theta: np.ndarray) -> np.ndarray:
        parts = self._by_site.parts
        given = parts.potentials(parts.values(theta[None]), self.data.weights[None])
        return conditionals(self.steps, given, 0).nodes

    def decode(self, theta: np.ndarray) -> list[np.ndarray]:
        given = self._by_site.parts.potentials(self.parts.values(theta[None]), self.data.weights[None])
        rows = np.where(given.weights > 0, given.rows[self.steps.index, :, 0], 0.0)
        path = np.empty(len(rows), np.int64)
        chain = (given.moves[..., 0].copy(), given.initial[..., 0].copy(), self.steps.starts)
        logs_engine.best_path(rows, np.arange(len(rows)), *chain, path)
        return np.split(path // self.model.chain.n_stages, self.steps.starts[1:-1])

    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        if self._whole:
            return self._sequence_losses(thetas, scored)

        def work(some: slice) -> np.ndarray:
            given = parts.potentials(parts.values(thetas[some]), weights[some])
            nodes = np.ascontiguousarray(posterior(self.steps, given, values=False).nodes)
            found = np.empty(scored[some].shape)
            rows = np.ascontiguousarray(given.rows)
            unsure = engine.held_out_losses(nodes, rows, self.steps.index, scored[some], found)
            for fold in map(int, np.flatnonzero(unsure)):
                found[fold] = losses_by_logarithms(self.steps, given, fold, scored[some][fold])
            return found

        parts = self._by_site.parts
        return np.concatenate(self._in_groups(work, len(thetas)))

    def _sequence_losses(self, thetas: np.ndarray, scored: np.ndarray) -> np.ndarray:
        """(F, M): -log p(x_n); passes run over a fold's own sequences only."""

        def work(some: slice) -> np.ndarray:
            weights = np.ones((len(thetas[some]), len(self.base)))
            given = self.parts.potentials(self.parts.values(thetas[some]), weights)
            found = np.empty(scored[some].shape)
            for fold, chosen in enumerate(scored[some]):
                steps, taken = self.steps.some(chosen)
                part = given.some(chosen, taken)
                found[fold] = -conditionals(steps, part, fold).values
            return found

        return np.concatenate(self._in_groups(work, len(thetas)))

    def _of(self, data: Any, like: ChainObjective | None = None) -> ChainObjective:
        return best_objective(self.model, data, like=like)

    def with_scheme(self, scheme: Scheme) -> ChainObjective:
        if scheme == self.scheme:
            return self
        other = super().with_scheme(scheme)
        return other if _has_loops(scheme) else other._by_jax  # type: ignore[attr-defined]

    @property
    def traits(self) -> Traits:
        return replace(
            super().traits,
            together=self._group_size,
            compiles=self.parts.closed is None,
            weights_of_jax=False,
            closed_form_hessian=False,
            tangents_pay=self._tangents_pay,
            products=self.space.size > _MANY,
            blocks=True,
        )

    def preconditioner(self, theta: np.ndarray, weights: np.ndarray | None = None) -> LinearMap:
        """The inverse of the complete-data information and the prior's, which is nearly diagonal."""
        point = self.parts.point(theta, self.base if weights is None else weights)
        complete = self.parts.complete(point, point.counted(), roughly=True)
        factor = definite_factor(-complete)
        # Columns that overflow stay what they are, and their descents end.
        return lambda columns: linalg.cho_solve(factor, columns, check_finite=False)
