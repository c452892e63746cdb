"""F(theta, w) of hidden fields on graphs: a junction tree between two JAX programs.

    F(theta, w) = -log Z(unary, factors) + log Z(0, factors) - log p(theta)

JAX makes potentials of parameters and weights and pulls derivatives back through them; log Z, its
gradient (marginals) and its second derivatives (tangents of marginals) come from the engine in
between. Neither program knows of the graph's cliques, so compiling does not depend on its width.

Factors that are not learned have a normaliser log Z(0, factors) that moves with the weights but not
with theta. It is taken at the weights of the full fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from fitonce import pullback
from fitonce.engines import junction
from fitonce.engines.cavity import cavities
from fitonce.engines.elimination import Plan, make_plan
from fitonce.engines.tables import log_sum
from fitonce.folds.space import partition
from fitonce.models.base import FieldModel
from fitonce.numerics import Array, in_float64
from fitonce.objective import CLUSTERS, Program, WithoutProducts
from fitonce.potentials import Field, FieldLayout
from fitonce.weighting import A, FieldScheme, Scheme

_TANGENT_BYTES = 2**30  # that directions pushed through the tree together may take
_TINY = 1e-250  # probabilities below come from logarithms: they may have lost digits


def plan(model: FieldModel) -> Plan:
    """What exact inference on a model's graph costs, before anything runs: print it."""
    if not isinstance(model, FieldModel):
        raise ValueError(f"plan needs a model on a graph, got {type(model).__name__}")
    return make_plan(model.states, model.scopes, limit=model.memory_limit)


def field_layout(
    scopes: tuple[tuple[int, ...], ...], starts: tuple[int, ...], observed: np.ndarray
) -> FieldLayout:
    """The layout of sites `observed` (V,) and factors with these scopes."""
    most = max((len(scope) for scope in scopes), default=1)
    members = np.full((len(scopes), most), len(observed))
    for row, scope in zip(members, scopes, strict=True):
        row[: len(scope)] = scope
    owner = np.repeat(np.arange(len(scopes)), np.diff(starts))
    return FieldLayout(jnp.asarray(observed), jnp.asarray(members), jnp.asarray(owner))


