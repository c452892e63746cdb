"""Counts given a continuous signal: Poisson by its logarithm, binomial by its log-odds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import require_counts_of

_FAR = 700.0  # of an exponential


class Slopes(NamedTuple):
    """log p(y | eta) and its derivatives by eta, the second one with its sign changed."""

    value: np.ndarray
    first: np.ndarray
    information: np.ndarray
    third: np.ndarray


@dataclass(frozen=True)
class CountDensity(ABC):
    """p(y | eta) of counts y, log-concave in eta; `size`: exposures, or numbers of trials."""

    name: ClassVar[str]
    scale: ClassVar[str]  # what eta is of a channel, in words

    @abstractmethod
    def constant(self, y: np.ndarray, size: np.ndarray) -> np.ndarray:
        """What log p has that does not depend on eta."""

    @abstractmethod
    def slopes(self, y: np.ndarray, size: np.ndarray, eta: np.ndarray) -> Slopes:
        """Without the constant."""

    @abstractmethod
    def nearest(self, y: np.ndarray, size: np.ndarray) -> np.ndarray:
        """About the eta at which y is most probable, finite."""

    @abstractmethod
    def drawn(self, eta: np.ndarray, size: np.ndarray, rng: np.random.Generator) -> np.ndarray: ...

    @abstractmethod
    def most(self, size: np.ndarray) -> np.ndarray:
        """The largest count."""

    @abstractmethod
    def check_sizes(self, size: np.ndarray, name: str | None) -> None:
        """Raise where sizes, the covariate of this name, are none."""

    def bounds(self, y: np.ndarray, size: np.ndarray) -> str:
        """What all counts are, in words, where all are the smallest or all the largest possible ones:
        the likelihood then grows with eta without end. Empty: there are others."""
        if not y.any():
            return "only zeros"
        return "as many as trials everywhere" if np.array_equal(y, self.most(size)) else ""

    def check(self, data: Sequences, size: np.ndarray, name: str | None) -> None:
        """Raise where data (N, T, 1) are no counts of this kind, of sizes (N, T, 1), a covariate."""
        require_counts_of(data, f"a {self.name} model")
        self.check_sizes(size, name)
        most = np.broadcast_to(self.most(size), data.values.shape)
        over = data.observed & (data.values > most)
        if over.any():
            raise ValueError(
                "a binomial count cannot exceed its trials, got "
                f"{data.values[over][0]:g} of {most[over][0]:g}"
            )


@dataclass(frozen=True)
class PoissonCounts(CountDensity):
    """Of mean size * exp(eta)."""

    name: ClassVar[str] = "Poisson"
    scale: ClassVar[str] = "log rate"

    def constant(self, y: np.ndarray, size: np.ndarray) -> np.ndarray:
        return special.xlogy(y, size) - special.gammaln(y + 1.0)

    def slopes(self, y: np.ndarray, size: np.ndarray, eta: np.ndarray) -> Slopes:
        mean = size * np.exp(np.minimum(eta, _FAR))
        return Slopes(y * eta - mean, y - mean, mean, -mean)

    def nearest(self, y: np.ndarray, size: np.ndarray) -> np.ndarray:
        return np.log((y + 0.5) / size)

    def drawn(self, eta: np.ndarray, size: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        mean = size * np.exp(np.minimum(eta, _FAR))
        return rng.poisson(np.minimum(mean, 1e18)).astype(float)

    def most(self, size: np.ndarray) -> np.ndarray:
        return np.full_like(size, np.inf, float)

    def check_sizes(self, size: np.ndarray, name: str | None) -> None:
        if not (size > 0).all():
            raise ValueError(f"the exposure '{name}' must be positive, got {size.min():g}")


@dataclass(frozen=True)
class BinomialCounts(CountDensity):
    """Of size trials, each with the log-odds eta."""

    name: ClassVar[str] = "binomial"
    scale: ClassVar[str] = "log-odds"

    def constant(self, y: np.ndarray, size: np.ndarray) -> np.ndarray:
        return special.gammaln(size + 1.0) - special.gammaln(y + 1.0) - special.gammaln(size - y + 1.0)

    def slopes(self, y: np.ndarray, size: np.ndarray, eta: np.ndarray) -> Slopes:
        share, rest = special.expit(eta), special.expit(-eta)
        information = size * share * rest
        value = y * eta - size * np.logaddexp(0.0, eta)
        return Slopes(value, y * rest - (size - y) * share, information, information * (share - rest))

    def nearest(self, y: np.ndarray, size: np.ndarray) -> np.ndarray:
        return np.log((y + 0.5) / (size - y + 0.5))

    def drawn(self, eta: np.ndarray, size: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        trials = np.broadcast_to(size, eta.shape).astype(np.int64)
        return rng.binomial(trials, special.expit(eta)).astype(float)

    def most(self, size: np.ndarray) -> np.ndarray:
        return size

    def check_sizes(self, size: np.ndarray, name: str | None) -> None:
        bad = size[(size < 1) | (size != np.floor(size))]
        if bad.size:
            raise ValueError(f"the trials '{name}' must be integers of at least 1, got {bad[0]:g}")


DENSITIES: dict[str, CountDensity] = {"poisson": PoissonCounts(), "binomial": BinomialCounts()}
