"""Hessians by differences of gradients, where many gradients at once cost less than tangents of one."""

from __future__ import annotations

import numpy as np

from fitonce.fitting.line_search import Evaluate

_DIFFERENCE = 1e-5  # standard errors: both rounding and curvature of the gradient are small


def hessians_by_differences(
    evaluate: Evaluate, thetas: np.ndarray, gradients: np.ndarray, scale: np.ndarray, folds: np.ndarray
) -> np.ndarray:
    """(n, D, D), accurate to four digits or five.

    Args:
        evaluate: values and gradients.
        thetas, gradients: (n, D), the gradients at the thetas.
        scale: (D,) a standard error of each parameter, the unit of the differences.
        folds: (n,).
    """
    count, size = thetas.shape
    # A parameter that hardly matters has a standard error beyond all values that it might have.
    steps = _DIFFERENCE * np.minimum(scale, np.maximum(np.abs(thetas).max(0), 1.0))
    moved = (thetas[:, None] + np.diag(steps)).reshape(count * size, size)
    _, rows = evaluate(moved, np.repeat(folds, size))
    found = (rows.reshape(count, size, size) - gradients[:, None]) / steps[:, None]
    return 0.5 * (found + np.swapaxes(found, 1, 2))
