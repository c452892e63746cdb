"""Preconditioned conjugate gradients on many right-hand sides at once, with certified residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

Map = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Solution(NamedTuple):
    """What conjugate gradients found, one row per right-hand side.

    Attributes:
        x: (m, D).
        residuals: (m,) |b - A x| / |b|, in the norm of the preconditioner; computed anew at the end
            where asked for, not from the recursion.
        lowest: (m,) smallest eigenvalue met of A relative to the preconditioner (a Ritz value); where A
            is not positive definite its sign alone counts, and nan where A is not finite.
        iterations: (m,) products with A.
        down: (m, D) a direction of negative curvature where one was met, zeros elsewhere.
    """

    x: np.ndarray
    residuals: np.ndarray
    lowest: np.ndarray
    iterations: np.ndarray
    down: np.ndarray


def conjugate_gradients(
    product: Map,
    rhs: np.ndarray,
    precondition: Map,
    *,
    tolerance: float | np.ndarray,
    most: int,
    certify: bool = False,
) -> Solution:
    """Solve A_i x_i = b_i.

    A row that meets a direction of negative curvature stops where it is, at the preconditioned
    right-hand side if that was the first one; its `lowest` says so.

    Args:
        product: vectors (n, D) and the rows (n,) that they belong to, to A times them.
        rhs: (m, D).
        precondition: the same for an approximate inverse, symmetric and positive definite.
        tolerance: of the residual relative to the right-hand side; a number, or one for each row.
        most: products.
        certify: take one more product each to compute residuals.
    """
    count = len(rhs)
    tolerance = np.broadcast_to(np.asarray(tolerance, float), (count,))
    x, residual, below = np.zeros_like(rhs), np.array(rhs), np.zeros_like(rhs)
    z = precondition(residual, np.arange(count))
    direction, power = z.copy(), _dots(residual, z)
    begin = power.copy()
    lowest, iterations = np.full(count, np.nan), np.zeros(count, int)
    failed = np.zeros(count, bool)
    ritz: list[list[tuple[float, float]]] = [[] for _ in range(count)]
    active = np.flatnonzero((begin > 0) & (tolerance < 1))
    for _ in range(most):
        if active.size == 0:
            break
        image = product(direction[active], active)
        iterations[active] += 1
        curved = _dots(direction[active], image)
        down = ~(curved > 0)
        for row in active[down]:
            bent = float(curved[down][active[down] == row][0])
            failed[row] = not np.isfinite(bent)
            lowest[row] = np.nan if failed[row] else min(bent / max(power[row], 1e-300), 0.0)
            below[row] = direction[row]
            if not ritz[row]:
                x[row] = direction[row]
        active, image, curved = active[~down], image[~down], curved[~down]
        step = power[active] / curved
        x[active] += step[:, None] * direction[active]
        residual[active] -= step[:, None] * image
        z = precondition(residual[active], active)
        after = np.maximum(_dots(residual[active], z), 0.0)
        ratio = after / power[active]
        for row, a, b in zip(active, step, ratio, strict=True):
            ritz[row].append((float(a), float(b)))
        direction[active] = z + ratio[:, None] * direction[active]
        power[active] = after
        active = active[after > tolerance[active] ** 2 * begin[active]]
    for row in np.flatnonzero(np.isnan(lowest) & ~failed):
        lowest[row] = _smallest(ritz[row])
    left = np.sqrt(power / np.where(begin > 0, begin, 1.0))
    if certify:
        left = _residuals(product, precondition, rhs, x, begin)
    return Solution(x, left, lowest, iterations, below)


def _residuals(
    product: Map, precondition: Map, rhs: np.ndarray, x: np.ndarray, begin: np.ndarray
) -> np.ndarray:
    everyone = np.arange(len(rhs))
    rest = rhs - product(x, everyone)
    squares = np.maximum(_dots(rest, precondition(rest, everyone)), 0.0)
    return np.sqrt(squares / np.where(begin > 0, begin, 1.0))


def _dots(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.einsum("md,md->m", left, right)


def _smallest(steps: list[tuple[float, float]]) -> float:
    """The smallest Ritz value: of the tridiagonal matrix that the iteration built."""
    if not steps:
        return float("nan")
    alpha, beta = np.array(steps).T
    diagonal = 1.0 / alpha
    diagonal[1:] += beta[:-1] / alpha[:-1]
    beside = np.sqrt(beta[:-1]) / alpha[:-1]
    return float(linalg.eigvalsh_tridiagonal(diagonal, beside, select="i", select_range=(0, 0))[0])
