"""Densities of one number, with first and second derivatives by their free coordinates.

Coordinates are real numbers: logarithms of positive parameters, log-odds of proportions. They, and x,
broadcast against each other. The part without coordinates is left to `Emission.constant`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from fitonce.core.deferred import jax, jnp
from fitonce.core.predictive import Tails
from fitonce.models.emissions.closed_forms import LOG_2PI
from fitonce.models.emissions.tails import binomial_tails, normal_tails, poisson_tails

Arrays = tuple[np.ndarray, ...]


class Maths(NamedTuple):
    """Functions of arrays, by NumPy and SciPy or by JAX."""

    np: Any
    special: Any


def numpy_maths() -> Maths:
    """For closed forms."""
    return Maths(np, special)


def jax_maths() -> Maths:
    """For programs of JAX."""
    return Maths(jnp, jax.scipy.special)


class Density(ABC):
    """log p(x; a, b, ...) of up to three coordinates."""

    @abstractmethod
    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        """At coordinates `at`, a tuple of arrays."""

    @abstractmethod
    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        """Random numbers at coordinates of one shape."""

    def moments(self, at: Arrays) -> tuple[np.ndarray, np.ndarray] | None:
        """Mean and variance, where there are closed forms of both."""
        return None

    def tails(self, x: Any, at: Arrays) -> Tails:
        """How far out x lies; not of angles."""
        raise NotImplementedError

    @abstractmethod
    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        """By each coordinate."""

    @abstractmethod
    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        """By pairs of coordinates i <= j; those that are left out are zero."""


class PoissonDensity(Density):
    """By the log mean."""

    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        return x * at[0] - maths.np.exp(at[0])

    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        return rng.poisson(np.exp(at[0]))

    def moments(self, at: Arrays) -> tuple[np.ndarray, np.ndarray]:
        return np.exp(at[0]), np.exp(at[0])

    def tails(self, x: Any, at: Arrays) -> Tails:
        return poisson_tails(x, np.exp(at[0]))

    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        return (x - np.exp(at[0]),)

    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        return {(0, 0): -np.exp(at[0])}


class BinomialDensity(Density):
    """By the log-odds; x is a pair of arrays, successes and trials."""

    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        lgamma, (wins, trials) = maths.special.gammaln, x
        losses = maths.np.maximum(trials - wins, 0.0)  # not where something fills in for a missing x
        ways = lgamma(trials + 1.0) - lgamma(wins + 1.0) - lgamma(losses + 1.0)
        return ways + wins * at[0] - trials * maths.np.logaddexp(0.0, at[0])

    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        return (rng.random(at[0].shape) < special.expit(at[0])).astype(float)

    def tails(self, x: Any, at: Arrays) -> Tails:
        successes, trials = x
        return binomial_tails(successes, trials, special.expit(at[0]))

    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        return (x[0] - x[1] * special.expit(at[0]),)

    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        rate = special.expit(at[0])
        return {(0, 0): -x[1] * rate * (1.0 - rate)}


class NormalDensity(Density):
    """By the mean and the log variance."""

    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        return -0.5 * ((x - at[0]) ** 2 * maths.np.exp(-at[1]) + at[1] + LOG_2PI)

    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(at[0], np.exp(0.5 * at[1]))

    def moments(self, at: Arrays) -> tuple[np.ndarray, np.ndarray]:
        return at[0], np.exp(at[1])

    def tails(self, x: Any, at: Arrays) -> Tails:
        return normal_tails(x, at[0], np.exp(at[1]))

    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        scaled = (x - at[0]) * np.exp(-at[1])
        return scaled, 0.5 * ((x - at[0]) * scaled - 1.0)

    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        precision = np.exp(-at[1])
        scaled = (x - at[0]) * precision
        return {
            (0, 0): -precision,
            (0, 1): -scaled,
            (1, 1): -0.5 * (x - at[0]) * scaled,
        }


class NegativeBinomialDensity(Density):
    """By the log mean and the log size; the variance is mean + mean^2 / size."""

    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        lgamma, size = maths.special.gammaln, maths.np.exp(at[1])
        odds = at[0] - at[1]
        ratio = lgamma(x + size) - lgamma(size)
        return ratio + x * odds - (x + size) * maths.np.logaddexp(0.0, odds)

    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        return rng.poisson(np.exp(at[0] - at[1]) * rng.gamma(np.exp(at[1])))

    def moments(self, at: Arrays) -> tuple[np.ndarray, np.ndarray]:
        mean = np.exp(at[0])
        return mean, mean + mean**2 * np.exp(-at[1])

    def tails(self, x: Any, at: Arrays) -> Tails:
        size, share = np.exp(at[1]), special.expit(at[0] - at[1])  # share = mean / (mean + size)
        half = 0.5 * np.exp(self.log(x, at, numpy_maths()) - special.gammaln(x + 1.0))
        fewer = special.betainc(size, np.maximum(x, 1.0), 1.0 - share)
        more = special.betainc(x + 1.0, size, share)
        return Tails(np.exp(at[0]) + 0.0 * half, np.where(x > 0, fewer, 0.0) + half, more + half)

    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        size, share = np.exp(at[1]), special.expit(at[0] - at[1])
        by_size = special.digamma(x + size) - special.digamma(size) - np.logaddexp(0.0, at[0] - at[1])
        # (x + size) / (size + mean) = (x + size) (1 - share) / size
        return x - (x + size) * share, size * (by_size + share) - x * (1.0 - share)

    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        size, share = np.exp(at[1]), special.expit(at[0] - at[1])
        rest = 1.0 - share
        trigamma = special.polygamma(1, x + size) - special.polygamma(1, size)
        first = self.slopes(x, at)[1]
        twice = size**2 * trigamma + size * (1.0 - 2.0 * rest) + (x + size) * rest**2
        return {
            (0, 0): -(x + size) * share * rest,
            (0, 1): share * ((x + size) * rest - size),
            (1, 1): first + twice,
        }


class ZeroInflatedDensity(Density):
    """Poisson counts, and zeros besides: by the log rate and the log-odds of such a zero."""

    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        m, rate = maths.np, maths.np.exp(at[0])
        zero = m.where(x == 0, m.logaddexp(0.0, at[1] + rate), 0.0)
        return x * at[0] - rate - m.logaddexp(0.0, at[1]) + zero

    def _zeros(self, x: np.ndarray, at: Arrays) -> np.ndarray:
        """The probability that an x is such a zero."""
        return np.where(x == 0, special.expit(at[1] + np.exp(at[0])), 0.0)

    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        return rng.poisson(np.exp(at[0])) * (rng.random(at[0].shape) >= special.expit(at[1]))

    def moments(self, at: Arrays) -> tuple[np.ndarray, np.ndarray]:
        rate, zero = np.exp(at[0]), special.expit(at[1])
        return rate * (1.0 - zero), rate * (1.0 - zero) * (1.0 + rate * zero)

    def tails(self, x: Any, at: Arrays) -> Tails:
        zero, counted = special.expit(at[1]), poisson_tails(x, np.exp(at[0]))
        below = (1.0 - zero) * counted.below + np.where(x > 0, zero, 0.5 * zero)
        above = (1.0 - zero) * counted.above + np.where(x > 0, 0.0, 0.5 * zero)
        return Tails((1.0 - zero) * counted.expected, below, above)

    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        rate, zero = np.exp(at[0]), self._zeros(x, at)
        return x - rate * (1.0 - zero), zero - special.expit(at[1])

    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        rate, zero, share = np.exp(at[0]), self._zeros(x, at), special.expit(at[1])
        spread = zero * (1.0 - zero)
        return {
            (0, 0): -rate * (1.0 - zero) + rate**2 * spread,
            (0, 1): rate * spread,
            (1, 1): spread - share * (1.0 - share),
        }


class ExponentialDensity(Density):
    """By the log mean."""

    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        return -at[0] - x * maths.np.exp(-at[0])

    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        return rng.exponential(np.exp(at[0]))

    def moments(self, at: Arrays) -> tuple[np.ndarray, np.ndarray]:
        return np.exp(at[0]), np.exp(2.0 * at[0])

    def tails(self, x: Any, at: Arrays) -> Tails:
        relative = x * np.exp(-at[0])
        mean = np.broadcast_to(np.exp(at[0]), relative.shape)
        return Tails(mean, -np.expm1(-relative), np.exp(-relative))

    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        return (x * np.exp(-at[0]) - 1.0,)

    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        return {(0, 0): -x * np.exp(-at[0])}


class GammaDensity(Density):
    """By the log mean and the log shape, without -log x."""

    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        m, shape = maths.np, maths.np.exp(at[1])
        relative = m.log(x) - at[0]
        return shape * (at[1] + relative - m.exp(relative)) - maths.special.gammaln(shape)

    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        return rng.gamma(np.exp(at[1]), np.exp(at[0] - at[1]))

    def moments(self, at: Arrays) -> tuple[np.ndarray, np.ndarray]:
        return np.exp(at[0]), np.exp(2.0 * at[0] - at[1])

    def tails(self, x: Any, at: Arrays) -> Tails:
        shape, relative = np.exp(at[1]), np.exp(at[1] - at[0]) * x
        below, above = special.gammainc(shape, relative), special.gammaincc(shape, relative)
        return Tails(np.broadcast_to(np.exp(at[0]), below.shape), below, above)

    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        shape, relative = np.exp(at[1]), np.log(x) - at[0]
        ratio = np.exp(relative)
        by_shape = at[1] + 1.0 + relative - ratio - special.digamma(shape)
        return shape * (ratio - 1.0), shape * by_shape

    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        shape, ratio = np.exp(at[1]), np.exp(np.log(x) - at[0])
        by_mean, by_shape = self.slopes(x, at)
        return {
            (0, 0): -shape * ratio,
            (0, 1): by_mean,
            (1, 1): by_shape + shape - shape**2 * special.polygamma(1, shape),
        }


@dataclass(frozen=True)
class ZeroMassDensity(Density):
    """Zeros with a probability of their own, else positive numbers: by the coordinates of the density
    `positive` of these, then the log-odds of a zero. A zero says nothing about the former."""

    positive: Density

    def _parts(self, x: Any, at: Any, maths: Maths) -> tuple[Any, Any, Any, Any]:
        """Which x are zeros, x with any positive number in their place, the coordinates of positive
        numbers, and the log-odds."""
        *own, odds = at
        zero = x == 0
        return zero, maths.np.where(zero, 1.0, x), tuple(own), odds

    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        zero, positive, own, odds = self._parts(x, at, maths)
        m = maths.np
        of_positive = self.positive.log(positive, own, maths) - m.logaddexp(0.0, odds)
        return m.where(zero, -m.logaddexp(0.0, -odds), of_positive)

    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        *own, odds = at
        return np.where(
            rng.random(odds.shape) < special.expit(odds), 0.0, self.positive.draw(tuple(own), rng)
        )

    def moments(self, at: Arrays) -> tuple[np.ndarray, np.ndarray] | None:
        *own, odds = at
        found, zero, rest = self.positive.moments(tuple(own)), special.expit(odds), special.expit(-odds)
        if found is None:
            return None
        mean, variance = found
        return rest * mean, rest * (variance + zero * mean**2)

    def tails(self, x: Any, at: Arrays) -> Tails:
        is_zero, positive, own, odds = self._parts(x, at, numpy_maths())
        zero, rest = special.expit(odds), special.expit(-odds)
        found = self.positive.tails(positive, own)
        below = np.where(is_zero, 0.5 * zero, zero + rest * found.below)
        above = np.where(is_zero, rest + 0.5 * zero, rest * found.above)
        return Tails(rest * found.expected, below, above)

    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        zero, positive, own, odds = self._parts(x, at, numpy_maths())
        of_positive = (np.where(zero, 0.0, part) for part in self.positive.slopes(positive, own))
        return *of_positive, zero - special.expit(odds)

    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        zero, positive, own, odds = self._parts(x, at, numpy_maths())
        found = self.positive.second(positive, own)
        of_positive = {pair: np.where(zero, 0.0, part) for pair, part in found.items()}
        return {**of_positive, (len(own), len(own)): -special.expit(odds) * special.expit(-odds)}


class BetaDensity(Density):
    """By the log-odds of the mean and the log precision, without -log x - log(1 - x)."""

    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        m, lgamma = maths.np, maths.special.gammaln
        mean, precision = maths.special.expit(at[0]), m.exp(at[1])
        a, b = mean * precision, maths.special.expit(-at[0]) * precision
        return lgamma(precision) - lgamma(a) - lgamma(b) + a * m.log(x) + b * m.log1p(-x)

    def _parts(self, x: np.ndarray, at: Arrays) -> Arrays:
        mean, rest, precision = special.expit(at[0]), special.expit(-at[0]), np.exp(at[1])
        above = np.log(x) - special.digamma(mean * precision)
        below = np.log1p(-x) - special.digamma(rest * precision)
        return mean, rest, precision, above, below

    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        precision = np.exp(at[1])
        return rng.beta(special.expit(at[0]) * precision, special.expit(-at[0]) * precision)

    def moments(self, at: Arrays) -> tuple[np.ndarray, np.ndarray]:
        mean = special.expit(at[0])
        return mean, mean * special.expit(-at[0]) / (1.0 + np.exp(at[1]))

    def tails(self, x: Any, at: Arrays) -> Tails:
        mean, rest, precision = special.expit(at[0]), special.expit(-at[0]), np.exp(at[1])
        a, b = mean * precision, rest * precision
        below, above = special.betainc(a, b, x), special.betainc(b, a, 1.0 - x)
        return Tails(np.broadcast_to(mean, below.shape), below, above)

    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        mean, rest, precision, above, below = self._parts(x, at)
        by_precision = special.digamma(precision) + mean * above + rest * below
        return mean * rest * precision * (above - below), precision * by_precision

    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        mean, rest, precision, *_ = self._parts(x, at)
        by_mean, by_precision = self.slopes(x, at)
        bend_a, bend_b = (special.polygamma(1, part * precision) for part in (mean, rest))
        steep = mean * rest * precision
        of_both = special.polygamma(1, precision) - mean**2 * bend_a - rest**2 * bend_b
        return {
            (0, 0): by_mean * (rest - mean) - steep**2 * (bend_a + bend_b),
            (0, 1): by_mean + steep * precision * (rest * bend_b - mean * bend_a),
            (1, 1): by_precision + precision**2 * of_both,
        }


class VonMisesDensity(Density):
    """Angles: by the mean direction and the log concentration."""

    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        m, concentration = maths.np, maths.np.exp(at[1])
        turned = concentration * (m.cos(x - at[0]) - 1.0)
        return turned - m.log(maths.special.i0e(concentration)) - LOG_2PI

    @staticmethod
    def _length(concentration: np.ndarray) -> np.ndarray:
        """Of the mean of unit vectors."""
        return special.i1e(concentration) / special.i0e(concentration)

    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        return rng.vonmises(at[0], np.exp(at[1]))

    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        concentration = np.exp(at[1])
        length = self._length(concentration)
        return concentration * np.sin(x - at[0]), concentration * (np.cos(x - at[0]) - length)

    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        concentration = np.exp(at[1])
        length = self._length(concentration)
        bend = concentration * length + concentration**2 * (length**2 - 1.0)
        along, across = self.slopes(x, at)
        return {(0, 0): -concentration * np.cos(x - at[0]), (0, 1): along, (1, 1): across + bend}


class StudentTDensity(Density):
    """By the location, the log scale and the log degrees of freedom."""

    def log(self, x: Any, at: Any, maths: Maths) -> Any:
        m, lgamma, df = maths.np, maths.special.gammaln, maths.np.exp(at[2])
        square = (x - at[0]) ** 2 * m.exp(-2.0 * at[1])
        constant = lgamma(0.5 * (df + 1.0)) - lgamma(0.5 * df) - 0.5 * (at[2] + np.log(np.pi))
        return constant - at[1] - 0.5 * (df + 1.0) * m.log1p(square / df)

    @staticmethod
    def _parts(x: np.ndarray, at: Arrays) -> Arrays:
        """Standardised residuals, degrees of freedom, and weights of observations."""
        residual, df = (x - at[0]) * np.exp(-at[1]), np.exp(at[2])
        return residual, df, (df + 1.0) / (df + residual**2)

    def draw(self, at: Arrays, rng: np.random.Generator) -> np.ndarray:
        return at[0] + np.exp(at[1]) * rng.standard_t(np.exp(at[2]))

    def tails(self, x: Any, at: Arrays) -> Tails:
        z, df = (x - at[0]) * np.exp(-at[1]), np.exp(at[2])
        mean = np.where(df > 1.0, at[0], np.nan)
        below, above = special.stdtr(df, z), special.stdtr(df, -z)
        return Tails(np.broadcast_to(mean, below.shape), below, above)

    def slopes(self, x: np.ndarray, at: Arrays) -> Arrays:
        z, df, weight = self._parts(x, at)
        change = special.digamma(0.5 * (df + 1.0)) - special.digamma(0.5 * df)
        by_df = 0.5 * (df * (change - np.log1p(z**2 / df)) - 1.0 + weight * z**2)
        return weight * z * np.exp(-at[1]), weight * z**2 - 1.0, by_df

    def second(self, x: np.ndarray, at: Arrays) -> dict[tuple[int, int], np.ndarray]:
        z, df, weight = self._parts(x, at)
        inverse, total = np.exp(-at[1]), df + z**2
        bend = -2.0 * z * weight / total  # of the weight, by z
        slack = df * ((z**2 - 1.0) / total) / total  # of the weight, by the log of df
        change = special.digamma(0.5 * (df + 1.0)) - special.digamma(0.5 * df)
        curve = special.polygamma(1, 0.5 * (df + 1.0)) - special.polygamma(1, 0.5 * df)
        by_df = df * (change - np.log1p(z**2 / df)) + 0.5 * df**2 * curve + df * z**2 / total
        return {
            (0, 0): -(weight + z * bend) * inverse**2,
            (0, 1): -(2.0 * weight * z + z**2 * bend) * inverse,
            (0, 2): z * slack * inverse,
            (1, 1): -(z**2 * (z * bend) + 2.0 * weight * z**2),
            (1, 2): z**2 * slack,
            (2, 2): 0.5 * (by_df + z**2 * slack),
        }
