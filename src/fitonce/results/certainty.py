"""How sure a result is: folds that it leaves out, other optima, and what its standard error rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fitonce.core.wording import counted
from fitonce.results.doubts import (
    advice_on_starts,
    beyond_interval,
    had_no_other_starts,
    may_be_better,
)
from fitonce.results.missed import Missed
from fitonce.results.standard_errors import FEW

if TYPE_CHECKING:
    from fitonce.results.result import CVResult

_SEEN = 0.1  # standard errors: a smaller change of the estimate is not said
_UNITS = {"points": "point", "clusters": "cluster", "regions": "region"}  # see `CVResult.units`
_LONGER = 5  # times as long, that a search is advised to take


def about_optima(cv: CVResult) -> str:
    """See `CVResult.about_optima`."""
    if cv.optima_search == "convex":
        return ""
    if cv.optima_search == "local":
        return f"local: other optima of the folds were not looked for{_of_fit(cv)}"
    moved, used = cv.folds["optimum"] != 0, cv.folds["ok"]
    some = {
        "partly": " (random starts in some of the folds only)",
        "compared": " (compared with those of the fit only)",
    }.get(cv.optima_search, "")
    more = f"{_may_be_better(cv)}{_of_fit(cv)}"
    if not moved.any():
        return f"other optima: none better was found in any fold{some}{more}"
    shift = float(cv.folds.loc[used, "shift"].mean())
    text = f"other optima: {moved.sum():,} of {counted(len(moved), 'fold')} moved"
    against = " against staying with the fit's" if moved.all() else ""
    return f"{text}, estimate {shift:+.4f}{against}, included{some}{more}"


def _may_be_better(cv: CVResult) -> str:
    """How many folds may have a better optimum, why, and what to do about it; empty where none may."""
    doubtful = int(may_be_better(cv.folds).sum())
    if not doubtful:
        return ""
    counts = {why: int((cv.folds["missed"] == why.value).sum()) for why in Missed}
    some = {why: number for why, number in counts.items() if number and why is not Missed.NO}
    known = [f"{'these' if len(some) == 1 else f'{n:,}'} {why.of_folds}" for why, n in some.items()]
    text = f"; {counted(doubtful, 'fold')} may have a better one that was not met"
    return f"{text}: {', '.join(known)}{_remedy(cv, counts[Missed.UNSEARCHED])}"


def _remedy(cv: CVResult, unsearched: int) -> str:
    """What looks further, and what it costs; `unsearched` folds had no random starts."""
    if cv.method == "loo":
        return "; fo.cross_validate(fit, folds) has random starts"
    if not cv.starts:  # a file that does not say how many there could be
        return ""
    searched = len(cv.folds) - unsearched
    times = -(-len(cv.folds) // searched) if unsearched and searched else _LONGER
    fewer = ", or leave out fewer folds" if times > _LONGER else ""
    asked = cv.starts * max(min(times, _LONGER), 2)
    return f"; optima={asked} (--optima {asked}) looks up to {asked // cv.starts} times as long{fewer}"


def _of_fit(cv: CVResult) -> str:
    """A fit that was brought from elsewhere, or had one start, may be in a poor optimum itself."""
    if not had_no_other_starts(cv):
        return ""
    if cv.optima_search == "local":
        return f", nor better ones of the fit, which had no other starts: {advice_on_starts(cv)}"
    return f"; the fit had no other starts: {advice_on_starts(cv)}"


def treatment(cv: CVResult) -> str:
    """See `CVResult.treatment`."""
    ok, bad = cv.folds["ok"], cv.folds["verdict"] == "bad"
    failed, n_bad, all_folds = cv.n_failed, int((ok & bad).sum()), counted(len(ok), "fold")
    parts = []
    if failed:
        parts.append(f"{failed:,} of {all_folds} without a usable number, left out{_with_failed(cv)}")
    if n_bad:
        parts.append(f"{n_bad:,} of {all_folds} with a bad verdict, included")
    if 0 < n_bad <= 0.1 * len(ok):
        parts[-1] += f" (estimate without: {cv.folds.loc[ok & ~bad, 'loss'].mean():.4f})"
    if cv.n_unfinished:
        ended = "an interruption" if cv.about.get("interrupted") else "the budget"
        parts.append(f"{ended} left {cv.n_unfinished:,} of {all_folds} unfinished")
    return "; ".join(parts) or f"all {all_folds} included"


def _with_failed(cv: CVResult) -> str:
    """What the estimate would be with the losses that folds without a certificate have; empty where they
    have none, or these would hardly change it."""
    losses, ok = cv.folds["loss"], cv.folds["ok"]
    known = ok | np.isfinite(losses)
    changed = float(losses[known].mean()) - cv.estimate
    if known.equals(ok) or not abs(changed) > _SEEN * (cv.se if np.isfinite(cv.se) else 0.0):
        return ""
    size = f", {abs(changed) / cv.se:.1f} se {'higher' if changed > 0 else 'lower'}" if cv.se > 0 else ""
    return f" (estimate with what is known of their losses: {cv.estimate + changed:.4f}{size})"


def se_is_a_guess(cv: CVResult) -> bool:
    """Whether data are too short to tell the standard error."""
    return bool(cv.se > 0 and cv.dof < 2)


def about_se(cv: CVResult) -> str:
    """See `CVResult.about_se`."""
    if not np.isfinite(cv.se):
        return ""
    if cv.se == 0:
        return "all losses are equal: the se is 0, and says nothing about other data"
    if se_is_a_guess(cv):
        why = f"losses remember about {cv.memory:.0f} steps"
        if np.isnan(cv.memory):
            why = "there are only two sequences, clusters or regions"
        return f"too short to tell: {why}, the se is a guess"
    low, high = cv.interval()
    number = round(cv.stretches)
    what = "independent " + ("stretch" if np.isfinite(cv.memory) else _UNITS.get(cv.units, "part"))
    things = counted(number, what, f"{what}es" if what.endswith("ch") else f"{what}s")
    by = f"t with {cv.dof:.3g} degrees of freedom"
    few = f" (few: the se itself is uncertain; {by})" if cv.stretches < FEW else ""
    without = beyond_interval(cv)
    beside = f", {without}" if without else ""
    return f"95 %: {low:.4f} to {high:.4f}{beside}; se from about {things}{few}"
