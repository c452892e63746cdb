"""The Cholesky factor of a Hessian, and what it tells: steps, distances and the smallest eigenvalue.

A factor takes a twentieth of the time of eigenvalues. Those are left to matrices of which a factor does
not tell whether they are positive definite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg
from scipy.linalg import lapack
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from fitonce.core.numerics import lengths_of

_DIGITS, _FEW_DIGITS, _LARGE = 1e-8, 1e-2, 2000  # of eigenvalues, by the number of parameters
_POWERS = 20  # of an inverse, which leave the eigenvector of its largest eigenvalue


@dataclass(frozen=True, eq=False)
class Factor:
    """Of a positive definite matrix, scaled to a unit diagonal.

    Attributes:
        lower: (D, D) its lower triangle.
        scale: (D,) square roots of the diagonal.
        sharpness: one over the condition number of the scaled matrix, estimated.
    """

    lower: np.ndarray
    scale: np.ndarray
    sharpness: float

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """The inverse times columns (D,) or (D, m)."""
        scale = self.scale.reshape(-1, *(1,) * (rhs.ndim - 1))
        return linalg.cho_solve((self.lower, True), rhs / scale, check_finite=False) / scale

    def length(self, gradient: np.ndarray) -> float:
        """|g|_{H^-1}, the length of the Newton step in standard errors."""
        whitened = linalg.solve_triangular(
            self.lower, gradient / self.scale, lower=True, check_finite=False
        )
        return float(lengths_of(whitened))

    @cached_property
    def lowest(self) -> float:
        """The smallest eigenvalue of the matrix itself."""
        return lowest_eigenvalue(self.solve, len(self.scale))


def factor_of(matrix: np.ndarray) -> Factor | None:
    """The factor; None where the matrix is not finite, or not clearly positive definite: then only its
    eigenvalues can tell."""
    diagonal = np.diag(matrix)
    if not ((diagonal > 0).all() and np.isfinite(matrix.sum())):
        return None
    scale = np.sqrt(diagonal)
    scaled = matrix / np.outer(scale, scale)
    lower, failed = lapack.dpotrf(scaled, lower=1, clean=1)
    if failed:
        return None
    sharpness, _ = lapack.dpocon(lower, np.abs(scaled).sum(0).max(), uplo="L")
    if not sharpness > np.finfo(float).eps * len(scale):
        return None
    return Factor(lower, scale, float(sharpness))


def lowest_eigenvalue(solve: Callable[[np.ndarray], np.ndarray], size: int) -> float:
    """Of a positive definite matrix, by the Lanczos method on its inverse."""
    if size == 1:
        return float(1.0 / solve(np.ones(1))[0])

    def product(vector: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # eigenvalues of H below the smallest number
            return solve(vector.ravel())

    operator = LinearOperator((size, size), matvec=product, dtype=float)
    start = np.random.default_rng(0).normal(size=size)
    digits = _FEW_DIGITS if size > _LARGE else _DIGITS
    try:
        found = float(1.0 / eigsh(operator, 1, which="LM", tol=digits, v0=start)[0][0])
    except ArpackError:  # mostly: one eigenvalue of the inverse makes the others rounding
        found = _by_powers(solve, start)
    return found if np.isfinite(found) else 0.0  # of an inverse that overflows


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _by_powers(solve: Callable[[np.ndarray], np.ndarray], vector: np.ndarray) -> float:
    """The same by powers of the inverse; nan where these overflow."""
    for _ in range(_POWERS):
        vector = solve(vector)
        vector = vector / lengths_of(vector)
    return float(1.0 / (vector @ solve(vector)))
