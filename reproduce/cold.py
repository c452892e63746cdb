"""Folds refitted from scratch: from many random starts, by SciPy, knowing nothing of the full fit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

import fitonce as fo
from fitonce.crossval.losses import heldout_losses


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


def refits(fit: fo.Fit, folds: fo.Folds, which: np.ndarray, starts: int, seed: int = 1) -> Cold:
    """The folds `which` (n,) from so many random starts each."""
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
        counted = np.ones_like(scored, bool)
        found.append(
            heldout_losses(objective, "pointwise", theta[None], weights, scored, counted).mean()
        )
    return np.array(found)
