"""The search for a minimum: descents from several starts, more where they disagree, and the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.arguments import (
    generator,
    require_count,
    require_flag,
    require_number,
    require_text,
)
from fitonce.core.foretelling import foretell, is_told, seconds_of
from fitonce.core.memory import require_fits
from fitonce.core.parallel import Parallel
from fitonce.core.parameters import Params
from fitonce.core.progress import bar, stage
from fitonce.core.stopwatch import now
from fitonce.core.wording import counted
from fitonce.fitting.descent import Run, descend, ends_in_em, is_screened, starting_points
from fitonce.fitting.finish import Finished, by_products, finish
from fitonce.fitting.footprint import hold_point
from fitonce.fitting.optima import (
    DEFAULT_OPTIMA,
    Budget,
    Optima,
    check_optima,
    distinct,
    explore,
    first_of_best,
    is_near,
    is_same,
    usual_starts,
)
from fitonce.objectives.abilities import HasZeros, canonical
from fitonce.objectives.base import Objective
from fitonce.objectives.families import objective_of
from fitonce.objectives.prepared import require_counts, require_fit

DEFAULT_TOLERANCE = 1e-6  # standard errors
_NEWTON_STEPS = 50
_FEW_PARAMETERS = 100
_EM, _SECANTS = 40, 100  # iterations of a start, as they often are
_FASTEST, _SLOWEST = 0.4, 3.0  # of such a fit
_MORE = 4  # starts at most for each optimum that is looked for
_FASTER = "restarts=1 and optima=0 (--restarts 1 --optima 0) take less"
_HARDER = 1.5  # times the slowest start: a fold may leave out what makes a fit easy


class How(NamedTuple):
    """The options of a search, as `fo.fit` describes them."""

    restarts: int | None = None
    seed: int = 0
    optima: int = DEFAULT_OPTIMA
    tolerance: float = DEFAULT_TOLERANCE
    max_iterations: int | None = None
    progress: bool | None = None
    kernel: Any = None
    parallel: Parallel = None

    def check(self) -> None:
        """Raise for values that make no sense."""
        require_count("restarts", self.restarts, optional=True)
        require_number("tolerance", self.tolerance, above=0)
        check_optima(self.optima)
        require_count("max_iterations", self.max_iterations, optional=True)
        generator(self.seed)  # which checks it
        require_flag("progress", self.progress, optional=True)
        require_text("kernel", self.kernel, optional=True)
        if self.restarts is not None:
            require_fits("restarts", self.restarts, lambda n: 1024 * n, "their starts")


class Searched(NamedTuple):
    """What a search found.

    Attributes:
        objective: F.
        end: the minimum.
        runs: the descent from each start.
        pool: the distinct optima.
        seconds, most_seconds: of one start without compilation: the fastest of them, and the slowest as
            if it had been alone, with what comes before and after.
    """

    objective: Objective
    end: Finished
    runs: list[Run]
    pool: Optima
    seconds: float
    most_seconds: float


def search(model: Any, data: Any, init: Params | None, how: How) -> Searched:
    """Descend from each start, then take Newton steps from the best."""
    return next(searches(model, data, init, how))


def searches(model: Any, data: Any, init: Params | None, how: How) -> Iterator[Searched]:
    """The ends of a search, one after another. Ask for the next where the last is no optimum: it comes
    after more starts, if there are any."""
    beginning = now()
    with stage("reading the data", how.progress):
        model, init = _with_zeros(model, init)
        objective = _objective(model, require_counts(model, data), how.kernel)
        points = starting_points(objective, init, how.seed)
        wanted = how.restarts or usual_starts(objective)
        first = next(points)
        if init is not None:
            objective.require_value(first)
    reading = now() - beginning
    compiles, early = objective.traits.compiles, how.max_iterations is not None
    with stage("compiling F and its derivatives" if compiles else "loading compiled code", how.progress):
        _prepare(objective, first)
    with stage("random starts", how.progress):
        starts = [first, *islice(points, wanted - 1)]
    single = init is None and len(starts) < min(wanted, 2)
    if is_told(how.progress) and not early:
        said = counted(len(starts), "start") + " of the fit, and more where they end apart,"
        foretell(said, *_range(objective, starts, how.optima), _FASTER)
    with bar(len(starts), "starts of the fit", how.progress) as advance:
        runs = descend(objective, starts, how.max_iterations, advance)
    budget, refused = Budget.of(objective, len(starts), how.optima), list[float]()
    explored = not early and (
        is_screened(objective) or not by_products(objective)
    )  # else each takes long
    if explored:
        with stage("more starts, which end in different optima", how.progress):
            runs = explore(objective, runs, points, budget)
    # Starts that stopped early, or where EM slows down, may be on their way to one optimum.
    ended = not early and not (by_products(objective) and ends_in_em(objective))
    while True:
        best = first_of_best(runs)
        ending = now()
        with stage("Newton steps to the minimum", how.progress):
            where, steps = objective.run_on(how.parallel), 0 if early else _NEWTON_STEPS
            end = finish(where, canonical(objective, best.x), how.tolerance, steps)
        end_seconds = now() - ending
        seconds = end_seconds + min(run.seconds for run in runs)
        most = _HARDER * (reading + end_seconds + max(run.alone for run in runs))
        met = [run._replace(empty=False) if is_same(run.value, best.value) else run for run in runs]
        pool = distinct(met if ended else [best._replace(empty=False, refused=False)])
        pool = replace(pool.at_best(end.theta, objective(end.theta), how.optima), single=single)
        yield Searched(objective, end, runs, pool, seconds, most)
        if init is not None or not ended:
            return
        refused.append(best.value)
        runs = [run._replace(refused=is_near(run.value, refused)) for run in runs]
        if explored:
            with stage("more starts, since this end is no optimum", how.progress):
                runs = explore(objective, runs, points, budget.after(runs), refused)
        if all(run.refused or not np.isfinite(run.value) for run in runs):
            return


def _objective(model: Any, data: Any, kernel: Any) -> Objective:
    """F, which has parameters and whose derivatives fit in memory."""
    objective = objective_of(model, data, kernel)
    if objective.space.size == 0:
        raise ValueError(f"the model has no free parameters: got {model}")
    hold_point(objective)
    require_fit(objective)
    return objective


def _range(objective: Objective, starts: list[np.ndarray], optima: int) -> tuple[float, float]:
    """Seconds of the starts and the steps after them, at least and at most, from one gradient. How many
    iterations they need only a run shows; where they end in different optima, there are more of them."""
    theta = starts[0] + 1e-9  # elsewhere: what is known of the last place is kept
    gradient = seconds_of(lambda: objective.values_and_gradients(theta[None], objective.base[None]))
    usual = gradient * (_EM if objective.traits.m_steps == "all" else _SECANTS)
    more = 0 if objective.traits.convex or by_products(objective) else _MORE * optima
    return _FASTEST * usual * len(starts), _SLOWEST * usual * (len(starts) + more)


def _with_zeros(model: Any, params: Params | None) -> tuple[Any, Any]:
    """The model in which what has probability zero in given parameters is impossible, where it can tell
    (logarithms of zeros are no coordinates), and the parameters for it. Without parameters, zeros that
    the model remembers of another fit are possible again: they belong to one optimum of many."""
    if not isinstance(model, HasZeros):
        return model, params
    if params is None:
        return model.zeros.freed(), params
    found = model.zeros.held(params, given=True)
    return found, params if found is model else found.zeros.compared(params)


def _prepare(objective: Objective, theta: np.ndarray) -> None:
    """Compile what F and its derivatives need, or load what is compiled, so that `refit_seconds` does
    not include it. Loading takes a moment, which only counts where a fit does not take longer."""
    objective.values_and_gradients(theta[None], objective.base[None])
    worth_it = objective.traits.compiles or objective.space.size <= _FEW_PARAMETERS
    if worth_it and not by_products(objective):
        objective.hessians(theta[None], objective.base[None])


def stay(model: Any, data: Any, params: Params, kernel: Any) -> Searched:
    """Not a search: what there is at given parameters."""
    model, params = _with_zeros(model, params)
    objective = _objective(model, data, kernel)
    theta = objective.space.to_free(params)
    objective.require_value(theta)
    end = finish(objective, theta, DEFAULT_TOLERANCE, 0)
    pool, unknown = distinct([]).at_best(end.theta, np.nan, 0), float("nan")
    return Searched(objective, end, [], pool, unknown, unknown)
