"""Preconditioned conjugate gradients on many right-hand sides at once, with certified residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

Map = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Solution(NamedTuple):
    """Solutions, one row per right-hand side.

    Attributes:
        x: (m, D).
        residuals: (m,) |b - A x| / |b|, in the norm of the preconditioner; from the recursion, or with
            `certify` from one more product.
        lowest: (m,) smallest Ritz value of A relative to the preconditioner; only its sign is meaningful
            where A is not positive definite, and nan where A is not finite.
        iterations: (m,) products with A.
        down: (m, D) a direction of negative curvature where one was found, zeros elsewhere.
        sizes: (m,) of x, in the norm of the preconditioner's inverse.
        edges: (m,) whether x ended on the boundary of its trust region.
        falls: (m,) the decrease of x'Ax/2 - b'x at x; without the curvature term where that is negative
            and there is no boundary.
    """

    x: np.ndarray
    residuals: np.ndarray
    lowest: np.ndarray
    iterations: np.ndarray
    down: np.ndarray
    sizes: np.ndarray
    edges: np.ndarray
    falls: np.ndarray


@np.errstate(over="ignore", invalid="ignore")  # rows that overflow are lost, and stay where they are
def conjugate_gradients(
    product: Map,
    rhs: np.ndarray,
    precondition: Map,
    *,
    tolerance: float | np.ndarray,
    most: int,
    radii: float | np.ndarray = np.inf,
    certify: bool = False,
) -> Solution:
    """Solve A_i x_i = b_i, within a trust region (Steihaug's method).

    A row that finds a direction of negative curvature follows it to the boundary and stops, with
    `lowest` not positive. Without a boundary it stops where it is, or at the preconditioned right-hand
    side if that was the first direction.

    Args:
        product: vectors (n, D) and their rows (n,), to A times the vectors.
        rhs: (m, D).
        precondition: the same for an approximate inverse, symmetric and positive definite.
        tolerance: of the residual relative to the right-hand side; a number, or one for each row.
        most: largest number of products.
        radii: of the trust regions, in the norm of the preconditioner's inverse; a number, or one for
            each row.
        certify: compute residuals from one more product each.
    """
    count = len(rhs)
    tolerance = np.broadcast_to(np.asarray(tolerance, float), (count,))
    x, residual = np.zeros_like(rhs), np.array(rhs)
    z = precondition(residual, np.arange(count))
    direction, power = z.copy(), dots(residual, z)
    begin = power.copy()
    region = _TrustRegion(np.broadcast_to(np.asarray(radii, float), (count,)), power)
    known, iterations, falls = _Curvatures(rhs.shape), np.zeros(count, int), np.zeros(count)
    active = np.flatnonzero((begin > 0) & (tolerance < 1))
    for _ in range(most):
        if active.size == 0:
            break
        image = product(direction[active], active)
        iterations[active] += 1
        curved = dots(direction[active], image)
        down = ~(curved > 0)
        known.negative(active[down], curved[down] / np.maximum(power[active[down]], 1e-300), direction)
        # A step that would leave the region, or has no positive curvature, ends on the boundary.
        wanted = np.where(down, np.inf, power[active] / np.where(down, 1.0, curved))
        step = np.minimum(wanted, region.to_edge(active))
        lost = down & (known.failed[active] | ~np.isfinite(step))
        first = lost & (iterations[active] == 1) & ~known.failed[active]
        step[lost], step[first] = 0.0, 1.0
        taken = step != 0.0  # a lost row may have a direction that is not finite
        gone, size = active[taken], step[taken]
        falls[gone] += size * (power[gone] - 0.5 * size * np.where(lost, 0.0, curved)[taken])
        x[gone] += size[:, None] * direction[gone]
        inside = step == wanted
        cut = ~inside & ~down  # the curvature counts, though the step was cut
        known.positive(active[cut], wanted[cut], np.zeros(cut.sum()))
        region.move(active, step, ~inside & ~lost)
        active, image, step = active[inside], image[inside], step[inside]
        residual[active] -= step[:, None] * image
        z = precondition(residual[active], active)
        after = np.maximum(dots(residual[active], z), 0.0)
        ratio = after / power[active]
        known.positive(active, step, ratio)
        direction[active] = z + ratio[:, None] * direction[active]
        region.turn(active, ratio, after)
        power[active] = after
        active = active[after > tolerance[active] ** 2 * begin[active]]
    if certify:
        everyone = np.arange(count)
        rest = rhs - product(x, everyone)
        power = np.maximum(dots(rest, precondition(rest, everyone)), 0.0)
    left = np.sqrt(power / np.where(begin > 0, begin, 1.0))
    sizes = np.sqrt(region.size)
    return Solution(x, left, known.lowest(), iterations, known.down, sizes, region.edge, falls)


class _Curvatures:
    """What products with A told of it, for each row.

    Attributes:
        failed: (m,) whether A is not finite.
        down: (m, D) a direction of negative curvature where one was found, zeros elsewhere.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.failed, self.down = np.zeros(shape[0], bool), np.zeros(shape)
        self._negative = np.full(shape[0], np.nan)
        self._lanczos: list[list[tuple[float, float]]] = [[] for _ in range(shape[0])]

    def negative(self, rows: np.ndarray, relative: np.ndarray, directions: np.ndarray) -> None:
        """Curvatures (n,) of rows along their directions (m, D), relative to the preconditioner."""
        self.failed[rows] = ~np.isfinite(relative)
        self._negative[rows] = np.where(self.failed[rows], np.nan, np.minimum(relative, 0.0))
        self.down[rows] = directions[rows]

    def positive(self, rows: np.ndarray, steps: np.ndarray, ratios: np.ndarray) -> None:
        """Steps (n,) of rows, and ratios (n,) of their residuals after and before."""
        for row, step, ratio in zip(rows, steps, ratios, strict=True):
            self._lanczos[row].append((float(step), float(ratio)))

    def lowest(self) -> np.ndarray:
        """(m,) see `Solution`."""
        found = self._negative.copy()
        for row in np.flatnonzero(np.isnan(found) & ~self.failed):
            found[row] = _smallest(self._lanczos[row])
        return found


class _TrustRegion:
    """Lengths of solutions by recursions, as only the inverse M^-1 of the norm's matrix is available."""

    def __init__(self, radii: np.ndarray, power: np.ndarray) -> None:
        self.radii = radii
        self.size, self.along = np.zeros((2, len(radii)))  # x'Mx and x'Md
        self.stride = power.copy()  # d'Md
        self.edge = np.zeros(len(radii), bool)

    def to_edge(self, rows: np.ndarray) -> np.ndarray:
        """(n,) how many multiples of the direction lead from x to the boundary."""
        stride, along = np.maximum(self.stride[rows], 1e-300), self.along[rows]
        left = np.maximum(self.radii[rows] ** 2 - self.size[rows], 0.0)
        return (np.sqrt(along**2 + stride * left) - along) / stride

    def move(self, rows: np.ndarray, step: np.ndarray, edge: np.ndarray) -> None:
        self.size[rows] += step * (2.0 * self.along[rows] + step * self.stride[rows])
        self.along[rows] += step * self.stride[rows]
        self.edge[rows] = edge

    def turn(self, rows: np.ndarray, ratio: np.ndarray, power: np.ndarray) -> None:
        self.along[rows] *= ratio
        self.stride[rows] = power + ratio**2 * self.stride[rows]


def dots(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(m,) inner products of the rows of two arrays (m, D)."""
    return np.einsum("md,md->m", left, right)


def _smallest(steps: list[tuple[float, float]]) -> float:
    """The smallest Ritz value: the smallest eigenvalue of the tridiagonal Lanczos matrix."""
    if not steps:
        return float("nan")
    alpha, beta = np.array(steps).T
    diagonal = 1.0 / alpha
    diagonal[1:] += beta[:-1] / alpha[:-1]
    off = np.sqrt(beta[:-1]) / alpha[:-1]
    return float(linalg.eigvalsh_tridiagonal(diagonal, off, select="i", select_range=(0, 0))[0])
