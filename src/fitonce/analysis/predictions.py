"""Time and peak memory of each call, from counts of its work.

A method's work for a fold is counted in gradients, Hessians and losses of one fold. How many steps a fit
takes and how many folds `auto` refines depends on the data; typical numbers stand for them here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.analysis.displacements import gradients_of_a_refit, usual_refits
from fitonce.analysis.timing import Times, seconds_per_operation, times_of
from fitonce.core import deferred, memory
from fitonce.core.parallel import cores
from fitonce.crossval.batches import bytes_of_chunk, chunk_size
from fitonce.fitting.finish import by_products
from fitonce.fitting.fit import Fit
from fitonce.fitting.footprint import (
    Asked,
    asked_of,
    bytes_of_cross,
    bytes_of_draws,
    bytes_of_influence,
    bytes_of_losses,
    bytes_of_sweep,
    bytes_per_refined,
    matrix_bytes,
    with_matrices,
)
from fitonce.fitting.optima import cheap_gradients, usual_starts
from fitonce.folds import Folds
from fitonce.objectives import schemes
from fitonce.objectives.abilities import HasLabels
from fitonce.objectives.base import Objective

_EM, _SECANTS, _NEWTON = 40, 100, 6  # of a fit: iterations of each start, last steps
_PRODUCTS = 150  # with H, where there are many parameters
_FACTOR = 10  # operations of an eigenvalue decomposition, times D^3
_SOLUTION = 40  # products, each about one gradient, of a solution with an H that is not formed
_SOLVES = {"none": 2, "ij": 2, "onestep": 4, "newton": 4, "auto": 2, "exact": 0}  # of each fold
_CHECKED = 20  # folds of "ij" that are checked
_SEARCH = 100  # gradients of a fold's search for other optima, of which four starts are most
_DRAWS = 1000  # of a bootstrap
_CALL = 0.08  # seconds of any call: loops that are read from disk, tables
_COMPILED = 11.0  # seconds to compile H and J of a chain along another path
_SMALL = 8 * 2**20  # of tables and small arrays, whatever the size
# Gradients, Hessians and losses for each fold, with the check of it.
_WORK = {
    "none": (2, 0, 2),
    "ij": (0, 0, 2),
    "onestep": (3, 0, 3),
    "newton": (3, 1, 3),
    "auto": (4, 0.2, 4),
    "exact": (8, 1.5, 2),
}


class Prediction(NamedTuple):
    """Of one call: seconds, of which some are spent compiling, and bytes at its peak."""

    call: str
    seconds: float
    compiling: float
    bytes: float


def predictions(objective: Objective, folds: Folds, fit: Fit | None, limit: float) -> list[Prediction]:
    """Of a fit, and of each call after it; `limit` bounds what their pieces take."""
    programs = memory.PROGRAMS + (0 if deferred.loaded() else memory.JAX)
    along = schemes.resolve_scheme(None, folds.kind, objective.scheme)
    path, asked = objective.with_scheme(along), asked_of(folds)
    times = times_of(path, None if fit is None else fit.theta)
    paths = [path, objective]
    if objective.traits.resampling:
        paths.append(objective.for_resampling(objective.traits.resampling[0]))
    # One fold at a time is the least that calls can do: where that is too much, the table says so.
    least = memory.IMPORTS + 2.0 * max(bytes_of_chunk(each, 1) for each in paths)
    with memory.limited(max(limit, least)):
        rows = [_fit(path, times, fit, programs)]
        rows += [_folds(path, times, asked, method) for method in _WORK]
        points = int(np.sum(objective.collection.weights > 0))
        if not np.isnan(times.sweep):
            rows += _sweeps(objective, times, points)
        if objective.traits.resampling:
            rows.append(_bootstrap(objective, times, programs))
    return rows


def _fit(objective: Objective, times: Times, fit: Fit | None, programs: float) -> Prediction:
    size, traits = objective.space.size, objective.traits
    formed = traits.formed or not by_products(objective)
    cubes = _FACTOR * size**3 * seconds_per_operation() if formed else 0.0
    steps = _EM if traits.m_steps == "all" else _SECANTS
    seconds = usual_starts(objective) * steps * times.gradient
    if by_products(objective):
        seconds += _PRODUCTS * 2 * times.gradient + (times.hessian if formed else 0.0) + cubes
    else:
        seconds += _NEWTON * (times.hessian + times.gradient + cubes)
    if fit is not None:
        seconds = fit.seconds - times.compiling
    libraries = memory.IMPORTS + (programs if traits.compiles else 0.0) if fit is None else 0.0
    peak = libraries + _point(objective) + (matrix_bytes(size) if formed else _SECANTS * 8.0 * size)
    return Prediction("fit", seconds + times.compiling, times.compiling, peak)


def _point(objective: Objective) -> float:
    """One gradient or H at a time."""
    derivatives = objective.bytes_per_point + objective.bytes_of_directions
    return max(bytes_of_chunk(objective, 1), derivatives)


def _chunks(objective: Objective, folds: int) -> float:
    """Folds that are evaluated side by side."""
    size = chunk_size(objective, folds)
    return min(cores(), -(-folds // size)) * bytes_of_chunk(objective, size)


def _folds(objective: Objective, times: Times, asked: Asked, method: str) -> Prediction:
    count, size = asked.folds, objective.space.size
    gradients, hessians, losses = _WORK[method]
    closed = objective.traits.exact_hessians or method == "newton"
    own = times.hessian if closed else size * times.row
    if not with_matrices(objective, count):
        own = 40 * times.row  # products
    seconds = _CALL + count * (gradients * times.row + hessians * own + losses * times.loss)
    if not objective.traits.formed:  # each step is solved for
        seconds += count * _SOLVES[method] * _SOLUTION * times.row
    if method in ("auto", "exact") and _is_searched(objective, count):
        seconds += min(count * _SEARCH * times.row, max(seconds, cheap_gradients(objective) * times.row))
    held = 8.0 * count * size + count * bytes_per_refined(objective, count, method)
    if method == "ij":
        checked = min(_CHECKED, count)
        cross = times.cross if objective.traits.cheap_cross else count * times.row
        seconds += cross + checked * (2 * times.row + times.loss)
        held += bytes_of_cross(objective, count)
    here = float(objective.bytes_per_point)
    if hessians and closed and with_matrices(objective, count):  # of several folds, side by side
        here = (1 if objective.traits.compiles else min(cores(), count)) * _point(objective)
    working = held + max(_chunks(objective, count), here)
    peak = max(working, held + bytes_of_losses(asked, method)) + _SMALL
    compiling = times.compiling / 2 if objective.traits.compiles else 0.0
    return Prediction(method, seconds + compiling, compiling, peak)


def _is_searched(objective: Objective, count: int) -> bool:
    """Whether folds look for other optima."""
    convex = objective.traits.convex or objective.least_curvature is not None
    return not convex and with_matrices(objective, count)


def _sweeps(objective: Objective, times: Times, points: int) -> list[Prediction]:
    size = objective.space.size
    solved = 2.0 * points * size**2 * seconds_per_operation()
    swept = times.sweep
    if not objective.traits.formed:
        solved, swept = points * 2 * _SOLUTION * times.row, points * times.row
    checked = points if points <= _DRAWS else 32
    check = checked * (3 * times.row + 3 * times.loss)
    working = max(_chunks(objective, checked), _point(objective))
    refits = 0 if isinstance(objective, HasLabels) else min(usual_refits(objective), points)
    exactly = refits * (gradients_of_a_refit(objective) * times.row + 3 * times.loss)
    apart = refits * bytes_per_refined(objective, max(refits, 1), "exact")
    found = []
    for call, held, more in (
        ("loo", bytes_of_sweep(objective, points), check),
        ("influence", bytes_of_influence(objective, points) + apart, exactly),
    ):
        space = working if more else _point(objective)
        found.append(Prediction(call, _CALL + swept + solved + more, 0.0, held + space + _SMALL))
    return found


def _bootstrap(objective: Objective, times: Times, programs: float) -> Prediction:
    kind = objective.traits.resampling[0]
    path = objective.for_resampling(kind)
    apart = path.traits.compiles and not objective.traits.compiles
    compiling = _COMPILED if apart else 0.0
    cross = times.cross if path.traits.cheap_cross else _DRAWS * (1 + 2 * _SOLUTION) * times.row
    seconds = _CALL + cross + 20 * times.row + 2e-6 * _DRAWS * len(path.base) ** (2 / 3)
    held = bytes_of_draws(path, _DRAWS) + bytes_of_cross(path, _DRAWS)
    working = _chunks(path, _DRAWS) + _point(path) + (programs if apart else 0.0)
    return Prediction("bootstrap", seconds + compiling, compiling, held + working + _SMALL)
