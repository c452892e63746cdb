"""One length for single series, one set of sequences, and fits of them that many tests share.

Compiling is most of the time of these tests: what has the same model and shape is compiled once.
"""

from __future__ import annotations

from functools import cache

import numpy as np

import fitonce as fo

STEPS = 60
POISSON = fo.models.PoissonHMM(2)
COUNTS = np.random.default_rng(0).poisson(np.repeat([2.0, 8.0, 2.0, 9.0], 15)).astype(float)
COUNTS[7] = np.nan
LENGTHS = (8, 5, 11, 6, 7, 9, 4, 10, 6)
SEQUENCES = [np.random.default_rng(n).poisson(4.0, n).astype(float) for n in LENGTHS]


def padded(x):
    """A shorter series with missing steps after it, which change neither its fit nor its losses."""
    return np.concatenate([x, np.full(STEPS - len(x), np.nan)])


@cache
def poisson_fit() -> fo.Fit:
    """Of two states to one series of counts."""
    return fo.fit(POISSON, COUNTS)


@cache
def sequences_fit() -> fo.Fit:
    """Of the same model to nine sequences."""
    return fo.fit(POISSON, SEQUENCES)
