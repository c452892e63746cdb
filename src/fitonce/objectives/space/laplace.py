"""Counts by a Laplace approximation: Kalman filters on what stands in for them.

    log p(y; theta, w) = log of the integral of exp(sum_t w_t log p(y_t | eta_t)) p(eta; theta) over eta

eta_t = Z a_t + d + e_t is the signal. At the mode of the integrand each l = log p(y_t | eta_t) is
replaced by its parabola: an observation z_t = eta_t + l' / W of variance R_t = 1 / (w_t W), W = -l''.
The filter integrates these exactly. The mode is found by Newton's method: smoothed signals given z are
the next signals. A step of weight 0 is not there at all.

Derivatives are those of the approximation itself. The log-likelihood changes with the point at which the
parabolas touch by s_t = w_t l''' V_t / 2 (V: variances of signals given z), and this point moves with
theta as smoothed signals do at fixed z: s' d(mode) is the derivative of the Gaussian gradient along
z + s R, which a central difference has exactly, as gradients are quadratic in z.

Signals are not expected at the mode but, to first order in their skewness, where smoothed signals given
z + s R are. Left-out counts, states and forecasts are from there, with the variances of the parabolas.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from fitonce.models.space.counts import CountDensity, Slopes
from fitonce.objectives.space.layout import Layout, Paths
from fitonce.objectives.space.passes import LOG_2PI, Back, Pass, contracted
from fitonce.objectives.space.quadrature import log_expected

_MOST = 100  # Newton steps
_HALVINGS = 40
_CLOSE = 1e-10  # the last move of a signal
_NEARLY = 1e-6  # a move that rounding may keep from becoming smaller


class Signals(NamedTuple):
    """Signals given kept data, (T, F) each: means, variances, and (z - mean) / R, zero where nothing is
    kept."""

    mean: np.ndarray
    variance: np.ndarray
    pull: np.ndarray


class Touching(NamedTuple):
    """Parabolas that touch log densities at signals `at`, (T, F) each: observations z of variances R."""

    at: np.ndarray
    slopes: Slopes
    z: np.ndarray
    spread: np.ndarray


class StandIns:
    """Filters of at most LANES folds on Gaussian observations that stand in for counts."""

    def __init__(
        self, layout: Layout, thetas: np.ndarray, kept: np.ndarray, end: int | None = None
    ) -> None:
        """Of the steps that are `kept` (T, F); `end`: see `Pass`."""
        self._layout, self._thetas, self.kept, self._end = layout, thetas, kept, end
        self.system = layout.systems(thetas)
        self.every = np.arange(len(kept))

    def filtered(
        self, z: np.ndarray, spread: np.ndarray, coefficients: np.ndarray | None = None
    ) -> Pass:
        """On observations z (T, F) of variances `spread`; coefficients (N, F) of sequences, or ones."""
        layout, system = self._layout, self.system
        stand_in = system._replace(
            offset=system.offset + (layout.steps.y - z)[:, None],
            noise=system.noise + spread[:, None, None],
        )
        if coefficients is None:
            coefficients = np.ones((len(layout.steps.starts) - 1, len(self._thetas)))
        paths = Paths(self.kept.astype(float), np.ones(self.kept.shape), coefficients)
        return Pass(layout, self._thetas, paths, self._end, system=stand_in)

    def signals(self, back: Back, z: np.ndarray, spread: np.ndarray) -> Signals:
        """From a pass backward over all steps, which knows Z a_t; e_t has the variance `noise`."""
        folds, system = len(self._thetas), self.system
        expected = back.expected[:, 0, :folds] + system.offset[:, 0]
        variance, noise = back.spreads[:, 0, 0, :folds], system.noise[:, 0, 0]
        both = noise + spread
        pull = np.where(self.kept, (z - expected) / both, 0.0)
        inside = spread * (variance * spread + noise * both) / both**2
        variance = np.where(self.kept, inside, variance + noise)
        return Signals(expected + noise * pull, variance, pull)


class LaplacePass:
    """The mode of at most LANES folds, and what follows from it."""

    def __init__(self, layout: Layout, thetas: np.ndarray, paths: Paths, end: int | None = None) -> None:
        assert layout.model.density is not None
        self._density: CountDensity = layout.model.density
        self.layout, self.thetas, self.folds = layout, thetas, len(thetas)
        self._paths = paths
        steps = layout.steps
        self._counts, self._sizes = steps.counts[:, None], steps.sizes[:, None]
        self._weights = np.where(steps.seen, paths.weights, 0.0)
        self.kept = self._weights > 0
        with np.errstate(all="ignore"):  # far from any optimum matrices may overflow
            self._stand_ins = StandIns(layout, thetas, self.kept, end)
            self._find_mode()

    # --- the mode --------------------------------------------------------------------------------------

    def _touching(self, at: np.ndarray) -> Touching:
        slopes = self._density.slopes(self._counts, self._sizes, at)
        information = np.maximum(slopes.information, np.finfo(float).tiny)
        spread = np.where(self.kept, 1.0 / (self._weights * information), 1.0)
        return Touching(at, slopes, np.where(self.kept, at + slopes.first / information, 0.0), spread)

    def _find_mode(self) -> None:
        touching = self._touching(np.broadcast_to(self.layout.steps.y, self.kept.shape))
        pull, last = None, np.full(self.folds, np.inf)
        for _ in range(_MOST):
            one = self._stand_ins.filtered(touching.z, touching.spread)
            back = one.back(self._stand_ins.every)
            found = self._stand_ins.signals(back, touching.z, touching.spread)
            move = np.where(self.kept, np.abs(found.mean - touching.at), 0.0).max(0, initial=0.0)
            lost = ~np.isfinite(one.values[:, : self.folds]).all(0) | ~np.isfinite(move)
            done = (move < _CLOSE) | ((move < _NEARLY) & (move > 0.5 * last))
            if (done | lost).all():
                break
            shares = self._shares(touching, pull, found)
            at = touching.at + shares * (found.mean - touching.at)
            pull = found.pull if pull is None else pull + shares * (found.pull - pull)
            # Folds that are done stay as they are, however long those beside them take.
            last, touching = move, self._touching(np.where(lost | done, touching.at, at))
        self.touching, self._one, self._back, self.signals = touching, one, back, found
        self._failed = lost | ~done

    def _shares(self, now: Touching, pull: np.ndarray | None, found: Signals) -> np.ndarray:
        """(T, F) how far each sequence goes: all the way, or as far as the integrand grows. The log
        prior is a parabola, whose slopes at both ends are pulls with their sign changed."""
        shares = np.ones(now.at.shape)
        if pull is None:  # the first signals are data, for which the prior has no value
            return shares
        starts, lengths = self.layout.steps.starts[:-1], np.diff(self.layout.steps.starts)
        move, before = found.mean - now.at, self._weights * now.slopes.value
        for _ in range(_HALVINGS):
            there = self._density.slopes(self._counts, self._sizes, now.at + shares * move).value
            less = pull + 0.5 * shares * (found.pull - pull)
            gain = np.where(self.kept, self._weights * there - before - shares * move * less, 0.0)
            scale = np.where(self.kept, np.abs(before), 0.0)
            total, size = (np.add.reduceat(part, starts) for part in (gain, scale))
            worse = total < -1e-12 * (1.0 + size)
            if not worse.any():
                break
            shares = np.where(np.repeat(worse, lengths, 0), 0.5 * shares, shares)
        return shares

    # --- log-likelihoods -------------------------------------------------------------------------------

    @cached_property
    def _exact(self) -> np.ndarray:
        """(T, F) w log p(y | eta) at the mode."""
        constant = self._density.constant(self._counts, self._sizes)
        return np.where(self.kept, self._weights * (self.touching.slopes.value + constant), 0.0)

    @cached_property
    def values(self) -> np.ndarray:
        """(N, F) of sequences, nan where there is none."""
        z, spread = self.touching.z, self.touching.spread
        normal = -0.5 * (LOG_2PI + np.log(spread) + (z - self.touching.at) ** 2 / spread)
        beside = np.where(self.kept, self._exact - normal, 0.0)
        found = np.add.reduceat(beside, self.layout.steps.starts[:-1])
        return np.where(self._failed, np.nan, self._one.values[:, : self.folds] + found)

    @property
    def of_sequences(self) -> np.ndarray:
        """(F, N) log-likelihoods, nan where there is none."""
        return self.values.T

    @property
    def log_likelihoods(self) -> np.ndarray:
        """(F,) sums over sequences, times their coefficients."""
        return (self._paths.coefficients * self.values).sum(0)

    # --- derivatives -----------------------------------------------------------------------------------

    @cached_property
    def _bends(self) -> np.ndarray:
        """(T, F) s."""
        third = self.touching.slopes.third
        return np.where(self.kept, 0.5 * self._weights * third * self.signals.variance, 0.0)

    def _shifted(self, sign: float, coefficients: np.ndarray | None = None) -> Pass:
        """The filter on z + s R, or on z - s R."""
        spread = self.touching.spread
        return self._stand_ins.filtered(
            self.touching.z + sign * self._bends * spread, spread, coefficients
        )

    def slopes(self) -> np.ndarray:
        """(F, D) derivatives of the log-likelihoods by theta."""
        whole, middle = self._paths.coefficients, self._back.bars
        if (whole == 1.0).all():
            above = self._above
        else:
            one = self._stand_ins.filtered(self.touching.z, self.touching.spread, whole)
            middle, above = one.back().bars, self._shifted(1.0, whole)
        over, under = above.back().bars, self._shifted(-1.0, whole).back().bars
        bars = {name: middle[name] + 0.5 * (over[name] - under[name]) for name in middle}
        found = contracted(self.layout, self.thetas, bars)
        return np.where(self._failed[:, None], np.nan, found)

    def by_units(self, increments: bool) -> np.ndarray:
        """(F, T) derivatives by weights."""
        value, first, information, _ = self.touching.slopes
        value = value + self._density.constant(self._counts, self._sizes)
        found = value - 0.5 * information * self.signals.variance + first * self._lean
        return np.where(self.layout.steps.seen, found, 0.0).T

    # --- what is expected of signals -------------------------------------------------------------------

    @cached_property
    def _above(self) -> Pass:
        return self._shifted(1.0)

    @cached_property
    def _lean(self) -> np.ndarray:
        """(T, F) by how much signals are expected above the mode: skewness, to first order. Smoothed
        signals given z + s R are there."""
        made, spread = self._stand_ins, self.touching.spread
        z = self.touching.z + self._bends * spread
        return made.signals(self._above.back(made.every), z, spread).mean - self.signals.mean

    def back(self, wanted: np.ndarray, *, whole: bool = False) -> Back:
        """The pass backward on observations given which states have the means that are expected."""
        return self._above.back(wanted, whole=whole)

    def heldout(self, wanted: np.ndarray) -> np.ndarray:
        """(m, F) log p(y_t | kept data) of left-out steps `wanted` (m,)."""
        found = self._expected(self.signals.mean + self._lean, self.signals.variance, wanted)
        return np.where(self.layout.steps.seen[wanted], found, 0.0)

    def left_out(self) -> np.ndarray:
        """(F, T) log p(y_t | all other steps), whose parabolas stay as they are."""
        spread, noise = self.touching.spread, self._stand_ins.system.noise[:, 0, 0]
        inside = self._back.spreads[:, 0, 0, : self.folds]
        mean, variance, pull = self.signals
        with np.errstate(all="ignore"):
            apart = (inside * spread + noise * (noise + spread)) / (noise + spread - inside)
            apart = np.where(apart > 0, apart, np.nan)
            lean = apart / variance * (self._lean - variance * self._bends)
            found = self._expected(mean - apart * pull + lean, apart, np.arange(len(mean)))
        return np.where(self.layout.steps.seen, found, 0.0).T

    def _expected(self, mean: np.ndarray, variance: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        counts, sizes = self._counts[wanted], self._sizes[wanted]
        found = log_expected(self._density, counts, sizes, mean[wanted], variance[wanted])
        return found + self._density.constant(counts, sizes)

    # --- importance sampling ---------------------------------------------------------------------------

    def excess(self, signals: np.ndarray) -> np.ndarray:
        """(N, count) logs of what is integrated, over what the parabolas make of it, at random signals
        (T, count) of the only fold; the integral is that of the parabolas times the mean of this."""
        z, spread = self.touching.z, self.touching.spread
        true = self._density.slopes(self._counts, self._sizes, signals).value
        true = true + self._density.constant(self._counts, self._sizes)
        normal = -0.5 * (LOG_2PI + np.log(spread) + (z - signals) ** 2 / spread)
        apart = np.where(self.kept, self._weights * true - normal, 0.0)
        return np.add.reduceat(apart, self.layout.steps.starts[:-1])

    @property
    def of_parabolas(self) -> np.ndarray:
        """(N,) log densities of the stand-ins of the only fold."""
        return self._one.values[:, 0]
