"""Damped Newton's method on many folds at once, for the end of a fit and for exact refits.

Distances are in standard errors, |g|_{H^-1} = sqrt(g' H^-1 g): the length of the Newton step in units
that do not depend on how parameters are scaled.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from fitonce.core.chunks import stretches
from fitonce.core.numerics import lengths_of
from fitonce.core.status import Status
from fitonce.fitting import tails
from fitonce.fitting.certificate import certify, spectrum
from fitonce.fitting.differences import hessians_by_differences
from fitonce.fitting.factor import Factor, factor_of
from fitonce.fitting.line_search import Position, search, start_at
from fitonce.objectives.base import Objective, ValuesAndSlopes

MAX_STEP = 10.0  # free coordinates (log-ratios, log scales); relative, for values above 1
NEAR = 0.1  # standard errors: within, Newton's method converges quadratically
ASIDE = 0.1  # free coordinates: how far from a saddle to restart
_MOST_HALVINGS = 30
_FLOOR = 1e-8  # of the eigenvalues of a Hessian scaled to a unit diagonal, relative to the largest
_CHORD = 1e-4  # standard errors: within, the last Hessian is as good as a new one


@dataclass(frozen=True)
class Minima:
    """End points of Newton's method, one row per fold.

    Attributes:
        thetas: (F, D).
        gradients: (F, D).
        hessians: (F, D, D).
        factors: of these; None where a factor does not tell that the Hessian is positive definite.
        distances: (F,) estimated distance to the stationary point, in standard errors; nan where the
            Hessian is not positive definite.
        values: (F,) the objective.
        work: (2, F) numbers of gradients and Hessians.
    """

    thetas: np.ndarray
    gradients: np.ndarray
    hessians: np.ndarray
    factors: list[Factor | None]
    distances: np.ndarray
    values: np.ndarray
    work: np.ndarray

    def alone(self, fold: int) -> Minima:
        """Of one fold."""
        some = slice(fold, fold + 1)
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        return Minima(**{name: p[:, some] if name == "work" else p[some] for name, p in parts.items()})

    def is_saddle(self, fold: int) -> bool:
        """Whether a fold's Hessian has a negative eigenvalue."""
        return self.factors[fold] is None and self.lowest(fold) < 0

    def lowest(self, fold: int) -> float:
        """The smallest eigenvalue of a fold's Hessian; nan where that is not finite."""
        factor, hessian = self.factors[fold], self.hessians[fold]
        if factor is not None:
            return factor.lowest
        return float(np.linalg.eigvalsh(hessian)[0]) if np.isfinite(hessian).all() else np.nan

    def status(self, fold: int, names: list[str], tolerance: float) -> Status:
        """Whether a fold is at a certified minimum."""
        finite = np.isfinite(self.values[fold])
        gradient = self.gradients[fold] if finite else np.full(len(names), np.nan)
        hessian = self.hessians[fold]
        return certify(self.thetas[fold], gradient, hessian, self.factors[fold], names, tolerance)


def minimise(
    objective: Objective,
    thetas: np.ndarray,
    weights: np.ndarray,
    *,
    tolerance: float,
    max_steps: int = 50,
    scale: np.ndarray | None = None,
) -> Minima:
    """Newton's method from each of `thetas` (F, D) at weights (F, P), to rounding level.

    With `scale` (D,), a standard error of each parameter, Hessians far from a minimum are made by
    differences of gradients.

    Far from a minimum a step must lower the value, and is halved until it does; an indefinite Hessian
    gets absolute eigenvalues, so that the step is a descent direction. Near the minimum, where rounding
    hides differences of values, a full step must halve the gradient. A fold is done when it is within
    `tolerance` and no step does that.
    """
    counted = _Counted(objective, weights)
    place, active = start_at(counted.values_and_gradients, thetas)
    points = _Points.at(counted, place.thetas)
    for _ in range(max_steps):
        if not active.size:
            break
        distance = points.distances(place.gradients, active)
        steps = np.stack([points.descent(place, k) for k in active])
        good = partial(_is_good, place.some(active), points.scales(active), distance, tolerance)
        settled = lambda halvings, rows, d=distance: (  # noqa: E731 - after the full step failed
            halvings > 0 and bool((d[rows] <= tolerance).all())
        )
        share = search(counted.values_and_gradients, place, active, steps, good, _MOST_HALVINGS, settled)
        active, distance = active[share > 0], distance[share > 0]
        points.here[active] = False
        stale = ~(distance < _CHORD)
        far = stale & ~(distance < NEAR)
        if scale is not None:
            points.guess(counted, place, active[far], scale)
            stale &= ~far
        points.form(counted, place.thetas, active[stale])
    points.form(counted, place.thetas, np.flatnonzero(~points.here))
    return Minima(
        place.thetas,
        place.gradients,
        points.hessians,
        points.factors,
        points.distances(place.gradients, np.arange(len(thetas))),
        place.values,
        counted.work,
    )


def off_saddle(objective: Objective, saddle: Minima, weights: np.ndarray, *, tolerance: float) -> Minima:
    """Descend both ways from the saddle point of one fold with weights (P,), along the most negative
    curvature. Returns: the lowest of the three points, with the work of all."""
    down = ASIDE * np.linalg.eigh(saddle.hessians[0])[1][:, 0]
    beside = saddle.thetas + np.stack([down, -down])
    ends = minimise(objective, beside, np.stack([weights, weights]), tolerance=tolerance)
    best = int(np.argmin(np.where(np.isnan(ends.values), np.inf, ends.values)))
    lowest = ends.alone(best) if ends.values[best] < saddle.values[0] else saddle
    return replace(lowest, work=saddle.work + ends.work.sum(1, keepdims=True))


