"""Refinement: from the full fit to each fold's own optimum, with the one factor of H.

    theta <- theta - B grad F(theta, w_o),     B = H^-1 times (total weight / weight kept) at first

batched over folds. Each accepted step updates the fold's B by its secant (BFGS). A step must lower
the fold's objective, or its gradient where values differ by rounding only; otherwise it is shortened.
Where a fold is near its optimum, or converges slowly, B becomes the inverse of the fold's own Hessian:
near the optimum, so that convergence is quadratic and the end is certified as a minimum; otherwise, to
speed it up. A fold that still does not converge is refitted by damped Newton steps from the full fit.
Folds that are done leave the batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fitonce.core.parallel import cores
from fitonce.core.status import Rung, Status
from fitonce.core.threads import blas_threads_for
from fitonce.crossval.batches import Batches
from fitonce.crossval.fold_states import Descent, lengths, out_of_budget, usual_move
from fitonce.crossval.refine_products import refine_by_products
from fitonce.fitting.certificate import judged, lowest_scaled, refusal
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.newton import Minima, minimise, off_saddle
from fitonce.fitting.newton_cg import FLOOR
from fitonce.results.verdicts import SLOW

TOLERANCE = 1e-8  # standard errors: a fold this close to stationary is done
_NEAR = 0.05  # standard errors: closer than this, the fold's own Hessian pays
_SAME = 1e-13  # relative: values that differ by less are equal up to rounding in sums over the data
_CLEAR = 1e-3  # eigenvalue of the unit-diagonal Hessian that gradient differences resolve from 0
_MOST_HESSIANS = 3
_MOST_ROUNDS = 40
_SHORTEN = 0.25
_LONG = 3.0  # a step this many times the usual one waits for the fold's own Hessian


def advance(batches: Batches, state: Descent, which: np.ndarray) -> np.ndarray:
    """One step of the folds `which`, in place. Returns (n,) which of them were moved.

    A fold whose step is much longer than leaving out its data explains is not moved before it has its
    own Hessian: a long step by a wrong one may lead to another optimum, such as one with states swapped.
    """
    usual = usual_move(batches.turnover[which], state.thetas.shape[1])
    far = ~state.own[which] & (state.distances[which] > _LONG * usual)
    taken = np.zeros(len(which), bool)
    taken[~far] = _step(batches, state, which[~far])
    state.rates[which[far]] = np.inf
    return taken


def _step(batches: Batches, state: Descent, which: np.ndarray) -> np.ndarray:
    if which.size == 0:
        return np.zeros(0, bool)
    moves = state.shares[which, None] * state.steps[which]
    trial = state.thetas[which] + moves
    values, gradients = batches.values_and_gradients(trial, which)
    before = lengths(state.gradients[which], -state.steps[which])
    onward = state.moves(which, gradients)
    after = lengths(gradients, onward)
    with np.errstate(invalid="ignore"):  # an infinite value compares false, and the step is not taken
        rise = values - state.values[which]
        same = _SAME * np.abs(state.values[which])
        lower = rise < -same
        level = (np.abs(rise) <= same) & (after < before)
    taken = np.isfinite(gradients).all(1) & (lower | level)
    moved = which[taken]
    if state.inverses is not None:
        changes = gradients[taken] - state.gradients[moved]
        state.inverses[moved] = _secant(state.inverses[moved], moves[taken], changes)
    state.thetas[moved], state.values[moved] = trial[taken], values[taken]
    state.gradients[moved], state.rates[moved] = gradients[taken], after[taken] / before[taken]
    state.changed(moved, onward[taken])
    state.shares[moved] = np.minimum(1.0, state.shares[moved] / _SHORTEN)
    state.shares[which[~taken]] *= _SHORTEN
    state.rates[which[~taken]] = np.inf
    return taken


def _secant(inverses: np.ndarray, steps: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """BFGS updates of inverses (n, D, D) by steps (n, D) and the gradients' changes along them."""
    product = np.einsum("fi,fi->f", steps, changes)
    image = np.einsum("fij,fj->fi", inverses, changes)
    curved = np.einsum("fi,fi->f", changes, image)
    sound = (product > 1e-8 * curved) & np.isfinite(curved)
    safe = np.where(sound, product, 1.0)[:, None, None]
    cross = image[:, :, None] * steps[:, None]
    gain = (1.0 + curved / safe[:, 0, 0])[:, None, None]
    update = gain * steps[:, :, None] * steps[:, None] / safe - (cross + np.swapaxes(cross, 1, 2)) / safe
    return inverses + np.where(sound[:, None, None], update, 0.0)


def refine(batches: Batches, state: Descent, which: np.ndarray, curve: Curvature) -> None:
    """Take the folds `which` to their certified optima, in place.

    Once the budget is spent, unfinished folds stay where they are, and their status says so.
    """
    if state.inverses is None:
        refine_by_products(batches, state, which, curve)
        return
    with blas_threads_for(len(curve.theta)):  # factors of one fold at a time are small
        _refine(batches, state, which, curve)


