"""Losses of the folds at what a method returned, and the evidence for them.

A check is a gradient of the fold's objective at the returned point, and a gradient and the loss one
step ahead (see `results.verdicts`). Methods that end with a gradient at rounding level need no step: the
remaining share of the move from the full fit, times the change of the loss along it, is the error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.core.status import Outcome, Status
from fitonce.crossval.fold_states import FoldParameters, at_full_fit, lengths
from fitonce.crossval.losses import Scoring
from fitonce.fitting.hessian import IndefiniteError

ARRIVED = 1e-6  # standard errors: closer than this, a step ahead adds nothing


class Evidence(NamedTuple):
    """What is known about the folds' losses, one row per fold.

    Attributes:
        losses, control: (F, W) at the fold's parameters and at the full fit's.
        errors: (F,) estimated error of the fold's mean loss; nan where not checked.
        distances: (F,) estimated distance from the fold's optimum in standard errors.
        rates: (F,) the share of the gradient that a step ahead leaves; nan where none was needed.
        checked: (F,) whether the fold was checked by a gradient.
    """

    losses: np.ndarray
    control: np.ndarray
    errors: np.ndarray
    distances: np.ndarray
    rates: np.ndarray
    checked: np.ndarray

    @classmethod
    def unchecked(cls, losses: np.ndarray, control: np.ndarray) -> Evidence:
        """Losses (F, W) alone, to be filled in."""
        errors, distances, rates = np.full((3, len(losses)), np.nan)
        return cls(losses, control, errors, distances, rates, np.zeros(len(losses), bool))

    def some(self, rows: np.ndarray) -> Evidence:
        """Of the folds with these numbers (n,), which may repeat."""
        return Evidence(*(part[rows] for part in self))


def gather_evidence(scoring: Scoring, parameters: FoldParameters, which: np.ndarray) -> Evidence:
    """Losses of all folds, and errors of the folds `which`."""
    batches, thetas = scoring.batches, parameters.thetas
    full_fit = at_full_fit(batches, scoring.curve)
    losses = scoring.losses(thetas, batches.every_fold)
    same = np.array_equal(thetas, full_fit)
    control = losses if same else scoring.losses(full_fit, batches.every_fold)
    evidence = Evidence.unchecked(losses, control)
    which = which[np.isfinite(thetas[which]).all(1)]
    if scoring.curve.damping:  # steps by a damped H are too short to judge by
        which = which[[parameters.status[fold].outcome is Outcome.STATIONARY for fold in which]]
    if which.size and _fill(scoring, parameters, evidence, which) and not parameters.own:
        distrust(scoring, parameters.status, evidence, which)
    judge_failures(scoring, parameters.status, evidence)
    return evidence


def distrust(scoring: Scoring, status: list[Status], evidence: Evidence, which: np.ndarray) -> None:
    """Withdraw the errors of folds `which` that carry a latent state or a coefficient, unless they are
    certified."""
    for fold in which[scoring.carriers(which)]:
        if status[fold].outcome is Outcome.APPROXIMATE:
            evidence.errors[fold], evidence.rates[fold] = np.nan, np.inf
            what = "nearly all observations of one latent state, so that parameters depend on this fold"
            if scoring.lost_coefficients[fold]:
                what = "all that determines some coefficient, so that losses depend on this fold"
            status[fold] = Status(
                Outcome.APPROXIMATE,
                f"the fold leaves out {what} and gradients do not show how far they would move",
            )


def judge_failures(scoring: Scoring, status: list[Status], evidence: Evidence) -> None:
    """Where there is no optimum to measure from, take the change of the loss as its error."""
    failed = np.flatnonzero([not s.ok for s in status])
    evidence.errors[failed] = scoring.errors(evidence.control[failed], evidence.losses[failed], failed)


def fold_steps(
    scoring: Scoring, parameters: FoldParameters, gradients: np.ndarray, which: np.ndarray
) -> np.ndarray:
    """(n, D) B g of gradients (n, D) of the folds `which`, by their own Hessians where there are any."""
    if parameters.inverses is not None:
        return np.einsum("fij,fj->fi", parameters.inverses[which], gradients)
    return scoring.curve.steps(gradients, scoring.batches.kept[which])


def _fill(scoring: Scoring, parameters: FoldParameters, evidence: Evidence, which: np.ndarray) -> bool:
    """Errors, distances and rates of the folds `which`, into `evidence`; False where H, which they need,
    is not positive definite."""
    thetas = parameters.thetas[which]
    if parameters.gradients is None:
        _, gradients = scoring.batches.values_and_gradients(thetas, which)
    else:
        gradients = parameters.gradients[which]
    try:
        steps = fold_steps(scoring, parameters, gradients, which)
    except IndefiniteError:  # only for the control: the other methods have refused already
        return False
    distances = lengths(gradients, steps)
    evidence.checked[which], evidence.distances[which] = True, distances
    evidence.errors[which] = arrived_errors(scoring, evidence, thetas, which)
    far = ~(distances <= ARRIVED)
    if far.any():
        rows, ahead = which[far], thetas[far] - steps[far]
        _, left = scoring.batches.values_and_gradients(ahead, rows)
        rates = lengths(left, fold_steps(scoring, parameters, left, rows)) / distances[far]
        evidence.rates[rows] = np.where(np.isnan(rates), np.inf, rates)
        here, there = evidence.losses[rows], scoring.losses(ahead, rows)
        evidence.errors[rows] = scoring.errors(here, there, rows, evidence.rates[rows])
    return True


def arrived_errors(
    scoring: Scoring, evidence: Evidence, thetas: np.ndarray, which: np.ndarray
) -> np.ndarray:
    """(n,) errors of folds `which` within rounding of their optimum, at thetas (n, D): the remaining
    share of the move from the full fit, times the change of the loss along it."""
    change = scoring.errors(evidence.control[which], evidence.losses[which], which)
    moves = np.maximum(scoring.curve.distances_to(thetas), np.finfo(float).tiny)
    return change * evidence.distances[which] / moves
