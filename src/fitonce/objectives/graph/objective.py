"""F(theta, w) of hidden fields on graphs: a junction tree between two JAX programs.

    F(theta, w) = -log Z(unary, factors) + log Z(0, factors) - log p(theta)

One program computes potentials from parameters and weights, the other pulls derivatives back through
them; log Z, its gradient (marginals) and its second derivatives (tangents of marginals) come from the
engine in between. Neither program depends on the graph's cliques, so compile time does not depend on its
width.

The normaliser log Z(0, factors) of factors that are not learned depends on the weights but not on theta.
It is taken at the weights of the full fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from fitonce.core import memory
from fitonce.core.arguments import shown
from fitonce.core.deferred import jax
from fitonce.core.numerics import in_float64
from fitonce.core.parameters import ParameterSpace
from fitonce.core.predictive import Tails
from fitonce.core.wording import counted, duration
from fitonce.data.alignment import require_same_order
from fitonce.data.graph import partition
from fitonce.data.sequences import Sequences, sequences
from fitonce.engines import junction_tree as junction
from fitonce.engines.clique_tables import log_sum
from fitonce.engines.elimination import JunctionTree, plan_tree
from fitonce.models.base import FieldModel
from fitonce.models.potentials import Field
from fitonce.objectives.base import CLUSTERS, Program, Traits, ValuesAndSlopes
from fitonce.objectives.graph import programs
from fitonce.objectives.graph.layout import FieldLayout, field_layout
from fitonce.objectives.prepared import PreparedObjective
from fitonce.objectives.schemes import A, FieldScheme, Scheme

_TANGENT_BYTES = 2**30  # for directions that are pushed through the tree together
_SLOW = 0.2  # seconds of a sweep
_TINY = 1e-250  # smaller probabilities may have lost digits and are recomputed in logarithms


@in_float64
def field_objective(model: FieldModel, data: Any, kernel: None = None) -> FieldObjective:
    """F of a field on data with one value (or row of channels) per site, at scheme A."""
    if kernel is not None:
        raise ValueError(f"a field on a graph has one kernel: kernel must be None, got {shown(kernel)}")
    read = sequences(data)
    read.require_observed()
    prepared = model.prepare(read)
    if read.indices is not None:
        sites = model.graph.names or range(model.graph.n_sites)
        require_same_order(read.indices[0], pd.Index(sites, tupleize_cols=False))
    program = Program(model, ParameterSpace(model.parameters(prepared)), A())
    tree = junction_tree_of(model)
    _say_slow(tree)
    layout = field_layout(tree.scopes, tree.starts, read.weights > 0)
    return FieldObjective(program, read.weights, read, prepared, layout, tree)


def junction_tree_of(model: FieldModel) -> JunctionTree:
    """The junction tree of a model's graph; printed, it shows the cost of exact inference."""
    return plan_tree(model.states, model.scopes, model.order, model.memory_limit)


def _say_slow(tree: JunctionTree) -> None:
    """Warn at once of a graph that fits in memory and takes hours."""
    if tree.seconds > _SLOW:
        sites = max(len(clique.variables) for clique in tree.cliques)
        warnings.warn(
            f"exact inference on this graph is slow: its largest table is of {counted(sites, 'site')}. "
            f"A sweep takes about {duration(tree.seconds)}; a fit needs hundreds, and folds more. "
            "Leave out edges or sites, or use fewer classes",
            UserWarning,
            stacklevel=5,
        )


