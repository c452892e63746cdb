"""cross_validate: every fold from one fit."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from fitonce.core.arguments import (
    refusal,
    require,
    require_flag,
    require_function,
    require_number,
    shown,
)
from fitonce.core.memory import limits_memory
from fitonce.core.numerics import is_count, is_number
from fitonce.core.parallel import Parallel, Workers, resolve_parallel
from fitonce.core.progress import stage
from fitonce.core.progress_lines import told_as
from fitonce.core.stopwatch import Stopwatch
from fitonce.crossval.assemble import assemble
from fitonce.crossval.auto import climb
from fitonce.crossval.batches import Batches, chunk_size
from fitonce.crossval.dependence import read_clusters
from fitonce.crossval.foretold import foretell_folds
from fitonce.crossval.from_zero import leave_zero
from fitonce.crossval.journal import Journal
from fitonce.crossval.leaving import leave_boundary
from fitonce.crossval.losses import Loss, Scoring, resolve_loss
from fitonce.crossval.methods import resolve_method
from fitonce.crossval.optima import is_searched, search
from fitonce.crossval.pieces import by_method, pieces_of
from fitonce.crossval.repeats import Found
from fitonce.fitting.curvature import curvature_of
from fitonce.fitting.fit import Fit
from fitonce.fitting.footprint import asked_of, hold_folds
from fitonce.fitting.optima import DEFAULT_OPTIMA, check_optima
from fitonce.fitting.required import require_a_fit
from fitonce.folds import Folds
from fitonce.objectives import schemes
from fitonce.objectives.base import Objective
from fitonce.objectives.schemes import Scheme
from fitonce.results.result import CVResult

_SAMPLE = 20  # folds of "ij" that are checked by default


@limits_memory
@told_as("cross-validation")
def cross_validate(
    fit: Fit,
    folds: Folds,
    *,
    method: str = "auto",
    scheme: str | Scheme | None = None,
    loss: Loss = "pointwise",
    clusters: Any = None,
    optima: int = DEFAULT_OPTIMA,
    tolerance: float | None = None,
    check: str | int | bool | None = None,
    max_gradients: int | None = None,
    max_seconds: float | None = None,
    chunk: int | None = None,
    progress: bool | None = None,
    damping: float = 0.0,
    residual: bool = True,
    parallel: Any = None,
    journal: str | os.PathLike[str] | None = None,
    stop: Callable[[], bool] | None = None,
    memory_limit: float | str | None = None,
) -> CVResult:
    """Cross-validate a fitted model on folds, without refitting unless a fold needs it.

    Args:
        fit: from `fo.fit`.
        folds: from `fo.folds`, made for the same data.
        method: "none" (the control), "ij", "onestep", "newton", "exact", or "auto": the cheapest of
            none, onestep and exact that is good enough, fold by fold.
        scheme: "A" (keep latent states, the default for points), "B" (drop them too), "C" (labels of a
            CRF, its default for points), or a scheme from `fo.schemes`; whole sequences always use
            "structures".
        loss: "pointwise", "joint", or a function `loss(params, data, weights)` that returns one loss for
            everything that can be left out; those of what the fold leaves out are used.
        clusters: what is independent, for the standard error: one label for each point (or sequence,
            where folds leave these out), a Series with the index of the data or the names of sequences,
            or the name of a column of the table of a `Custom`. None: what the model knows of time,
            sequences or neighbours. The points of a `Custom` are exchangeable, unless folds are
            stretches of time or made on a graph.
        optima: how hard "auto" and "exact" look for better optima of each fold: with so many random
            starts, and as many other optima of the fit. 0: each fold is at the optimum that continues
            the full fit's, which may not be its best. Convex models have only one.
        tolerance: the tolerable error of a fold's loss, in units of the loss: what a verdict of "good"
            promises, and what "auto" aims for. None: a tenth of the standard error of the estimate
            ("auto" then aims for a hundredth of it).
        check: how many folds to check by a gradient at what the method returned: "all", a number
            (spread evenly), or False for none. None: all, except for "ij", which needs no gradients
            otherwise: 20.
        max_gradients, max_seconds: a budget for "auto" and "exact", for all folds together, checked
            between rounds; a Hessian counts as D gradients, a product with one as two. Unfinished folds
            keep their current parameters and the estimated error, and their status says so.
        chunk: how many folds run through the compiled program together; None: by memory.
        progress: a progress bar; None: on a terminal and in notebooks.
        damping: added to the diagonal of H, for a fit at which it is not positive definite.
        residual: whether "ij" and "onestep" also correct for the gradient left by a fit that stopped
            early. The paper does not (False); it makes no difference at a stationary fit.
        parallel: where folds are evaluated: None (threads of this process), "devices" (all of JAX's), a
            number of worker processes, or `fo.Workers`, which may be a Dask cluster.
        journal: a folder in which results are stored as they come: the same call after an interruption
            resumes from there.
        stop: a function that "auto" and "exact" call between rounds; once it returns true, they stop as
            if the budget had ended.
        memory_limit: what the call may add to the memory of this process and of its workers, in bytes
            or as text such as "2GB"; None: half of this machine's memory. Folds are worked on in pieces
            below it, with the same results; where one fold is too large, the call refuses. See
            `fo.plan`.
    """
    watch = Stopwatch()
    method, loss = resolve_method(method), resolve_loss(loss)
    all_folds = matched_folds(fit, folds)
    first, repeats = all_folds.distinct()
    folds = all_folds.some(first) if len(first) < len(all_folds) else all_folds
    require_number("tolerance", tolerance, above=0, optional=True)
    check_optima(optima)
    require_flag("progress", progress, optional=True)
    require_function("stop", stop, optional=True)
    parts = read_clusters(clusters, fit, all_folds, loss == "joint")
    along = schemes.resolve_scheme(scheme, folds.kind, fit.objective.scheme)
    place = resolve_parallel(parallel)
    objective = fit.objective.with_scheme(along).run_on(place)
    curve = curvature_of(fit, objective, damping, residual)
    which = _checked(check, method, len(folds))
    pieces = _pieces(objective, folds, method, loss)
    options: dict[str, Any] = {
        "size": _chunk_size(objective, chunk, len(folds), place),
        "progress": progress,
        "given": chunk is not None,
        "parallel": place,
        "journal": None if journal is None else Journal.of(journal, objective),
        "stop": stop,
        **_budget(method, max_gradients, max_seconds, watch.started),
    }
    batches = Batches.of_folds(objective, folds, **options)
    scoring = Scoring(curve, folds, batches, loss, clusters=parts)
    foretell_folds(fit, objective, method, len(folds), int(optima), progress)
    if method == "auto":
        parameters, evidence = climb(scoring, tolerance, pieces)
    else:
        parameters, evidence = by_method(scoring, method, which, pieces)
    remarks = leave_zero(scoring, parameters, evidence, method in ("auto", "exact"))
    found = None
    wanted = optima and method in ("auto", "exact") and not batches.spent()
    if wanted and is_searched(fit, curve, batches):
        with stage("other optima of the folds", progress):
            found = search(scoring, parameters, evidence, fit.optima.thetas[1:], int(optima))
        if not (found.searched.any() or len(fit.optima) > 1):
            found = None  # nothing to offer, and no random starts, or no time for them
    left = {}
    if method in ("auto", "exact") and not batches.spent():
        left = leave_boundary(fit, scoring, parameters, evidence, found)
    each = Found(parameters, evidence, batches.work, found, left, remarks).repeated(first, repeats)
    if len(folds) < len(all_folds):
        batches_of_all = Batches.of_folds(objective, all_folds, **options)
        scoring = Scoring(curve, all_folds, batches_of_all, loss, clusters=parts)
    result = assemble(fit, scoring, method, each, tolerance, watch.read())
    if batches.journal is not None:
        result.about["journal"] = str(batches.journal)
    return result


def check_folds(folds: Any) -> None:
    """Raise unless these are folds."""
    if not isinstance(folds, Folds):
        splitter = "; wrap a scikit-learn splitter in fo.folds.from_splitter"
        hint = splitter if hasattr(folds, "split") else ""
        raise ValueError(f"folds must come from fo.folds, got {type(folds).__name__}{hint}")


def matched_folds(fit: Fit, folds: Folds) -> Folds:
    """The folds with the data's own missing observations, after checking that they belong to it."""
    require_a_fit(fit)
    check_folds(folds)
    data = fit.objective.collection
    if folds.lengths is not None:
        data.require_lengths(folds.lengths)
    matched = folds.rebased(data.weights if folds.kind == "sites" else data.sequence_weights)
    fit.objective.check_weights(fit.theta, matched.weights_of([0])[0])
    return matched


def _checked(check: Any, method: str, count: int) -> np.ndarray:
    """The numbers of the folds to check."""
    if check is not None and method == "auto":
        raise ValueError(f"method='auto' checks every fold, so check must be None, got {shown(check)}")
    if check is None:
        check = _SAMPLE if method == "ij" else "all"
    if check is False:
        return np.zeros(0, int)
    if check is True or (isinstance(check, str) and check == "all"):
        return np.arange(count)
    require(is_count(check), "check", "'all', a number of folds, False or None", check)
    return np.unique(np.linspace(0, count - 1, min(int(check), count)).astype(int))


def _pieces(objective: Objective, folds: Folds, method: str, loss: Loss) -> list[np.ndarray]:
    """Folds that are in memory at a time, after declaring what is held for all of them."""
    hold_folds(objective, asked_of(folds, loss == "joint"), method)
    return pieces_of(objective, len(folds), method)


def _chunk_size(objective: Objective, chunk: int | None, n_folds: int, place: Parallel) -> int:
    if chunk is None:
        return chunk_size(objective, n_folds, place.n if isinstance(place, Workers) else 1)
    if not is_count(chunk):
        raise refusal("chunk", "an integer of at least 1", chunk)
    return int(min(chunk, n_folds))


def _budget(
    method: str, max_gradients: int | None, max_seconds: float | None, started: float
) -> dict[str, float]:
    """The total number of gradients, and the time at which to stop."""
    for name, value in (("max_gradients", max_gradients), ("max_seconds", max_seconds)):
        if value is None:
            continue
        if method not in ("auto", "exact"):
            raise ValueError(f"{name} is for method='auto' or 'exact', got method='{method}'")
        require(is_number(value) and value > 0, name, "a positive number or None", value)
    return {
        "most_rows": np.inf if max_gradients is None else max_gradients,
        "deadline": np.inf if max_seconds is None else started + max_seconds,
    }
