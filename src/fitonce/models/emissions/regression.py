"""Parts of regression emissions: noise variance, starting states, ridge regression, information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fitonce.core.arguments import require_choice, require_number
from fitonce.core.constraints import Constraint, Positive
from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array
from fitonce.core.parameters import Params
from fitonce.core.units import Units, in_units
from fitonce.models.emissions.base import Blocks, Rows, best_kmeans, channel_moments
from fitonce.models.emissions.closed_forms import LOG_2PI
from fitonce.models.emissions.closed_regression import with_intercept

Noise = Literal["fixed", "shared", "state"]
NOISES = ("fixed", "shared", "state")


@dataclass(frozen=True)
class NoiseModel:
    """The residual variance of a regression, the same in every channel.

    Args:
        kind: "fixed" at `variance`, or learned: "shared" by all states, or one for each "state".
        variance: the fixed variance.
        strength, scale: log-prior -(strength / 2) C (log v + scale^2 / v) of each learned variance v, C
            the number of channels: `strength` pseudo-observations of spread `scale`. None: a tenth of
            the standard deviation of all the data.
    """

    kind: Noise
    variance: float
    strength: float
    scale: float | None

    def __post_init__(self) -> None:
        require_choice("noise", self.kind, NOISES)
        require_number("variance", self.variance, above=0)
        require_number("strength", self.strength, least=0)
        require_number("scale", self.scale, above=0, optional=True)

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        if self.kind == "fixed":
            return {}
        plain = Positive((n_states,) if self.kind == "state" else ())
        return {"variance": in_units(plain, unit_of(rows) ** 2)}

    def value(self, params: Params) -> Any:
        """The variance: a number, or (K,)."""
        return params.get("variance", self.variance)

    def per_state(self, params: Params, n_states: int) -> np.ndarray:
        """The variance of each state (K,)."""
        return np.broadcast_to(np.asarray(self.value(params), float), (n_states,))

    def log_prior(self, params: Params, rows: Rows) -> Array:
        if self.kind == "fixed":
            return jnp.zeros(())
        variance, square = params["variance"], self.prior_variance(spread_of(rows))
        channels = rows.x.shape[1]
        return -0.5 * self.strength * channels * jnp.sum(jnp.log(variance) + square / variance)

    def log_density(self, residual: Array, params: Params, rows: Rows) -> Array:
        """(R, K) log densities of residuals (K, C, R), over observed channels."""
        count: Any = residual.shape[1]
        if rows.observed is not None:
            residual = jnp.where(rows.observed.T, residual, 0.0)
            count = jnp.sum(rows.observed, -1)[:, None]
        variance = self.value(params)
        square = jnp.sum(residual**2, 1).T
        return -0.5 * (square / variance + count * (jnp.log(variance) + LOG_2PI))

    def closed(self, spread: float) -> tuple[str, float, float, float]:
        """What `ClosedRegression` has to know, for data of variance `spread`."""
        return self.kind, self.variance, self.strength, float(self.prior_variance(spread))

    def split(self, blocks: np.ndarray, place: int) -> Blocks:
        """`Emission.information` from the blocks (K, P, P) of closed forms, whose log variance, if it is
        learned, is at `place`."""
        shared = self.kind == "shared"
        own = np.delete(np.arange(blocks.shape[1]), [place] if shared else [])
        common = slice(place, place + shared)
        return blocks[:, own[:, None], own], blocks[:, own, common], blocks[:, common, common].sum(0)

    def best(self, squares: np.ndarray, counts: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """The best variance for sums of squares (K,) over numbers of entries (K,)."""
        if self.kind == "fixed":
            return {}
        prior = self.strength * rows.x.shape[1]
        if self.kind == "shared":
            squares, counts = squares.sum(), counts.sum()
        spread = float(self.prior_variance(spread_of(rows)))
        total, mass = squares + prior * spread, counts + prior
        # A state without mass gets the prior's variance, and an exact fit a small positive one.
        best = np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), spread)
        return {"variance": np.maximum(best, 1e-12 * max(spread, np.finfo(float).tiny))}

    def prior_variance(self, spread: Any) -> Any:
        """The centre of the prior of variances, for data of variance `spread`."""
        return 0.01 * spread if self.scale is None else self.scale**2


_SEGMENT = 25  # steps: long enough to identify a state, short enough to be within one
_ROWS = 2**22  # entries of weighted regressors at a time


def spread_of(rows: Rows) -> Any:
    """The variance of the observed values, averaged over channels, in NumPy or JAX."""
    weight = 1.0 * rows.counts[:, None]
    return mean_variance(rows.x, weight if rows.observed is None else weight * rows.observed)


def mean_variance(x: Any, weight: Any) -> Any:
    """The variance of each channel of x (R, C), averaged over channels; weights (R, C) or (R, 1)."""
    return channel_moments(x, weight)[1].mean()


def unit_of(rows: Rows) -> np.ndarray:
    """The unit of all channels: their noise has the same variance."""
    return Units.of(np.zeros(()), np.asarray(spread_of(rows))).unit


def starting_shares(rows: Rows, n_states: int, rng: np.random.Generator | None) -> np.ndarray:
    """(R, K) starting weights of rows in states: clusters, or random segments if `rng` is given."""
    labels = _kmeans_labels(rows, n_states) if rng is None else _segment_labels(rows, n_states, rng)
    return (labels[:, None] == np.arange(n_states)).astype(float)


def _kmeans_labels(rows: Rows, n_states: int) -> np.ndarray:
    """(R,) clusters of steps by their values and, if there are lags, by changes since the last."""
    x, lags = np.asarray(rows.x), np.asarray(rows.covariates)
    seen = np.asarray(rows.counts) > 0
    points = x if lags.shape[1] == 0 else np.concatenate([x, x - lags[:, : x.shape[1]]], 1)
    points = points / np.where(points[seen].std(0) > 0, points[seen].std(0), 1.0)
    if len(np.unique(points[seen], axis=0)) < max(n_states, 2):
        return np.arange(len(x)) % n_states
    labels = np.zeros(len(x), int)
    labels[seen] = best_kmeans(points[seen], n_states, np.random.default_rng(0), 4)[1]
    return labels


def _segment_labels(rows: Rows, n_states: int, rng: np.random.Generator) -> np.ndarray:
    """(R,) one state for each of K randomly drawn segments of the data; -1 elsewhere."""
    count = len(rows.x)
    length = max(min(_SEGMENT, count // n_states), 1)
    starts = np.arange(0, count - length + 1, length)
    seen = np.asarray(rows.counts) > 0
    full = np.array([start for start in starts if seen[start : start + length].any()])
    labels = np.full(count, -1)
    for state, start in enumerate(rng.choice(full, n_states, replace=len(full) < n_states)):
        labels[start : start + length] = state
    return labels


def ridge(
    rows: Rows, shares: np.ndarray, variance: np.ndarray, mean: np.ndarray, precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted ridge regressions on covariates and a constant: posterior modes under a normal prior.

    Args:
        rows: the data; missing channels have weight zero.
        shares: (R, K) weights of the rows in each state; unobserved rows have weight zero.
        variance: (K,) of the noise.
        mean: (C, Q + 1) of the prior.
        precision: (Q + 1,) of the prior, zero where it is flat.

    Returns: coefficients (K, C, Q + 1), residual sums of squares (K,) and their numbers of entries (K,).
    """
    x = np.asarray(rows.x)
    design = with_intercept(np.asarray(rows.covariates))
    shares = shares * (np.asarray(rows.counts) > 0)[:, None]
    masks = [None] if rows.observed is None else list(rows.mask().T.astype(float))
    coefficients = np.empty((shares.shape[1], *mean.shape))
    squares, entries = np.zeros(shares.shape[1]), np.zeros(shares.shape[1])
    for channel, mask in enumerate(masks):
        own = slice(None) if mask is None else slice(channel, channel + 1)
        weight = shares if mask is None else shares * mask[:, None]
        grams, moments = _moments(design, weight, x[:, own])
        for state in range(shares.shape[1]):
            penalty = precision * variance[state]
            left = grams[state] + np.diag(penalty)
            right = moments[state] + penalty[:, None] * mean[own].T
            size = np.diag(left)
            left = left + 1e-12 * np.diag(np.where(size > 0, size, max(np.trace(left), 1e-300)))
            coefficients[state, own] = np.linalg.solve(left, right).T
            residual = x[:, own] - design @ coefficients[state, own].T
            squares[state] += weight[:, state] @ (residual**2).sum(1)
            entries[state] += weight[:, state].sum() * residual.shape[1]
    return coefficients, squares, entries


def _moments(design: np.ndarray, weight: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """sum_r w_rk d_r d_r' (K, Q, Q) and sum_r w_rk d_r x_r' (K, Q, C)."""
    states, width = weight.shape[1], design.shape[1]
    both = np.concatenate([design, x], 1)
    total = np.zeros((states * width, both.shape[1]))
    step = max(_ROWS // (states * width), 1)
    for start in range(0, len(design), step):
        some = slice(start, start + step)
        weighted = (weight[some, :, None] * design[some, None]).reshape(-1, states * width)
        total += weighted.T @ both[some]
    total = total.reshape(states, width, -1)
    return total[:, :, :width], total[:, :, width:]
