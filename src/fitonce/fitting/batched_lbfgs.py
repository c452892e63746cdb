"""L-BFGS on many folds at once, in the metric of the full fit's H.

It takes folds from the full fit to near their own optimum when that is far. Secants of the steps
correct the factor of H, so that a fold needs no Hessian of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

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
    memory: list[_Pair] = []
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
        pair = _Pair.of(place.some(active), before)
        memory = [*(kept.some(going) for kept in memory[1 - _MEMORY :]), pair]
        memory = [kept.some(moved) for kept in memory]
        active = active[moved]
    return place


class _Pair(NamedTuple):
    """A step of each active fold and how its gradient changed: `steps` and `changes` (n, D), `inverses`
    (n,) 1 / (s' y), zero where the pair does not count."""

    steps: np.ndarray
    changes: np.ndarray
    inverses: np.ndarray

    @classmethod
    def of(cls, here: Position, before: Position) -> _Pair:
        steps, changes = here.thetas - before.thetas, here.gradients - before.gradients
        products = dots(steps, changes)
        curved = products > 1e-10 * np.sqrt(dots(steps, steps) * dots(changes, changes))
        return cls(steps, changes, np.where(curved, 1.0 / np.where(curved, products, 1.0), 0.0))

    def some(self, rows: np.ndarray) -> _Pair:
        return self if rows.all() else _Pair(*(part[rows] for part in self))


def _decreases(
    values: np.ndarray, slopes: np.ndarray, rows: np.ndarray, share: np.ndarray, there: Position
) -> np.ndarray:
    """Armijo's condition."""
    return there.values <= values[rows] + _ENOUGH * share * slopes[rows]


def _directions(
    precondition: Map, gradients: np.ndarray, memory: list[_Pair], active: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Steps (n, D) by the two-loop recursion, and squared lengths (n,) of the gradients."""
    rest, shares = gradients[active].copy(), []
    for pair in reversed(memory):
        shares.append(pair.inverses * dots(pair.steps, rest))
        rest -= shares[-1][:, None] * pair.changes
    found = precondition(rest, active)
    for pair, share in zip(memory, reversed(shares), strict=True):
        found += (share - pair.inverses * dots(pair.changes, found))[:, None] * pair.steps
    return -found, dots(gradients[active], found)
