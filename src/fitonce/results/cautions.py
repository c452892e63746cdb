"""What to be careful about in a comparison, as users of loo and ArviZ know it.

* Few points: with fewer than a hundred, the distribution of a difference may be far from normal.
* Small differences: below 4 nats over all data models predict so alike that the standard error is too
  small, and the difference of little use (Sivula, Magnusson, Matamoros and Vehtari 2025).
* Few independent stretches: neighbours depend on each other, so that a hundred points may be five.
* Many models: the best of many looks good by chance. If K models were equally good, their losses would
  differ by noise, and the lead of the best over the middle one would be the largest of K draws of it
  (McLatchie and Vehtari 2024). A lead that such draws reach more often than once in twenty times is no
  reason to choose. The size of the noise comes from the paired standard errors, which know the memory
  of the losses; loo takes the spread of the differences themselves, to which real differences between
  models add, and compares with the median of the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from fitonce.results.standard_errors import FEW, Spread

FEW_POINTS = 100
SMALL = 4.0  # nats
MANY = 11  # models; with more, the lead of the best is checked
_RARE = 0.05
EXPLAINED = {
    "N < 100": "under 100 points or sequences were scored, so that p_worse may be too sure",
    "few stretches": "the losses are worth few independent ones, so that difference_se is itself "
    "uncertain",
    "|nats| < 4": "too small a difference to choose by, and difference_se may be too small",
}


class Lead(NamedTuple):
    """Of the best of many models.

    Attributes:
        over: the name of the middle model.
        size: by how much the loss of the best is below that of the middle one.
        by_chance: a lead that is exceeded once in twenty times if all are equally good.
    """

    over: str
    size: float
    by_chance: float


def notes(nats: float, n_scored: int, stretches: float) -> str:
    """Short notes on one difference, separated by commas; see `EXPLAINED`."""
    found = {
        "N < 100": n_scored < FEW_POINTS,
        "few stretches": stretches < FEW,  # nan: not known
        "|nats| < 4": abs(nats) < SMALL,
    }
    return ", ".join(note for note, holds in found.items() if holds)


def lead_by_chance(spreads: Sequence[Spread], count: int) -> float:
    """The lead over the middle one that the best of `count` equally good models exceeds once in twenty
    times; `spreads` are those of the differences between the better half and the middle one."""
    if not all(np.isfinite(spread.se) and spread.dof >= 1 for spread in spreads):
        return float("nan")
    variance = float(np.mean([spread.se**2 for spread in spreads]))
    dof = float(np.median([spread.dof for spread in spreads]))
    # A difference has the noise of two models; what the noise of the middle one is, the order says.
    return np.sqrt(0.5 * variance) * float(stdtrit(dof, (1.0 - _RARE) ** (1.0 / (count - 1))))
