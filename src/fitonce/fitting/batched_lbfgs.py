"""L-BFGS on many folds at once, in the metric of the full fit's H.

It takes folds from the full fit to near their own optimum when that is far. Secants of the steps
correct the factor of H, so that a fold needs no Hessian of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fitonce.fitting.conjugate_gradients import Map, dots
from fitonce.fitting.line_search import Evaluate, Position, start_at

_UNDERFLOW = 1e-150  # of curvatures: less than this tells nothing
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
) -> Descended:
    """From thetas (F, D) until each fold is within `tolerance` standard errors of stationary, by the
    preconditioner, or its line search fails. Steps are at most `longest` in the largest coordinate,
    relative for values above 1."""
    place, active = start_at(evaluate, thetas)
    moves, slopes = np.zeros(thetas.shape), np.zeros(len(thetas))
    shares, trials, taken = np.ones(len(thetas)), np.zeros(len(thetas), int), np.zeros(len(thetas), int)
    memory, gains = _Memory.empty(*thetas.shape), np.zeros(len(thetas))
    fresh = active
    while active.size and not spent():
        # A fold whose step is halved does not hold up the others: they take their next one beside it.
        if fresh.size:
            found, squares = memory.directions(precondition, place.gradients[fresh], fresh)
            sizes = np.max(np.abs(found) / np.maximum(np.abs(place.thetas[fresh]), 1.0), 1)
            with np.errstate(invalid="ignore"):  # a direction that overflows has no slope, and ends
                moves[fresh] = found * np.minimum(1.0, longest / np.maximum(sizes, 1e-300))[:, None]
                slopes[fresh] = dots(moves[fresh], place.gradients[fresh])
            shares[fresh], trials[fresh] = 1.0, 0
            done = ~((squares > tolerance**2) & (slopes[fresh] < 0))
            near = squares <= tolerance**2
            gains[fresh[near]] = 0.5 * np.maximum(squares[near], 0.0)
            active = np.setdiff1d(active, fresh[done], assume_unique=True)
            if active.size == 0:
                break
        trial = place.thetas[active] + shares[active, None] * moves[active]
        there = Position(trial, *evaluate(trial, active))
        with np.errstate(invalid="ignore"):  # values that are not finite compare false
            good = there.values <= place.values[active] + _ENOUGH * shares[active] * slopes[active]
        good &= np.isfinite(there.gradients).all(1)
        fresh, there = active[good], there.some(good)
        memory.add(fresh, there.thetas - place.thetas[fresh], there.gradients - place.gradients[fresh])
        place.move(fresh, there)
        taken[fresh] += 1
        shares[active[~good]] *= 0.5
        trials[active[~good]] += 1
        active = active[(trials[active] < _MOST_HALVINGS) & (taken[active] < most)]
        fresh = fresh[taken[fresh] < most]
    return Descended(*place, gains)


class Descended(NamedTuple):
    """Where folds ended: `thetas` (F, D), `values` (F,), `gradients` (F, D), and `gains` (F,), by how
    much values are above those at the optima nearby, foretold by the last gradients; 0 where a descent
    broke off."""

    thetas: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    gains: np.ndarray


class _Memory(NamedTuple):
    """The last steps of each fold and how its gradient changed: `steps` and `changes` (F, M, D),
    `inverses` (F, M) 1 / (s' y), zero where there is none or it does not count, `counts` (F,) of all."""

    steps: np.ndarray
    changes: np.ndarray
    inverses: np.ndarray
    counts: np.ndarray

    @classmethod
    def empty(cls, folds: int, size: int) -> _Memory:
        shape = (folds, _MEMORY)
        return cls(
            np.zeros((*shape, size)), np.zeros((*shape, size)), np.zeros(shape), np.zeros(folds, int)
        )

    def add(self, folds: np.ndarray, steps: np.ndarray, changes: np.ndarray) -> None:
        products = dots(steps, changes)
        curved = products > 1e-10 * np.sqrt(dots(steps, steps) * dots(changes, changes))
        curved &= products > _UNDERFLOW
        at = folds, self.counts[folds] % _MEMORY
        self.steps[at], self.changes[at] = steps, changes
        self.inverses[at] = np.where(curved, 1.0 / np.where(curved, products, 1.0), 0.0)
        self.counts[folds] += 1

    def directions(
        self, precondition: Map, gradients: np.ndarray, folds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Steps (n, D) by the two-loop recursion, and squared lengths (n,) of the gradients (n, D)."""
        rest, shares = gradients.copy(), []
        newest_first = [
            (folds, (self.counts[folds] - back) % _MEMORY)
            for back in range(1, 1 + min(int(self.counts[folds].max()), _MEMORY))
        ]
        for at in newest_first:
            shares.append(self.inverses[at] * dots(self.steps[at], rest))
            rest -= shares[-1][:, None] * self.changes[at]
        found = precondition(rest, folds)
        for at, share in zip(reversed(newest_first), reversed(shares), strict=True):
            found += (share - self.inverses[at] * dots(self.changes[at], found))[:, None] * self.steps[
                at
            ]
        return -found, dots(gradients, found)
