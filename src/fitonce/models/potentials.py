"""Log-potentials as a model returns them and an engine reads them."""

from __future__ import annotations

from typing import NamedTuple

from fitonce.core.numerics import Array


class Chain(NamedTuple):
    """Log-potentials of a batch of hidden Markov chains, emissions separate from the latent part.

    Attributes:
        initial: (K,), or (N, K).
        transition: (K, K), from row to column, or (N, T - 1, K, K).
        emission: (N, T, K); arbitrary at missing and padding steps (they have weight zero).
    """

    initial: Array
    transition: Array
    emission: Array


class Term(NamedTuple):
    """Weighted potentials ready for an engine.

    Contributes sum_n coefficient[n] * log Z_n, or where the coefficient has a time axis,
    sum_nt coefficient[n, t] * (increment of log Z_n at step t).
    """

    coefficient: Array  # (N,) or (N, T)
    unary: Array  # (N, T, K)
    pairwise: Array  # (K, K), or (N, T - 1, K, K)


class Linear(NamedTuple):
    """Parameters of a chain whose log-potentials are linear in them.

    Attributes:
        weights: (Q', K) for the columns of the model's design matrix.
        transition: (K, K), from row to column.
        first: (K,) zero for states that can be first, -inf for others.
    """

    weights: Array
    transition: Array
    first: Array


class Field(NamedTuple):
    """Log-potentials of a hidden field on V sites, emissions separate from the latent part.

    Attributes:
        emission: (V, K); arbitrary at missing sites and beyond a site's number of states.
        factors: (P,) tables of all factors, flattened and concatenated.
    """

    emission: Array
    factors: Array
