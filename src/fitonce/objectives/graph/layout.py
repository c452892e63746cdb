"""The sites and factors of a graph, as weighting schemes read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.core.deferred import jax, jnp
from fitonce.core.numerics import Array


def field_layout(
    scopes: tuple[tuple[int, ...], ...], starts: tuple[int, ...], observed: np.ndarray
) -> FieldLayout:
    """The layout of sites `observed` (V,) and factors with these scopes."""
    most = max((len(scope) for scope in scopes), default=1)
    members = np.full((len(scopes), most), len(observed))
    for row, scope in zip(members, scopes, strict=True):
        row[: len(scope)] = scope
    owner = np.repeat(np.arange(len(scopes)), np.diff(starts))
    return FieldLayout(jax.device_put(observed), jax.device_put(members), jax.device_put(owner))


class FieldLayout(NamedTuple):
    """V sites and C factors.

    Attributes:
        observed: (V,) bools.
        members: (C, A) sites of each factor, padded by V.
        owner: (P,) the factor of each entry of the tables.
    """

    observed: Array
    members: Array
    owner: Array

    def link_weights(self, weights: Array) -> Array:
        """(C,) for each factor, the product of its sites' weights; one where nothing was observed."""
        latent = jnp.append(jnp.where(self.observed, weights, 1.0), 1.0)
        return jnp.prod(latent[self.members], 1)
