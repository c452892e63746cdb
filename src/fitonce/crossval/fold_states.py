"""Where folds are on their way from the full fit to their own optima, and the steps that they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fitonce.core.status import Outcome, Rung, Status
from fitonce.crossval.batches import Batches
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.hessian import PRODUCTS_PAY

_MATRICES = 2**30  # bytes of matrices that folds may have of their own
_CLOSE = 1e-3  # standard errors: what a certificate would add does not matter to a loss


@dataclass(eq=False)
class Descent:
    """Where each fold is on its way to its own optimum; one row per fold.

    Attributes:
        thetas, gradients: (F, D).
        values: (F,) the folds' objectives.
        inverses: (F, D, D) the matrix B of each fold; None where that would be too large, and B stays
            what it was at first.
        rates: (F,) what share of the gradient the last step left; nan before the first.
        own: (F,) whether B came from the fold's own Hessian.
        certain: (F,) whether that was taken near the optimum, so that it can certify it, or the
            objective is convex and nothing else can be there.
        lowest: (F,) smallest eigenvalue of that Hessian scaled to a unit diagonal, or met by products
            relative to the preconditioner; nan without.
        shares: (F,) by how much the next step is shortened.
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
        """(F, D) the full steps that come next."""
        everyone = np.arange(len(self.thetas))
        if self.inverses is not None:
            return -self.moves(everyone, self.gradients)
        if self._steps is None:  # one factor for all: solved once for each gradient
            self._steps = -self.moves(everyone, self.gradients)
        return self._steps

    def changed(self, which: np.ndarray) -> None:
        """Say that the gradients of folds `which` are new."""
        if self._steps is not None:
            self._steps[which] = -self.moves(which, self.gradients[which])

    @property
    def distances(self) -> np.ndarray:
        """(F,) estimated distance from each fold's optimum, in standard errors."""
        return lengths(self.gradients, -self.steps)


def lengths(gradients: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(F,) sqrt(g' B g) of gradients and B g; nan where B is not positive along g."""
    squares = np.einsum("fi,fi->f", gradients, steps)
    return np.sqrt(np.where(squares >= 0, squares, np.nan))


def is_large(curve: Curvature, batches: Batches) -> bool:
    """Whether a matrix for each fold would take too much, of time or of memory."""
    size = len(curve.theta)
    many = 8 * batches.n_folds * size**2 > _MATRICES
    return curve.objective.traits.products and (size > PRODUCTS_PAY or many)


def start(batches: Batches, curve: Curvature) -> Descent:
    """Every fold at the full fit, with one gradient each."""
    everyone = np.arange(batches.n_folds)
    thetas = np.tile(curve.theta, (batches.n_folds, 1))
    values, gradients = batches.values_and_gradients(thetas, everyone)
    count = batches.n_folds
    large = is_large(curve, batches)
    return Descent(
        thetas=thetas,
        gradients=gradients,
        values=values,
        inverses=None if large else curve.inverse / batches.kept[:, None, None],
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
        inverses: (F, D, D) inverses of the folds' own Hessians, where the method has them.
        own: whether the folds' own Hessians had a say, as matrices or by products.
        gradients: (F, D) of the folds' objectives at the thetas, where the method took them.
        rungs: (F,) how each fold was obtained.
    """

    thetas: np.ndarray
    status: list[Status]
    inverses: np.ndarray | None
    gradients: np.ndarray | None
    rungs: np.ndarray
    own: bool = False


def usual_way(turnover: np.ndarray, size: int) -> np.ndarray:
    """(F,) how far from the full fit, in standard errors, a fold's optimum is as a rule:
    sqrt(D turnover) where the model is right, and at least one, so that small folds may move."""
    return np.sqrt(1.0 + size * turnover)


def settle(status: list[Status], distances: np.ndarray) -> None:
    """Let folds that have no certificate but are close to their optimum count as approximate.

    At the edge of the parameters' space (a rate that wants to be zero) nothing is ever stationary.
    """
    for fold, (told, distance) in enumerate(zip(status, distances, strict=True)):
        if told.outcome is Outcome.NOT_STATIONARY and distance <= _CLOSE:
            status[fold] = Status(
                Outcome.APPROXIMATE,
                f"not certified, but within {distance:.1e} standard errors of stationary",
            )


def out_of_budget(distance: float) -> Status:
    """What a fold says that the budget left unfinished."""
    return Status(
        Outcome.APPROXIMATE,
        f"the budget ended {distance:.1e} standard errors from the fold's optimum",
    )
