"""H as a linear operator: a matrix that is factored once, or products only.

A large `DenseHessian` is factored in place: LAPACK writes the factor into one triangle and leaves H in
the other, so that both take the memory of one matrix. An `ImplicitHessian` is never formed: it solves by
preconditioned conjugate gradients, and every solution has a certified residual.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from threading import RLock
from typing import Any, Protocol

import numpy as np
from scipy import linalg
from scipy.linalg import blas, lapack

from fitonce.core.deferred import float64, jax, jnp
from fitonce.core.numerics import Array, in_float64
from fitonce.core.wording import counted
from fitonce.fitting.certificate import flat_direction
from fitonce.fitting.conjugate_gradients import conjugate_gradients
from fitonce.fitting.factor import Factor, factor_of, lowest_eigenvalue
from fitonce.objectives.base import Objective

LARGE = 2000  # parameters: beyond, eigenvalues of H and copies of it cost more than a fit
PRODUCTS_PAY = 50  # parameters: beyond, a few products with H do more for Newton's method than H itself
_SOLVED = 1e-9  # relative residual of a solution by products
_ROUGHLY = 1e-2  # the same of a step that is judged by what it does
_MOST_PRODUCTS = 1000
_REMEDY = "fit to a minimum, add a prior, or pass damping="


class IndefiniteError(ValueError):
    """H has a flat or downhill direction, so the fit is not a minimum."""


class UnsolvedError(ValueError):
    """Conjugate gradients did not reach their tolerance."""


class Factored(ABC):
    """A positive definite H with a factor: smallest eigenvalues by the Lanczos method on the inverse."""

    names: list[str]

    @property
    @abstractmethod
    def diagonal(self) -> np.ndarray: ...

    @abstractmethod
    def solve(self, rhs: np.ndarray) -> np.ndarray: ...

    @cached_property
    def lowest(self) -> float:
        """The smallest eigenvalue; of a large H to two digits."""
        return self._lowest(np.ones(len(self.names)))

    @cached_property
    def lowest_scaled(self) -> float:
        """The same for H scaled to a unit diagonal, which does not depend on units."""
        return self._lowest(np.sqrt(self.diagonal))

    def _lowest(self, scale: np.ndarray) -> float:
        return lowest_eigenvalue(lambda vector: scale * self.solve(scale * vector), len(scale))


class HessianOperator(Protocol):
    """H at a fit; vectors are columns, (D,) or (D, m)."""

    @property
    def dense(self) -> bool:
        """Whether H is a matrix."""
        ...

    def matrix(self) -> np.ndarray:
        """(D, D)."""
        ...

    def product(self, vectors: np.ndarray) -> np.ndarray: ...

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """H^-1 rhs; raises `IndefiniteError` or `UnsolvedError`."""
        ...

    def solve_roughly(self, rhs: np.ndarray) -> np.ndarray:
        """The same to two digits where that is cheaper: for steps that are judged by what they do."""
        ...

    def precondition(self, rhs: np.ndarray) -> np.ndarray:
        """H^-1 rhs, or a cheap approximation."""
        ...

    def with_damping(self, damping: float) -> HessianOperator:
        """H plus a multiple of the identity."""
        ...


class DenseHessian(Factored):
    """A matrix H of a model with parameters `names`.

    Args:
        matrix: (D, D), symmetric, or a function that forms it, which is called once, at the first use.
            With more than `LARGE` rows it is overwritten by its factor.
        names: of the D parameters.
        damping: added to the diagonal where it is solved with.
        factor: of the matrix, where there is one already.
    """

    dense = True

    def __init__(
        self,
        matrix: np.ndarray | Callable[[], np.ndarray],
        names: list[str],
        damping: float = 0.0,
        factor: Factor | None = None,
    ) -> None:
        self._given, self.names, self.damping = matrix, names, damping
        self._in_place, self._forming = len(names) > LARGE, RLock()
        if factor is not None and not damping and not self._in_place:
            self._factor = factor

    @cached_property
    def _matrix(self) -> np.ndarray:
        with self._forming:
            if callable(self._given):
                self._given = self._given()  # whoever forms it need not be kept
            return self._given

    @cached_property
    def _diagonal(self) -> np.ndarray:
        return np.diag(self._matrix) + self.damping

    @property
    def _overwritten(self) -> bool:
        return self._in_place and "_factor" in self.__dict__

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name != "_forming"}
        return kept | {"_given": self._matrix}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _forming=RLock())

    def with_damping(self, damping: float) -> DenseHessian:
        if damping == self.damping:
            return self
        matrix = self.matrix()
        copied = self._in_place and matrix is self._matrix  # the other one will be overwritten
        return DenseHessian(matrix.copy() if copied else matrix, self.names, damping)

    def matrix(self) -> np.ndarray:
        """H, without damping."""
        if not self._overwritten:
            return self._matrix
        whole = np.tril(self._matrix, -1)
        whole += whole.T
        np.fill_diagonal(whole, self._diagonal - self.damping)
        return whole

    @property
    def diagonal(self) -> np.ndarray:
        return self._diagonal

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """H times vectors, without damping."""
        if not self._overwritten:
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is said elsewhere
                return self._matrix @ vectors
        columns = np.asfortranarray(vectors.reshape(len(vectors), -1))
        found = blas.dsymm(1.0, self._matrix.T, columns, side=0, lower=0)
        gap = self._diagonal - self.damping - np.diag(self._matrix)
        return (found + gap[:, None] * columns).reshape(vectors.shape)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        factor = self._factor
        if isinstance(factor, Factor):
            return factor.solve(rhs)
        return linalg.cho_solve(factor, rhs, check_finite=False)

    precondition = solve_roughly = solve

    @cached_property
    def _factor(self) -> Any:
        finite = np.isfinite(self._matrix.sum(1))
        if not finite.all():
            bad = self.names[int(np.flatnonzero(~finite)[0])]
            raise IndefiniteError(f"H is not finite at '{bad}'; the fit is at an impossible point")
        return self._large() if self._in_place else self._small()

    def _small(self) -> Any:
        hessian = self._matrix + self.damping * np.eye(len(self._matrix))
        factor = factor_of(hessian)
        if factor is not None:
            return factor
        flat = flat_direction(hessian, self.names)
        if flat is not None:
            raise IndefiniteError(
                f"H is not positive definite: smallest eigenvalue {np.linalg.eigvalsh(hessian)[0]:.1e}, "
                f"flat or downhill along {flat}; {_REMEDY}"
            )
        return linalg.cho_factor(hessian, lower=True)

    def _large(self) -> Any:
        """The factor in the upper triangle; LAPACK reads the transpose of the matrix."""
        diagonal = self._diagonal  # before it is overwritten
        if self.damping:
            np.fill_diagonal(self._matrix, diagonal)
        if not self._matrix.flags.c_contiguous:
            self._matrix = np.ascontiguousarray(self._matrix)
        factor, info = lapack.dpotrf(self._matrix.T, lower=1, overwrite_a=1, clean=0)
        if info > 0:
            lower = np.tril(self._matrix, -1)  # the triangle that was not overwritten
            self._matrix = lower + lower.T
            np.fill_diagonal(self._matrix, self._diagonal - self.damping)
            raise IndefiniteError(
                "H is not positive definite: its Cholesky factorisation fails at "
                f"'{self.names[info - 1]}'; {_REMEDY}"
            )
        return factor, True


class DeviceHessian(Factored):
    """A matrix H that stays on the accelerator and is factored there."""

    dense = True

    def __init__(self, matrix: Array, names: list[str], damping: float = 0.0) -> None:
        self._matrix, self.names, self.damping = matrix, names, damping

    def with_damping(self, damping: float) -> DeviceHessian:
        return self if damping == self.damping else DeviceHessian(self._matrix, self.names, damping)

    def matrix(self) -> np.ndarray:
        """H, without damping."""
        return np.asarray(self._matrix)

    @property
    def diagonal(self) -> np.ndarray:
        with float64():
            return np.asarray(jnp.diagonal(self._matrix)) + self.damping

    @in_float64
    def product(self, vectors: np.ndarray) -> np.ndarray:
        """H times vectors, without damping."""
        return np.asarray(self._matrix @ jax.device_put(vectors))

    @in_float64
    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return np.asarray(jax.scipy.linalg.cho_solve((self._factor, True), jax.device_put(rhs)))

    precondition = solve_roughly = solve

    @cached_property
    def _factor(self) -> Array:
        with float64():
            matrix = self._matrix
            if self.damping:
                matrix = matrix + self.damping * jnp.eye(len(self.names))
            factor = jnp.linalg.cholesky(matrix)
            finite = bool(jnp.isfinite(jnp.diagonal(factor)).all())
        if not finite:
            raise IndefiniteError(f"H is not positive definite; {_REMEDY}")
        return factor


class ImplicitHessian:
    """H of an objective, by products only.

    Attributes:
        iterations: of the last solve, the most of any right-hand side.
        residual: of the last solve, the largest relative residual.
    """

    dense = False

    def __init__(
        self, objective: Objective, theta: np.ndarray, precondition: Any = None, damping: float = 0.0
    ) -> None:
        self.objective, self.theta, self.damping = objective, theta, damping
        self._inverse = precondition or objective.preconditioner(theta)
        self.iterations, self.residual = 0, 0.0

    def with_damping(self, damping: float) -> ImplicitHessian:
        if damping == self.damping:
            return self
        return ImplicitHessian(self.objective, self.theta, self._inverse, damping)

    def matrix(self) -> np.ndarray:
        """Form H."""
        return self.objective.hessians(self.theta[None], self.objective.base[None])[0]

    def product(self, vectors: np.ndarray) -> np.ndarray:
        columns = vectors.reshape(len(vectors), -1)
        return self.objective.products_at(self.theta, columns.T).T.reshape(vectors.shape)

    def precondition(self, rhs: np.ndarray) -> np.ndarray:
        return self._inverse(rhs.reshape(len(rhs), -1)).reshape(rhs.shape)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return self._solve(rhs, _SOLVED)

    def solve_roughly(self, rhs: np.ndarray) -> np.ndarray:
        return self._solve(rhs, _ROUGHLY)

    def _solve(self, rhs: np.ndarray, enough: float) -> np.ndarray:
        columns = rhs.reshape(len(rhs), -1)
        found = conjugate_gradients(
            lambda v, _: self.objective.products_at(self.theta, v) + self.damping * v,
            columns.T,
            lambda v, _: self._inverse(v.T).T,
            tolerance=0.3 * enough,
            most=_MOST_PRODUCTS,
            certify=True,
        )
        self.iterations, self.residual = int(found.iterations.max()), float(found.residuals.max())
        if (found.lowest <= 0).any():
            raise IndefiniteError(
                "H is not positive definite: conjugate gradients found a direction without positive "
                f"curvature; {_REMEDY}"
            )
        if not self.residual <= enough:
            raise UnsolvedError(
                f"conjugate gradients reached a relative residual of {self.residual:.1e} after "
                f"{counted(self.iterations, 'product')} with H, but {enough:.0e} is required; add a "
                "prior, pass damping=, or raise memory_limit= so that H can be formed"
            )
        return found.x.T.reshape(rhs.shape)
