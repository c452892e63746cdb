"""F of chains whose emissions have closed forms: plain loops and NumPy, nothing to compile.

    log p(x; theta, w) is a function of log-potentials; its slope by each is the expected count.

So a gradient is expected counts pulled back through the potentials, and H and J follow from the
derivatives of counts along the parameters (`engines.native_chain.tangents`) and the second derivatives
of potentials. Whatever has no native form here is left to `ChainObjective`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from scipy import linalg

from fitonce.core.constraints import Frozen, Simplex
from fitonce.core.lanes import LANES
from fitonce.core.numerics import in_float64
from fitonce.engines import native_chain as engine
from fitonce.models.base import ChainModel
from fitonce.models.emissions.closed_forms import ClosedForms, Values
from fitonce.models.hmm import HMM
from fitonce.objectives.base import LinearMap, Traits, ValuesAndSlopes
from fitonce.objectives.chain.complete_information import definite_factor
from fitonce.objectives.chain.derived_forms import DerivedForms
from fitonce.objectives.chain.objective import ChainObjective, chain_objective
from fitonce.objectives.chain.passes import (
    GROUPS,
    Conditionals,
    Posterior,
    Potentials,
    Steps,
    conditionals,
    posterior,
)
from fitonce.objectives.chain.posteriors import CHAIN, Split
from fitonce.objectives.schemes import A, Scheme, Structures

_FEW = 40  # parameters of an emission without closed forms
_ARRAYS, _MOST_BYTES = 5, 2**31  # that a group of folds takes: longer chains are left to JAX
_MANY = 500  # parameters: beyond, Newton's method works by products
_DIRECTION_BYTES = 2**27  # of derivatives of potentials at a time


@in_float64
def best_objective(model: ChainModel, data: Any, kernel: str | None = None) -> ChainObjective:
    """The native objective of a chain where there is one and this is a CPU, else that of JAX.

    Args:
        model, data: the chain.
        kernel: "native", or one of JAX ("scan", "tree"); None: the best.
    """
    made = chain_objective(model, data, None if kernel == "native" else kernel)  # type: ignore[arg-type]
    if kernel not in (None, "native") or (kernel is None and jax.default_backend() != "cpu"):
        return made
    if _is_native(made):
        return _native(made)
    if kernel == "native":
        raise ValueError(
            f"kernel='native' needs an emission with closed forms or at most {_FEW} parameters, "
            f"which {model} has not"
        )
    return made


def _native(made: ChainObjective) -> NativeChainObjective:
    fields = (made.program, made.base, made.data, made.prepared, made.layout, made.parallel)
    return NativeChainObjective(*fields)


def _is_native(objective: ChainObjective) -> bool:
    """Whether the native objective can take its place: a closed form, or few emission parameters."""
    model, space = objective.model, objective.space
    if not isinstance(model, HMM) or not isinstance(objective.scheme, (A, Structures)):
        return False
    leaves = {name: leaf for name, leaf, _ in space.leaves()}
    if not all(isinstance(leaves[name], (Simplex, Frozen)) for name in CHAIN):
        return False
    steps = Steps.of(objective.data, objective.prepared)
    if 8 * _ARRAYS * LANES * model.n_states * len(steps.index) > _MOST_BYTES:
        return False
    if _closed_forms(objective, steps) is not None:
        return True
    few = space.size - len(Split(space, model.n_states).chain) <= _FEW
    return few and all(hasattr(leaf, "values") for leaf in leaves.values())


def _closed_forms(objective: ChainObjective, steps: Steps) -> ClosedForms | None:
    """Of the emission, unless some of its parameters are frozen."""
    model = objective.model
    frozen = set(dict(model.frozen)) - set(CHAIN)
    return None if frozen else model.emission.closed_forms(steps.rows)


@dataclass(frozen=True, eq=False)
class Point:
    """One parameter vector at one vector of weights.

    Attributes:
        values: constrained values.
        given: potentials, with one fold.
        known: conditional probabilities.
        scores: (T, K, P) of emissions, by each state's own coordinates.
    """

    values: Values
    given: Potentials
    known: Conditionals
    scores: np.ndarray


@dataclass(frozen=True, eq=False)
class NativeChainObjective(ChainObjective):
    """See the module docstring."""

    @cached_property
    def steps(self) -> Steps:
        return Steps.of(self.data, self.prepared)

    @cached_property
    def forms(self) -> ClosedForms:
        found = _closed_forms(self, self.steps)
        if found is not None:
            return found
        return DerivedForms.of(self.program, self.prepared.rows, self.steps.places, self.own[0])

    @cached_property
    def own(self) -> np.ndarray:
        """(K, P) the coordinates of each state's emission; all of them, where states share some."""
        split = Split(self.space, self.model.n_states)
        if _closed_forms(self, self.steps) is not None:
            return split.own
        every = np.setdiff1d(np.arange(self.space.size), split.chain)
        return np.tile(every, (self.model.n_states, 1))

    @cached_property
    def _simplexes(self) -> dict[str, tuple[np.ndarray, tuple[np.ndarray, ...]]]:
        """For learned initial and transition probabilities: places in theta, and their entries."""
        found = {}
        for name, leaf, places in self.space.leaves():
            if name in CHAIN and len(places):
                found[name] = (places, tuple(np.array(leaf.coordinates()).T))
        return found

    # --- potentials and priors -------------------------------------------------------------------------

    def _values(self, thetas: np.ndarray) -> Values:
        """At thetas (F, D)."""
        return Values.at(thetas, self.space.values(thetas))

    def _potentials(self, values: Values, weights: np.ndarray) -> Potentials:
        """At values with folds last, and weights (F, P) of sites or of sequences."""
        with np.errstate(divide="ignore"):
            initial, moves = (np.log(values[name])[None] for name in CHAIN)
        rows = self.forms.log_density(values, self.steps.rows)
        sequences = (len(self.steps.starts) - 1, len(weights))
        if self._whole:
            seen = np.broadcast_to(self.steps.seen[:, None], (len(self.steps.seen), len(weights)))
            return Potentials(rows, np.ascontiguousarray(seen), initial, moves, weights.T.copy())
        site = np.ascontiguousarray(weights.T * self.steps.seen[:, None])
        return Potentials(rows, site, initial, moves, np.ones(sequences))

    def coordinates(self, weights: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return np.asarray(weights, float)

    def log_prior(self, theta: np.ndarray) -> float:
        return float(self._log_prior(self._values(theta[None]))[0])

    def _log_prior(self, values: Values) -> np.ndarray:
        """(F,)."""
        total = self.forms.log_prior(values, self.steps.rows)
        for name, excess in self._excess.items():
            logs = np.log(np.where(excess[..., None] != 0, values[name], 1.0))
            total = total + np.sum(excess[..., None] * logs, tuple(range(excess.ndim)))
        return total

    @cached_property
    def _excess(self) -> dict[str, np.ndarray]:
        """Dirichlet concentrations minus one of learned probabilities, zero outside their support."""
        model, found = self.model, {}
        for name in self._simplexes:
            concentration = np.asarray(getattr(model, f"{name}_concentration"), float)
            shape = (model.n_states,) * (1 if name == "initial" else 2)
            excess = np.broadcast_to(concentration - 1.0, shape)
            support = True if name == "initial" or model.support is None else np.asarray(model.support)
            found[name] = np.where(support, excess, 0.0)
        return found

    # --- values and gradients --------------------------------------------------------------------------

    def values_and_gradients(self, thetas: np.ndarray, weights: np.ndarray) -> ValuesAndSlopes:
        parts = GROUPS.run(lambda some: self._group(thetas[some], weights[some]), len(thetas))
        values, slopes = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(slopes)

    def _group(self, thetas: np.ndarray, weights: np.ndarray) -> ValuesAndSlopes:
        values = self._values(thetas)
        found = posterior(self.steps, self._potentials(values, weights))
        return -found.values - self._log_prior(values), -self._pulled_back(values, found)

    def _pulled_back(self, values: Values, found: Posterior) -> np.ndarray:
        """(F, D) slopes of the log posterior, from expected counts."""
        rows = self.steps.rows
        slopes = np.zeros((self.space.size, found.shares.shape[-1]))
        own = self.forms.slopes(values, found.shares, rows) + self.forms.prior_slopes(values, rows)
        np.add.at(slopes, self.own, own)
        for name, counts in (("initial", found.firsts.sum(0)), ("transition", found.pairs.sum(0))):
            if name in self._simplexes:
                places, entries = self._simplexes[name]
                counts = counts + self._excess[name][..., None]
                excess = counts - counts.sum(-2, keepdims=True) * values[name]
                slopes[places] = excess[entries]
        return slopes.T

    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        def work(some: slice) -> np.ndarray:
            given = self._potentials(self._values(thetas[some]), weights[some])
            return posterior(self.steps, given).values

        return np.concatenate(GROUPS.run(work, len(thetas)))

    @in_float64
    def m_step(
        self, theta: np.ndarray, weights: np.ndarray | None = None
    ) -> tuple[float, np.ndarray | None]:
        weights = self.base if weights is None else weights
        values = self._values(theta[None])
        found = posterior(self.steps, self._potentials(values, weights[None]))
        value = -found.values - self._log_prior(values)
        params = dict(values.alone())
        shares = np.zeros((len(self.prepared.rows.counts), self.model.n_states))
        shares[self.steps.places] = found.shares[..., 0]
        counts = (found.firsts[..., 0].sum(0), found.pairs[..., 0].sum(0), shares)
        new = self.model.maximise_counts(params, *counts, self.prepared.rows)
        return float(value[0]), self.space.to_free(new)

    # --- second derivatives ----------------------------------------------------------------------------

    def _point(self, theta: np.ndarray, weights: np.ndarray) -> Point:
        values = self._values(theta[None])
        given = self._potentials(values, weights[None])
        alone = values.alone()
        scores = self.forms.scores(alone, self.steps.rows)[self.steps.index]
        return Point(alone, given, conditionals(self.steps, given, 0), scores)

    def _directions(self, point: Point, directions: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """Some directions (m, D) at a time: their place, and derivatives of the log-potentials."""
        width = 32 * point.known.nodes.size
        most = max(int(_DIRECTION_BYTES // width), 1)
        weight = point.given.weights[:, 0]
        for start in range(0, len(directions), most):
            some = slice(start, start + most)
            along = directions[some]
            own = along[:, self.own]  # (m, K, P)
            emission = np.einsum("tkp,mkp->tkm", point.scores, own, optimize=True)
            emission *= weight[:, None, None]
            first, move = (self._log_slopes(name, point.values, along) for name in CHAIN)
            yield some, (emission, first[None], move[None])

    def _log_slopes(self, name: str, values: Values, along: np.ndarray) -> np.ndarray:
        """(K, m) or (K, K, m): derivatives of log probabilities along directions (m, D)."""
        found = np.zeros((*values[name].shape, len(along)))
        if name in self._simplexes:
            places, entries = self._simplexes[name]
            found[entries] = along[:, places].T
            found -= np.einsum("...k,...km->...m", values[name], found)[..., None, :]
        return np.where(values[name][..., None] > 0, found, 0.0)

    def _tangents(self, point: Point, moved: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives of log p(z_t = k, x) (T, K, m), of expected transitions and of log Z (N, m)."""
        emission, first, move = moved
        count = emission.shape[-1]
        reach, pairs = np.empty_like(emission), np.zeros_like(move)
        values = np.empty((len(self.steps.starts) - 1, count))
        known, coefficients = point.known, np.ascontiguousarray(point.given.coefficients[:, 0])
        arrays = (known.nodes, known.back, known.onward, emission, first, move)
        engine.tangents(*arrays, self.steps.starts, coefficients, reach, pairs, values)
        return reach, pairs, values

    def _bent(self, theta: np.ndarray, weights: np.ndarray, cross: bool, directions: Any = None) -> Any:
        """H times directions (m, D) (all of them: H), and J at sites if `cross`, else None."""
        point = self._point(theta, weights)
        directions = np.eye(len(theta)) if directions is None else directions
        products, slopes = np.empty(directions.shape), None
        if cross:
            slopes = np.empty((len(directions), len(self.steps.index)))
            density = point.given.rows[self.steps.index, :, 0]
            density = np.where(point.known.nodes > 0, density, 0.0)
        weight, sequence = point.given.weights[:, 0], self.steps.sequence
        scale = point.given.coefficients[sequence, 0]
        for some, moved in self._directions(point, directions):
            reach, pairs, values = self._tangents(point, moved)
            reach -= values[sequence][:, None]
            reach *= point.known.nodes[..., None]  # derivatives of p(z_t = k)
            if slopes is not None:
                here = np.einsum("tkm,tk->mt", reach, density)
                own = directions[some][:, self.own]
                here += np.einsum("tk,tkp,mkp->mt", point.known.nodes, point.scores, own, optimize=True)
                slopes[some] = -here * self.steps.seen
            reach *= scale[:, None, None]
            firsts = reach[self.steps.starts[:-1]].sum(0)
            reach *= weight[:, None, None]
            products[some] = self._moved_back(point, reach, firsts, pairs[0])
        counted = (scale * weight)[:, None] * point.known.nodes
        products += directions @ self._complete(point, counted)
        return -products, slopes

    def _moved_back(
        self, point: Point, shares: np.ndarray, firsts: np.ndarray, pairs: np.ndarray
    ) -> np.ndarray:
        """(m, D): derivatives of counts, pulled back through the potentials."""
        found = np.zeros((shares.shape[-1], self.space.size))
        own = np.einsum("tkm,tkp->kpm", shares, point.scores, optimize=True)
        np.add.at(found.T, self.own, own)
        for name, counts in (("initial", firsts), ("transition", pairs)):
            if name in self._simplexes:
                places, entries = self._simplexes[name]
                total = counts.sum(-2, keepdims=True)
                found[:, places] = (counts - total * point.values[name][..., None])[entries].T
        return found

    def _complete(self, point: Point, counted: np.ndarray) -> np.ndarray:
        """(D, D) second derivatives of the log posterior, if counts of states (T, K) were given."""
        found = np.zeros((self.space.size, self.space.size))
        rows, known = self.steps.rows, point.known
        shares = counted
        if len(rows.x) != len(counted):
            shares = np.zeros((len(rows.x), counted.shape[1]))
            np.add.at(shares, self.steps.index, counted)
        own = self.forms.curvature(point.values, shares, rows)
        own = own + self.forms.prior_curvature(point.values, rows)
        for places, block in zip(self.own, own, strict=True):
            found[np.ix_(places, places)] += block
        scale = point.given.coefficients[:, 0]
        firsts = scale @ known.nodes[self.steps.starts[:-1]]
        into = scale[self.steps.sequence][1:, None, None] * known.nodes[:-1, :, None] * known.onward[1:]
        for name, counts in (("initial", firsts), ("transition", into.sum(0))):
            if name in self._simplexes:
                self._add_simplex(name, counts + self._excess[name], point.values[name], found)
        return found

    def _add_simplex(
        self, name: str, counts: np.ndarray, probability: np.ndarray, found: np.ndarray
    ) -> None:
        """Minus the covariance of draws from each row of probabilities."""
        places, entries = self._simplexes[name]
        p, total = probability[entries], np.broadcast_to(counts.sum(-1, keepdims=True), counts.shape)
        row = entries[0] if len(entries) > 1 else np.zeros(len(places), int)
        block = np.where(row[:, None] == row, p[:, None] * p, 0.0) - np.diag(p)
        found[np.ix_(places, places)] = total[entries][:, None] * block

    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        found = [self._bent(t, w, False)[0] for t, w in zip(thetas, weights, strict=True)]
        return np.stack([0.5 * (h + h.T) for h in found])

    def cross(self, theta: np.ndarray) -> np.ndarray:
        if not self._whole:
            return self._bent(theta, self.base, True)[1]
        point = self._point(theta, self.base)
        found = np.zeros((self.space.size, len(self.base)))
        weight, nodes = point.given.weights[:, 0], point.known.nodes
        shares = self.steps.totals(
            np.ascontiguousarray((weight[:, None] * nodes)[..., None] * point.scores)
        )  # (N, K, P)
        np.add.at(found, self.own, np.moveaxis(shares, 0, -1))
        begins = self.steps.starts[:-1]
        into = np.zeros(point.known.onward.shape)
        into[1:] = nodes[:-1, :, None] * point.known.onward[1:]
        for name, counts in (("initial", nodes[begins]), ("transition", self.steps.totals(into))):
            if name in self._simplexes:
                places, entries = self._simplexes[name]
                excess = counts - counts.sum(-1, keepdims=True) * point.values[name]
                found[places] = np.moveaxis(excess, 0, -1)[entries]
        return -found

    def products(self, thetas: np.ndarray, directions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        rows = zip(thetas, weights, directions, strict=True)
        return np.concatenate([self._bent(t, w, False, d[None])[0] for t, w, d in rows])

    def products_at(self, theta: np.ndarray, directions: np.ndarray) -> np.ndarray:
        return self._bent(theta, self.base, False, directions)[0]

    def slopes_along(self, theta: np.ndarray, changes: np.ndarray) -> np.ndarray:
        return changes @ self.cross(theta).T

    # --- hidden states and losses ----------------------------------------------------------------------

    @property
    def _by_site(self) -> NativeChainObjective:
        """The same with weights of sites."""
        return replace(self, program=replace(self.program, scheme=A()), base=self.data.weights)

    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        point = self._by_site._point(theta, self.data.weights)
        known, steps, given = point.known, self.steps, point.given
        density = given.rows[steps.index, :, 0]
        emitted = np.where(given.weights > 0, density, 0.0)
        # p(z_t | all other x): what reaches t from before it, without its own emission.
        chain = (np.ascontiguousarray(part[..., 0]) for part in (given.initial, given.moves))
        before = np.empty(density.shape)
        engine.reached(known.ahead, *chain, steps.starts, before)
        others = before + known.behind
        others = others - _log_sum(others)
        values = np.where(steps.seen > 0, _log_sum(others + emitted)[:, 0], 0.0)
        cavity, slopes = np.exp(others), np.empty((self.space.size, len(values)))
        for some, moved in self._directions(point, np.eye(self.space.size)):
            reach, _, _ = self._tangents(point, moved)
            own = np.einsum("tk,tkm->tm", known.nodes, reach)
            slopes[some] = (own - np.einsum("tk,tkm->tm", cavity, reach - moved[0])).T * steps.seen
        return values, slopes

    def state_probabilities(self, theta: np.ndarray) -> np.ndarray:
        return self._by_site._point(theta, self.data.weights).known.nodes

    def decode(self, theta: np.ndarray) -> list[np.ndarray]:
        given = self._by_site._potentials(self._values(theta[None]), self.data.weights[None])
        rows = np.where(given.weights > 0, given.rows[self.steps.index, :, 0], 0.0)
        path = np.empty(len(rows), np.int64)
        chain = (given.moves[..., 0].copy(), given.initial[..., 0].copy(), self.steps.starts)
        engine.best_path(rows, np.arange(len(rows)), *chain, path)
        return np.split(path, self.steps.starts[1:-1])

    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        if self._whole:
            return self._sequence_losses(thetas, scored)

        def work(some: slice) -> np.ndarray:
            given = self._potentials(self._values(thetas[some]), weights[some])
            nodes = posterior(self.steps, given).nodes
            fold = np.arange(nodes.shape[-1])[:, None]
            with np.errstate(divide="ignore"):
                states = np.log(nodes[scored[some], :, fold])
            return -_log_sum(states + given.rows[self.steps.index[scored[some]], :, fold])[..., 0]

        return np.concatenate(GROUPS.run(work, len(thetas)))

    def _sequence_losses(self, thetas: np.ndarray, scored: np.ndarray) -> np.ndarray:
        found = np.empty(scored.shape)
        for fold, (theta, sequences) in enumerate(zip(thetas, scored, strict=True)):
            point = self._potentials(self._values(theta[None]), self.base[None])
            found[fold] = -conditionals(self.steps, point, 0).values[sequences]
        return found

    def _of(self, data: Any) -> ChainObjective:
        return best_objective(self.model, data)

    def with_scheme(self, scheme: Scheme) -> ChainObjective:
        if scheme == self.scheme:
            return self
        other = super().with_scheme(scheme)
        if isinstance(scheme, (A, Structures)):
            return other
        fields = (other.program, other.base, other.data, other.prepared, other.layout, other.parallel)
        return ChainObjective(*fields)

    @property
    def traits(self) -> Traits:
        many = self.space.size > _MANY
        return replace(super().traits, closed_form_hessian=False, products=many, blocks=True)

    def preconditioner(self, theta: np.ndarray, weights: np.ndarray | None = None) -> LinearMap:
        """The inverse of the complete-data information and the prior's, which is nearly diagonal."""
        point = self._point(theta, self.base if weights is None else weights)
        scale = point.given.coefficients[self.steps.sequence, 0] * point.given.weights[:, 0]
        factor = definite_factor(-self._complete(point, scale[:, None] * point.known.nodes))
        return lambda columns: linalg.cho_solve(factor, columns)


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log sum exp along the last axis, which is kept; minus infinity where nothing is possible."""
    peak = logs.max(-1, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(logs - peak).sum(-1, keepdims=True)) + peak
