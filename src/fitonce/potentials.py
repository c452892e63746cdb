"""Records of log-potentials: what a model says and what an engine reads."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from fitonce.numerics import Array


class Chain(NamedTuple):
    """Log-potentials of a batch of hidden Markov chains, emission apart from the latent part.

    Attributes:
        initial: (K,).
        transition: (K, K), from row to column.
        emission: (N, T, K); anything at missing and padding steps (they have weight zero).
    """

    initial: Array
    transition: Array
    emission: Array


class Layout(NamedTuple):
    """Where the sites of a batch of N sequences lie in the padded (N, T) grid.

    Attributes:
        observed: (N, T) bools, false at missing and padding steps.
        lengths: (N,) integers, or None when every sequence fills the grid.
        places: (N, T) the site in each place (any, at padding), or None when sites fill the grid.
        slots: (sites,) the place of each site in the flattened grid, or None when sites fill it.
    """

    observed: Array
    lengths: Array | None
    places: Array | None
    slots: Array | None

    def take(self, sequences: Array) -> Layout:
        """Of some of the sequences, for programs that weigh whole sequences or the grid."""
        lengths = None if self.lengths is None else self.lengths[sequences]
        return Layout(self.observed[sequences], lengths, None, None)

    def to_grid(self, sites: Array) -> Array:
        """(sites,) to (N, T)."""
        grid = self.observed.shape
        return sites.reshape(grid) if self.places is None else sites[self.places]

    def latent(self, weights: Array) -> Array:
        """(N, T): a missing observation was not left out, so its latent state has weight one."""
        return jnp.where(self.observed, self.to_grid(weights), 1.0)

    def link_weights(self, weights: Array) -> Array:
        """(N * (T - 1),) of each transition, the product of the weights at its ends."""
        latent = self.latent(weights)
        return (latent[:, :-1] * latent[:, 1:]).ravel()

    def to_slots(self, sites: Array) -> Array:
        """Site numbers to places in the flattened (N * T) grid."""
        return sites if self.slots is None else self.slots[sites]


class Term(NamedTuple):
    """Weighted potentials ready for an engine.

    Contributes sum_n coefficient[n] * log Z_n, or where the coefficient has a time axis,
    sum_nt coefficient[n, t] * (what step t adds to log Z_n).
    """

    coefficient: Array  # (N,) or (N, T)
    unary: Array  # (N, T, K)
    pairwise: Array  # (K, K), or (N, T - 1, K, K)


class Linear(NamedTuple):
    """Parameters of a chain whose log-potentials are linear in them.

    Attributes:
        weights: (Q', K) of the columns of a model's design.
        transition: (K, K), from row to column.
        first: (K,) zero for states that can be first, minus infinity for others.
    """

    weights: Array
    transition: Array
    first: Array


class Field(NamedTuple):
    """Log-potentials of a hidden field on V sites, emission apart from the latent part.

    Attributes:
        emission: (V, K); anything at missing sites, and from a site's number of states on.
        factors: (P,) tables of all factors, each flattened, one after the other.
    """

    emission: Array
    factors: Array


class FieldLayout(NamedTuple):
    """What belongs to what on a graph with V sites and C factors.

    Attributes:
        observed: (V,) bools.
        members: (C, A) sites of each factor, padded by V.
        owner: (P,) the factor of each entry.
    """

    observed: Array
    members: Array
    owner: Array

    def link_weights(self, weights: Array) -> Array:
        """(C,) of each factor, the product of its sites' weights, one where nothing was observed."""
        latent = jnp.append(jnp.where(self.observed, weights, 1.0), 1.0)
        return jnp.prod(latent[self.members], 1)
