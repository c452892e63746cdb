"""Coordinates whose best value is infinite, as the log rate of a state that has no counts.

There F falls as exp(-|theta|) to what it is on the boundary. Slope and curvature are alike, so that
Newton steps have length one for ever, and what is left to gain is the slope, in nats.
"""

from __future__ import annotations

import numpy as np

_LEFT, _NOTHING_LEFT = 1e-4, 1e-9  # nats in a tail: few enough to go to its end, and as good as none
_ALIKE = 0.1  # how far slope and curvature may differ, relative to the slope
# Where to: losses of what is left out may depend on how small a rate is. A proportion near one is known
# to the rounding of one, so that its log-odds end earlier.
_DOWN, _UP, _AT_END = 60.0, 12.0, 1e-18


def towards_ends(step: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """A Newton step (D,), but to the ends of tails."""
    down = _in_tail(gradient, hessian, _AT_END, _LEFT) & (gradient > 0)
    up = _in_tail(gradient, hessian, _NOTHING_LEFT, _LEFT) & (gradient < 0)
    return np.where(down, -_DOWN, np.where(up, _UP, step))


def without_ends(gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """(D,) zero where nothing is left to gain at the end of a tail."""
    return np.where(_in_tail(gradient, hessian, 0.0, _NOTHING_LEFT), 0.0, gradient)


def _in_tail(gradient: np.ndarray, hessian: np.ndarray, low: float, high: float) -> np.ndarray:
    slopes = np.abs(gradient)
    alike = np.abs(np.diagonal(hessian) - slopes) < _ALIKE * slopes
    return (slopes > low) & (slopes <= high) & alike
