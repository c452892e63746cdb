"""Leave-one-out for every observed point at once.

One sweep of D tangents gives l_t = -log p(x_t | x_-t; theta1) and its slope s_t for all t. The gradient
of the objective without x_t, at theta1, is g - s_t (g is what the fit left), so that

    theta_t = theta1 - H^-1 (g - s_t)        the one-step parameters without x_t
    l_t + s_t' (theta_t - theta1)            its held-out loss there, to first order

What second order adds is a curvature along the move m = theta_t - theta1: of l_t, and of how H changes.
A log density curves by about (s_t' m)^2, and an average point by at most D / n times m' H m, the squared
move in standard errors. The error is taken as 2 ((s_t' m)^2 + m' H m D / n); the factor was found
against exact refits, and `python -m reproduce loo` shows how it does. Points for which it is large are
refitted exactly, as `reloo` does for PSIS-LOO.
"""

from __future__ import annotations

import time

import numpy as np

from fitonce.batches import Batches, chunk_size
from fitonce.checking import Evidence
from fitonce.curvature import Curvature, curvature
from fitonce.diagnostics import Verdict, verdicts
from fitonce.fit import Fit
from fitonce.folds import Folds, points, sites
from fitonce.methods import FoldParameters, exact
from fitonce.objective import leave_one_out_densities
from fitonce.refine import Rung
from fitonce.result import CVResult, assemble
from fitonce.scoring import Scoring
from fitonce.status import Outcome, Status

_TOLERANCE = 0.05  # nats: an error of a twentieth in the predictive density of one point


def loo(
    fit: Fit,
    *,
    tolerance: float = _TOLERANCE,
    refine: bool | int = True,
    progress: bool | None = None,
    damping: float = 0.0,
) -> CVResult:
    """Leave each observed point out, all of them from one sweep.

    The result is that of `cross_validate` with one fold per observed point, in order.

    Args:
        fit: of a chain model.
        tolerance: the error of a point's loss, in nats, up to which it is not refitted.
        refine: refit the points with a bad verdict exactly; a number: at most so many, the worst first.
        progress: a progress bar; None: only on a terminal.
        damping: added to the diagonal of H, for a fit at which it is not positive definite.
    """
    started = time.perf_counter()
    if not (isinstance(tolerance, (int, float)) and 0 < tolerance < np.inf):
        raise ValueError(f"tolerance must be a positive number, got {tolerance!r}")
    if not isinstance(refine, (bool, int, np.integer)) or refine < 0:
        raise ValueError(f"refine must be True, False or a number of points, got {refine!r}")
    curve = curvature(fit, damping=damping)
    folds, values, slopes = sweep(fit)
    found, evidence = _first_order(curve, values, slopes)
    work = np.zeros((2, len(folds)), int)
    judged = verdicts(evidence.errors, evidence.distances, evidence.rates, evidence.checked, tolerance)
    bad = np.array([verdict is Verdict.BAD for verdict in judged])
    urgency = np.where(bad, np.nan_to_num(evidence.errors, nan=np.inf), -np.inf)
    worst = np.argsort(-urgency, kind="stable")[: bad.sum()]
    if refine is not True:
        worst = worst[: int(refine)]
    if worst.size:
        work[:, worst] = _refit(fit, curve, folds, worst, found, evidence, progress)
    batches = Batches.of_folds(curve.objective, folds, 1)
    scoring = Scoring(folds, batches, "pointwise", fit.data)
    seconds = time.perf_counter() - started
    return assemble(fit, scoring, "loo", curve, found, evidence, tolerance, work, seconds)


def sweep(fit: Fit) -> tuple[Folds, np.ndarray, np.ndarray]:
    """One fold per observed point (n of them), losses l_t (n,) and their slopes (n, D)."""
    densities, slopes = leave_one_out_densities(fit.problem, fit.theta)
    folds = points(fit.data)
    observed = np.concatenate(folds.dropped)
    return folds, -densities[observed], -slopes[:, observed].T


def _first_order(
    curve: Curvature, values: np.ndarray, slopes: np.ndarray
) -> tuple[FoldParameters, Evidence]:
    count, size = slopes.shape
    moves = -curve.solve((curve.gradient - slopes).T).T
    first = np.einsum("td,td->t", slopes, moves)
    squared = curve.way_to(curve.theta + moves) ** 2
    errors = 2.0 * (first**2 + squared * size / count)
    fine, off = (
        Status(Outcome.APPROXIMATE, ""),
        Status(Outcome.NOT_FINITE, "the density of this point given the others, or its slope, is not"),
    )
    finite = np.isfinite(moves).all(1)
    found = FoldParameters(
        curve.theta + moves,
        [fine if good else off for good in finite],
        None,
        None,
        np.full(count, Rung.ONESTEP, object),
    )
    # What is left of the way after one step is of second order, like the error of the loss.
    left = np.sqrt(squared) * (squared + size / count)
    evidence = Evidence(
        (values + first)[:, None],
        values[:, None].copy(),
        errors,
        left,
        np.full(count, np.nan),
        np.ones(count, bool),
    )
    return found, evidence


def _refit(
    fit: Fit,
    curve: Curvature,
    folds: Folds,
    which: np.ndarray,
    found: FoldParameters,
    evidence: Evidence,
    progress: bool | None,
) -> np.ndarray:
    """Put exact refits of the points `which` in place. Returns their gradients and Hessians (2, n)."""
    chosen = sites([folds.dropped[point] for point in which], fit.data)
    size = chunk_size(fit.model.bytes_per_fold(fit.problem.prepared), len(which))
    batches = Batches.of_folds(curve.objective, chosen, size, progress)
    refitted = exact(curve, batches)
    losses = Scoring(chosen, batches, "pointwise", fit.data).losses(
        refitted.thetas, np.arange(len(which))
    )
    way = curve.way_to(found.thetas[which])  # the slope of the loss along it, in standard errors
    found.thetas[which], found.rungs[which] = refitted.thetas, refitted.rungs
    for point, status in zip(which, refitted.status, strict=True):
        found.status[point] = status
    evidence.losses[which], evidence.distances[which] = losses, refitted.distances
    evidence.errors[which] = way * refitted.distances
    return np.stack([batches.gradients_used, batches.hessians_used])
