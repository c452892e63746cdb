"""Emissions: p(x_t | z_t). A new one is one small class with six short methods.

    parameters(n_states, rows) -> names and constraints
    start(n_states, rows, rng) -> values near the data
    log_prior(params, rows)    -> up to a constant, on the constrained values
    log_density(params, rows)  -> (R, K)
    check(data)                -> raise ValueError for data it cannot describe
    covariates(data)           -> (N, T, Q) known quantities, or None

Set `deduplicate = True` when equal rows are common (counts, categories): the density is then
evaluated once for each distinct row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, xlogy

from fitonce.constraints import Constraint, Positive, Simplex
from fitonce.data import Sequences
from fitonce.models.base import Rows
from fitonce.numerics import Array, safe_log
from fitonce.params import Params


class Emission(Protocol):
    """See the module's text."""

    deduplicate: ClassVar[bool]

    def check(self, data: Sequences) -> None: ...
    def covariates(self, data: Sequences) -> np.ndarray | None: ...
    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]: ...
    def start(
        self, n_states: int, rows: Rows, rng: np.random.Generator | None
    ) -> dict[str, np.ndarray]: ...
    def log_prior(self, params: Params, rows: Rows) -> Array: ...
    def log_density(self, params: Params, rows: Rows) -> Array: ...


def sum_channels(log_density: Array, rows: Rows) -> Array:
    """(R, K, C) to (R, K), skipping channels that were not observed."""
    if rows.observed is not None:
        log_density = jnp.where(rows.observed[:, None], log_density, 0.0)
    return jnp.sum(log_density, -1)


def gamma_log_prior(value: Array, shape: float, rate: float) -> Array:
    """Log of a Gamma(shape, rate) density at each entry, summed, without its constant."""
    return jnp.sum(xlogy(shape - 1.0, value) - rate * value)


def require_gamma(what: str, prior: Sequence[float]) -> None:
    """Raise unless `prior` is a shape above zero and a rate that is not negative."""
    if len(prior) != 2 or not (prior[0] > 0 and prior[1] >= 0):
        raise ValueError(f"{what} must be a positive shape and a rate not below zero, got {prior}")


def dirichlet_log_prior(probability: Array, concentration: Any, support: Any) -> Array:
    """Log of a Dirichlet density on the entries of `support`, without its constant."""
    logs = jnp.where(support, safe_log(probability), 0.0)
    excess = jnp.asarray(concentration) - 1.0
    return jnp.sum(jnp.where(excess == 0, 0.0, excess * logs))


def spread_levels(n_states: int, rows: Rows, rng: np.random.Generator | None) -> np.ndarray:
    """(K, C) starting levels: quantiles of each channel, jittered when `rng` is given."""
    x, counts = np.asarray(rows.x), np.asarray(rows.counts)
    seen = np.ones(x.shape, bool) if rows.observed is None else np.asarray(rows.observed)
    targets = (np.arange(n_states) + 0.5) / n_states
    levels = np.empty((n_states, x.shape[1]))
    for channel in range(x.shape[1]):
        keep = seen[:, channel] & (counts > 0)
        values, weights = x[keep, channel], counts[keep].astype(float)
        order = np.argsort(values)
        share = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
        points = targets if rng is None else np.sort(rng.random(n_states))
        levels[:, channel] = np.interp(points, share, values[order])
    return levels


def require_counts(values: np.ndarray, what: str) -> None:
    """Raise unless every value is a non-negative integer."""
    bad = values[(values < 0) | (values != np.floor(values))]
    if bad.size:
        hint = "; if it means missing, read the data with fo.sequences(..., missing=-1)"
        raise ValueError(
            f"{what} needs non-negative integer counts, got {bad[0]:g}{hint if bad[0] == -1 else ''}"
        )


def require_counts_of(data: Sequences, what: str) -> None:
    """The same for all that was observed; of several channels, the one at fault is named."""
    for channel, name in enumerate(data.channels):
        seen = data.values[..., channel][data.observed[..., channel]]
        named = f"{what} (of column '{name}')" if len(data.channels) > 1 else what
        require_counts(seen, named)


@dataclass(frozen=True)
class Poisson:
    """Independent Poisson counts in each channel; Gamma(shape, rate) prior on `rate` (K, C)."""

    shape: float = 1.0
    rate: float = 0.0
    deduplicate: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_gamma("the Poisson prior", (self.shape, self.rate))

    def check(self, data: Sequences) -> None:
        require_counts_of(data, "a Poisson emission")

    def covariates(self, data: Sequences) -> np.ndarray | None:
        return None

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        return {"rate": Positive((n_states, rows.x.shape[1]))}

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        levels = spread_levels(n_states, rows, rng)
        return {"rate": np.maximum(levels, 0.1) * (1.0 + 0.01 * np.arange(n_states))[:, None]}

    def log_prior(self, params: Params, rows: Rows) -> Array:
        return gamma_log_prior(params["rate"], self.shape, self.rate)

    def log_density(self, params: Params, rows: Rows) -> Array:
        x, rate = rows.x[:, None], params["rate"]
        return sum_channels(x * jnp.log(rate) - rate - gammaln(x + 1.0), rows)


@dataclass(frozen=True)
class Categorical:
    """Integer categories 0 .. n_categories - 1 in each channel; `probability` is (K, C, M).

    The prior is Dirichlet(concentration).
    """

    n_categories: int
    concentration: float = 1.1
    deduplicate: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.n_categories < 2:
            raise ValueError(f"n_categories must be at least 2, got {self.n_categories}")
        if not self.concentration > 0:
            raise ValueError(f"concentration must be positive, got {self.concentration}")

    def check(self, data: Sequences) -> None:
        require_counts_of(data, "a categorical emission")
        highest = int(data.values[data.observed].max())
        if highest >= self.n_categories:
            raise ValueError(
                f"n_categories={self.n_categories} allows 0 to {self.n_categories - 1}, got {highest}"
            )

    def covariates(self, data: Sequences) -> np.ndarray | None:
        return None

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        return {"probability": Simplex((n_states, rows.x.shape[1], self.n_categories))}

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        rng = rng or np.random.default_rng(0)
        x, counts = np.asarray(rows.x).astype(int), np.asarray(rows.counts)
        seen = np.ones(x.shape, bool) if rows.observed is None else np.asarray(rows.observed)
        shares = np.ones((x.shape[1], self.n_categories))
        for channel in range(x.shape[1]):
            keep = seen[:, channel]
            np.add.at(shares[channel], x[keep, channel], counts[keep])
        shares = shares / shares.sum(-1, keepdims=True)
        tilted = shares * rng.gamma(2.0, 0.5, (n_states, *shares.shape))
        return {"probability": tilted / tilted.sum(-1, keepdims=True)}

    def log_prior(self, params: Params, rows: Rows) -> Array:
        # A frozen table may hold exact zeros; a learned one never does.
        return dirichlet_log_prior(params["probability"], self.concentration, params["probability"] > 0)

    def log_density(self, params: Params, rows: Rows) -> Array:
        table = jnp.moveaxis(safe_log(params["probability"]), 0, -1)  # (C, M, K)
        chosen = jnp.take_along_axis(table[None], rows.x.astype(int)[:, :, None, None], 2)
        return sum_channels(jnp.swapaxes(chosen[:, :, 0], 1, 2), rows)


def freeze_value(value: Any) -> Any:
    """An array as nested tuples, so that a model that holds it can be hashed."""
    array = np.asarray(value, float)
    return float(array) if array.ndim == 0 else tuple(freeze_value(item) for item in array)
