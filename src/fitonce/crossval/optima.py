"""Other optima: the search that a fold's own fit would make, at a fraction of its cost.

Cross-validation is of a procedure, and the procedure has restarts. Without its data a fold may have a
better optimum than the one that continues the full fit's, also one that no optimum of all data leads to.

1. The other optima of the full fit are offered to every fold: F there, less twice what a Newton step
   promises, tells by one gradient whether the fold could move. If so it is refined from there.
2. Random starts, some EM iterations into the fit of all data, are descended with the weights of the
   folds, all folds side by side; of all folds if that is cheap, else of as many as take twice the work
   so far.
3. What a fold finds is offered to the others as in 1. This goes in rounds, so that the result does not
   depend on the order of the folds.

A fold moves where that lowers its objective. Nothing of this runs for convex objectives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fitonce.core.chunks import stretches
from fitonce.core.status import Outcome, Rung
from fitonce.crossval.batches import Batches
from fitonce.crossval.evidence import Evidence, arrived_errors
from fitonce.crossval.fold_states import FoldParameters, is_large
from fitonce.crossval.losses import Scoring
from fitonce.crossval.refine import refitted
from fitonce.fitting.batched_lbfgs import batched_lbfgs
from fitonce.fitting.certificate import spectrum
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.descent import expectation_maximisation
from fitonce.fitting.factor import factor_of
from fitonce.fitting.fit import Fit
from fitonce.fitting.newton import minimise
from fitonce.fitting.newton_cg import FLOOR
from fitonce.fitting.optima import ROUNDING, cheap_gradients
from fitonce.objectives.base import ValuesAndSlopes

LOWER = 1e-3  # nats: a fold moves for no less
REACH = 2.0  # times the gain that a Newton step promises
_WARM = 10  # iterations of EM
_NEARLY = 3e-3  # standard errors: where descents end
_SAME = 0.01  # nats: ends of descents into one optimum differ by less
_ITERATIONS = 100
_LONGEST = 2.0  # free coordinates, relative for values above 1: of a step
_ROUNDS = 2
_AT_A_TIME = 4  # random starts
_GRADIENTS = 20  # that a descent usually takes
_SEED = 20_201  # of the starts, others than those of fits
_SEARCH_WORK = 2.0  # times the work so far
_CONTINUED = 10  # folds that moved, whose optima are followed with all data back


@dataclass(frozen=True, eq=False)
class Search:
    """Which optimum each fold is in, one row per fold.

    Attributes:
        optimum: the number of the optimum of the full fit that it continues, 0 for the one that the fit
            is at; -1 for one that was found by a fold.
        gain: by how much the objective is below that at the optimum that continues the fit's, in nats.
        shift: by how much the mean loss differs from that there.
        ways: how often its optimum was found: from the full fit, its other optima, random starts; 0
            where something lower was met that could not be certified.
        searched: whether the fold had random starts of its own.
        better: (D,) an optimum of all data that is better than the fit, if one was found.
    """

    optimum: np.ndarray
    gain: np.ndarray
    shift: np.ndarray
    ways: np.ndarray
    searched: np.ndarray
    better: np.ndarray | None = None

    @classmethod
    def of(cls, n_folds: int) -> Search:
        """Before the search."""
        zeros = lambda kind: np.zeros(n_folds, kind)  # noqa: E731
        return cls(zeros(int), zeros(float), zeros(float), np.ones(n_folds, int), zeros(bool))


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
    hunt = _Hunt(scoring, parameters, evidence, Search.of(len(scoring.folds)))
    hunt.offer_all(others[:starts])
    hunt.start_afresh(starts)
    for _ in range(_ROUNDS):
        if not hunt.spread(starts):
            break
    return hunt.end()


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


class _Hunt:
    """A search under way. `values` (F,) are the folds' objectives at their best optima so far."""

    def __init__(
        self, scoring: Scoring, parameters: FoldParameters, evidence: Evidence, found: Search
    ) -> None:
        self.scoring, self.parameters, self.evidence, self.found = scoring, parameters, evidence, found
        self.values = self._objectives()
        self.before = self.values.copy()
        self.losses_before = scoring.means(evidence.losses)
        self.margins = LOWER + ROUNDING * np.abs(np.where(np.isfinite(self.values), self.values, 0.0))
        self.arrived = np.zeros(len(self.values), bool)  # whether a value is that of an optimum
        self.fresh = np.zeros(0, int)  # folds that moved since what they found was last offered
        self.ends: list[tuple[np.ndarray, np.ndarray]] = []  # of descents: folds and values

    def _objectives(self) -> np.ndarray:
        """(F,) at the folds' parameters, less what the next step promises; inf without parameters."""
        thetas = self.parameters.thetas
        finite = np.flatnonzero(np.isfinite(thetas).all(1))
        values = np.full(len(thetas), np.inf)
        values[finite] = self.scoring.batches.values_and_gradients(thetas[finite], finite)[0]
        short = np.array([one.outcome is Outcome.APPROXIMATE for one in self.parameters.status])
        return values - np.where(short, 0.5 * np.nan_to_num(self.evidence.distances) ** 2, 0.0)

    def offer_all(self, others: np.ndarray) -> None:
        """Offer optima (M, D) of all data to all folds."""
        base = self.scoring.batches.objective.base
        offers = [self._offer(theta, base, number) for number, theta in enumerate(others, 1)]
        self._follow([offer for offer in offers if offer is not None])

    def _offer(self, theta: np.ndarray, weights: np.ndarray, number: int) -> _Offer | None:
        """An optimum theta (D,) at weights (P,), to all folds; None where H is not positive definite."""
        batches = self.scoring.batches
        hessian = batches.objective.hessians(theta[None], weights[None])[0]
        if factor_of(hessian) is None:
            return None
        inverse = np.linalg.inv(hessian)
        thetas = np.tile(theta, (batches.n_folds, 1))
        values, gradients = batches.values_and_gradients(thetas, batches.every_fold)
        gains = 0.5 * np.einsum("fi,ij,fj->f", gradients, inverse, gradients) / batches.kept
        with np.errstate(invalid="ignore"):
            could = values - REACH * gains < self.values - self.margins
        return _Offer(theta, inverse, np.flatnonzero(could), number, values - gains)

    def start_afresh(self, starts: int) -> None:
        """Random starts with the folds' own weights, some at a time, until they find nothing new and
        every optimum was found more than once."""
        folds = self._searched(starts)
        objective, rng = self.scoring.batches.objective, np.random.default_rng(_SEED)
        begun = [objective.start(rng) for _ in range(starts)]
        if np.array_equal(begun[0], objective.start(None)):
            return  # there is only one start
        for at in range(0, starts, _AT_A_TIME):
            if self.scoring.batches.spent():
                return
            some = begun[at : at + _AT_A_TIME]
            if objective.traits.m_steps != "none":
                some = [expectation_maximisation(objective, theta, _WARM) for theta in some]
            offers = [_Offer(theta, self._metric(theta), folds, -1, np.zeros(0)) for theta in some]
            moved = self._follow([offer for offer in offers if np.isfinite(offer.inverse).all()])
            if not self.scoring.batches.spent():
                self.found.searched[folds] = True
            if not moved and (self._ways()[folds] > 1).all():
                return

    def _searched(self, starts: int) -> np.ndarray:
        """The folds that have random starts: all if that is cheap, or as many as take twice the work
        so far, spread over the data, whatever the order of the folds."""
        batches, count = self.scoring.batches, self.scoring.batches.n_folds
        work = batches.work[0].sum() + batches.work[1].sum() * batches.objective.space.size
        cheap = 0.0 if batches.objective.traits.compiles else cheap_gradients(batches.objective)
        most = max(cheap, _SEARCH_WORK * float(work)) / (starts * _GRADIENTS)
        dropped = self.scoring.folds.dropped
        order = np.lexsort([[part[0] for part in dropped], [part.mean() for part in dropped]])
        chosen = np.linspace(0, count - 1, int(np.clip(most, 1, count))).astype(int)
        return np.sort(order[np.unique(chosen)])

    def _follow(self, offers: list[_Offer]) -> bool:
        """Descend folds from what they are offered, and refit those that end lower, from the lowest.
        Returns whether one moved."""
        if not offers or self.scoring.batches.spent():
            return False
        which = np.concatenate([offer.folds for offer in offers])
        source = np.repeat(np.arange(len(offers)), [len(offer.folds) for offer in offers])
        begun = np.stack([offer.theta for offer in offers])
        inverses = np.stack([offer.inverse for offer in offers])
        values, thetas = np.full(len(which), np.inf), begun[source]
        size = begun.shape[1]
        row = 8.0 * (60 * size + size**2 + 2 * len(self.scoring.batches.objective.base))
        for some in stretches(len(which), row, "a descent of a fold"):
            values[some], thetas[some] = self._descended(
                thetas[some], which[some], inverses, source[some]
            )
        self.ends.append((which, values))
        order = np.lexsort([source, values, which])  # by fold, the lowest first
        lowest = order[np.unique(which[order], return_index=True)[1]]
        lower = lowest[values[lowest] < (self.values - self.margins)[which[lowest]]]
        numbers = np.array([offer.number for offer in offers])
        return self._take(which[lower], thetas[lower], numbers[source[lower]])

    def _descended(
        self, thetas: np.ndarray, which: np.ndarray, inverses: np.ndarray, source: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Values (n,) and thetas (n, D) where the folds `which` (n,) end, from thetas (n, D), in the
        metrics inverses[source]."""
        batches = self.scoring.batches
        objective, kept = batches.objective, batches.kept[which, None]
        if objective.traits.compiles:  # chunks of one shape
            evaluate = lambda t, rows: batches.values_and_gradients(t, which[rows])  # noqa: E731
        else:
            weights = batches.weights_of(which)

            def evaluate(t: np.ndarray, rows: np.ndarray) -> ValuesAndSlopes:
                np.add.at(batches.gradients_used, which[rows], 1)
                return objective.values_and_gradients(t, weights[rows])

        end = batched_lbfgs(
            evaluate,
            lambda g, rows: np.einsum("nij,nj->ni", inverses[source[rows]], g) / kept[rows],
            thetas,
            tolerance=_NEARLY,
            most=_ITERATIONS,
            longest=_LONGEST,
            spent=batches.spent,
        )
        return np.where(np.isnan(end.values), np.inf, end.values), end.thetas

    def _metric(self, theta: np.ndarray) -> np.ndarray:
        """(D, D) positive definite: the complete-data information inverted, or H with absolute
        eigenvalues; not finite where H is not."""
        objective = self.scoring.batches.objective
        if objective.traits.blocks:
            return objective.preconditioner(theta)(np.eye(len(theta)))
        hessian = objective.hessians(theta[None], objective.base[None])[0]
        if not np.isfinite(hessian).all():
            return hessian
        values, vectors, scale = spectrum(hessian)
        floor = 1e-3 * max(float(np.abs(values).max()), np.finfo(float).tiny)
        scaled = vectors / scale[:, None]
        return scaled / np.maximum(np.abs(values), floor) @ scaled.T

    def spread(self, most: int) -> bool:
        """Offer what folds have found since the last time to all others, the largest gains first.
        Returns whether a fold moved."""
        gains = self.before[self.fresh] - self.values[self.fresh]
        waiting = self.fresh[np.argsort(-gains, kind="stable")]
        self.fresh = np.zeros(0, int)
        offers: list[_Offer] = []
        while waiting.size and len(offers) < most and not self.scoring.batches.spent():
            fold, waiting = waiting[0], waiting[1:]
            weights = self.scoring.batches.weights_of(np.array([fold]))[0]
            offer = self._offer(self.parameters.thetas[fold], weights, -1)
            if offer is not None:
                offers.append(offer)
                known = offer.promised[waiting] < self.values[waiting] + _SAME
                waiting = waiting[~known]  # those are in the same optimum
        return self._follow(offers)

    def _take(self, folds: np.ndarray, thetas: np.ndarray, numbers: np.ndarray) -> bool:
        """Refit folds (n,) from thetas (n, D), and move those that end lower; returns whether any do."""
        moved = False
        scoring, number_of = self.scoring, dict(zip(folds.tolist(), numbers.tolist(), strict=True))
        self._arrive(folds)
        for fold, end, status in refitted(scoring.batches, folds, thetas, scoring.curve):
            if not (status.ok and end.values[0] < self.values[fold] - self.margins[fold]):
                continue
            self.values[fold], self.found.optimum[fold] = end.values[0], number_of[fold]
            self.parameters.thetas[fold], self.parameters.status[fold] = end.thetas[0], status
            self.parameters.rungs[fold] = Rung.OTHER
            self.evidence.distances[fold] = end.distances[0]
            self.fresh, moved = np.union1d(self.fresh, [fold]), True
        return moved

    def _arrive(self, folds: np.ndarray) -> None:
        """Take the values of those folds (n,) that are a step from the full fit at their own optimum, to
        compare it with another."""
        status = self.parameters.status
        short = folds[[status[fold].outcome is Outcome.APPROXIMATE for fold in folds]]
        short = short[~self.arrived[short]]
        thetas, scoring = self.parameters.thetas[short], self.scoring
        for fold, end, ended in refitted(scoring.batches, short, thetas, scoring.curve):
            if ended.ok:
                self.values[fold] = self.before[fold] = end.values[0]
                self.arrived[fold] = True

    def end(self) -> Search:
        """Losses of the folds that moved, how their optima were found, and a better fit."""
        found, evidence, scoring = self.found, self.evidence, self.scoring
        moved = np.flatnonzero(self.values < self.before - 0.5 * self.margins)
        if moved.size:
            evidence.losses[moved] = scoring.losses(self.parameters.thetas[moved], moved)
            evidence.checked[moved], evidence.rates[moved] = True, np.nan
            thetas = self.parameters.thetas[moved]
            evidence.errors[moved] = arrived_errors(scoring, evidence, thetas, moved)
            found.gain[moved] = (self.before - self.values)[moved]
            found.shift[moved] = (scoring.means(evidence.losses) - self.losses_before)[moved]
        return replace(found, ways=self._ways(), better=self._better(moved))

    def _ways(self) -> np.ndarray:
        """(F,) how often each fold's optimum was found; from the full fit, unless that led elsewhere."""
        ways = (self.values >= self.before - 0.5 * self.margins).astype(int)
        lower = np.zeros(len(ways), bool)
        for folds, values in self.ends:
            np.add.at(ways, folds, np.abs(values - self.values[folds]) < _SAME)
            lower[folds[values < self.values[folds] - _SAME]] = True
        return np.where(lower, 0, ways)  # something lower was met that could not be certified

    def _better(self, moved: np.ndarray) -> np.ndarray | None:
        """(D,) the lowest optimum of all data that folds which moved lead to, if below the fit's."""
        objective = self.scoring.batches.objective
        chosen = moved[np.argsort(-self.found.gain[moved], kind="stable")][:_CONTINUED]
        if chosen.size == 0:
            return None
        everyone = np.tile(objective.base, (len(chosen), 1))
        ends = minimise(objective, self.parameters.thetas[chosen], everyone, tolerance=FLOOR)
        lowest = int(np.argmin(np.where(np.isnan(ends.values), np.inf, ends.values)))
        below = ends.values[lowest] < objective(self.scoring.curve.theta) - LOWER
        return ends.thetas[lowest] if below and ends.factors[lowest] is not None else None
