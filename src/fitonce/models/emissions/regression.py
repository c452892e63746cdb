"""What regression emissions start and maximise with: labels of rows, and weighted ridge regressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from fitonce.core.constraints import Constraint, Positive
from fitonce.core.numerics import Array, is_number
from fitonce.core.parameters import Params
from fitonce.models.emissions.base import Rows

Noise = Literal["fixed", "shared", "state"]
NOISES = ("fixed", "shared", "state")
_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class NoiseModel:
    """The variance of what a regression leaves: one number, the same in every channel.

    Args:
        kind: "fixed" at `variance`, "shared" by all states, or one for each "state"; both learned.
        variance: the fixed one.
        strength, scale: log-prior -(strength / 2) C (log v + scale^2 / v) of each learned variance v, C
            the number of channels: `strength` pseudo-observations of spread `scale`. None: a tenth of
            the standard deviation of all the data.
    """

    kind: Noise
    variance: float
    strength: float
    scale: float | None

    def __post_init__(self) -> None:
        if self.kind not in NOISES:
            raise ValueError(f"noise must be one of {NOISES}, got {self.kind!r}")
        if not (is_number(self.variance) and self.variance > 0):
            raise ValueError(f"variance must be a positive number, got {self.variance!r}")
        if not (is_number(self.strength) and self.strength >= 0):
            raise ValueError(f"strength must be a number that is not negative, got {self.strength!r}")
        if self.scale is not None and not (is_number(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be a positive number or None, got {self.scale!r}")

    def parameters(self, n_states: int) -> dict[str, Constraint]:
        if self.kind == "fixed":
            return {}
        return {"variance": Positive((n_states,) if self.kind == "state" else ())}

    def value(self, params: Params) -> Any:
        """A number, or (K,)."""
        return params.get("variance", self.variance)

    def log_prior(self, params: Params, rows: Rows) -> Array:
        if self.kind == "fixed":
            return jnp.zeros(())
        variance, square = params["variance"], self._prior_variance(rows)
        channels = rows.x.shape[1]
        return -0.5 * self.strength * channels * jnp.sum(jnp.log(variance) + square / variance)

    def log_density(self, residual: Array, params: Params, rows: Rows) -> Array:
        """(R, K) of residuals (K, C, R), skipping channels that were not observed."""
        count: Any = residual.shape[1]
        if rows.observed is not None:
            residual = jnp.where(rows.observed.T, residual, 0.0)
            count = jnp.sum(rows.observed, -1)[:, None]
        variance = self.value(params)
        square = jnp.sum(residual**2, 1).T
        return -0.5 * (square / variance + count * (jnp.log(variance) + _LOG_2PI))

    def best(self, squares: np.ndarray, counts: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """The best variance for sums of squares (K,) over so many entries (K,)."""
        if self.kind == "fixed":
            return {}
        prior = self.strength * rows.x.shape[1]
        if self.kind == "shared":
            squares, counts = squares.sum(), counts.sum()
        spread = float(self._prior_variance(rows))
        total, mass = squares + prior * spread, counts + prior
        # A state without mass has nothing to say; one that fits its rows exactly keeps a variance.
        best = np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), spread)
        return {"variance": np.maximum(best, 1e-12 * max(spread, np.finfo(float).tiny))}

    def _prior_variance(self, rows: Rows) -> Any:
        return 0.01 * spread_of(rows) if self.scale is None else self.scale**2


_SEGMENT = 25  # steps: long enough to tell a motion, short enough to hold one
_ROWS = 2**22  # entries of weighted regressors at a time


def spread_of(rows: Rows) -> Array:
    """The mean over channels of the variance of what was observed."""
    weight = (rows.counts > 0)[:, None] & (True if rows.observed is None else rows.observed)
    weight = jnp.broadcast_to(weight, rows.x.shape).astype(rows.x.dtype)
    total = jnp.maximum(weight.sum(0), 1.0)
    mean = (weight * rows.x).sum(0) / total
    return jnp.mean((weight * (rows.x - mean) ** 2).sum(0) / total)


def kmeans_labels(rows: Rows, n_states: int) -> np.ndarray:
    """(R,) clusters of steps by what was observed and, where there are regressors, how it moved."""
    from scipy.cluster.vq import kmeans2

    x, lags = np.asarray(rows.x), np.asarray(rows.covariates)
    seen = np.asarray(rows.counts) > 0
    traits = x if lags.shape[1] == 0 else np.concatenate([x, x - lags[:, : x.shape[1]]], 1)
    traits = traits / np.where(traits[seen].std(0) > 0, traits[seen].std(0), 1.0)
    if len(np.unique(traits[seen], axis=0)) < max(n_states, 2):
        return np.arange(len(x)) % n_states
    rng, best, least = np.random.default_rng(0), np.zeros(0, np.int32), np.inf
    for _ in range(4):
        centres, labels = kmeans2(traits[seen], n_states, minit="++", rng=rng, missing="warn")
        cost = float(((traits[seen] - centres[labels]) ** 2).sum())
        if cost < least:
            best, least = labels, cost
    found = np.zeros(len(x), int)
    found[seen] = best
    return found


def segment_labels(rows: Rows, n_states: int, rng: np.random.Generator) -> np.ndarray:
    """(R,) a state each for K stretches of the data, drawn at random; -1 elsewhere."""
    count = len(np.asarray(rows.x))
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
    """The most likely regressions on covariates and a constant, under a normal prior.

    Args:
        rows: the data; a channel that was not observed in a row does not count there.
        shares: (R, K) weights of the rows in each state; rows that were not observed count nothing.
        variance: (K,) of the noise.
        mean: (C, Q + 1) of the prior.
        precision: (Q + 1,) of the prior, zero where it is flat.

    Returns: (K, C, Q + 1), sums of squares of the residuals (K,), and of how many entries (K,).
    """
    x, counts = np.asarray(rows.x), np.asarray(rows.counts)
    design = np.concatenate([np.asarray(rows.covariates), np.ones((len(x), 1))], 1)
    shares = shares * (counts > 0)[:, None]
    masks = [None] if rows.observed is None else list(np.asarray(rows.observed).T.astype(float))
    found = np.empty((shares.shape[1], *mean.shape))
    squares, entries = np.zeros(shares.shape[1]), np.zeros(shares.shape[1])
    for channel, mask in enumerate(masks):
        own = slice(None) if mask is None else slice(channel, channel + 1)
        weight = shares if mask is None else shares * mask[:, None]
        grams, moments = _moments(design, weight, x[:, own])
        for state in range(shares.shape[1]):
            penalty = precision * variance[state]
            left = grams[state] + np.diag(penalty)
            right = moments[state] + penalty[:, None] * mean[own].T
            left = left + 1e-12 * max(np.trace(left), 1e-300) * np.eye(len(left))
            coefficients = np.linalg.solve(left, right)
            found[state, own] = coefficients.T
        for state in range(shares.shape[1]):
            residual = x[:, own] - design @ found[state, own].T
            squares[state] += weight[:, state] @ (residual**2).sum(1)
            entries[state] += weight[:, state].sum() * residual.shape[1]
    return found, squares, entries


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


def regression_information(
    rows: Rows, shares: np.ndarray, variance: np.ndarray, params: Any, noise: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minus the second derivatives of sum_rk shares[r, k] log p(row r | k) of linear regressions with
    coordinates bias, log variance (where `noise` is "state") and weight.

    With residual e, design d and variance v = exp(n): by coefficients of one channel d d' / v, by those
    and n d e / v, by n alone |e|^2 / (2 v).
    """
    x = np.asarray(rows.x)
    design = np.concatenate([np.asarray(rows.covariates), np.ones((len(x), 1))], 1)
    shares = shares * (np.asarray(rows.counts) > 0)[:, None]
    states, channels, width = shares.shape[1], x.shape[1], design.shape[1]
    variance = np.broadcast_to(variance, (states,))
    weight = np.asarray(params.get("weight", np.zeros((states, channels, 0))))
    own = noise == "state"
    size = channels * width + own
    first = channels + own  # of the weights
    places = np.concatenate(  # of each channel's coefficients, the bias last as in the design
        [first + np.arange(channels * (width - 1)).reshape(channels, -1), np.arange(channels)[:, None]],
        1,
    )
    blocks, tied = np.zeros((states, size, size)), np.zeros((states, size, 1))
    squares = np.zeros(states)
    for state in range(states):
        share = shares[:, state]
        residual = x - design[:, :-1] @ weight[state].T - np.asarray(params["bias"])[state]
        if rows.observed is not None:
            residual = residual * np.asarray(rows.observed)
        gram = None
        for channel in range(channels):
            if gram is None or rows.observed is not None:
                seen = share if rows.observed is None else share * np.asarray(rows.observed)[:, channel]
                gram = (design * seen[:, None]).T @ design / variance[state]
            blocks[state][np.ix_(places[channel], places[channel])] = gram
        cross = (design * share[:, None]).T @ residual / variance[state]  # (Q, C)
        tied[state, places, 0] = cross.T
        squares[state] = 0.5 * float(share @ (residual**2).sum(1)) / variance[state]
    if own:
        blocks[:, channels, :] += tied[..., 0]
        blocks[:, :, channels] += tied[..., 0]
        blocks[:, channels, channels] = squares
    if noise != "shared":
        return blocks, np.zeros((states, size, 0)), np.zeros((0, 0))
    return blocks, tied, np.array([[squares.sum()]])
