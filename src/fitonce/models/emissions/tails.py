"""How far out an observation lies in its distribution, given the state.

Half of the probability of the observation itself is in either tail (mid-p), so that the two add to one
and, under the right model, their average over observations is a half for counts too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from fitonce.core.predictive import Tails


def poisson_tails(x: Any, mean: Any) -> Tails:
    """Of counts with this mean."""
    x, mean = np.broadcast_arrays(np.asarray(x, float), np.asarray(mean, float))
    half = 0.5 * np.exp(special.xlogy(x, mean) - mean - special.gammaln(x + 1.0))
    return Tails(mean, _fewer(special.pdtr, x, mean) + half, special.pdtrc(x, mean) + half)


def binomial_tails(x: Any, trials: Any, rate: Any) -> Tails:
    """Of counts of successes."""
    x, trials, rate = np.broadcast_arrays(*(np.asarray(one, float) for one in (x, trials, rate)))
    rest = trials - x
    ways = special.gammaln(trials + 1.0) - special.gammaln(x + 1.0) - special.gammaln(rest + 1.0)
    half = 0.5 * np.exp(ways + special.xlogy(x, rate) + special.xlog1py(rest, -rate))
    # P(X <= k) = I(1 - rate; trials - k, k + 1), by the incomplete beta function.
    few, many = np.maximum(x, 1.0), np.maximum(rest, 1.0)
    below = np.where(x > 0, special.betainc(trials - few + 1.0, few, 1.0 - rate), 0.0)
    above = np.where(rest > 0, special.betainc(x + 1.0, many, rate), 0.0)
    return Tails(trials * rate, below + half, above + half)


def normal_tails(x: Any, mean: Any, variance: Any) -> Tails:
    """Of numbers with this mean and variance."""
    scaled = (np.asarray(x, float) - mean) / np.sqrt(variance)
    return Tails(np.broadcast_to(mean, scaled.shape), special.ndtr(scaled), special.ndtr(-scaled))


def _fewer(cumulative: Any, x: np.ndarray, *at: np.ndarray) -> np.ndarray:
    """P(X < x) of counts, from P(X <= x)."""
    return np.where(x > 0, cumulative(np.maximum(x - 1.0, 0.0), *at), 0.0)
