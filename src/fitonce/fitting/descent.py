"""From starting points to near a minimum; `finish` does the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import scipy  # whose `optimize` is imported when first used

from fitonce.core import memory
from fitonce.core.arguments import generator
from fitonce.core.numerics import in_float64
from fitonce.core.parameters import Params
from fitonce.core.stopwatch import now
from fitonce.core.threads import blas_threads_for
from fitonce.fitting import time_limit
from fitonce.fitting.batched_lbfgs import batched_lbfgs
from fitonce.fitting.carriers import has_empty_state
from fitonce.fitting.hessian import PRODUCTS_PAY
from fitonce.fitting.time_limit import TimeUpError
from fitonce.objectives.base import Objective

_MOST_ITERATIONS = 500
_BEFORE_NEWTON = 100  # iterations where a Hessian costs only a few gradients, so that Newton is faster
_BEFORE_PRODUCTS = 40  # where Newton's method by products has a good preconditioner
_MOST_OF_MANY = 3000  # iterations with many parameters
_MOST_EM = 200
_GAIN = 0.1  # nats: EM stops at an iteration that gains less
_ITERATIONS_OF_METRIC = 60
_STALLED = 1e-3  # nats in that many iterations: Newton's method does better
_LONGEST = 2.0  # free coordinates, relative for values above 1: of a step in the metric
_SAME_STARTS = 20
_SCREENED, _KEPT = 8, 2  # random starts at a time, and how many of the lowest go on
_ITERATIONS_OF_SCREEN = 8
_NEARLY = 1e-5  # standard errors, if all states were known: from here Newton's method needs H once


class Run(NamedTuple):
    """The end of a descent: `x` (D,), the objective there, the seconds it took, and those that it would
    have taken at most if other starts had not gone beside it.

    `empty`: whether a hidden state has no observations there; `refused`: whether it is known to be no
    certified optimum. Neither counts as one that was found.
    """

    x: np.ndarray
    value: float
    seconds: float
    alone: float
    empty: bool = False
    refused: bool = False

    @property
    def is_optimum(self) -> bool:
        return not (self.empty or self.refused)


def starting_points(objective: Objective, init: Params | None, seed: int) -> Iterator[np.ndarray]:
    """Free vectors to start from: the given one alone, or any number from the data, of which the first
    ones are not random; one only where the model has no random starts."""
    if init is not None:
        yield objective.space.to_free(init)
        return
    first = objective.start(None)
    yield first
    yield from objective.rival_starts()
    yield from screened(objective, random_starts(objective, generator(seed), first))


def screened(objective: Objective, points: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Of every eight random starts the two that are lowest after some iterations, and one other, where a
    pass over the data takes several in the time of one. That tells most starts into poor optima, at a
    fraction of their descents."""
    if not is_screened(objective):
        yield from points
        return
    while few := list(islice(points, _group_size(objective, _SCREENED))):
        if objective.traits.m_steps == "all":  # which take no metric
            begun = [expectation_maximisation(objective, x, _ITERATIONS_OF_SCREEN) for x in few]
            thetas = np.stack(begun)
        else:
            thetas = _in_metric(objective, np.stack(few), _ITERATIONS_OF_SCREEN)
        values = np.array([objective(theta) for theta in thetas])
        order = np.argsort(np.where(np.isnan(values), np.inf, values), kind="stable")
        kept = order[:_KEPT]
        # The best, and one of the others as it comes: the lowest may all lead to one optimum.
        yield thetas[kept[0]]
        yield from thetas[[one for one in range(len(few)) if one not in kept][:1]]
        yield from thetas[kept[1:]]


def is_screened(objective: Objective) -> bool:
    """Whether random starts are chosen among several: with several channels most of them lead into poor
    optima. With one channel other optima are close, and of use to folds."""
    return _side_by_side_pays(objective) and len(getattr(objective.data, "channels", ())) > 1


