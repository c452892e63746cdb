"""Descents of many folds at once, from anywhere to near an optimum of each."""

from __future__ import annotations

import numpy as np

from fitonce.core.chunks import stretches
from fitonce.crossval.batches import Batches
from fitonce.fitting.batched_lbfgs import batched_lbfgs
from fitonce.fitting.certificate import spectrum
from fitonce.objectives.base import Objective, ValuesAndSlopes

USUAL_GRADIENTS = 30  # that a descent takes, before it is known
NEARLY = 3e-3  # standard errors: where descents end
_ITERATIONS = 100
_LONGEST = 2.0  # free coordinates, relative for values above 1: of a step


def fold_descents(
    batches: Batches,
    thetas: np.ndarray,
    which: np.ndarray,
    inverses: np.ndarray,
    source: np.ndarray,
    nearly: float = NEARLY,
) -> tuple[np.ndarray, np.ndarray]:
    """Values (n,) and thetas (n, D) where the folds `which` (n,) end, from thetas (n, D), in the metrics
    inverses[source]: (M, D, D) approximate inverse Hessians with all data, and which of them is whose.
    Descents end within `nearly` standard errors of an optimum, whose values are foretold by their last
    gradients. As many at a time as memory allows."""
    values, ends, size = np.full(len(which), np.inf), thetas.copy(), thetas.shape[1]
    row = 8.0 * (60 * size + size**2 + 2 * len(batches.objective.base))
    for some in stretches(len(which), row, "a descent of a fold"):
        metrics = inverses[source[some]]
        values[some], ends[some] = _side_by_side(batches, thetas[some], which[some], metrics, nearly)
    return values, ends


def _side_by_side(
    batches: Batches, thetas: np.ndarray, which: np.ndarray, inverses: np.ndarray, nearly: float
) -> tuple[np.ndarray, np.ndarray]:
    objective, kept = batches.objective, batches.kept[which, None]
    if objective.traits.compiles:  # chunks of one shape
        evaluate = lambda t, rows: batches.values_and_gradients(t, which[rows])  # noqa: E731
    else:
        weights = batches.weights_of(which)

        def evaluate(t: np.ndarray, rows: np.ndarray) -> ValuesAndSlopes:
            np.add.at(batches.gradients_used, which[rows], 1)
            return objective.values_and_gradients(t, weights[rows])

    end = batched_lbfgs(
        evaluate,
        lambda g, rows: np.einsum("nij,nj->ni", inverses[rows], g) / kept[rows],
        thetas,
        tolerance=nearly,
        most=_ITERATIONS,
        longest=_LONGEST,
        spent=batches.spent,
    )
    return np.where(np.isnan(end.values), np.inf, end.values - end.gains), end.thetas


def metric(objective: Objective, theta: np.ndarray) -> np.ndarray:
    """(D, D) positive definite, of a descent from theta (D,), which is no optimum: the complete-data
    information inverted, or H with absolute eigenvalues; not finite where H is not."""
    if objective.traits.blocks:
        return objective.preconditioner(theta)(np.eye(len(theta)))
    hessian = objective.hessians(theta[None], objective.base[None])[0]
    if not np.isfinite(hessian).all():
        return hessian
    values, vectors, scale = spectrum(hessian)
    floor = 1e-3 * max(float(np.abs(values).max()), np.finfo(float).tiny)
    scaled = vectors / scale[:, None]
    return scaled / np.maximum(np.abs(values), floor) @ scaled.T
