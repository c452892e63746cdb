"""Newton's method with products instead of Hessians, on many folds at once.

Each step solves H_o s = -g by conjugate gradients, preconditioned by something close to H_o^-1: for
folds the full fit's factor, which makes it a handful of products. A step must lower the value, or
near the end halve the gradient, as in `newton`. How far steps may go is learned from how well the last
ones kept what they promised: valleys of networks bend, and a solve that goes farther is lost there.
The curvature that the last solves met is the evidence that the end is a minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from fitonce.fitting.conjugate_gradients import Map, Solution, conjugate_gradients
from fitonce.fitting.line_search import Evaluate, Position, search, start_at
from fitonce.fitting.newton import ASIDE, MAX_STEP, NEAR

_MOST_STEPS = 60
_MOST_PRODUCTS = 100
_FAR_PRODUCTS = 40  # far from the optimum a better direction is not worth more
_MOST_HALVINGS = 20
_FRESH = 10  # steps, after which a preconditioner is one of another place
_AHEAD = 10.0  # times the preconditioned gradient: how far a first step may go
_KEPT, _BROKEN = 0.75, 0.25  # shares of a promised fall: steps may be longer, must be shorter
_LONGER, _SHORTER = 2.5, 0.5
_NO_WAY = 0.25  # of a step along which there was no way down
_TELLING = 1e-9  # relative: a promised fall that is this small cannot be checked
_ROUNDING = 1e-13  # relative: values that differ by less are equal
FLOOR = 1e-6  # standard errors: a fold this close that can get no closer is at rounding level
Products = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class Ends(NamedTuple):
    """Where each fold ended.

    Attributes:
        thetas, gradients: (F, D).
        values: (F,).
        distances: (F,) from stationary, in standard errors: by the fold's own H, or at most that, by the
            preconditioner and the smallest curvature met; nan where H was seen not to be definite.
        lowest: (F,) smallest eigenvalue met of the fold's H relative to the preconditioner.
        products: (F,) with the fold's H, in all.
        done: (F,) within the tolerance, or at rounding level.
        radii: (F,) how far a next step might go, as the preconditioner measures it.
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
) -> Ends:
    """From thetas (F, D) to each fold's minimum.

    Args:
        evaluate: thetas (n, D) and folds (n,) to values (n,) and gradients (n, D).
        products: thetas (n, D), directions (n, D) and folds to Hessians times directions (n, D).
        precondition: vectors (n, D) and folds to an approximate H_o^-1 times them.
        thetas: where to start.
        tolerance: standard errors.
        most_steps: of Newton's method.
        radii: of another `Ends`, to go on from it.
        spent: whether a budget is; folds stay where they are then.
    """
    place, active = start_at(evaluate, thetas)
    thetas, values, gradients = place
    count = len(thetas)
    distances, lowest = np.full((2, count), np.nan)
    used = np.zeros(count, int)
    done = np.zeros(count, bool)
    seen = np.zeros(count, bool)  # whether `lowest` was met near the end, so that it tells of it
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
        still = guess <= tolerance
        tolerances = np.clip(1e-2 * guess, 1e-5, 0.1)
        most = _MOST_PRODUCTS if (guess < 1.0).any() else _FAR_PRODUCTS
        found = _solved(
            products, precondition, thetas, gradients, active, still, radii, tolerances, most
        )
        used[active] += found.iterations
        lowest[active] = found.lowest
        slopes = -np.einsum("md,md->m", gradients[active], found.x)
        definite = found.lowest > 0
        # A step that was cut short is no distance: at most what the smallest curvature met allows.
        bound = _guess(precondition, gradients, lowest, active)
        short = found.edges | (found.residuals > tolerances)
        squares = np.where(still | short, bound**2, slopes)
        distances[active] = np.sqrt(np.where(definite & (squares >= 0), squares, np.nan))
        seen[active] = (distances[active] < NEAR) & ~found.edges
        share = _limits(thetas[active], found.x)
        steps = np.where(still[:, None], 0.0, share[:, None] * found.x)
        aside = still & ~definite
        steps[aside] = _aside(found.down[aside], gradients[active[aside]])
        before, near = place.some(active), distances[active] < NEAR
        scale = search(
            evaluate, place, active, steps, partial(_is_good, before, near), _MOST_HALVINGS,
            lambda halvings, rows, near=near: halvings > 3 and bool(near[rows].all()),
        )  # fmt: skip
        moved, fall = scale > 0, before.values - values[active]
        learned = _learned(radii[active], found, slopes, share, scale, fall, np.abs(before.values))
        radii[active] = np.where(still, radii[active], learned)
        close = distances[active] <= max(tolerance, FLOOR)
        at_rounding = ~moved & ~still & ~found.edges & close
        done[active[at_rounding]] = True
        active = active[~at_rounding & (moved | (still & definite))]
    return Ends(thetas, gradients, values, distances, lowest, used, done, radii)


