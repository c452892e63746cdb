"""Losses of the folds at what a method returned, and the evidence for them.

A check is a gradient of the fold's objective at the returned point, and a gradient and the loss one
step ahead (see `diagnostics`). Methods that end with a gradient at rounding level need no step: what
is left of the way, times how much the loss moved along it, is the error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.core.status import Outcome, Status
from fitonce.crossval.fold_states import FoldParameters, lengths
from fitonce.crossval.losses import Scoring
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.hessian import IndefiniteError
from fitonce.results.verdicts import loss_errors

ARRIVED = 1e-6  # standard errors: no step ahead is worth taking from here


class Evidence(NamedTuple):
    """What is known about the folds' losses, one row per fold.

    Attributes:
        losses, control: (F, W) at the fold's parameters and at the full fit's.
        errors: (F,) estimated error of the fold's mean loss; nan where not checked.
        distances: (F,) estimated distance from the fold's optimum in standard errors.
        rates: (F,) the share of the gradient that a step ahead leaves; nan where none was needed.
        checked: (F,) whether there was a gradient to tell by.
    """

    losses: np.ndarray
    control: np.ndarray
    errors: np.ndarray
    distances: np.ndarray
    rates: np.ndarray
    checked: np.ndarray


def gather_evidence(
    curvature: Curvature, scoring: Scoring, found: FoldParameters, which: np.ndarray
) -> Evidence:
    """Losses of all folds, and errors of the folds `which`."""
    batches = scoring.batches
    everyone = np.arange(batches.n_folds)
    at_the_fit = np.tile(curvature.theta, (batches.n_folds, 1))
    losses = scoring.losses(found.thetas, everyone)
    same = np.array_equal(found.thetas, at_the_fit)
    control = losses if same else scoring.losses(at_the_fit, everyone)
    errors, distances, rates = np.full((3, batches.n_folds), np.nan)
    evidence = Evidence(losses, control, errors, distances, rates, np.zeros(batches.n_folds, bool))
    which = which[np.isfinite(found.thetas[which]).all(1)]
    if curvature.damping:  # steps by a damped H are too short to tell anything
        which = which[[found.status[fold].outcome is Outcome.STATIONARY for fold in which]]
    if which.size and _fill(curvature, scoring, found, evidence, which) and not found.own:
        distrust(curvature, scoring, found.status, evidence, which)
    judge_failures(scoring, found.status, evidence)
    return evidence


def distrust(
    curvature: Curvature,
    scoring: Scoring,
    status: list[Status],
    evidence: Evidence,
    which: np.ndarray,
) -> None:
    """Take back the errors of folds `which` that carry a latent state, unless they are certified."""
    carriers = scoring.carriers(curvature.theta)
    for fold in which[carriers[which]]:
        if status[fold].outcome is Outcome.APPROXIMATE:
            evidence.errors[fold], evidence.rates[fold] = np.nan, np.inf
            status[fold] = Status(
                Outcome.APPROXIMATE,
                "nearly all that is in one of the latent states is left out, so that parameters rest on "
                "this fold and gradients do not show how far they would move",
            )


def judge_failures(scoring: Scoring, status: list[Status], evidence: Evidence) -> None:
    """Where there is no optimum to measure from, what the loss moved is what it may be off by."""
    failed = np.flatnonzero([not s.ok for s in status])
    evidence.errors[failed] = loss_errors(
        evidence.control[failed],
        evidence.losses[failed],
        scoring.counted[failed],
        scoring.sizes[failed],
    )


def fold_steps(
    curvature: Curvature,
    scoring: Scoring,
    found: FoldParameters,
    gradients: np.ndarray,
    which: np.ndarray,
) -> np.ndarray:
    """(n, D) B g of gradients (n, D) of the folds `which`, by their own Hessians where there are any."""
    if found.inverses is not None:
        return np.einsum("fij,fj->fi", found.inverses[which], gradients)
    return curvature.steps(gradients, scoring.batches.kept[which])


def _fill(
    curvature: Curvature,
    scoring: Scoring,
    found: FoldParameters,
    evidence: Evidence,
    which: np.ndarray,
) -> bool:
    """Errors, distances and rates of the folds `which`, into `evidence`; False where there is no H to
    tell them by."""
    thetas = found.thetas[which]
    if found.gradients is None:
        _, gradients = scoring.batches.values_and_gradients(thetas, which)
    else:
        gradients = found.gradients[which]
    try:
        steps = fold_steps(curvature, scoring, found, gradients, which)
    except IndefiniteError:  # only the control gets here: the other methods have refused already
        return False
    distances = lengths(gradients, steps)
    evidence.checked[which], evidence.distances[which] = True, distances
    evidence.errors[which] = arrived_errors(curvature, scoring, thetas, evidence, distances, which)
    far = ~(distances <= ARRIVED)
    if not far.any():
        return True
    rows = which[far]
    ahead = thetas[far] - steps[far]
    _, left = scoring.batches.values_and_gradients(ahead, rows)
    rates = lengths(left, fold_steps(curvature, scoring, found, left, rows)) / distances[far]
    evidence.rates[rows] = np.where(np.isnan(rates), np.inf, rates)
    evidence.errors[rows] = loss_errors(
        evidence.losses[rows],
        scoring.losses(ahead, rows),
        scoring.counted[rows],
        scoring.sizes[rows],
        evidence.rates[rows],
    )
    return True


def arrived_errors(
    curvature: Curvature,
    scoring: Scoring,
    thetas: np.ndarray,
    evidence: Evidence,
    distances: np.ndarray,
    which: np.ndarray,
) -> np.ndarray:
    """(n,) errors of folds `which` within rounding of their optimum, at thetas (n, D): what is left of
    the way, times how much the loss moved along it."""
    way = curvature.way_to(thetas)
    moved = loss_errors(
        evidence.control[which], evidence.losses[which], scoring.counted[which], scoring.sizes[which]
    )
    return moved * distances / np.maximum(way, np.finfo(float).tiny)
