"""A result of cross-validation as text, the estimate first and every doubt beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fitonce.core.status import Rung
from fitonce.core.wording import counted, duration
from fitonce.results.doubts import (
    advice_on_better,
    better_fit,
    error_in_words,
    error_of,
    had_no_other_starts,
)
from fitonce.results.fold_names import name_of_fold, named_folds
from fitonce.results.site_losses import largest_of, odd_sentence, sentence_of, table_of
from fitonce.results.summary import loss_in_words

if TYPE_CHECKING:
    from fitonce.results.result import CVResult

_ALONE, _MANY = 0.1, 30  # a share of the loss that is much for one point, of at least so many


def lines_of(cv: CVResult) -> list[str]:
    """Of the printed result."""
    spread = f"+- {cv.se:.4f}" if np.isfinite(cv.se) else "(no se)  "
    damped = f", H damped by {cv.damping:g}" if cv.damping else ""
    damped += f", likelihoods by {about}" if (about := cv.fit.approximation) else ""
    averaged = loss_in_words(cv.scheme, cv.loss)
    lines = [
        f"Cross-validation: {cv.left_out}",
        f"  estimate  {cv.estimate:.4f} {spread}   mean over folds of {averaged}",
        *([f"            {cv.about_se}"] if cv.about_se else []),
        f"  control   {cv.control:.4f}            same folds, parameters not adjusted",
        f"  method    {cv.method}, scheme {cv.scheme}{damped}{_rungs(cv)}",
        *_under("  trust     ", trust(cv)),
        *([f"            {cv.about_optima}"] if cv.about_optima else []),
    ]
    if cv.better_theta is not None:
        better = (
            f"not the best optimum: {better_fit(cv)}, {advice_on_better(cv)}; --optima 50 looks for more"
        )
        lines.insert(1, f"  FIT       {better}")
    wrong = ~cv.folds["ok"] | (cv.folds["verdict"] == "bad")
    if wrong.any() or cv.n_unfinished:
        lines.append(f"  FOLDS     {cv.treatment}")
        lines += _first_of(cv, cv.folds[wrong])
    away = cv.folds["away"] & ~wrong
    if away.any():
        count = f"{int(away.sum()):,} of {counted(len(cv.folds), 'fold')}"
        lines.append(f"  far       {count}, included: parameters are far from those of the full fit")
        lines += _first_of(cv, cv.folds[away])
    lines += _sites(cv)
    times = f"  time      {duration(cv.seconds)}"
    if cv.compiling > 0.2 * cv.seconds:
        times += f", including {duration(cv.compiling)} compiling"
    if cv.method != "exact" and np.isfinite(cv.refits_seconds):
        refits = counted(len(cv.folds), "refit")
        times += f"; {refits}, one start each, would take {refits_in_words(cv)}"
    lines.append(times)
    if "journal" in cv.about:
        lines.append(f"  journal   {cv.about['journal']}")
    if not cv.fit.ok:
        lines.append(f"  FIT       {cv.fit.status}")
    return lines


def _under(name: str, texts: list[str]) -> list[str]:
    """Lines of which the first is named."""
    return [f"{name if place == 0 else ' ' * len(name)}{text}" for place, text in enumerate(texts)]


def _first_of(cv: CVResult, folds: pd.DataFrame) -> list[str]:
    """The first five folds with their status."""
    lines, named = [], named_folds(cv)
    for fold, row in folds.iloc[:5].iterrows():
        error = error_in_words(row["error"], row["loss"], cv.se)
        known = f"; estimated loss error {error}" if np.isfinite(row["error"]) else ""
        if not row["ok"]:
            known = f"; loss {row['loss']:.4g}" if np.isfinite(row["loss"]) else ""
        lines.append(f"            {name_of_fold(named, fold)}: {row['status']}{known}")
    return lines


def _sites(cv: CVResult) -> list[str]:
    """The sites of a map that are predicted worst, by name; points of time where one carries much."""
    if not (cv.pointwise["site"] >= 0).any() or not cv.folds["ok"].any():
        return []
    if cv.fit.edges is None:
        return _points(cv)
    if cv.fit.places is None or cv.fit.places.sites is None:
        return []
    table = table_of(cv)
    odd = odd_sentence(table)
    return [
        f"  sites     largest losses: {sentence_of(table)}",
        *([f"  odd       {odd}"] if odd else []),
    ]


def _points(cv: CVResult) -> list[str]:
    """The largest losses, where one of them is a large part of all."""
    rows = cv.pointwise[cv.folds["ok"].to_numpy(bool)[cv.pointwise["fold"].to_numpy()]]
    losses = rows.groupby("site")["loss"].mean().to_numpy()
    if len(losses) < _MANY or not losses.max() - losses.mean() > _ALONE * np.abs(losses).sum():
        return []
    table = table_of(cv)
    share = 100 * float(table["loss"][0] / np.abs(losses).sum())
    return [f"  points    largest losses: {largest_of(table)}; the first is {share:.0f} % of the loss"]


def refits_in_words(cv: CVResult) -> str:
    """ "8 to 24 s": from the fastest and the slowest start of the fit."""
    least, most = duration(cv.refits_seconds), duration(cv.refits_most)
    if least == most or not np.isfinite(cv.refits_most):
        return f"about {least}"
    number, unit = least.split()
    return f"{number if most.endswith(f' {unit}') else least} to {most}"


def _rungs(cv: CVResult) -> str:
    if cv.method not in ("auto", "loo"):
        return ""
    counts = cv.folds["rung"].value_counts()
    named = [f"{counts[rung.value]:,} {rung.value}" for rung in Rung if rung.value in counts]
    return "; folds by rung: " + ", ".join(named)


def trust(cv: CVResult) -> list[str]:
    """Reasons for caution first, then the error of the estimate and the verdicts of its folds."""
    return [*([f"caution: {'; '.join(cv.doubts)}"] if cv.doubts else []), _checks(cv)]


def _checks(cv: CVResult) -> str:
    """The error of the estimate and the verdicts of its folds, in words."""
    verdicts = cv.folds.loc[cv.folds["verdict"] != "unchecked", "verdict"]
    if verdicts.empty and cv.damping:
        return "not checked: steps with a damped H are too short to estimate the error"
    if verdicts.empty and not cv.fit.ok:
        return "not checked: H is not positive definite at the fit"
    if verdicts.empty and cv.method == "auto":
        return "not checked: the budget ended before any fold was checked"
    if verdicts.empty:
        return "not checked; pass check= for an error estimate"
    counts = verdicts.value_counts()
    named = ", ".join(f"{counts[name]:,} {name}" for name in ("good", "fair", "bad") if name in counts)
    where = ["local"] if cv.optima_search == "local" else []
    where += ["at a fit without other starts"] if had_no_other_starts(cv) else []
    local = f" ({', '.join(where)})" if where else ""
    text = f"error of the estimate {error_of(cv).words}; verdicts{local}: {named}"
    if counts.get("bad", 0) and cv.method in ("ij", "onestep", "none", "newton"):
        text += "; use method='auto'"
    some = len(verdicts) < len(cv.folds)
    return text + (f" ({len(verdicts):,} of {len(cv.folds):,} folds checked)" if some else "")
