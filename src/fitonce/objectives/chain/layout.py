"""The places of sites in a padded grid of sequences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array, EitherArray
from fitonce.data.sequences import Sequences


def chain_layout(data: Sequences) -> ChainLayout:
    """The layout of `data`."""
    observed = data.observed.any(-1)
    if data.valid.all():
        return ChainLayout(observed, None, None, None)
    places = np.where(data.valid, np.cumsum(data.valid.ravel()).reshape(data.valid.shape) - 1, 0)
    slots = np.flatnonzero(data.valid.ravel())
    return ChainLayout(observed, data.lengths, places, slots)


class ChainLayout(NamedTuple):
    """The places of the sites of N sequences in the padded (N, T) grid.

    Attributes:
        observed: (N, T) bools, false at missing and padding steps.
        lengths: (N,) integers, or None when every sequence fills the grid.
        places: (N, T) the site in each place (arbitrary at padding), or None when sites fill the grid.
        slots: (sites,) the place of each site in the flattened grid, or None when sites fill it.
    """

    observed: EitherArray
    lengths: EitherArray | None
    places: EitherArray | None
    slots: EitherArray | None

    def take(self, sequences: Array) -> ChainLayout:
        """Some of the sequences, for programs whose weights are of whole sequences or of the grid."""
        lengths = None if self.lengths is None else self.lengths[sequences]
        return ChainLayout(self.observed[sequences], lengths, None, None)

    def to_grid(self, sites: Array) -> Array:
        """(sites,) to (N, T)."""
        grid = self.observed.shape
        return sites.reshape(grid) if self.places is None else sites[self.places]

    def latent(self, weights: Array) -> Array:
        """(N, T) weights of latent states: one where an observation is missing rather than left out."""
        return jnp.where(self.observed, self.to_grid(weights), 1.0)

    def link_weights(self, weights: Array) -> Array:
        """(N * (T - 1),) for each transition, the product of the weights at its ends."""
        latent = self.latent(weights)
        return (latent[:, :-1] * latent[:, 1:]).ravel()

    def to_slots(self, sites: Array) -> Array:
        """Site numbers to places in the flattened (N * T) grid."""
        return sites if self.slots is None else self.slots[sites]
