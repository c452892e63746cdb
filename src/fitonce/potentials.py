"""Records of log-potentials: what a model says and what an engine reads."""

from __future__ import annotations

from typing import NamedTuple

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

    def to_grid(self, sites: Array) -> Array:
        """(sites,) to (N, T)."""
        grid = self.observed.shape
        return sites.reshape(grid) if self.places is None else sites[self.places]

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
