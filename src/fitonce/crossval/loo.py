"""Leave-one-out for every observed point at once.

One sweep of D tangents gives l_t = -log p(x_t | x_-t; theta1) and its slope s_t for all t. The gradient
of the objective without x_t, at theta1, is g - s_t (g is the gradient left by the fit), so that

    theta_t = theta1 - H^-1 (g - s_t)        the one-step parameters without x_t
    l_t + s_t' (theta_t - theta1)            its held-out loss there, to first order

The second-order terms are curvatures along the move m = theta_t - theta1: of l_t, and of how H changes.
A log density curves by about (s_t' m)^2, and an average point by at most D / n times m' H m, the squared
move in standard errors. The error is taken as 2 ((s_t' m)^2 + m' H m D / n); the factor was calibrated
against exact refits, and `python -m reproduce loo` shows how well it does. The formula cannot detect a
non-quadratic objective, so the most influential points (all, where they are few) are checked by
gradients as any fold is. Points with a bad verdict, or where the quadratic approximation fails, are
refitted exactly, as `reloo` does for PSIS-LOO.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fitonce.core.arguments import require, require_flag, require_number
from fitonce.core.memory import limits_memory
from fitonce.core.progress import stage
from fitonce.core.progress_lines import told_as
from fitonce.core.status import Outcome, Rung, Status
from fitonce.core.stopwatch import Stopwatch
from fitonce.crossval.assemble import assemble
from fitonce.crossval.batches import Batches, chunk_size
from fitonce.crossval.dependence import read_clusters
from fitonce.crossval.evidence import Evidence, distrust, fold_steps, gather_evidence
from fitonce.crossval.fold_states import FoldParameters, lengths, settle
from fitonce.crossval.from_zero import leave_zero, points_that_rise
from fitonce.crossval.leaving import leave_boundary
from fitonce.crossval.loo_optima import could_move
from fitonce.crossval.losses import Scoring
from fitonce.crossval.methods import exact
from fitonce.crossval.mirrors import mirrors_of
from fitonce.crossval.optima import is_searched, search
from fitonce.crossval.pieces import pieces_of
from fitonce.crossval.repeats import Found
from fitonce.crossval.search_record import Search
from fitonce.crossval.stepped import KEPT_BYTES, SteppedThetas, one_step
from fitonce.data.sequences import Collection
from fitonce.fitting.curvature import Curvature, curvature
from fitonce.fitting.fit import Fit
from fitonce.fitting.footprint import hold_point, hold_sweep
from fitonce.fitting.optima import DEFAULT_OPTIMA, check_optima
from fitonce.folds import Folds, points, sites
from fitonce.results.result import CVResult
from fitonce.results.verdicts import Verdict, sound, verdicts

_FEW, _FEW_BYTES = 1000, 2**30  # points that are all checked, if together they need no more memory
_FEW_POINTS = 2000  # of which each is asked whether it would leave zeros of the fit
_SAMPLE = 32  # points that are checked where there are more
_TOLERANCE = 0.05  # nats: an error of a twentieth in the predictive density of one point


@limits_memory
@told_as("leaving out each point")
def loo(
    fit: Fit,
    *,
    tolerance: float = _TOLERANCE,
    refine: bool | int = True,
    clusters: Any = None,
    optima: int = DEFAULT_OPTIMA,
    progress: bool | None = None,
    damping: float = 0.0,
    memory_limit: float | str | None = None,
) -> CVResult:
    """Leave each observed point out, all of them from one sweep.

    The result is that of `cross_validate` with one fold per observed point, in order.

    Args:
        fit: of a chain or a field.
        tolerance: the error of a point's loss, in nats, up to which it is not refitted.
        refine: refit exactly the points with a bad verdict, or where the quadratic approximation fails;
            a number: at most so many, the worst first, besides those that leave a variance of zero.
        clusters: what is independent, for the standard error, see `cross_validate`.
        optima: with how many other optima of the fit every point is compared, and how hard those that
            could be in one of them look for the best; 0: not at all.
        progress: a progress bar; None: on a terminal and in notebooks.
        damping: added to the diagonal of H, for a fit at which it is not positive definite.
        memory_limit: what the call may add to the memory of this process, in bytes or as text such as
            "2GB"; None: half of this machine's memory. Parameters of all points are part of the result,
            so that less than these take is refused. See `fo.plan`.
    """
    watch = Stopwatch()
    check_optima(optima)
    require_flag("progress", progress, optional=True)
    require_number("tolerance", tolerance, above=0)
    require(
        not (not isinstance(refine, (bool, int, np.integer)) or refine < 0),
        "refine",
        "True, False or a number of points",
        refine,
    )
    with stage("the sweep of all points", progress):
        curve = curvature(fit, damping=damping)
        folds = _points_of(fit)
        parts = read_clusters(clusters, fit, folds, False)
        parameters, evidence = _first_order(fit, curve, folds)
    work = np.zeros((2, len(folds)), int)
    swept = _Points(fit, curve, folds, parameters, evidence, work, progress, parts)
    scoring = swept.scoring(folds)
    if curve.damping:  # steps by a damped H are too short to judge by
        evidence.checked[:] = False
    else:
        swept.check()
        distrust(scoring, parameters.status, evidence, np.arange(len(folds)))
    judged = verdicts(evidence.errors, evidence.distances, evidence.rates, evidence.checked, tolerance)
    bad = np.array([verdict is Verdict.BAD for verdict in judged])
    bad |= evidence.checked & ~sound(evidence.distances, evidence.rates)
    urgency = np.where(bad, np.nan_to_num(evidence.errors, nan=np.inf), -np.inf)
    worst = np.argsort(-urgency, kind="stable")[: bad.sum()]
    if refine is not True:
        worst = worst[: int(refine)]
    if worst.size:
        swept.refit(worst)
    remarks = swept.leave_zero(scoring, bool(refine))
    found = None
    wanted = optima and refine is not False and fit.optima.starts > 1
    if wanted and is_searched(fit, curve, scoring.batches):
        with stage("other optima", progress):
            found = swept.search(int(optima), len(folds) if refine is True else int(refine))
    left = {}
    if refine is not False and len(folds) <= _FEW_POINTS:
        left = leave_boundary(fit, scoring, parameters, evidence, found)
    each = Found(parameters, evidence, work + scoring.batches.work, found, left, remarks)
    return assemble(fit, scoring, "loo", each, tolerance, watch.read())


def sweep(fit: Fit) -> tuple[Folds, np.ndarray, np.ndarray]:
    """One fold per observed point (n of them), losses l_t (n,), and pulls (n, D); see `_swept`."""
    folds = _points_of(fit)
    hold_point(fit.objective)
    hold_sweep(fit.objective, len(folds))
    densities, slopes = fit.objective.leave_one_out(fit.theta)
    observed = np.concatenate(folds.dropped)
    chosen = slopes if len(observed) == slopes.shape[1] else slopes[:, observed]
    chosen = np.require(chosen, requirements="W")  # copied where it belongs to JAX
    losses = -densities[observed]
    _, pulls = fit.objective.gains_without(fit.theta, observed, -losses, chosen.T)
    return folds, losses, np.negative(pulls, out=pulls)


def _points_of(fit: Fit) -> Folds:
    """One fold for each; data of one's own are read as the fit read them."""
    own = not isinstance(fit.data, Collection)
    return points(fit.objective.collection if own else fit.data)


