"""Leave-one-out and other optima: every point is compared with every other optimum of the fit.

Without point t the objective at any theta is F(theta) + log p(x_t | x_-t; theta), which one sweep gives
for all points, with its slope s_t. Near an optimum with Hessian H a step lowers it by about
s_t' H^-1 s_t / 2. So one sweep at each optimum tells which points could have their best one there.
"""

from __future__ import annotations

import numpy as np

from fitonce.crossval.fold_optima import LOWER
from fitonce.crossval.optima import REACH
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.factor import factor_of


def could_move(curve: Curvature, observed: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(m,) which of the points `observed` (n,) could be in another of the optima (M, D) of all data when
    they are left out, as numbers of `observed`, those that would gain most first."""
    own, gains = _without(curve, curve.theta, observed), np.full(len(observed), -np.inf)
    for theta in others:
        with np.errstate(invalid="ignore"):
            gains = np.fmax(gains, own - _without(curve, theta, observed, REACH))
    order = np.argsort(-gains, kind="stable")
    return order[gains[order] > LOWER]


def _without(
    curve: Curvature, theta: np.ndarray, observed: np.ndarray, reach: float = 1.0
) -> np.ndarray:
    """(n,) the objective without each point, `reach` steps from an optimum (D,); inf without one."""
    objective = curve.objective
    factor = factor_of(objective.hessians(theta[None], objective.base[None])[0])
    found = np.full(len(observed), np.inf)
    if factor is None:
        return found
    value, start = objective(theta), 0
    for _, densities, slopes in objective.leave_one_out_in_pieces(theta, observed):
        some = slice(start, start + len(densities))
        start = some.stop
        rises, slopes = objective.gains_without(theta, observed[some], densities, slopes)
        gains = reach * 0.5 * np.einsum("td,td->t", slopes, factor.solve(slopes.T).T)
        found[some] = value + rises - gains
    return found
