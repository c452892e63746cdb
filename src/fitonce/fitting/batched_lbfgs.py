"""L-BFGS on many folds at once, in the metric of the full fit's H.

It takes folds from the full fit to near their own optimum when that is far. Secants of the steps
correct the factor of H, so that a fold needs no Hessian of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from fitonce.fitting.conjugate_gradients import Map, dots
from fitonce.fitting.line_search import Evaluate, Position, search, start_at

_MEMORY = 30
_MOST_HALVINGS = 15
_ENOUGH = 1e-4  # share of the decrease that the slope predicts


def batched_lbfgs(
    evaluate: Evaluate,
    precondition: Map,
    thetas: np.ndarray,
    *,
    tolerance: float,
    most: int,
    longest: float = np.inf,
    spent: Callable[[], bool] = lambda: False,
) -> Position:
    """From thetas (F, D) until each fold is within `tolerance` standard errors of stationary, by the
    preconditioner, or its line search fails. Steps are at most `longest` in the largest coordinate,
    relative for values above 1."""
    place, active = start_at(evaluate, thetas)
    memory: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in thetas]
    for _ in range(most):
        if active.size == 0 or spent():
            break
        moves, squares = _directions(precondition, place.gradients, memory, active)
        sizes = np.max(np.abs(moves) / np.maximum(np.abs(place.thetas[active]), 1.0), 1)
        moves *= np.minimum(1.0, longest / np.maximum(sizes, 1e-300))[:, None]
        slopes = dots(moves, place.gradients[active])
        going = (squares > tolerance**2) & (slopes < 0)
        active, moves, slopes = active[going], moves[going], slopes[going]
        before = place.some(active)
        good = partial(_decreases, before.values, slopes)
        moved = search(evaluate, place, active, moves, good, _MOST_HALVINGS) > 0
        for row, fold in enumerate(active):
            step = place.thetas[fold] - before.thetas[row]
            change = place.gradients[fold] - before.gradients[row]
            if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
                memory[fold] = [*memory[fold][1 - _MEMORY :], (step, change)]
        active = active[moved]
    return place


def _decreases(
    values: np.ndarray, slopes: np.ndarray, rows: np.ndarray, share: np.ndarray, there: Position
) -> np.ndarray:
    """Armijo's condition."""
    return there.values <= values[rows] + _ENOUGH * share * slopes[rows]


def _directions(
    precondition: Map,
    gradients: np.ndarray,
    memory: list[list[tuple[np.ndarray, np.ndarray]]],
    active: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Steps (n, D) by the two-loop recursion, and squared lengths (n,) of the gradients."""
    rest = gradients[active].copy()
    shares: list[list[float]] = []
    for row, fold in enumerate(active):
        shares.append([])
        for step, change in reversed(memory[fold]):
            share = float(step @ rest[row]) / float(step @ change)
            rest[row] -= share * change
            shares[-1].append(share)
    found = precondition(rest, active)
    for row, fold in enumerate(active):
        for (step, change), share in zip(memory[fold], reversed(shares[row]), strict=True):
            found[row] += (share - float(change @ found[row]) / float(step @ change)) * step
    return -found, dots(gradients[active], found)
