"""Losses of the folds at what a method returned, and the evidence for them.

A check is a gradient of the fold's objective at the returned point, and a gradient and the loss one
step ahead (see `diagnostics`). Methods that end with a gradient at rounding level need no step: what
is left of the way, times how much the loss moved along it, is the error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.curvature import Curvature, IndefiniteError
from fitonce.diagnostics import loss_errors
from fitonce.methods import FoldParameters
from fitonce.refine import norms
from fitonce.scoring import Scoring

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


def check(curvature: Curvature, scoring: Scoring, found: FoldParameters, which: np.ndarray) -> Evidence:
    """Losses of all folds, and errors of the folds `which`."""
    batches = scoring.batches
    everyone = np.arange(batches.n_folds)
    at_the_fit = np.tile(curvature.theta, (batches.n_folds, 1))
    losses = scoring.losses(found.thetas, everyone)
    same = np.array_equal(found.thetas, at_the_fit)
    control = losses if same else scoring.losses(at_the_fit, everyone)
    errors, distances, rates = np.full((3, batches.n_folds), np.nan)
    checked = np.zeros(batches.n_folds, bool)
    which = which[np.isfinite(found.thetas[which]).all(1)]
    if which.size:
        inverses = _inverses(curvature, scoring, found)
        if inverses is not None:
            errors[which], distances[which], rates[which] = _errors(
                curvature, scoring, found, losses, control, inverses[which], which
            )
            checked[which] = True
    return Evidence(losses, control, errors, distances, rates, checked)


def _inverses(curvature: Curvature, scoring: Scoring, found: FoldParameters) -> np.ndarray | None:
    if found.inverses is not None:
        return found.inverses
    try:
        return curvature.inverse / scoring.batches.kept[:, None, None]
    except IndefiniteError:  # only the control gets here: the other methods have refused already
        return None


def _errors(
    curvature: Curvature,
    scoring: Scoring,
    found: FoldParameters,
    losses: np.ndarray,
    control: np.ndarray,
    inverses: np.ndarray,
    which: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors, distances and rates of the folds `which`."""
    thetas = found.thetas[which]
    if found.gradients is None:
        _, gradients = scoring.batches.values_and_gradients(thetas, which)
    else:
        gradients = found.gradients[which]
    distances = norms(gradients, inverses)
    errors = arrived_errors(curvature, scoring, thetas, losses, control, distances, which)
    rates = np.full(len(which), np.nan)
    far = ~(distances <= ARRIVED)
    if far.any():
        rows = which[far]
        ahead = thetas[far] - np.einsum("fij,fj->fi", inverses[far], gradients[far])
        _, left = scoring.batches.values_and_gradients(ahead, rows)
        rates[far] = norms(left, inverses[far]) / distances[far]
        rates[far & np.isnan(rates)] = np.inf
        there = scoring.losses(ahead, rows)
        errors[far] = loss_errors(
            losses[rows], there, scoring.counted[rows], scoring.sizes[rows], rates[far]
        )
    return errors, distances, rates


def arrived_errors(
    curvature: Curvature,
    scoring: Scoring,
    thetas: np.ndarray,
    losses: np.ndarray,
    control: np.ndarray,
    distances: np.ndarray,
    which: np.ndarray,
) -> np.ndarray:
    """(n,) errors of folds within rounding of their optimum: what is left of the way, times how much
    the loss moved along it."""
    way = curvature.way_to(thetas)
    moved = loss_errors(control[which], losses[which], scoring.counted[which], scoring.sizes[which])
    return moved * distances / np.maximum(way, np.finfo(float).tiny)
