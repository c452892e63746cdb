"""Expected densities of counts under normal signals, by quadrature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fitonce.models.space.counts import CountDensity

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)  # on each side of the peak
_DEPTH = 36.0  # nats below the peak: what is beyond is below 1e-15 of the whole
_NEWTON, _DOUBLINGS, _BISECTIONS = 60, 80, 12


def log_expected(
    density: CountDensity, y: np.ndarray, size: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """log of the integral of p(y | eta) N(eta; mean, variance) over eta, without the constant of p; all
    arguments broadcast. The integrand has one peak, on both sides of which it falls ever faster."""
    y, size, mean, variance = np.broadcast_arrays(y, size, mean, variance)

    def height(eta: np.ndarray) -> np.ndarray:
        return density.slopes(y, size, eta).value - 0.5 * (eta - mean) ** 2 / variance

    with np.errstate(all="ignore"):
        peak = _peak(density, y, size, mean, variance)
        top = height(peak)
        unit = 1.0 / np.sqrt(density.slopes(y, size, peak).information + 1.0 / variance)
        total = np.zeros(peak.shape)
        for sign in (-1.0, 1.0):
            far = _distance(height, peak, top, sign * unit)
            for node, weight in zip(_NODES, _WEIGHTS, strict=True):
                at = peak + 0.5 * (node + 1.0) * far
                total += 0.5 * weight * np.abs(far) * np.exp(height(at) - top)
        return top + np.log(total) - 0.5 * np.log(2.0 * np.pi * variance)


def _peak(
    density: CountDensity, y: np.ndarray, size: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Where log p(y | eta) N(eta) is largest: Newton's method between bounds, halving these where it
    would leave them."""
    pull = variance * density.slopes(y, size, mean).first
    low, high = mean + np.minimum(pull, 0.0), mean + np.maximum(pull, 0.0)
    near = density.nearest(y, size)
    at = np.clip(near, low, high)
    for _ in range(_NEWTON):
        found = density.slopes(y, size, at)
        slope = found.first - (at - mean) / variance
        low, high = np.where(slope >= 0, at, low), np.where(slope <= 0, at, high)
        step = slope / (found.information + 1.0 / variance)
        moved = at + step
        inside = (moved >= low) & (moved <= high)
        if not (np.abs(step) > 1e-9 * (1.0 + np.abs(at)))[np.isfinite(step)].any():
            break
        at = np.where(inside, moved, 0.5 * (low + high))
    return at


def _distance(
    height: Callable[[np.ndarray], np.ndarray], peak: np.ndarray, top: np.ndarray, unit: np.ndarray
) -> np.ndarray:
    """How far from the peak, in the direction of `unit`, the integrand is lower by `_DEPTH`, or somewhat
    more."""
    far = 4.0 * unit
    for _ in range(_DOUBLINGS):
        short = top - height(peak + far) < _DEPTH
        if not short.any():
            break
        far = np.where(short, 2.0 * far, far)
    low, high = np.zeros_like(far), far
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        deep = top - height(peak + middle) >= _DEPTH
        low, high = np.where(deep, low, middle), np.where(deep, middle, high)
    return high