@dataclass(frozen=True, eq=False)
class FieldObjective(WithoutProducts):
    """F of a field on a graph; see `fitonce.objective.Objective`.

    Attributes:
        program: what is compiled.
        prepared, layout: the data as the model and the schemes read it.
        base: (V,) the weights of the full fit.
        plan: the junction tree.
    """

    program: Program
    prepared: Any
    layout: FieldLayout
    base: np.ndarray
    plan: Plan
    closed_form: ClassVar[bool] = False
    convex: ClassVar[bool] = False
    cheap_cross: ClassVar[bool] = False

    @property
    def _scheme(self) -> FieldScheme:
        scheme: Any = self.program.scheme
        return scheme

    @property
    def _learned(self) -> bool:
        """Whether factors depend on the parameters."""
        return bool(self.program.model.learns_factors)

    @property
    def bytes_per_fold(self) -> int:
        """About how much memory one fold needs: potentials and tables."""
        return int(self.program.model.bytes_per_fold(self.prepared)) + self.plan.bytes

    def bytes_per_loss(self, touched: int) -> int:
        """The same as a gradient: losses take all of the data, too."""
        return self.bytes_per_fold

    @in_float64
    def coordinates(self, weights: np.ndarray) -> Array:
        """Path coordinates of weights (..., V)."""
        w = jnp.asarray(weights, float)
        path = partial(self.program.scheme.path, layout=self.layout)
        return path(w) if w.ndim == 1 else jax.vmap(path)(w)

    def value(self, theta: np.ndarray, weights: np.ndarray | None = None) -> float:
        """F(theta, w), with the full fit's weights by default."""
        weights = self.base if weights is None else weights
        return float(self._expand(np.asarray(theta)[None], np.asarray(weights)[None])[0][0])

    def gradients(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D)."""
        return self.values_and_gradients(thetas, weights)[1]

    @in_float64
    def values_and_gradients(
        self, thetas: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(F,), (F, D)."""
        values, slopes, _ = self._expand(thetas, weights)
        arrays = (jnp.asarray(thetas), self.coordinates(weights), slopes, *self._data)
        return values, np.asarray(pullback.gradients(self.program, *arrays))

    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D, D)."""
        return self._curve(np.asarray(thetas), np.asarray(weights), factors=self._learned)[1]

    def derivatives(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradient, H and J (D, path coordinates) at the full fit's weights."""
        factors = self._learned or not self._scheme.keeps_latent
        gradient, hessian, cross = self._curve(np.asarray(theta)[None], self.base[None], factors)
        return gradient[0], 0.5 * (hessian[0] + hessian[0].T), cross[0]

    def cross(self, theta: np.ndarray) -> np.ndarray:
        """J (D, path coordinates), which comes with H."""
        return self.derivatives(theta)[2]

    @in_float64
    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(x_t | x_-t) (sites,) and its derivatives by theta (D, sites)."""
        theta, weights = np.asarray(theta)[None], self.base[None]
        (unary, factors), _ = self._potentials(theta, weights)
        d_unary, d_factors = self._directions(theta, weights)
        seen, values = self.base > 0, np.zeros(len(self.base))
        slopes = np.zeros((self.program.space.size, len(self.base)))
        for some in self._groups(len(slopes)):
            d_own, d_tables = d_unary[:, :, some], d_factors[:, some]
            cavity, move = cavities(self.plan, unary, factors, d_own, d_tables)
            inside, within = log_sum(cavity + unary, 1)
            outside, without = log_sum(cavity, 1)
            along = (within[..., None, :] * (move + d_own) - without[..., None, :] * move).sum(1)
            values = np.where(seen, (inside - outside)[:, 0, 0], 0.0)
            slopes[some] = np.where(seen, along[..., 0].T, 0.0)
        return values, slopes

    @in_float64
    def posterior(self, theta: np.ndarray) -> np.ndarray:
        """(sites, K) probabilities of the latent states given all data."""
        _, (nodes, _), _ = self._expand(np.asarray(theta)[None], self.base[None])
        return np.asarray(nodes)[..., 0]

    @property
    def clusters(self) -> np.ndarray:
        """(V,) connected regions of similar size, which count as one observation each."""
        return partition(self.program.model.graph, min(CLUSTERS, len(self.base)))

    def with_scheme(self, scheme: Scheme) -> FieldObjective:
        """The same along another path."""
        if not hasattr(scheme, "weigh"):
            raise ValueError(
                f"a graph is one structure, whose sites can be left out by scheme A or B, "
                f"got scheme {scheme.name}"
            )
        return replace(self, program=replace(self.program, scheme=scheme))

    # --- losses: the latent sites stay, whatever path the parameters took -----------------------

    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F,) log p(kept data), up to what does not depend on the weights."""
        (unary, factors), _ = self.with_scheme(A())._potentials(thetas, weights)
        return junction.collect(self.plan, unary, factors).log_partition

    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        """(F, M): -log p(x_t | kept data) of sites `scored` (F, M)."""
        keeping = self.with_scheme(A())
        (unary, factors), _ = keeping._potentials(thetas, weights)
        (emission, _), _ = keeping._potentials(thetas, np.tile(self.base, (len(weights), 1)))
        collected = junction.collect(self.plan, unary, factors)
        nodes, _ = junction.marginals(self.plan, collected, with_factors=False)
        folds = np.arange(len(thetas))[:, None]
        chosen = np.moveaxis(nodes, -1, 0)[folds, scored]  # (F, M, K)
        real = np.arange(nodes.shape[1]) < np.array(self.plan.states)[scored][..., None]
        if (chosen[real] < _TINY).any():
            none = (np.zeros((*a.shape[:-1], 0, a.shape[-1])) for a in (unary, factors))
            known, _ = cavities(self.plan, unary, factors, *none)
            logs = np.moveaxis(known, -1, 0)[folds, scored]
            logs = np.where(real, logs, -np.inf)
        else:
            logs = np.log(np.where(real, chosen, 1.0), where=real, out=np.full(real.shape, -np.inf))
        given = np.moveaxis(emission, -1, 0)[folds, scored]
        return np.logaddexp.reduce(logs, -1) - np.logaddexp.reduce(logs + np.where(real, given, 0.0), -1)

    # --- the engine between the programs ----------------------------------------------------------

    @property
    def _data(self) -> tuple[Any, FieldLayout]:
        return self.prepared, self.layout

    @in_float64
    def _potentials(
        self, thetas: np.ndarray, weights: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """Unary (V, K, F), factors (P, F), and log priors (F,)."""
        u = self.coordinates(weights)
        field, prior = pullback.potentials(self.program, jnp.asarray(thetas), u, *self._data)
        return (np.asarray(field.emission), np.asarray(field.factors)), np.asarray(prior)

    @in_float64
    def _directions(self, thetas: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = self.coordinates(weights)
        moves = pullback.directions(self.program, jnp.asarray(thetas), u, *self._data)
        return np.asarray(moves.emission), np.asarray(moves.factors)

    @cached_property
    def _log_normaliser(self) -> float:
        """log Z(0, factors) of factors that are not learned, at the full fit's weights."""
        start = np.zeros((1, self.program.space.size))
        (unary, factors), _ = self.with_scheme(A())._potentials(start, self.base[None])
        free = junction.collect(self.plan, np.zeros_like(unary), factors)
        if free.log_partition[0] == -np.inf:
            raise ValueError("the factors leave no configuration possible, so there is nothing to fit")
        return float(free.log_partition[0])

    @in_float64
    def _expand(
        self, thetas: np.ndarray, weights: np.ndarray, factors: bool | None = None
    ) -> tuple[np.ndarray, Field, tuple[junction.Collected, junction.Collected | None]]:
        """F (F,), the slopes of log Z by potentials, and what the sweeps leave for tangents."""
        (unary, tables), prior = self._potentials(thetas, weights)
        collected = junction.collect(self.plan, unary, tables)
        with_factors = self._learned if factors is None else factors
        nodes, edges = junction.marginals(self.plan, collected, with_factors)
        if edges is None:
            edges = np.zeros((self.plan.starts[-1], len(thetas)))
        free = None
        if self._learned:
            free = junction.collect(self.plan, np.zeros_like(unary), tables)
            edges = edges - np.asarray(junction.marginals(self.plan, free)[1])
        normaliser = self._log_normaliser if free is None else free.log_partition
        with np.errstate(invalid="ignore"):  # nothing possible with or without data: not finite
            values = normaliser - collected.log_partition - prior
        return values, Field(jnp.asarray(nodes), jnp.asarray(edges)), (collected, free)

    def _groups(self, directions: int, folds: int = 1) -> Iterator[slice]:
        """As many directions at a time as memory allows."""
        size = max(_TANGENT_BYTES // (2 * self.plan.bytes * folds), 1)
        for start in range(0, directions, size):
            yield slice(start, start + size)

    def _tangents(
        self, collected: junction.Collected, d_unary: np.ndarray, d_factors: np.ndarray, factors: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tangents of marginals; zeros for factors that are not asked for."""
        d_nodes = np.empty_like(d_unary)
        d_edges = np.zeros((self.plan.starts[-1], *d_unary.shape[-2:]))
        for some in self._groups(*d_unary.shape[-2:]):
            arrays = (d_unary[:, :, some], d_factors[:, some], factors)
            _, d_nodes[:, :, some], edges = junction.tangents(self.plan, collected, *arrays)
            if edges is not None:
                d_edges[:, some] = edges
        return d_nodes, d_edges

    @in_float64
    def _curve(
        self, thetas: np.ndarray, weights: np.ndarray, factors: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradients (F, D), Hessians (F, D, D) and cross derivatives (F, D, P)."""
        _, slopes, (collected, free) = self._expand(thetas, weights, factors)
        d_unary, d_factors = self._directions(thetas, weights)
        d_nodes, d_edges = self._tangents(collected, d_unary, d_factors, factors)
        if free is not None:
            still = np.zeros_like(d_unary)
            d_edges = d_edges - self._tangents(free, still, d_factors, True)[1]
        at = (jnp.asarray(thetas), self.coordinates(weights), slopes)
        gradients = pullback.gradients(self.program, *at, *self._data)
        moved = Field(jnp.asarray(d_nodes), jnp.asarray(d_edges))
        hessians, cross = pullback.second(self.program, *at, moved, *self._data)
        return (
            np.asarray(gradients),
            np.moveaxis(np.asarray(hessians), 0, -1),
            np.moveaxis(np.asarray(cross), 0, 1),
        )
