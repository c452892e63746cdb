"""Terms of the log-potentials of a hidden chain, and their derivatives, in NumPy.

Log-potentials of first states (S, K) and of distinct transitions (M, K, K) are sums of terms, each a
function of some free coordinates. Folds, or directions, are the last axis. An axis S or M of length one
is for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.models.hidden.links import Links
from fitonce.models.hidden.stationary import fundamental, stationary

Pair = tuple[Any, Any]  # of first states and of transitions; None: the term adds nothing there
Named = dict[str, np.ndarray]


class ChainTerm(ABC):
    """One term; P free coordinates at `places` of theta."""

    places: np.ndarray

    @abstractmethod
    def logs(self, values: Named) -> Pair:
        """Of values with folds last."""

    @abstractmethod
    def along(self, values: Named, directions: np.ndarray) -> Pair:
        """Derivatives along directions (P, m), of one fold without an axis for it."""

    @abstractmethod
    def slopes(self, values: Named, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """(P, F): derivatives of the sum of counts (S, K, F) and (M, K, K, F) times the term."""

    @abstractmethod
    def curvature(self, values: Named, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """(P, P) second derivatives of that sum, of one fold without an axis for it."""

    @abstractmethod
    def each(self, values: Named, firsts: np.ndarray, pairs: np.ndarray, where: Any) -> Pair:
        """Slopes by each first state (N, P) and each transition (T, P), for counts (N, K) and (T, K, K);
        `where`: the distinct ones (T,) of transitions, and the kinds of beginnings (N,)."""


@dataclass(frozen=True, eq=False)
class SoftmaxTerm(ChainTerm):
    """Logarithms of rows of probabilities: those of `base`, and their odds times exp(covariates times
    coefficients).

    Args:
        places: (P,) in theta.
        entries: rows, columns and columns of the design (3, P) of the coordinates.
        base: the name of the probabilities where all covariates are zero.
        coefficients: the name of those of the covariates, or None.
        design: (M, 1 + Q) ones and covariates.
        initial: whether these are first states.
    """

    places: np.ndarray
    entries: np.ndarray
    base: str
    coefficients: str | None
    design: np.ndarray
    initial: bool = False

    def probabilities(self, values: Named) -> np.ndarray:
        """(M, I, K, ...) with one row I for first states."""
        base = values[self.base]
        base = base[None] if self.initial else base
        if self.coefficients is None:
            return base[None]
        added = np.tensordot(self.design[:, 1:], values[self.coefficients], (1, 2))
        peak = np.where(base > 0, added, -np.inf).max(2, keepdims=True)
        odds = base * np.exp(np.where(base > 0, added - peak, 0.0))
        return odds / odds.sum(2, keepdims=True)

    def _placed(self, found: np.ndarray) -> Pair:
        return (found[:, 0], None) if self.initial else (None, found)

    def _counts(self, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        counts = firsts[:, None] if self.initial else pairs
        return counts if len(self.design) > 1 else counts.sum(0, keepdims=True)

    def logs(self, values: Named) -> Pair:
        with np.errstate(divide="ignore"):
            return self._placed(np.log(self.probabilities(values)))

    def along(self, values: Named, directions: np.ndarray) -> Pair:
        p = self.probabilities(values)
        row, column, factor = self.entries
        moved = np.zeros((self.design.shape[1], *p.shape[1:], directions.shape[1]))
        moved[factor, row, column] = directions
        found = np.tensordot(self.design, moved, (1, 0))
        found -= np.einsum("mik,mikd->mid", p, found)[:, :, None]
        return self._placed(np.where(p[..., None] > 0, found, 0.0))

    def slopes(self, values: Named, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        counts, p = self._counts(firsts, pairs), self.probabilities(values)
        p = p if p.ndim == counts.ndim else p[..., None]
        excess = counts - counts.sum(2, keepdims=True) * p
        row, column, factor = self.entries
        return np.tensordot(self.design, excess, (0, 0))[factor, row, column]

    def curvature(self, values: Named, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        p, total = self.probabilities(values), self._counts(firsts, pairs).sum(2)
        row, column, factor = self.entries
        found = np.zeros((len(self.places), len(self.places)))
        for one in np.unique(row):
            here = np.flatnonzero(row == one)
            scale, design = total[:, one, None], self.design[:, factor[here]]
            share = p[:, one, column[here]] * design
            same = column[here, None] == column[here]
            found[np.ix_(here, here)] = share.T @ (scale * share) - same * ((scale * share).T @ design)
        return found

    def each(self, values: Named, firsts: np.ndarray, pairs: np.ndarray, where: Any) -> Pair:
        counts = firsts[:, None] if self.initial else pairs
        index = np.zeros(len(counts), int) if len(self.design) == 1 else where[0]
        excess = counts - counts.sum(2, keepdims=True) * self.probabilities(values)[index]
        row, column, factor = self.entries
        found = excess[:, row, column] * self.design[index][:, factor]
        return (found, None) if self.initial else (None, found)


@dataclass(frozen=True, eq=False)
class EndTerm(ChainTerm):
    """log p(end | z) of the last state of each sequence, log(1 - p(end | z)) of all before it; without
    places, the probabilities are known."""

    places: np.ndarray
    links: Links

    def logs(self, values: Named) -> Pair:
        end = values["end"]
        ends, alone = self._last(end.ndim + 1), np.array([0.0, 1.0])
        first = alone.reshape(2, *(1,) * end.ndim) * np.log(end)
        return first, np.log1p(-end)[None, :, None] + ends * np.log(end)[None, None]

    def _last(self, more: int) -> np.ndarray:
        return np.asarray(self.links.ends).reshape(-1, *(1,) * more)

    def along(self, values: Named, directions: np.ndarray) -> Pair:
        end = values["end"][:, None]
        if not len(self.places):
            directions = np.zeros((len(end), directions.shape[1]))
        ended, left = (1.0 - end) * directions, -end * directions
        first = np.stack([np.zeros_like(ended), ended])
        return first, left[None, :, None] + self._last(3) * ended[None, None]

    def _totals(self, firsts: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(K, ...) how often each state was the last, and was left."""
        ended = np.tensordot(np.asarray(self.links.ends), pairs.sum(1), (0, 0))
        return firsts[1] + ended, pairs.sum((0, 2))

    def slopes(self, values: Named, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        ended, left = self._totals(firsts, pairs)
        end = values["end"] if values["end"].ndim == ended.ndim else values["end"][:, None]
        return ((1.0 - end) * ended - end * left)[: len(self.places)]

    def curvature(self, values: Named, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        ended, left = self._totals(firsts, pairs)
        found = values["end"] * (1.0 - values["end"]) * (ended + left)
        return -np.diag(found[: len(self.places)])

    def each(self, values: Named, firsts: np.ndarray, pairs: np.ndarray, where: Any) -> Pair:
        end, (index, kind), count = values["end"], where, len(self.places)
        last = np.asarray(self.links.ends)[index, None]
        moved = (1.0 - end) * last * pairs.sum(1) - end * pairs.sum(2)
        return (kind[:, None] * (1.0 - end) * firsts)[:, :count], moved[:, :count]


@dataclass(frozen=True, eq=False)
class StationaryTerm(ChainTerm):
    """Logarithms of the stationary distribution of the transition probabilities, as first states; of
    each kind of beginning, where transitions depend on covariates.

    Args:
        places: (P,) of the transitions in theta.
        moves: the transitions into first steps (S, K, K).
    """

    places: np.ndarray
    moves: SoftmaxTerm

    def logs(self, values: Named) -> Pair:
        p = np.moveaxis(self.moves.probabilities(values), 0, 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(np.moveaxis(stationary(p, np), 1, 0)), None

    def _moved(self, p: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """(..., P, K) derivatives of the row of transitions (..., K, K) that a coordinate moves."""
        row, column, _ = self.moves.entries
        alike = column[:, None] == np.arange(p.shape[-1])
        return factors[..., None] * p[..., row, :] * (alike - p[..., row, column][..., None])

    @property
    def _factors(self) -> np.ndarray:
        """(S, P) what logits of a row change by, per coordinate: one, or the covariate."""
        return self.moves.design[:, self.moves.entries[2]]

    def along(self, values: Named, directions: np.ndarray) -> Pair:
        return np.swapaxes(self._slopes(self.moves.probabilities(values)), 1, 2) @ directions, None

    def _slopes(self, p: np.ndarray) -> np.ndarray:
        """(..., S, P, K) derivatives of log shares, for transitions (..., S, K, K)."""
        share = np.moveaxis(stationary(np.moveaxis(p, (-2, -1), (0, 1)), np), 0, -1)
        by_coordinate = share[..., self.moves.entries[0], None] * self._moved(p, self._factors)
        return by_coordinate @ fundamental(p, share) / share[..., None, :]

    def slopes(self, values: Named, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        firsts = firsts if len(self.moves.design) > 1 else firsts.sum(0, keepdims=True)
        p = self.moves.probabilities(values)
        if p.ndim == 3:
            return np.einsum("spk,skf->pf", self._slopes(p), firsts)
        return np.einsum("fspk,skf->pf", self._slopes(np.moveaxis(p, -1, 0)), firsts)

    def curvature(self, values: Named, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        firsts = firsts if len(self.moves.design) > 1 else firsts.sum(0, keepdims=True)
        given = zip(self.moves.probabilities(values), self._factors, firsts, strict=True)
        return np.sum([self._second(*one) for one in given], 0)

    def _second(self, p: np.ndarray, factor: np.ndarray, counts: np.ndarray) -> np.ndarray:
        share, (row, column, _) = stationary(p, np), self.moves.entries
        inverse, moved = fundamental(p, share), self._moved(p, factor)
        ahead = inverse @ (counts / share)
        of_share = share[row, None] * moved @ inverse  # (P, K)
        crossed = of_share[:, row] * (moved @ ahead)
        # Second derivatives of a row of transitions, times what they lead to.
        alike, same = column[:, None] == column, row[:, None] == row
        mean = np.einsum("ik,k->i", p, ahead)[row]
        rate, far = p[row, column], ahead[column]
        twice = -rate[:, None] * rate * (far[:, None] + far - 2.0 * mean[:, None])
        twice += alike * (rate * (far - mean))[:, None]
        twice *= factor[:, None] * factor
        found = crossed + crossed.T + same * share[row, None] * twice
        return found - (of_share * (counts / share**2)) @ of_share.T

    def each(self, values: Named, firsts: np.ndarray, pairs: np.ndarray, where: Any) -> Pair:
        slopes = self._slopes(self.moves.probabilities(values))
        kind = where[1] if len(slopes) > 1 else np.zeros(len(firsts), int)
        return np.einsum("npk,nk->np", slopes[kind], firsts), None
