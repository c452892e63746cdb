"""A hidden Potts field with an emission at every site (the paper's hidden Markov random field)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fitonce.core.arguments import refusal, require, require_number
from fitonce.core.constraints import Constraint, Free
from fitonce.core.deferred import jax, jnp
from fitonce.core.memory import require_fits
from fitonce.core.numerics import Array, as_numbers, is_count, is_number
from fitonce.core.parameters import Params
from fitonce.core.predictive import Tails
from fitonce.core.wording import counted, shortened
from fitonce.data.alignment import aligned, site_labels
from fitonce.data.graph import Graph, read_order
from fitonce.data.graph import graph as read_graph
from fitonce.data.sequences import Sequences
from fitonce.models.base import MEMORY_LIMIT
from fitonce.models.emissions.base import Emission, Rows, constant_of, observations
from fitonce.models.emissions.by_name import read_emission
from fitonce.models.emissions.counts import Binomial
from fitonce.models.emissions.product import Product
from fitonce.models.potentials import Field

LEARNED = "learned"
_SIDES = "exposure", "the sites"
_STRONGEST = 1e6  # beyond this, log Z is so large that the data's contribution loses its digits


class FieldData(NamedTuple):
    """Observations of all sites, and the coupling if it is fixed."""

    rows: Rows
    beta: Array


@dataclass(frozen=True)
class PottsMixture:
    """Sites in K classes, each class with its own emission; neighbours tend to be in the same class.

        p(z) = exp(beta * number of edges within a class) / Z(beta)

    Every undirected edge counts once. The paper sums over the neighbours of every site and so counts it
    twice: its beta is half of ours.

    Args:
        adjacency: anything `fo.graph` reads: an edge list, a dense or sparse matrix, a networkx graph,
            libpysal weights, or a map of `fo.read_map`.
        n_classes: K.
        emission: "poisson", "gaussian", "binomial" or another name that `HMM` takes, or any emission
            that does not depend on time, such as `fo.models.Categorical(3)` or
            `fo.models.Poisson(shape=2.0, rate=0.1)`.
        beta: the coupling, a number, or "learned" with the other parameters.
        exposure: (sites,) or one number; Poisson rates are per unit of exposure, and binomial counts are
            out of it ("binomial" requires it). None: that of the map, if there is one and the emission
            has none of its own.
        beta_scale: scale of a Normal(0, beta_scale^2) prior on a learned beta, weak by default; it
            matters where classes hardly differ, or all sites are in one. None: flat.
        memory_limit: bytes that exact inference may take for one fold.
        order: in which sites are summed out, all of them by name or number, for an order of your own;
            None: the cheapest that is found. It changes time and memory (`fo.plan`), not results.

    Parameters: those of the emission, such as `rate` (K,), and `beta` if learned. Classes are in
    increasing order at the start of a fit.
    """

    adjacency: Any
    n_classes: int = 2
    emission: str | Emission = "poisson"
    # Not compared: both are part of the prepared data, so that one compiled program serves all values.
    beta: float | str = field(default=LEARNED, compare=False)
    exposure: Any = field(default=None, compare=False)
    beta_scale: float | None = 10.0
    memory_limit: float = field(default=MEMORY_LIMIT, kw_only=True)
    order: Any = field(default=None, compare=False, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        sites = self.adjacency
        object.__setattr__(self, "adjacency", read_graph(sites))
        require(is_count(self.n_classes), "n_classes", "a positive integer", self.n_classes)
        object.__setattr__(self, "emission", _read_emission(self.emission))
        learned = isinstance(self.beta, str) and self.beta == LEARNED
        fine = learned or (is_number(self.beta) and abs(float(self.beta)) <= _STRONGEST)
        wanted = f"'{LEARNED}' or a number of absolute value at most {_STRONGEST:g}"
        require(fine, "beta", wanted, self.beta)
        require_fits("n_classes", self.n_classes, lambda n: 8 * n * n, "a table of two neighbours")
        if learned and self.n_classes == 1:
            raise ValueError("one class has no coupling to learn; give beta a number, or n_classes=2")
        require_number("beta_scale", self.beta_scale, above=0, optional=True)
        require_number("memory_limit", self.memory_limit, above=0)
        names = getattr(sites, "names", None) or self.graph.names
        object.__setattr__(self, "order", read_order(self.order, self.graph.n_sites, names))
        exposure = _exposure_of(sites, self._emission) if self.exposure is None else self.exposure
        if exposure is not None:
            labels = site_labels(sites, self.graph.names)
            object.__setattr__(self, "exposure", self._exposure(aligned(exposure, labels, *_SIDES)))
            if labels is None and isinstance(exposure, pd.Series):  # the data may tell the sites
                object.__setattr__(self, "_exposed", exposure.index)

    def _exposure(self, given: Any) -> tuple[float, ...]:
        if not self._emission.traits.exposure:
            raise ValueError(
                f"a {self._emission.name} emission has no exposure, got one of length {np.size(given)}"
            )
        found = as_numbers(given, finite=False)
        if found is None:
            raise refusal("exposure", "numeric", given)
        exposure = found
        if exposure.ndim == 0:
            exposure = np.full(self.graph.n_sites, float(exposure))
        if exposure.shape != (self.graph.n_sites,):
            raise ValueError(
                f"exposure must have one entry per site, shape ({self.graph.n_sites},), "
                f"got shape {exposure.shape}"
            )
        bad = np.flatnonzero(~(np.isfinite(exposure) & (exposure > 0)))
        if bad.size:
            raise ValueError(f"exposure must be positive, got {exposure[bad[0]]:g} at site {bad[0]}")
        return tuple(exposure.tolist())

    def _require_labels(self, labels: pd.Index, index: pd.Index) -> None:
        """Raise unless exposures have the order of the data, where only these name the sites."""
        places = aligned(pd.Series(range(len(labels)), labels), index, *_SIDES).to_numpy()
        apart = np.flatnonzero(places != np.arange(len(places)))
        if apart.size:
            wanted, came = shortened(index[apart[0]]), shortened(labels[apart[0]])
            raise ValueError(
                f"exposure must have its sites in the order of the data, whose site {apart[0]} is "
                f"'{wanted}', got '{came}'; give exposure.loc[data.index]"
            )

    @property
    def _emission(self) -> Emission:
        return self.emission  # type: ignore[return-value]  # converted at construction

    @property
    def n_numbered(self) -> int:
        """How many classes can change places."""
        return self.n_classes

    def with_one_more(self) -> PottsMixture:
        """A model with one class more."""
        return replace(self, n_classes=self.n_classes + 1)

    def renumbered(self, order: np.ndarray, axes: dict[str, tuple[int, ...]]) -> PottsMixture:
        """Nothing is said of single classes."""
        return self

    @property
    def graph(self) -> Graph:
        """The graph that was read."""
        return self.adjacency

    @property
    def states(self) -> tuple[int, ...]:
        return (int(self.n_classes),) * self.graph.n_sites

    @cached_property
    def scopes(self) -> tuple[tuple[int, ...], ...]:
        # With one class every edge contributes the same constant.
        return tuple(map(tuple, self.graph.edges.tolist())) if self.n_classes > 1 else ()

    @property
    def learns_factors(self) -> bool:
        return isinstance(self.beta, str)

    def __str__(self) -> str:
        coupling = "learned beta" if self.learns_factors else f"beta {self.beta:g} per edge"
        return (
            f"PottsMixture, {counted(self.n_classes, 'class', 'classes')}, "
            f"{self._emission.name} emission, {coupling}, "
            f"{counted(self.graph.n_sites, 'site')}, {counted(len(self.graph.edges), 'edge')}"
        )

    def prepare(self, data: Sequences) -> FieldData:
        _require_one_value_per_site(data, self.graph)
        exposure = None if self.exposure is None else np.asarray(self.exposure)
        labels = getattr(self, "_exposed", None)
        if labels is not None and data.indices is not None:
            self._require_labels(labels, data.indices[0])
        x, observed, covariates = observations(self._emission, data, exposure)
        constant = constant_of(self._emission, x[:, 0], observed[:, 0], exposure)
        rows = Rows(
            x=jax.device_put(x[:, 0]),
            observed=None,
            covariates=jax.device_put(covariates),
            counts=jax.device_put(observed[:, 0].astype(float)),
            exposure=None if exposure is None else jax.device_put(exposure),
            constant=constant,
        )
        return FieldData(rows, jax.device_put(0.0 if self.learns_factors else float(self.beta)))

    def check_to_fit(self, data: Sequences, prepared: FieldData) -> None:
        """Raise if parameters cannot be learned from these data."""
        self._emission.check_to_fit(data)

    def parameters(self, prepared: FieldData) -> dict[str, Constraint]:
        names = self._emission.parameters(self.n_classes, prepared.rows)
        return {**names, "beta": Free()} if self.learns_factors else names

    def start(self, prepared: FieldData, rng: np.random.Generator | None) -> Params:
        params = self._emission.start(self.n_classes, prepared.rows, rng)
        coupling = 0.5 if rng is None else rng.uniform(0.0, 1.0)
        return {**params, "beta": np.asarray(coupling)} if self.learns_factors else params

    @property
    def starts_with_em(self) -> bool:
        return self._emission.traits.m_step

    def maximise(self, params: Params, shares: np.ndarray, prepared: FieldData) -> Params:
        return {**params, **self._emission.maximise(params, shares, prepared.rows)}

    @property
    def has_tails(self) -> bool:
        return self._emission.traits.tails

    def tails(self, params: Params, prepared: FieldData, sites: np.ndarray) -> Tails:
        rows, exposure = prepared.rows, prepared.rows.exposure
        some = replace(
            rows,
            x=np.asarray(rows.x)[sites],
            covariates=np.asarray(rows.covariates)[sites],
            counts=np.asarray(rows.counts)[sites],
            exposure=None if exposure is None else np.asarray(exposure)[sites],
            constant=None,
        )
        return self._emission.tails(params, some)

    def log_prior_at(self, params: Params, prepared: FieldData) -> Array:
        value = self._emission.log_prior(params, prepared.rows)
        if self.learns_factors and self.beta_scale is not None:
            value -= 0.5 * (params["beta"] / self.beta_scale) ** 2
        return value

    def bytes_per_fold(self, prepared: FieldData) -> int:
        """Memory of the potentials, without the tables of the junction tree."""
        return 80 * self.n_classes * (self.graph.n_sites + self.n_classes * len(self.graph.edges))

    def potentials(self, params: Params, prepared: FieldData) -> Field:
        beta = params["beta"] if self.learns_factors else prepared.beta
        factors = jnp.tile(beta * jnp.eye(self.n_classes).ravel(), len(self.scopes))
        return Field(self._emission.log_density(params, prepared.rows), factors)


def _read_emission(given: Any) -> Emission:
    found = read_emission(given, {"binomial": Binomial})
    if found.traits.along_time:
        raise ValueError(f"a {found.name} emission needs steps in time, which a graph does not have")
    if isinstance(found, Product):
        raise ValueError("a product of emissions needs several channels, and a graph has one")
    return found


def _exposure_of(sites: Any, emission: Emission) -> Any:
    """The exposure of a map, or of another model, which the emission must have a use for."""
    owner = getattr(sites, "model", sites)
    of_sites = isinstance(getattr(owner, "graph", None), Graph)
    found = getattr(owner, "exposure", None) if of_sites else None
    own = [getattr(emission, name, None) for name in ("exposure", "trials")]
    if found is None or any(one is not None for one in own):
        return None
    if not emission.traits.exposure:
        raise ValueError(
            f"a {emission.name} emission has no exposure, but the sites have one; read the map without "
            "exposure=, or give its graph alone (map.graph)"
        )
    return found


def _require_one_value_per_site(data: Sequences, graph: Graph) -> None:
    if data.n_sequences != 1 or len(data.channels) != 1:
        raise ValueError(
            f"data must hold one value for each site, got {counted(data.n_sequences, 'sequence')} of "
            f"{counted(len(data.channels), 'channel')}"
        )
    if data.n_sites != graph.n_sites:
        from_one = data.n_sites == graph.n_sites - 1 and graph.edges.min(initial=1) == 1
        hint = " (are its edges numbered from 1?)" if from_one else ""
        sites = counted(data.n_sites, "site")
        raise ValueError(f"data has {sites}, the graph has {graph.n_sites:,}{hint}")
