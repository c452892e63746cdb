"""Folds that would leave a variance of zero at which the full fit is.

The objective is even in the square root of a variance, so that its gradient vanishes at zero whether
zero is best or worst: no gradient tells. The one a little further does, by its sign.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.status import Rung
from fitonce.crossval.evidence import Evidence, arrived_errors
from fitonce.crossval.fold_states import ZERO, FoldParameters, at_zero
from fitonce.crossval.losses import Scoring
from fitonce.crossval.refine import refitted

_NEAR = 1e-2  # where the slope is looked at
_BEGIN = 0.5  # where a fold begins anew
_LOWER = 1e-6  # nats: a fold leaves for no less
_HELD = "but '{}' is held at zero, which is no optimum of this fold"


def leave_zero(
    scoring: Scoring, parameters: FoldParameters, evidence: Evidence, refit: bool
) -> dict[int, str]:
    """Refits folds that would leave zero. Where `refit`, they are there from now on; else they stay, and
    those that are checked know by how much their losses are off. Returns remarks by fold."""
    rising = _rising(scoring, parameters.thetas)
    leaving = np.flatnonzero(rising.any(1))
    names = {fold: scoring.curve.names[int(rising[fold].argmax())] for fold in leaving.tolist()}
    remarks = {fold: _HELD.format(name) for fold, name in names.items()}
    wanted = leaving if refit else leaving[evidence.checked[leaving]]
    if not wanted.size or scoring.batches.spent():
        return remarks
    begun = np.where(rising, _BEGIN * scoring.curve.scale, parameters.thetas)[wanted]
    before, _ = scoring.batches.values_and_gradients(parameters.thetas[wanted], wanted)
    value_of = dict(zip(wanted.tolist(), before.tolist(), strict=True))
    for fold, end, status in refitted(scoring.batches, wanted, begun, scoring.curve):
        if not (status.ok and end.values[0] < value_of[fold] - _LOWER):
            continue
        alone = np.array([fold])
        losses = scoring.losses(end.thetas, alone)
        if not refit:
            evidence.errors[fold] = scoring.errors(evidence.losses[alone], losses, alone)[0]
            continue
        parameters.thetas[fold], parameters.status[fold] = end.thetas[0], status
        parameters.rungs[fold], remarks[fold] = Rung.REFIT, f"left zero at '{names[fold]}'"
        evidence.losses[fold], evidence.distances[fold] = losses[0], end.distances[0]
        evidence.checked[fold], evidence.rates[fold] = True, np.nan
        evidence.errors[fold] = arrived_errors(scoring, evidence, end.thetas, alone)[0]
    return remarks


def _rising(scoring: Scoring, thetas: np.ndarray) -> np.ndarray:
    """(F, D) which coordinates are at zero although the fold's objective falls away from there."""
    curve, found = scoring.curve, np.zeros(thetas.shape, bool)
    for place in at_zero(curve):
        at = np.flatnonzero(np.abs(thetas[:, place]) < ZERO * curve.scale[place])  # not nan
        if at.size:
            moved = thetas[at].copy()
            moved[:, place] = _NEAR * curve.scale[place]
            found[at, place] = scoring.batches.values_and_gradients(moved, at)[1][:, place] < 0
    return found