def _first_order(fit: Fit, curve: Curvature, folds: Folds) -> tuple[FoldParameters, Evidence]:
    """One step for every point, in pieces: the slopes of all need not fit in memory."""
    observed = np.concatenate(folds.dropped)
    count, size = len(observed), len(curve.theta)
    hold_point(fit.objective)
    hold_sweep(fit.objective, count)
    swept = partial(_swept, fit)
    values, first, squared = np.empty((3, count))
    kept = 8 * count * size <= KEPT_BYTES
    thetas: Any = np.empty((count, size)) if kept else SteppedThetas(curve, observed, swept)
    start = 0
    for losses, slopes, pulls in swept(observed):
        some, start = slice(start, start + len(losses)), start + len(losses)
        moves = one_step(curve, pulls, many=count > size)
        values[some], first[some] = losses, np.einsum("td,td->t", slopes, moves)
        if curve.damping:
            squared[some] = curve.distances_to(curve.theta + moves) ** 2
        else:  # H m = s - g
            along = first[some] if pulls is slopes else np.einsum("td,td->t", pulls, moves)
            squared[some] = np.maximum(along - moves @ curve.gradient, 0.0)
        if kept:
            thetas[some] = curve.theta + moves
    fine = Status(Outcome.APPROXIMATE, "")
    bad = Status(Outcome.NOT_FINITE, "the point's density given the others, or its slope, is not finite")
    status = [fine if finite else bad for finite in np.isfinite(first) & np.isfinite(squared)]
    evidence = Evidence(
        losses=(values + first)[:, None],
        control=values[:, None].copy(),
        errors=2.0 * (first**2 + squared * size / count),
        # After one step the remaining distance is of second order, like the error of the loss.
        distances=np.sqrt(squared) * (squared + size / count),
        rates=np.full(count, np.nan),
        checked=np.ones(count, bool),
    )
    rungs = np.full(count, Rung.ONESTEP, object)
    return FoldParameters(thetas, status, rungs, moves=np.sqrt(squared)), evidence


