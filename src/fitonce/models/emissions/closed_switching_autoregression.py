"""Closed forms of autoregressions around means that switch or do not.

A column of densities is for a tuple of states, the latest first. With weights a_l of its first state,
means m_l of its l-th, residual and log density are

    e = x_t - m_0 - sum_l a_l (x_t-l - m_l),        log p = -e^2 / (2 v) - log(v) / 2

so that -de/dm is 1 for the mean of the current state and -a_l for that of lag l, added up where these
are one state, and -de/da_l = x_t-l - m_l. Of second derivatives of e only those by a_l and m_l are not
zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fitonce.models.emissions.closed_forms import LOG_2PI, ClosedForms, Observations, Values
from fitonce.models.histories import histories


class _Columns(NamedTuple):
    """Of each of E tuples: weights (E, p, ...), means (E, p + 1, ...) of its states, variance (E, ...),
    and the share of each mean in that of the next observation (E, M, ...)."""

    weight: np.ndarray
    means: np.ndarray
    variance: np.ndarray
    share: np.ndarray


@dataclass(frozen=True, eq=False)
class ClosedSwitchingAutoregression(ClosedForms):
    """Args:
    order, memory: p, and how many earlier states matter: p or none.
    mean, weight, variance: "state", "shared" or "zero".
    precision: of the prior of weights.
    strength, square: prior of variances.
    """

    order: int
    memory: int
    mean: str
    weight: str
    variance: str
    precision: float
    strength: float
    square: float

    @property
    def shared(self) -> tuple[str, ...]:
        return ("mean", "variance", "weight")

    def _states(self, values: Values) -> int:
        names = [name for name in self.shared if getattr(self, name) == "state"]
        return len(values[names[0]])

    def tuples(self, values: Values) -> np.ndarray:
        """(E, memory + 1)."""
        return histories(self._states(values), self.memory)

    def lagged_states(self, values: Values) -> np.ndarray:
        """(E, p + 1) the number of the mean used at each lag; zeros where there is only one."""
        tuples = self.tuples(values)
        if self.mean == "state":
            return tuples
        return np.zeros((len(tuples), self.order + 1), int)

    def _columns(self, values: Values) -> _Columns:
        tuples, lagged = self.tuples(values), self.lagged_states(values)
        weight, variance = values["weight"], values["variance"]
        weight = weight[tuples[:, 0]] if self.weight == "state" else weight[None].repeat(len(tuples), 0)
        variance = (
            variance[tuples[:, 0]] if self.variance == "state" else variance[None].repeat(len(tuples), 0)
        )
        if self.mean == "zero":
            means = np.zeros((1, *variance.shape[1:]))
        else:
            means = values["mean"] if self.mean == "state" else values["mean"][None]
        factors = np.concatenate([np.ones((len(tuples), 1, *weight.shape[2:])), -weight], 1)
        alike = lagged[..., None] == np.arange(len(means))  # (E, p + 1, M)
        share = np.einsum("el...,elm->em...", factors, alike.astype(float))
        return _Columns(weight, means[lagged], variance, share)

    def _residual(self, columns: _Columns, rows: Observations) -> np.ndarray:
        """(R, E, ...), zero where missing."""
        level = columns.means[:, 0] - np.sum(columns.weight * columns.means[:, 1:], 1)
        more = (1,) * (level.ndim - 1)
        x, seen = (part.reshape(-1, 1, *more) for part in (rows.x, rows.seen))
        return (x - level - np.tensordot(rows.covariates, columns.weight, (1, 1))) * seen

    def _placed(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """(E,) of variances and (E, p) of weights: where they are among the P coordinates."""
        first, states = self.tuples(values)[:, 0], self._states(values)
        means = {"state": states, "shared": 1, "zero": 0}[self.mean]
        variances = states if self.variance == "state" else 1
        of_variance = means + (first if self.variance == "state" else np.zeros_like(first))
        begin = (first if self.weight == "state" else np.zeros_like(first)) * self.order
        return of_variance, (means + variances + begin)[:, None] + np.arange(self.order)

    def _sizes(self, values: Values) -> tuple[int, int]:
        """E and P."""
        states = self._states(values)
        each = {"state": states, "shared": 1, "zero": 0}
        coordinates = each[self.mean] + each[self.variance] + each[self.weight] * self.order
        return states ** (self.memory + 1), coordinates

    def operations(self, states: int, rows: Observations) -> int:
        return states * rows.x.size * (self.order + 4)

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        columns = self._columns(values)
        found = self._residual(columns, rows)
        np.square(found, out=found)
        found /= columns.variance
        return -0.5 * (found + np.multiply.outer(rows.seen[:, 0], np.log(columns.variance) + LOG_2PI))

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        columns = self._columns(values)
        residual = self._residual(columns, rows)
        pulled = shares * residual / columns.variance
        total = pulled.sum(0)  # (E, F)
        lagged = np.moveaxis(np.tensordot(rows.covariates, pulled, (0, 0)), 0, 1)  # (E, p, F)
        squares = np.einsum("ref,ref->ef", pulled, residual)
        mass = np.tensordot(rows.seen[:, 0], shares, (0, 0))
        return self._joined(
            values,
            columns.share * total[:, None],
            0.5 * (squares - mass),
            lagged - columns.means[:, 1:] * total[:, None],
        )

    def _joined(
        self, values: Values, mean: np.ndarray, variance: np.ndarray, weight: np.ndarray
    ) -> np.ndarray:
        """(E, P, ...) from derivatives (E, M, ...), (E, ...) and (E, p, ...)."""
        of_variance, of_weight = self._placed(values)
        found = np.zeros((*self._sizes(values), *variance.shape[1:]))
        if self.mean != "zero":
            found[:, : mean.shape[1]] = mean
        every = np.arange(len(found))
        found[every, of_variance] = variance
        found[every[:, None], of_weight] = weight
        return found

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        columns = self._columns(values)
        residual = self._residual(columns, rows)
        pulled = residual / columns.variance
        found = self._joined(
            values,
            np.moveaxis(pulled[:, :, None] * columns.share, 0, -1),
            np.moveaxis(0.5 * (pulled * residual - rows.seen), 0, -1),
            np.moveaxis(pulled[..., None] * (rows.covariates[:, None] - columns.means[:, 1:]), 0, -1),
        )
        return np.moveaxis(found, -1, 0)

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        columns, lagged = self._columns(values), self.lagged_states(values)
        residual, lags = self._residual(columns, rows), rows.covariates
        of_variance, of_weight = self._placed(values)
        (count, size), means = self._sizes(values), columns.share.shape[1]
        found = np.zeros((count, size, size))
        for number in range(count):
            share = shares[:, number] * rows.seen[:, 0]
            e, centred = residual[:, number], lags - columns.means[number, 1:]
            steep = np.concatenate([np.broadcast_to(columns.share[number], (len(e), means)), centred], 1)
            block = np.empty((means + self.order + 1,) * 2)
            block[:-1, :-1] = steep.T @ (share[:, None] * steep)
            by_mean = np.arange(means) == lagged[number, 1:, None]  # (p, M)
            twice = (share @ e) * by_mean
            block[means:-1, :means] += twice
            block[:means, means:-1] += twice.T
            block[:-1, -1] = block[-1, :-1] = steep.T @ (share * e)
            block[-1, -1] = 0.5 * share @ e**2
            place = np.concatenate([np.arange(means), of_weight[number], [of_variance[number]]])
            kept = np.ones(len(place), bool)
            kept[:means] = self.mean != "zero"
            here = np.ix_(place[kept], place[kept])
            found[number][here] = -block[np.ix_(kept, kept)] / columns.variance[number]
        return found

    # --- priors ----------------------------------------------------------------------------------------

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        weight, variance = values["weight"], values["variance"]
        of_weight = self.precision * np.sum(weight**2, tuple(range(weight.ndim - 1)))
        of_variance = self.strength * (np.log(variance) + self.square / variance)
        return -0.5 * (of_weight + np.sum(of_variance, tuple(range(variance.ndim - 1))))

    def _once(self, values: Values, variance: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """(E, P, ...), with all in the first row: means have a flat prior."""
        size, more = self._sizes(values), values["variance"].shape[len(self._own("variance")) :]
        flat = (variance.reshape(-1, *more), weight.reshape(-1, *more))
        found = np.zeros((*size, *more))
        found[0, size[1] - len(flat[0]) - len(flat[1]) :] = np.concatenate(flat)
        return found

    def _own(self, name: str) -> tuple[int, ...]:
        return (0,) if getattr(self, name) == "state" else ()

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        variance, weight = values["variance"], values["weight"]
        return self._once(
            values, 0.5 * self.strength * (self.square / variance - 1.0), -self.precision * weight
        )

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        variance, weight = values["variance"], values["weight"]
        steep = -0.5 * self.strength * self.square / variance
        found = self._once(values, steep, np.full_like(weight, -self.precision))
        return found[..., None] * np.eye(found.shape[1])
