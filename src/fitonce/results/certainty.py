"""How sure a result is: other optima of its folds, and what its standard error rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fitonce.core.wording import counted
from fitonce.results.standard_errors import FEW

if TYPE_CHECKING:
    from fitonce.results.result import CVResult


def about_optima(cv: CVResult) -> str:
    """See `CVResult.about_optima`."""
    if cv.optima_search == "convex":
        return ""
    if cv.optima_search == "local":
        return "local: other optima of the folds were not looked for"
    moved, used = cv.folds["optimum"] != 0, cv.folds["ok"]
    some = {
        "partly": " (random starts in some of the folds only)",
        "compared": " (compared with those of the fit only)",
    }.get(cv.optima_search, "")
    doubtful = int(cv.folds["status"].str.contains("there may be a better optimum").sum())
    more = f"; {counted(doubtful, 'fold')} may have a better one" if doubtful else ""
    if not moved.any():
        return f"other optima: none better was found in any fold{some}{more}"
    shift = float(cv.folds.loc[used, "shift"].mean())
    text = f"other optima: {moved.sum():,} of {counted(len(moved), 'fold')} moved"
    return f"{text}, estimate {shift:+.4f}, included{some}{more}"


def about_se(cv: CVResult) -> str:
    """See `CVResult.about_se`."""
    if not np.isfinite(cv.se):
        return ""
    if cv.se == 0:
        return "all losses are equal: the se is 0, and says nothing about other data"
    if cv.dof < 2:
        why = f"losses remember about {cv.memory:.0f} steps"
        if np.isnan(cv.memory):
            why = "there are only two sequences or regions"
        return f"too short to tell: {why}, the se is a guess"
    low, high = cv.interval()
    number = round(cv.stretches)
    what = "independent stretch" if np.isfinite(cv.memory) else "independent part"
    things = counted(number, what, f"{what}es" if what.endswith("ch") else f"{what}s")
    few = " (few: the se itself is uncertain)" if cv.stretches < FEW else ""
    return f"95 %: {low:.4f} to {high:.4f}; se from about {things}{few}"
