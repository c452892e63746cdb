"""The log-potentials of a hidden chain in NumPy: a sum of terms, with the derivatives of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.models.hidden.closed_terms import ChainTerm, Named


@dataclass(frozen=True, eq=False)
class DirichletPrior:
    """Of rows of probabilities: coordinates at `places` are log-odds of `entries`, `excess` are
    concentrations minus one, zero outside the support."""

    name: str
    places: np.ndarray
    entries: tuple[np.ndarray, ...]
    excess: np.ndarray

    def log(self, values: Named) -> np.ndarray:
        excess = self.excess[..., None]
        with np.errstate(divide="ignore"):  # a probability may vanish in rounding
            logs = np.log(np.where(excess != 0, values[self.name], 1.0))
        return np.sum(excess * logs, tuple(range(self.excess.ndim)))

    def slopes(self, values: Named) -> np.ndarray:
        excess = self.excess[..., None]
        return (excess - excess.sum(-2, keepdims=True) * values[self.name])[self.entries]

    def curvature(self, values: Named) -> np.ndarray:
        p, total = values[self.name][self.entries], self.excess.sum(-1)[self.entries[:-1]]
        row = self.entries[0] if len(self.entries) > 1 else np.zeros(len(p), int)
        same = row[:, None] == row
        return total[..., None] * (np.where(same, p[:, None] * p, 0.0) - np.diag(p))


@dataclass(frozen=True, eq=False)
class CoefficientPrior:
    """Of coefficients around zero; `precision` (P,)."""

    name: str
    places: np.ndarray
    entries: tuple[np.ndarray, ...]
    precision: np.ndarray

    def log(self, values: Named) -> np.ndarray:
        return -0.5 * np.tensordot(self.precision, values[self.name][self.entries] ** 2, (0, 0))

    def slopes(self, values: Named) -> np.ndarray:
        return -self.precision[:, None] * values[self.name][self.entries]

    def curvature(self, values: Named) -> np.ndarray:
        return -np.diag(self.precision)


@dataclass(frozen=True, eq=False)
class ProportionPrior:
    """Of proportions; coordinates are log-odds."""

    name: str
    places: np.ndarray
    a: float
    b: float

    def log(self, values: Named) -> np.ndarray:
        p = values[self.name]
        return np.sum((self.a - 1.0) * np.log(p) + (self.b - 1.0) * np.log1p(-p), 0)

    def slopes(self, values: Named) -> np.ndarray:
        return self.a - 1.0 - (self.a + self.b - 2.0) * values[self.name]

    def curvature(self, values: Named) -> np.ndarray:
        p = values[self.name]
        return -np.diag((self.a + self.b - 2.0) * p * (1.0 - p))


@dataclass(frozen=True, eq=False)
class ClosedChain:
    """By D coordinates of theta, of which terms and priors have some; `stretch` (D,): `core.units`."""

    terms: tuple[ChainTerm, ...]
    priors: tuple[Any, ...]
    stretch: np.ndarray

    def logs(self, values: Named) -> tuple[np.ndarray, np.ndarray]:
        """(S, K, F) and (M, K, K, F)."""
        return _sums(term.logs(values) for term in self.terms)

    def along(self, values: Named, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(S, K, m) and (M, K, K, m) derivatives along directions (m, D), of one fold."""
        parts = directions * self.stretch
        return _sums(term.along(values, parts[:, term.places].T) for term in self.terms)

    def slopes(
        self, values: Named, firsts: np.ndarray, pairs: np.ndarray, *, prior: bool = False
    ) -> np.ndarray:
        """(D, F): counts pulled back; with those of the prior, if asked for."""
        found = np.zeros((len(self.stretch), firsts.shape[-1]))
        for term in self.terms:
            found[term.places] += term.slopes(values, firsts, pairs)
        for one in self.priors if prior else ():
            found[one.places] += one.slopes(values)
        return self.stretch[:, None] * found

    def curvature(self, values: Named, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """(D, D) for counts (S, K) and (M, K, K), and of the prior."""
        found = np.zeros((len(self.stretch), len(self.stretch)))
        for term in self.terms:
            found[np.ix_(term.places, term.places)] += term.curvature(values, firsts, pairs)
        for one in self.priors:
            found[np.ix_(one.places, one.places)] += one.curvature(values)
        return self.stretch[:, None] * found * self.stretch

    def each(
        self, values: Named, firsts: np.ndarray, pairs: np.ndarray, where: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """(N, D) and (T, D), see `ChainTerm.each`."""
        found = tuple(np.zeros((len(counts), len(self.stretch))) for counts in (firsts, pairs))
        for term in self.terms:
            for total, part in zip(found, term.each(values, firsts, pairs, where), strict=True):
                if part is not None:
                    total[:, term.places] += part * self.stretch[term.places]
        return found  # type: ignore[return-value]

    def log_prior(self, values: Named) -> Any:
        """(F,)."""
        return sum((one.log(values) for one in self.priors), 0.0)


def _sums(parts: Any) -> tuple[np.ndarray, np.ndarray]:
    first, move = zip(*parts, strict=True)
    return tuple(sum(p for p in part if p is not None) for part in (first, move))
