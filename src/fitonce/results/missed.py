"""Why a fold may have a better optimum than the one that it is in."""

from __future__ import annotations

from enum import Enum

import pandas as pd

BETTER = "there may be a better optimum"


class Missed(Enum):
    """The values of the column `missed` of a table of folds."""

    NO = ""
    UNSEARCHED = "unsearched"
    SELDOM = "seldom"
    LOWER = "lower"
    SCATTERED = "scattered"

    @property
    def of_folds(self) -> str:
        """What such folds did, after their number."""
        return _OF_FOLDS[self]


_OF_FOLDS = {
    Missed.NO: "",
    Missed.UNSEARCHED: "had no random starts, and starts of the fit or other folds disagree",
    Missed.SELDOM: "found theirs once or twice only",
    Missed.LOWER: "went lower where no optimum could be certified",
    Missed.SCATTERED: "ended most starts in optima of their own",
}
_IN_STATUS = {
    "not searched": Missed.UNSEARCHED,
    "a descent went lower": Missed.LOWER,
    "most starts ended": Missed.SCATTERED,
}  # else its optimum was found too seldom


def with_missed(folds: pd.DataFrame) -> pd.DataFrame:
    """A table of folds from a file, with the column `missed`: earlier versions said it in words only, in
    the column `status`."""
    if "missed" not in folds:
        doubted = folds["status"].str.contains(BETTER, regex=False)
        found = pd.Series("", index=folds.index).mask(doubted, Missed.SELDOM.value)
        for mark, why in _IN_STATUS.items():
            of_it = doubted & folds["status"].str.contains(mark, regex=False)
            found = found.mask(of_it, why.value)
        return folds.assign(missed=found)
    for value in folds["missed"].unique():
        Missed(value)  # raises where there is no such reason
    return folds
