"""Which points influence should refit without, and how far the fit then moves.

First order says how far the fit moves where its objective stays as it is. It does not where a point is a
good part of what a hidden state rests on: without share h of a weighted sum the rest has 1 - h, so that
moves grow by 1 / (1 - h) and the displacement by its square. And it knows nothing of probabilities or
variances that are zero at the fit and would not be without the point (`fitting.boundary`,
`crossval.from_zero`), nor of roots of moving averages that would leave the unit circle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fitonce.core.memory import MemoryLimitError
from fitonce.crossval.cross_validate import cross_validate
from fitonce.crossval.from_zero import slopes_beyond
from fitonce.fitting import boundary
from fitonce.fitting.carriers import state_shares
from fitonce.fitting.optima import cheap_gradients
from fitonce.folds import sites
from fitonce.objectives.families import objective_of

if TYPE_CHECKING:
    from fitonce.fitting.curvature import Curvature
    from fitonce.fitting.fit import Fit
    from fitonce.objectives.base import Objective

_REFITTED = 20  # points, where that takes seconds
_GRADIENTS = 15  # of a refit, besides a Hessian
_PATIENCE = 4.0  # times the gradients that count as cheap
_LEAST_LEFT = 1e-3  # of a state, without a point that carries it


class Refitted(NamedTuple):
    """Points that were left out exactly.

    Attributes:
        rows: (n,) which of the observed points.
        displacements: (n,) by how much twice the log posterior of all data drops.
        moves: (n, D) of the named parameters, in their units.
    """

    rows: np.ndarray
    displacements: np.ndarray
    moves: np.ndarray


def usual_refits(objective: Objective) -> int:
    """How many points are refitted where the user has not said it: fewer where a refit takes long."""
    affordable = _PATIENCE * cheap_gradients(objective) / gradients_of_a_refit(objective)
    return min(_REFITTED, int(affordable))


def gradients_of_a_refit(objective: Objective) -> float:
    """About how many gradients a refit takes."""
    return _GRADIENTS + (0 if objective.traits.exact_hessians else objective.space.size)


def most_doubtful(
    curve: Curvature,
    fit: Fit,
    observed: np.ndarray,
    moves: np.ndarray,
    first_order: np.ndarray,
    count: int,
) -> np.ndarray:
    """(count,) which of the points `observed` (n,) move the fit most, or may: by moves (n, D) and
    displacements to `first_order` (n,), and how far these may be off. At most half of them would leave a
    zero or a unit root."""
    slopes = slopes_beyond(curve, observed, moves)
    steepest = np.argsort(slopes, kind="stable")
    leaving = np.append(steepest[slopes[steepest] < 0], _leaving_zeros(fit, observed))[: count // 2]
    likely = np.nan_to_num(first_order, nan=np.inf) / _left_of_states(fit, observed) ** 2
    likely[leaving] = np.inf
    return np.argsort(-likely, kind="stable")[:count]


def _left_of_states(fit: Fit, observed: np.ndarray) -> np.ndarray:
    """(n,) what is left without each point of the state of which it is the largest part."""
    if not fit.objective.traits.hidden_states:
        return np.ones(len(observed))
    shares = state_shares(fit.objective, fit.theta)[observed].max(1)
    return np.maximum(1.0 - shares, _LEAST_LEFT)


def _leaving_zeros(fit: Fit, observed: np.ndarray) -> np.ndarray:
    """Which points hold a probability at zero that would grow without them, the steepest first."""
    steepest = np.zeros(len(observed))
    for name, zero in boundary.estimated_zeros(fit).items():
        slopes = boundary.slopes_without(fit, name, observed) / boundary.expected(fit, name, zero.ndim)
        steepest = np.minimum(steepest, slopes[:, zero].min(1))
    order = np.argsort(steepest, kind="stable")
    return order[steepest[order] < -boundary.ROUNDING]


def refitted(fit: Fit, observed: np.ndarray, rows: np.ndarray) -> Refitted:
    """The points `rows` of those `observed`, each left out and the fit continued to its optimum; those
    without a certified one, or without the memory for it, are not among them."""
    folds = sites([observed[[row]] for row in rows], fit.data)
    try:
        cv = cross_validate(fit, folds, method="exact", optima=0, progress=False)
    except MemoryLimitError:
        rows = rows[:0]
    at_fit = fit.objective.space.named_values(fit.theta[None])[0]
    kept, displacements, moves = [], [], []
    for fold in range(len(rows)):
        if not cv.folds["ok"].iloc[fold]:
            continue
        params = cv.params(fold)
        value = _value_at(fit, cv.theta[fold], params)
        if np.isfinite(value):
            kept.append(rows[fold])
            displacements.append(2.0 * (value - fit.value))
            moves.append(_named_values(fit, params) - at_fit)
    shape = (len(kept), len(fit.theta))
    return Refitted(np.array(kept, int), np.array(displacements), np.array(moves).reshape(shape))


def _value_at(fit: Fit, theta: np.ndarray, params: Any) -> float:
    """The objective of all data at parameters of a fold, which may have left zeros of the fit."""
    if np.isfinite(theta).all():
        return fit.objective(theta)
    model = fit.model.zeros.freed().zeros.held(params)
    objective = objective_of(model, fit.data)
    return objective(objective.space.to_free(params))


def _named_values(fit: Fit, params: Any) -> np.ndarray:
    """(D,) the values that names of the fit refer to."""
    space = fit.objective.space
    values = dict(space.named_leaves(params))
    found = np.empty(space.size)
    for name, leaf, places in space.leaves():
        found[places] = [values[name][index] for index in leaf.coordinates()]
    return found
