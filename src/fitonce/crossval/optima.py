"""Other optima: the search that a fold's own fit would make, at a fraction of its cost.

Cross-validation is of a procedure, and the procedure has restarts. Without its data a fold may have a
better optimum than the one that continues the full fit's, also one that no optimum of all data leads to.

1. The other optima of the full fit are offered to every fold: F there, less twice what a Newton step
   promises, tells by one gradient whether the fold could move. If so it is refined from there.
2. Random starts, half of them some EM iterations into the fit of all data, are descended with the
   weights of the folds, all folds side by side; of all folds if that is cheap, else of as many as cost
   no more than the work done so far, or more where more starts are asked for.
3. What a fold finds is offered to the others as in 1. This goes in rounds, so that the result does not
   depend on the order of the folds.

A fold moves where that lowers its objective, once its best end is certified. Nothing of this runs for
convex objectives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from fitonce.crossval.batches import Batches
from fitonce.crossval.evidence import Evidence, arrived_errors
from fitonce.crossval.fold_descents import USUAL_GRADIENTS, fold_descents, metric
from fitonce.crossval.fold_optima import LOWER, FoldOptima
from fitonce.crossval.fold_states import FoldParameters, is_large
from fitonce.crossval.losses import Scoring
from fitonce.crossval.search_record import Search
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.descent import expectation_maximisation, random_starts
from fitonce.fitting.factor import factor_of
from fitonce.fitting.fit import Fit
from fitonce.fitting.newton import minimise
from fitonce.fitting.newton_cg import FLOOR
from fitonce.fitting.optima import DEFAULT_OPTIMA, cheap_gradients

REACH = 2.0  # times the gain that a Newton step promises
_NEARLY = 0.01  # standard errors: where descents end, the rest of whose way is foretold
_SAME = 0.01  # nats: ends of descents into one optimum differ by less
_WARM = 10  # iterations of EM
_ROUNDS = 2
_AT_A_TIME = 4  # random starts
_MOST_STARTS = 10**6  # that make a difference to how many folds are searched
WAYS = 3  # of finding an optimum: of those found twice in small data, one in twelve was not the best
_SETS = 8  # of random starts, so that folds have different ones: at most, if starts are cheap
_SEED = 20_201  # of the starts, others than those of fits
_CONTINUED = 10  # folds that moved, whose optima are followed with all data back


def is_searched(fit: Fit, curve: Curvature, batches: Batches) -> bool:
    """Whether folds may have other optima that can be looked for: not where the objective is convex, is
    not at a certified minimum, or has too many parameters for a matrix of each fold."""
    convex = curve.objective.traits.convex or curve.objective.least_curvature is not None
    return fit.ok and not (convex or curve.damping or is_large(curve, batches))


def search(
    scoring: Scoring, parameters: FoldParameters, evidence: Evidence, others: np.ndarray, starts: int
) -> Search:
    """Look for better optima of the folds, and move them there: `parameters` and `evidence` are updated.

    Args:
        scoring: of all folds.
        parameters, evidence: of the folds at the optima that continue the full fit's.
        others: (M, D) other optima of the full fit, the best first.
        starts: how many random starts a fold has, and how many optima it is offered at a time.
    """
    explorer = _Explorer(scoring, parameters, evidence, starts)
    explorer.offer_optima_of_all_data(others[:starts])
    explorer.start_at_random(starts)
    for _ in range(_ROUNDS):
        if not explorer.spread(starts):
            break
    return explorer.end()


class _Offer(NamedTuple):
    """A place to descend from.

    Attributes:
        theta: (D,).
        inverse: (D, D) an approximate inverse Hessian there, with all data.
        folds: (n,) those that could end lower than they are.
        number: of the optimum of the full fit; -1 for another.
        promised: (F,) the objectives that a Newton step from there promises, if it is an optimum.
    """

    theta: np.ndarray
    inverse: np.ndarray
    folds: np.ndarray
    number: int
    promised: np.ndarray


class _Explorer:
    """A search under way."""

    def __init__(
        self, scoring: Scoring, parameters: FoldParameters, evidence: Evidence, starts: int
    ) -> None:
        self.scoring, self.parameters, self.evidence = scoring, parameters, evidence
        self.batches, self.objective = scoring.batches, scoring.batches.objective
        self.found = replace(Search.of(len(scoring.folds)), starts=starts)
        self.best = FoldOptima(scoring, parameters, evidence)
        self.losses_before = scoring.means(evidence.losses)
        self.ends: list[tuple[np.ndarray, np.ndarray]] = []  # of descents of their own: folds, values
        self.lowest = np.full(len(scoring.folds), np.inf)  # of all descents
        self.points = self._random_points()

    def _random_points(self) -> Iterator[np.ndarray]:
        """Random starts, one after another; none where the model has only one start."""
        rng, first = np.random.default_rng(_SEED), self.objective.start(None)
        for number, point in enumerate(random_starts(self.objective, rng, first)):
            cold = number % 2  # every other one is not drawn towards all data first
            if self.objective.traits.m_steps != "none" and not cold:
                point = expectation_maximisation(self.objective, point, _WARM)
            yield point

    def _starts(self, count: int, folds: np.ndarray, sets: int) -> list[_Offer] | None:
        """`count` random starts for each of the folds (n,), which are dealt into `sets` groups with
        starts of their own; but for those where H is not finite. None where there are none."""
        offers, order = [], self._in_order(folds)
        for begin in range(sets):
            some = np.sort(folds[order[begin::sets]])
            points = islice(self.points, count)
            offers += [_Offer(x, metric(self.objective, x), some, -1, np.zeros(0)) for x in points]
        if not offers:
            return None
        return [offer for offer in offers if np.isfinite(offer.inverse).all()]

    def offer_optima_of_all_data(self, others: np.ndarray) -> None:
        """Offer the fit's other optima (M, D) to all folds."""
        base = self.objective.base
        offers = [self._offer(theta, base, number) for number, theta in enumerate(others, 1)]
        self._follow([offer for offer in offers if offer is not None])

    def _offer(self, theta: np.ndarray, weights: np.ndarray, number: int) -> _Offer | None:
        """An optimum theta (D,) at weights (P,), to all folds; None where H is not positive definite."""
        batches = self.batches
        hessian = self.objective.hessians(theta[None], weights[None])[0]
        if factor_of(hessian) is None:
            return None
        inverse = np.linalg.inv(hessian)
        thetas = np.tile(theta, (batches.n_folds, 1))
        values, gradients = batches.values_and_gradients(thetas, batches.every_fold)
        gains = 0.5 * np.einsum("fi,ij,fj->f", gradients, inverse, gradients) / batches.kept
        could = self.best.lower(batches.every_fold, values - REACH * gains)
        return _Offer(theta, inverse, np.flatnonzero(could), number, values - gains)

    def start_at_random(self, starts: int) -> None:
        """Random starts with the folds' own weights, some at a time, until they find nothing new and
        every optimum was found often enough. All folds have them as long as that is cheap, or less work
        than was done so far (more work where more starts are asked for than usual); then only those
        whose optima were found more seldom, as many as that allows."""
        cheap = cheap_gradients(self.objective)
        more = max(min(starts, _MOST_STARTS) / DEFAULT_OPTIMA, 1.0)
        left = max(cheap, self.batches.work_in_gradients) * more
        each = float(min(_AT_A_TIME, starts) * USUAL_GRADIENTS)
        folds = self._spread_out(self.batches.every_fold, max(left / each, 1.0))
        # EM and a metric for each start are a small part of the work if all sets are still cheap.
        sets = int(np.clip(cheap / (_AT_A_TIME * each), 1, min(_SETS, len(folds))))
        for at in range(0, starts, _AT_A_TIME):
            offers = self._starts(min(_AT_A_TIME, starts - at), folds, min(sets, len(folds)))
            if offers is None or self.batches.spent():
                return
            before = self.batches.work_in_gradients
            self._follow(offers)
            if not self.batches.spent():
                self.found.searched[folds] = True
            used = self.batches.work_in_gradients - before
            left, each = left - used, max(used / len(folds), 1.0)
            if at > 0 or left < used:
                folds = folds[self._ways()[folds] < WAYS]
            folds = self._spread_out(folds, left / each)
            if folds.size == 0:
                return

    def _spread_out(self, folds: np.ndarray, most: float) -> np.ndarray:
        """At most so many of the folds (n,), spread over the data, whatever the order of the folds."""
        if len(folds) <= most:
            return folds
        chosen = np.linspace(0, len(folds) - 1, max(int(most), 0)).astype(int)
        return np.sort(folds[self._in_order(folds)[np.unique(chosen)]])

    def _in_order(self, folds: np.ndarray) -> np.ndarray:
        """(n,) an order of the folds (n,) by the places that they leave out."""
        dropped = [self.scoring.folds.dropped[fold] for fold in folds]
        return np.lexsort([[part[0] for part in dropped], [part.mean() for part in dropped]])

    def _follow(self, offers: list[_Offer], *, own: bool = True) -> bool:
        """Descend folds from what they are offered, and refit those that end lower, from the lowest.
        Returns whether one moved. `own`: whether that says how often a fold's optimum is found, which
        other folds' optima do not: they would say it again and again."""
        if not offers or self.batches.spent():
            return False
        which = np.concatenate([offer.folds for offer in offers])
        source = np.repeat(np.arange(len(offers)), [len(offer.folds) for offer in offers])
        begun = np.stack([offer.theta for offer in offers])
        inverses = np.stack([offer.inverse for offer in offers])
        values, thetas = fold_descents(self.batches, begun[source], which, inverses, source, _NEARLY)
        np.minimum.at(self.lowest, which, np.nan_to_num(values, nan=np.inf))
        if own:
            known = np.isfinite(values)  # else the fold has no density there
            self.ends.append((which[known], values[known]))
        order = np.lexsort([source, values, which])  # by fold, the lowest first
        lowest = order[np.unique(which[order], return_index=True)[1]]
        lower = lowest[self.best.lower(which[lowest], values[lowest])]
        numbers = np.array([offer.number for offer in offers])[source[lower]]
        return self.best.take(which[lower], thetas[lower], values[lower], numbers)

    def spread(self, most: int) -> bool:
        """Offer what folds have found since the last time to all others, the largest gains first.
        Returns whether a fold moved."""
        waiting = self.best.news()
        offers: list[_Offer] = []
        while waiting.size and len(offers) < most and not self.batches.spent():
            fold, waiting = waiting[0], waiting[1:]
            weights = self.batches.weights_of(np.array([fold]))[0]
            offer = self._offer(self.best.thetas[fold], weights, -1)
            if offer is not None:
                offers.append(offer)
                known = offer.promised[waiting] < self.best.values[waiting] + _SAME
                waiting = waiting[~known]  # those are in the same optimum
        return self._follow(offers, own=False)

    def end(self) -> Search:
        """Losses of the folds that moved, how their optima were found, and a better fit."""
        found, evidence, scoring, best = self.found, self.evidence, self.scoring, self.best
        best.settle(found)
        moved = np.flatnonzero(best.values < best.before - 0.5 * best.margins)
        if moved.size:
            thetas = self.parameters.thetas[moved]
            evidence.losses[moved] = scoring.losses(thetas, moved)
            evidence.checked[moved], evidence.rates[moved] = True, np.nan
            evidence.errors[moved] = arrived_errors(scoring, evidence, thetas, moved)
            found.gain[moved] = (best.before - best.values)[moved]
            found.shift[moved] = (scoring.means(evidence.losses) - self.losses_before)[moved]
        better, by = self._better_fit(moved)
        return replace(found, ways=self._ways(), unseen=self._unseen(), better=better, better_by=by)

    def _ways(self) -> np.ndarray:
        """(F,) how often each fold's optimum was found; from the full fit, unless that led elsewhere,
        and by other folds if by nothing else."""
        best = self.best
        ways = (best.values >= best.before - 0.5 * best.margins).astype(int)
        for folds, values in self.ends:
            np.add.at(ways, folds, np.abs(values - best.values[folds]) < _SAME)
        # Zero where something lower was met that could not be certified.
        return np.where(self.lowest < best.values - _SAME, 0, np.maximum(ways, 1))

    def _unseen(self) -> np.ndarray:
        """(F,) the share of descents of each fold that alone ended where they did."""
        shares = np.zeros(len(self.lowest))
        if not self.ends:
            return shares
        folds, values = (np.concatenate(column) for column in zip(*self.ends, strict=True))
        order = np.lexsort([values, folds])
        folds, values = folds[order], values[order]
        near = (np.diff(values) < _SAME) & (np.diff(folds) == 0)
        alone = ~(np.append(near, False) | np.append(False, near))
        counts = np.bincount(folds, minlength=len(shares))
        return np.bincount(folds, alone, minlength=len(shares)) / np.maximum(counts, 1)

    def _better_fit(self, moved: np.ndarray) -> tuple[np.ndarray | None, float]:
        """(D,) the lowest optimum of all data that folds which moved lead to, if below the fit's, and by
        how much."""
        objective, own = self.objective, moved[self.found.optimum[moved] < 0]
        chosen = own[np.argsort(-self.found.gain[own], kind="stable")][:_CONTINUED]
        if chosen.size == 0 or self.batches.spent():
            return None, np.nan
        begun = self.parameters.thetas[chosen]
        inverses, rows = np.stack([metric(objective, theta) for theta in begun]), np.arange(len(begun))
        everything = self.batches.of_all_data()
        values, thetas = fold_descents(everything, begun, np.zeros_like(rows), inverses, rows)
        lowest = thetas[np.argmin(values)][None]
        end = minimise(objective, lowest, objective.base[None], tolerance=FLOOR)
        below = float(objective(self.scoring.curve.theta) - end.values[0])
        return (end.thetas[0], below) if below > LOWER and end.factors[0] is not None else (None, np.nan)
