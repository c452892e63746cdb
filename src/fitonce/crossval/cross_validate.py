"""cross_validate: every fold from one fit."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fitonce.core.numerics import is_number
from fitonce.core.parallel import resolve_parallel
from fitonce.core.stopwatch import Stopwatch
from fitonce.crossval.assemble import assemble
from fitonce.crossval.auto import climb
from fitonce.crossval.batches import Batches, chunk_size
from fitonce.crossval.evidence import Evidence, gather_evidence
from fitonce.crossval.fold_states import FoldParameters
from fitonce.crossval.journal import Journal
from fitonce.crossval.losses import Loss, Scoring, resolve_loss
from fitonce.crossval.methods import METHODS
from fitonce.fitting.curvature import Curvature, curvature_of
from fitonce.fitting.fit import Fit
from fitonce.folds import Folds
from fitonce.objectives import schemes
from fitonce.objectives.schemes import Scheme
from fitonce.results.result import CVResult

_SAMPLE = 20  # folds of "ij" that are checked unless asked otherwise


def cross_validate(
    fit: Fit,
    folds: Folds,
    *,
    method: str = "auto",
    scheme: str | Scheme | None = None,
    loss: Loss = "pointwise",
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
        loss: "pointwise", "joint", or a function `loss(params, data, weights)` that returns one loss per
            droppable thing, of which the left-out ones are read.
        tolerance: an error of a fold's loss that does no harm, in units of the loss: what a verdict of
            "good" promises, and what "auto" climbs for. None: a tenth of the standard error of the
            estimate ("auto" then climbs for a hundredth of it).
        check: how many folds to check by a gradient at what the method returned: "all", a number
            (spread evenly), or False for none. None: all, except 20 of "ij", which needs no gradients
            otherwise.
        max_gradients, max_seconds: a budget for "auto" and "exact", for all folds together and with D
            gradients to a Hessian and two to a product with one, asked between rounds; folds that it
            leaves unfinished keep what they have, with its error, and say so.
        chunk: how many folds run through the compiled program together; None: by memory.
        progress: a progress bar; None: only on a terminal.
        damping: added to the diagonal of H, for a fit at which it is not positive definite.
        residual: whether "ij" and "onestep" also correct for the gradient that a fit left which stopped
            early. The paper does not (False); it makes no difference at a stationary fit.
        parallel: where folds are evaluated: None (threads of this process), "devices" (all of JAX's), a
            number of worker processes, or `fo.Workers`, which may be a Dask cluster.
        journal: a folder in which results are kept as they come: the same call after an interruption
            goes on from there.
        stop: a function that "auto" and "exact" ask between rounds; once it says true, it is as if the
            budget had ended.
    """
    watch = Stopwatch()
    if not isinstance(method, str) or method not in ("auto", *METHODS):
        raise ValueError(f"method must be 'auto' or one of {list(METHODS)}, got {method!r}")
    loss = resolve_loss(loss)
    folds = _matched(fit, folds)
    if tolerance is not None and not (is_number(tolerance) and tolerance > 0):
        raise ValueError(f"tolerance must be a positive number or None, got {tolerance!r}")
    along, place = (
        schemes.resolve_scheme(scheme, folds.kind, fit.objective.scheme),
        resolve_parallel(parallel),
    )
    objective = fit.objective.with_scheme(along).run_on(place)
    curve = curvature_of(fit, objective, damping, residual)
    which = _checked(check, method, len(folds))
    budget = _budget(method, max_gradients, max_seconds, watch.started)
    batches = _batches(fit, folds, curve, chunk, progress, budget)
    kept = None if journal is None else Journal.of(journal, curve.objective)
    batches = replace(batches, parallel=place, journal=kept, stop=stop)
    scoring = Scoring(folds, batches, loss)
    found, evidence = _solve(curve, scoring, method, tolerance, which)
    work = np.stack([batches.gradients_used + 2 * batches.products_used, batches.hessians_used])
    return assemble(fit, scoring, method, curve, found, evidence, tolerance, work, watch.read())


def _solve(
    curve: Curvature,
    scoring: Scoring,
    method: str,
    tolerance: float | None,
    which: np.ndarray,
) -> tuple[FoldParameters, Evidence]:
    if method == "auto":
        return climb(curve, scoring, tolerance)
    found = METHODS[method](curve, scoring.batches)
    return found, gather_evidence(curve, scoring, found, which)


def _matched(fit: Fit, folds: Folds) -> Folds:
    """The folds with the data's own missing observations, after checking that they belong to it."""
    if not isinstance(fit, Fit):
        raise ValueError(f"fit must be a Fit from fo.fit, got {type(fit).__name__}")
    if not isinstance(folds, Folds):
        hint = (
            "; wrap a scikit-learn splitter in fo.folds.from_splitter" if hasattr(folds, "split") else ""
        )
        raise ValueError(f"folds must come from fo.folds, got {type(folds).__name__}{hint}")
    sites = fit.objective.collection
    if folds.lengths is not None:
        sites.require_lengths(folds.lengths)
    matched = folds.rebased(sites.weights if folds.kind == "sites" else sites.sequence_weights)
    fit.objective.check_weights(fit.theta, matched.weights_of([0])[0])
    return matched


def _checked(check: Any, method: str, count: int) -> np.ndarray:
    """The numbers of the folds to check."""
    if check is not None and method == "auto":
        raise ValueError(f"method='auto' checks every fold, so check must be None, got {check!r}")
    if check is None:
        check = min(_SAMPLE, count) if method == "ij" else "all"
    if check is False:
        return np.zeros(0, int)
    if check is True or (isinstance(check, str) and check == "all"):
        return np.arange(count)
    if not isinstance(check, (int, np.integer)) or not check >= 1:
        raise ValueError(f"check must be 'all', a number of folds, False or None, got {check!r}")
    return np.unique(np.linspace(0, count - 1, min(int(check), count)).astype(int))


def _batches(
    fit: Fit,
    folds: Folds,
    curve: Curvature,
    chunk: int | None,
    progress: bool | None,
    budget: tuple[float, float],
) -> Batches:
    if chunk is not None and (not isinstance(chunk, (int, np.integer)) or chunk < 1):
        raise ValueError(f"chunk must be an integer of at least 1, got {chunk}")
    need = fit.objective.bytes_per_fold
    size = min(chunk, len(folds)) if chunk is not None else chunk_size(need, len(folds))
    batches = Batches.of_folds(curve.objective, folds, int(size), progress, budget)
    return replace(batches, given=chunk is not None)


def _budget(
    method: str, max_gradients: int | None, max_seconds: float | None, started: float
) -> tuple[float, float]:
    """Gradients in all, and the time at which to stop."""
    for name, value in (("max_gradients", max_gradients), ("max_seconds", max_seconds)):
        if value is None:
            continue
        if method not in ("auto", "exact"):
            raise ValueError(f"{name} is for method='auto' or 'exact', got method='{method}'")
        if not (is_number(value) and value > 0):
            raise ValueError(f"{name} must be a positive number or None, got {value!r}")
    gradients = np.inf if max_gradients is None else max_gradients
    return gradients, np.inf if max_seconds is None else started + max_seconds
