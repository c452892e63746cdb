"""Backtracking line search on many folds at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Evaluate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Thetas (n, D) and their folds (n,) to values (n,) and gradients (n, D)."""


class Position(NamedTuple):
    """Where each fold is, updated in place: `thetas` (F, D), `values` (F,) and `gradients` (F, D)."""

    thetas: np.ndarray
    values: np.ndarray
    gradients: np.ndarray

    def move(self, folds: np.ndarray, other: Position) -> None:
        """Move the folds (n,) to the rows of `other`."""
        for here, there in zip(self, other, strict=True):
            here[folds] = there

    def some(self, rows: np.ndarray) -> Position:
        """Copies of some rows."""
        return Position(*(part[rows] for part in self))


def start_at(evaluate: Evaluate, thetas: np.ndarray) -> tuple[Position, np.ndarray]:
    """Every fold at its theta, and the numbers of the folds whose value and gradient are finite."""
    thetas = np.array(thetas, float)
    place = Position(thetas, *map(np.array, evaluate(thetas, np.arange(len(thetas)))))
    sound = np.isfinite(place.values) & np.isfinite(place.gradients).all(1)
    return place, np.flatnonzero(sound)


def search(
    evaluate: Evaluate,
    place: Position,
    folds: np.ndarray,
    steps: np.ndarray,
    is_good: Callable[[np.ndarray, np.ndarray, Position], np.ndarray],
    most: int,
    give_up: Callable[[int, np.ndarray], bool] = lambda halvings, rows: False,
) -> np.ndarray:
    """Move the folds (n,) along steps (n, D), each halved until it is accepted.

    Args:
        evaluate: values and gradients.
        place: where folds are; updated in place.
        is_good: rows (m,) of `folds`, shares (m,) of their steps and the points there, to (m,) bools.
        most: number of trials.
        give_up: the halvings so far and the rows that are left, to whether to stop trying.

    Returns: (n,) the share of each step that was taken, zero where none was accepted.
    """
    share, moved = np.ones(len(folds)), np.zeros(len(folds), bool)
    for halving in range(most):
        rows = np.flatnonzero(~moved)
        if rows.size == 0 or give_up(halving, rows):
            break
        trial = place.thetas[folds[rows]] + share[rows, None] * steps[rows]
        there = Position(trial, *evaluate(trial, folds[rows]))
        with np.errstate(invalid="ignore"):  # values that are not finite compare false
            good = is_good(rows, share[rows], there) & np.isfinite(there.gradients).all(1)
        place.move(folds[rows[good]], there.some(good))
        moved[rows[good]] = True
        share[~moved] *= 0.5
    return np.where(moved, share, 0.0)
