"""F of chains by the native engine: plain loops and NumPy, nothing to compile for new data.

H and J come from derivatives of expected counts along the parameters. Whatever has no
native form is left to `ChainObjective`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from fitonce.core.constraints import Frozen, Simplex
from fitonce.core.devices import on_cpu
from fitonce.core.lanes import LANES
from fitonce.core.numerics import in_float64
from fitonce.engines import native_chain_logs as logs_engine
from fitonce.models.base import ChainModel
from fitonce.models.hmm import HMM
from fitonce.objectives.base import LinearMap, Traits, ValuesAndSlopes
from fitonce.objectives.chain.complete_information import definite_factor
from fitonce.objectives.chain.native_parts import Parts, Point, closed_forms
from fitonce.objectives.chain.objective import ChainObjective, unplaced
from fitonce.objectives.chain.passes import (
    GROUPS,
    Steps,
    conditionals,
    posterior,
)
from fitonce.objectives.chain.posteriors import CHAIN, Split
from fitonce.objectives.schemes import A, B, Increments, Scheme, Structures

_FEW = 40  # parameters of an emission without closed forms
# What a group of folds and conditional probabilities of one fold take; longer chains are left to JAX.
_ARRAYS, _MOST_BYTES = 5, 2**31
_MANY = 500  # parameters: beyond, Newton's method works by products


@in_float64
def best_objective(model: ChainModel, data: Any, kernel: str | None = None) -> ChainObjective:
    """The native objective of a chain where there is one and this is a CPU, else that of JAX.

    Args:
        model, data: the chain.
        kernel: "native", or one of JAX ("scan", "tree"); None: the best.
    """
    made = unplaced(model, data, None if kernel == "native" else kernel)  # type: ignore[arg-type]
    if kernel not in (None, "native") or (kernel is None and not on_cpu()):
        return made.placed()
    if _is_native(made):
        return _native(made)
    if kernel == "native":
        raise ValueError(
            f"kernel='native' needs an emission with closed forms or at most {_FEW} parameters, "
            f"which {model} has not"
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
    leaves = {name: leaf for name, leaf, _ in space.leaves()}
    if not all(isinstance(leaves[name], (Simplex, Frozen)) for name in CHAIN):
        return False
    steps, states = Steps.of(objective.data, objective.prepared), model.n_states
    if 8 * len(steps.index) * states * (_ARRAYS * LANES + 2 * states) > _MOST_BYTES:
        return False
    if closed_forms(model, steps) is not None:
        return True
    return space.size - len(Split(space, model.n_states).chain) <= _FEW


def _has_loops(scheme: Scheme) -> bool:
    return isinstance(scheme, (A, Structures, Increments)) or (
        isinstance(scheme, B) and not scheme.normalised
    )


@dataclass(frozen=True, eq=False)
class NativeChainObjective(ChainObjective):
    """See the module docstring."""

    @cached_property
    def steps(self) -> Steps:
        return Steps.of(self.data, self.prepared)

    @cached_property
    def parts(self) -> Parts:
        return Parts(self.program, self.prepared, self.steps)

    def coordinates(self, weights: np.ndarray) -> np.ndarray:  # type: ignore[override]
        """The weights; where transitions have their own, also those of the transitions into steps."""
        weights = np.asarray(weights, float)
        if not self._own_links:
            return weights
        links = self.parts.links(weights.reshape(-1, len(self.base)).T).T
        return np.concatenate([weights, links.reshape(weights.shape)], -1)

    @property
    def _own_links(self) -> bool:
        return isinstance(self.scheme, B) and self.scheme.per_transition

    def log_prior(self, theta: np.ndarray) -> float:
        return float(self.parts.log_prior(self.parts.values(theta[None]))[0])

    def values_and_gradients(self, thetas: np.ndarray, weights: np.ndarray) -> ValuesAndSlopes:
        parts = GROUPS.run(lambda some: self._group(thetas[some], weights[some]), len(thetas))
        values, slopes = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(slopes)

    def _group(self, thetas: np.ndarray, weights: np.ndarray) -> ValuesAndSlopes:
        values = self.parts.values(thetas)
        found = posterior(self.steps, self.parts.potentials(values, weights))
        return -found.values - self.parts.log_prior(values), -self.parts.pulled_back(values, found)

    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        def work(some: slice) -> np.ndarray:
            given = parts.potentials(parts.values(thetas[some]), weights[some])
            return posterior(self.steps, given).values

        parts = self.parts if self._whole else self._by_site.parts
        return np.concatenate(GROUPS.run(work, len(thetas)))

    @in_float64
    def m_step(
        self, theta: np.ndarray, weights: np.ndarray | None = None
    ) -> tuple[float, np.ndarray | None]:
        weights = self.base if weights is None else weights
        values = self.parts.values(theta[None])
        found = posterior(self.steps, self.parts.potentials(values, weights[None]))
        value = -found.values - self.parts.log_prior(values)
        params = dict(values.alone())
        shares = np.zeros((len(self.prepared.rows.counts), self.model.n_states))
        shares[self.steps.places] = found.shares[..., 0]
        counts = (found.firsts[..., 0].sum(0), found.pairs[..., 0].sum(0), shares)
        new = self.model.maximise_counts(params, *counts, self.prepared.rows)
        return float(value[0]), self.space.to_free(new)

    # --- second derivatives ----------------------------------------------------------------------------

    def _point(self, theta: np.ndarray, weights: np.ndarray) -> Point:
        values = self.parts.values(theta[None])
        given = self.parts.potentials(values, weights[None])
        alone = values.alone()
        scores = self.parts.forms.scores(alone, self.steps.rows)[self.steps.index]
        return Point(alone, given, conditionals(self.steps, given, 0), scores)

    def _tangents(self, point: Point, moved: Any, with_links: bool = False) -> tuple[np.ndarray, ...]:
        """Derivatives of log p(z_t = k, x) (T, K, m), of expected transitions, of log Z (N, m) and, if
        asked for, of expected log transitions into steps (T, m), see `native_chain_logs.tangents`."""
        emission, first, move = moved
        count = emission.shape[-1]
        reach, pairs = np.empty_like(emission), np.zeros_like(move)
        values = np.empty((len(self.steps.starts) - 1, count))
        known, coefficients = point.known, np.ascontiguousarray(point.given.coefficients[:, 0])
        arrays = (known.nodes, known.back, known.onward, emission, first, move)
        chain = (np.ascontiguousarray(point.given.moves[..., 0]), point.given.links_of(0))
        links = np.zeros((len(reach) if with_links else 0, count))
        logs_engine.tangents(
            *arrays, *chain, self.steps.starts, coefficients, reach, pairs, links, values
        )
        return reach, pairs, values, links

    def _bent(self, theta: np.ndarray, weights: np.ndarray, cross: bool, directions: Any = None) -> Any:
        """H times directions (m, D) (all of them: H), and J at sites if `cross`, else None."""
        point = self._point(theta, weights)
        directions = np.eye(len(theta)) if directions is None else directions
        products, slopes = np.empty(directions.shape), None
        drops_states = isinstance(self.scheme, B)
        if cross:
            slopes = np.zeros((len(directions), self.coordinates(self.base).size))
            density = point.given.rows[self.steps.index, :, 0]
            density = np.where(point.known.nodes > 0, density, 0.0)
        weight, sequence, begins = point.given.weights[:, 0], self.steps.sequence, self.steps.starts[:-1]
        scale = point.given.coefficients[sequence, 0]
        for some, moved in self.parts.directions(point, directions):
            reach, pairs, values, links = self._tangents(point, moved, cross and drops_states)
            reach -= values[sequence][:, None]
            reach *= point.known.nodes[..., None]  # derivatives of p(z_t = k)
            if slopes is not None:
                here = np.einsum("tkm,tk->mt", reach, density)
                own = directions[some][:, self.parts.own]
                here += np.einsum("tk,tkp,mkp->mt", point.known.nodes, point.scores, own, optimize=True)
                slopes[some, : here.shape[1]] = -here * self.steps.seen
                if drops_states:
                    self._add_links(point, moved, reach, links, slopes[some])
            reach *= scale[:, None, None]
            firsts = np.tensordot(point.given.links_of(0)[begins], reach[begins], 1)
            reach *= weight[:, None, None]
            products[some] = self.parts.moved_back(point, reach, firsts, pairs[0])
        counted = (scale * weight)[:, None] * point.known.nodes
        products += directions @ self.parts.complete(point, counted)
        return -products, slopes

    def _add_links(self, point: Point, moved: Any, reach: Any, links: Any, slopes: np.ndarray) -> None:
        """Add what weights of transitions change, (m, coordinates): from derivatives of p(z_t = k)
        (T, K, m), and of expected log transitions for fixed logarithms (T, m)."""
        _, first, move = moved
        begins, seen = self.steps.starts[:-1], self.steps.seen
        into = np.zeros(point.known.onward.shape)
        into[1:] = point.known.nodes[:-1, :, None] * point.known.onward[1:]
        links += np.tensordot(into, move[0], ((1, 2), (0, 1)))
        logs = point.given.initial[0, :, 0]
        start = np.einsum("nkm,k->nm", reach[begins], np.where(np.isfinite(logs), logs, 0.0))
        start += point.known.nodes[begins] @ first[0]
        sites = slopes[:, : len(seen)]
        sites[:, begins] -= (start * seen[begins, None]).T
        links[begins] = 0.0
        if self._own_links:
            slopes[:, len(seen) :] = -links.T
            return
        sites -= links.T * seen  # the transition into a step, and that out of it
        sites[:, :-1] -= links[1:].T * seen[:-1]

    def _prefixes(self, point: Point) -> np.ndarray:
        """(D, T): minus derivatives of log p(x_t | x_<t)."""
        filtered, _ = point.known.filtered()
        found = np.empty((self.space.size, len(filtered)))
        for some, moved in self.parts.directions(point, np.eye(self.space.size)):
            reach, values = np.empty_like(moved[0]), np.empty(moved[0].shape[::2])
            arrays = (filtered, point.known.back, *moved, point.given.links_of(0), self.steps.starts)
            logs_engine.prefix_tangents(*arrays, reach, values)
            values[1:] -= np.where(self.steps.is_first[1:, None], 0.0, values[:-1])
            found[some] = -values.T * self.steps.seen
        return found

    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if isinstance(self.scheme, Increments):
            if not (weights == self.base).all():
                return self._by_jax.hessians(thetas, weights)
            return self._by_site.hessians(thetas, weights)
        found = [self._bent(t, w, False)[0] for t, w in zip(thetas, weights, strict=True)]
        return np.stack([0.5 * (h + h.T) for h in found])

    def cross(self, theta: np.ndarray) -> np.ndarray:
        point = self._point(theta, self.base)
        if isinstance(self.scheme, Increments):
            return self._prefixes(point)
        if not self._whole:
            return self._bent(theta, self.base, True)[1]
        found = np.zeros((self.space.size, len(self.base)))
        weight, nodes = point.given.weights[:, 0], point.known.nodes
        shares = self.steps.totals(
            np.ascontiguousarray((weight[:, None] * nodes)[..., None] * point.scores)
        )  # (N, K, P)
        np.add.at(found, self.parts.own, np.moveaxis(shares, 0, -1))
        begins = self.steps.starts[:-1]
        into = np.zeros(point.known.onward.shape)
        into[1:] = nodes[:-1, :, None] * point.known.onward[1:]
        for name, counts in (("initial", nodes[begins]), ("transition", self.steps.totals(into))):
            if name in self.parts.simplexes:
                places, entries = self.parts.simplexes[name]
                excess = counts - counts.sum(-1, keepdims=True) * point.values[name]
                found[places] = np.moveaxis(excess, 0, -1)[entries]
        return -found

    def products(self, thetas: np.ndarray, directions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if isinstance(self.scheme, Increments):
            return self._by_jax.products(thetas, directions, weights)
        rows = zip(thetas, weights, directions, strict=True)
        return np.concatenate([self._bent(t, w, False, d[None])[0] for t, w, d in rows])

    def products_at(self, theta: np.ndarray, directions: np.ndarray) -> np.ndarray:
        return self._bent(theta, self.base, False, directions)[0]

    def slopes_along(self, theta: np.ndarray, changes: np.ndarray) -> np.ndarray:
        return changes @ self.cross(theta).T

    # --- hidden states and losses ----------------------------------------------------------------------

    @property
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
        point = self._by_site._point(theta, self.data.weights)
        known, steps, given = point.known, self.steps, point.given
        density = given.rows[steps.index, :, 0]
        emitted = np.where(given.weights > 0, density, 0.0)
        # p(z_t | all other x): what reaches t from before it, without its own emission.
        chain = (np.ascontiguousarray(part[..., 0]) for part in (given.initial, given.moves))
        before = np.empty(density.shape)
        logs_engine.reached(known.ahead, *chain, steps.starts, before)
        others = before + known.behind
        others = others - _log_sum(others)
        values = np.where(steps.seen > 0, _log_sum(others + emitted)[:, 0], 0.0)
        cavity, slopes = np.exp(others), np.empty((self.space.size, len(values)))
        for some, moved in self.parts.directions(point, np.eye(self.space.size)):
            reach, *_ = self._tangents(point, moved)
            own = np.einsum("tk,tkm->tm", known.nodes, reach)
            slopes[some] = (own - np.einsum("tk,tkm->tm", cavity, reach - moved[0])).T * steps.seen
        return values, slopes

    def state_probabilities(self, theta: np.ndarray) -> np.ndarray:
        parts = self._by_site.parts
        given = parts.potentials(parts.values(theta[None]), self.data.weights[None])
        return conditionals(self.steps, given, 0).nodes

    def decode(self, theta: np.ndarray) -> list[np.ndarray]:
        given = self._by_site.parts.potentials(self.parts.values(theta[None]), self.data.weights[None])
        rows = np.where(given.weights > 0, given.rows[self.steps.index, :, 0], 0.0)
        path = np.empty(len(rows), np.int64)
        chain = (given.moves[..., 0].copy(), given.initial[..., 0].copy(), self.steps.starts)
        logs_engine.best_path(rows, np.arange(len(rows)), *chain, path)
        return np.split(path, self.steps.starts[1:-1])

    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        if self._whole:
            return self._sequence_losses(thetas, scored)

        def work(some: slice) -> np.ndarray:
            given = parts.potentials(parts.values(thetas[some]), weights[some])
            nodes = posterior(self.steps, given).nodes
            fold = np.arange(nodes.shape[-1])[:, None]
            with np.errstate(divide="ignore"):
                states = np.log(nodes[scored[some], :, fold])
            return -_log_sum(states + given.rows[self.steps.index[scored[some]], :, fold])[..., 0]

        parts = self._by_site.parts
        return np.concatenate(GROUPS.run(work, len(thetas)))

    def _sequence_losses(self, thetas: np.ndarray, scored: np.ndarray) -> np.ndarray:
        """(F, M): -log p(x_n); passes run over a fold's own sequences only."""

        def work(some: slice) -> np.ndarray:
            weights = np.ones((len(thetas[some]), len(self.base)))
            given = self.parts.potentials(self.parts.values(thetas[some]), weights)
            found = np.empty(scored[some].shape)
            for fold, chosen in enumerate(scored[some]):
                steps, taken = self.steps.some(chosen)
                part = replace(
                    given, weights=given.weights[taken], coefficients=given.coefficients[chosen]
                )
                found[fold] = -conditionals(steps, part, fold).values
            return found

        return np.concatenate(GROUPS.run(work, len(thetas)))

    def _of(self, data: Any) -> ChainObjective:
        return best_objective(self.model, data)

    def with_scheme(self, scheme: Scheme) -> ChainObjective:
        if scheme == self.scheme:
            return self
        other = super().with_scheme(scheme)
        return other if _has_loops(scheme) else other._by_jax  # type: ignore[attr-defined]

    @property
    def traits(self) -> Traits:
        many = self.space.size > _MANY
        return replace(super().traits, closed_form_hessian=False, products=many, blocks=True)

    def preconditioner(self, theta: np.ndarray, weights: np.ndarray | None = None) -> LinearMap:
        """The inverse of the complete-data information and the prior's, which is nearly diagonal."""
        point = self._point(theta, self.base if weights is None else weights)
        scale = point.given.coefficients[self.steps.sequence, 0] * point.given.weights[:, 0]
        factor = definite_factor(-self.parts.complete(point, scale[:, None] * point.known.nodes))
        return lambda columns: linalg.cho_solve(factor, columns)


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log sum exp along the last axis, which is kept; minus infinity where nothing is possible."""
    peak = logs.max(-1, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(logs - peak).sum(-1, keepdims=True)) + peak
