"""Certificates: whether a point is a minimum, as a `Status` with a sentence."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from fitonce.core.numerics import lengths_of
from fitonce.core.status import Outcome, Status
from fitonce.fitting import tails
from fitonce.fitting.factor import Factor

_REMEDY = "add a prior, use a simpler model (such as fewer states) or more restarts"

_FLAT = float(np.finfo(float).eps)  # in standard errors: a change that makes no difference


def certify(
    theta: np.ndarray,
    gradient: np.ndarray,
    hessian: np.ndarray,
    factor: Factor | None,
    names: list[str],
    tolerance: float,
) -> Status:
    """By the Hessian at a point, and its factor, see `factor_of`."""
    inside = tails.without_ends(gradient, hessian)
    ended = inside != gradient
    refused = refusal(inside, hessian, factor, names)
    if refused is not None:
        return refused
    if factor is not None:
        distance, lowest = factor.length(inside), factor.lowest
    else:  # the eigenvalues told what the factor did not
        lowest = float(np.linalg.eigvalsh(hessian)[0])
        distance = float(np.sqrt(inside @ np.linalg.solve(hessian, inside)))
    undetermined = np.where(ended, 0.0, _undetermined(theta, hessian))
    if undetermined.any():
        return _not_determined(undetermined, names)
    evidence = f"smallest eigenvalue of H {lowest:.1e}"
    found = judged(inside, distance, distance <= tolerance, evidence, names)
    if not found.ok or not ended.any():
        return found
    limit = f"at the limit of its values: '{names[int(np.argmax(ended))]}'"
    return Status(found.outcome, f"{found.message}; {limit}")


def _undetermined(theta: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """(D,) the standard errors of parameters that may go anywhere, 0 for others: a change by the size of
    the parameter, and one by 1, makes no difference. Scaling H to a unit diagonal does not show it, and
    a small H alone may be that of a large unit."""
    shifts = np.sqrt(np.diag(hessian)) * np.maximum(np.abs(theta), 1.0)  # in standard errors
    return np.where(shifts < _FLAT, np.diag(hessian) ** -0.5, 0.0)


def _not_determined(errors: np.ndarray, names: list[str]) -> Status:
    return Status(
        Outcome.NOT_DETERMINED,
        f"H is singular along {direction(errors, names)} (standard error {errors.max():.1e}), so that "
        f"the data do not say where the optimum is; {_REMEDY}",
    )


def refusal(
    gradient: np.ndarray, hessian: np.ndarray, factor: Factor | None, names: list[str]
) -> Status | None:
    """Why a point cannot be a minimum, whatever its gradient; None if it can."""
    if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
        return not_finite(
            "; check the data for NaN or impossible observations, the start for extreme values, and "
            "whether the model stops being one here, as where a covariance of your own does"
        )
    flat = None if factor is not None else flat_direction(hessian, names)
    if flat is None:
        return None
    lowest = np.linalg.eigvalsh(hessian)[0]
    return _not_a_minimum(f"smallest eigenvalue of H is {lowest:.1e}, flat or downhill along {flat}")


def certify_by_bound(gradient: np.ndarray, distance: float, least: float) -> Status:
    """By a bound below the eigenvalues of H, wherever it is; `distance`: at most."""
    evidence = f"convex, with no eigenvalue of H below {least:.1e}"
    return judged(gradient, distance, True, evidence)


def certify_by_factor(
    gradient: np.ndarray,
    distance: float,
    lowest: tuple[float, float],
    names: list[str],
    tolerance: float,
) -> Status:
    """By the factor of H; `lowest`: its smallest eigenvalue, and that of H scaled to a unit diagonal."""
    if lowest[1] <= np.finfo(float).eps * len(names):
        return _not_a_minimum(
            "H scaled to a unit diagonal is singular to rounding, with smallest eigenvalue "
            f"{lowest[1]:.1e}"
        )
    evidence = f"smallest eigenvalue of H {lowest[0]:.1e}"
    return judged(gradient, distance, distance <= tolerance, evidence, names)


def certify_by_products(gradient: np.ndarray, distance: float, lowest: float, done: bool) -> Status:
    """By products with the Hessian; `lowest`: the smallest curvature relative to the preconditioner."""
    if not np.isfinite(gradient).all() or np.isnan(lowest):
        return not_finite()
    if lowest <= 0:
        return _not_a_minimum(
            "products with the Hessian found a direction without positive curvature "
            f"({lowest:.1e} relative to the preconditioner)"
        )
    evidence = f"smallest curvature found {lowest:.1e} relative to the preconditioner"
    return judged(gradient, distance, done, evidence)


def judged(
    gradient: np.ndarray, distance: float, done: bool, evidence: str, names: list[str] | None = None
) -> Status:
    """Whether a point is stationary, given `evidence` of positive curvature."""
    size = f"gradient norm {lengths_of(gradient):.1e}"
    away = f"{distance:.1e} standard errors from stationary"
    if done:
        return Status(Outcome.STATIONARY, f"{size}, {away}, {evidence}")
    if names is None:
        return Status(Outcome.NOT_STATIONARY, f"{size}, {away}")
    worst = names[int(np.argmax(np.abs(gradient)))]
    return Status(
        Outcome.NOT_STATIONARY,
        f"{size}, largest at '{worst}', {away}; go on with fit.polish(), or try other starts or a "
        "stronger prior",
    )


def not_finite(advice: str = "") -> Status:
    """Of a point where the objective or a derivative is not finite."""
    return Status(Outcome.NOT_FINITE, f"the objective or its derivatives are not finite here{advice}")


def lost_to_rounding(lowest: float) -> Status:
    """Of a convex objective whose H appears to have an eigenvalue that is not positive."""
    return Status(
        Outcome.NOT_STATIONARY,
        f"the smallest eigenvalue of H came out as {lowest:.1e}, which no convex objective has: its "
        "digits are lost to rounding; centre and scale the features",
    )


def _not_a_minimum(why: str) -> Status:
    return Status(Outcome.NOT_A_MINIMUM, f"{why}; {_REMEDY}")


def spectrum(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of the Hessian scaled to a unit diagonal, and the scales.

    Whether a direction is flat must not depend on the units of a parameter.
    """
    scaled, scale = _scaled(hessian)
    return *np.linalg.eigh(scaled), scale


def _scaled(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scale = np.sqrt(np.maximum(np.abs(np.diag(hessian)), np.finfo(float).tiny))
    return hessian / np.outer(scale, scale), scale


def lowest_scaled(hessian: np.ndarray) -> float:
    """The smallest eigenvalue of the Hessian scaled to a unit diagonal, -inf if it is not finite."""
    if not np.isfinite(hessian).all():
        return -np.inf
    return float(linalg.eigvalsh(_scaled(hessian)[0], subset_by_index=[0, 0])[0])


def flat_direction(hessian: np.ndarray, names: list[str]) -> str | None:
    """The parameters along which H is flat or downhill to rounding; None if nowhere."""
    values, vectors, scale = spectrum(hessian)
    if values[0] > np.finfo(float).eps * len(values) * np.abs(values).max():
        return None
    return direction(vectors[:, 0] / scale, names)


def direction(vector: np.ndarray, names: list[str], most: int = 3) -> str:
    """The parameters that dominate a direction, such as 'mean[0,0], transition[0,1]'."""
    order = np.argsort(-np.abs(vector))[:most]
    kept = [names[i] for i in order if abs(vector[i]) > 0.3 * abs(vector[order[0]])]
    return ", ".join(f"'{name}'" for name in kept)
