"""auto: climb from rung to rung, fold by fold, until the estimated error is small enough.

    none -> onestep -> refine -> newton -> exact

A rung is judged by the step ahead of it, which is the next rung (see `diagnostics`). A fold for which
neither `none` nor `onestep` (with H scaled by the weight kept) is good enough is refined to its
certified optimum (see `refine`, whose last rungs are the fold's own Hessian and a full refit). Good
enough is an error within a hundredth of the standard error of the CV estimate, and a quadratic model
that holds. Where more than a quarter of the folds must be refined, all are: H is then no good guide
here, and a small error among many large ones is not to be believed.
"""

from __future__ import annotations

import numpy as np

from fitonce.checking import Evidence, arrived_errors
from fitonce.curvature import Curvature
from fitonce.diagnostics import default_tolerance, loss_errors, sound
from fitonce.methods import FoldParameters
from fitonce.refine import Descent, Rung, Spent, advance, refine, start
from fitonce.scoring import Scoring

_TARGET = 0.1  # of what an error may be: a hundredth of the standard error
_MANY = 0.25


def climb(
    curvature: Curvature, scoring: Scoring, tolerance: float | None, spent: Spent
) -> tuple[FoldParameters, Evidence]:
    """Parameters and losses of all folds, each from the lowest rung that is good enough.

    Args:
        curvature: at the full fit.
        scoring: the folds.
        tolerance: the error of a fold's loss that is good enough; None: by the standard error.
        spent: whether the budget is.
    """
    batches = scoring.batches
    everyone = np.arange(batches.n_folds)
    state = start(batches, curvature.theta, curvature.inverse)
    control = scoring.losses(state.thetas, everyone)
    if tolerance is None:
        usable = np.isfinite(scoring.means(control))
        se = scoring.standard_error(control, usable)
        tolerance = _TARGET * default_tolerance(se, scoring.means(control)[usable])
    errors, distances, rates = np.full((3, batches.n_folds), np.inf)
    checked = np.ones(batches.n_folds, bool)
    evidence = Evidence(control.copy(), control, errors, distances, rates, checked)
    thetas, up = state.thetas.copy(), everyone
    for rung in (Rung.NONE, Rung.ONESTEP):
        if up.size == 0 or spent():
            break
        up = _climb_from(scoring, state, evidence, thetas, rung, up, tolerance)
    if up.size > _MANY * batches.n_folds:
        up = everyone
    if up.size and not spent():
        _certify(curvature, scoring, state, up, spent)
        thetas[up] = state.thetas[up]
        evidence.losses[up] = scoring.losses(thetas[up], up)
        evidence.distances[up], evidence.rates[up] = state.distances[up], np.nan
        evidence.errors[up] = arrived_errors(
            curvature, scoring, thetas[up], evidence.losses, control, state.distances[up], up
        )
    found = FoldParameters(thetas, state.status, state.inverses, state.gradients, state.rungs)
    return found, evidence


def _climb_from(
    scoring: Scoring,
    state: Descent,
    evidence: Evidence,
    thetas: np.ndarray,
    rung: Rung,
    which: np.ndarray,
    tolerance: float,
) -> np.ndarray:
    """Judge the folds `which` on a rung by the step ahead, into `evidence` and `thetas`.

    Returns: those that are not good enough there, moved ahead in `state`.
    """
    thetas[which], state.rungs[which] = state.thetas[which], rung
    evidence.distances[which] = state.distances[which]
    ahead = scoring.losses((state.thetas + state.steps)[which], which)
    taken = advance(scoring.batches, state, which)
    evidence.rates[which] = state.rates[which]
    here, counted, sizes = evidence.losses[which], scoring.counted[which], scoring.sizes[which]
    evidence.errors[which] = loss_errors(here, ahead, counted, sizes, state.rates[which])
    good = sound(evidence.distances[which], evidence.rates[which])
    on = ~(good & (evidence.errors[which] <= tolerance))  # nan compares false, and climbs
    moved = on & taken
    evidence.losses[which[moved]] = ahead[moved]
    return which[on]


def _certify(
    curvature: Curvature, scoring: Scoring, state: Descent, which: np.ndarray, spent: Spent
) -> None:
    scale = np.sqrt(np.diag(curvature.inverse))
    refine(scoring.batches, state, which, curvature.theta, scale, curvature.names, spent=spent)
