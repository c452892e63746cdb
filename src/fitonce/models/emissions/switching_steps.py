"""M steps of switching regressions: the best coefficients at current variances, then these."""

from __future__ import annotations

import numpy as np

from fitonce.models.emissions.closed_channels import COEFFICIENTS, COMMON
from fitonce.models.emissions.closed_forms import Observations
from fitonce.models.emissions.closed_switching import ClosedSwitchingRegression


def best_regressions(
    forms: ClosedSwitchingRegression, variance: np.ndarray, shares: np.ndarray, rows: Observations
) -> dict[str, np.ndarray]:
    """Parameters by name.

    Args:
        forms: which coefficients states share, and the priors.
        variance: (K, C) current ones.
        shares: (R, K) weights of rows in states.
    """
    shares = shares * (rows.counts > 0)[:, None]
    design, weights = forms.design(rows), forms.weights()
    common = forms.once(2)[1, 0, :-1] == 0  # of the columns of the design
    states, channels = variance.shape
    coefficients = np.empty((states, channels, design.shape[1]))
    for channel in range(channels):
        weight = shares * rows.seen[:, channel, None] / variance[:, channel]
        solved = _solved(design, rows.x[:, channel], weight, weights[channel], common)
        coefficients[:, channel] = solved
    residual = (rows.x[:, None] - np.tensordot(design, coefficients, (1, 2))) * rows.seen[:, None]
    squares = np.einsum("rk,rkc->kc", shares, residual**2)
    mass = shares.T @ rows.seen
    if "variance" in forms.common:
        squares, mass = squares.sum(0), mass.sum(0)
    squares, mass = squares + forms.squares, mass + forms.strength
    # A state without mass keeps its variance, and an exact fit gets a small positive one.
    current = variance[0] if "variance" in forms.common else variance
    best = np.where(mass > 0, squares / np.where(mass > 0, mass, 1.0), current)
    best = np.maximum(best, 1e-12 * current)
    return _named(forms, coefficients) | {"variance": best}


def _solved(
    design: np.ndarray, x: np.ndarray, weight: np.ndarray, precision: np.ndarray, common: np.ndarray
) -> np.ndarray:
    """(K, q) the least squares with weights (R, K), some columns of the design in common."""
    states, own = weight.shape[1], np.flatnonzero(~common)
    both = np.flatnonzero(common)
    size = states * len(own) + len(both)
    last = states * len(own) + np.arange(len(both))
    left, right = np.zeros((size, size)), np.zeros(size)
    places = []
    for state in range(states):
        place = np.empty(len(common), int)
        place[own], place[both] = state * len(own) + np.arange(len(own)), last
        weighted = design * weight[:, state, None]
        left[np.ix_(place, place)] += weighted.T @ design
        right[place] += weighted.T @ x
        left[place[own], place[own]] += precision[own]
        places.append(place)
    left[last, last] += precision[both]
    scale = np.diag(left)
    left = left + 1e-12 * np.diag(np.where(scale > 0, scale, max(np.trace(left), 1e-300)))
    return np.linalg.solve(left, right)[np.array(places)]


def _named(forms: ClosedSwitchingRegression, coefficients: np.ndarray) -> dict[str, np.ndarray]:
    """By name, from those (K, C, q) of all states."""
    own, level, found = forms.own, int(forms.level), {}
    if own:
        found[COEFFICIENTS] = coefficients[:, :, :own]
    if level:
        mean = coefficients[:, :, own]
        found["mean"] = mean[0] if "mean" in forms.common else mean
    if COMMON in forms.common:
        found[COMMON] = coefficients[0, :, own + level :]
    return found