def _swept(fit: Fit, observed: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Losses l_t (n,) of points, their slopes (n, D), and their pulls on the fit s_t (n, D), in pieces:
    F loses a term with the slope s_t when the point is left out, which is that of the loss for points
    that likelihoods have terms of."""
    objective, start = fit.objective, 0
    for _, densities, slopes in objective.leave_one_out_in_pieces(fit.theta, observed):
        some = slice(start, start + len(densities))
        start = some.stop
        _, pulls = objective.gains_without(fit.theta, observed[some], densities, slopes)
        steep = -slopes
        yield -densities, steep, steep if pulls is slopes else -pulls


@dataclass(frozen=True, eq=False)
class _Points:
    """One fold per point, and its parameters, evidence and work (2, n), which are updated in place."""

    fit: Fit
    curve: Curvature
    folds: Folds
    parameters: FoldParameters
    evidence: Evidence
    work: np.ndarray
    progress: bool | None
    clusters: np.ndarray | None

    @property
    def _moves(self) -> np.ndarray:
        """(n,) distances from the full fit, which are updated in place."""
        found = self.parameters.moves
        return self.curve.distances_to(self.parameters.thetas) if found is None else found

    def scoring(self, folds: Folds) -> Scoring:
        size = chunk_size(self.fit.objective, len(folds))
        batches = Batches.of_folds(self.curve.objective, folds, size, progress=self.progress)
        return Scoring(self.curve, folds, batches, "pointwise", clusters=self.clusters)

    def check(self) -> None:
        """Check the error formula against gradients of the folds' objectives.

        Few points are all checked; of many, the most influential. If the quadratic approximation fails
        at one of these, up to `_FEW` points are checked, and the others count as unchecked.
        """
        order = np.argsort(-self._moves, kind="stable")
        needed = len(order) * self.fit.objective.bytes_per_fold
        few = len(order) <= _FEW and needed <= _FEW_BYTES
        count = len(order) if few else min(_SAMPLE, len(order))
        for start, stop in ((0, count), (count, min(_FEW, len(order)))):
            which = order[start:stop]
            if which.size == 0:
                return
            thetas, status, rungs, *_ = self.parameters
            chosen = FoldParameters(thetas[which], [status[k] for k in which], rungs[which])
            self._gather(self._scoring_of(which), chosen, which)
            if sound(self.evidence.distances[which], self.evidence.rates[which]).all():
                return
        self.evidence.checked[order[stop:]] = False

    def refit(self, which: np.ndarray) -> None:
        """Replace the points `which` by exact refits, as many at a time as memory allows."""
        if which.size == 0:
            return
        for some in pieces_of(self.curve.objective, len(which), "exact"):
            self._refit(which[some])

    def leave_zero(self, scoring: Scoring, refit: bool) -> dict[int, str]:
        """Refit points that would leave a variance of zero or a unit root, see `from_zero`; remarks by
        point. The most influential are asked by gradients, the others by one sweep first. Where `refit`
        is false they are only told what they miss, which is as much work."""
        curve = self.curve
        if not mirrors_of(curve).names:
            return {}
        order = np.argsort(-self._moves, kind="stable")
        asked, others = order[:_FEW], np.sort(order[_FEW:])
        if others.size:
            observed, thetas = np.concatenate(self.folds.dropped), self.parameters.thetas
            rising = points_that_rise(curve, observed[others], thetas[others])
            asked = np.append(asked, others[rising])
        return leave_zero(scoring, self.parameters, self.evidence, refit, np.sort(asked))

    def search(self, most: int, most_points: int) -> Search:
        """Look for better optima of the points that could be in another one of the fit's."""
        others, found = self.fit.optima.thetas[1 : 1 + most], Search.of(len(self.folds))
        if len(others) == 0:
            return found  # all starts of the fit ended in one optimum
        which = could_move(self.curve, np.concatenate(self.folds.dropped), others)[:most_points]
        if which.size == 0:
            return found
        stationary = [self.parameters.status[k].outcome is Outcome.STATIONARY for k in which]
        self.refit(which[~np.array(stationary)])
        scoring, thetas = self._scoring_of(which), self.parameters.thetas
        status, rungs = [self.parameters.status[k] for k in which], self.parameters.rungs[which]
        chosen = FoldParameters(np.array(thetas[which]), status, rungs)
        evidence = Evidence(*(np.array(column[which]) for column in self.evidence))
        part = search(scoring, chosen, evidence, others, most)
        for column, new in zip(self.evidence, evidence, strict=True):
            column[which] = new
        for name in ("optimum", "gain", "shift", "ways", "searched", "unseen"):
            getattr(found, name)[which] = getattr(part, name)
        thetas[which], self.parameters.rungs[which] = chosen.thetas, chosen.rungs
        self._moves[which] = self.curve.distances_to(chosen.thetas)
        for point, ended in zip(which, chosen.status, strict=True):
            self.parameters.status[point] = ended
        self.work[:, which] += scoring.batches.work
        return replace(found, better=part.better, better_by=part.better_by, starts=part.starts)

    def _refit(self, which: np.ndarray) -> None:
        scoring = self._scoring_of(which)
        refitted = exact(self.curve, scoring.batches)
        if refitted.gradients is not None:
            steps = fold_steps(scoring, refitted, refitted.gradients, scoring.batches.every_fold)
            settle(refitted.status, lengths(refitted.gradients, steps))
        self._gather(scoring, refitted, which)
        self.parameters.thetas[which], self.parameters.rungs[which] = refitted.thetas, refitted.rungs
        self._moves[which] = self.curve.distances_to(refitted.thetas)
        for point, status in zip(which, refitted.status, strict=True):
            self.parameters.status[point] = status

    def _scoring_of(self, which: np.ndarray) -> Scoring:
        return self.scoring(sites([self.folds.dropped[point] for point in which], self.fit.data))

    def _gather(self, scoring: Scoring, parameters: FoldParameters, which: np.ndarray) -> None:
        """Evidence and work for the points `which` at these parameters."""
        batches = scoring.batches
        gathered = gather_evidence(scoring, parameters, batches.every_fold)
        for column, new in zip(self.evidence, gathered, strict=True):
            column[which] = new
        self.work[:, which] += batches.work
