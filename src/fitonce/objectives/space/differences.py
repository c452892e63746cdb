"""Derivatives along theta by differences, of folds side by side: further rows of a pass are cheap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_NEAR = 1e-5  # a first step, which tells the curvature and so the size of the others
_MOVES, _SHARES = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / 12.0

Work = Callable[[np.ndarray, np.ndarray], np.ndarray]


def along_theta(
    work: Work, gradients: Work, thetas: np.ndarray, weights: np.ndarray, far: float
) -> np.ndarray:
    """(F, D, ...) derivatives of work(thetas, weights) (F, ...) by theta, from four values each.

    Args:
        work: what is differentiated.
        gradients: (F, D) those of the objective, which tell the standard error of each parameter.
        thetas, weights: (F, D) and (F, P).
        far: the steps, in standard errors.
    """
    folds, size = thetas.shape
    if not size:  # all is known
        return np.zeros((folds, 0, *work(thetas, weights).shape[1:]))
    steps = far / np.sqrt(np.maximum(_curvature(gradients, thetas, weights), 1.0))
    moves = _MOVES[:, None, None] * np.eye(size)
    at = thetas[:, None, None] + moves * steps[:, None, :, None]
    found = work(at.reshape(-1, size), np.repeat(weights, 4 * size, 0))
    found = found.reshape(folds, 4, size, *found.shape[1:])
    slopes = np.einsum("k,fkd...->fd...", _SHARES, found)
    return slopes / steps.reshape(*steps.shape, *(1,) * (slopes.ndim - 2))


def _curvature(gradients: Work, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(F, D) along each coordinate, zero where it is not known."""
    folds, size = thetas.shape
    near = _NEAR * np.eye(size)
    at = np.concatenate([thetas[:, None] + near, thetas[:, None] - near], 1).reshape(-1, size)
    slopes = gradients(at, np.repeat(weights, 2 * size, 0)).reshape(folds, 2, size, size)
    return np.nan_to_num(np.abs(np.einsum("fdd->fd", slopes[:, 0] - slopes[:, 1])) / (2.0 * _NEAR))
