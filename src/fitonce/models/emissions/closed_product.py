"""Closed forms of products of emissions: sums over parts, with channels and coordinates of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fitonce.models.emissions.closed_forms import ClosedForms, Observations, Values


class Part(NamedTuple):
    """Where a part's parameters, channels and covariates are: those whose names begin with `prefix`, and
    columns of the rows."""

    prefix: str
    columns: slice
    known: slice

    def rows(self, rows: Observations) -> Observations:
        constant = np.zeros(len(rows.x))
        x, seen = rows.x[:, self.columns], rows.seen[:, self.columns]
        return Observations(x, seen, rows.counts, constant, rows.covariates[:, self.known])

    def values(self, values: Values) -> Values:
        own = {n.removeprefix(self.prefix): v for n, v in values.items() if n.startswith(self.prefix)}
        return Values.at(values.thetas, own)


@dataclass(frozen=True, eq=False)
class ClosedProduct(ClosedForms):
    """Parts in the order of their names, which is that of their coordinates."""

    parts: tuple[tuple[Part, ClosedForms], ...]

    def _each(self, rows: Observations) -> Iterator[tuple[Part, ClosedForms, Observations]]:
        for part, forms in self.parts:
            yield part, forms, part.rows(rows)

    @property
    def shared(self) -> tuple[str, ...]:
        return tuple(part.prefix + name for part, forms in self.parts for name in forms.shared)

    def numbers(self, states: int, rows: Observations) -> int:
        return sum(forms.numbers(states, own) for _, forms, own in self._each(rows))

    def operations(self, states: int, rows: Observations) -> int:
        return sum(forms.operations(states, own) for _, forms, own in self._each(rows))

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        parts = self._each(rows)
        total = sum(forms.log_density(part.values(values), own) for part, forms, own in parts)
        return total + rows.constant[:, None, None]

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        parts = self._each(rows)
        return np.concatenate(
            [forms.slopes(part.values(values), shares, own) for part, forms, own in parts], 1
        )

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        parts = self._each(rows)
        return np.concatenate([forms.scores(part.values(values), own) for part, forms, own in parts], 2)

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        parts = self._each(rows)
        return _blocks([forms.curvature(part.values(values), shares, own) for part, forms, own in parts])

    def metric(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        parts = self._each(rows)
        return _blocks([forms.metric(part.values(values), shares, own) for part, forms, own in parts])

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        parts = self._each(rows)
        return sum(forms.log_prior(part.values(values), own) for part, forms, own in parts)  # type: ignore[return-value]

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        parts = self._each(rows)
        return np.concatenate([f.prior_slopes(part.values(values), own) for part, f, own in parts], 1)

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        parts = self._each(rows)
        return _blocks([f.prior_curvature(part.values(values), own) for part, f, own in parts])


def _blocks(parts: list[np.ndarray]) -> np.ndarray:
    """(K, P, P) matrices with blocks (K, p, p) on their diagonals."""
    sizes = np.cumsum([0] + [part.shape[1] for part in parts])
    found = np.zeros((len(parts[0]), sizes[-1], sizes[-1]))
    for part, start, end in zip(parts, sizes[:-1], sizes[1:], strict=True):
        found[:, start:end, start:end] = part
    return found
