"""Folds that leave the boundary: probabilities that are zero with all data, and not without some.

A fit whose probabilities vanish under a flat prior is a minimum of the model in which these are
impossible (`fitting.boundary`), and so are its folds. The slopes of a fold by its zeros say whether it
would leave them; it is then refitted with them possible.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.parameters import Params
from fitonce.core.status import Rung, Status
from fitonce.crossval.batches import Batches
from fitonce.crossval.evidence import Evidence
from fitonce.crossval.fold_descents import fold_descents, metric
from fitonce.crossval.fold_states import FoldParameters
from fitonce.crossval.losses import Scoring
from fitonce.fitting import boundary
from fitonce.fitting.fit import Fit
from fitonce.fitting.newton import minimise
from fitonce.fitting.search import DEFAULT_TOLERANCE
from fitonce.models.hmm import HMM
from fitonce.objectives.base import Objective
from fitonce.objectives.families import objective_of

_BEGIN = 0.01  # what probabilities that may leave zero begin with
_LOWER = 1e-3  # nats: a fold leaves for no less


def leave_boundary(
    fit: Fit, scoring: Scoring, parameters: FoldParameters, evidence: Evidence
) -> dict[int, str]:
    """What is said of the folds that left, whose losses are replaced; their thetas stay at zero, which
    has no coordinates."""
    zeros = _optima(fit)
    whole = np.flatnonzero(np.isfinite(parameters.thetas).all(1)) if zeros else np.zeros(0, int)
    if not whole.size:
        return {}
    params = [fit.objective.space.params_at(theta) for theta in parameters.thetas[whole]]
    weights = scoring.batches.weights_of(whole)
    leaving: dict[int, list[str]] = {}
    for name, zero in zeros.items():
        objective = _like(scoring, objective_of(boundary.relaxed(fit.model, name), fit.data))
        slopes = boundary.slopes_at(objective, name, params, weights)
        lower = zero & (slopes < -boundary.ROUNDING * boundary.expected(fit, name, zero.ndim))
        for row, *at in np.argwhere(lower):
            leaving.setdefault(int(whole[row]), []).append(f"{name}[{','.join(map(str, at))}]")
    return _descended(fit, zeros, scoring, parameters, evidence, leaving) if leaving else {}


def _optima(fit: Fit) -> dict[str, np.ndarray]:
    """Which entries of each parameter are zeros that are optima with all data."""
    if not (fit.ok and isinstance(fit.model, HMM)):
        return {}
    found = boundary.zero_probabilities(fit)
    known = set(found["name"][found["optimum"]])
    masks = {}
    for name in boundary.learned(fit.model, fit.params):
        shape = np.shape(fit.params[name])
        own = [at for at in np.ndindex(shape) if f"{name}[{','.join(map(str, at))}]" in known]
        if own:
            masks[name] = np.zeros(shape, bool)
            masks[name][tuple(np.array(own).T)] = True
    return masks


def _like(scoring: Scoring, objective: Objective) -> Objective:
    return objective.with_scheme(scoring.batches.objective.scheme)


def _freed(fit: Fit, zeros: dict[str, np.ndarray]) -> HMM:
    """The model in which these are possible again."""
    model: Any = fit.model
    for name, zero in zeros.items():
        possible = (np.asarray(fit.params[name]) > 0) | zero
        if name == boundary.EMISSION:
            model = replace(model, emission=replace(model.emission, support=possible))
        else:
            support = {"initial": "initial_support", "transition": "support"}[name]
            model = replace(model, **{support: possible})
    return model


def _descended(
    fit: Fit,
    zeros: dict[str, np.ndarray],
    scoring: Scoring,
    parameters: FoldParameters,
    evidence: Evidence,
    leaving: dict[int, list[str]],
) -> dict[int, str]:
    model = _freed(fit, zeros)
    objective = _like(scoring, objective_of(model, fit.data))
    batches = Batches.of_folds(objective, scoring.folds, scoring.batches.size)
    which = np.array(sorted(leaving))
    begun = np.stack([_begin(fit, objective, zeros, parameters.thetas[fold]) for fold in which])
    metrics = np.stack([metric(objective, theta) for theta in begun])
    _, thetas = fold_descents(batches, begun, which, metrics, np.arange(len(which)))
    before, _ = scoring.batches.values_and_gradients(parameters.thetas[which], which)
    said = {}
    for fold, value, theta in zip(which.tolist(), before, thetas, strict=True):
        weights = scoring.batches.weights_of(np.array([fold]))
        end = _settled(scoring, model, objective.space.params_at(theta), fit, weights)
        if end is None or end.value >= value - _LOWER:
            continue
        names = ", ".join(f"'{name}'" for name in leaving[fold][:2])
        own = Batches.of_folds(end.objective, scoring.folds, scoring.batches.size)
        alone = np.array([fold])
        evidence.losses[fold] = replace(scoring, batches=own).losses(end.theta[None], alone)[0]
        parameters.rungs[fold], parameters.status[fold] = Rung.REFIT, end.status
        evidence.checked[fold], evidence.distances[fold], evidence.rates[fold] = (
            True,
            end.distance,
            np.nan,
        )
        change = scoring.errors(evidence.control[alone], evidence.losses[alone], alone)[0]
        evidence.errors[fold] = change * (end.distance if end.status.ok else 1.0)
        said[fold] = f"left zero at {names}"
    return said


class _End(NamedTuple):
    """Where a fold ends, in the coordinates of an objective of its own."""

    objective: Objective
    theta: np.ndarray
    value: float
    distance: float
    status: Status


def _settled(scoring: Scoring, model: HMM, params: Params, fit: Fit, weights: np.ndarray) -> _End | None:
    """The minimum near `params` at the weights (1, P) of a fold, with what vanishes at zero."""
    found = None
    for _ in range(boundary.TIMES):
        model, params = _at_zero(model, params)
        objective = _like(scoring, objective_of(model, fit.data))
        theta = np.asarray(objective.space.to_free(params), float)
        end = minimise(objective, theta[None], weights, tolerance=DEFAULT_TOLERANCE)
        status = end.status(0, list(objective.space.names), DEFAULT_TOLERANCE)
        found = _End(objective, end.thetas[0], float(end.values[0]), float(end.distances[0]), status)
        if status.ok or not np.isfinite(found.theta).all():
            break
        params = objective.space.params_at(found.theta)
    return found


def _at_zero(model: HMM, params: Params) -> tuple[HMM, Params]:
    """Parameters in which probabilities that vanish are zero, and the model where they are
    impossible."""
    kept = boundary.without_vanished(model, params)
    return (model, params) if kept is None else (model.with_zeros_of(kept), kept)


def _begin(
    fit: Fit, objective: Objective, zeros: dict[str, np.ndarray], theta: np.ndarray
) -> np.ndarray:
    params = {name: np.asarray(value) for name, value in fit.objective.space.params_at(theta).items()}
    for name, zero in zeros.items():
        value = np.where(zero, _BEGIN, params[name])
        params[name] = value / value.sum(-1, keepdims=True)
    return np.asarray(objective.space.to_free(params), float)
