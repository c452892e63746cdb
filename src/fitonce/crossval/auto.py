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

from dataclasses import dataclass, replace

import numpy as np

from fitonce.core.status import Outcome, Rung, Status
from fitonce.crossval.evidence import Evidence, arrived_errors, judge_failures
from fitonce.crossval.fold_states import (
    Descent,
    FoldParameters,
    out_of_budget,
    settle,
    start,
)
from fitonce.crossval.losses import Scoring
from fitonce.crossval.pieces import joined
from fitonce.crossval.refine import advance, refine
from fitonce.results.verdicts import SAFETY, default_tolerance, sound

_TARGET = 0.1  # of the tolerable error: a hundredth of the standard error
_MANY = 0.25  # of the folds: if more are not good enough, the others are refined, too


@dataclass(frozen=True, eq=False)
class _Walk:
    """Folds after `none` and `onestep`.

    Attributes:
        thetas: (F, D) of the rung that was good enough, or of the last.
        status, rungs, distances: (F,) of the folds.
        evidence: for them.
        climbing: (n,) folds for which neither rung was good enough.
    """

    thetas: np.ndarray
    status: list[Status]
    rungs: np.ndarray
    distances: np.ndarray
    evidence: Evidence
    climbing: np.ndarray


def climb(
    scoring: Scoring, tolerance: float | None, pieces: list[np.ndarray]
) -> tuple[FoldParameters, Evidence]:
    """Parameters and losses of all folds, each from the lowest rung that is good enough; `tolerance` is
    that of `cross_validate`, and `pieces` are the folds that are in memory at a time."""
    batches, ends = scoring.batches, []
    walks: list[_Walk] = []
    states: list[Descent | None] = []  # where folds are, unless there is no memory to keep it
    theta = scoring.curve.theta
    control = scoring.losses(np.broadcast_to(theta, (batches.n_folds, len(theta))), batches.every_fold)
    target = _target(scoring, control, tolerance)
    for folds in pieces:
        part = scoring.some(folds)
        walk, state = _walk(part, control[folds], target)
        batches.add_work(part.batches, folds)
        walks.append(walk)
        states.append(state if len(pieces) == 1 else None)
    ended = batches.spent()
    many = sum(walk.climbing.size for walk in walks) > _MANY * batches.n_folds
    for folds, walk, kept in zip(pieces, walks, states, strict=True):
        part = scoring.some(folds)
        climbing = np.arange(len(folds)) if many else walk.climbing
        if climbing.size and not ended:
            state = _walk_again(part, walk, target) if kept is None else kept
            walk = _refined(part, walk, state, climbing)
            batches.add_work(part.batches, folds)
        for fold in walk.climbing if ended else ():
            if walk.status[fold].outcome is Outcome.APPROXIMATE:
                walk.status[fold] = out_of_budget(walk.distances[fold])
        judge_failures(part, walk.status, walk.evidence)
        ends.append((FoldParameters(walk.thetas, walk.status, walk.rungs), walk.evidence))
    return joined([end for end, _ in ends], [evidence for _, evidence in ends])


def _walk(scoring: Scoring, control: np.ndarray, target: float) -> tuple[_Walk, Descent]:
    """All folds by `none`, and those for which that is not good enough by `onestep`."""
    curve, batches = scoring.curve, scoring.batches
    state = start(batches, curve)
    evidence = Evidence.unchecked(control.copy(), control)
    thetas, current, climbing = state.thetas.copy(), control.copy(), batches.every_fold
    carriers = scoring.carriers(batches.every_fold)
    # Steps by a damped H are too short to judge by: all folds are then refined.
    for rung in () if curve.damping else (Rung.NONE, Rung.ONESTEP):
        if climbing.size == 0 or batches.spent():
            break
        thetas[climbing], evidence.losses[climbing] = state.thetas[climbing], current[climbing]
        state.rungs[climbing] = rung
        current[climbing], good = _judge(scoring, state, evidence, climbing, target)
        climbing = climbing[~good | carriers[climbing]]
    return _Walk(thetas, state.status, state.rungs, state.distances, evidence, climbing), state


def _walk_again(scoring: Scoring, walk: _Walk, target: float) -> Descent:
    """Where the folds were at the end of a walk."""
    free = replace(scoring, batches=scoring.batches.without_budget())
    return _walk(free, walk.evidence.control, target)[1]


def _refined(scoring: Scoring, walk: _Walk, state: Descent, climbing: np.ndarray) -> _Walk:
    """With the folds `climbing` at their optima, from where they were."""
    _finish(scoring, state, walk.evidence, climbing)
    settle(state.status, state.distances)
    walk.thetas[climbing] = state.thetas[climbing]
    return replace(walk, status=state.status, rungs=state.rungs)


def _target(scoring: Scoring, control: np.ndarray, tolerance: float | None) -> float:
    """The error at which a fold may stop."""
    if tolerance is not None:
        return tolerance / SAFETY
    means = scoring.means(control)
    usable = np.isfinite(means)
    return _TARGET * default_tolerance(scoring.spread(control, usable)[0].se, means[usable])


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
