"""select: several models on the same folds, and the simplest that predicts about as well as the best.

The choice is the simplest model within a margin of the best, over all data: log(m / 0.05) nats for m
other models, 3.0 for one and 4.4 for four. The simplest is the one with the fewest parameters (and first
states that nothing is known about, such as a slope); of models with equally many, the one that predicts
best; the order of the list decides only where losses are equal, too. If a simpler model were true and
its parameters known, another one would lead by c nats in its predictions of the future with a
probability of exp(-c) at most, by Markov's inequality for ratios of densities, and any of m with m times
that: once in twenty times at this margin. Here parameters are estimated and stretches left out, so that
this is a guide and no bound; the study of `reproduce/selection.py` counts how often it fails.

Models are never true, and in long data a few nats are little. So the result also says which models are
within one standard error of the paired difference, by Student's t where few stretches make that
uncertain: if there are such models, there is no clear winner. They are not chosen for that: the standard
error is large where a model gains much in a few stretches, and in the study that rule gave short series
too few states. Folds and loss are those that did best there, too: 60 stretches of time (or 20 regions),
each scored as a whole. One point at a time, given its neighbours, hardly tells one model from another;
longer stretches take most of a rare state away with them, and models that have it look worse than they
are.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from fitonce.analysis.choosing import criteria, judged, simplest_of
from fitonce.analysis.selection import Selection
from fitonce.core import memory
from fitonce.core.arguments import require_function, require_number
from fitonce.core.memory import limits_memory
from fitonce.core.wording import counted, listed
from fitonce.crossval.cross_validate import check_folds, cross_validate, matched_folds
from fitonce.crossval.dependence import joint_places
from fitonce.crossval.losses import resolve_loss
from fitonce.data.sequences import with_lengths
from fitonce.engines.elimination import TooWideError
from fitonce.fitting import time_limit
from fitonce.fitting.fit import Fit, continued, fit
from fitonce.fitting.optima import DEFAULT_OPTIMA
from fitonce.fitting.summarise import starts_of
from fitonce.fitting.time_limit import TimeUpError
from fitonce.folds import Folds
from fitonce.folds.catalogue import covering
from fitonce.objectives.base import Objective
from fitonce.objectives.families import family_of, objective_of
from fitonce.results.compare import compare
from fitonce.results.result import CVResult

_LEVEL = 0.05  # of passing over a simpler model that is true


@limits_memory
def select(
    candidates: Mapping[str, Any],
    data: Any,
    folds: Folds | Callable[[Any], Folds] | None = None,
    *,
    lengths: Any = None,
    loss: Any = None,
    restarts: int | None = None,
    seed: int = 0,
    optima: int = DEFAULT_OPTIMA,
    told: Callable[[str], None] = lambda name: None,
    stop: Callable[[], bool] | None = None,
    max_seconds: float | None = None,
    memory_limit: float | str | None = None,
    **how: Any,
) -> Selection:
    """Fit several models, cross-validate each on the same folds, and choose among them.

    Where folds lead to a better optimum of a model that was fitted here, the model is fitted from there
    and cross-validated again. There is no answer where the best model, the simplest near it, or a
    neighbour of these has no certified fit: `Selection.undecided` says why and what to do. Neighbours
    have the next smaller or larger number of states, or are next in the list.

    Args:
        candidates: models by name, or fits of them to the data.
        data: what `fo.fit` reads.
        folds: from `fo.folds`, or a function that makes them from the data; None: 60 stretches of
            time (of at least 3 steps) or 20 regions that cover the data, or each labelled sequence.
        lengths: of the sequences, where `data` is one array or table with the rows of all of them.
        loss: of `cross_validate`; None: "joint" for stretches and regions, "pointwise" for sequences and
            for points that are left out one by one or at random.
        restarts, seed: of the fits.
        optima: how hard to look for other optima, in the fits and in the folds; 0: not at all.
        told: called with a model's name before it is fitted.
        stop: once it returns true, models that were not begun are skipped, fits take no more starts, and
            a model whose folds are not finished is not compared: `skipped` and `not_compared` say what
            is known of it.
        max_seconds: the same once so many seconds have passed, for all models together. A start of the
            first model is finished in any case.
        memory_limit: what all of it may add to the memory of this process, in bytes or as text such as
            "2GB"; None: half of this machine's memory. A model that needs more is skipped; those on
            graphs whose tables are too large are named before anything is fitted.
        **how: for `cross_validate`.
    """
    require_function("told", told, "a name")
    require_function("stop", stop, optional=True)
    named = dict(zip(_named(candidates), candidates.values(), strict=True))
    late = _clock(max_seconds)
    data = with_lengths(data, lengths)
    _check_fits(candidates, data)
    if loss is not None:
        resolve_loss(loss)
    if folds is None or callable(folds):
        folds = _made(folds, candidates.values(), data)
    check_folds(folds)
    trials = _Trials(
        named,
        data,
        folds,
        fitting={"restarts": restarts, "seed": seed, "optima": optima, "progress": how.get("progress")},
        scoring={"loss": loss, "optima": optima, **how},
        late=late,
        ended=lambda: late() or (stop is not None and stop()),
        seconds=max_seconds,
    )
    trials.skip_too_wide()
    trials.run(told)
    return trials.outcome()


@dataclass(eq=False)
class _Trials:
    """Models that are fitted and cross-validated one after the other, and what came of each by its name.

    Attributes:
        fitting, scoring: arguments of `fit` and of `cross_validate`.
        late: whether the `seconds` asked for are over.
        ended: whether work is to end, for whatever reason.
        skipped: why there is no result.
        refused: models that cannot be fitted to these data.
        unfinished: what ended the work on their folds, and of which budget that was.
        short_of: budgets that ended before the work was done.
    """

    candidates: Mapping[str, Any]
    data: Any
    folds: Folds
    fitting: Mapping[str, Any]
    scoring: Mapping[str, Any]
    late: Callable[[], bool]
    ended: Callable[[], bool]
    seconds: float | None
    fits: dict[str, Fit] = field(default_factory=dict)
    results: dict[str, CVResult] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    unfinished: dict[str, tuple[str, str]] = field(default_factory=dict)
    short_of: set[str] = field(default_factory=set)

    def skip_too_wide(self) -> None:
        """Skip models on graphs whose tables do not fit in memory, and warn of them."""
        self.skipped.update(too_wide(self.candidates))
        self.refused.update(self.skipped)
        if self.skipped and len(self.skipped) < len(self.candidates):
            names, why = listed(list(self.skipped), 5), next(iter(self.skipped.values()))
            warnings.warn(
                f"skipped, for their tables do not fit in memory: {names}; {why}",
                UserWarning,
                stacklevel=4,
            )

    def run(self, told: Callable[[str], None]) -> None:
        """Fit and cross-validate each model, unless the work is to end."""
        for name in self.candidates:
            if name in self.skipped:
                continue
            if self.fits and self.ended():
                self._skip(name, self._budget_over(), "before it began")
                continue
            told(name)
            try:
                self._try(name)
            except TimeUpError:
                self._skip(name, self._budget_over(), "before a start of its fit had ended")
            except ValueError as error:  # the others are still compared
                self.skipped[name] = str(error)
                if name not in self.fits:
                    self.refused.add(name)
            if name in self.results:
                memory.hold(_size(self.results[name]), "the results of other models")

    def _try(self, name: str) -> None:
        self.fits[name] = self._fit(self.candidates[name])
        if self.results and self.ended():
            self._skip(name, self._budget_over(), "before its folds were begun")
            return
        self.results[name] = self._cross_validate(name)
        if self.results[name].n_unfinished:
            self.unfinished[name] = self._budget_over()

    def _fit(self, one: Any) -> Fit:
        if isinstance(one, Fit):
            return one
        with time_limit.until(self.ended, one_start=not self.fits):
            return fit(one, self.data, **self.fitting)

    def _cross_validate(self, name: str) -> CVResult:
        """Folds of the fit, or of a better one to which they lead."""
        found = _usable(self._score(self.fits[name]))
        given = isinstance(self.candidates[name], Fit)
        if found.better_theta is None or given or self.ended():
            return found
        better = continued(self.fits[name], found.better_theta)
        if better is None:
            return found
        try:
            again = _usable(self._score(better))
        except ValueError:  # what is known already stays
            return found
        if again.n_unfinished:
            return found
        self.fits[name] = better
        return again

    def _score(self, one: Fit) -> CVResult:
        matched_folds(one, self.folds)
        loss = self.scoring["loss"]
        by = usual_loss(one.objective, self.folds) if loss is None else loss
        return cross_validate(one, self.folds, stop=self.ended, **{**self.scoring, "loss": by})

    def _budget_over(self) -> tuple[str, str]:
        """What has ended the work just now, and the budget that it was."""
        if self.late():
            return f"the {self.seconds:g} seconds asked for were over", "seconds"
        gradients = self.scoring.get("max_gradients")
        if self.ended() or gradients is None:
            return "interrupted", ""
        return f"the {gradients:,} gradients asked for were over", "gradients"

    def _skip(self, name: str, why: tuple[str, str], when: str) -> None:
        self.skipped[name] = f"{why[0]} {when}"
        self.short_of.update(filter(None, why[1:]))

    def outcome(self) -> Selection:
        """The choice; losses of unfinished folds are not held out, and not compared."""
        for name in self.unfinished if len(self.unfinished) < len(self.results) else ():
            done = len(self.folds) - self.results.pop(name).n_unfinished
            when = f"when {done} of its {counted(len(self.folds), 'fold')} were finished"
            self._skip(name, self.unfinished[name], when)
        sizes = {name: _sizes(one) for name, one in self.candidates.items()}
        apart = {name: one for name, one in self.fits.items() if name not in self.results}
        found = _chosen(self.results, self.skipped, sizes, apart)
        failed = _uncertified(found, self.fits, self.refused)
        return replace(found, short_of=frozenset(self.short_of), uncertified=failed)


def _uncertified(found: Selection, fits: Mapping[str, Fit], refused: Collection[str]) -> dict[str, str]:
    """Of the best, the choice and the models beside these, those that have no certified fit, and why.
    Models that cannot be fitted at all are beside none."""
    names = [name for name in found.sizes if name not in refused]
    numbers = [tuple(found.sizes[name].items()) for name in names]
    named = len(numbers[0]) == 1 and len({tuple(name for name, _ in one) for one in numbers}) == 1
    places = {
        name: number[0][1] if named else k
        for k, (name, number) in enumerate(zip(names, numbers, strict=True))
    }
    levels = sorted(set(places.values()))
    at = {levels.index(places[name]) for name in (found.best, found.simplest)}
    near = {levels[k] for one in at for k in range(max(one - 1, 0), min(one + 2, len(levels)))}
    return {
        name: fits[name].status.outcome.value if name in fits else found.skipped[name]
        for name in names
        if places[name] in near and (name not in fits or not fits[name].ok)
    }


def too_wide(candidates: Mapping[str, Any]) -> dict[str, str]:
    """The models on graphs whose tables do not fit in memory, with what is said of them."""
    found = {}
    for name, one in candidates.items():
        plan = None if isinstance(one, Fit) else family_of(one).plan
        try:
            if plan is not None:
                plan(one)
        except TooWideError as error:
            found[str(name)] = str(error)
    return found


def _named(candidates: Mapping[str, Any]) -> list[str]:
    """The names of the candidates, which must be different."""
    if not isinstance(candidates, Mapping) or not candidates:
        raise ValueError("candidates must be a dict of models by name")
    names = [str(name) for name in candidates]
    if len(set(names)) < len(names):
        raise ValueError(f"candidates must have different names, got {', '.join(names)}")
    return names


def _chosen(
    results: dict[str, CVResult],
    skipped: dict[str, str],
    sizes: Mapping[str, Mapping[str, int]],
    apart: Mapping[str, Fit],
) -> Selection:
    """Compare the results by the rule of this module; `sizes` has all models, in order, and `apart` fits
    of models that are not compared."""
    if not results:
        raise ValueError(f"candidates: no model could be fitted: {next(iter(skipped.values()))}")
    skipped = {name: skipped[name] for name in sizes if name in skipped}
    comparison = compare(results)
    compared = {name: result.fit for name, result in results.items()}
    rows, given, unknown = criteria({**compared, **apart})
    known = {name: {**rows.pop(name), "fit": one.status.outcome.value} for name, one in apart.items()}
    not_compared = pd.DataFrame.from_dict(known, orient="index")
    not_compared.index.name = "model"
    beside = comparison.table.drop(columns=["ratio", "p_worse", "weight", "note"])
    table = pd.DataFrame.from_dict(rows, orient="index").join(beside)
    table["found"] = [_found(results[str(name)]) for name in table.index]
    table.index.name = "model"
    best, margin = comparison.best, float(np.log(max(len(table) - 1, 1) / _LEVEL))
    near, as_good = judged(table, best, margin)
    chosen = simplest_of(table, near, unknown)
    return Selection(
        table, best, chosen, as_good, margin, skipped, comparison, results, sizes, given, not_compared
    )


def _found(result: CVResult) -> str:
    """How many of the starts of a fit ended in its optimum."""
    known = starts_of(result.fit) if isinstance(result.fit, Fit) else None
    return "" if known is None else known.share


def _clock(max_seconds: float | None) -> Callable[[], bool]:
    """A function that says whether the time is up."""
    if max_seconds is None:
        return lambda: False
    require_number("max_seconds", max_seconds, above=0, optional=True)
    end = time.perf_counter() + max_seconds
    return lambda: time.perf_counter() >= end


def _sizes(one: Any) -> dict[str, int]:
    model = one.model if isinstance(one, Fit) else one
    states = family_of(model).n_states(model)
    return {} if states is None else {"number of states": states}


def _check_fits(candidates: Mapping[str, Any], data: Any) -> None:
    """Raise where a candidate is a fit of other data."""
    for name, one in candidates.items():
        if isinstance(one, Fit):
            expected = objective_of(one.model, data).collection.fingerprint
            if one.objective.collection.fingerprint != expected:
                raise ValueError(f"'{name}' must be a fit of the data given, got one of other data")


def _usable(found: CVResult) -> CVResult:
    """The result, if most folds have a usable number: those of one model would decide on which folds all
    are compared."""
    ok = found.folds["ok"]
    if 2 * ok.sum() <= len(ok):
        why = found.folds.loc[~ok, "status"].iloc[0]
        raise ValueError(f"only {ok.sum()} of {len(ok)} folds have a usable number: {why}")
    return found


def _made(make: Callable[[Any], Folds] | None, candidates: Iterable[Any], data: Any) -> Folds:
    """Folds of the data for which every model has a density, by `make` or such that everything is scored
    once. An autoregression conditions on its first steps, so the model of the highest order decides."""
    model, modelled = modelled_by_all(candidates, data)
    if make is None:
        return covering(family_of(model).covering_folds, model, modelled)
    return make(modelled)


def modelled_by_all(candidates: Iterable[Any], data: Any) -> tuple[Any, Any]:
    """The model that has a density for the fewest points, and the data as it reads them."""
    found, why = [], None
    for one in candidates:
        try:
            model, objective = (
                (one.model, one.objective) if isinstance(one, Fit) else (one, objective_of(one, data))
            )
            found.append((model, objective.collection))
        except ValueError as error:
            why = why or error
    if not found:
        raise ValueError(f"no model could be fitted: {why}")
    return min(found, key=lambda pair: float(pair[1].weights.sum()))


def usual_loss(objective: Objective, folds: Folds) -> Literal["pointwise", "joint"]:
    """The loss that tells models apart best and has a standard error: everything that a fold scores at
    once, if it scores more than a point, and not sequences, which are scored whole anyway."""
    single = folds.kind == "sequences" or all(len(part) == 1 for part in folds.scored)
    return "pointwise" if single or joint_places(objective, folds) == "none" else "joint"


def _size(result: CVResult) -> float:
    """Bytes of a result that is kept."""
    tables = (result.pointwise, result.folds)
    return float(result.theta.nbytes + sum(table.memory_usage(deep=True).sum() for table in tables))
