"""How far to trust a fold: the estimated error of its loss, and a verdict.

At the returned point theta, with fold gradient g and B the inverse of the best Hessian at hand, the
next step -B g leads close to the fold's own optimum. So the loss there, less the loss here, is the
error of the loss here, up to what the step leaves. With c_t the change of the loss of point t of m
between the two, and r the share of the gradient that is left there:

    error = (|mean c_t| + sqrt(mean c_t^2 / m)) / (1 - r)

The first term is the estimate proper. The second is what the mean would be if the step pointed
somewhere else: it keeps an error that cancels by accident from passing for a small one. The divisor
is the sum of the steps to come, if each leaves the share r (taken as 0.9 at most).

Verdicts, for a tolerance in units of the loss (by default a tenth of the standard error of the CV
estimate):

* good: three times the error is within the tolerance, the step is shorter than one standard error
  and leaves less than half of the gradient (the objective looks as H says, as far as one can see), and
  the parameters are no farther from the full fit than leaving out so much data explains (there may be
  more than one optimum otherwise);
* fair: the error is within the tolerance, but one of these fails;
* bad: anything else, a loss or an error that is not a number included;
* unchecked: no gradient was taken.
"""

from __future__ import annotations

from enum import Enum

import numpy as np


def clustered_error(
    values: np.ndarray, fold: np.ndarray, sizes: np.ndarray, cluster: np.ndarray, used: np.ndarray
) -> float:
    """The same for rows: their values, folds, the sizes of these, their clusters; (F,) folds `used`."""
    kept = used[fold]
    share = 1.0 / (max(used.sum(), 1) * sizes[kept])
    mass = np.bincount(cluster[kept], share)
    total = np.bincount(cluster[kept], share * values[kept])
    count = int((mass > 0).sum())
    if count < 2:
        return float("nan")
    residual = total - mass * total.sum() / mass.sum()
    return float(np.sqrt(count / (count - 1) * np.sum(residual**2)))


SAFETY = 3.0
FAR = 1.0  # standard errors: beyond, a quadratic model of the fold's objective is a guess
SLOW = 0.5  # a step that leaves more of the gradient says that the model is wrong
_SLOWEST = 0.9
SHARE_OF_SE = 0.1
_SHARE_OF_LOSS = 1e-3  # where there is no standard error


class Verdict(Enum):
    """How far to trust a fold's loss; see the module's text."""

    GOOD = "good"
    FAIR = "fair"
    BAD = "bad"
    UNCHECKED = "unchecked"


def loss_errors(
    losses: np.ndarray,
    ahead: np.ndarray,
    counted: np.ndarray,
    sizes: np.ndarray,
    rates: np.ndarray | float = 0.0,
) -> np.ndarray:
    """(F,) estimated error of the mean loss of each fold.

    Args:
        losses, ahead: (F, W) losses at the returned point and one step ahead.
        counted: (F, W) which of them are not padding.
        sizes: (F,) by what the sum of a row is divided: how many things the fold scores.
        rates: (F,) the share of the gradient that is left one step ahead.
    """
    with np.errstate(invalid="ignore"):
        change = np.where(counted, ahead - losses, 0.0)
    first = (np.abs(change.sum(1)) + np.sqrt(np.sum(change**2, 1))) / sizes
    return first / (1.0 - np.minimum(rates, _SLOWEST))


def default_tolerance(se: float, losses: np.ndarray) -> float:
    """The error of a fold's loss that does no harm: a tenth of the standard error of the estimate, or
    where there is none, a thousandth of the mean of the folds' finite `losses`."""
    if np.isfinite(se) and se > 0:
        return SHARE_OF_SE * se
    return _SHARE_OF_LOSS * float(np.abs(losses).sum()) / max(len(losses), 1)


def sound(distances: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """(F,) whether the quadratic model that an error rests on holds, as far as one can see."""
    return (distances <= FAR) & ~(rates > SLOW)


def verdicts(
    errors: np.ndarray,
    distances: np.ndarray,
    rates: np.ndarray,
    checked: np.ndarray,
    tolerance: float,
    away: np.ndarray | bool = False,
) -> list[Verdict]:
    """One for each fold; a rate is nan where no step ahead was needed, `away` where a fold's parameters
    are ten times as far from the full fit as folds of their size usually are."""
    good = (SAFETY * errors <= tolerance) & sound(distances, rates) & ~np.asarray(away)
    fair = errors <= tolerance  # nan compares false, and so is bad
    chosen = np.select([~checked, good, fair], [0, 1, 2], default=3)
    order = (Verdict.UNCHECKED, Verdict.GOOD, Verdict.FAIR, Verdict.BAD)
    return [order[i] for i in chosen]
