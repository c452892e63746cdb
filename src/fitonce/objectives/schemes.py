"""Weighting schemes: the path along which the weight of a piece of data goes from 1 to 0.

Exact cross-validation sees only the ends of the path. The infinitesimal jackknife differentiates at its
start, so each scheme defines its path. A scheme has

* `path(weights, layout)`: weights of sites (or sequences) to the coordinates of the expansion;
* `terms(chain, coordinates, layout)`: the potentials of a chain at a point of the path;
* `weigh(field, coordinates, layout)`: those of a field on a graph; `keeps_latent` says whether factors
  stay unweighted.

A layout says what was observed and which sites are neighbours: see `objectives.chain.layout` and
`objectives.graph.layout`. Sites missing from the start have weight zero and no emission; they keep their
latent state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from fitonce.core.arguments import shown
from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array, scale_log
from fitonce.models.potentials import Chain, Field, Term


@runtime_checkable
class Scheme(Protocol):
    """How weights leave data out."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str:
        """What a weight belongs to: "sites" or "sequences"."""
        ...

    def path(self, weights: Array, layout: Any) -> Array: ...


@runtime_checkable
class ChainScheme(Scheme, Protocol):
    """How weights enter the potentials of a chain."""

    def terms(self, chain: Chain, coordinates: Array, layout: Any) -> tuple[Term, ...]: ...


@runtime_checkable
class FieldScheme(Scheme, Protocol):
    """How weights enter the potentials of a field on a graph."""

    @property
    def keeps_latent(self) -> bool: ...

    def weigh(self, field: Field, coordinates: Array, layout: Any) -> Field: ...


def _emission(chain: Chain, weights: Array, layout: Any) -> Array:
    """(N, T, K): w_t log p(x_t | z_t), exactly zero where nothing was observed."""
    weights = jnp.where(layout.observed, layout.to_grid(weights), 0.0)
    return scale_log(weights[..., None], jnp.where(layout.observed[..., None], chain.emission, 0.0))


def _site_emission(field: Field, weights: Array, layout: Any) -> Array:
    """(V, K): w_t log p(x_t | z_t), exactly zero where nothing was observed."""
    weights = jnp.where(layout.observed, weights, 0.0)
    return scale_log(weights[:, None], jnp.where(layout.observed[:, None], field.emission, 0.0))


def _unweighted(chain: Chain, layout: Any) -> Array:
    """(N, T, K): log p(x_t | z_t), zero where nothing was observed, with the initial distribution."""
    return jnp.where(layout.observed[..., None], chain.emission, 0.0).at[:, 0].add(chain.initial)


def _ones(layout: Any) -> Array:
    return jnp.ones(layout.observed.shape[0])


class _AlongWeights:
    """A scheme whose path coordinates are the weights themselves."""

    def path(self, weights: Array, layout: Any) -> Array:
        return weights


@dataclass(frozen=True)
class A(_AlongWeights):
    """Paper's eq. (A): leave out x_t, keep z_t.

    Path: w_t multiplies the log emission of site t. Between the ends the emission is tempered; at
    w_t = 0 the observation is exactly missing.
    """

    name: ClassVar[str] = "A"
    kind: ClassVar[str] = "sites"
    keeps_latent: ClassVar[bool] = True

    def terms(self, chain: Chain, coordinates: Array, layout: Any) -> tuple[Term, ...]:
        unary = _emission(chain, coordinates, layout).at[:, 0].add(chain.initial)
        return (Term(_ones(layout), unary, chain.transition),)

    def weigh(self, field: Field, coordinates: Array, layout: Any) -> Field:
        return Field(_site_emission(field, coordinates, layout), field.factors)


