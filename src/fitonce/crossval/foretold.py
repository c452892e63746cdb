"""How long folds will take, said before they start: gradients that a method takes for a fold."""

from __future__ import annotations

from fitonce.core.foretelling import foretell, is_told, seconds_of
from fitonce.core.parallel import cores
from fitonce.core.wording import counted
from fitonce.fitting.fit import Fit
from fitonce.fitting.footprint import with_matrices
from fitonce.objectives.base import Objective

# Gradients and losses of a fold, Hessians of its own: where it is easy, and where it is not.
_LEAST = {
    "none": (2, 0), "ij": (1, 0), "onestep": (4, 0), "newton": (4, 0.5), "auto": (4, 0),
    "exact": (8, 0.5),
}  # fmt: skip
_MOST = {
    "none": (8, 0), "ij": (8, 0), "onestep": (12, 0), "newton": (12, 2), "auto": (20, 1),
    "exact": (40, 3),
}  # fmt: skip
_SEARCH = 100  # gradients of a fold's other starts
_CLOSED = 0.25  # of D gradients: H by loops of its own
_PRODUCTS = 80  # gradients, where H is not formed
_FASTER = "method='onestep' (--method onestep) takes less"


def foretell_folds(
    fit: Fit, objective: Objective, method: str, n_folds: int, optima: int, progress: bool | None
) -> None:
    """Say how long a method will take for all folds, where that is long and progress is shown."""
    if not is_told(progress):
        return
    own = fit.objective

    def one(step: float) -> None:
        own.values_and_gradients(fit.theta[None] + step, own.base[None])

    one(1e-9)  # compiles it, for a fit that was read
    gradient = seconds_of(lambda: one(2e-9))
    least, most = rows_of(objective, method, n_folds, optima)
    what = f"{counted(n_folds, 'fold')} by '{method}'"
    hint = _FASTER if method in ("auto", "exact", "newton") else ""
    foretell(what, n_folds * least * gradient / cores(), n_folds * most * gradient, hint)


def rows_of(objective: Objective, method: str, n_folds: int, optima: int) -> tuple[float, float]:
    """What a fold takes in gradients, at least and at most."""
    matrix = objective.space.size * (_CLOSED if objective.traits.exact_hessians else 1.0)
    if not with_matrices(objective, n_folds):
        matrix = _PRODUCTS
    least, most = (rows + matrices * matrix for rows, matrices in (_LEAST[method], _MOST[method]))
    convex = objective.traits.convex or objective.least_curvature is not None
    searched = optima and method in ("auto", "exact") and not convex
    return least, most + (_SEARCH if searched else 0)