def _side_by_side_pays(objective: Objective) -> bool:
    """Whether a pass over the data takes several starts in hardly more time than one."""
    traits = objective.traits
    return bool(traits.together > 1 and not traits.compiles and traits.blocks)


def random_starts(
    objective: Objective, rng: np.random.Generator, first: np.ndarray
) -> Iterator[np.ndarray]:
    """Free vectors (D,) other than the first one; none where the model has no random starts, which shows
    if many in a row are the same (a few may be, as where clusters are found by k-means)."""
    same = 0
    while same < _SAME_STARTS:
        start = objective.start(rng)
        same = same + 1 if np.array_equal(first, start) else 0
        if same == 0:
            yield start


def _group_size(objective: Objective, starts: int) -> int:
    """How many starts go side by side: each has a metric in memory."""
    factor = 8.0 * objective.space.size**2
    room = memory.room(starts * factor, factor, "the metric of a start")
    return min(objective.traits.together, starts, max(int(room // factor), 1))


def descend(
    objective: Objective,
    starts: list[np.ndarray],
    max_iterations: int | None = None,
    advance: Callable[[int], None] = lambda done: None,
) -> list[Run]:
    """From each start to near a minimum: by EM, then by L-BFGS where M steps do not update everything,
    or where it has a metric in which it goes on faster than EM. Where a pass over the data takes several
    starts in the time of one, L-BFGS takes them side by side; `advance` is told how many have ended.
    Those that ended before the time was up, see `time_limit`."""
    runs: list[Run] = []
    try:
        _descend(objective, starts, max_iterations, advance, runs)
    except TimeUpError:
        if not runs:
            raise
    return [run._replace(empty=has_empty_state(objective, run.x)) for run in runs]


def _descend(
    objective: Objective,
    starts: list[np.ndarray],
    max_iterations: int | None,
    advance: Callable[[int], None],
    runs: list[Run],
) -> None:
    if not starts:
        return
    if _side_by_side_pays(objective):
        size = _group_size(objective, len(starts))
        for at in range(0, len(starts), size):
            runs += _side_by_side(objective, starts[at : at + size], max_iterations)
            time_limit.start_ended()
            advance(len(runs) - at)
        return
    for start in starts:
        runs.append(_alone(objective, start, max_iterations))
        time_limit.start_ended()
        advance(1)


def _side_by_side(objective: Objective, starts: list[np.ndarray], most: int | None) -> list[Run]:
    """EM from one start after another, and L-BFGS from all of them at once, whose time they share."""
    points, seconds = [], []
    for start in starts:
        started = now()
        if objective.traits.m_steps != "none":
            start = expectation_maximisation(objective, start, most or _MOST_EM)
        points.append(start)
        seconds.append(now() - started)
    started = now()
    ends = _in_metric(objective, np.stack(points), most or _usual_iterations(objective))
    together = now() - started
    shared, alone = together / len(starts), together * _share_of_one(objective, ends)
    runs = zip(ends, seconds, strict=True)
    return [Run(x, objective(x), own + shared, own + alone) for x, own in runs]


def _share_of_one(objective: Objective, thetas: np.ndarray) -> float:
    """What a pass over the data for one start takes of a pass for all of them, timed."""
    if len(thetas) == 1:
        return 1.0
    spent = []
    for rows in (thetas[:1], thetas):
        started = now()
        objective.values_and_gradients(rows, np.tile(objective.base, (len(rows), 1)))
        spent.append(now() - started)
    return float(np.clip(spent[0] / max(spent[1], 1e-9), 1.0 / len(thetas), 1.0))


def _usual_iterations(objective: Objective) -> int:
    """Of L-BFGS."""
    traits = objective.traits
    if not traits.formed:
        return _BEFORE_PRODUCTS
    if traits.closed_form_hessian:
        return _BEFORE_NEWTON
    # For networks, gradients do more than H.
    return _MOST_OF_MANY if traits.products and objective.space.size > PRODUCTS_PAY else _MOST_ITERATIONS


def _alone(objective: Objective, start: np.ndarray, max_iterations: int | None) -> Run:
    traits, theta, started = objective.traits, start, now()
    usual = _usual_iterations(objective)
    if traits.m_steps != "none":
        theta = expectation_maximisation(objective, theta, max_iterations or _MOST_EM)
    if traits.blocks and not traits.formed:  # so many parameters that SciPy's own work is most of it
        theta = _in_metric(objective, theta[None], max_iterations or usual)[0]
    elif traits.m_steps != "all":
        theta = _lbfgs(objective, theta, max_iterations or usual)
    elif not ends_in_em(objective):
        theta = _in_metric(objective, theta[None], max_iterations or usual)[0]
    seconds = now() - started
    return Run(theta, objective(theta), seconds, seconds)


def ends_in_em(objective: Objective) -> bool:
    """Whether starts end where EM slows down, some way from an optimum: Newton's method or products with
    H do the rest, from the best of them."""
    traits = objective.traits
    return traits.m_steps == "all" and (not traits.blocks or (traits.products and traits.compiles))


def to_optimum(objective: Objective, run: Run) -> Run:
    """On from where EM ended, by L-BFGS."""
    started = now()
    theta = _lbfgs(objective, run.x, _BEFORE_NEWTON)
    more, empty = now() - started, has_empty_state(objective, theta)
    return Run(theta, objective(theta), run.seconds + more, run.alone + more, empty)


@in_float64
def expectation_maximisation(objective: Objective, start: np.ndarray, most: int) -> np.ndarray:
    """From `start` (D,) until an iteration gains little: EM is monotone from any start but slow near the
    optimum, where Newton's method is fast."""
    theta, best, before = start, start, np.inf
    for _ in range(most):
        time_limit.check()
        value, new = objective.m_step(theta)
        if not value < before:  # also where it is nan
            return best
        if before - value < _GAIN or new is None:
            return theta
        theta, best, before = new, theta, value
    return theta


def _in_metric(objective: Objective, starts: np.ndarray, most: int) -> np.ndarray:
    """By L-BFGS in the metric of the complete-data information, in which EM takes unit steps. Like EM it
    takes the same way whatever the units; unlike EM it is fast where states overlap. The metric is made
    again after some iterations: far from its start it may be wrong by orders of magnitude."""

    def evaluated(thetas: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        time_limit.check()
        weights = np.broadcast_to(objective.base, (len(thetas), len(objective.base)))
        return objective.values_and_gradients(thetas, weights)

    thetas, before = starts, np.full(len(starts), np.inf)
    for done in range(0, most, _ITERATIONS_OF_METRIC):
        inverses = [objective.preconditioner(theta) for theta in thetas]
        end = batched_lbfgs(
            evaluated,
            lambda rows, which, inverses=inverses: np.stack(  # type: ignore[misc]
                [inverses[number](row) for number, row in zip(which, rows, strict=True)]
            ),
            thetas,
            tolerance=_NEARLY,
            most=min(most - done, _ITERATIONS_OF_METRIC),
            longest=_LONGEST,
        )
        thetas = end.thetas
        with np.errstate(invalid="ignore"):  # of a start that is nowhere finite, which gains nothing
            gains, before = before - end.values, end.values
        squares = np.array([g @ inverse(g) for g, inverse in zip(end.gradients, inverses, strict=True)])
        if ((squares <= _NEARLY**2) | ~(gains >= _STALLED)).all():
            break
    return thetas


def _lbfgs(objective: Objective, start: np.ndarray, most: int) -> np.ndarray:
    def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        time_limit.check()
        values, gradients = objective.values_and_gradients(theta[None], objective.base[None])
        # SciPy's line search needs numbers to step back from.
        value = float(values[0]) if np.isfinite(values[0]) else 1e300
        return value, np.nan_to_num(gradients[0], posinf=0.0, neginf=0.0)

    with blas_threads_for(len(start)):
        return scipy.optimize.minimize(
            value_and_gradient,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": most, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-6},
        ).x
