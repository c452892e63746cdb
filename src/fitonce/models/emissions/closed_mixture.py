"""Closed forms of mixtures: every state has M components, which are states of other closed forms.

With responsibilities r_m = p(component m | x, state), scores s_m and second derivatives H_m of
log (weight_m p(x | component m)), the log density of a state has the derivatives

    s = sum_m r_m s_m                 H = sum_m r_m (H_m + s_m s_m') - s s'
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitonce.models.emissions.closed_forms import ClosedForms, Observations, Values, diagonal, x_log

WEIGHT = "weight"


@dataclass(frozen=True, eq=False)
class ClosedMixture(ClosedForms):
    """Args:
    parts: closed forms of the components, K M states of them, components of a state one after another.
    sizes: for each of their parameters, in the order of names, how many coordinates a component has.
    together: the parameters that the components of a state share.
    concentration: of the Dirichlet prior of weights, a number or an array that broadcasts to (K, M).
    """

    parts: ClosedForms
    sizes: tuple[tuple[str, int], ...]
    together: tuple[str, ...]
    concentration: np.ndarray

    def numbers(self, states: int, rows: Observations) -> int:
        return self.parts.numbers(states, rows)

    def operations(self, states: int, rows: Observations) -> int:
        return self.parts.operations(states, rows)

    def _components(self, values: Values) -> Values:
        """Values of all components, as of states."""
        count = values[WEIGHT].shape[1]
        found = {}
        for name, _ in self.sizes:
            value = values[name]
            if name in self.together:
                found[name] = np.repeat(value, count, 0)
            else:
                found[name] = value.reshape(-1, *value.shape[2:])
        return Values.at(values.thetas, found)

    def _places(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Where coordinates of a state's components (M, P) and weights (M - 1,) are among its own."""
        at, columns = 0, []
        for name, size in self.sizes:
            own = np.tile(np.arange(size), (count, 1))
            if name not in self.together:
                own = own + size * np.arange(count)[:, None]
            columns.append(at + own)
            at = int(columns[-1].max()) + 1
        return np.concatenate(columns, 1), np.arange(at, at + count - 1)

    def _shares(self, values: Values, rows: Observations) -> tuple[np.ndarray, np.ndarray]:
        """Log densities (R, K, F) and responsibilities (R, K, M, F)."""
        weight = values[WEIGHT]
        found = self.parts.log_density(self._components(values), rows)
        with np.errstate(divide="ignore"):  # a known weight may be zero
            found = found.reshape(len(rows.x), *weight.shape) + np.log(weight)
        peak = found.max(2, keepdims=True)
        shares = np.exp(found - peak)
        total = shares.sum(2, keepdims=True)
        return (peak + np.log(total))[:, :, 0], shares / total

    def responsibilities(self, values: Values, rows: Observations) -> np.ndarray:
        """(R, K, M, F)."""
        return self._shares(values, rows)[1]

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        return self._shares(values, rows)[0]

    def _joined(self, parts: np.ndarray, of_weights: np.ndarray) -> np.ndarray:
        """Derivatives (..., K, M, P, F) by coordinates of components, and (..., K, M, F) by log weights
        less what their sum has, in the coordinates of states (..., K, Q, F)."""
        count = parts.shape[-3]
        places, last = self._places(count)
        size = places.max() + 1 + len(last)
        found = np.zeros((*parts.shape[:-3], size, parts.shape[-1]))
        for component, own in enumerate(places):
            found[..., own, :] += parts[..., component, :, :]
        found[..., last, :] = of_weights[..., :-1, :]
        return found

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        weight = values[WEIGHT]
        weighted = shares[:, :, None] * self._shares(values, rows)[1]
        flat = weighted.reshape(len(rows.x), -1, shares.shape[-1])
        found = self.parts.slopes(self._components(values), flat, rows)
        counted = weighted.sum(0)
        excess = counted - counted.sum(1, keepdims=True) * weight
        return self._joined(found.reshape(*weight.shape[:2], *found.shape[1:]), excess)

    def _scores(self, values: Values, rows: Observations) -> tuple[np.ndarray, np.ndarray]:
        """Of one fold: responsibilities (R, K, M) and scores (R, K, M, P) of components."""
        shape = values[WEIGHT].shape
        found = self.parts.scores(self._components(values), rows)
        shares = self._shares(values.lifted(), rows)[1][..., 0]
        return shares, found.reshape(len(rows.x), *shape, found.shape[-1])

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        shares, found = self._scores(values, rows)
        joined = self._joined(
            (shares[..., None] * found)[..., None], (shares - values[WEIGHT])[..., None]
        )
        return joined[..., 0]

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        found = self.metric(values, shares, rows)
        own, parts = self._scores(values, rows)
        weight = values[WEIGHT]
        places, last = self._places(weight.shape[1])
        for state in range(len(found)):
            mean = np.zeros((len(rows.x), found.shape[-1]))
            for m, one in enumerate(places):
                score = np.zeros_like(mean)
                score[:, one] = parts[:, state, m]
                score[:, last] = (np.arange(weight.shape[1]) == m)[:-1] - weight[state, :-1]
                of_component = own[:, state, m, None] * score
                found[state] += (shares[:, state, None] * of_component).T @ score
                mean += of_component
            found[state] -= (shares[:, state, None] * mean).T @ mean
        return found

    def metric(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        """As if components were known, which is negative definite near a maximum."""
        own = self._shares(values.lifted(), rows)[1][..., 0]
        weighted = (shares[:, :, None] * own).reshape(len(rows.x), -1)
        found = self.parts.curvature(self._components(values), weighted, rows)
        return self._matrix(found, shares.sum(0), values[WEIGHT])

    def _matrix(self, parts: np.ndarray, mass: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """(K, Q, Q) from blocks (K M, P, P) of components, and masses (K,) that weights divide."""
        states, count = weight.shape
        places, last = self._places(count)
        size = places.max() + 1 + len(last)
        found = np.zeros((states, size, size))
        for state, blocks in enumerate(parts.reshape(states, count, *parts.shape[1:])):
            for one, block in zip(places, blocks, strict=True):
                found[state][np.ix_(one, one)] += block
        p = weight[:, :-1]
        spread = diagonal(p) - p[:, :, None] * p[:, None]
        found[:, last[:, None], last] = -mass[:, None, None] * spread
        return found

    def _excess(self, weight: np.ndarray) -> np.ndarray:
        """Concentrations less one, of the shape of weights (K, M, ...)."""
        excess = np.broadcast_to(self.concentration - 1.0, weight.shape[:2])
        return np.broadcast_to(excess.reshape(*excess.shape, *(1,) * (weight.ndim - 2)), weight.shape)

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        weight = values[WEIGHT]
        total = np.sum(x_log(self._excess(weight), weight), (0, 1))
        return total + self.parts.log_prior(self._components(values), rows)

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        weight = values[WEIGHT]
        found = self.parts.prior_slopes(self._components(values), rows)
        counted = self._excess(weight)
        excess = counted - counted.sum(1, keepdims=True) * weight
        return self._joined(found.reshape(*weight.shape[:2], *found.shape[1:]), excess)

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        weight = values[WEIGHT]
        found = self.parts.prior_curvature(self._components(values), rows)
        return self._matrix(found, self._excess(weight).sum(1), weight)
