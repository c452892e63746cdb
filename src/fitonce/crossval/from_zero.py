"""Folds that would leave a variance of zero, or a unit root of a moving average, where the full fit is.

The objective is even there (see `mirrors`), so that its gradient vanishes whether the place is best or
worst: no gradient tells. The one a little further does, by its sign. Of single points one sweep there
tells it for all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fitonce.core.status import Rung, Status
from fitonce.crossval.batches import Batches
from fitonce.crossval.evidence import Evidence, arrived_errors
from fitonce.crossval.fold_states import FoldParameters
from fitonce.crossval.losses import Scoring
from fitonce.crossval.mirrors import Mirrors, make_canonical, mirrors_of
from fitonce.crossval.refine import refitted
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.newton import Minima

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
    batches = scoring.batches
    rising = falls_beyond(scoring.curve, batches, parameters.thetas[asked], asked, mirrors)
    leaving, rising = asked[rising.any(1)], rising[rising.any(1)]
    first = rising.argmax(1) if len(rising) else []
    places = {
        int(fold): (mirrors.names[at], mirrors.kinds[at])
        for fold, at in zip(leaving, first, strict=True)
    }
    remarks = {fold: _HELD.format(*place) for fold, place in places.items()}
    chosen = evidence.checked[leaving] | refit
    wanted = leaving[chosen]
    if not wanted.size or batches.spent():
        return remarks
    here, directions = parameters.thetas[wanted], rising[chosen] @ mirrors.along
    for fold, end, status, gain in beyond(scoring.curve, batches, here, wanted, directions):
        if gain < _LOWER:  # so near that it makes no difference, or a worse optimum, which says nothing
            if gain > -_LOWER:
                del remarks[fold]
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


def leave_mirrors(curve: Curvature, batches: Batches, parameters: FoldParameters) -> None:
    """Replace all that leave such a place by where they end, as fits have them; in place."""
    mirrors, thetas = mirrors_of(curve), parameters.thetas
    falling = falls_beyond(curve, batches, thetas, batches.every_fold, mirrors)
    leaving = np.flatnonzero(falling.any(1))
    if leaving.size:
        directions = falling[leaving] @ mirrors.along
        for fold, end, _, gain in beyond(curve, batches, thetas[leaving], leaving, directions):
            if gain > 0:
                thetas[fold] = end.thetas[0]
    make_canonical(curve.objective, thetas)


def held_at(curve: Curvature, batches: Batches, thetas: np.ndarray) -> tuple[str, ...]:
    """Such places that some of the folds, at thetas (F, D), are at although these are no optima of
    theirs, as in "'level' at zero"."""
    mirrors = mirrors_of(curve)
    falling = falls_beyond(curve, batches, thetas, batches.every_fold, mirrors)
    found = zip(mirrors.names, mirrors.kinds, falling.T, strict=True)
    return tuple(f"'{name}' at {kind}" for name, kind, column in found if column.any())


def falls_beyond(
    curve: Curvature, batches: Batches, here: np.ndarray, asked: np.ndarray, mirrors: Mirrors
) -> np.ndarray:
    """(n, m) which places the folds `asked` (n,), at `here` (n, D), are at although the fold's objective
    falls away from there."""
    offsets = mirrors.offsets(here - curve.theta)
    found = np.abs(offsets) < _THERE  # False for nan
    for place, along in enumerate(mirrors.along):
        at = np.flatnonzero(found[:, place])
        if at.size:
            moved = here[at] + (_NEAR - offsets[at, place, None]) * along
            gradients = batches.values_and_gradients(moved, asked[at])[1]
            found[at, place] = gradients @ along < 0
    return found


def beyond(
    curve: Curvature, batches: Batches, here: np.ndarray, folds: np.ndarray, directions: np.ndarray
) -> Iterator[tuple[int, Minima, Status, float]]:
    """Folds (n,) that are certified once they have left `here` (n, D) along `directions` (n, D), where
    they end, and by how much lower that is."""
    before, _ = batches.values_and_gradients(here, folds)
    value_of = dict(zip(folds.tolist(), before.tolist(), strict=True))
    for fold, end, status in refitted(batches, folds, here + _BEGIN * directions, curve):
        if status.ok:
            yield fold, end, status, value_of[fold] - end.values[0]


def points_that_rise(curve: Curvature, observed: np.ndarray, thetas: np.ndarray) -> np.ndarray:
    """(m,) which of the points `observed` (n,) would leave such a place when they are left out, as
    numbers of these."""
    return np.flatnonzero(slopes_beyond(curve, observed, thetas - curve.theta) < 0)


def slopes_beyond(curve: Curvature, observed: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """(n,) the least slope of the objective a little away from such places, without each of the points
    `observed`, by one sweep for each place; zero where it falls away from none. `moves` (n, D) lead from
    the full fit.

    The gradient without point t is that of all data plus the slope of log p(x_t | x_-t), at the full fit
    but for a little step away from the place; H there takes it to the theta of the point.
    """
    objective, found = curve.objective, np.zeros(len(observed))
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
            slope = whole + slopes @ along + moves[some] @ row
            found[some] = np.fmin(found[some], slope)
    return found
