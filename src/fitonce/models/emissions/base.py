"""The base class of emissions p(x_t | z_t), and functions they share: priors, starting values, checks.

One class serves chains (`HMM`) and graphs (`PottsMixture`). A subclass needs four short methods,

    parameters(n_states, rows) -> names and constraints; the state is the first axis if `traits.by_state`
    start(n_states, rows, rng) -> starting values from the data
    log_prior(params, rows)    -> up to a constant, on the constrained values
    log_density(params, rows)  -> (R, K)

and the others as its data or its speed require. Optional abilities must be declared in `traits`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fitonce.core.arguments import require, require_flag
from fitonce.core.constraints import Constraint
from fitonce.core.deferred import jax, jnp, pytree
from fitonce.core.numerics import Array, EitherArray, is_number, safe_log
from fitonce.core.parameters import Params
from fitonce.core.predictive import Tails
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.closed_forms import ClosedForms, Observations

Blocks = tuple[np.ndarray, np.ndarray, np.ndarray]  # see `Emission.information`


@pytree
@dataclass(frozen=True)
class Rows:
    """Observations as rows, all that an emission sees of the data.

    Attributes:
        x: (R, C) for the steps of chains, (R,) for the sites of a graph; where missing, some valid value
            of the same channel.
        observed: bools of the shape of x, or None if nothing is missing.
        covariates: (R, Q) known quantities, such as the day of the week.
        counts: (R,) how often each row occurs among the observed steps.
        exposure: (R,) exposures of counts, or None.
        constant: (R,) the part of the log density without parameters, see `Emission.constant`.
        largest: the largest value of x, known at compile time; 0 for real-valued data.
    """

    x: EitherArray
    observed: EitherArray | None
    covariates: EitherArray
    counts: EitherArray
    exposure: EitherArray | None = None
    constant: EitherArray | None = None
    largest: int = field(default=0, metadata={"static": True})

    def mask(self) -> np.ndarray:
        """Bools of the shape of x: which values were observed, in rows that have any."""
        return np.ones(self.x.shape, bool) if self.observed is None else np.asarray(self.observed)

    def arrays(self) -> Observations:
        """The rows as closed forms read them."""
        x, counts = np.asarray(self.x, float), np.asarray(self.counts, float)
        constant = np.zeros(len(x)) if self.constant is None else np.asarray(self.constant)
        return Observations(x, self.mask().astype(float), counts, constant, np.asarray(self.covariates))

    def values(self) -> np.ndarray:
        """(R, C) x, nan where missing."""
        flat = np.asarray(self.x, float).reshape(len(self.x), -1)
        return np.where(self.mask().reshape(flat.shape), flat, np.nan)

    def weights(self) -> np.ndarray:
        """Of the shape of x: how often each value occurs among the observed ones."""
        return self.mask() * upright(np.asarray(self.counts), self.x)


@dataclass(frozen=True)
class EmissionTraits:
    """Optional abilities of an emission; those it does not declare are not used.

    Attributes:
        deduplicate: equal rows are common and the density is expensive, so that it is evaluated once per
            distinct row.
        exposure: accepts an exposure.
        along_time: depends on earlier steps or on time, and so is only for chains.
        by_state: emission parameters are per state (first axis), apart from shared ones, so that a
            state's log density is that of a model with this state only.
        m_step: implements `maximise`.
        em_starts: fits of chains start with EM.
        information: implements `information`.
        metric: implements `metric`.
        tails: implements `tails`.
        strongly_nonquadratic: the objective is strongly non-quadratic, as with networks, so that secant
            steps over long distances fail.
    """

    deduplicate: bool = False
    exposure: bool = False
    along_time: bool = False
    by_state: bool = False
    m_step: bool = False
    em_starts: bool = False
    information: bool = False
    metric: bool = False
    tails: bool = False
    strongly_nonquadratic: bool = False

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require_flag(name, value)


class Emission(ABC):
    """p(x_t | z_t), see the module docstring; a frozen dataclass, so that programs compile only once."""

    @property
    def traits(self) -> EmissionTraits:
        return EmissionTraits()

    @property
    def name(self) -> str:
        """The name in texts such as "Poisson emission"."""
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

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:  # noqa: B027
        """Raise ValueError for data, or an exposure (sites,), that do not fit the emission."""

    def check_to_fit(self, data: Sequences) -> None:  # noqa: B027
        """Raise ValueError for data that parameters cannot be learned from, as where nothing varies;
        given parameters, they may still be predicted."""

    def modelled(self, data: Sequences) -> Sequences:
        """The data with steps that are only conditioned on marked as such."""
        return data

    def covariates(self, data: Sequences) -> np.ndarray | None:
        """(N, T, Q) known quantities, or None."""
        return None

    def constant(self, x: np.ndarray, exposure: np.ndarray | None) -> np.ndarray | None:
        """The part of the log density without parameters, of the shape of x, computed once outside the
        compiled program; None: `log_density` is complete."""
        return None

    def circular(self, channels: int) -> tuple[bool, ...]:
        """Which of the channels are angles, whose means are directions."""
        return (False,) * channels

    @property
    def is_supported(self) -> bool:
        """Whether some values are impossible in some states, which cannot be told without the number of
        the state."""
        return getattr(self, "support", None) is not None

    @property
    def has_support(self) -> bool:
        """Whether it has probabilities `probability` (K, ..., M), of which a field `support` says which
        may be positive, with a Dirichlet prior `concentration`."""
        return False

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of covariates of the data that it depends on."""
        return ()

    @property
    def lags(self) -> int:
        """How many steps before it an observation depends on: `covariates` are then their values."""
        return 0

    @property
    def memory(self) -> int:
        """How many steps before it an observation depends on the states of. `log_density` then has a
        column for each (z_t, z_t-1, ..., z_t-memory), the last of which changes fastest; `draw` is given
        the numbers of these columns."""
        return 0

    def draw(
        self, params: Params, states: np.ndarray, known: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """(m, C) random observations of steps in states (m,), given covariates (m, Q)."""
        raise ValueError(f"a {self.name} emission cannot be sampled from: it has no draw()")

    def moments(
        self, params: Params, states: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Means and variances (m, C) of steps in states (m,), given covariates (m, Q), nan where these
        are not known; None: none are, and forecasts take those of paths."""
        return None

    def features(self, rows: Rows) -> np.ndarray:
        """(R, F) columns for clustering the steps of chains, nan where missing. Their spread should not
        depend on their level. The default is x, and points on the circle for angles."""
        x, flat = rows.values(), self.circular(rows.x.shape[1])
        columns = [
            np.stack([np.cos(c), np.sin(c)], 1) if a else c[:, None]
            for c, a in zip(x.T, flat, strict=True)
        ]
        return np.concatenate(columns, 1)

    def closed_forms(self, rows: Observations) -> ClosedForms | None:
        """Densities and derivatives in closed form, of chains with these rows; None: by JAX. An emission
        that has this may see equal observations as one row, with how often it occurs in `counts`."""
        return None

    def tails(self, params: Params, rows: Rows) -> Tails:
        """(R, K) how far out each value lies given each state; for the sites of a graph."""
        raise NotImplementedError

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """The M step: the best parameters (or better ones) when row r is in state k with weight
        shares[r, k]."""
        raise NotImplementedError

    def information(self, params: Params, shares: np.ndarray, rows: Rows) -> Blocks:
        """The complete-data information in free coordinates (without units), minus the Hessian of
        sum_rk shares[r, k] log p(row r | k): blocks (K, P, P) of each state's own coordinates, (K, P, S)
        with shared ones, and (S, S)."""
        raise NotImplementedError

    def metric(self, params: Params, shares: np.ndarray, rows: Rows) -> Blocks:
        """A positive definite approximation of `information`, for use as a preconditioner."""
        raise NotImplementedError


def observations(
    emission: Emission, data: Sequences, exposure: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Checked observations of all steps: x (R, C) with some valid value where missing, which values were
    observed (R, C), and covariates (R, Q)."""
    if data.observed.any():
        emission.check(data, exposure)
    channels = data.values.shape[-1]
    values, observed = data.values.reshape(-1, channels), data.observed.reshape(-1, channels)
    fill = values[observed.argmax(0), np.arange(channels)]
    known = emission.covariates(data)
    covariates = np.zeros((len(values), 0)) if known is None else known.reshape(len(values), -1)
    return np.where(observed, values, fill), observed, covariates


def constant_of(
    emission: Emission, x: np.ndarray, observed: np.ndarray, exposure: np.ndarray | None
) -> np.ndarray | None:
    """(R,) the part of the log density without parameters, summed over observed channels."""
    constant = emission.constant(x, exposure)
    if constant is None:
        return None
    constant = np.where(observed, constant, 0.0)
    return np.asarray(constant.sum(tuple(range(1, constant.ndim))))


def sum_channels(log_density: Array, rows: Rows) -> Array:
    """(R, K, C) or (R, K) to (R, K): the sum over observed channels, plus the constant."""
    if rows.observed is not None:
        log_density = jnp.where(rows.observed[:, None], log_density, 0.0)
    total = jnp.sum(log_density, tuple(range(2, log_density.ndim)))
    return total if rows.constant is None else total + rows.constant[:, None]


def upright(values: Any, beside: Any) -> Any:
    """Values (R,) with trailing axes of length one, to broadcast against an array (R, ...)."""
    return values.reshape(-1, *(1,) * (np.ndim(beside) - 1))


def weighted_sums(values: Any, shares: np.ndarray, rows: Rows) -> np.ndarray:
    """(K, ...) sums over rows of shares (R, K) times values, which broadcast to x, where observed."""
    values = np.broadcast_to(np.asarray(values, float), rows.x.shape)
    if rows.observed is not None:
        values = np.where(rows.mask(), values, 0.0)
    return np.tensordot(shares, values, (0, 0))


def channel_moments(x: Any, weight: Any) -> tuple[Any, Any]:
    """Weighted mean and variance of each channel, in NumPy or JAX; zeros where nothing has a weight."""
    total = weight.sum(0)
    weight = weight / (total + (total == 0))
    mean = (weight * x).sum(0)
    return mean, (weight * (x - mean) ** 2).sum(0)


def coefficient_precision(of_covariates: Any, of_channels: Any, scale: float) -> Any:
    """(C, Q) of a prior of coefficients, from the variances of covariates (Q,) and of channels (C,), one
    where a channel does not vary, in NumPy or JAX."""
    return of_covariates / ((of_channels + (of_channels == 0))[..., None] * scale**2)


def gamma_log_prior(value: Array, shape: float, rate: float) -> Array:
    """The log of a Gamma(shape, rate) density, summed over entries, without its constant."""
    return jnp.sum(jax.scipy.special.xlogy(shape - 1.0, value) - rate * value)


def require_gamma(what: str, prior: Any) -> None:
    """Raise unless `prior` is a positive shape and a non-negative rate."""
    require(
        is_pair(prior) and prior[0] > 0 and prior[1] >= 0,
        what,
        "a positive shape and a non-negative rate",
        prior,
    )


def require_beta(what: str, prior: Any) -> None:
    """Raise unless `prior` is two positive numbers."""
    require(is_pair(prior) and min(prior) > 0, what, "two positive numbers", prior)


def is_pair(value: Any) -> bool:
    """Whether an argument is two finite numbers."""
    return (
        isinstance(value, (tuple, list, np.ndarray)) and len(value) == 2 and all(map(is_number, value))
    )


def dirichlet_log_prior(probability: Array, concentration: Any, support: Any) -> Array:
    """The log of a Dirichlet density over the entries of `support`, without its constant."""
    logs = jnp.where(support, safe_log(probability), 0.0)
    excess = jnp.asarray(concentration) - 1.0
    return jnp.sum(jnp.where(excess == 0, 0.0, excess * logs))


def spread_levels(n_states: int, rows: Rows, rng: np.random.Generator | None) -> np.ndarray:
    """(K, C) or (K,) starting levels: quantiles of each channel (of x / exposure if there is one), at
    random probabilities if `rng` is given; else of a single state the mean."""
    counts = np.asarray(rows.counts)
    x = np.asarray(rows.x).reshape(len(counts), -1)
    x = x if rows.exposure is None else x / np.asarray(rows.exposure)[:, None]
    seen = rows.mask().reshape(x.shape) & (counts > 0)[:, None]
    levels = np.empty((n_states, x.shape[1]))
    for channel, keep in enumerate(seen.T):
        values, which = np.unique(x[keep, channel], return_inverse=True)
        weights = np.bincount(which, weights=counts[keep])
        share = (np.cumsum(weights) - 0.5 * weights) / weights.sum()
        if n_states == 1 and rng is None:
            levels[0, channel] = weights @ values / weights.sum()
            continue
        points = (np.arange(n_states) + 0.5) / n_states if rng is None else np.sort(rng.random(n_states))
        levels[:, channel] = np.interp(points, share, values)
    return levels.reshape(n_states, *rows.x.shape[1:])


def best_kmeans(
    points: np.ndarray,
    n_clusters: int,
    rng: np.random.Generator,
    tries: int,
    missing: Literal["warn", "raise"] = "warn",
) -> tuple[np.ndarray, np.ndarray]:
    """Centres (K, C) and labels (R,) of the best of several runs of k-means."""
    from scipy.cluster.vq import kmeans2

    runs = [kmeans2(points, n_clusters, minit="++", rng=rng, missing=missing) for _ in range(tries)]
    return min(runs, key=lambda run: ((points - run[0][run[1]]) ** 2).sum())


def require_counts_of(data: Sequences, what: str) -> None:
    """Raise unless all observed values are non-negative integers."""
    for channel, name in enumerate(data.channels):
        values = data.values[..., channel][data.observed[..., channel]]
        bad = values[(values < 0) | (values != np.floor(values))]
        if bad.size:
            column = f" (of column '{name}')" if len(data.channels) > 1 else ""
            hint = "; if it means missing, read the data with fo.sequences(..., missing=-1)"
            raise ValueError(
                f"{what}{column} needs non-negative integer counts, got {bad[0]:g}"
                f"{hint if bad[0] == -1 else ''}"
            )


def freeze_value(value: Any) -> Any:
    """An array as nested tuples, so that a model that holds it is hashable."""
    array = np.asarray(value, float)
    return float(array) if array.ndim == 0 else tuple(freeze_value(item) for item in array)
