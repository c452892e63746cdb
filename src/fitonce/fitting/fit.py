"""Fitting: MAP or maximum likelihood, to a certified stationary point."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from fitonce.core.chunks import chunks
from fitonce.core.memory import limits_memory
from fitonce.core.numerics import in_float64, is_count, is_number
from fitonce.core.parallel import resolve_parallel
from fitonce.core.parameters import Params
from fitonce.core.progress import bar, stage
from fitonce.core.renamed import deprecated
from fitonce.core.status import Status
from fitonce.core.stopwatch import now
from fitonce.core.wording import counted
from fitonce.data.places import Names
from fitonce.data.sequences import Sequences
from fitonce.fitting.descent import Run, descend, ends_in_em, starting_points
from fitonce.fitting.finish import Finished, by_products, finish
from fitonce.fitting.footprint import hold_point
from fitonce.fitting.hessian import HessianOperator
from fitonce.fitting.optima import (
    DEFAULT_OPTIMA,
    Optima,
    check_optima,
    distinct,
    explore,
    first_of_best,
    usual_starts,
)
from fitonce.fitting.simulation import Drawn, FittedHMM
from fitonce.fitting.summarise import summary_of
from fitonce.objectives.base import Objective
from fitonce.objectives.families import objective_of
from fitonce.objectives.schemes import Structures
from fitonce.results.forecast import Forecast
from fitonce.results.standard_errors import Terms, memory_by_states
from fitonce.results.summary import FitSummary

DEFAULT_TOLERANCE = 1e-6  # standard errors
_FEW_PARAMETERS = 100
_ROWS = 512  # standard errors computed at a time


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model. Arrays are NumPy, in float64.

    Attributes:
        model, data: the model and the data it was fitted to.
        params: pytree of constrained values.
        theta: (D,) the same as a free vector.
        names: D names of its coordinates.
        status: whether this is a certified minimum; prints as a sentence.
        gradient_norm: Euclidean norm of the gradient of the objective at `theta`.
        distance: estimated distance from stationary, in standard errors (nan if H is indefinite).
        smallest_eigenvalue: of the Hessian at `theta`; a lower bound for a convex model with many
            parameters; nan where H is not formed, or is large and not positive definite.
        value: the objective at `theta`, -log p(data) - log p(params).
        seconds: wall time of the fit, including compilation.
        refit_seconds: wall time of one start without compilation: the cost of another fit.
        values_of_starts: the objective reached from each start.
        optima: the distinct optima that starts reached, this one first.
        objective: F(theta, w), a function of a free vector and one weight per site.
        gradient: (D,) of the objective at `theta`.
        hessian_operator: H at `theta`, to multiply and to solve with.
    """

    model: Any
    data: Any
    params: Params
    theta: np.ndarray
    names: list[str]
    status: Status
    gradient_norm: float
    distance: float
    smallest_eigenvalue: float
    value: float
    seconds: float
    refit_seconds: float
    values_of_starts: list[float]
    optima: Optima = field(repr=False)
    objective: Objective = field(repr=False)
    gradient: np.ndarray = field(repr=False)
    hessian_operator: HessianOperator = field(repr=False)

    @property
    def H(self) -> np.ndarray:  # noqa: N802 - the paper's letter
        """(D, D) the Hessian of the objective at `theta`: the observed information, with the prior's."""
        return self.hessian_operator.matrix()

    @property
    def ok(self) -> bool:
        return self.status.ok

    @property
    def log_likelihood(self) -> float:
        """Of all data, without the prior."""
        return -self.value - self.objective.log_prior(self.theta)

    @cached_property
    def summary(self) -> FitSummary:
        """The parts that are shown and saved."""
        return summary_of(self)

    @property
    def places(self) -> Names | None:
        """The user's names of sequences and sites; None: numbers only."""
        return self.objective.collection.names

    @property
    def edges(self) -> np.ndarray | None:
        """(E, 2) pairs of neighbours, where sites lie on a graph."""
        return self.objective.edges

    @property
    def n_sites(self) -> int:
        return self.objective.collection.n_sites

    @in_float64
    def params_at(self, theta: np.ndarray) -> Params:
        """The pytree of constrained values at a free vector."""
        return self.objective.space.params_at(theta)

    def memory_of(self, terms: Terms) -> float:
        """The memory of losses at sites along time, in steps, as the states of the fit have it."""
        return memory_by_states(terms, self.objective, self.theta)

    def posterior(self) -> np.ndarray:
        """(sites, K) probabilities of the latent states given all data."""
        return self.objective.state_probabilities(self.theta)

    @in_float64
    def log_likelihood_of(self, data: Any) -> np.ndarray:
        """(N,) log p(x_n) of the sequences of other data, at the parameters of the fit."""
        if not self.objective.traits.sequences:
            raise ValueError(f"log_likelihood_of needs a model of sequences, got {self.model}")
        objective = objective_of(self.model, data)
        if objective.space.size != len(self.theta):
            counts = len(self.theta), objective.space.size
            raise ValueError(
                "data must have the channels (or features) of the data of the fit: expected "
                f"{counts[0]} parameters, got {counts[1]}"
            )
        along = objective.with_scheme(Structures())
        everyone = np.arange(len(along.base))[None]
        same = objective.space == self.objective.space  # else its coordinates are in other units
        theta = self.theta if same else objective.space.to_free(self.params)
        return -along.pointwise_losses(theta[None], along.base[None], everyone)[0]

    def polish(self) -> Fit:
        """The minimum that these parameters lead to: another `Fit` of the same model and data."""
        return fit(self.model, self.data, init=self.params)

    def score(self, data: Any = None) -> float:
        """The total log-likelihood of data, those of the fit if None; higher is better."""
        return self.log_likelihood if data is None else float(self.log_likelihood_of(data).sum())

    def decode(self, data: Any = None) -> list[Any]:
        """The jointly most probable states of each sequence (Viterbi), see `fo.predict`."""
        return self.objective.for_prediction(data).decode(self.theta)

    def sample(self, n: int = 1, *, seed: int = 0, covariates: Any = None) -> Drawn:
        """A random sequence of n steps from an HMM: `states` (n,) and `values` (n, C). Autoregressions
        go on from the first steps of the data.

        Args:
            n: number of steps.
            seed: of the draws.
            covariates: of the n steps, as for `fo.sequences`, if the model depends on some.
        """
        return FittedHMM.of(self, "sample").sample(n, seed, covariates)

    def simulate(self, seed: int = 0) -> Sequences:
        """A random data set like that of the fit of an HMM: as many sequences, of the same lengths and
        covariates, with the same values missing; for a parametric bootstrap."""
        return FittedHMM.of(self, "simulate").simulate(seed)

    def forecast(
        self, steps: int, *, sequence: int = -1, n: int = 4000, seed: int = 0, covariates: Any = None
    ) -> Forecast:
        """The steps after a sequence of an HMM, at the parameters of the fit.

        Args:
            steps: how many.
            sequence: which; the last one by default.
            n: number of random paths, from which means and quantiles come.
            seed: of the paths.
            covariates: of the steps, as for `fo.sequences`, if the model depends on some.
        """
        return FittedHMM.of(self, "forecast").forecast(steps, sequence, n, seed, covariates)

    def states(self) -> pd.DataFrame:
        """One row per hidden state of an HMM: its `share` of the steps of the data, that in the long run
        (`stationary`), its mean `dwell` time in steps, and its parameters."""
        return FittedHMM.of(self, "states").states()

    def to_dataframe(self) -> pd.DataFrame:
        """One row per free coordinate: `name`, `value` and its standard error `se` (delta method), and
        the same in free coordinates (logarithms, log-ratios): `theta`, `theta_se`."""
        space = self.objective.space
        return pd.DataFrame(
            {
                "name": self.names,
                "value": space.named_values(self.theta[None])[0],
                "se": self._standard_errors(space.named_slopes(self.theta)),
                "theta": self.theta,
                "theta_se": self._standard_errors(sparse.eye_array(len(self.theta)).tocsr()),
            }
        )

    def _standard_errors(self, slopes: Any) -> np.ndarray:
        """(D,) of quantities with sparse slopes (D, D), some at a time; nan without a minimum, and where
        H is not a matrix, as one solve for each would take too long."""
        errors = np.full(len(self.theta), np.nan)
        if self.smallest_eigenvalue > 0 and self.hessian_operator.dense:
            for some, _ in chunks(len(self.theta), min(_ROWS, len(self.theta))):
                rows = slopes[some].toarray()
                solved = self.hessian_operator.solve(rows.T)
                errors[some] = np.sqrt(np.einsum("id,di->i", rows, solved))
        return errors

    @property
    def problem(self) -> Objective:
        """Deprecated: `objective`."""
        deprecated("Fit.problem", "Fit.objective")
        return self.objective

    @property
    def hessian(self) -> np.ndarray:
        """Deprecated: `H`."""
        deprecated("Fit.hessian", "Fit.H")
        return self.H

    @property
    def second(self) -> HessianOperator:
        """Deprecated: `hessian_operator`."""
        deprecated("Fit.second", "Fit.hessian_operator")
        return self.hessian_operator

    def __repr__(self) -> str:
        lines = [
            f"Fit of {self.model}, {counted(len(self.theta), 'free parameter')}, "
            f"objective {self.value:,.4f}, {self.seconds:.1f} s",
            f"  {self.status}",
        ]
        if self.optima.disagree:
            lines.append(f"  {self.optima.sentence}")
        for name, value in self.objective.space.named_leaves(self.params):
            shown = np.array2string(value, precision=4, suppress_small=True, threshold=20)
            lines.append(f"  {name}: " + shown.replace("\n", "\n" + " " * (len(name) + 4)))
        return "\n".join(lines)


