"""H and J in one pass, and H factored once for all folds."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from fitonce import weighting
from fitonce.fit import Fit
from fitonce.newton import flat_direction
from fitonce.objective import Objective
from fitonce.weighting import Scheme


class IndefiniteError(ValueError):
    """H has a direction that is flat or goes downhill, so the fit is not a minimum."""


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivatives of F at a fit. J and the factor of H are computed when first asked for.

    Attributes:
        theta: (D,) the fit.
        H: (D, D), d2F / dtheta dtheta'.
        gradient: (D,) at the fit; rounding level when the fit is stationary.
        names: of the D coordinates.
        damping: what is added to the diagonal of H before factoring, 0 unless asked for.
        ignored: (D,) what of the gradient steps from here take no notice of, 0 unless asked for.
        objective: F along the scheme's path.
    """

    theta: np.ndarray
    H: np.ndarray
    gradient: np.ndarray
    names: list[str]
    damping: float
    ignored: np.ndarray
    objective: Objective = field(repr=False)

    @cached_property
    def J(self) -> np.ndarray:  # noqa: N802 - the paper's letter
        """(D, P), d2F / dtheta du, u the path coordinates of the scheme: one per site (A, B), per
        site and then per transition (B with per_transition), or per sequence."""
        return self.objective.cross(self.theta)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """H^-1 rhs, for rhs (D,) or (D, m)."""
        rhs = np.asarray(rhs, float)
        if rhs.shape[:1] != self.gradient.shape:
            raise ValueError(f"rhs must have {len(self.gradient)} rows, got shape {rhs.shape}")
        return linalg.cho_solve(self._factor, rhs)

    def way_to(self, thetas: np.ndarray) -> np.ndarray:
        """(F,) how far thetas (F, D) are from the fit, in standard errors; nan along no curvature."""
        moves = thetas - self.theta
        squares = np.einsum("fi,ij,fj->f", moves, self.H, moves)
        return np.sqrt(np.where(squares >= 0, squares, np.nan))

    @cached_property
    def inverse(self) -> np.ndarray:
        """(D, D) H^-1: the covariance of the parameters, as far as H tells."""
        inverse = self.solve(np.eye(len(self.H)))
        return 0.5 * (inverse + inverse.T)

    @property
    def scale(self) -> np.ndarray:
        """(D,) standard errors of the free parameters."""
        return np.sqrt(np.diag(self.inverse))

    @cached_property
    def _factor(self) -> Any:
        hessian = self.H + self.damping * np.eye(len(self.H))
        if not np.isfinite(hessian).all():
            bad = self.names[int(np.flatnonzero(~np.isfinite(hessian).all(1))[0])]
            raise IndefiniteError(f"H is not finite at '{bad}'; the fit is at an impossible point")
        flat = flat_direction(hessian, self.names)
        if flat is not None:
            raise IndefiniteError(
                f"H is not positive definite: smallest eigenvalue {np.linalg.eigvalsh(hessian)[0]:.1e}, "
                f"flat or downhill along {flat}; fit to a minimum, add a prior, or pass damping="
            )
        return linalg.cho_factor(hessian, lower=True)


def curvature(
    fit: Fit, scheme: str | Scheme | None = None, *, damping: float = 0.0, residual: bool = True
) -> Curvature:
    """H and J at a fit, along a weighting scheme's path.

    Args:
        fit: a `Fit`.
        scheme: "A", "B", "C", "structures", or a scheme from `fo.weighting`; None: the model's usual one
            for points.
        damping: added to the diagonal of H before it is factored. Only for an H that is not positive
            definite: results are then those of a regularised problem.
        residual: whether steps from here also correct for the gradient that the fit left.
    """
    if not isinstance(fit, Fit):
        raise ValueError(f"fit must be a Fit from fo.fit, got {type(fit).__name__}")
    if not (isinstance(damping, (int, float)) and 0 <= damping < np.inf):
        raise ValueError(f"damping must be a number that is not negative, got {damping!r}")
    if not isinstance(residual, (bool, np.bool_)):
        raise ValueError(f"residual must be True or False, got {residual!r}")
    objective = fit.problem.with_scheme(weighting.resolve(scheme, None, fit.problem.program.scheme))
    ignored = np.zeros_like(fit.gradient) if residual else fit.gradient
    return Curvature(fit.theta, fit.hessian, fit.gradient, fit.names, damping, ignored, objective)
