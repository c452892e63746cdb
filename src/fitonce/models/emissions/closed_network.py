"""Closed forms of regressions by a network with one hidden layer for each state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fitonce.models.emissions.closed_forms import Observations, Values
from fitonce.models.emissions.closed_regression import ClosedRegression, with_intercept
from fitonce.models.emissions.gauss_newton import Layers, Problem


@dataclass(frozen=True)
class ClosedNetwork(ClosedRegression):
    """Closed forms of `NeuralAutoregression`: `hidden` units for each state, and the prior standard
    deviation `weight_scale`."""

    hidden: int
    weight_scale: float

    def operations(self, states: int, rows: Observations) -> int:
        known, channels = rows.covariates.shape[1], rows.x.shape[1]
        return states * len(rows.x) * self.hidden * (known + channels + 10)

    def coefficients(self, values: Values) -> tuple[list[np.ndarray], list[np.ndarray]]:
        parts = [values[name] for name in Layers._fields]
        return parts[:2], parts[2:]

    def prior(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        size = self.flat(values).shape[1]
        return np.zeros(size), np.full(size, self.weight_scale**-2.0)

    def squares(self, values: Values, rows: Observations) -> np.ndarray:
        states, _, folds = values["bias_out"].shape
        found, every = np.empty((len(rows.x), states, folds)), _problem(rows, np.ones(len(rows.x)))
        for k, f, layers in _networks(values):
            found[:, k, f] = (every.residuals(layers) ** 2).sum(1)
        return found

    def pulls(
        self, values: Values, shares: np.ndarray, rows: Observations
    ) -> tuple[np.ndarray, np.ndarray]:
        states, _, folds = values["bias_out"].shape
        squares, pulls = np.empty((states, folds)), [[np.empty(0)] * folds for _ in range(states)]
        for k, f, layers in _networks(values):
            problem = _problem(rows, shares[:, k, f])
            pulls[k][f], squares[k, f] = -problem.gradient(layers), problem.squares(layers)
        return np.moveaxis(np.array(pulls), 1, 2), squares

    def pulls_of_rows(self, values: Values, rows: Observations) -> np.ndarray:
        every = _problem(rows, np.ones(len(rows.x)))
        return np.stack([every.pulls_of_rows(net) for _, _, net in _networks(values.lifted())], 1)

    def hessian_of_squares(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        networks = _networks(values.lifted())
        return np.stack([_problem(rows, shares[:, k]).hessian(net) for k, _, net in networks])

    def metric(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        """Without second derivatives of the networks, and without cross terms with the variance."""
        found = []
        for k, _, net in _networks(values.lifted()):
            problem = _problem(rows, shares[:, k]).without_tiny_shares()
            matrix, squares = problem.gauss_newton(net), 0.5 * problem.squares(net)
            if self.noise != "fixed":
                place = self.variance_place(values)
                matrix = np.insert(np.insert(matrix, place, 0.0, 0), place, 0.0, 1)
                matrix[place, place] = squares
            found.append(matrix)
        return -np.stack(found) / self.variance_of(values)[:, None, None]


def _networks(values: Values) -> Iterator[tuple[int, int, Layers]]:
    """State, fold, and its network."""
    parts = [values[name] for name in Layers._fields]
    states, _, folds = parts[0].shape
    for k in range(states):
        for f in range(folds):
            yield k, f, Layers(*(part[k, ..., f] for part in parts))


def _problem(rows: Observations, shares: np.ndarray) -> Problem:
    return Problem(with_intercept(rows.covariates), rows.x, rows.seen > 0, shares)
