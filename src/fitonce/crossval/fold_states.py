"""Where folds are between the full fit and their own optima, and the steps that they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fitonce.core.status import Outcome, Rung, Status
from fitonce.crossval.batches import Batches
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.footprint import with_matrices

_CLOSE = 1e-3  # standard errors: closer than this, a certificate makes no difference to a loss


@dataclass(eq=False)
class Descent:
    """Where each fold is on its way to its own optimum; one row per fold.

    Attributes:
        thetas, gradients: (F, D).
        values: (F,) the folds' objectives.
        inverses: (F, D, D) the matrix B of each fold; None where that would be too large, and B is
            always that of the full fit.
        rates: (F,) the share of the gradient that the last step left; nan before the first.
        own: (F,) whether B came from the fold's own Hessian.
        certain: (F,) whether the optimum can be certified: that Hessian was taken near it, or the
            objective is convex.
        lowest: (F,) smallest eigenvalue of that Hessian scaled to a unit diagonal, or met by products
            relative to the preconditioner; nan without.
        shares: (F,) the factor by which the next step is shortened.
        rungs: (F,) how each fold was obtained.
        status: of each fold.
    """

    thetas: np.ndarray
    gradients: np.ndarray
    values: np.ndarray
    inverses: np.ndarray | None
    rates: np.ndarray
    own: np.ndarray
    certain: np.ndarray
    lowest: np.ndarray
    shares: np.ndarray
    rungs: np.ndarray
    status: list[Status]
    _curve: Curvature
    _kept: np.ndarray
    _steps: np.ndarray | None = None

    def moves(self, which: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """(n, D) B g of gradients (n, D) of the folds `which`."""
        if self.inverses is None:
            return self._curve.steps(gradients, self._kept[which])
        return np.einsum("fij,fj->fi", self.inverses[which], gradients)

    @property
    def steps(self) -> np.ndarray:
        """(F, D) the next steps, at full length."""
        if self.inverses is not None:
            return -np.einsum("fij,fj->fi", self.inverses, self.gradients)
        if self._steps is None:  # solved once for each gradient
            self._steps = -self._curve.steps(self.gradients, self._kept)
        return self._steps

    def changed(self, which: np.ndarray, moves: np.ndarray | None = None) -> None:
        """Update the steps after the gradients of folds `which` have changed; `moves` (n, D) of these
        gradients, where they are known."""
        if self._steps is not None:
            self._steps[which] = -(self.moves(which, self.gradients[which]) if moves is None else moves)

    @property
    def distances(self) -> np.ndarray:
        """(F,) estimated distance from each fold's optimum, in standard errors."""
        return lengths(self.gradients, -self.steps)


def lengths(gradients: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(F,) sqrt(g' B g) of gradients and B g; nan where B is not positive along g."""
    squares = np.einsum("fi,fi->f", gradients, steps)
    return np.sqrt(np.where(squares >= 0, squares, np.nan))


def is_large(curve: Curvature, batches: Batches) -> bool:
    """Whether a matrix for each fold would take too much time or memory."""
    return not with_matrices(curve.objective, batches.n_folds)


def at_full_fit(batches: Batches, curve: Curvature) -> np.ndarray:
    """(F, D) the parameters of the full fit for every fold."""
    return np.tile(curve.theta, (batches.n_folds, 1))


def start(batches: Batches, curve: Curvature) -> Descent:
    """Every fold at the full fit, with one gradient each."""
    count, thetas = batches.n_folds, at_full_fit(batches, curve)
    values, gradients = batches.values_and_gradients(thetas, batches.every_fold)
    return Descent(
        thetas=thetas,
        gradients=gradients,
        values=values,
        inverses=None if is_large(curve, batches) else curve.inverse / batches.kept[:, None, None],
        rates=np.full(count, np.nan),
        own=np.zeros(count, bool),
        certain=np.zeros(count, bool),
        lowest=np.full(count, np.nan),
        shares=np.ones(count),
        rungs=np.full(count, Rung.NONE, object),
        status=[Status(Outcome.APPROXIMATE, "")] * count,
        _curve=curve,
        _kept=batches.kept,
    )


class FoldParameters(NamedTuple):
    """What a method returns, one row per fold.

    Attributes:
        thetas: (F, D); nan where the status is not ok and there is no usable number.
        status: F of them.
        rungs: (F,) how each fold was obtained.
        inverses: (F, D, D) inverses of the folds' own Hessians, where the method has them.
        gradients: (F, D) of the folds' objectives at the thetas, where the method took them.
        own: whether the folds' own Hessians were used, as matrices or by products.
        moves: (F,) distances from the full fit in standard errors, where the method has them.
    """

    thetas: np.ndarray
    status: list[Status]
    rungs: np.ndarray
    inverses: np.ndarray | None = None
    gradients: np.ndarray | None = None
    own: bool = False
    moves: np.ndarray | None = None

    def some(self, rows: np.ndarray) -> FoldParameters:
        """Of the folds with these numbers (n,), which may repeat."""
        chosen = lambda part: None if part is None else part[rows]  # noqa: E731
        return FoldParameters(
            self.thetas[rows],
            [self.status[row] for row in rows],
            self.rungs[rows],
            chosen(self.inverses),
            chosen(self.gradients),
            self.own,
            chosen(self.moves),
        )


def usual_move(turnover: np.ndarray, size: int) -> np.ndarray:
    """(F,) the usual distance of a fold's optimum from the full fit, in standard errors: about
    sqrt(D turnover) under a correct model, and at least one, so that small folds may move."""
    return np.sqrt(1.0 + size * turnover)


def settle(status: list[Status], distances: np.ndarray) -> None:
    """Count folds that have no certificate but are close to their optimum as approximate.

    On the boundary of the parameter space (a rate that tends to zero) nothing is ever stationary.
    """
    for fold, distance in enumerate(distances):
        if status[fold].outcome is Outcome.NOT_STATIONARY and distance <= _CLOSE:
            text = f"not certified, but within {distance:.1e} standard errors of stationary"
            status[fold] = Status(Outcome.APPROXIMATE, text)


def out_of_budget(distance: float) -> Status:
    """The status of a fold that the budget left unfinished."""
    text = f"the budget ended {distance:.1e} standard errors from the fold's optimum"
    return Status(Outcome.APPROXIMATE, text)