def delta_method(slopes: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """(Q,) standard errors of quantities with slopes (Q, D), from the parameters' covariance (D, D)."""
    return np.sqrt(np.einsum("id,de,ie->i", slopes, covariance, slopes))


@limits_memory
@in_float64
def fit(
    model: Any,
    data: Any,
    *,
    init: Params | None = None,
    restarts: int | None = None,
    seed: int = 0,
    optima: int = DEFAULT_OPTIMA,
    tolerance: float = DEFAULT_TOLERANCE,
    max_iterations: int | None = None,
    progress: bool | None = None,
    kernel: str | None = None,
    memory_limit: float | str | None = None,
    parallel: Any = None,
) -> Fit:
    """Fit a model: L-BFGS (or EM and L-BFGS in its metric, where a model has M steps) from each start,
    then Newton steps to rounding level from the best, by products with H if parameters are many.

    Args:
        model: one of `fo.models`, or anything with the same methods.
        data: what the model reads: `fo.sequences` for chains and graphs, `fo.labelled` for labels, a
            pytree of arrays for `Custom`.
        init: pytree of starting values; None: from the data.
        restarts: number of starts when `init` is None; the first is not random. None: 8 where starts are
            cheap, as in short data, and 3 otherwise.
        seed: of the random starts.
        optima: how hard to look for other optima. Where starts end in different ones, there are more
            starts until a new optimum is unlikely, up to four times this number, or twice `restarts`
            where a start takes long; the best that many are kept for `cross_validate`. 0: no more than
            `restarts`, and only the best is kept.
        tolerance: the largest distance from stationary, in standard errors, of a stationary fit.
        max_iterations: stop each start after this many iterations and skip the Newton steps: a fit that
            stopped early, whose status says how far it is from stationary.
        progress: a progress bar; None: only on a terminal.
        kernel: of a chain: "native", "scan", "tree", or None for the best, see docs/performance.md.
        memory_limit: what the call may add to the memory of this process, in bytes or as text such as
            "2GB"; None: half of this machine's memory. Work is cut into pieces below it. An H of many
            parameters that does not fit is never formed, and solutions come from products with it;
            where nothing helps, the call refuses. See `fo.plan`.
        parallel: how H of many sequences is split: "devices", a number of worker processes, or
            `fo.Workers`; None: threads of this process.
    """
    started = time.perf_counter()
    if not (restarts is None or is_count(restarts)):
        raise ValueError(f"restarts must be an integer of at least 1, got {restarts!r}")
    if not (is_number(tolerance) and tolerance > 0):
        raise ValueError(f"tolerance must be a positive number, got {tolerance!r}")
    check_optima(optima)
    if max_iterations is not None and not is_count(max_iterations):
        raise ValueError(f"max_iterations must be an integer of at least 1, got {max_iterations!r}")
    place = resolve_parallel(parallel)
    with stage("reading the data", progress):
        objective = objective_of(model, data, kernel)
        hold_point(objective)
        points = starting_points(objective, init, seed)
        starts = list(islice(points, restarts or usual_starts(objective)))
    compiles = objective.traits.compiles
    with stage("compiling F and its derivatives" if compiles else "loading loops", progress):
        _prepare(objective, starts[0])
    with bar(len(starts), "starts of the fit", progress) as advance:
        runs = descend(objective, starts, max_iterations, advance)
    if max_iterations is None and not by_products(objective):  # else every start takes long
        with stage("more starts, which end in different optima", progress):
            runs = explore(objective, runs, points, optima)
    best = first_of_best(runs)
    ending = now()
    steps = 50 if max_iterations is None else 0
    with stage("Newton steps to the minimum", progress):
        found = finish(objective.run_on(place), best.x, tolerance, steps)
    times = (time.perf_counter() - started, now() - ending + best.seconds)
    # Starts that stopped early, or where EM slows down, may be on their way to one optimum.
    ended = max_iterations is None and not (by_products(objective) and ends_in_em(objective))
    pool = distinct(runs if ended else [best])
    pool = pool.at_best(found.theta, objective(found.theta), optima)
    return _result(objective, found, times, runs, pool)


def _prepare(objective: Objective, theta: np.ndarray) -> None:
    """Compile what F and its derivatives need, or load loops, so that `refit_seconds` does not include
    it. Loading takes a moment, which only counts where a fit does not take longer."""
    objective.values_and_gradients(theta[None], objective.base[None])
    worth_it = objective.traits.compiles or objective.space.size <= _FEW_PARAMETERS
    if worth_it and not by_products(objective):
        objective.hessians(theta[None], objective.base[None])


@limits_memory
@in_float64
def fit_at(
    model: Any,
    data: Any,
    params: Params,
    *,
    kernel: str | None = None,
    memory_limit: float | str | None = None,
) -> Fit:
    """A `Fit` at given parameters, which are not changed. Its status says how far they are from
    stationary. `kernel` and `memory_limit` are those of `fit`."""
    started = time.perf_counter()
    objective = objective_of(model, data, kernel)
    hold_point(objective)
    found = finish(objective, objective.space.to_free(params), DEFAULT_TOLERANCE, 0)
    times = (time.perf_counter() - started, float("nan"))
    return _result(objective, found, times, [], distinct([]).at_best(found.theta, np.nan, 0))


def _result(
    objective: Objective, found: Finished, times: tuple[float, float], runs: list[Run], pool: Optima
) -> Fit:
    return Fit(
        model=objective.model,
        data=objective.data,
        params=objective.space.params_at(found.theta),
        theta=found.theta,
        names=list(objective.space.names),
        status=found.status,
        gradient_norm=float(np.linalg.norm(found.gradient)),
        distance=found.distance,
        smallest_eigenvalue=found.lowest,
        value=objective(found.theta),
        seconds=times[0],
        refit_seconds=times[1],
        values_of_starts=[run.value for run in runs],
        optima=pool,
        objective=objective,
        gradient=found.gradient,
        hessian_operator=found.hessian,
    )
