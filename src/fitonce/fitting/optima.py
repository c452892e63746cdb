"""The distinct optima that the starts of a fit reach.

With hidden states an objective has several optima; in short data, or with many states, their values are
close. How many are missing can be told from how often each was reached: by Good and Turing, the chance
that the next start ends in a new one is about the share of starts that alone ended where they did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fitonce.core.arguments import require
from fitonce.core.numerics import is_count, is_number
from fitonce.core.wording import ONE_START, counted
from fitonce.fitting.descent import Run, descend, ends_in_em, is_screened, to_optimum
from fitonce.fitting.time_limit import TimeUpError
from fitonce.objectives.base import Objective

DEFAULT_OPTIMA = 10
SAME = 1e-3  # nats: values of one optimum reached twice
ROUNDING = 1e-12  # relative, in sums over the data
_ENOUGH = 0.1  # chance of a new optimum at the next start
_WAYS = 3  # starts that find the best optimum
_CLOSE = 10.0  # nats above the best: optima from which a fold that leaves out little may be better off
_STARTS = 4  # at most, for each optimum to look for, or for each start where they take long
_FEW = 4  # starts at a time, where they take long
_FIRST, _FIRST_IF_CHEAP = 3, 8  # starts, before it is known whether they agree
_FIRST_IF_SCREENED = 5  # starts that were chosen by their values are more alike
_GRADIENTS = 100  # that a start usually takes
_METRICS = 1e9  # inversions of metrics, in numbers of parameters cubed, that take some seconds
_CHEAP = 1e9  # bytes that gradients write in about two seconds, in native loops and by JAX


@dataclass(frozen=True, eq=False)
class Optima:
    """Distinct optima, the best first. Those that differ in the numbering of states count as one, since
    their values are the same.

    Attributes:
        thetas: (M, D).
        values: (M,) the objective.
        found: (M,) how many starts ended in each.
        starts: how many starts there were, also of optima that are not kept.
        unseen: the estimated chance that another start ends in an optimum that no start has met.
        lost: how many starts ended in no optimum: with a state without observations, or at a point that
            could not be certified.
        below: how far such a point is below the best optimum, in nats; nan where none is.
        single: whether more starts were asked for than the model has: one, as it has no random ones.
    """

    thetas: np.ndarray
    values: np.ndarray
    found: np.ndarray
    starts: int
    unseen: float
    single: bool = False
    lost: int = 0
    below: float = float("nan")

    def __len__(self) -> int:
        return len(self.values)

    def at_best(self, theta: np.ndarray, value: float, most: int) -> Optima:
        """With the best taken to theta (D,), where the value is lower, and at most so many others."""
        kept = slice(1, 1 + most)
        return replace(
            self,
            thetas=np.concatenate([theta[None], self.thetas[kept].reshape(-1, len(theta))]),
            values=np.append(value, self.values[kept]),
            found=np.append(self.found[:1] if len(self) else 0, self.found[kept]),
        )

    def without_best(self) -> Optima:
        """The same where the best is no certified optimum, so that no start has found it."""
        if self.starts < 2 or not len(self):
            return self
        found = np.append(0, self.found[1:])
        return replace(self, found=found, lost=self.lost + int(self.found[0]))

    @property
    def disagree(self) -> bool:
        """Whether starts ended in different optima, also in those that are not kept."""
        return bool(self.starts > 1 and self.found[0] < self.starts)

    @property
    def has_rivals(self) -> bool:
        """Whether a fold may be in another optimum that no start has met: the best was found seldom, or
        starts ended in others that are hardly worse. Those that are known are compared fold by fold."""
        if not self.disagree:
            return False
        seldom = self.found[0] < _WAYS or 2 * self.found[0] < self.starts
        return bool(seldom or (self.values[1:] < self.values[0] + _CLOSE).any())

    @property
    def sentence(self) -> str:
        """How often the best was found, and what that says."""
        if self.starts < 2:
            why = f": {ONE_START}" if self.single else ""
            return f"other optima were not looked for{why}"
        best, elsewhere = int(self.found[0]), self.starts - int(self.found[0])
        text = f"found by {best} of {counted(self.starts, 'start')}"
        if self.lost:
            deeper = f", {self.below:.2g} nats below at the lowest" if self.below > 0 else ""
            text += f"; {self.lost} ended in no optimum{deeper}"
        if elsewhere == self.lost:
            return f"{text}{';' if self.lost else ','} no other optimum met"
        if len(self) > 1:
            others = counted(len(self) - 1, "other optimum", "other optima")
            if int(self.found.sum()) + self.lost < self.starts:  # others are not kept
                others = f"at least {others}"
            text += f"; {others}, the next {self.values[1] - self.values[0]:.2g} nats above"
        return f"{text}; chance of a new one at another start about {100 * self.unseen:.0f} %"

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.fits import of_optima  # only notebooks need it

        return of_optima(self)

    def __repr__(self) -> str:
        return f"Optima: {self.sentence}\n{self.to_dataframe().to_string()}"

    def to_dataframe(self) -> pd.DataFrame:
        """One row per optimum: `value`, `above` the best in nats, `found` by how many starts."""
        above = self.values - self.values[:1]
        return pd.DataFrame({"value": self.values, "above": above, "found": self.found})


def check_optima(optima: Any) -> None:
    """Check an `optima=` argument."""
    require(
        is_count(optima) or (is_number(optima) and optima == 0),
        "optima",
        "an integer of at least 0",
        optima,
    )


def cheap_gradients(objective: Objective) -> float:
    """How many gradients take a second or two: their time goes with the memory that a pass touches."""
    return _CHEAP / objective.bytes_per_fold


def cheap_starts(objective: Objective) -> float:
    """How many starts take some seconds: of the gradients, or of the metrics that are inverted."""
    return min(cheap_gradients(objective) / _GRADIENTS, _METRICS / float(objective.space.size) ** 3)


def usual_starts(objective: Objective) -> int:
    """How many starts a fit has where the user has not said it: in short data, which has the more optima
    and the cheaper starts, more than in long data."""
    cheap = cheap_starts(objective) > _STARTS * DEFAULT_OPTIMA
    if cheap:
        return _FIRST_IF_CHEAP
    return _FIRST_IF_SCREENED if is_screened(objective) else _FIRST


def is_same(value: float, lowest: float) -> bool:
    """Whether two values, the second the lower one, are those of one optimum."""
    return bool(value - lowest <= SAME + ROUNDING * abs(value))


def first_of_best(runs: Sequence[Run]) -> Run:
    """The first run that ended in the best optimum: which of them is lowest is rounding."""
    finite = [run for run in runs if np.isfinite(run.value)] or list(runs)
    finite = [run for run in finite if not run.refused] or finite
    lowest = min(run.value for run in finite)
    return next((run for run in finite if is_same(run.value, lowest)), finite[0])


def distinct(runs: Sequence[Run]) -> Optima:
    """The optima in which descents ended, but for values that are not finite."""
    ends = sorted((run for run in runs if np.isfinite(run.value)), key=lambda run: run.value)
    kept: list[Run] = []
    found: list[int] = []
    for run in ends:
        if not run.is_optimum:
            continue
        if kept and is_same(run.value, kept[-1].value):
            found[-1] += 1
        else:
            kept.append(run)
            found.append(1)
    thetas, values = np.array([run.x for run in kept]), np.array([run.value for run in kept])
    unseen = found.count(1) / len(ends) if len(ends) > 1 else float("nan")
    lost = len(ends) - sum(found)
    below = float(values[0] - ends[0].value) if lost and kept else float("nan")
    below = below if below > SAME else float("nan")
    return Optima(thetas, values, np.array(found, int), len(ends), unseen, lost=lost, below=below)


def is_near(value: float, others: Sequence[float]) -> bool:
    """Whether a value is that of one of some optima."""
    return any(abs(value - other) <= SAME + ROUNDING * abs(value) for other in others)


class Budget(NamedTuple):
    """How many starts a search has: `first`, and at most `most` until the best optimum was found often
    enough; at most `longest` while it was found once only."""

    first: int
    most: int
    longest: int

    @classmethod
    def of(cls, objective: Objective, first: int, optima: int) -> Budget:
        """Up to four starts for each of `optima` if these are cheap, or four for each of the first."""
        most = max(cheap_starts(objective), _STARTS * first)
        most = int(min(_STARTS * optima, most))
        return cls(first, most, 2 * most)

    def left(self, runs: list[Run]) -> int:
        pool = distinct(runs)
        once = len(pool) == 0 or pool.found[0] < 2
        return (self.longest if once else self.most) - len(runs)

    def after(self, runs: list[Run]) -> Budget:
        """A few more starts, since the end of these is no optimum."""
        more = len(runs) + _FEW if self.most else 0
        return self._replace(most=more, longest=more)


def explore(
    objective: Objective,
    runs: list[Run],
    points: Iterator[np.ndarray],
    budget: Budget,
    refused: Sequence[float] = (),
) -> list[Run]:
    """The runs, and more of them from `points` until the best optimum was found often enough or the
    budget ends. Where EM ended runs apart, they are taken on to their optima. `refused`: values of ends
    that are no certified optima."""
    found = list(runs)
    with suppress(TimeUpError):  # what had ended until then is kept
        _explore(objective, found, points, budget, refused)
    if all(run.empty for run in found):  # the data have no more states
        found = [run._replace(empty=False) for run in found]
    return found


def _explore(
    objective: Objective,
    found: list[Run],
    points: Iterator[np.ndarray],
    budget: Budget,
    refused: Sequence[float],
) -> None:
    """Change and extend the runs in place."""
    by_em = ends_in_em(objective)
    if by_em and len(distinct(found)) > 1:
        for k, run in enumerate(found):
            found[k] = to_optimum(objective, run)
    cheap = budget.most > _STARTS * budget.first
    together = max(budget.first, objective.traits.together) if cheap else _FEW
    while budget.left(found) > 0 and not _is_enough(objective, distinct(found)):
        if len(found) > 2 * budget.first and all(run.empty for run in found):
            break
        more = descend(objective, list(islice(points, min(together, budget.left(found)))))
        if not more:
            break
        for run in more:
            end = to_optimum(objective, run) if by_em else run
            found.append(end._replace(refused=is_near(end.value, refused)))


def _is_enough(objective: Objective, pool: Optima) -> bool:
    """Whether it is unlikely that another start ends lower: where starts are chosen among several, if
    most of them agree on the best; elsewhere by how many ends nothing else led to."""
    if len(pool) == 0:
        return False
    agreed = pool.found[0] >= _WAYS and 2 * pool.found[0] >= pool.starts
    if agreed and (is_screened(objective) or len(pool) == 1):
        return True
    if len(pool) == 1:
        return not pool.lost
    return (pool.unseen * pool.starts + 1) / (pool.starts + 1) <= _ENOUGH  # few starts tell little