def _is_good(
    before: Position,
    scales: np.ndarray,
    distance: np.ndarray,
    tolerance: float,
    rows: np.ndarray,
    share: np.ndarray,
    there: Position,
) -> np.ndarray:
    """(m,) whether steps lower the value or, near the minimum, halve the gradient, scaled (n, D) by
    parameter: rounding in that of one with a huge H must not hide the others."""
    with np.errstate(over="ignore"):  # of gradients whose squares are no numbers: not halved
        old = lengths_of(before.gradients[rows] / scales[rows])
        halved = lengths_of(there.gradients / scales[rows]) < 0.5 * old
    lower = (there.values < before.values[rows]) & ~(distance[rows] <= tolerance)
    return lower | ((distance[rows] < NEAR) & (share == 1.0) & halved)


class _Counted:
    """An objective at given weights, with a count of evaluations."""

    def __init__(self, objective: Objective, weights: np.ndarray) -> None:
        self.objective, self.weights = objective, weights
        self.work = np.zeros((2, len(weights)), int)

    def values_and_gradients(self, thetas: np.ndarray, folds: np.ndarray) -> ValuesAndSlopes:
        self.work[0, folds] += 1
        return self.uncounted(thetas, folds)

    def uncounted(self, thetas: np.ndarray, folds: np.ndarray) -> ValuesAndSlopes:
        """As many rows at a time as their weights leave memory for."""
        parts = [
            self.objective.values_and_gradients(thetas[some], self.weights[folds[some]])
            for some in stretches(len(thetas), 8.0 * self.weights.shape[1], "the weights of a fold")
        ]
        values, gradients = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(gradients)

    def hessians(self, thetas: np.ndarray, folds: np.ndarray) -> np.ndarray:
        self.work[1, folds] += 1
        return np.array(self.objective.hessians(thetas, self.weights[folds]))


@dataclass(eq=False)
class _Points:
    """The Hessians of folds and their factors, each formed once at a point.

    Attributes:
        hessians: (F, D, D).
        factors: of each, or None.
        here: (F,) whether a fold's Hessian is that at the point where it is now.
    """

    hessians: np.ndarray
    factors: list[Factor | None]
    here: np.ndarray

    @classmethod
    def at(cls, counted: _Counted, thetas: np.ndarray) -> _Points:
        hessians = counted.hessians(thetas, np.arange(len(thetas)))
        return cls(hessians, [factor_of(h) for h in hessians], np.ones(len(thetas), bool))

    def form(self, counted: _Counted, thetas: np.ndarray, folds: np.ndarray) -> None:
        """Those of `folds` at thetas (F, D)."""
        if folds.size:
            self._set(folds, counted.hessians(thetas[folds], folds))
            self.here[folds] = True

    def guess(self, counted: _Counted, place: Position, folds: np.ndarray, scale: np.ndarray) -> None:
        """Those of `folds` by differences: enough for a step, unless a parameter hardly matters."""
        if folds.size == 0:
            return
        here = place.some(folds)
        points = (here.thetas, here.gradients, scale, folds)
        found = hessians_by_differences(counted.uncounted, *points)
        resolved = (np.diagonal(found, axis1=1, axis2=2) != 0).all(1)
        counted.work[1, folds[resolved]] += 1
        self._set(folds[resolved], found[resolved])
        self.form(counted, place.thetas, folds[~resolved])

    def _set(self, folds: np.ndarray, hessians: np.ndarray) -> None:
        self.hessians[folds] = hessians
        for fold in folds:
            self.factors[fold] = factor_of(self.hessians[fold])

    def distances(self, gradients: np.ndarray, folds: np.ndarray) -> np.ndarray:
        """(n,) of `folds` from stationary, in standard errors; nan where H is not positive definite."""
        found = np.full(len(folds), np.nan)
        for row, fold in enumerate(folds):
            factor, hessian = self.factors[fold], self.hessians[fold]
            gradient = tails.without_ends(gradients[fold], hessian)
            if factor is not None:
                found[row] = factor.length(gradient)
                continue
            with suppress(np.linalg.LinAlgError):
                lower = np.linalg.cholesky(hessian)
                found[row] = lengths_of(np.linalg.solve(lower, gradient))
        return found

    def scales(self, folds: np.ndarray) -> np.ndarray:
        """(n, D) of `folds`, square roots of the diagonal of H; 1 where that is not positive."""
        diagonal = np.diagonal(self.hessians[folds], axis1=1, axis2=2)
        with np.errstate(invalid="ignore"):
            return np.sqrt(np.where(diagonal > 0, diagonal, 1.0))

    def descent(self, place: Position, fold: int) -> np.ndarray:
        """(D,) a Newton step of limited length, with absolute eigenvalues where H is not, or hardly,
        positive definite."""
        theta, gradient, hessian = place.thetas[fold], place.gradients[fold], self.hessians[fold]
        factor = self.factors[fold]
        if not np.isfinite(hessian).all():
            return -gradient / max(float(lengths_of(gradient)), 1.0)
        if factor is not None and factor.sharpness > _FLOOR:
            step = -factor.solve(gradient)
        else:
            values, vectors, scale = spectrum(hessian)
            floor = max(_FLOOR * np.abs(values).max(), np.finfo(float).tiny)
            along = (vectors.T @ (gradient / scale)) / np.maximum(np.abs(values), floor)
            step = -(vectors @ along) / scale
        step = tails.towards_ends(step, gradient, hessian)
        size = float(np.max(np.abs(step) / np.maximum(np.abs(theta), 1.0)))
        return step * min(1.0, MAX_STEP / max(size, 1e-300))
