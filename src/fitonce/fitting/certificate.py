"""Whether a point is a minimum, and how that is put in words. Every certificate is made here."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from fitonce.core.status import Outcome, Status

_REMEDY = "add a prior, use fewer states or more restarts"


def certify(
    gradient: np.ndarray, hessian: np.ndarray, distance: float, names: list[str], tolerance: float
) -> Status:
    """Of a point with this gradient and Hessian, `distance` standard errors from stationary."""
    if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
        return not_finite(
            "; check the data for NaN or impossible observations and the start for extreme values"
        )
    lowest = np.linalg.eigvalsh(hessian)[0]
    flat = flat_direction(hessian, names)
    if flat is not None or np.isnan(distance):
        return not_a_minimum(
            f"smallest eigenvalue of H is {lowest:.1e}, flat or downhill along {flat or 'a direction'}"
        )
    evidence = f"smallest eigenvalue of H {lowest:.1e}"
    return judged(gradient, distance, distance <= tolerance, evidence, names)


def certify_by_factor(
    gradient: np.ndarray,
    distance: float,
    lowest: tuple[float, float],
    names: list[str],
    tolerance: float,
) -> Status:
    """The same where H was factored: `lowest` are its smallest eigenvalue and that of H scaled to a unit
    diagonal."""
    if lowest[1] <= np.finfo(float).eps * len(names):
        return not_a_minimum(
            f"H scaled to a unit diagonal is flat, as far as doubles can tell ({lowest[1]:.1e})"
        )
    evidence = f"smallest eigenvalue of H {lowest[0]:.1e}"
    return judged(gradient, distance, distance <= tolerance, evidence, names)


def certify_by_products(gradient: np.ndarray, distance: float, lowest: float, done: bool) -> Status:
    """The same as far as products with the Hessian tell: `lowest` is the smallest curvature that they met,
    relative to what the preconditioner expects."""
    if not np.isfinite(gradient).all() or np.isnan(lowest):
        return not_finite()
    if lowest <= 0:
        return not_a_minimum(
            f"products with the Hessian met a direction that goes downhill ({lowest:.1e} of what was "
            "expected)"
        )
    return judged(gradient, distance, done, f"smallest curvature met {lowest:.1e} of that expected")


def judged(
    gradient: np.ndarray, distance: float, done: bool, evidence: str, names: list[str] | None = None
) -> Status:
    """Whether a point that curves upwards, as `evidence` says, is stationary."""
    size = f"gradient norm {np.linalg.norm(gradient):.1e}"
    away = f"{distance:.1e} standard errors from stationary"
    if done:
        return Status(Outcome.STATIONARY, f"{size}, {away}, {evidence}")
    if names is None:
        return Status(Outcome.NOT_STATIONARY, f"{size}, {away}")
    worst = names[int(np.argmax(np.abs(gradient)))]
    return Status(
        Outcome.NOT_STATIONARY,
        f"{size}, largest at '{worst}', {away}; fit on from here (init=), from other starts or with a "
        "stronger prior",
    )


def not_finite(advice: str = "") -> Status:
    """Of a point where something is not a number."""
    return Status(Outcome.NOT_FINITE, f"the objective or its derivatives are not finite here{advice}")


def not_a_minimum(why: str) -> Status:
    """Of a point that is flat or goes downhill somewhere."""
    return Status(Outcome.NOT_A_MINIMUM, f"{why}; {_REMEDY}")


def spectrum(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues and vectors of the Hessian scaled to a unit diagonal, and the scales.

    Whether a direction is flat must not depend on the units of a parameter.
    """
    scale = _scale(hessian)
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    return values, vectors, scale


def _scale(hessian: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(np.abs(np.diag(hessian)), np.finfo(float).tiny))


def lowest_scaled(hessian: np.ndarray) -> float:
    """The smallest eigenvalue of the Hessian scaled to a unit diagonal, -inf if it is not finite."""
    if not np.isfinite(hessian).all():
        return -np.inf
    scale = _scale(hessian)
    scaled = hessian / np.outer(scale, scale)
    return float(linalg.eigvalsh(scaled, subset_by_index=[0, 0])[0])


def flat_direction(hessian: np.ndarray, names: list[str]) -> str | None:
    """The parameters along which H is flat or downhill as far as doubles can tell; None if nowhere."""
    values, vectors, scale = spectrum(hessian)
    if values[0] > np.finfo(float).eps * len(values) * np.abs(values).max():
        return None
    return direction(vectors[:, 0] / scale, names)


def direction(vector: np.ndarray, names: list[str], most: int = 3) -> str:
    """The parameters that dominate a direction, such as 'mean[0,0], transition[0,1]'."""
    order = np.argsort(-np.abs(vector))[:most]
    kept = [names[i] for i in order if abs(vector[i]) > 0.3 * abs(vector[order[0]])]
    return ", ".join(f"'{name}'" for name in kept)
