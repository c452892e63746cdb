"""L-BFGS on many folds at once, in the metric of the full fit's H.

What takes a fold from the full fit to near its own optimum when that is far: the secants of its steps
correct the one factor of H as they go, and no Hessian of the fold is needed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fitonce.fitting.conjugate_gradients import Map
from fitonce.fitting.line_search import Evaluate, Position, search, start_at

_MEMORY = 30
_MOST_HALVINGS = 15
_ENOUGH = 1e-4  # of the decrease that the slope promises


def batched_lbfgs(
    evaluate: Evaluate,
    precondition: Map,
    thetas: np.ndarray,
    *,
    tolerance: float,
    most: int,
    spent: Callable[[], bool] = lambda: False,
) -> Position:
    """From thetas (F, D) until each fold is within `tolerance` standard errors (as the preconditioner
    measures them) of stationary, or goes no farther."""
    place, active = start_at(evaluate, thetas)
    memory: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in thetas]
    for _ in range(most):
        if active.size == 0 or spent():
            break
        moves, squares = _directions(precondition, place.gradients, memory, active)
        slopes = np.einsum("md,md->m", moves, place.gradients[active])
        going = (squares > tolerance**2) & (slopes < 0)
        active, moves, slopes = active[going], moves[going], slopes[going]
        before = place.some(active)

        def falls_enough(
            rows: np.ndarray,
            share: np.ndarray,
            there: Position,
            values: np.ndarray = before.values,
            slopes: np.ndarray = slopes,
        ) -> np.ndarray:
            return there.values <= values[rows] + _ENOUGH * share * slopes[rows]

        moved = search(evaluate, place, active, moves, falls_enough, _MOST_HALVINGS) > 0
        for row, fold in enumerate(active):
            step = place.thetas[fold] - before.thetas[row]
            change = place.gradients[fold] - before.gradients[row]
            if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
                memory[fold] = [*memory[fold][1 - _MEMORY :], (step, change)]
        active = active[moved]
    return place


def _directions(
    precondition: Map,
    gradients: np.ndarray,
    memory: list[list[tuple[np.ndarray, np.ndarray]]],
    active: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Steps (n, D) by the two-loop recursion, and the squares of the gradients' lengths (n,)."""
    rest = gradients[active].copy()
    shares: list[list[float]] = []
    for row, fold in enumerate(active):
        mine = []
        for step, change in reversed(memory[fold]):
            share = float(step @ rest[row]) / float(step @ change)
            rest[row] -= share * change
            mine.append(share)
        shares.append(mine)
    found = precondition(rest, active)
    for row, fold in enumerate(active):
        for (step, change), share in zip(memory[fold], reversed(shares[row]), strict=True):
            found[row] += (share - float(change @ found[row]) / float(step @ change)) * step
    squares = np.einsum("md,md->m", gradients[active], found)
    return -found, squares
