"""What an emission is, p(x_t | z_t), and what emissions share: priors, starting levels, checks.

One class serves chains (`HMM`) and graphs (`PottsMixture`). It writes four short methods,

    parameters(n_states, rows) -> names and constraints; by state where `traits.by_state` says so
    start(n_states, rows, rng) -> values near the data
    log_prior(params, rows)    -> up to a constant, on the constrained values
    log_density(params, rows)  -> (R, K)

and of the others those that its data or its speed ask for. What is optional beyond that is declared in
`traits`, and used only where it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy

from fitonce.core.constraints import Constraint
from fitonce.core.numerics import Array, safe_log
from fitonce.core.parameters import Params
from fitonce.data.sequences import Sequences


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """Observations as rows, the only thing an emission sees.

    Attributes:
        x: (R, C) values of a chain's steps, (R,) of single values at sites; where not observed, some
            harmless value from the same channel.
        observed: of the shape of x, bools, or None when everything is.
        covariates: (R, Q) known quantities, such as the day of the week.
        counts: (R,) how often each row occurs among the observed steps.
        exposure: (R,) what counts are counted from, or None where that does not matter.
        constant: (R,) the part of the log density that no parameter moves, see `Emission.constant`.
        largest: the largest value of x, known when a program is compiled; 0 for real-valued data.
    """

    x: Array
    observed: Array | None
    covariates: Array
    counts: Array
    exposure: Array | None = None
    constant: Array | None = None
    largest: int = field(default=0, metadata={"static": True})


@dataclass(frozen=True)
class EmissionTraits:
    """What an emission declares of itself; what it does not declare is not used.

    Attributes:
        deduplicate: equal rows are common (counts, categories), so that the density is evaluated once for
            each distinct row.
        exposure: counts may be counted from something.
        along_time: it reads the steps before, or their times, and so is for chains alone.
        by_state: parameters whose first axis is the state, besides shared ones, so that a state's log
            density is that of a model with this state alone.
        m_step: `maximise` is there.
        em_starts: fits of chains start by EM.
        information: `information` is there.
        metric: `metric` is there.
        strongly_nonquadratic: secants from far away go astray, as with networks.
    """

    deduplicate: bool = False
    exposure: bool = False
    along_time: bool = False
    by_state: bool = False
    m_step: bool = False
    em_starts: bool = False
    information: bool = False
    metric: bool = False
    strongly_nonquadratic: bool = False


class Emission(ABC):
    """p(x_t | z_t); see the module's text. A frozen dataclass, so that compiled programs are shared."""

    @property
    def traits(self) -> EmissionTraits:
        return EmissionTraits()

    @property
    def name(self) -> str:
        """In words, as in "Poisson emission"."""
        return type(self).__name__

    @abstractmethod
    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]: ...

    @abstractmethod
    def start(
        self, n_states: int, rows: Rows, rng: np.random.Generator | None
    ) -> dict[str, np.ndarray]: ...

    @abstractmethod
    def log_prior(self, params: Params, rows: Rows) -> Array: ...

    @abstractmethod
    def log_density(self, params: Params, rows: Rows) -> Array: ...

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        """Raise ValueError for data, or an exposure (sites,), that it cannot describe."""

    def modelled(self, data: Sequences) -> Sequences:
        """The data with what it only conditions on marked as such."""
        return data

    def covariates(self, data: Sequences) -> np.ndarray | None:
        """(N, T, Q) known quantities, or None."""
        return None

    def constant(self, x: np.ndarray, exposure: np.ndarray | None) -> np.ndarray | None:
        """Of the shape of x: the part of the log density that no parameter moves, so that it is not
        compiled; None: `log_density` has all of it."""
        return None

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """An M step: the best parameters (or better ones) when row r is of state k with weight
        shares[r, k]."""
        raise NotImplementedError

    def information(
        self, params: Params, shares: np.ndarray, rows: Rows
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Minus the second derivatives of sum_rk shares[r, k] log p(row r | k) by free coordinates:
        (K, P, P) by those of each state, (K, P, S) with shared ones, and (S, S)."""
        raise NotImplementedError

    def metric(
        self, params: Params, shares: np.ndarray, rows: Rows
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A positive definite stand-in for `information`, which preconditions."""
        raise NotImplementedError


def observations(
    emission: Emission, data: Sequences, exposure: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What an emission is given of all steps, checked: x (R, C) with some harmless value where nothing
    was observed, what was (R, C), and covariates (R, Q)."""
    for name, seen in zip(data.channels, np.any(data.observed, axis=(0, 1)), strict=True):
        if not seen:
            raise ValueError(f"channel '{name}' has no observed value")
    emission.check(data, *([] if exposure is None else [exposure]))
    count, steps, channels = data.values.shape
    first = data.observed.reshape(-1, channels).argmax(0)
    fill = data.values.reshape(-1, channels)[first, np.arange(channels)]
    x = np.where(data.observed, data.values, fill).reshape(-1, channels)
    known = emission.covariates(data)
    known = np.zeros((count, steps, 0)) if known is None else known
    return x, data.observed.reshape(-1, channels), known.reshape(count * steps, -1)


def constant_of(
    emission: Emission, x: np.ndarray, observed: np.ndarray, exposure: np.ndarray | None
) -> Array | None:
    """(R,) the part of the log density of rows that no parameter moves, over what was observed of them."""
    found = emission.constant(x, exposure)
    if found is None:
        return None
    found = np.where(observed, found, 0.0)
    return jnp.asarray(found.sum(tuple(range(1, found.ndim))))


def sum_channels(log_density: Array, rows: Rows) -> Array:
    """(R, K, C) or (R, K) to (R, K), skipping channels that were not observed, and with the constant."""
    if rows.observed is not None:
        log_density = jnp.where(rows.observed[:, None], log_density, 0.0)
    total = jnp.sum(log_density, tuple(range(2, log_density.ndim)))
    return total if rows.constant is None else total + rows.constant[:, None]


def upright(values: Any, beside: Any) -> Any:
    """Values (R,) with further axes of length one, to combine with an array (R, ...)."""
    return values.reshape(-1, *(1,) * (np.ndim(beside) - 1))


def weighted_sums(values: np.ndarray, shares: np.ndarray, rows: Rows) -> np.ndarray:
    """(K, ...) sums over rows of shares (R, K) times values (R, ...), over what was observed."""
    values = np.asarray(values, float)
    if rows.observed is not None:
        values = np.where(np.asarray(rows.observed), values, 0.0)
    return np.tensordot(shares, values, (0, 0))


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
    """(K, C), or (K,) of single values: starting levels, which are quantiles of each channel (of ratios
    to the exposure, where there is one), drawn at random when `rng` is given."""
    x, counts = np.asarray(rows.x), np.asarray(rows.counts)
    shape = x.shape[1:]
    x = x.reshape(len(x), -1)
    x = x if rows.exposure is None else x / np.asarray(rows.exposure)[:, None]
    seen = np.ones(x.shape, bool) if rows.observed is None else np.asarray(rows.observed)
    seen = seen.reshape(x.shape)
    targets = (np.arange(n_states) + 0.5) / n_states
    levels = np.empty((n_states, x.shape[1]))
    for channel in range(x.shape[1]):
        keep = seen[:, channel] & (counts > 0)
        values, weights = x[keep, channel], counts[keep].astype(float)
        order = np.argsort(values)
        share = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
        points = targets if rng is None else np.sort(rng.random(n_states))
        levels[:, channel] = np.interp(points, share, values[order])
    return levels.reshape(n_states, *shape)


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


def freeze_value(value: Any) -> Any:
    """An array as nested tuples, so that a model that holds it can be hashed."""
    array = np.asarray(value, float)
    return float(array) if array.ndim == 0 else tuple(freeze_value(item) for item in array)
