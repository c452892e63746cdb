"""Fitting: MAP or maximum likelihood, to a certified stationary point."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import require_text
from fitonce.core.memory import limits_memory
from fitonce.core.numerics import in_float64, lengths_of
from fitonce.core.parallel import resolve_parallel
from fitonce.core.parameters import Params
from fitonce.core.progress_lines import told_as
from fitonce.core.renamed import deprecated
from fitonce.core.status import Status
from fitonce.data.places import Names
from fitonce.data.sequences import Sequences, with_lengths
from fitonce.fitting import inference, relabelling, saving, summarise
from fitonce.fitting import states as hidden
from fitonce.fitting.boundary import settled, with_zeros
from fitonce.fitting.hessian import HessianOperator
from fitonce.fitting.optima import DEFAULT_OPTIMA, Optima
from fitonce.fitting.search import DEFAULT_TOLERANCE, How, Searched, search, searches, stay
from fitonce.fitting.time_limit import TimeUpError
from fitonce.objectives.abilities import HasContinuousStates
from fitonce.objectives.base import Objective
from fitonce.objectives.simulation import Drawn
from fitonce.results.forecast import Forecast
from fitonce.results.laplace_error import LaplaceError
from fitonce.results.smoothed import Smoothed
from fitonce.results.standard_errors import Terms
from fitonce.results.summary import FitSummary

_ENDS = 4  # of searches, that are tried one after another until one is certified
_MUCH = 1e4  # a prior so many times the likelihood leaves it no more than twelve digits


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
        refit_seconds, refit_most: wall time of another fit with one start, without compilation: as fast
            as the fastest start of this one, or somewhat slower than its slowest.
        values_of_starts: the objective reached from each start.
        optima: the distinct optima that starts reached, this one first.
        objective: F(theta, w), a function of a free vector and one weight per site.
        gradient: (D,) of the objective at `theta`.
        hessian_operator: H at `theta`, to multiply and to solve with.
        at_zero: how many probabilities of the model are at zero, an optimum on the boundary; they have
            no coordinate in `theta`.
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
    refit_most: float
    values_of_starts: list[float]
    optima: Optima = field(repr=False)
    objective: Objective = field(repr=False)
    gradient: np.ndarray = field(repr=False)
    hessian_operator: HessianOperator = field(repr=False)
    at_zero: int = 0

    @property
    def H(self) -> np.ndarray:  # noqa: N802 - the paper's letter
        """(D, D) the Hessian of the objective at `theta`: the observed information, with the prior's."""
        return self.hessian_operator.matrix()

    @property
    def ok(self) -> bool:
        return self.status.ok

    @property
    def n_parameters(self) -> int:
        """The number of free parameters that the model has, of which AIC and BIC are: those in `theta`
        and those at zero."""
        return len(self.theta) + self.at_zero

    @property
    def log_likelihood(self) -> float:
        """Of all data, without the prior."""
        prior = self.objective.log_prior(self.theta)
        found = -self.value - prior
        if abs(prior) <= _MUCH * abs(found):
            return found
        return self.objective.log_likelihood(self.theta)  # digits are lost above, or both are infinite

    @cached_property
    def summary(self) -> FitSummary:
        """The parts that are shown and saved."""
        return summarise.summary_of(self)

    @property
    def places(self) -> Names | None:
        """The user's names of sequences and sites; None: numbers only."""
        return self.objective.collection.names

    @property
    def edges(self) -> np.ndarray | None:
        """(E, 2) pairs of neighbours, where sites lie on a graph."""
        return self.objective.edges

    @property
    def approximation(self) -> str:
        """What the likelihood is, such as "Laplace approximation"; empty: it is exact."""
        known = self.objective
        return known.approximation if isinstance(known, HasContinuousStates) else ""

    @property
    def n_sites(self) -> int:
        return self.objective.collection.n_sites

    @in_float64
    def params_at(self, theta: np.ndarray) -> Params:
        """The pytree of constrained values at a free vector."""
        return self.objective.space.params_at(theta)

    def memory_of(self, terms: Terms) -> float:
        """The memory of losses at sites along time, in steps, as the states of the fit have it."""
        return hidden.memory_by_states(terms, self.objective, self.theta)

    def posterior(self, *, sequence: Any = None) -> Any:
        """(sites, K) probabilities of the latent states given all data, or of one sequence by its name
        or number; a DataFrame with the index of the data, where these were tables of pandas."""
        return inference.posterior(self, sequence)

    def log_likelihood_of(self, data: Any, *, lengths: Any = None) -> np.ndarray:
        """(N,) log p(x_n) of the sequences of other data, at the parameters of the fit. Of models of
        labels: log p(y_n | x_n) of the known labels of each, from `fo.labelled` or a pair (X, y)."""
        return inference.log_likelihoods(self, data, lengths)

    def polish(self) -> Fit:
        """The minimum that these parameters lead to: another `Fit` of the same model and data."""
        return fit(self.model, self.data, init=self.params)

    def score(self, data: Any = None, *, lengths: Any = None) -> float:
        """The total log-likelihood of data, those of the fit if None; higher is better."""
        if data is None and lengths is None:
            return self.log_likelihood
        return float(inference.log_likelihoods(self, data, lengths, "score").sum())

    def decode(self, data: Any = None, *, lengths: Any = None, sequence: Any = None) -> Any:
        """The jointly most probable states of each sequence (Viterbi), in a list, see `fo.predict`; of
        one alone, where `sequence` is its name or number."""
        return inference.decode(self, data, lengths, sequence)

    def sample(
        self, n: int = 1, *, sequence: Any = None, seed: int = 0, covariates: Any = None
    ) -> Drawn:
        """A random sequence of n steps from an HMM: `states` (n,) and `values` (n, C). Autoregressions
        go on from the first steps of the data. From a state-space model: `states` (n, K); what is not
        known about the first of them is as in the data.

        Args:
            n: number of steps.
            sequence: the name or number of the one with whose first steps, or first state, it begins;
                None: the first one.
            seed: of the draws.
            covariates: of the n steps, as for `fo.sequences`, if the model depends on some.
        """
        return inference.simulator(self, "sample").sample(n, sequence, seed, covariates)

    def simulate(self, seed: int = 0) -> Sequences:
        """A random data set like that of the fit: as many sequences, of the same lengths and covariates,
        with the same values missing; for a parametric bootstrap."""
        return inference.simulator(self, "simulate").simulate(seed)

    def forecast(
        self,
        steps: int,
        *,
        sequence: Any = None,
        n: int = 4000,
        seed: int = 0,
        covariates: Any = None,
        level: float = 0.9,
    ) -> Forecast:
        """The steps after a sequence, at the parameters of the fit of an HMM or a state-space model.

        Args:
            steps: how many.
            sequence: its name or number; None: the last one, which prints, tables and plots say.
            n: number of random paths, from which quantiles come, and means where the emission has no
                closed form of them; all those of state-space models are exact.
            seed: of the paths.
            covariates: of the steps, as for `fo.sequences`, if the model depends on some; a table is
                found by its dates, which must be those of the steps.
            level: probability of the intervals that are printed; `interval(0.8)` has others.
        """
        ahead = inference.simulator(self, "forecast")
        return ahead.forecast(steps, sequence, n, seed, covariates, level)

    def components(self, data: Any = None, *, lengths: Any = None, sequence: Any = None) -> Smoothed:
        """Level, seasons, cycle and other parts of a structural time series at each step given all data,
        those of the fit or others: means and standard deviations, with `to_dataframe()` and `plot()`. Of
        all sequences, or of one by its name or number."""
        return inference.components(self, data, lengths, sequence)

    def smoothed(self, data: Any = None, *, lengths: Any = None, sequence: Any = None) -> Smoothed:
        """The same of each state of a state-space model."""
        return inference.smoothed(self, data, lengths, sequence)

    def laplace_error(self, draws: int = 1000, *, seed: int = 0) -> LaplaceError:
        """How far the log-likelihood of counts, a Laplace approximation, is off: the same by importance
        sampling, with its random error.

        Args:
            draws: how many random paths of the states.
            seed: of these.
        """
        return inference.laplace_error(self, draws, seed)

    def states(self, *, sequence: Any = None) -> pd.DataFrame:
        """One row per hidden state of an HMM, or class of a mixture on a graph: its `share` of the steps
        of the data, or of one sequence by its name or number, that in the long run (`stationary`) and
        its mean `dwell` time in steps (of HMMs), and its parameters."""
        return hidden.state_table(self, sequence)

    def ordered(self, by: Any, *, descending: bool = False) -> Fit:
        """The same fit with its states in another order, by a column of `states()`: "rate", "share", or
        "mean[1]" for the second channel; or given, [2, 0, 1]. See `fo.align` for that of another fit."""
        return relabelling.ordered(self, by, descending)

    def plot_transitions(self, ax: Any = None) -> Any:
        """The transition probabilities of an HMM, with shares and dwell times of its states. Returns the
        matplotlib axes."""
        return hidden.plot_transitions(self, ax)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per free coordinate: `name`, `value` and its standard error `se` (delta method), and
        the same in free coordinates (logarithms, log-ratios, roots of variances): `theta`, `theta_se`.

        Where variances may be zero, `note` says which are, and beside which zero is less than half a nat
        worse: of these, `se` is how far above them the objective is half a nat higher."""
        return summarise.parameter_table(self)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        data: bool = True,
        force: bool = False,
        about: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write to one file, which `fo.load` reads: the model, the data, the parameters with their
        certificate, and the other optima.

        Args:
            path: usually ends in .json.
            data: whether the data are in the file; without them, `fo.load` asks for them.
            force: whether to overwrite an existing file.
            about: information to keep with it, strings and numbers by name.
        """
        return saving.write_fit(self, path, with_data=data, force=force, about=about)

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
        return summarise.text_of(self)

    def _repr_html_(self) -> str:
        return hidden.html_of(self)


