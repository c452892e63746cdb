"""Reasons to be careful with a result: one place decides, for print-outs, notebooks and reports.

A verdict is about the optimum that a fold ended in: how far its loss is from that of an exact refit to
the same optimum. Where the fit is known not to be at its best one, or many folds may have a better one,
small errors say little about the estimate, and are not shown as its error. Nor is an error that is
larger than what it is the error of, see `is_usable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from fitonce.core.wording import ONE_START, counted
from fitonce.results.missed import Missed
from fitonce.results.verdicts import sound

if TYPE_CHECKING:
    from fitonce.results.result import CVResult

_LARGE = 0.25  # of the folds: from here on, optima that were missed are a reason to doubt the estimate
BEGIN_THERE = "fo.fit(fit.model, fit.data, init=cv.better)"
WITHIN = "within the optima that were found"
_GOOD_PART = 0.25  # of the standard error: an error so large is said beside intervals


_LOOK_AGAIN = "fo.fit(fit.model, fit.data)"


def had_no_other_starts(cv: CVResult) -> bool:
    """Whether the fit was brought from elsewhere or had one start, so that it may be in a poor optimum
    itself."""
    known = cv.summary.optima  # none of a convex objective
    return known is not None and known.starts < 2


def advice_on_starts(cv: CVResult) -> str:
    """How a fit without other starts is given some."""
    known = cv.summary.optima
    if known is not None and known.single:
        return ONE_START
    return f"{_LOOK_AGAIN}, or `fitonce fit`, has random ones where the model has"


def advice_on_better(cv: CVResult) -> str:
    """Code for a better fit, where folds led to a better optimum: from there, unless the fit had no
    other starts, of which some are likely to go further."""
    known = cv.summary.optima
    again = had_no_other_starts(cv) and not (known is not None and known.single)
    return _LOOK_AGAIN if again else BEGIN_THERE


def better_fit(cv: CVResult) -> str:
    """That folds led to a better optimum of all data, and by how much; empty if none did."""
    if cv.better_theta is None:
        return ""
    by = f" {cv.better_by:.2g} nats" if np.isfinite(cv.better_by) else ""
    return f"a fold led to one that is{by} better"


def may_be_better(folds: pd.DataFrame) -> pd.Series:
    """Of each fold, whether it may have a better optimum."""
    return folds["missed"] != Missed.NO.value


def in_large_part(cv: CVResult) -> int:
    """How many folds may have a better optimum, if that is a large part of them; else 0."""
    doubtful = int((may_be_better(cv.folds) & cv.folds["ok"]).sum())
    return doubtful if doubtful >= _LARGE * len(cv.folds) else 0


def about_missed_optima(cv: CVResult) -> list[str]:
    """What makes the error of the estimate unknown, although those of its folds are known."""
    found = []
    if cv.better_theta is not None:
        found.append(f"the fit is not at its best optimum: {better_fit(cv)}")
    if doubtful := in_large_part(cv):
        found.append(f"{doubtful:,} of {counted(len(cv.folds), 'fold')} may have a better optimum")
    return found


def doubts(cv: CVResult) -> list[str]:
    """See `CVResult.doubts`."""
    ok, every = cv.folds["ok"], counted(len(cv.folds), "fold")
    found = [] if cv.fit.ok else ["the fit is not a certified minimum"]
    found += about_missed_optima(cv)
    counts = {
        "without a usable number": cv.n_failed,
        "with a bad verdict": int((ok & (cv.folds["verdict"] == "bad")).sum()),
        "unfinished": cv.n_unfinished,
    }
    return found + [f"{count:,} of {every} {what}" for what, count in counts.items() if count]


def is_unchecked(cv: CVResult) -> bool:
    """Whether nothing is known about the errors of folds."""
    return bool((cv.folds["verdict"] == "unchecked").all())


NOT_USABLE = "not usable"


def is_usable(error: float, loss: float, se: float) -> bool:
    """Whether an estimated error of a loss is a number to go by: it is at most as large as the loss
    itself or as the standard error of the estimate, whichever is larger. A larger one was extrapolated
    from a step that is too long, and only says that nothing is known."""
    return bool(error <= max(abs(loss), se if np.isfinite(se) else 0.0))


def error_in_words(error: float, loss: float, se: float) -> str:
    """ "0.0021", or that it is not usable."""
    if not is_usable(error, loss, se):
        return NOT_USABLE
    return _size_in_words(error)


def _size_in_words(size: float) -> str:
    return f"{size:.2g}" if size == 0 or 0.01 <= size < 1000 else f"{size:.1e}"


class Error(NamedTuple):
    """What is known of the error of the estimate against exact refits.

    Attributes:
        how: "about"; "at least", where it is known of some folds only, or steps are too long for it;
            "unknown"; or "not usable", where it is larger than the loss.
        size: nan where it is unknown.
        beside: its share of the standard error, or where it is unknown.
        missed: whether it is that within the optima that were found, while there are better ones.
    """

    how: str
    size: float
    beside: str
    missed: bool

    @property
    def words(self) -> str:
        """In a print-out."""
        if self.how == NOT_USABLE:
            return f"{self.how} (estimated larger than the loss)"
        if self.how == "unknown":
            return self.how
        known = f"{self.how} {_size_in_words(self.size)}"
        return f"unknown ({known} {WITHIN})" if self.missed else f"{known}{self.beside}"


def error_of(cv: CVResult) -> Error:
    """Of a result of which some fold was checked."""
    found = _estimated(cv)
    if found.how == "unknown" or is_usable(found.size, cv.estimate, cv.se):
        return found
    return Error(NOT_USABLE, float("nan"), "", found.missed)


def _estimated(cv: CVResult) -> Error:
    missed, used = bool(about_missed_optima(cv)), cv.folds[cv.folds["ok"]]
    checked = used["verdict"] != "unchecked"
    if np.isfinite(cv.error):
        sure = sound(used["distance"].to_numpy(), used["rate"].to_numpy()).all()
        how = "about" if sure or not checked.all() else "at least"
        beside = share_of_se(cv, "of se", "x se")
        return Error(how, cv.error, f", {beside}" if beside else "", missed)
    errors = used.loc[checked, "error"]
    finite = errors[np.isfinite(errors)]
    if finite.empty:
        return Error("unknown", float("nan"), "", missed)
    without = counted(len(errors) - len(finite), "fold")
    return Error("at least", float(finite.sum()) / len(errors), f" (unknown in {without})", missed)


def share_of_se(cv: CVResult, few: str, many: str) -> str:
    """The error of the estimate in standard errors: per cent that are `few`, or times that are `many`;
    empty where it or they are not known."""
    if not (np.isfinite(cv.error) and np.isfinite(cv.se) and cv.se > 0):
        return ""
    ratio = cv.error / cv.se
    return f"{100 * ratio:.2g} % {few}" if ratio < 1 else f"{ratio:.1f} {many}"


def beyond_interval(cv: CVResult) -> str:
    """Where the error of the estimate is a good part of the standard error or more, or nobody knows it:
    what an interval leaves out; else empty."""
    if is_unchecked(cv):
        return ""
    if about_missed_optima(cv):
        return "without what better optima would change"
    if not np.isfinite(cv.error):
        return "without the error of the estimate, which is not known in all folds"
    if not (cv.se > 0 and cv.error >= _GOOD_PART * cv.se):
        return ""
    found = error_of(cv)
    if found.how == NOT_USABLE:
        return f"without the error of the estimate, which is {NOT_USABLE}"
    return f"without the error of the estimate, {found.words}"
