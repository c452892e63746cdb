"""Closed forms of categories that are impossible in some states.

States then have different numbers of coordinates: all P of them, each of one state, are taken as shared,
and derivatives of a state by those of others are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fitonce.core.constraints import Simplex
from fitonce.models.emissions.closed_counts import ClosedCategorical, ClosedMultinomial
from fitonce.models.emissions.closed_forms import Observations, Values


@dataclass(frozen=True, eq=False)
class SupportedCategorical(ClosedCategorical):
    """`possible`: (K, C, M) bools."""

    possible: Any

    @property
    def shared(self) -> tuple[str, ...]:
        return ("probability",)

    @cached_property
    def _entries(self) -> tuple[np.ndarray, ...]:
        """(3, P) states, channels and categories of the coordinates."""
        found = Simplex(self.possible.shape, self.possible.tolist()).coordinates()
        return tuple(np.array(found, int).reshape(-1, 3).T)

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        with np.errstate(divide="ignore"):
            logs = np.log(values["probability"])  # (K, C, M, F)
        found = np.zeros((len(rows.x), len(logs), logs.shape[-1]))
        category = rows.x.astype(int)
        for channel in range(rows.x.shape[1]):
            chosen = np.moveaxis(logs[:, channel], 1, 0)[category[:, channel]]
            found += np.where(rows.seen[:, channel, None, None] > 0, chosen, 0.0)
        return found

    def _free(self, counted: np.ndarray, probability: np.ndarray) -> np.ndarray:
        excess = counted - counted.sum(2, keepdims=True) * probability
        entries = self._entries
        found = np.zeros((len(excess), len(entries[0]), *excess.shape[3:]))
        found[entries[0], np.arange(len(entries[0]))] = excess[entries]
        return found

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        probability, counts = values["probability"], self._counts(rows)
        excess = counts[:, None] - counts.sum(2)[:, None, :, None] * probability
        entries = self._entries
        found = np.zeros((len(rows.x), len(probability), len(entries[0])))
        found[:, entries[0], np.arange(len(entries[0]))] = excess[:, *entries]
        return found

    def _spread(self, totals: np.ndarray, probability: np.ndarray) -> np.ndarray:
        state, channel, _ = self._entries
        own = probability[self._entries]
        same = (state[:, None] == state) & (channel[:, None] == channel)
        block = np.diag(own) - np.where(same, own[:, None] * own, 0.0)
        block *= -totals[state, channel][:, None]
        return (state == np.arange(len(probability))[:, None])[:, :, None] * block

    def _excess(self, probability: np.ndarray) -> np.ndarray:
        possible = self.possible.reshape(*self.possible.shape, *(1,) * (probability.ndim - 3))
        return np.where(possible, super()._excess(probability), 0.0)


@dataclass(frozen=True, eq=False)
class SupportedMultinomial(SupportedCategorical):
    """The same for counts of categories."""

    _counts = ClosedMultinomial._counts

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        probability, counts = values["probability"], rows.x * rows.seen
        flat = probability.reshape(len(probability), -1, probability.shape[-1])
        logs = np.log(np.where(flat > 0, flat, 1.0))
        found = np.tensordot(counts, logs, (1, 1)) + rows.constant[:, None, None]
        return np.where(np.tensordot(counts, flat == 0, (1, 1)) > 0, -np.inf, found)
