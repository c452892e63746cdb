"""Closed forms of event counts: a background by day of the week, and the excess of events.

    log lambda_d = log rate + log 7 share_d,     excess e ~ NegativeBinomial(a, b / (1 + b))

The count during an event has the convolution of both distributions. Its derivatives are moments of the
excess given the count, and of the derivatives of its distribution,

    U_e = sum_{j < e} a / (a + j),     W_e = sum_{j < e} a j / (a + j)^2.

Both states share all P = 9 free coordinates: log a, log b, six log-ratios of shares, log rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from fitonce.core.native import compiled
from fitonce.models.emissions.closed_forms import ClosedForms, Observations, Values, x_log

DAYS = 7
_A, _B, _SHARES, _RATE, _SIZE = 0, 1, slice(2, 1 + DAYS), 1 + DAYS, 2 + DAYS  # coordinates
_TINY = 1e-200  # probabilities below may have lost terms to underflow
Prior = tuple[float, ...]


@compiled
def _moments(background, excess, features, day, counts, out):  # type: ignore[no-untyped-def]
    """Sums over the excess of each row, of its probability times features.

    Args:
        background: (7, L + 1, F) probabilities of the count without the excess.
        excess: (L + 1, F) probabilities.
        features: (M, L + 1, F).
        day, counts: (R,).
        out: (R, M, F) zeros, to which the sums are added.
    """
    for row in range(len(day)):
        for e in range(counts[row] + 1):
            rest = background[day[row], counts[row] - e]
            for m in range(features.shape[0]):
                for f in range(features.shape[2]):
                    out[row, m, f] += rest[f] * excess[e, f] * features[m, e, f]


class _Excess(NamedTuple):
    """Conditional moments (R, F) of the excess; those of second derivatives only if asked for."""

    log_density: np.ndarray
    mean: np.ndarray
    growth: np.ndarray
    bend: Any = None
    variance: Any = None
    covariance: Any = None
    growth_variance: Any = None


class _Known(NamedTuple):
    """Log densities (R, F) of counts without an event, and moments of the excess of one."""

    quiet: np.ndarray
    excess: _Excess


@dataclass(frozen=True)
class ClosedEvents(ClosedForms):
    """Gamma priors of `rate`, `a` and `b`, and a Dirichlet one of `day_share`."""

    rate_prior: Prior
    a_prior: Prior
    b_prior: Prior
    day_concentration: float
    last: list[tuple[np.ndarray, _Known]] = field(default_factory=list, repr=False, compare=False)

    def numbers(self, states: int, rows: Observations) -> int:
        return 4 * len(rows.x) + 2 * (DAYS + 3) * (int(rows.x.max()) + 1)

    def operations(self, states: int, rows: Observations) -> int:
        return 3 * len(rows.x) * (int(rows.x.max()) + 1)

    @property
    def shared(self) -> tuple[str, ...]:
        return ("a", "b", "day_share", "rate")

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        known = self._known(values, rows)
        return rows.seen[:, :, None] * np.stack([known.quiet, known.excess.log_density], 1)

    def _known(self, values: Values, rows: Observations) -> _Known:
        """At many folds; slopes are asked for where densities were."""
        for thetas, known in self.last:
            if np.array_equal(thetas, values.thetas):
                return known
        day, counts = _read(rows)
        background = _background(values, counts.max())
        known = _Known(background[day, counts], _excess(values, rows, background, second=False))
        self.last[:] = [(np.array(values.thetas), known)]
        return known

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        day, counts = _read(rows)
        known = self._known(values, rows).excess
        a, b = values["a"], values["b"]
        shares = rows.seen[:, :, None] * shares
        found = np.zeros((2, _SIZE, shares.shape[-1]))
        rest = np.stack(np.broadcast_arrays(counts[:, None], counts[:, None] - known.mean), 1)
        of_days = _by_day(day, shares * (rest - _rates(values)[day][:, None]))
        found[:, _SHARES] = (of_days - of_days.sum(0) * values["day_share"][:, None])[:-1].swapaxes(0, 1)
        found[:, _RATE] = of_days.sum(0)
        found[1, _A] = np.sum(shares[:, 1] * (a * _log_odds(b) + known.growth), 0)
        found[1, _B] = np.sum(shares[:, 1] * (a - b * known.mean), 0) / (1.0 + b)
        return found

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        day, counts = _read(rows)
        alone = _with_folds(values)
        known = _excess(alone, rows, _background(alone, counts.max()), second=False)
        a, b, rate = values["a"], values["b"], _rates(values)[day]
        found = np.zeros((len(day), 2, _SIZE))
        by_rate = np.stack([counts, counts - known.mean[:, 0]], 1) - rate[:, None]
        found[:, :, _SHARES] = by_rate[..., None] * _slopes_of_days(values["day_share"])[day][:, None]
        found[:, :, _RATE] = by_rate
        found[:, 1, _A] = a * _log_odds(b) + known.growth[:, 0]
        found[:, 1, _B] = (a - b * known.mean[:, 0]) / (1.0 + b)
        return rows.seen[:, :, None] * found

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        day, counts = _read(rows)
        alone, shares = _with_folds(values), rows.seen * shares
        known = _Excess(
            *(m[:, 0] for m in _excess(alone, rows, _background(alone, counts.max()), second=True))
        )
        a, b, rate = values["a"], values["b"], _rates(values)[day]
        odds = b / (1.0 + b)
        during = shares[:, 1]
        by_rate = np.stack([counts - rate, counts - known.mean - rate], 1)
        squares = np.stack([-rate, known.variance - rate], 1)
        towards = np.zeros((DAYS, _SIZE))  # derivatives of log lambda_d
        towards[:, _SHARES], towards[:, _RATE] = _slopes_of_days(values["day_share"]), 1.0
        found = np.einsum("dk,dp,dq->kpq", _by_day(day, shares * squares), towards, towards)
        share = values["day_share"][:-1]
        bent = np.diag(share) - np.outer(share, share)
        found[:, _SHARES, _SHARES] -= np.sum(shares * by_rate, 0)[:, None, None] * bent
        for place, along in ((_A, -known.covariance), (_B, odds * known.variance)):
            found[1, place] += _by_day(day, during * along) @ towards
            found[1, :, place] = found[1, place]
        total, both = during.sum(), odds * np.sum(during * known.covariance)
        found[1, _A, _A] = np.sum(during * (a * _log_odds(b) + known.bend + known.growth_variance))
        found[1, _A, _B] = found[1, _B, _A] = total * a / (1.0 + b) - both
        squared = odds**2 * known.variance - (a + known.mean) * odds / (1.0 + b)
        found[1, _B, _B] = np.sum(during * squared)
        return found

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        found = x_log(self.day_concentration - 1.0, values["day_share"]).sum(0)
        for name, (shape, rate) in self._gammas():
            found = found + x_log(shape - 1.0, values[name]) - rate * values[name]
        return found

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        excess, share = self.day_concentration - 1.0, values["day_share"][:-1]
        found = np.zeros((2, _SIZE, share.shape[-1]))  # all in the first state: coordinates are shared
        found[0, _SHARES] = excess * (1.0 - DAYS * share)
        for place, (name, (shape, rate)) in zip((_A, _B, _RATE), self._gammas(), strict=True):
            found[0, place] = shape - 1.0 - rate * values[name]
        return found

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        share, found = values["day_share"][:-1], np.zeros((2, _SIZE, _SIZE))
        bent = np.diag(share) - np.outer(share, share)
        found[0, _SHARES, _SHARES] = -DAYS * (self.day_concentration - 1.0) * bent
        for place, (name, (_, rate)) in zip((_A, _B, _RATE), self._gammas(), strict=True):
            found[0, place, place] = -rate * values[name]
        return found

    def _gammas(self) -> list[tuple[str, Any]]:
        return [("a", self.a_prior), ("b", self.b_prior), ("rate", self.rate_prior)]


def _read(rows: Observations) -> tuple[np.ndarray, np.ndarray]:
    """(R,) days and counts."""
    return rows.covariates[:, 0].astype(np.int64), rows.x[:, 0].astype(np.int64)


def _with_folds(values: Values) -> Values:
    """One fold, with an axis for it."""
    return Values.at(values.thetas[None], {name: array[..., None] for name, array in values.items()})


def _rates(values: Values) -> np.ndarray:
    """(7, ...) lambda_d."""
    return values["rate"] * DAYS * values["day_share"]


def _slopes_of_days(share: np.ndarray) -> np.ndarray:
    """(7, 6) derivatives of log shares (7,) by their log-ratios."""
    return np.eye(DAYS)[:, :-1] - share[:-1]


def _log_odds(b: np.ndarray) -> np.ndarray:
    return np.log(b) - np.log1p(b)


def _by_day(day: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """(7, ...) sums of terms (R, ...) over the rows of each day."""
    found = (day == np.arange(DAYS)[:, None]).astype(float) @ terms.reshape(len(day), -1)
    return found.reshape(DAYS, *terms.shape[1:])


def _background(values: Values, largest: int) -> np.ndarray:
    """(7, L + 1, F) log probabilities of counts without an excess."""
    rate, counts = _rates(values)[:, None], np.arange(largest + 1.0)[:, None]
    return x_log(counts, rate) - rate - gammaln(counts + 1.0)


def _excess(values: Values, rows: Observations, background: np.ndarray, second: bool) -> _Excess:
    """Moments of the excess; `background` are logarithms (7, L + 1, F)."""
    day, counts = _read(rows)
    a, b = values["a"], values["b"]
    below = np.arange(background.shape[1] - 1.0)[:, None]
    first = np.zeros((1, len(a)))
    grown = np.concatenate([first, np.cumsum(a / (a + below), 0)])
    steps = np.log(a + below) - np.log(below + 1.0) - np.log1p(b)
    excess = a * _log_odds(b) + np.concatenate([first, np.cumsum(steps, 0)])
    e = np.broadcast_to(np.arange(len(excess))[:, None], excess.shape)
    features = [np.ones_like(excess), e, grown]
    if second:
        bend = np.concatenate([first, np.cumsum(a * below / (a + below) ** 2, 0)])
        features += [bend, e * e, e * grown, grown * grown]
    sums, logs = _summed(background, excess, np.stack(features).astype(float), day, counts)
    mean, growth, *more = np.moveaxis(sums, 1, 0)[1:]
    if not second:
        return _Excess(logs, mean, growth)
    bend, of_e, of_both, of_growth = more
    covariance, variance = of_both - mean * growth, of_e - mean**2
    return _Excess(logs, mean, growth, bend, variance, covariance, of_growth - growth**2)


def _summed(
    background: np.ndarray, excess: np.ndarray, features: np.ndarray, day: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Conditional means (R, M, F) of features (M, L + 1, F), and log densities (R, F)."""
    peaks, peak = background.max(1, keepdims=True), excess.max(0)
    out = np.zeros((len(day), len(features), excess.shape[-1]))
    _moments(np.exp(background - peaks), np.exp(excess - peak), features, day, counts, out)
    total = out[:, 0].copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(total) + peaks[day, 0] + peak
        out /= total[:, None]
    for row in np.flatnonzero((total < _TINY).any(1)):
        last = counts[row]
        joint = background[day[row], last::-1][: last + 1] + excess[: last + 1]
        largest = joint.max(0)
        shares = np.exp(joint - largest)
        out[row] = np.einsum("ef,mef->mf", shares, features[:, : last + 1]) / shares.sum(0)
        logs[row] = np.log(shares.sum(0)) + largest
    return out, logs
