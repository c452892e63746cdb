"""Reliability of a fold: the estimated error of its loss, and a verdict.

At the returned parameters, with fold gradient g and B the inverse of the best available Hessian, the
next step -B g leads close to the fold's own optimum. The change of the loss over this step therefore
estimates the error of the loss. With c_t the change for point t of m, and r the share of the gradient
that remains after the step:

    error = (|mean c_t| + sqrt(mean c_t^2 / m)) / (1 - r)

The first term is the estimate itself. The second is the size of the mean for a step in a random
direction: it guards against errors that cancel by chance. The factor 1 / (1 - r) sums the steps to
come, if each leaves the share r (at most 0.9).

Verdicts, for a tolerance in units of the loss (by default a tenth of the standard error of the CV
estimate):

* good: three times the error is within the tolerance, the step is shorter than one standard error
  and leaves less than half of the gradient (so the quadratic model appears to hold), and there is no
  sign of a better optimum: the parameters are no farther from the full fit than the amount of data left
  out explains, others were looked for where the fit's starts disagree, the optimum was then found at
  least twice, and most starts did not end each in an optimum of its own;
* fair: the error is within the tolerance, but one of these fails;
* bad: anything else, including a loss or an error that is not a number;
* unchecked: no gradient was taken.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

SAFETY = 3.0
FAR = 1.0  # standard errors; a longer step is beyond the range of a quadratic model
SLOW = 0.5  # a step that leaves a larger share of the gradient contradicts the quadratic model
_SLOWEST = 0.9
SHARE_OF_SE = 0.1
_ROUNDING = 1e-12  # of the loss: a standard error that is smaller is none
_SHARE_OF_LOSS = 1e-3  # where there is no standard error


class Verdict(Enum):
    """Reliability of a fold's loss; see the module's docstring."""

    GOOD = "good"
    FAIR = "fair"
    BAD = "bad"
    UNCHECKED = "unchecked"


def loss_errors(
    losses: np.ndarray,
    ahead: np.ndarray,
    sizes: np.ndarray,
    rates: np.ndarray | float = 0.0,
) -> np.ndarray:
    """(F,) estimated error of the mean loss of each fold.

    Args:
        losses, ahead: (F, W) losses at the returned parameters and one step ahead, zero for padding.
        sizes: (F,) how many points the fold scores, by which the sum of a row is divided.
        rates: (F,) share of the gradient that remains one step ahead.
    """
    with np.errstate(invalid="ignore", over="ignore"):  # a step ahead may lead anywhere
        change = ahead - losses
        first = (np.abs(change.sum(1)) + np.sqrt(np.sum(change**2, 1))) / sizes
    return first / (1.0 - np.minimum(rates, _SLOWEST))


def default_tolerance(se: float, losses: np.ndarray) -> float:
    """The acceptable error of a fold's loss: a tenth of the standard error of the estimate or, without
    one, a thousandth of the mean absolute value of the folds' finite `losses`."""
    size = float(np.abs(losses).sum()) / max(len(losses), 1)
    if np.isfinite(se) and se > _ROUNDING * size:
        return SHARE_OF_SE * se
    return _SHARE_OF_LOSS * size


def sound(distances: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """(F,) whether the quadratic model behind an estimated error appears to hold."""
    return (distances <= FAR) & ~(rates > SLOW)


def verdicts(
    errors: np.ndarray,
    distances: np.ndarray,
    rates: np.ndarray,
    checked: np.ndarray,
    tolerance: float,
    doubtful: np.ndarray | bool = False,
) -> list[Verdict]:
    """One verdict per fold; a rate is nan where no step ahead was needed; `doubtful`: there may be a
    better optimum."""
    good = (SAFETY * errors <= tolerance) & sound(distances, rates) & ~np.asarray(doubtful)
    fair = errors <= tolerance  # False for nan, which is therefore bad
    chosen = np.select([~checked, good, fair], [0, 1, 2], default=3)
    order = (Verdict.UNCHECKED, Verdict.GOOD, Verdict.FAIR, Verdict.BAD)
    return [order[i] for i in chosen]
