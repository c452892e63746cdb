"""auto: climb from rung to rung, fold by fold, until the estimated error is small enough.

    none -> onestep -> refine -> refine-own -> refit

A rung is judged by the step ahead of it, which is the next rung (see `results.verdicts`). A fold for
which neither `none` nor `onestep` (with H scaled by the weight kept) is good enough is refined to its
certified optimum (see `refine`, whose last rungs are the fold's own Hessian and a full refit). Good
enough means an error within a hundredth of the standard error of the CV estimate, and a quadratic model
that holds. If more than a quarter of the folds must be refined, all are: H is then a poor guide, and a
small estimated error among many large ones is not credible.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.status import Outcome, Rung
from fitonce.crossval.evidence import Evidence, arrived_errors, judge_failures
from fitonce.crossval.fold_states import Descent, FoldParameters, out_of_budget, settle, start
from fitonce.crossval.losses import Scoring
from fitonce.crossval.refine import advance, refine
from fitonce.results.verdicts import SAFETY, default_tolerance, sound

_TARGET = 0.1  # of the tolerable error: a hundredth of the standard error
_MANY = 0.25  # of the folds: if more are not good enough, the others are refined, too


def climb(scoring: Scoring, tolerance: float | None) -> tuple[FoldParameters, Evidence]:
    """Parameters and losses of all folds, each from the lowest rung that is good enough; `tolerance` is
    that of `cross_validate`."""
    curve, batches = scoring.curve, scoring.batches
    state = start(batches, curve)
    control = scoring.losses(state.thetas, batches.every_fold)
    target = _target(scoring, control, tolerance)
    evidence = Evidence.unchecked(control.copy(), control)
    thetas, current, climbing = state.thetas.copy(), control.copy(), batches.every_fold
    carriers = scoring.carriers()
    # Steps by a damped H are too short to judge by: all folds are then refined.
    for rung in () if curve.damping else (Rung.NONE, Rung.ONESTEP):
        if climbing.size == 0 or batches.spent():
            break
        thetas[climbing], evidence.losses[climbing] = state.thetas[climbing], current[climbing]
        state.rungs[climbing] = rung
        current[climbing], good = _judge(scoring, state, evidence, climbing, target)
        climbing = climbing[~good | carriers[climbing]]
    ended = batches.spent()
    if climbing.size and not ended:
        if climbing.size > _MANY * batches.n_folds:
            climbing = batches.every_fold
        _finish(scoring, state, evidence, climbing)
        settle(state.status, state.distances)
        thetas[climbing] = state.thetas[climbing]
    for fold in climbing if ended else ():
        if state.status[fold].outcome is Outcome.APPROXIMATE:
            state.status[fold] = out_of_budget(state.distances[fold])
    judge_failures(scoring, state.status, evidence)
    return FoldParameters(thetas, state.status, state.rungs), evidence


def _target(scoring: Scoring, control: np.ndarray, tolerance: float | None) -> float:
    """The error at which a fold may stop."""
    if tolerance is not None:
        return tolerance / SAFETY
    means = scoring.means(control)
    usable = np.isfinite(means)
    return _TARGET * default_tolerance(scoring.standard_error(control, usable), means[usable])


def _judge(
    scoring: Scoring, state: Descent, evidence: Evidence, which: np.ndarray, target: float
) -> tuple[np.ndarray, np.ndarray]:
    """Judge the folds `which` by the step ahead, into `evidence`, and take the step.

    Returns: losses (n, W) after the step, and (n,) whether the folds were good enough before it.
    """
    here = evidence.losses[which]
    evidence.checked[which], evidence.distances[which] = True, state.distances[which]
    moves = state.shares[which, None] * state.steps[which]
    ahead = scoring.losses(state.thetas[which] + moves, which)
    taken = advance(scoring.batches, state, which)
    evidence.rates[which] = state.rates[which]
    evidence.errors[which] = scoring.errors(here, ahead, which, state.rates[which])
    within = evidence.errors[which] <= target  # nan compares false, and climbs
    good = within & sound(evidence.distances[which], evidence.rates[which])
    return np.where(taken[:, None], ahead, here), good


def _finish(scoring: Scoring, state: Descent, evidence: Evidence, which: np.ndarray) -> None:
    """Refine the folds `which` to their optima, or until the budget ends."""
    refine(scoring.batches, state, which, scoring.curve)
    evidence.losses[which], evidence.checked[which] = scoring.losses(state.thetas[which], which), True
    evidence.distances[which], evidence.rates[which] = state.distances[which], np.nan
    evidence.errors[which] = arrived_errors(scoring, evidence, state.thetas[which], which)
    stopped = which[[state.status[fold].outcome is Outcome.APPROXIMATE for fold in which]]
    if stopped.size:  # no gradient is left to show how the step ahead contracts
        evidence.rates[stopped] = np.inf
        ahead = scoring.losses((state.thetas + state.steps)[stopped], stopped)
        here = evidence.losses[stopped]
        evidence.errors[stopped] = scoring.errors(here, ahead, stopped, evidence.rates[stopped])
