"""L-BFGS on many folds at once, in the metric of the full fit's H.

What takes a fold from the full fit to near its own optimum when that is far: the secants of its steps
correct the one factor of H as they go, and no Hessian of the fold is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fitonce.krylov import Map
from fitonce.newton_cg import Evaluate

_MEMORY = 30
_MOST_HALVINGS = 15
_ENOUGH = 1e-4  # of the decrease that the slope promises


class Place(NamedTuple):
    """Where each fold is: `thetas`, `gradients` (F, D) and `values` (F,)."""

    thetas: np.ndarray
    values: np.ndarray
    gradients: np.ndarray


def descend(
    evaluate: Evaluate,
    precondition: Map,
    thetas: np.ndarray,
    *,
    tolerance: float,
    most: int,
    spent: Callable[[], bool] = lambda: False,
) -> Place:
    """From thetas (F, D) until each fold is within `tolerance` standard errors (as the preconditioner
    measures them) of stationary, or goes no farther."""
    thetas = np.array(thetas, float)
    count = len(thetas)
    values, gradients = map(np.array, evaluate(thetas, np.arange(count)))
    memory: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(count)]
    active = np.flatnonzero(np.isfinite(values) & np.isfinite(gradients).all(1))
    for _ in range(most):
        if active.size == 0 or spent():
            break
        moves, squares = _directions(precondition, gradients, memory, active)
        slopes = np.einsum("md,md->m", moves, gradients[active])
        going = (squares > tolerance**2) & (slopes < 0)
        active, moves, slopes = active[going], moves[going], slopes[going]
        before = thetas[active], gradients[active]
        moved = _search(evaluate, thetas, values, gradients, active, moves, slopes)
        for row, fold in enumerate(active):
            if not moved[row]:
                continue
            step, change = thetas[fold] - before[0][row], gradients[fold] - before[1][row]
            if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
                memory[fold] = [*memory[fold][1 - _MEMORY :], (step, change)]
        active = active[moved]
    return Place(thetas, values, gradients)


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


def _search(
    evaluate: Evaluate,
    thetas: np.ndarray,
    values: np.ndarray,
    gradients: np.ndarray,
    active: np.ndarray,
    moves: np.ndarray,
    slopes: np.ndarray,
) -> np.ndarray:
    """Halve the steps until they lower the values enough, in place. Returns which moved."""
    moved, scale = np.zeros(len(active), bool), np.ones(len(active))
    for _ in range(_MOST_HALVINGS):
        rows = np.flatnonzero(~moved)
        if rows.size == 0:
            break
        folds = active[rows]
        trial = thetas[folds] + scale[rows, None] * moves[rows]
        new_values, new_gradients = evaluate(trial, folds)
        with np.errstate(invalid="ignore"):
            good = new_values <= values[folds] + _ENOUGH * scale[rows] * slopes[rows]
        good &= np.isfinite(new_gradients).all(1)
        chosen = folds[good]
        thetas[chosen], values[chosen] = trial[good], new_values[good]
        gradients[chosen] = new_gradients[good]
        moved[rows[good]] = True
        scale[~moved] *= 0.5
    return moved
