"""How long the pieces of a call take: timed on little data of the same kind, and scaled to all of it.

Work on chains and labels grows with the number of steps, so that two short stretches of the data give
what a step costs and what a call costs. A graph has no such part, and a custom density is unknown: they
are timed as they are, once. What JAX compiles on the way is kept for the calls to come.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.numerics import in_float64
from fitonce.core.parallel import cores
from fitonce.crossval.batches import Batches
from fitonce.fitting.hessian import LARGE
from fitonce.objectives.base import Objective

_SHORT, _LONGER = 800, 3200  # sites
_ROWS = 16  # folds for each core
_ROWS_BYTES = 2**27
_FEW = 150  # parameters: with more, H is counted as gradients
_AGAIN = 2
_TOUCHED, _COMPILING = 6, 10.0  # operations of a parameter in a step, seconds to compile its programs
_MATRIX = 400  # rows of the matrices that are multiplied to see how fast that is


class Times(NamedTuple):
    """Seconds of one piece of work, nan where the model has no such thing.

    Attributes:
        gradient: of one fold alone, as in a fit.
        row: of one fold among many, on all cores.
        loss: of one fold's losses among many, on all cores.
        hessian, cross, sweep: H, J and a leave-one-out sweep, at one point.
        compiling: by JAX, all of these together.
    """

    gradient: float
    row: float
    loss: float
    hessian: float
    cross: float
    sweep: float
    compiling: float


@in_float64
def times_of(objective: Objective, theta: np.ndarray | None = None) -> Times:
    """Of an objective along the scheme of its folds; `theta`: where, a start of a fit by default."""
    if not objective.traits.formed:
        return _of_many(objective, theta)
    if objective.space.size > LARGE:
        return _counted(objective)
    longer, sites = _part(objective, _LONGER)
    at = longer.start(None) if theta is None else theta
    found, compiling = _timed(longer, at)
    total = objective.collection.n_sites
    if total > sites:
        short, fewer = _part(objective, _SHORT)
        slope = np.maximum(found - _timed(short, at)[0], 0.0) / (sites - fewer)
        found = np.maximum(found + slope * (total - sites), found)
    return Times._make([*found.tolist(), compiling])


def _counted(objective: Objective) -> Times:
    """With thousands of parameters even a start takes long, so that operations are counted: every step
    of the data meets every parameter a few times."""
    size, each = objective.space.size, seconds_per_operation()
    gradient = _TOUCHED * objective.collection.n_sites * size * each
    matrix = size * gradient
    return Times(gradient, gradient, gradient, matrix, matrix, matrix, _COMPILING)


def _of_many(objective: Objective, theta: np.ndarray | None) -> Times:
    """With so many parameters that H is not formed a gradient is timed on all data: it takes a fraction
    of a second, and everything else is counted in gradients."""
    at = objective.start(None) if theta is None else theta
    steps = itertools.count(1)  # each at another place: what is known of the last one is kept

    def gradient() -> None:
        objective.values_and_gradients(at[None] + 1e-9 * next(steps), objective.base[None])

    seconds = _clocked(gradient, 1)[0]
    scored = np.full((1, 1), int(np.flatnonzero(objective.base)[0]))
    loss = _clocked(lambda: objective.pointwise_losses(at[None], objective.base[None], scored), 1)[0]
    matrix = len(at) * seconds
    return Times(seconds, seconds, loss, matrix, matrix, matrix, 0.0)


def _part(objective: Objective, sites: int) -> tuple[Objective, int]:
    part = objective.shortened(sites)
    return part, part.collection.n_sites


def _timed(objective: Objective, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """Seconds of each piece of work once it is compiled, and of compiling all of them."""
    count = int(np.clip(_ROWS_BYTES // objective.bytes_per_fold, 1, _ROWS * cores()))
    batches = Batches.of(objective, np.tile(objective.base, (count, 1)))
    thetas, which = np.tile(theta, (count, 1)), np.arange(count)
    scored = np.full((count, 1), int(np.flatnonzero(objective.base)[0]))
    losses = lambda w, f, t: (objective.pointwise_losses(t, w, scored[f]),)  # noqa: E731
    one = (theta[None], objective.base[None])
    work: list[tuple[Callable[[], Any], int]] = [
        (lambda: objective.values_and_gradients(*one), 1),
        (lambda: batches.values_and_gradients(thetas, which), count),
        (lambda: batches.map(losses, "losses", which, thetas), count),
    ]
    small = len(theta) <= _FEW
    if small:
        work += [(lambda: objective.hessians(*one), 1), (lambda: objective.cross(theta), 1)]
        work += [(lambda: objective.leave_one_out(theta), 1)]
    seconds = np.array([_clocked(task, divisor) for task, divisor in work])
    found, compiling = seconds[:, 0], float(seconds[:, 1].sum())
    if not small:  # a direction costs about two gradients, many together about one row each
        found = np.append(found, np.array([2.0, 2.0, 2.0]) * len(theta) * found[1])
    return found, compiling


def _clocked(task: Callable[[], Any], divisor: int) -> tuple[float, float]:
    """Seconds of a task, divided, and what its first run took beyond that."""
    spent = []
    for _ in range(1 + _AGAIN):
        started = time.perf_counter()
        try:
            task()
        except ValueError:  # the model has no such thing
            return np.nan, 0.0
        spent.append(time.perf_counter() - started)
    return min(spent[1:]) / divisor, max(spent[0] - min(spent[1:]), 0.0)


@cache
def seconds_per_operation() -> float:
    """Of a multiplication and addition of matrices on this machine, measured once."""
    matrix = np.random.default_rng(0).normal(size=(_MATRIX, _MATRIX))
    return _clocked(lambda: matrix @ matrix, 2 * _MATRIX**3)[0]
