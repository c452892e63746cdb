"""The error of `ij` from a fit that stopped early: the paper's bound, with estimated constants.

The paper's proposition on inexact optimisation: with theta_S where the optimiser stopped and theta1
the optimum,

    |L_ij(theta_S) - L_cv| <= C eps_theta + eps_ij
    C = L_l + L_l L_g / lambda_min + L_l L_Hinv mean_o |sum_{t in o} J_t|

The paper's `ij` ignores the gradient left by the fit; ours corrects for it to first order, so its error
should be smaller. The constants are suprema over a ball, which are unknown. Here each is estimated from
theta_S and the point one Newton step ahead, so the result is an estimate of the bound and not a bound:

    eps_theta   length of that Newton step
    lambda_min  smallest eigenvalue of H at theta_S
    L_l         largest slope of a fold's loss, from theta_S to the fold's parameters
    L_g         largest change of sum_{t in o} J_t between the two, over eps_theta
    L_Hinv      change of H^-1 between the two, over eps_theta
    eps_ij      estimated error of `ij` started one step ahead
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitonce.core.arguments import require_count
from fitonce.crossval.cross_validate import cross_validate
from fitonce.fitting.curvature import Curvature, curvature
from fitonce.fitting.fit import Fit, fit_at
from fitonce.folds import Folds
from fitonce.results.result import CVResult


@dataclass(frozen=True)
class InexactBound:
    """An estimate of the paper's bound on the error of `ij` from a fit that stopped early.

    Attributes:
        bound: C * eps_theta + eps_ij, in units of the loss.
        change: the actual change of the estimate of `ij` one Newton step ahead, for comparison.
        eps_theta, eps_ij, lambda_min, lipschitz_loss, lipschitz_g, lipschitz_inverse, mean_g: see the
            module's docstring; mean_g is the mean over folds of |sum J_t|.
    """

    bound: float
    change: float
    eps_theta: float
    eps_ij: float
    lambda_min: float
    lipschitz_loss: float
    lipschitz_g: float
    lipschitz_inverse: float
    mean_g: float

    def __repr__(self) -> str:
        return (
            f"Error of ij from this fit, in units of the loss: at most {self.bound:.2g} (an estimate of "
            f"the paper's bound, not a bound)\n"
            f"  one Newton step ahead the estimate of ij changes by {self.change:.2g}\n"
            f"  that step moves theta by {self.eps_theta:.2g}; the error of ij itself is about "
            f"{self.eps_ij:.2g}; the smallest eigenvalue of H is {self.lambda_min:.2g}"
        )


def inexact_bound(fit: Fit, folds: Folds, *, check: int = 20) -> InexactBound:
    """Estimate the paper's bound for `ij` on these folds.

    Args:
        fit: from `fo.fit` or `fo.fit_at`, stationary or not; H must be positive definite.
        folds: as for `cross_validate`.
        check: how many folds are checked for the error of `ij` itself.
    """
    here = curvature(fit)
    require_count("check", check)
    now = cross_validate(fit, folds, method="ij", check=False)
    step = -here.solve(here.gradient)
    ahead_fit = fit_at(
        fit.model, fit.data, fit.params_at(fit.theta + step), kernel=fit.objective.program.kernel
    )
    ahead = curvature(ahead_fit)
    then = cross_validate(ahead_fit, folds, method="ij", check=check)
    # From a stationary fit the step is rounding, and differences along it are meaningless.
    size = 0.0 if fit.ok else float(np.linalg.norm(step))
    per_step = 0.0 if size == 0 else 1.0 / size
    sums, sums_ahead = _sums(here, now), _sums(ahead, then)
    moves = np.linalg.norm(now.theta - fit.theta, axis=1)
    changes = (now.folds["loss"] - now.folds["control"]).abs().to_numpy()
    constants = {
        "lambda_min": float(np.linalg.eigvalsh(here.H)[0]),
        "lipschitz_loss": float(np.max(changes / np.maximum(moves, np.finfo(float).tiny))),
        "lipschitz_g": per_step * float(np.linalg.norm(sums_ahead - sums, axis=1).max()),
        "lipschitz_inverse": per_step * float(np.linalg.norm(ahead.inverse - here.inverse, 2)),
        "mean_g": float(np.linalg.norm(sums_ahead, axis=1).mean()),
    }
    c = constants["lipschitz_loss"] * (
        1.0
        + constants["lipschitz_g"] / constants["lambda_min"]
        + constants["lipschitz_inverse"] * constants["mean_g"]
    )
    return InexactBound(
        bound=c * size + then.error,
        change=abs(then.estimate - now.estimate),
        eps_theta=size,
        eps_ij=then.error,
        **constants,
    )


def _sums(curve: Curvature, result: CVResult) -> np.ndarray:
    """(F, D) minus sum_{t in o} J_t of each fold, recovered from its parameters by `ij`."""
    return -(result.theta - curve.theta) @ curve.H - curve.gradient
