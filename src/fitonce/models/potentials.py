"""Records of log-potentials: what a model says and what an engine reads."""

from __future__ import annotations

from typing import NamedTuple

from fitonce.core.numerics import Array


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
