"""Folds that leave the boundary, or reach it: probabilities that are zero only with all data, or without
some.

A fit whose probabilities vanish under a flat prior is a minimum of the model in which these are
impossible (`fitting.boundary`), and so are its folds. The slopes of a fold by its zeros say whether it
would leave them; it is then refitted with them possible.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.parameters import Params
from fitonce.core.status import Rung, Status
from fitonce.crossval.batches import Batches
from fitonce.crossval.evidence import Evidence
from fitonce.crossval.fold_descents import fold_descents, metric
from fitonce.crossval.fold_states import FoldParameters
from fitonce.crossval.losses import Scoring
from fitonce.crossval.search_record import Search
from fitonce.fitting import boundary
from fitonce.fitting.descent import random_starts
from fitonce.fitting.fit import Fit
from fitonce.fitting.newton import minimise
from fitonce.fitting.search import DEFAULT_TOLERANCE
from fitonce.objectives.abilities import HasZeros
from fitonce.objectives.base import Objective
from fitonce.objectives.families import objective_of

_STARTS, _SEED = 4, 20_203
_BEGIN = 0.01  # what probabilities that may leave zero begin with
_LOWER, _CLEARLY = 1e-6, 1e-3  # nats: a fold leaves for no less, and goes elsewhere for no less


def leave_boundary(
    fit: Fit, scoring: Scoring, parameters: FoldParameters, evidence: Evidence, search: Search | None
) -> dict[int, Left]:
    """Refits folds that would leave a zero, or whose probabilities vanish where the fit's do not, and
    replaces their losses in `evidence`. Their thetas become nan: they have other coordinates than the
    fit."""
    at = (fit, scoring, parameters, evidence, search)
    # Folds that leave a zero may reach another on the way; those that only reach one are left.
    return _leaving(*at) | _reaching(*at) | _elsewhere(*at)


def _elsewhere(
    fit: Fit, scoring: Scoring, parameters: FoldParameters, evidence: Evidence, search: Search | None
) -> dict[int, Left]:
    """Of folds that have a better optimum with other zeros: the search knows only those of the fit, so
    that some random starts are repeated with all of them possible."""
    thetas = parameters.thetas
    whole = np.flatnonzero(np.isfinite(thetas).all(1))
    known = boundary.remembered_zeros(fit.model)
    if search is None or not known or not whole.size or scoring.batches.spent():
        return {}
    model = fit.model.zeros.freed()
    objective = _with_scheme_of(scoring, model, fit)
    batches = Batches.of_folds(objective, scoring.folds, scoring.batches.size)
    rng, first = np.random.default_rng(_SEED), objective.start(None)
    begun = np.stack(list(islice(random_starts(objective, rng, first), _STARTS)))
    metrics = np.stack([metric(objective, theta) for theta in begun])
    usable = np.flatnonzero(np.isfinite(metrics).all((1, 2)))
    if not usable.size:
        return {}
    source, which = (part.ravel() for part in np.meshgrid(usable, whole, indexing="ij"))
    values, ends = fold_descents(batches, begun[source], which, metrics, source)
    scoring.batches.gradients_used[:] += batches.gradients_used
    current, _ = scoring.batches.values_and_gradients(thetas[whole], whole)
    found = {}
    for fold, value in zip(whole.tolist(), current, strict=True):
        own = np.flatnonzero(which == fold)
        lowest = own[np.argmin(values[own])]
        if not values[lowest] < value - _CLEARLY or scoring.batches.spent():
            continue
        params = objective.space.params_at(ends[lowest])
        end = _settled(scoring, model, params, fit, scoring.batches.weights_of(np.array([fold])))
        if end.status.ok and end.value < value - _CLEARLY:
            search.optimum[fold], search.gain[fold] = -1, search.gain[fold] + value - end.value
            remark = "in an optimum with other zeros"
            before = scoring.means(evidence.losses)[fold]
            found[fold] = _taken(fold, end, remark, scoring, parameters, evidence, search)
            parameters.rungs[fold] = Rung.OTHER
            search.shift[fold] += scoring.means(evidence.losses)[fold] - before
    return found


def _reaching(
    fit: Fit, scoring: Scoring, parameters: FoldParameters, evidence: Evidence, search: Search | None
) -> dict[int, Left]:
    """Of folds whose probabilities go to zero: they have no minimum, or are near enough to where it
    would be."""
    found: dict[int, Left] = {}
    for fold, theta in enumerate(parameters.thetas):
        if not np.isfinite(theta).all() or not isinstance(fit.model, HasZeros):
            continue
        params = fit.objective.space.params_at(theta)
        kept = fit.model.zeros.without_vanished(params)
        if kept is None or scoring.batches.spent():
            continue
        alone = np.array([fold])
        end = _settled(scoring, fit.model, params, fit, scoring.batches.weights_of(alone))
        before, _ = scoring.batches.values_and_gradients(theta[None], alone)
        if end.status.ok and not end.value > before[0]:
            gone = [
                boundary.entry_name(name, at)
                for name, value in kept.items()
                for at in np.argwhere((value == 0) & (np.asarray(params[name]) > 0))
            ]
            remark = f"reached zero at '{gone[0]}'"
            found[fold] = _taken(fold, end, remark, scoring, parameters, evidence, search)
    return found


def _leaving(
    fit: Fit, scoring: Scoring, parameters: FoldParameters, evidence: Evidence, search: Search | None
) -> dict[int, Left]:
    masks = boundary.estimated_zeros(fit)
    whole = np.flatnonzero(np.isfinite(parameters.thetas).all(1)) if masks else np.zeros(0, int)
    if not whole.size:
        return {}
    params = [fit.objective.space.params_at(theta) for theta in parameters.thetas[whole]]
    weights = scoring.batches.weights_of(whole)
    leaving: dict[int, list[str]] = {}
    for name, zero in masks.items():
        objective = _with_scheme_of(scoring, fit.model.zeros.relaxed(name), fit)
        slopes = boundary.slopes_at(objective, name, params, weights)
        slopes += boundary.prior_of_others(fit, name)
        lower = zero & (slopes < -boundary.ROUNDING * boundary.expected(fit, name, zero.ndim))
        for row, *at in np.argwhere(lower):
            leaving.setdefault(int(whole[row]), []).append(boundary.entry_name(name, at))
    return _refitted(fit, scoring, parameters, evidence, search, leaving) if leaving else {}


def _with_scheme_of(scoring: Scoring, model: Any, fit: Fit) -> Objective:
    return objective_of(model, fit.data).with_scheme(scoring.batches.objective.scheme)


def _refitted(
    fit: Fit,
    scoring: Scoring,
    parameters: FoldParameters,
    evidence: Evidence,
    search: Search | None,
    leaving: dict[int, list[str]],
) -> dict[int, Left]:
    model = fit.model.zeros.freed()
    objective = _with_scheme_of(scoring, model, fit)
    batches = Batches.of_folds(objective, scoring.folds, scoring.batches.size)
    which = np.array(sorted(leaving))
    begun = np.stack([_begin(fit, objective, parameters.thetas[fold]) for fold in which])
    metrics = np.stack([metric(objective, theta) for theta in begun])
    _, thetas = fold_descents(batches, begun, which, metrics, np.arange(len(which)))
    scoring.batches.gradients_used[which] += batches.gradients_used[which]
    before, _ = scoring.batches.values_and_gradients(parameters.thetas[which], which)
    found = {}
    for fold, value, theta in zip(which.tolist(), before, thetas, strict=True):
        if scoring.batches.spent():
            break
        alone = np.array([fold])
        params = objective.space.params_at(theta)
        end = _settled(scoring, model, params, fit, scoring.batches.weights_of(alone))
        if not (end.status.ok and end.value < value - _LOWER):
            continue
        names = ", ".join(f"'{name}'" for name in leaving[fold][:2])
        remark = f"left zero at {names}"
        found[fold] = _taken(fold, end, remark, scoring, parameters, evidence, search)
    return found


def _taken(
    fold: int,
    end: _End,
    remark: str,
    scoring: Scoring,
    parameters: FoldParameters,
    evidence: Evidence,
    search: Search | None,
) -> Left:
    """The fold at another end, in `parameters` and `evidence`."""
    alone, own = np.array([fold]), Batches.of_folds(end.objective, scoring.folds, scoring.batches.size)
    evidence.losses[fold] = replace(scoring, batches=own).losses(end.theta[None], alone)[0]
    change = scoring.errors(evidence.control[alone], evidence.losses[alone], alone)[0]
    evidence.errors[fold] = change * end.distance
    evidence.checked[fold] = True
    evidence.distances[fold], evidence.rates[fold] = end.distance, np.nan
    parameters.rungs[fold], parameters.status[fold] = Rung.REFIT, end.status
    parameters.thetas[fold] = np.nan
    if search is not None:
        search.ways[fold] = 1
    return Left(remark, end.objective.space.params_at(end.theta))


class Left(NamedTuple):
    """A fold that left the zeros of the fit: what to say of it, and its parameters."""

    remark: str
    params: Params


class _End(NamedTuple):
    """Where a fold ends, in the coordinates of an objective of its own."""

    objective: Objective
    theta: np.ndarray
    value: float
    distance: float
    status: Status


def _settled(scoring: Scoring, model: Any, params: Params, fit: Fit, weights: np.ndarray) -> _End:
    """The minimum near `params` at the weights (1, P) of a fold, with what vanishes at zero."""
    for attempt in range(boundary.TIMES):
        kept = model.zeros.without_vanished(params)
        if kept is not None:
            model, params = model.zeros.held(kept), kept
        objective = _with_scheme_of(scoring, model, fit)
        theta = np.asarray(objective.space.to_free(params), float)
        with np.errstate(over="ignore", invalid="ignore"):  # of what vanishes
            end = minimise(objective, theta[None], weights, tolerance=DEFAULT_TOLERANCE)
        status = end.status(0, list(objective.space.names), DEFAULT_TOLERANCE)
        if attempt == boundary.TIMES - 1 or not np.isfinite(end.thetas[0]).all():
            break
        params = objective.space.params_at(end.thetas[0])
        if status.ok and model.zeros.without_vanished(params) is None:
            break
    return _End(objective, end.thetas[0], float(end.values[0]), float(end.distances[0]), status)


def _begin(fit: Fit, objective: Objective, theta: np.ndarray) -> np.ndarray:
    """Parameters of a fold in which nothing that the objective allows is zero: what is held at zero
    without being an optimum may be left, too, and what underflowed has no logarithm."""
    params = {name: np.asarray(value) for name, value in fit.objective.space.params_at(theta).items()}
    zeros = objective.model.zeros
    for name in zeros.learned(params):
        value = params[name]
        zero = (value == 0) & zeros.possible(name, value.shape)
        value = np.where(zero, _BEGIN, value)
        params[name] = value / value.sum(-1, keepdims=True)
    return np.asarray(objective.space.to_free(params), float)
