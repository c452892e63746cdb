"""Newton's method with products instead of Hessians, on many folds at once.

Each step solves H_o s = -g by conjugate gradients with a preconditioner close to H_o^-1: for folds the
full fit's factor, so that a few products suffice. A step must lower the value or, near the minimum,
halve the gradient, as in `newton`. The radius of the trust region follows the ratio of actual to
predicted decrease: objectives of networks are strongly non-quadratic, and long steps fail there. The
curvature found by the last solves is the evidence for a minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from fitonce.core.numerics import lengths_of
from fitonce.fitting.conjugate_gradients import Map, Solution, conjugate_gradients, dots
from fitonce.fitting.line_search import Evaluate, Position, search, start_at
from fitonce.fitting.newton import ASIDE, MAX_STEP, NEAR
from fitonce.objectives.base import LinearMap

_MOST_STEPS = 60
_MOST_PRODUCTS = 100
_FAR_PRODUCTS = 40  # far from the optimum: a better direction is not worth more
_MOST_HALVINGS = 20
_ENOUGH = 0.3  # of the tolerance
_FRESH = 10  # steps after which a preconditioner is out of date
_AHEAD = 10.0  # radius of a first step, in lengths of the preconditioned gradient
_KEPT, _BROKEN = 0.75, 0.25  # actual over predicted decrease: radii grow above, shrink below
_LONGER, _SHORTER = 2.5, 0.5
_FAILED = 0.25  # factor for the radius after a line search that failed
_TELLING = 1e-9  # relative: a smaller predicted decrease cannot be checked
_ROUNDING = 1e-13  # relative: values that differ by less are equal
FLOOR = 1e-6  # standard errors: a fold this close that gets no closer is at rounding level
Products = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class Ends(NamedTuple):
    """End points of the folds.

    Attributes:
        thetas, gradients: (F, D).
        values: (F,).
        distances: (F,) from stationary, in standard errors: by the fold's own H, or an upper bound from
            the preconditioner and the smallest curvature; nan where H was found to be indefinite.
        lowest: (F,) smallest Ritz value of the fold's H relative to the preconditioner.
        products: (F,) number of products with the fold's H.
        done: (F,) within the tolerance, or at rounding level.
        radii: (F,) trust-region radii for a next step, in the norm of the preconditioner's inverse.
    """

    thetas: np.ndarray
    gradients: np.ndarray
    values: np.ndarray
    distances: np.ndarray
    lowest: np.ndarray
    products: np.ndarray
    done: np.ndarray
    radii: np.ndarray


def newton_cg(
    evaluate: Evaluate,
    products: Products,
    precondition: Map,
    thetas: np.ndarray,
    *,
    tolerance: float,
    most_steps: int = _MOST_STEPS,
    radii: np.ndarray | None = None,
    spent: Callable[[], bool] = lambda: False,
    convex: bool = False,
) -> Ends:
    """From thetas (F, D) to each fold's minimum.

    Args:
        evaluate: thetas (n, D) and folds (n,) to values (n,) and gradients (n, D).
        products: thetas (n, D), directions (n, D) and folds to Hessians times directions (n, D).
        precondition: vectors (n, D) and folds to an approximate H_o^-1 times them.
        thetas: starting points.
        tolerance: standard errors.
        most_steps: of Newton's method.
        radii: of earlier `Ends`, to continue from them.
        spent: whether the budget is spent; folds then stay where they are.
        convex: whether no direction can be flat: then steps have only those digits that are needed.
    """
    place, active = start_at(evaluate, thetas)
    thetas, values, gradients = place
    count = len(thetas)
    distances, lowest = np.full((2, count), np.nan)
    used = np.zeros(count, int)
    done = np.zeros(count, bool)
    seen = np.zeros(count, bool)  # whether `lowest` was found near the minimum, so that it is evidence
    if radii is None:
        radii = np.full(count, _AHEAD)
        radii[active] *= np.maximum(_guess(precondition, gradients, lowest, active), NEAR)
    radii = radii.copy()
    for _ in range(most_steps):
        if active.size == 0 or spent():
            break
        guess = _guess(precondition, gradients, lowest, active)
        arrived = seen[active] & (guess <= tolerance)
        distances[active[arrived]], done[active[arrived]] = guess[arrived], True
        active, guess = active[~arrived], guess[~arrived]
        if active.size == 0:
            break
        before, still = place.some(active), guess <= tolerance
        tolerances = np.clip(1e-2 * guess, 1e-5, 0.1)
        if convex:
            tolerances = np.maximum(tolerances, np.minimum(_ENOUGH * tolerance / guess, _ENOUGH))
        most = _MOST_PRODUCTS if (guess < 1.0).any() else _FAR_PRODUCTS
        found = _solved(products, precondition, before, active, still, radii[active], tolerances, most)
        used[active] += found.iterations
        lowest[active] = found.lowest
        slopes = -dots(before.gradients, found.x)
        definite = found.lowest > 0
        # The length of a step that was cut short is no distance: take the upper bound.
        bound = _guess(precondition, gradients, lowest, active)
        short = found.edges | (found.residuals > tolerances)
        squares = np.where(still | short, bound**2, slopes)
        distances[active] = np.sqrt(np.where(definite & (squares >= 0), squares, np.nan))
        near = distances[active] < NEAR
        seen[active] = near & ~found.edges
        steps, share = _steps(found, before, still)
        scale = search(
            evaluate, place, active, steps, partial(_is_good, before, near), _MOST_HALVINGS,
            lambda halvings, rows: halvings > 3 and bool(near[rows].all()),  # noqa: B023
        )  # fmt: skip
        moved, fall = scale > 0, before.values - values[active]
        adapted = _radii(radii[active], found, slopes, share, scale, fall, np.abs(before.values))
        radii[active] = np.where(still, radii[active], adapted)
        close = distances[active] <= max(tolerance, FLOOR)
        at_rounding = ~moved & ~still & ~found.edges & close
        done[active[at_rounding]] = True
        active = active[~at_rounding & (moved | (still & definite))]
    return Ends(thetas, gradients, values, distances, lowest, used, done, radii)


def _guess(
    precondition: Map, gradients: np.ndarray, lowest: np.ndarray, active: np.ndarray
) -> np.ndarray:
    """(n,) upper bounds of the distances of the folds `active`, from the preconditioner and the smallest
    curvature found."""
    squares = dots(gradients[active], precondition(gradients[active], active))
    share = np.where(lowest[active] > 0, np.minimum(lowest[active], 1.0), 1.0)
    return np.sqrt(np.maximum(squares, 0.0) / share)


def _solved(
    products: Products,
    precondition: Map,
    before: Position,
    active: np.ndarray,
    still: np.ndarray,
    radii: np.ndarray,
    tolerances: np.ndarray,
    most: int,
) -> Solution:
    """Newton steps of the folds `active`, within their trust regions. Where the gradient of a fold is at
    rounding level already (`still`), only curvature is examined, along a random direction."""
    rhs = -before.gradients
    rhs[still] = np.random.default_rng(0).normal(size=(int(still.sum()), rhs.shape[1]))
    return conjugate_gradients(
        lambda v, rows: products(before.thetas[rows], v, active[rows]),
        rhs,
        lambda v, rows: precondition(v, active[rows]),
        tolerance=tolerances,
        most=most,
        radii=np.where(still, np.inf, radii),
    )


def _steps(found: Solution, before: Position, still: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Steps (n, D), and the shares (n,) of the solutions to which `MAX_STEP` cuts them. Folds that are
    `still` do not move, unless there is a direction of negative curvature to leave a saddle along."""
    size = np.max(np.abs(found.x) / np.maximum(np.abs(before.thetas), 1.0), 1, initial=1e-300)
    share = np.minimum(1.0, MAX_STEP / size)
    steps = np.where(still[:, None], 0.0, share[:, None] * found.x)
    saddle = still & ~(found.lowest > 0)
    down = found.down[saddle]
    size = np.maximum(np.abs(down).max(1, keepdims=True), 1e-300)
    uphill = dots(down, before.gradients[saddle]) > 0
    steps[saddle] = np.where(uphill, -1.0, 1.0)[:, None] * ASIDE * down / size
    return steps, share


