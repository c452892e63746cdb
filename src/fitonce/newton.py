"""Damped Newton's method on many folds at once: what ends a fit, and what an exact refit is.

Distances are measured in the parameters' own standard errors, |g|_{H^-1} = sqrt(g' H^-1 g): the
length of the Newton step in units that do not depend on how a parameter is scaled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from fitonce.objective import Objective
from fitonce.status import Outcome, Status

_MAX_HALVINGS = 30
_MAX_STEP = 10.0  # free coordinates (log-ratios, logs of scales), or times the value of a large one
_NEAR = 0.1  # standard errors: inside, Newton's method converges quadratically
_CHORD = 1e-4  # standard errors: inside, the Hessian already at hand is as good as a new one


@dataclass(frozen=True)
class Minima:
    """Where Newton's method ended, one row per fold.

    Attributes:
        thetas: (F, D).
        gradients: (F, D).
        hessians: (F, D, D).
        distances: (F,) estimated distance to the stationary point, in standard errors; nan where the
            Hessian is not positive definite.
        lowest: (F,) smallest eigenvalue of the Hessian.
        values: (F,) the objective.
        work: (2,) gradients and Hessians that it took, of all folds together.
    """

    thetas: np.ndarray
    gradients: np.ndarray
    hessians: np.ndarray
    distances: np.ndarray
    lowest: np.ndarray
    values: np.ndarray
    work: np.ndarray

    def status(self, fold: int, names: list[str], tolerance: float) -> Status:
        """Certified minimum or not, in a sentence that names parameters."""
        finite = np.isfinite(self.values[fold])
        gradient = self.gradients[fold] if finite else np.full(len(names), np.nan)
        return certify(gradient, self.hessians[fold], self.distances[fold], names, tolerance)


def certify(
    gradient: np.ndarray,
    hessian: np.ndarray,
    distance: float,
    names: list[str],
    tolerance: float,
) -> Status:
    """Whether a point with this gradient and Hessian is a minimum, in words."""
    if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
        return Status(
            Outcome.NOT_FINITE,
            "the objective or its derivatives are not finite here; check the data for NaN or impossible "
            "observations and the start for extreme values",
        )
    lowest = np.linalg.eigvalsh(hessian)[0]
    flat = flat_direction(hessian, names)
    if flat is not None or np.isnan(distance):
        return Status(
            Outcome.NOT_A_MINIMUM,
            f"smallest eigenvalue of H is {lowest:.1e}, flat or downhill along {flat or 'a direction'}; "
            "add a prior, use fewer states or more restarts",
        )
    return placed(gradient, distance, lowest, names, tolerance)


def placed(
    gradient: np.ndarray, distance: float, lowest: float, names: list[str], tolerance: float
) -> Status:
    """Whether a point whose Hessian is positive definite is stationary, in words."""
    size = float(np.linalg.norm(gradient))
    if not distance <= tolerance:
        worst = names[int(np.argmax(np.abs(gradient)))]
        return Status(
            Outcome.NOT_STATIONARY,
            f"gradient norm {size:.1e}, largest at '{worst}', {distance:.1e} standard errors from "
            "stationary; fit on from here (init=), from other starts or with a stronger prior",
        )
    return Status(
        Outcome.STATIONARY,
        f"gradient norm {size:.1e}, {distance:.1e} standard errors from stationary, "
        f"smallest eigenvalue of H {lowest:.1e}",
    )


def spectrum(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues and vectors of the Hessian scaled to a unit diagonal, and the scales.

    Whether a direction is flat must not depend on the units of a parameter.
    """
    scale = np.sqrt(np.maximum(np.abs(np.diag(hessian)), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    return values, vectors, scale


def lowest_scaled(hessian: np.ndarray) -> float:
    """The smallest eigenvalue of the Hessian scaled to a unit diagonal, -inf if it is not finite."""
    if not np.isfinite(hessian).all():
        return -np.inf
    scale = np.sqrt(np.maximum(np.abs(np.diag(hessian)), np.finfo(float).tiny))
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


def minimise(
    objective: Objective,
    thetas: np.ndarray,
    weights: np.ndarray,
    *,
    tolerance: float,
    max_steps: int = 50,
) -> Minima:
    """Newton's method from each of `thetas` (F, D) at weights (F, P), to rounding level.

    Far from a minimum a step must lower the value, and is halved until it does; an indefinite
    Hessian is made definite by absolute eigenvalues, so that there is always a way down. Near it
    (where values drown in rounding) a full step must halve the gradient. A fold is done when it is
    within `tolerance` and can no longer do that.
    """
    thetas = np.array(thetas, float)
    counted = _Counted(objective, weights)
    values, gradients = map(np.array, counted.values_and_gradients(thetas))
    hessians = counted.hessians(thetas)
    active = np.isfinite(values) & np.isfinite(gradients).all(1)
    for _ in range(max_steps):
        if not active.any():
            break
        distance = _distances(gradients, hessians)
        steps = np.zeros_like(thetas)
        for fold in np.flatnonzero(active):
            steps[fold] = _descent(thetas[fold], gradients[fold], hessians[fold])
        new_values, new_gradients = counted.values_and_gradients(thetas + steps)
        halved = np.linalg.norm(new_gradients, axis=1) < 0.5 * np.linalg.norm(gradients, axis=1)
        near = distance < _NEAR
        take = active & near & halved
        thetas[take] += steps[take]
        values[take], gradients[take] = new_values[take], new_gradients[take]
        active &= take | ~(distance <= tolerance)
        far = active & ~take
        if far.any():
            active &= ~far | _search(counted, thetas, values, gradients, steps, far)
        if (active & ~(distance < _CHORD)).any():
            hessians = counted.hessians(thetas)
    if max_steps:
        hessians = counted.hessians(thetas)
    lowest = np.array([_lowest(h) for h in hessians])
    distances = _distances(gradients, hessians)
    return Minima(thetas, gradients, hessians, distances, lowest, values, counted.work)


class _Counted:
    """An objective at given weights, that counts what is asked of it."""

    def __init__(self, objective: Objective, weights: np.ndarray) -> None:
        self.objective, self.weights = objective, weights
        self.work = np.zeros(2, int)

    def values_and_gradients(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.work[0] += len(thetas)
        return self.objective.values_and_gradients(thetas, self.weights)

    def hessians(self, thetas: np.ndarray) -> np.ndarray:
        self.work[1] += len(thetas)
        return self.objective.hessians(thetas, self.weights)


def _descent(theta: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    if not np.isfinite(hessian).all():
        return -gradient / max(float(np.linalg.norm(gradient)), 1.0)
    values, vectors, scale = spectrum(hessian)
    floor = max(1e-8 * np.abs(values).max(), np.finfo(float).tiny)
    step = -(vectors @ ((vectors.T @ (gradient / scale)) / np.maximum(np.abs(values), floor))) / scale
    size = float(np.max(np.abs(step) / np.maximum(np.abs(theta), 1.0)))
    return step * min(1.0, _MAX_STEP / max(size, 1e-300))


def _search(
    objective: _Counted,
    thetas: np.ndarray,
    values: np.ndarray,
    gradients: np.ndarray,
    steps: np.ndarray,
    pending: np.ndarray,
) -> np.ndarray:
    """Halve the steps of `pending` folds until their values go down, moving them in place.

    Returns: (F,) which folds moved.
    """
    pending = pending.copy()
    moved = np.zeros_like(pending)
    scale = np.ones(len(thetas))
    for _ in range(_MAX_HALVINGS):
        trial = thetas + (scale * pending)[:, None] * steps
        trial_values, trial_gradients = objective.values_and_gradients(trial)
        good = pending & (trial_values < values) & np.isfinite(trial_gradients).all(1)
        thetas[good], values[good] = trial[good], trial_values[good]
        gradients[good] = trial_gradients[good]
        moved |= good
        pending &= ~good
        if not pending.any():
            break
        scale[pending] *= 0.5
    return moved


def _distances(gradients: np.ndarray, hessians: np.ndarray) -> np.ndarray:
    out = np.full(len(gradients), np.nan)
    for fold, (gradient, hessian) in enumerate(zip(gradients, hessians, strict=True)):
        try:
            factor = np.linalg.cholesky(hessian)
        except np.linalg.LinAlgError:
            continue
        out[fold] = np.linalg.norm(np.linalg.solve(factor, gradient))
    return out


def _lowest(hessian: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(hessian)[0]) if np.isfinite(hessian).all() else np.nan
