"""Directions in which the objective is even at the full fit: roots of variances that are zero, and
moduli of roots of moving averages on the unit circle.

There the gradient along such a direction vanishes whether the place is best or worst of it, and no step
of other parameters depends on it, so that folds would stay there by symmetry alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fitonce.fitting.curvature import Curvature
from fitonce.fitting.hessian import IndefiniteError
from fitonce.objectives.abilities import HasEvenDirections, even_directions

if TYPE_CHECKING:
    from fitonce.objectives.base import Objective


class Mirrors(NamedTuple):
    """Some directions at a fit.

    Attributes:
        names: the parameter that each is about.
        kinds: what the parameter is there: "zero" or "a unit root".
        along: (m, D) displacements of one standard error.
        across: (m, D) H `along`; its product with a displacement is how many standard errors that is
            along each.
    """

    names: list[str]
    kinds: list[str]
    along: np.ndarray
    across: np.ndarray

    def offsets(self, moves: np.ndarray) -> np.ndarray:
        """(n, m) how many standard errors along each displacements (n, D) from the fit lead."""
        return moves @ self.across.T


def mirrors_of(curve: Curvature) -> Mirrors:
    """Those of a fit; none where it has no standard errors."""
    objective, size = curve.objective, len(curve.theta)
    names: list[str] = []
    kinds: list[str] = []
    along = [np.zeros((0, size))]
    try:
        if objective.space.even.any():
            zero = np.flatnonzero(objective.space.at_zero(curve.theta, curve.scale))
            names += [curve.names[place] for place in zero]
            kinds += ["zero"] * len(zero)
            along.append(np.eye(size)[zero] * curve.scale[zero, None])
        for name, direction in even_directions(objective, curve.theta):
            length = np.sqrt(direction @ curve.hessian_operator.product(direction))
            names.append(name)
            kinds.append("a unit root")
            along.append(direction[None] / length)
    except IndefiniteError:
        return Mirrors([], [], along[0], along[0])
    found = np.concatenate(along)
    return Mirrors(names, kinds, found, curve.hessian_operator.product(found.T).T if names else found)


def make_canonical(objective: Objective, thetas: Any) -> np.ndarray:
    """Of parameters (F, D) that are the same model, folds have those that fits have; in place. Returns
    which may be others now. Rows that are made when they are asked for are steps from the fit, and stay
    as they are."""
    if not (isinstance(thetas, np.ndarray) and isinstance(objective, HasEvenDirections)):
        return np.zeros(0, int)
    changed = objective.not_canonical(thetas)
    for fold in changed:
        thetas[fold] = objective.canonical(thetas[fold])
    return changed
