"""The section on the reliability of folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.status import Rung
from fitonce.core.wording import counted
from fitonce.results.doubts import NOT_USABLE, is_usable, may_be_better
from fitonce.results.report.markup import Markup, advice, details, join, number, paragraph, table, tag
from fitonce.results.summary import Result
from fitonce.results.verdicts import SAFETY, Verdict, sound

_LISTED = 20
_LONGEST = 300
_FAILED = "no number"
_MEANING = {
    Verdict.GOOD.value: "Three times the error is within the tolerance, and all other checks passed.",
    Verdict.FAIR.value: "The error is within the tolerance, but one of the conditions for good fails.",
    Verdict.BAD.value: "The error is above the tolerance or unknown. Remedy: refits.",
    Verdict.UNCHECKED.value: "Not checked, so that there is no estimate of the error.",
    _FAILED: "No usable number; the fold is not in the estimate.",
}
_RUNGS = {rung.value: rung.meaning for rung in Rung}
_BY_SLOPE = "the loss expanded to first order around the full fit, with its Hessian"  # of loo


def verdicts_section(result: Result, spans: pd.Series, named: dict[int, str]) -> Markup:
    """Counts of verdicts, unreliable folds, rungs; `spans`: the places that each fold scored; `named`:
    folds of one site by name."""
    folds = result.folds.assign(
        span=spans.reindex(result.folds.index, fill_value=""),
        scores=result.loss != "joint",
        name=[named.get(fold, "") for fold in result.folds.index],
        shown=[
            error if is_usable(error, loss, result.se) or not np.isfinite(error) else NOT_USABLE
            for error, loss in result.folds[["error", "loss"]].to_numpy(float)
        ],
    )
    called = result.folds["verdict"].where(result.folds["ok"], _FAILED)
    counts = {name: int((called == name).sum()) for name in _MEANING}
    rows = [(_swatch(name), counts[name], meaning) for name, meaning in _MEANING.items()]
    return join(
        [
            paragraph(_sentence(counts)),
            _bar(counts),
            table(("verdict", "folds", "meaning"), rows, "Verdicts"),
            paragraph(f"The tolerance is {number(result.tolerance, 3)}, in units of the loss."),
            _few(result),
            _untrusted(folds, result.method),
            _fair(folds, result.tolerance),
            _rungs(result),
            details(f"All folds ({len(result.folds):,})", _all_folds(folds)),
        ]
    )


def _few(result: Result) -> Markup:
    """What folds lose that leave out the few points of a state."""
    few = result.summary.about_few
    if not few:
        return Markup("")
    why = (
        ": what the model says there is what these few say, and folds that leave them out have to do "
        "without."
    )
    return paragraph(tag("strong", f"{few[:1].upper()}{few[1:]}"), why, class_="note caution")


def _sentence(counts: dict[str, int]) -> str:
    words = {_FAILED: "without a usable number"}
    named = [f"{count:,} {words.get(name, name)}" for name, count in counts.items() if count]
    return f"Of {counted(sum(counts.values()), 'fold')}: " + ", ".join(named) + "."


def _swatch(verdict: str) -> Markup:
    """The verdict with its colour."""
    colour = tag("span", "", class_=f"swatch {verdict.replace(' ', '-')}", aria_hidden="true")
    return tag("span", colour, verdict, class_="nowrap")


def _bar(counts: dict[str, int]) -> Markup:
    total, start, parts = max(sum(counts.values()), 1), 0.0, []
    for name, count in counts.items():
        wide = 600 * count / total
        shape = {"x": f"{start:.2f}", "width": f"{wide:.2f}", "height": 18}
        parts.append(tag("rect", **shape, class_=name.replace(" ", "-")))
        start += wide
    view = {"viewBox": "0 0 600 18", "preserveAspectRatio": "none"}
    return tag("svg", *parts, **view, role="img", aria_label=_sentence(counts), class_="verdicts")


def _untrusted(folds: pd.DataFrame, method: str) -> Markup:
    """Those without a usable number and those with a bad verdict, and nothing else."""
    chosen = folds[~folds["ok"] | (folds["verdict"] == Verdict.BAD.value)]
    chosen = chosen.sort_values(["ok", "error"], ascending=[True, False], kind="stable")
    heading = tag("h3", "Folds not to be trusted")
    unchecked = (folds["verdict"] == Verdict.UNCHECKED.value).all()
    shown = [heading]
    if chosen.empty:
        shown.append(paragraph("Unknown: no fold was checked." if unchecked else "None."))
    else:
        shown += [
            _fold_table(chosen.iloc[:_LISTED], "Folds not to be trusted"),
            _remedy("To refit them", ', method="exact"', "--method exact"),
        ]
    if unchecked:
        shown.append(_check(method))
    if len(chosen) > _LISTED:
        rest = _fold_table(chosen.iloc[_LISTED:_LONGEST], "More folds not to be trusted")
        shown.insert(-1, details(f"{len(chosen[:_LONGEST]) - _LISTED:,} more", rest))
    return join(shown)


def _remedy(what: str, option: str, flag: str) -> Markup:
    """In Python, and as an option of the command that made the result."""
    code = advice(f"fo.cross_validate(fit, folds{option})")
    return paragraph(f"{what}, in Python: ", code, "; on the command line: ", tag("code", flag), ".")


def _check(method: str) -> Markup:
    """How to have folds checked; methods that refine do so by themselves, unless time runs out."""
    single = method in ("none", "ij", "onestep", "newton")
    option = f', method="{method}", check="all"' if single else ""
    return _remedy("To check them", option, "--method auto")


def _fair(folds: pd.DataFrame, tolerance: float) -> Markup:
    """Why folds are fair and not good."""
    fair = folds[folds["ok"] & (folds["verdict"] == Verdict.FAIR.value)]
    if fair.empty:
        return Markup("")
    doubted = may_be_better(fair)
    unsound = ~sound(fair["distance"].to_numpy(), fair["rate"].to_numpy())
    reasons: dict[str, pd.Series] = {
        "moved far: a parameter depends mainly on what was left out": fair["away"],
        "there may be a better optimum": doubted,
        f"the error is within the tolerance, but not {SAFETY:g} times": SAFETY * fair["error"]
        > tolerance,
        "far from its own optimum, or steps converge slowly": pd.Series(unsound, fair.index),
    }
    rows = [(why, int(holds.sum())) for why, holds in reasons.items() if holds.any()]
    said = "Fair folds are in the estimate. Why they are not good:"
    return join(
        [tag("h3", "Fair folds"), paragraph(said), table(("reason", "folds"), rows, "Fair folds")]
    )


def _fold_table(folds: pd.DataFrame, label: str) -> Markup:
    scored = "scored" if folds["scores"].all() else "left out"
    columns = ["fold", scored, "verdict", "loss", "control", "error", "points", "rung", "status"]
    called = np.where(folds["ok"], folds["verdict"], _FAILED)
    values = (folds[name] for name in ("loss", "control", "shown", "size", "rung", "status"))
    first: list[Any] = [map(str, folds.index), folds["span"]]
    if (folds["name"] != "").all():  # each is of one site, and called by its name
        del columns[1]
        first = [folds["name"]]
    return table(columns, zip(*first, called, *values, strict=True), label)


def _all_folds(folds: pd.DataFrame) -> Markup:
    if len(folds) <= _LONGEST:
        return _fold_table(folds, "All folds")
    all_of_them = advice("cv.to_dataframe()")
    words = join(
        [
            f"The {_LONGEST:,} of {len(folds):,} with the largest loss. All, in Python: ",
            all_of_them,
            ".",
        ]
    )
    largest = folds.sort_values("loss", ascending=False, kind="stable").iloc[:_LONGEST]
    return join([paragraph(words), _fold_table(largest, "Folds with the largest loss")])


def _rungs(result: Result) -> Markup:
    counts = result.folds["rung"].value_counts()
    order = [*(name for name in _RUNGS if name in counts), *sorted(set(counts.index) - set(_RUNGS))]
    meaning = _RUNGS | ({Rung.ONESTEP.value: _BY_SLOPE} if result.method == "loo" else {})
    rows = [(name, int(counts[name]), meaning.get(name, "")) for name in order]
    words = "How the parameters of the folds were obtained, the cheapest first."
    return join(
        [tag("h3", "Rungs"), paragraph(words), table(("rung", "folds", "meaning"), rows, "Rungs")]
    )