@dataclass(frozen=True)
class B:
    """Paper's eq. (B): leave out x_t and z_t.

    Path: w_t multiplies the log emission of step t, w_1 the initial distribution and w_t w_t+1 the
    transition between t and t + 1. At w_t = 0 the chain is cut at t. On a graph the table of a factor is
    multiplied by the product of its sites' weights, and where factors are learned their normaliser
    log Z(theta, w) is always subtracted: there it depends on theta at the ends, too.

    Args:
        normalised: subtract the latent normaliser log Z(theta, w), the log-partition of the same
            weighted initial and transition factors without emissions. It is constant in theta at the
            ends of the path but not between them, so it changes the expansion but not the refit.
        per_transition: give every transition (or factor of a graph) its own weight, which goes from 1 to
            0 when either of its ends is left out. The derivative of the product w_t w_t+1 counts a
            transition inside a block twice; this path counts it once.
    """

    normalised: bool = False
    per_transition: bool = False
    name: ClassVar[str] = "B"
    kind: ClassVar[str] = "sites"
    keeps_latent: ClassVar[bool] = False

    def path(self, weights: Array, layout: Any) -> Array:
        if not self.per_transition:
            return weights
        return jnp.concatenate([weights, layout.link_weights(weights)])

    def weigh(self, field: Field, coordinates: Array, layout: Any) -> Field:
        sites = layout.observed.shape[0]
        weights, links = coordinates[:sites], coordinates[sites:]
        links = links if self.per_transition else layout.link_weights(weights)
        factors = scale_log(links[layout.owner], field.factors)
        return Field(_site_emission(field, weights, layout), factors)

    def terms(self, chain: Chain, coordinates: Array, layout: Any) -> tuple[Term, ...]:
        rows, steps = layout.observed.shape
        if self.per_transition:
            weights, links = jnp.split(coordinates, [coordinates.size - rows * (steps - 1)])
        else:
            weights, links = coordinates, layout.link_weights(coordinates)
        edges = links.reshape(rows, steps - 1)
        initial = scale_log(layout.latent(weights)[:, :1], chain.initial)
        pairwise = scale_log(edges[..., None, None], chain.transition)
        unary = _emission(chain, weights, layout).at[:, 0].add(initial)
        weighted = Term(_ones(layout), unary, pairwise)
        if not self.normalised:
            return (weighted,)
        free = jnp.zeros_like(unary).at[:, 0].add(initial)
        return (weighted, Term(-_ones(layout), free, pairwise))


@dataclass(frozen=True)
class C(_AlongWeights):
    """Paper's eq. (C): leave out the label z_t of a conditional model p(z | x), keep the input x_t.

    Path: the log-likelihood is the expectation of log p(kept labels | x) when label t is kept with
    probability w_t, independently of the others. At the ends a label is observed or summed over; at
    w = 1 the derivative by w_t is log p(z_t | all other labels, x), as the paper's interpolation
    implies. A mixture of observed and summed over has the same ends, but its derivative
    1 - 1 / p(z_t | ...) explodes on a wrong label.
    """

    name: ClassVar[str] = "C"
    kind: ClassVar[str] = "sites"


@dataclass(frozen=True)
class Structures(_AlongWeights):
    """Leave whole sequences out (the paper's leave-structure-out).

    Path: w_n multiplies the log-likelihood of sequence n.
    """

    name: ClassVar[str] = "structures"
    kind: ClassVar[str] = "sequences"

    def terms(self, chain: Chain, coordinates: Array, layout: Any) -> tuple[Term, ...]:
        return (Term(coordinates, _unweighted(chain, layout), chain.transition),)


@dataclass(frozen=True)
class Increments(_AlongWeights):
    """Reweight the contribution of each observation to the log-likelihood, given those before it.

    Path: w_t multiplies log p(x_t | x_<t). All observations are still conditioned on, so this is for
    resampling (a bootstrap), not for leaving out (cross-validation). If the model is right, the terms'
    scores are martingale differences, which makes blocks of them nearly independent.
    """

    name: ClassVar[str] = "increments"
    kind: ClassVar[str] = "increments"  # matches no folds

    def terms(self, chain: Chain, coordinates: Array, layout: Any) -> tuple[Term, ...]:
        weights = jnp.where(layout.observed, layout.to_grid(coordinates), 0.0)
        return (Term(weights, _unweighted(chain, layout), chain.transition),)


@dataclass(frozen=True)
class Own(_AlongWeights):
    """A custom density takes the weights itself: its path is its own."""

    name: ClassVar[str] = "own"
    kind: ClassVar[str] = "sites"


_NAMED: dict[str, Scheme] = {"A": A(), "B": B(), "C": C(), "structures": Structures()}


def named_scheme(name: str) -> Scheme:
    """The scheme of this name."""
    if name not in _NAMED:
        raise ValueError(f"scheme must be one of {sorted(_NAMED)} or a scheme, got {shown(name)}")
    return _NAMED[name]


def resolve_scheme(scheme: str | Scheme | None, kind: str | None, usual: Scheme) -> Scheme:
    """The scheme of this name; None: Structures for folds of sequences, else the model's `usual` one."""
    if isinstance(usual, Own):
        if scheme is not None:
            raise ValueError(
                f"a Custom model defines its own path, so scheme must be None, got {scheme}"
            )
        return usual
    if scheme is None:
        return Structures() if kind == "sequences" else usual
    if isinstance(scheme, str):
        scheme = named_scheme(scheme)
    if isinstance(scheme, type) or not isinstance(scheme, Scheme):
        raise ValueError(
            f"scheme must be one of {sorted(_NAMED)} or a scheme such as B(), got {shown(scheme)}"
        )
    if kind is not None and scheme.kind != kind:
        raise ValueError(
            f"scheme {scheme.name} leaves out {scheme.kind}, but the folds leave out {kind}"
        )
    return scheme
