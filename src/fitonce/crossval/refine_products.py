"""Refinement of folds with many parameters: Newton's method by products with each fold's Hessian.

The full fit's H, factored once, preconditions every fold's own: where a fold leaves out little, the two
differ in a few directions, and conjugate gradients need about as many products. A fold that is far from
its optimum first approaches it by L-BFGS; one that has moved far from the full fit continues with a
preconditioner of its own.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.status import Rung
from fitonce.crossval.batches import Batches
from fitonce.crossval.fold_states import Descent, out_of_budget
from fitonce.fitting.batched_lbfgs import batched_lbfgs
from fitonce.fitting.certificate import certify_by_products
from fitonce.fitting.conjugate_gradients import Solution, conjugate_gradients
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.newton_cg import Ends, newton_cg, newton_cg_afresh

_TOLERANCE = 1e-7  # standard errors
_TOLERANCE_OF_MANY = 1e-5  # the same where H is not formed, and every digit takes dozens of products
_FAR = 1.0  # standard errors: beyond, a quadratic model of the fold's objective is a guess
_NEAR = 0.01  # standard errors: closer than this, Newton steps replace L-BFGS
_MOST_SECANTS = 300
_MOST_STEPS = 60
_TOGETHER, _MOST_ALONE = 8, 300  # steps with the full fit's factor, and then with a fold's own blocks
_SOLVED = 1e-10
_MOST_PRODUCTS = 200


def fold_solve(
    curve: Curvature, batches: Batches, thetas: np.ndarray, gradients: np.ndarray, which: np.ndarray
) -> Solution:
    """H_o^-1 g of the folds `which`, at thetas (n, D) with gradients (n, D)."""
    return conjugate_gradients(
        lambda v, rows: batches.products(thetas[rows], v, which[rows]),
        gradients,
        lambda v, rows: _precondition(curve, batches, v, which[rows]),
        tolerance=_SOLVED,
        most=_MOST_PRODUCTS,
    )


def refine_by_products(batches: Batches, state: Descent, which: np.ndarray, curve: Curvature) -> None:
    """Take the folds `which` to their certified optima, in place, a batch at a time; one by one where
    what is known at a fold's parameters, for the next product, is large."""
    size = batches.size if batches.objective.traits.formed else 1
    for start in range(0, len(which), size):
        if batches.spent():
            for fold in which[start:]:
                state.status[fold] = out_of_budget(state.distances[fold])
                state.rungs[fold] = Rung.REFINE
            return
        _refine(batches, state, which[start : start + size], curve)


def _refine(batches: Batches, state: Descent, which: np.ndarray, curve: Curvature) -> None:
    traits = batches.objective.traits
    # Of a convex objective with many parameters products cost less than gradients, and go as far.
    secants = not (traits.strongly_nonquadratic or _is_sure(batches))
    far = which[~(state.distances[which] < _FAR)] if secants else which[:0]
    if far.size:
        state.thetas[far] = batched_lbfgs(
            lambda t, rows: batches.values_and_gradients(t, far[rows]),
            lambda v, rows: _precondition(curve, batches, v, far[rows]),
            np.tile(curve.theta, (len(far), 1)),  # not state.thetas: a long step may have gone astray
            tolerance=_NEAR,
            most=_MOST_SECANTS,
            spent=batches.spent,
        ).thetas
    ends = newton_cg(
        lambda t, rows: batches.values_and_gradients(t, which[rows]),
        lambda t, v, rows: batches.products(t, v, which[rows]),
        lambda v, rows: _precondition(curve, batches, v, which[rows]),
        state.thetas[which],
        tolerance=_tolerance(batches),
        most_steps=_TOGETHER if batches.objective.traits.blocks else _MOST_STEPS,
        spent=batches.spent,
        convex=_is_sure(batches),
    )
    unfinished = ~ends.done & np.isfinite(ends.values) & batches.objective.traits.blocks
    for row in np.flatnonzero(unfinished):
        _continue_alone(batches, which[row], ends, row)
    state.thetas[which], state.gradients[which] = ends.thetas, ends.gradients
    state.values[which], state.rungs[which] = ends.values, Rung.REFINE
    state.own[which] = state.certain[which] = ends.done
    state.rates[which[ends.done]], state.lowest[which] = 0.0, ends.lowest
    # At a gradient of rounding level a preconditioned one tells the distance as well as a solution.
    moves = _precondition(curve, batches, ends.gradients, which)
    left = np.flatnonzero(~ends.done)
    if left.size:
        moves[left] = state.moves(which[left], ends.gradients[left])
    state.changed(which, moves)
    for fold, gradient, distance, lowest, done in zip(
        which, ends.gradients, ends.distances, ends.lowest, ends.done, strict=True
    ):
        if batches.spent() and not done:
            state.status[fold] = out_of_budget(state.distances[fold])
        else:
            state.status[fold] = certify_by_products(gradient, distance, lowest, done)


def _continue_alone(batches: Batches, fold: np.intp, ends: Ends, row: np.intp) -> None:
    """Continue with one fold, in place: so far from the full fit its factor is of little use, and a
    preconditioner at the fold's own weights replaces it."""
    if batches.spent():
        return
    objective, number = batches.objective, np.array([fold])
    weights = batches.weights_of(number)[0]
    end = newton_cg_afresh(
        lambda t, _: batches.values_and_gradients(t, number),
        lambda t, v, _: batches.products(t, v, number),
        lambda place: objective.preconditioner(place, weights),
        ends.thetas[row],
        tolerance=_tolerance(batches),
        most_steps=_MOST_ALONE,
        spent=batches.spent,
        convex=_is_sure(batches),
    )
    end.products[0] += ends.products[row]
    for column, new in zip(ends, end, strict=True):
        column[row] = new[0]


def _is_sure(batches: Batches) -> bool:
    """Whether the objective is convex, and so large that no more is done than that needs."""
    traits = batches.objective.traits
    return traits.convex and not traits.formed


def _tolerance(batches: Batches) -> float:
    return _TOLERANCE if batches.objective.traits.formed else _TOLERANCE_OF_MANY


def _precondition(
    curve: Curvature, batches: Batches, vectors: np.ndarray, folds: np.ndarray
) -> np.ndarray:
    return curve.hessian_operator.precondition(vectors.T).T / batches.kept[folds, None]
