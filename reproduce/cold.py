"""Folds refitted from scratch: from many random starts that know nothing of the full fit.

By SciPy, one start after another, or by the library's descents, all starts of a fold side by side, which takes
a tenth of the time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

import fitonce as fo
from fitonce.crossval.batches import Batches
from fitonce.crossval.fold_descents import fold_descents, metric
from fitonce.crossval.losses import heldout_losses

_WARM = 10  # iterations of EM


class Cold(NamedTuple):
    """The best of the starts of each fold: `thetas` (n, D) and `objectives` (n,) there; and how many
    gradients all of it took."""

    thetas: np.ndarray
    objectives: np.ndarray
    gradients: int


def objective_of(fit: fo.Fit, folds: fo.Folds) -> Any:
    """F along the scheme of the folds."""
    scheme = fo.schemes.Structures() if folds.kind == "sequences" else fit.objective.scheme
    return fit.objective.with_scheme(scheme)


def side_by_side(fit: fo.Fit, folds: fo.Folds, which: np.ndarray, starts: int, seed: int = 1) -> Cold:
    """The folds `which` (n,) from so many random starts each, with some EM iterations on the fold's own data."""
    objective = objective_of(fit, folds)
    matched, rng = folds.rebased(objective.base), np.random.default_rng(seed)
    batches = Batches.of_folds(objective, matched, min(64, starts))
    thetas, values = np.zeros((len(which), len(fit.theta))), np.full(len(which), np.inf)
    for row, fold in enumerate(which):
        weights = matched.weights_of(np.array([fold]))[0]
        begun = [_warmed(objective, objective.start(rng), weights) for _ in range(starts)]
        metrics = np.stack([metric(objective, theta) for theta in begun])
        finite = np.flatnonzero(np.isfinite(metrics).all((1, 2)))
        same = np.full(len(finite), fold)
        ends, found = fold_descents(
            batches, np.stack(begun)[finite], same, metrics[finite], np.arange(len(finite))
        )
        best = int(np.argmin(ends))
        thetas[row], values[row] = found[best], ends[best]
    return Cold(thetas, values, int(batches.work_in_gradients) + starts * len(which) * _WARM)


def _warmed(objective: Any, theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
    if objective.traits.m_steps == "none":
        return theta
    for _ in range(_WARM):
        _, new = objective.m_step(theta, weights)
        if new is None or not np.isfinite(new).all():
            break
        theta = new
    return theta


def refits(fit: fo.Fit, folds: fo.Folds, which: np.ndarray, starts: int, seed: int = 1) -> Cold:
    """The folds `which` (n,) from so many random starts each, by SciPy."""
    objective = objective_of(fit, folds)
    weights = folds.rebased(objective.base).weights_of(which)
    rng, used = np.random.default_rng(seed), 0
    thetas, values = np.zeros((len(which), len(fit.theta))), np.full(len(which), np.inf)
    for row, weight in enumerate(weights):
        for _ in range(starts):
            end = minimize(
                lambda theta, w=weight: [
                    part[0] for part in objective.values_and_gradients(theta[None], w[None])
                ],
                objective.start(rng),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 1000, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-5},
            )
            used += end.nfev
            if end.fun < values[row]:
                thetas[row], values[row] = end.x, end.fun
    return Cold(thetas, values, used)


def objectives(fit: fo.Fit, folds: fo.Folds, which: np.ndarray, thetas: np.ndarray) -> np.ndarray:
    """(n,) objectives of the folds `which` at thetas (n, D)."""
    objective = objective_of(fit, folds)
    weights = folds.rebased(objective.base).weights_of(which)
    return np.array([objective(theta, weight) for theta, weight in zip(thetas, weights, strict=True)])


def losses(fit: fo.Fit, folds: fo.Folds, which: np.ndarray, thetas: np.ndarray) -> np.ndarray:
    """(n,) mean losses of the folds `which` at thetas (n, D)."""
    objective = objective_of(fit, folds)
    matched, found = folds.rebased(objective.base), []
    for fold, theta in zip(which, thetas, strict=True):
        scored, weights = matched.scored[fold][None], matched.weights_of(np.array([fold]))
        found.append(heldout_losses(objective, "pointwise", theta[None], weights, scored).mean())
    return np.array(found)
