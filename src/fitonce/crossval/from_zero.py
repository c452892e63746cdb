"""Folds that would leave a variance of zero, or a unit root of a moving average, where the full fit is.

The objective is even there (see `mirrors`), so that its gradient vanishes whether the place is best or
worst: no gradient tells. The one a little further does, by its sign. Of single points one sweep there
tells it for all.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.status import Rung
from fitonce.crossval.evidence import Evidence, arrived_errors
from fitonce.crossval.fold_states import FoldParameters
from fitonce.crossval.losses import Scoring
from fitonce.crossval.mirrors import Mirrors, mirrors_of
from fitonce.crossval.refine import refitted
from fitonce.fitting.curvature import Curvature

_THERE = 1e-4  # standard errors: a fold that is closer to such a place is there
_NEAR = 1e-2  # standard errors away, where the slope is looked at
_BEGIN = 0.5  # standard errors away, where a fold begins anew
_LOWER = 1e-6  # nats: a fold leaves for no less
_LEFT = "left {1} at '{0}'"
_HELD = "but '{}' is held at {}, which is no optimum of this fold"


def leave_zero(
    scoring: Scoring,
    parameters: FoldParameters,
    evidence: Evidence,
    refit: bool,
    among: np.ndarray | None = None,
) -> dict[int, str]:
    """Refits folds that would leave zero. Where `refit`, they are there from now on; else they stay, and
    those that are checked know by how much their losses are off. Only the folds `among` (n,) are asked;
    None: all. Returns remarks by fold."""
    asked = scoring.batches.every_fold if among is None else among
    mirrors = mirrors_of(scoring.curve)
    rising = _rising(scoring, parameters.thetas, asked, mirrors)
    leaving, rising = asked[rising.any(1)], rising[rising.any(1)]
    first = rising.argmax(1) if len(rising) else []
    places = {
        int(fold): (mirrors.names[at], mirrors.kinds[at])
        for fold, at in zip(leaving, first, strict=True)
    }
    remarks = {fold: _HELD.format(*place) for fold, place in places.items()}
    chosen = evidence.checked[leaving] | refit
    wanted = leaving[chosen]
    if not wanted.size or scoring.batches.spent():
        return remarks
    here = parameters.thetas[wanted]
    begun = here + _BEGIN * rising[chosen] @ mirrors.along
    before, _ = scoring.batches.values_and_gradients(here, wanted)
    value_of = dict(zip(wanted.tolist(), before.tolist(), strict=True))
    for fold, end, status in refitted(scoring.batches, wanted, begun, scoring.curve):
        if not (status.ok and end.values[0] < value_of[fold] - _LOWER):
            continue
        alone = np.array([fold])
        losses = scoring.losses(end.thetas, alone)
        if not refit:
            evidence.errors[fold] = scoring.errors(evidence.losses[alone], losses, alone)[0]
            continue
        parameters.thetas[alone], parameters.status[fold] = end.thetas, status
        if parameters.moves is not None:
            parameters.moves[fold] = scoring.curve.distances_to(end.thetas)[0]
        parameters.rungs[fold], remarks[fold] = Rung.REFIT, _LEFT.format(*places[fold])
        evidence.losses[fold], evidence.distances[fold] = losses[0], end.distances[0]
        evidence.checked[fold], evidence.rates[fold] = True, np.nan
        evidence.errors[fold] = arrived_errors(scoring, evidence, end.thetas, alone)[0]
    return remarks


def _rising(scoring: Scoring, thetas: np.ndarray, asked: np.ndarray, mirrors: Mirrors) -> np.ndarray:
    """(n, m) which places the folds `asked` (n,) are at although the fold's objective falls away from
    there."""
    here = thetas[asked]
    offsets = mirrors.offsets(here - scoring.curve.theta)
    found = np.abs(offsets) < _THERE  # False for nan
    for place, along in enumerate(mirrors.along):
        at = np.flatnonzero(found[:, place])
        if at.size:
            moved = here[at] + (_NEAR - offsets[at, place, None]) * along
            gradients = scoring.batches.values_and_gradients(moved, asked[at])[1]
            found[at, place] = gradients @ along < 0
    return found


def points_that_rise(curve: Curvature, observed: np.ndarray, thetas: np.ndarray) -> np.ndarray:
    """(m,) which of the points `observed` (n,) would leave such a place when they are left out, as
    numbers of these, by one sweep for each place; `thetas` (n, D) are near the full fit.

    The gradient without point t is that of all data plus the slope of log p(x_t | x_-t), at the full fit
    but for a little step away from the place; H there takes it to the theta of the point.
    """
    objective, found = curve.objective, np.zeros(len(observed), bool)
    mirrors = mirrors_of(curve)
    for along, across in zip(mirrors.along, mirrors.across, strict=True):
        near = curve.theta + _NEAR * along
        whole = objective.gradients(near[None], objective.base[None])[0] @ along
        row = objective.hessians(near[None], objective.base[None])[0] @ along
        row -= (row @ along) * across  # none of the points moves along it
        start = 0
        for _, densities, slopes in objective.leave_one_out_in_pieces(near, observed):
            some = slice(start, start + len(slopes))
            start = some.stop
            _, slopes = objective.gains_without(near, observed[some], densities, slopes)
            found[some] |= whole + slopes @ along + (thetas[some] - curve.theta) @ row < 0
    return np.flatnonzero(found)