def _is_good(
    before: Position, near: np.ndarray, rows: np.ndarray, share: np.ndarray, there: Position
) -> np.ndarray:
    """(m,) whether steps lower the value or, near the minimum, halve the gradient."""
    rise = there.values - before.values[rows]
    same = _ROUNDING * np.abs(before.values[rows])
    old = lengths_of(before.gradients[rows])
    halved = lengths_of(there.gradients) < 0.5 * old
    return (rise < -same) | (near[rows] & halved & (rise <= same))


def _radii(
    radii: np.ndarray,
    found: Solution,
    slopes: np.ndarray,
    share: np.ndarray,
    scale: np.ndarray,
    fall: np.ndarray,
    size: np.ndarray,
) -> np.ndarray:
    """(n,) new radii after solutions were cut to a share, halved to a scale and lowered the value by
    `fall`; `size`: absolute values of the objective."""
    part = share * scale
    predicted = part * slopes - part**2 * (slopes - found.falls)
    telling = predicted > _TELLING * size
    kept = np.where(telling, fall / np.where(telling, predicted, 1.0), 1.0)
    gone = np.where(scale > 0, part, _FAILED) * found.sizes
    grown = np.where((kept > _KEPT) & found.edges & (part == 1.0), _LONGER * radii, radii)
    shrunk = np.minimum(radii, gone)
    whole = np.where(kept < _BROKEN, _SHORTER * shrunk, grown)
    return np.where(scale < 1.0, shrunk, whole)


def newton_cg_afresh(
    evaluate: Evaluate,
    products: Products,
    renew: Callable[[np.ndarray], LinearMap],
    theta: np.ndarray,
    *,
    tolerance: float,
    most_steps: int,
    spent: Callable[[], bool] = lambda: False,
    convex: bool = False,
) -> Ends:
    """The same for one fold, theta (D,), with a new preconditioner every few steps: `renew` maps a theta
    to an approximate inverse of H there."""
    radii, left, products_used = None, most_steps, 0
    while True:
        inverse = renew(theta)
        end = newton_cg(
            evaluate,
            products,
            lambda v, _: inverse(v.T).T,  # noqa: B023
            theta[None],
            tolerance=tolerance,
            most_steps=min(_FRESH, left),
            radii=radii,
            spent=spent,
            convex=convex,
        )
        still = np.array_equal(end.thetas[0], theta)
        theta, radii, left = end.thetas[0], end.radii, left - _FRESH
        products_used += int(end.products[0])
        if end.done[0] or still or left <= 0 or spent():
            return end._replace(products=np.array([products_used]))