@limits_memory
@told_as("the fit")
@in_float64
def fit(
    model: Any,
    data: Any,
    *,
    lengths: Any = None,
    init: Params | None = None,
    restarts: int | None = None,
    seed: int = 0,
    optima: int = DEFAULT_OPTIMA,
    tolerance: float = DEFAULT_TOLERANCE,
    max_iterations: int | None = None,
    order_by: str | None = None,
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
        lengths: of the sequences, where `data` is one array or table with the rows of all of them.
        init: pytree of starting values; None: from the data.
        restarts: number of starts when `init` is None; the first is not random. None: 8 where starts are
            cheap, as in short data; otherwise 5 of series of several channels and 3 of others.
        seed: of the random starts.
        optima: how hard to look for other optima. Where starts end in different ones, there are more
            starts until the best was found often enough: up to four times this number, or four times
            `restarts` where a start takes long, and twice that while it was found once only. The best
            that many are kept for `cross_validate`. 0: no more than `restarts`, and only the best is
            kept.
        tolerance: the largest distance from stationary, in standard errors, of a stationary fit.
        max_iterations: stop each start after this many iterations and skip the Newton steps: a fit that
            stopped early, whose status says how far it is from stationary.
        order_by: number the states by a column of `fit.states()`, such as "rate" or "share", from the
            lowest; see `fit.ordered`. None: as the start had them.
        progress: a progress bar; None: on a terminal and in notebooks.
        kernel: of a chain or a state-space model: "native", "scan", "tree", or None for the best, see
            docs/performance.md.
        memory_limit: what the call may add to the memory of this process, in bytes or as text such as
            "2GB"; None: half of this machine's memory. Work is cut into pieces below it. An H of many
            parameters that does not fit is never formed, and solutions come from products with it;
            where nothing helps, the call refuses. See `fo.plan`.
        parallel: how H of many sequences is split: "devices", a number of worker processes, or
            `fo.Workers`; None: threads of this process.
    """
    started = time.perf_counter()
    place = resolve_parallel(parallel)
    how = How(restarts, seed, optima, tolerance, max_iterations, progress, kernel, place)
    how.check()
    if order_by is not None:
        relabelling.states_of(model, "order_by=")  # raises before the work, not after it
    ends = islice(searches(model, with_lengths(data, lengths), init, how), _ENDS)
    found = _ended(next(ends), how, started)
    if max_iterations is None and not found.ok:
        others = (_ended(searched, how, started) for searched in ends)
        found = next((one for one in others if one.ok), found)
    if not found.ok and max_iterations is None and init is None:
        found = replace(found, optima=found.optima.without_best())
    found = with_zeros(found)
    return found if order_by is None else relabelling.ordered(found, order_by, False, "order_by")


def continued(found: Fit, theta: np.ndarray) -> Fit | None:
    """The fit that begins at theta (D,), near a better optimum of the same objective, with the optima of
    both; None where it ends in none that is certified and lower."""
    better = fit(found.model, found.data, init=found.params_at(theta), progress=False)
    if not (better.ok and better.value < found.value) or len(better.theta) != len(found.theta):
        return None
    known = found.optima
    both = replace(  # no start has found it
        known,
        thetas=np.concatenate([better.theta[None], known.thetas]),
        values=np.append(better.value, known.values),
        found=np.append(0, known.found),
        below=float("nan"),
    )
    return replace(
        better,
        optima=both,
        seconds=found.seconds + better.seconds,
        refit_seconds=found.refit_seconds,
        refit_most=found.refit_most,
    )


def _ended(searched: Searched, how: How, started: float) -> Fit:
    """The fit at the end of a search, with probabilities that go to zero there."""
    found = _result(searched, started)
    if how.max_iterations is not None:
        return found
    again = how._replace(optima=0)
    with suppress(TimeUpError):
        return settled(found, lambda zeros, at: _result(search(zeros, found.data, at, again), started))
    return found


@limits_memory
@in_float64
def fit_at(
    model: Any,
    data: Any,
    params: Params,
    *,
    lengths: Any = None,
    kernel: str | None = None,
    memory_limit: float | str | None = None,
) -> Fit:
    """A `Fit` at given parameters, which are not changed. Its status says how far they are from
    stationary. First states, transitions and categories of an HMM that have probability zero there are
    impossible in the model of the fit. `lengths`, `kernel` and `memory_limit` are those of `fit`."""
    started = time.perf_counter()
    require_text("kernel", kernel, optional=True)
    return with_zeros(_result(stay(model, with_lengths(data, lengths), params, kernel), started))


def _result(found: Searched, started: float) -> Fit:
    objective, end = found.objective, found.end
    return Fit(
        model=objective.model,
        data=objective.data,
        params=objective.space.params_at(end.theta),
        theta=end.theta,
        names=list(objective.space.names),
        status=end.status,
        gradient_norm=float(lengths_of(end.gradient)),
        distance=end.distance,
        smallest_eigenvalue=end.lowest,
        value=objective(end.theta),
        seconds=time.perf_counter() - started,
        refit_seconds=found.seconds,
        refit_most=found.most_seconds,
        values_of_starts=[run.value for run in found.runs],
        optima=found.pool,
        objective=objective,
        gradient=end.gradient,
        hessian_operator=end.hessian,
    )
