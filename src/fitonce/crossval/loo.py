"""Leave-one-out for every observed point at once.

One sweep of D tangents gives l_t = -log p(x_t | x_-t; theta1) and its slope s_t for all t. The gradient
of the objective without x_t, at theta1, is g - s_t (g is what the fit left), so that

    theta_t = theta1 - H^-1 (g - s_t)        the one-step parameters without x_t
    l_t + s_t' (theta_t - theta1)            its held-out loss there, to first order

What second order adds is a curvature along the move m = theta_t - theta1: of l_t, and of how H changes.
A log density curves by about (s_t' m)^2, and an average point by at most D / n times m' H m, the squared
move in standard errors. The error is taken as 2 ((s_t' m)^2 + m' H m D / n); the factor was found
against exact refits, and `python -m reproduce loo` shows how it does. It cannot see a bend of the
objective, so the most influential points (all, where they are few) are checked by gradients as any fold
is. Points with a bad verdict, or where the objective is not as H says, are refitted exactly, as `reloo`
does for PSIS-LOO.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.numerics import is_number
from fitonce.core.status import Outcome, Rung, Status
from fitonce.core.stopwatch import Stopwatch
from fitonce.crossval.assemble import assemble
from fitonce.crossval.batches import Batches, chunk_size
from fitonce.crossval.evidence import Evidence, distrust, fold_steps, gather_evidence
from fitonce.crossval.fold_states import FoldParameters, lengths, settle
from fitonce.crossval.losses import Scoring
from fitonce.crossval.methods import exact
from fitonce.fitting.curvature import Curvature, curvature
from fitonce.fitting.fit import Fit
from fitonce.folds import Folds, points, sites
from fitonce.results.result import CVResult
from fitonce.results.verdicts import Verdict, sound, verdicts

_FEW, _FEW_BYTES = 1000, 2**30  # points that are all checked, if together they are no larger
_SAMPLE = 32  # of more points, those that are
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
        fit: of a chain or a field.
        tolerance: the error of a point's loss, in nats, up to which it is not refitted.
        refine: refit exactly the points with a bad verdict, or where the objective is not as H says; a
            number: at most so many, the worst first.
        progress: a progress bar; None: only on a terminal.
        damping: added to the diagonal of H, for a fit at which it is not positive definite.
    """
    watch = Stopwatch()
    if not (is_number(tolerance) and tolerance > 0):
        raise ValueError(f"tolerance must be a positive number, got {tolerance!r}")
    if not isinstance(refine, (bool, int, np.integer)) or refine < 0:
        raise ValueError(f"refine must be True, False or a number of points, got {refine!r}")
    curve = curvature(fit, damping=damping)
    folds, values, slopes = sweep(fit)
    found, evidence = _first_order(curve, values, slopes)
    work = np.zeros((2, len(folds)), int)
    scoring = _scoring(fit, curve, folds, progress)
    if curve.damping:  # steps by a damped H are too short to tell anything
        evidence.checked[:] = False
    else:
        _check(fit, curve, folds, found, evidence, work, progress)
        distrust(curve, scoring, found.status, evidence, np.arange(len(folds)))
    judged = verdicts(evidence.errors, evidence.distances, evidence.rates, evidence.checked, tolerance)
    bad = np.array([verdict is Verdict.BAD for verdict in judged])
    bad |= evidence.checked & ~sound(evidence.distances, evidence.rates)
    urgency = np.where(bad, np.nan_to_num(evidence.errors, nan=np.inf), -np.inf)
    worst = np.argsort(-urgency, kind="stable")[: bad.sum()]
    if refine is not True:
        worst = worst[: int(refine)]
    if worst.size:
        _refit(fit, curve, folds, worst, found, evidence, work, progress)
    return assemble(fit, scoring, "loo", curve, found, evidence, tolerance, work, watch.read())


def sweep(fit: Fit) -> tuple[Folds, np.ndarray, np.ndarray]:
    """One fold per observed point (n of them), losses l_t (n,) and their slopes (n, D)."""
    densities, slopes = fit.objective.leave_one_out(fit.theta)
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


def _check(
    fit: Fit,
    curve: Curvature,
    folds: Folds,
    found: FoldParameters,
    evidence: Evidence,
    work: np.ndarray,
    progress: bool | None,
) -> None:
    """Hold the formula of the error against gradients of the folds' objectives, in place.

    Few points are all checked; of many, the most influential. If one of these is not as H says, the
    formula is not trusted: as many as are still few are checked, and the rest is called unchecked.
    """
    order = np.argsort(-curve.way_to(found.thetas), kind="stable")
    few = len(order) <= _FEW and len(order) * fit.objective.bytes_per_fold <= _FEW_BYTES
    count = len(order) if few else min(_SAMPLE, len(order))
    for start, stop in ((0, count), (count, min(_FEW, len(order)))):
        which = order[start:stop]
        if which.size == 0:
            return
        scoring = _scoring(fit, curve, _some(fit, folds, which), progress)
        chosen = FoldParameters(
            found.thetas[which], [found.status[k] for k in which], None, None, found.rungs[which]
        )
        told = gather_evidence(curve, scoring, chosen, np.arange(len(which)))
        for mine, theirs in zip(evidence, told, strict=True):
            mine[which] = theirs
        work[0, which] += scoring.batches.gradients_used
        if sound(told.distances, told.rates).all():
            return
    evidence.checked[order[stop:]] = False


def _some(fit: Fit, folds: Folds, which: np.ndarray) -> Folds:
    return sites([folds.dropped[point] for point in which], fit.data)


def _scoring(fit: Fit, curve: Curvature, folds: Folds, progress: bool | None) -> Scoring:
    size = chunk_size(fit.objective.bytes_per_fold, len(folds))
    batches = Batches.of_folds(curve.objective, folds, size, progress)
    return Scoring(folds, batches, "pointwise")


def _refit(
    fit: Fit,
    curve: Curvature,
    folds: Folds,
    which: np.ndarray,
    found: FoldParameters,
    evidence: Evidence,
    work: np.ndarray,
    progress: bool | None,
) -> None:
    """Put exact refits of the points `which` in place."""
    scoring = _scoring(fit, curve, _some(fit, folds, which), progress)
    refitted = exact(curve, scoring.batches)
    if refitted.gradients is not None:
        steps = fold_steps(curve, scoring, refitted, refitted.gradients, np.arange(len(which)))
        settle(refitted.status, lengths(refitted.gradients, steps))
    told = gather_evidence(curve, scoring, refitted, np.arange(len(which)))
    for mine, theirs in zip(evidence, told, strict=True):
        mine[which] = theirs
    found.thetas[which], found.rungs[which] = refitted.thetas, refitted.rungs
    for point, status in zip(which, refitted.status, strict=True):
        found.status[point] = status
    work[:, which] += np.stack([scoring.batches.gradients_used, scoring.batches.hessians_used])