def _is_good(
    before: Position, near: np.ndarray, rows: np.ndarray, share: np.ndarray, there: Position
) -> np.ndarray:
    """(m,) whether steps lower the value, or near the end halve the gradient."""
    rise = there.values - before.values[rows]
    same = _ROUNDING * np.abs(before.values[rows])
    old = np.linalg.norm(before.gradients[rows], axis=1)
    halved = np.linalg.norm(there.gradients, axis=1) < 0.5 * old
    return (rise < -same) | (near[rows] & halved & (rise <= same))


def _solved(
    products: Products,
    precondition: Map,
    thetas: np.ndarray,
    gradients: np.ndarray,
    active: np.ndarray,
    still: np.ndarray,
    radii: np.ndarray,
    tolerances: np.ndarray,
    most: int,
) -> Solution:
    """Newton's steps of the folds `active`, as far as their radii allow. Where a fold stands still, its
    gradient at rounding level already, only curvature is left to look at, along a random direction."""
    rhs = -gradients[active]
    rhs[still] = np.random.default_rng(0).normal(size=(int(still.sum()), thetas.shape[1]))
    return conjugate_gradients(
        lambda v, rows: products(thetas[active[rows]], v, active[rows]),
        rhs,
        lambda v, rows: precondition(v, active[rows]),
        tolerance=tolerances,
        most=most,
        radii=np.where(still, np.inf, radii[active]),
    )


def newton_cg_afresh(
    evaluate: Evaluate,
    products: Products,
    renew: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]],
    theta: np.ndarray,
    *,
    tolerance: float,
    most_steps: int,
    spent: Callable[[], bool] = lambda: False,
) -> Ends:
    """The same for one fold, theta (D,), whose preconditioner is made anew every few steps: `renew`
    takes a place to an approximate inverse of H there, a function of columns."""
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
        )
        still = np.array_equal(end.thetas[0], theta)
        theta, radii, left = end.thetas[0], end.radii, left - _FRESH
        products_used += int(end.products[0])
        if end.done[0] or still or left <= 0 or spent():
            return end._replace(products=np.array([products_used]))


def _guess(
    precondition: Map, gradients: np.ndarray, lowest: np.ndarray, active: np.ndarray
) -> np.ndarray:
    """(n,) distances of the folds `active` as the preconditioner measures them, at most so much more as
    the smallest curvature met allows."""
    squares = np.einsum("md,md->m", gradients[active], precondition(gradients[active], active))
    share = np.where(lowest[active] > 0, np.minimum(lowest[active], 1.0), 1.0)
    return np.sqrt(np.maximum(squares, 0.0) / share)


def _aside(down: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Steps along directions of negative curvature, the way that the gradient falls: where it is zero,
    at a saddle, there is no other way down."""
    size = np.maximum(np.abs(down).max(1, keepdims=True), 1e-300)
    sign = np.where(np.einsum("md,md->m", down, gradients) > 0, -1.0, 1.0)[:, None]
    return sign * ASIDE * down / size


def _limits(thetas: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Shares of steps that are not longer than any step may be."""
    size = np.max(np.abs(steps) / np.maximum(np.abs(thetas), 1.0), 1, initial=1e-300)
    return np.minimum(1.0, MAX_STEP / size)


def _learned(
    radii: np.ndarray,
    found: Solution,
    slopes: np.ndarray,
    share: np.ndarray,
    scale: np.ndarray,
    fall: np.ndarray,
    size: np.ndarray,
) -> np.ndarray:
    """Radii after steps that were solved for, cut to a share, halved to a scale, and fell by so much,
    where values have this size."""
    part = share * scale
    promised = part * slopes - part**2 * (slopes - found.falls)
    telling = promised > _TELLING * size  # less is rounding
    kept = np.where(telling, fall / np.where(telling, promised, 1.0), 1.0)
    gone = np.where(scale > 0, part, _NO_WAY) * found.sizes
    grown = np.where((kept > _KEPT) & found.edges & (part == 1.0), _LONGER * radii, radii)
    shrunk = np.minimum(radii, gone)
    whole = np.where(kept < _BROKEN, _SHORTER * shrunk, grown)
    return np.where(scale < 1.0, shrunk, whole)
