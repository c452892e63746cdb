"""Damped Newton's method on many folds at once, for the end of a fit and for exact refits.

Distances are in standard errors, |g|_{H^-1} = sqrt(g' H^-1 g): the length of the Newton step in units
that do not depend on how parameters are scaled.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from fitonce.core.status import Status
from fitonce.fitting.certificate import certify, spectrum
from fitonce.fitting.line_search import Position, search, start_at
from fitonce.objectives.base import Objective, ValuesAndSlopes

MAX_STEP = 10.0  # free coordinates (log-ratios, log scales); relative, for values above 1
NEAR = 0.1  # standard errors: within, Newton's method converges quadratically
ASIDE = 0.1  # free coordinates: how far from a saddle to restart
_MOST_HALVINGS = 30
_CHORD = 1e-4  # standard errors: within, the last Hessian is as good as a new one


@dataclass(frozen=True)
class Minima:
    """End points of Newton's method, one row per fold.

    Attributes:
        thetas: (F, D).
        gradients: (F, D).
        hessians: (F, D, D).
        distances: (F,) estimated distance to the stationary point, in standard errors; nan where the
            Hessian is not positive definite.
        lowest: (F,) smallest eigenvalue of the Hessian.
        values: (F,) the objective.
        work: (2,) number of gradients and Hessians, over all folds.
    """

    thetas: np.ndarray
    gradients: np.ndarray
    hessians: np.ndarray
    distances: np.ndarray
    lowest: np.ndarray
    values: np.ndarray
    work: np.ndarray

    def status(self, fold: int, names: list[str], tolerance: float) -> Status:
        """Whether a fold is at a certified minimum."""
        finite = np.isfinite(self.values[fold])
        gradient = self.gradients[fold] if finite else np.full(len(names), np.nan)
        return certify(gradient, self.hessians[fold], self.distances[fold], names, tolerance)


def minimise(
    objective: Objective,
    thetas: np.ndarray,
    weights: np.ndarray,
    *,
    tolerance: float,
    max_steps: int = 50,
) -> Minima:
    """Newton's method from each of `thetas` (F, D) at weights (F, P), to rounding level.

    Far from a minimum a step must lower the value, and is halved until it does; an indefinite Hessian
    gets absolute eigenvalues, so that the step is a descent direction. Near the minimum, where rounding
    hides differences of values, a full step must halve the gradient. A fold is done when it is within
    `tolerance` and no step does that.
    """
    counted = _Counted(objective, weights)
    place, active = start_at(counted.values_and_gradients, thetas)
    hessians = counted.hessians(place.thetas)
    for _ in range(max_steps):
        if not active.size:
            break
        distance = _distances(place.gradients[active], hessians[active])
        steps = np.stack([
            _descent(place.thetas[k], place.gradients[k], hessians[k]) for k in active
        ])  # fmt: skip
        good = partial(_is_good, place.some(active), distance, tolerance)
        settled = lambda halvings, rows, d=distance: (  # noqa: E731 - after the full step failed
            halvings > 0 and bool((d[rows] <= tolerance).all())
        )
        share = search(counted.values_and_gradients, place, active, steps, good, _MOST_HALVINGS, settled)
        active, distance = active[share > 0], distance[share > 0]
        if (~(distance < _CHORD)).any():
            hessians[active] = counted.hessians(place.thetas[active], active)
    if max_steps:
        hessians = counted.hessians(place.thetas)
    lowest = np.array([np.linalg.eigvalsh(h)[0] if np.isfinite(h).all() else np.nan for h in hessians])
    distances = _distances(place.gradients, hessians)
    return Minima(place.thetas, place.gradients, hessians, distances, lowest, place.values, counted.work)


def _is_good(
    before: Position,
    distance: np.ndarray,
    tolerance: float,
    rows: np.ndarray,
    share: np.ndarray,
    there: Position,
) -> np.ndarray:
    """(m,) whether steps lower the value or, near the minimum, halve the gradient."""
    old = np.linalg.norm(before.gradients[rows], axis=1)
    halved = np.linalg.norm(there.gradients, axis=1) < 0.5 * old
    lower = (there.values < before.values[rows]) & ~(distance[rows] <= tolerance)
    return lower | ((distance[rows] < NEAR) & (share == 1.0) & halved)


class _Counted:
    """An objective at given weights, with a count of evaluations."""

    def __init__(self, objective: Objective, weights: np.ndarray) -> None:
        self.objective, self.weights = objective, weights
        self.work = np.zeros(2, int)

    def values_and_gradients(self, thetas: np.ndarray, folds: np.ndarray) -> ValuesAndSlopes:
        self.work[0] += len(thetas)
        return self.objective.values_and_gradients(thetas, self.weights[folds])

    def hessians(self, thetas: np.ndarray, folds: np.ndarray | None = None) -> np.ndarray:
        self.work[1] += len(thetas)
        weights = self.weights if folds is None else self.weights[folds]
        return np.array(self.objective.hessians(thetas, weights))


def _descent(theta: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """(D,) a Newton step with absolute eigenvalues, of limited length."""
    if not np.isfinite(hessian).all():
        return -gradient / max(float(np.linalg.norm(gradient)), 1.0)
    values, vectors, scale = spectrum(hessian)
    floor = max(1e-8 * np.abs(values).max(), np.finfo(float).tiny)
    step = -(vectors @ ((vectors.T @ (gradient / scale)) / np.maximum(np.abs(values), floor))) / scale
    size = float(np.max(np.abs(step) / np.maximum(np.abs(theta), 1.0)))
    return step * min(1.0, MAX_STEP / max(size, 1e-300))


def _distances(gradients: np.ndarray, hessians: np.ndarray) -> np.ndarray:
    out = np.full(len(gradients), np.nan)
    for fold, (gradient, hessian) in enumerate(zip(gradients, hessians, strict=True)):
        with suppress(np.linalg.LinAlgError):
            factor = np.linalg.cholesky(hessian)
            out[fold] = np.linalg.norm(np.linalg.solve(factor, gradient))
    return out