def _refine(batches: Batches, state: Descent, which: np.ndarray, curve: Curvature) -> None:
    """`refine` where each fold has an inverse Hessian of its own."""
    active, hard = np.array(which), np.zeros(0, int)
    hessians = np.zeros(batches.n_folds, int)
    for _ in range(_MOST_ROUNDS):
        if active.size == 0 or batches.spent():
            break
        failed = _replace_inverses(batches, state, active, hessians, curve)
        hard, active = np.append(hard, failed), np.setdiff1d(active, failed)
        done = state.certain[active] & (state.distances[active] <= TOLERANCE)
        active = active[~done]
        if active.size == 0:
            break
        taken = advance(batches, state, active)
        at_rounding = ~taken & state.certain[active] & (state.distances[active] <= FLOOR)
        state.rates[active[at_rounding]] = 0.0
        active = active[~at_rounding]
    unfinished = np.union1d(active, hard).astype(int)
    for fold in np.setdiff1d(which, unfinished):
        if state.rungs[fold] is not Rung.REFINE_OWN:
            state.rungs[fold] = Rung.REFINE
        state.status[fold] = _certificate(state, fold)
    together = _refits_together(batches)
    for at in range(0, len(unfinished), together):
        some = unfinished[at : at + together]
        if not batches.spent():
            _refit(batches, state, some, curve)
            continue
        for fold in some:
            if state.rungs[fold] is not Rung.REFINE_OWN:
                state.rungs[fold] = Rung.REFINE
            state.status[fold] = out_of_budget(state.distances[fold])


def _refits_together(batches: Batches) -> int:
    """How many folds are refitted at a time: as many as take hardly longer than one."""
    together = batches.objective.traits.together
    return 1 if together == 1 else min(batches.size, together * cores())


def _replace_inverses(
    batches: Batches, state: Descent, active: np.ndarray, hessians: np.ndarray, curve: Curvature
) -> np.ndarray:
    """Own Hessians for folds that are near their optimum or converge slowly; counted in `hessians`.

    Returns: the folds that must be refitted.
    """
    stepped = ~np.isnan(state.rates[active])
    near = state.distances[active] < _NEAR
    if batches.objective.traits.convex:
        state.certain[active[stepped & near]] = True
    slow = state.rates[active] > SLOW
    state.rungs[active[stepped & slow]] = Rung.REFINE_OWN
    need = active[stepped & ((near & ~state.certain[active]) | slow)]
    failed = need[hessians[need] >= _MOST_HESSIANS]
    need = np.setdiff1d(need, failed)
    hessians[need] += 1
    return np.append(failed, _own_hessians(batches, state, need, curve.scale))


def _own_hessians(batches: Batches, state: Descent, which: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Give the folds `which` their own Hessians. Returns those at which H_o is not positive definite."""
    if which.size == 0:
        return which
    near = state.distances[which] < _NEAR
    hessians = batches.hessians(state.thetas[which], state.gradients[which], scale, which)
    failed = []
    for fold, hessian, close in zip(which, hessians, near, strict=True):
        lowest = lowest_scaled(hessian)
        if -np.inf < lowest <= _CLEAR and not batches.objective.traits.exact_hessians:
            weights = batches.weights_of(np.array([fold]))
            hessian = batches.objective.hessians(state.thetas[fold][None], weights)[0]
            batches.hessians_used[fold] += 1
            lowest = lowest_scaled(hessian)
        if lowest <= np.finfo(float).eps * len(hessian):
            failed.append(fold)
            continue
        state.inverses[fold] = np.linalg.inv(hessian)  # type: ignore[index]
        state.own[fold], state.certain[fold], state.lowest[fold] = True, close, lowest
        state.shares[fold], state.rates[fold] = 1.0, 0.0
    return np.array(failed, int)


def _certificate(state: Descent, fold: int) -> Status:
    gradient, lowest = state.gradients[[fold]], state.lowest[fold]
    distance = float(lengths(gradient, state.moves(np.array([fold]), gradient))[0])
    evidence = f"smallest eigenvalue of the fold's H scaled to a unit diagonal {lowest:.1e}"
    if np.isnan(lowest):
        evidence = "by the full fit's H, of a convex objective"
    return judged(gradient[0], distance, True, evidence)


def _refit(batches: Batches, state: Descent, folds: np.ndarray, curve: Curvature) -> None:
    """The last rung: damped Newton from the full fit, with exact Hessians near the end."""
    starts = np.repeat(curve.theta[None], len(folds), 0)
    for fold, end, status in refitted(batches, folds, starts, curve):
        state.thetas[fold], state.gradients[fold] = end.thetas[0], end.gradients[0]
        state.values[fold], state.rungs[fold] = end.values[0], Rung.REFIT
        state.status[fold] = status
        if refusal(end.gradients[0], end.hessians[0], end.factors[0], curve.names) is None:
            state.inverses[fold] = np.linalg.inv(end.hessians[0])  # type: ignore[index]
            state.own[fold] = state.certain[fold] = True
            state.lowest[fold] = lowest_scaled(end.hessians[0])


def refitted(
    batches: Batches, folds: np.ndarray, starts: np.ndarray, curve: Curvature
) -> Iterator[tuple[int, Minima, Status]]:
    """Each fold by damped Newton from its start (n, D), off saddles: its number, where it ended and
    whether that is a certified minimum. As many at a time as take hardly longer than one."""
    traits = batches.objective.traits
    scale = curve.scale if traits.together > 1 and not traits.exact_hessians else None
    together = _refits_together(batches)
    for at in range(0, len(folds), together):
        some = folds[at : at + together]
        weights = batches.weights_of(some)
        ends = minimise(
            batches.objective, starts[at : at + together], weights, tolerance=FLOOR, scale=scale
        )
        for row, fold in enumerate(some):
            end = ends.alone(row)
            if end.is_saddle(0):
                end = off_saddle(batches.objective, end, weights[row], tolerance=FLOOR)
            batches.gradients_used[fold] += end.work[0, 0]
            batches.hessians_used[fold] += end.work[1, 0]
            yield int(fold), end, end.status(0, curve.names, FLOOR)
