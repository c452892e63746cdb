"""H and J in one pass, and H factored once for all folds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fitonce.core import memory
from fitonce.core.arguments import require, require_flag, require_number
from fitonce.core.chunks import stretches
from fitonce.core.renamed import deprecated
from fitonce.fitting.fit import Fit
from fitonce.fitting.hessian import HessianOperator
from fitonce.fitting.required import require_a_fit
from fitonce.objectives import schemes
from fitonce.objectives.base import Objective
from fitonce.objectives.schemes import Scheme


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivatives of F at a fit. J and the factor of H are computed at first use.

    Attributes:
        theta: (D,) the fit.
        hessian_operator: H, d2F / dtheta dtheta', to multiply and to solve with, plus `damping`.
        gradient: (D,) at the fit; rounding level when the fit is stationary.
        names: of the D coordinates.
        damping: added to the diagonal of H before factoring, 0 by default.
        ignored: (D,) the part of the gradient that steps from here do not correct for, 0 by default.
        objective: F along the scheme's path.
        memory_limit: of J.
    """

    theta: np.ndarray
    hessian_operator: HessianOperator
    gradient: np.ndarray
    names: list[str]
    damping: float
    ignored: np.ndarray
    objective: Objective = field(repr=False)
    memory_limit: float | str | None = field(default=None, repr=False)

    @property
    def H(self) -> np.ndarray:  # noqa: N802 - the paper's letter
        """(D, D), without damping."""
        return self.hessian_operator.matrix()

    @property
    def hessian(self) -> HessianOperator:
        """Deprecated: `hessian_operator`."""
        deprecated("Curvature.hessian", "Curvature.hessian_operator, or Curvature.H for the array")
        return self.hessian_operator

    @cached_property
    def J(self) -> np.ndarray:  # noqa: N802 - the paper's letter
        """(D, P), d2F / dtheta du, u the path coordinates of the scheme: one per site (A, B), per
        site and then per transition (B with per_transition), or per sequence."""
        with memory.limited(self.memory_limit):
            size = 8.0 * len(self.theta) * len(self.objective.base)
            memory.hold(size, f"J, {len(self.theta):,} x {len(self.objective.base):,}")
            return self.objective.cross(self.theta)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """H^-1 rhs, for rhs (D,) or (D, m)."""
        rhs = np.asarray(rhs, float)
        if rhs.shape[:1] != self.gradient.shape:
            raise ValueError(f"rhs must have {len(self.gradient)} rows, got shape {rhs.shape}")
        return self.hessian_operator.solve(rhs)

    def distances_to(self, thetas: np.ndarray) -> np.ndarray:
        """(F,) distances of thetas (F, D) from the fit, in standard errors; nan where H is negative."""
        squares = np.empty(len(thetas))
        for some in stretches(len(thetas), 32.0 * len(self.theta), "a vector of parameters"):
            moves = thetas[some] - self.theta
            squares[some] = np.einsum("fi,if->f", moves, self.hessian_operator.product(moves.T))
        return np.sqrt(np.where(squares >= 0, squares, np.nan))

    def steps(self, gradients: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """(F, D) H^-1 g of gradients (F, D), with H scaled by the share that each fold keeps (F,)."""
        finite = np.isfinite(gradients).all(1)
        steps = np.full_like(gradients, np.nan)
        if finite.any():
            solved = self.hessian_operator.solve_roughly(gradients[finite].T)
            steps[finite] = solved.T / kept[finite, None]
        return steps

    @cached_property
    def inverse(self) -> np.ndarray:
        """(D, D) H^-1, the asymptotic covariance of the free parameters."""
        inverse = self.solve(np.eye(len(self.theta)))
        return 0.5 * (inverse + inverse.T)

    @property
    def scale(self) -> np.ndarray:
        """(D,) standard errors of the free parameters."""
        return np.sqrt(np.diag(self.inverse))


def curvature(
    fit: Fit,
    scheme: str | Scheme | None = None,
    *,
    damping: float = 0.0,
    residual: bool = True,
    memory_limit: float | str | None = None,
) -> Curvature:
    """H and J at a fit, along a weighting scheme's path.

    Args:
        fit: a `Fit`.
        scheme: "A", "B", "C", "structures", or a scheme from `fo.schemes`; None: the model's default for
            points.
        damping: added to the diagonal of H before it is factored. Only for an H that is not positive
            definite: results are then those of a regularised problem.
        residual: whether steps from here also correct for the remaining gradient of the fit.
        memory_limit: what J, which is computed at its first use, may add to the memory of this process,
            in bytes or as text such as "2GB"; None: half of this machine's memory.
    """
    memory.checked_limit(memory_limit)
    require_a_fit(fit)
    along = schemes.resolve_scheme(scheme, None, fit.objective.scheme)
    found = curvature_of(fit, fit.objective.with_scheme(along), damping, residual)
    return found if memory_limit is None else replace(found, memory_limit=memory_limit)


def curvature_of(
    fit: Fit, objective: Objective, damping: float = 0.0, residual: bool = True
) -> Curvature:
    """The same along the path of an objective of this fit."""
    require_number("damping", damping, least=0)
    require(damping <= 1e100, "damping", "at most 1e100", damping)
    require_flag("residual", residual)
    require(isinstance(residual, (bool, np.bool_)), "residual", "True or False", residual)
    ignored = np.zeros_like(fit.gradient) if residual else fit.gradient
    operator = fit.hessian_operator.with_damping(float(damping))
    return Curvature(fit.theta, operator, fit.gradient, fit.names, damping, ignored, objective)
