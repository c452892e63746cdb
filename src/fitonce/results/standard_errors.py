"""Standard errors of means of losses that depend on their neighbours in time.

The estimate is a sum of terms, one for each held-out loss, placed along the data. If each term is like
its neighbours for a while, their variances say little about that of the sum. What does is how the terms
go along with slow waves: the products with the first B cosines over the length of the data are
independent, with the variance of the sum, as long as the shortest wave is long against the memory of
the losses. The root of their mean square is the standard error, and the error of the estimate over it
has Student's t distribution with B degrees of freedom, also where B is small (Lazarus, Lewis, Stock and
Watson, "HAR inference", 2018; equal-weighted cosines).

The shortest wave fits B / 2 times into the data: so many independent stretches there are. B is as large
as memory allows: the relative bias of the variance, (pi B / n)^2 sum_h h^2 c_h / (6 sum_h c_h) with
autocovariances c_h, is kept below a tenth. Autocovariances at long lags cannot be seen in the losses of
one series, but a chain of states says what they are: losses depend on the state, and states persist as
the transition matrix says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from fitonce.core.numerics import distinct, lengths_of, unit_of

_BIAS = 0.1
_MOST = 0.4  # times n^(2/3) waves: the usual rule, in case the fit knows too little about memory
_ROUNDING = 1e-12  # of the losses
_NEGLIGIBLE = 1e-6  # of the variance of the losses
FEW = 8  # independent stretches: below, intervals cover less often than they should


class Spread(NamedTuple):
    """How far a mean may be from what it estimates.

    Attributes:
        se: its standard error; nan where there is none.
        dof: degrees of freedom of Student's t: the number of waves, or of sequences or regions less one.
    """

    se: float
    dof: float

    def half_width(self, level: float) -> float:
        """Of the interval that covers with this probability."""
        if not (np.isfinite(self.se) and self.dof >= 1):
            return float("nan")
        return float(self.se * stdtrit(self.dof, 0.5 + 0.5 * level))


@dataclass(frozen=True, eq=False)
class Terms:
    """What a mean over folds is made of, one row for each held-out loss.

    Attributes:
        values: (n,) the losses.
        shares: (n,) their weights in the mean, which sum to one.
        places: (n,) the site of each, or its sequence or region.
    """

    values: np.ndarray
    shares: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, fold: np.ndarray, places: np.ndarray, used: np.ndarray) -> Terms:
        """Of rows that belong to folds (n,), of which only those `used` (F,) count."""
        sizes = np.bincount(fold, minlength=len(used))
        kept = slice(None) if used.all() else used[fold]  # rows may be millions
        shares = 1.0 / (max(int(used.sum()), 1) * sizes[fold[kept]].astype(float))
        return cls(values[kept], shares, places[kept])

    @property
    def are_finite(self) -> bool:
        """Whether there are losses, all of them numbers."""
        return bool(self.values.size and np.isfinite(self.values).all())

    @property
    def mean(self) -> float:
        return float(self.shares @ self.values)

    @cached_property
    def residuals(self) -> np.ndarray:
        """(n,) what each row adds to the deviation of the mean; they sum to zero, and are zero where the
        losses differ only by rounding."""
        if self.are_finite and np.ptp(self.values) <= _ROUNDING * np.abs(self.values).max():
            return np.zeros(len(self.values))
        return self.shares * (self.values - self.mean)

    @cached_property
    def distinct_places(self) -> np.ndarray:
        """(m,), ascending."""
        return distinct(self.places)

    @cached_property
    def sums(self) -> np.ndarray:
        """(m,) the residuals of each place, added up."""
        return np.bincount(self.places, self.residuals)[self.distinct_places]


def spread_of(terms: Terms, memory: float) -> Spread:
    """Along time, of losses with a `memory` in steps; nan: places are independent."""
    return by_cluster(terms) if np.isnan(memory) else along_time(terms, memory)


def by_cluster(terms: Terms) -> Spread:
    """From sums over independent places: sequences, or regions of a graph."""
    if len(terms.distinct_places) < 2:
        return Spread(float("nan"), 0.0)
    sums, weight = terms.sums, np.bincount(terms.places, terms.shares)
    count = float(weight.sum() ** 2 / np.sum(weight**2))  # as many of equal size have as little noise
    return Spread(float(np.sqrt(count / (count - 1.0)) * lengths_of(sums)), count - 1.0)


def along_time(terms: Terms, memory: float) -> Spread:
    """From slow waves along the sites that were scored, for losses with a `memory` in steps."""
    sites, sums, count = terms.distinct_places, terms.sums, len(terms.distinct_places)
    if count < 3 or not np.isfinite(sums).all():
        return Spread(float("nan"), 0.0)
    usual = max(_MOST * count ** (2 / 3), min(count - 1.0, FEW))
    waves = min(usual, waves_for(int(sites[-1] - sites[0]) + 1, memory))
    # Over the scored sites only: residuals sum to zero there, as all waves over them do.
    along = _cosines(sums)[1 : max(round(waves), 2) + 1]
    size = float(np.sqrt(2.0 / len(along)) * lengths_of(along))
    return Spread(size, min(float(len(along)), waves))


def _cosines(values: np.ndarray) -> np.ndarray:
    """(n,) sum_i v_i cos(pi w (i + 1/2) / n) for w = 0, 1, .., n - 1, by one Fourier transform: of the
    even entries, and of the odd ones backwards."""
    count = len(values)
    turned = np.fft.fft(np.concatenate([values[::2], values[1::2][::-1]]))
    return (turned * np.exp(-0.5j * np.pi * np.arange(count) / count)).real


def waves_for(steps: int, memory: float) -> float:
    """How many waves along so many steps are slow against a memory."""
    return steps * np.sqrt(3.0 * _BIAS) / (np.pi * max(memory, 1e-9))


def memory_of(terms: Terms, shares: np.ndarray, transition: np.ndarray) -> float:
    """The memory of losses that depend on a state, in steps: sqrt(sum_h h^2 c_h / (2 sum_h c_h)), about
    1 / (1 - a) where all of a loss depends on a state whose autocorrelations are a^h.

    Args:
        terms: the losses, with sites as places.
        shares: (sites, K) probabilities of the states.
        transition: (K, K).
    """
    sites, states = terms.distinct_places, shares[terms.distinct_places]
    sums = terms.sums
    sums = sums / unit_of(sums)  # its result has no unit
    variance, count = float(np.mean(sums**2)), len(sites)
    weight = states.sum(0)
    usual = weight / max(weight.sum(), np.finfo(float).tiny)
    levels = states.T @ sums / np.maximum(weight, np.finfo(float).tiny)
    levels -= usual @ levels
    ahead, total, spread = levels, variance, 0.0
    for lag in range(1, count):
        ahead = transition @ ahead
        ahead = ahead - usual @ ahead
        covariance = float(usual @ (levels * ahead))
        total, spread = total + 2.0 * covariance, spread + 2.0 * lag**2 * covariance
        # Not of a covariance, which may cross zero.
        if float(usual @ ahead**2) <= _NEGLIGIBLE**2 * variance:
            break
    return float(np.sqrt(max(spread, 0.0) / (2.0 * total))) if total > 0 else 0.0