@dataclass(frozen=True, eq=False, repr=False)
class FieldObjective(PreparedObjective):
    """F of a field on a graph; see `Objective`. `tree`: its junction tree."""

    program: Program
    base: np.ndarray
    data: Sequences
    prepared: Any
    layout: FieldLayout
    tree: JunctionTree

    @property
    def traits(self) -> Traits:
        moved: Literal["all", "some"] = "some" if self._learned else "all"
        steps = moved if self.model.starts_with_em else "none"
        return Traits(site="site", m_steps=steps, normalised=False, weights_of_jax=True)

    @property
    def edges(self) -> np.ndarray:
        return np.asarray(self.model.graph.edges)

    @property
    def per_exposure(self) -> tuple[str, ...]:
        return ("rate",) if getattr(self.model, "exposure", None) is not None else ()

    @property
    def _learned(self) -> bool:
        """Whether factors depend on the parameters."""
        return bool(self.model.learns_factors)

    @property
    def bytes_per_fold(self) -> int:
        """Sweeps with and, where factors are learned, without data; and what they are made into."""
        return super().bytes_per_fold + (4 if self._learned else 2) * self.tree.bytes

    @in_float64
    def values_and_gradients(self, thetas: np.ndarray, weights: np.ndarray) -> ValuesAndSlopes:
        values, slopes, _ = self._expand(thetas, weights)
        arrays = (jax.device_put(thetas), self.coordinates(weights), slopes, *self._data)
        return values, np.asarray(programs.gradients(self.program, *arrays))

    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        found, _ = self._curve(np.asarray(thetas), np.asarray(weights), factors=self._learned)
        return 0.5 * (found + np.swapaxes(found, 1, 2))

    def cross(self, theta: np.ndarray) -> np.ndarray:
        factors = self._learned or not self.scheme.keeps_latent  # type: ignore[attr-defined]
        return self._curve(np.asarray(theta)[None], self.base[None], factors)[1][0]

    @in_float64
    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        theta, weights = np.asarray(theta)[None], self.base[None]
        (unary, factors), _ = self._potentials(theta, weights)
        d_unary, d_factors = self._directions(theta, weights)
        observed, values = self.base > 0, np.zeros(len(self.base))
        slopes = np.zeros((self.space.size, len(self.base)))
        for some in self._groups(len(slopes)):
            d_own, d_tables = d_unary[:, :, some], d_factors[:, some]
            cavity, d_cavity = junction.cavities(self.tree, unary, factors, d_own, d_tables)
            with_data, posterior = log_sum(cavity + unary, 1)
            without, predictive = log_sum(cavity, 1)
            along = posterior[..., None, :] * (d_cavity + d_own) - predictive[..., None, :] * d_cavity
            values = np.where(observed, (with_data - without)[:, 0, 0], 0.0)
            slopes[some] = np.where(observed, along.sum(1)[..., 0].T, 0.0)
        return values, slopes

    @in_float64
    def m_step(
        self, theta: np.ndarray, weights: np.ndarray | None = None
    ) -> tuple[float, np.ndarray | None]:
        weights = self.base if weights is None else weights
        values, (nodes, _), _ = self._expand(np.asarray(theta)[None], weights[None])
        params = self.space.to_params(jax.device_put(theta))
        shares = np.asarray(nodes)[..., 0] * weights[:, None]
        new = self.model.maximise(params, shares, self.prepared)
        return float(values[0]), self.free_or_none(new)

    @in_float64
    def state_probabilities(self, theta: np.ndarray) -> np.ndarray:
        _, (nodes, _), _ = self._expand(np.asarray(theta)[None], self.base[None])
        return np.asarray(nodes)[..., 0]

    @property
    def clusters(self) -> np.ndarray:
        """(V,) connected regions of similar size, one observation each."""
        return partition(self.model.graph, min(CLUSTERS, len(self.base)))

    def with_scheme(self, scheme: Scheme) -> FieldObjective:
        if not isinstance(scheme, FieldScheme):
            raise ValueError(
                "a graph is one structure, whose sites can be left out by scheme A or B, "
                f"got scheme {scheme.name}"
            )
        return replace(self, program=replace(self.program, scheme=scheme))

    # --- losses: latent states stay, whatever the scheme of the parameters ----------------------

    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        (unary, factors), _ = self.with_scheme(A())._potentials(thetas, weights)
        return junction.collect(self.tree, unary, factors).log_partition

    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        keeping = self.with_scheme(A())
        (unary, factors), _ = keeping._potentials(thetas, weights)
        (emission, _), _ = keeping._potentials(thetas, np.tile(self.base, (len(weights), 1)))
        collected = junction.collect(self.tree, unary, factors)
        nodes, _ = junction.marginals(self.tree, collected, with_factors=False)
        folds = np.arange(len(thetas))[:, None]
        chosen = np.moveaxis(nodes, -1, 0)[folds, scored]  # (F, M, K)
        real = np.arange(nodes.shape[1]) < np.array(self.tree.states)[scored][..., None]
        if (chosen[real] < _TINY).any():
            none = (np.zeros((*a.shape[:-1], 0, a.shape[-1])) for a in (unary, factors))
            logs, _ = junction.cavities(self.tree, unary, factors, *none)
            logs = np.where(real, np.moveaxis(logs, -1, 0)[folds, scored], -np.inf)
        else:
            logs = np.log(np.where(real, chosen, 1.0), where=real, out=np.full(real.shape, -np.inf))
        given = np.moveaxis(emission, -1, 0)[folds, scored]
        return np.logaddexp.reduce(logs, -1) - np.logaddexp.reduce(logs + np.where(real, given, 0.0), -1)

    def has_tails(self) -> bool:
        return bool(self.model.has_tails)

    def heldout_tails(self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray) -> Tails:
        (unary, factors), _ = self.with_scheme(A())._potentials(thetas, weights)
        collected = junction.collect(self.tree, unary, factors)
        nodes, _ = junction.marginals(self.tree, collected, with_factors=False)
        return self._mixed(
            thetas, np.moveaxis(nodes, -1, 0)[np.arange(len(thetas))[:, None], scored], scored
        )

    @in_float64
    def leave_one_out_tails(self, theta: np.ndarray, thetas: np.ndarray, sites: np.ndarray) -> Tails:
        keeping, at = self.with_scheme(A()), (np.asarray(theta)[None], self.base[None])
        potentials, _ = keeping._potentials(*at)
        d_unary, d_factors = keeping._directions(*at)
        moves, steps = thetas - theta, np.zeros((len(sites), d_unary.shape[1]))
        for some in self._groups(moves.shape[1]):
            directions = d_unary[:, :, some], d_factors[:, some]
            cavity, d_cavity = junction.cavities(self.tree, *potentials, *directions)
            steps += np.einsum("vkd,vd->vk", d_cavity[sites, ..., 0], moves[:, some])
        _, shares = log_sum(cavity[sites, :, 0] + steps, 1)
        mixed = self._mixed(thetas, shares[:, None], sites[:, None])
        return Tails(*(column[:, 0] for column in mixed))

    @in_float64
    def _mixed(self, thetas: np.ndarray, shares: np.ndarray, sites: np.ndarray) -> Tails:
        """(F, M) of mixtures over states with shares (F, M, K), at thetas (F, D)."""
        found = np.empty((3, *sites.shape))
        for row, theta in enumerate(thetas):
            params = self.space.to_params(jax.device_put(theta))
            tails = self.model.tails(params, self.prepared, sites[row])
            found[:, row] = [(shares[row] * column).sum(-1) for column in tails]
        return Tails(*found)

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
        field, prior = programs.potentials(self.program, jax.device_put(thetas), u, *self._data)
        return (np.asarray(field.emission), np.asarray(field.factors)), np.asarray(prior)

    @in_float64
    def _directions(self, thetas: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = self.coordinates(weights)
        moves = programs.directions(self.program, jax.device_put(thetas), u, *self._data)
        return np.asarray(moves.emission), np.asarray(moves.factors)

    @cached_property
    def _log_normaliser(self) -> float:
        """log Z(0, factors) of factors that are not learned, at the full fit's weights."""
        start = np.zeros((1, self.space.size))
        (unary, factors), _ = self.with_scheme(A())._potentials(start, self.base[None])
        free = junction.collect(self.tree, np.zeros_like(unary), factors)
        if free.log_partition[0] == -np.inf:
            raise ValueError("the factors rule out every configuration, so there is nothing to fit")
        return float(free.log_partition[0])

    @in_float64
    def _expand(
        self, thetas: np.ndarray, weights: np.ndarray, factors: bool | None = None
    ) -> tuple[np.ndarray, Field, tuple[junction.Collected, junction.Collected | None]]:
        """F (F,), d log Z / d potentials, and what tangents need: sweeps with and without emissions."""
        (unary, tables), prior = self._potentials(thetas, weights)
        collected = junction.collect(self.tree, unary, tables)
        with_factors = self._learned if factors is None else factors
        nodes, edges = junction.marginals(self.tree, collected, with_factors)
        if edges is None:
            edges = np.zeros((self.tree.starts[-1], len(thetas)))
        free = None
        if self._learned:
            free = junction.collect(self.tree, np.zeros_like(unary), tables)
            edges = edges - np.asarray(junction.marginals(self.tree, free)[1])
        normaliser = self._log_normaliser if free is None else free.log_partition
        with np.errstate(invalid="ignore"):  # impossible with and without data: -inf - -inf
            values = normaliser - collected.log_partition - prior
        return values, Field(jax.device_put(nodes), jax.device_put(edges)), (collected, free)

    def _groups(self, directions: int, folds: int = 1) -> Iterator[slice]:
        """As many directions at a time as memory allows."""
        one = 2 * self.tree.bytes * folds
        room = memory.room(_TANGENT_BYTES, one, "one direction through the junction tree")
        size = max(int(room // one), 1)
        for start in range(0, directions, size):
            yield slice(start, start + size)

    def _tangents(
        self, collected: junction.Collected, d_unary: np.ndarray, d_factors: np.ndarray, factors: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tangents of marginals; zeros for factors unless `factors`."""
        d_nodes = np.empty_like(d_unary)
        d_edges = np.zeros((self.tree.starts[-1], *d_unary.shape[-2:]))
        for some in self._groups(*d_unary.shape[-2:]):
            arrays = (d_unary[:, :, some], d_factors[:, some], factors)
            _, d_nodes[:, :, some], edges = junction.tangents(self.tree, collected, *arrays)
            if edges is not None:
                d_edges[:, some] = edges
        return d_nodes, d_edges

    @in_float64
    def _curve(
        self, thetas: np.ndarray, weights: np.ndarray, factors: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Hessians (F, D, D) and cross derivatives (F, D, P)."""
        _, slopes, (collected, free) = self._expand(thetas, weights, factors)
        d_unary, d_factors = self._directions(thetas, weights)
        d_nodes, d_edges = self._tangents(collected, d_unary, d_factors, factors)
        if free is not None:
            still = np.zeros_like(d_unary)
            d_edges = d_edges - self._tangents(free, still, d_factors, True)[1]
        at = (jax.device_put(thetas), self.coordinates(weights), slopes)
        moved = Field(jax.device_put(d_nodes), jax.device_put(d_edges))
        hessians, cross = programs.second(self.program, *at, moved, *self._data)
        return np.moveaxis(np.asarray(hessians), 0, -1), np.moveaxis(np.asarray(cross), 0, 1)
