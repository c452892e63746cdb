"""The section on the reliability of folds."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fitonce.core.status import Rung
from fitonce.core.wording import counted
from fitonce.results.report.markup import Markup, details, join, number, paragraph, table, tag
from fitonce.results.summary import Result
from fitonce.results.verdicts import Verdict

_LISTED = 20
_LONGEST = 2000
_FAILED = "no number"
_MEANING = {
    Verdict.GOOD.value: "Three times the error is within the tolerance, and all other checks passed.",
    Verdict.FAIR.value: "The error is within the tolerance, but one of the conditions for good fails.",
    Verdict.BAD.value: "The error is above the tolerance or unknown. Use method 'auto' or 'exact'.",
    Verdict.UNCHECKED.value: "Not checked. Pass check= for an error estimate.",
    _FAILED: "No usable number; the fold is not in the estimate.",
}
_RUNGS = {rung.value: rung.meaning for rung in Rung}


def verdicts_section(result: Result, spans: pd.Series) -> Markup:
    """Counts of verdicts, unreliable folds, rungs; `spans`: the places that each fold scored."""
    folds = result.folds.assign(span=spans.reindex(result.folds.index, fill_value=""))
    called = result.folds["verdict"].where(result.folds["ok"], _FAILED)
    counts = {name: int((called == name).sum()) for name in _MEANING}
    rows = [(_swatch(name), counts[name], meaning) for name, meaning in _MEANING.items()]
    return join(
        [
            paragraph(_sentence(counts)),
            _bar(counts),
            table(("verdict", "folds", "meaning"), rows, "Verdicts"),
            paragraph(f"The tolerance is {number(result.tolerance, 3)}, in units of the loss."),
            _untrusted(folds),
            _rungs(result),
            details(f"All folds ({len(result.folds):,})", _all_folds(folds)),
        ]
    )


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


def _untrusted(folds: pd.DataFrame) -> Markup:
    chosen = folds[~folds["ok"] | (folds["verdict"] == Verdict.BAD.value) | folds["away"]]
    chosen = chosen.sort_values(["ok", "error"], ascending=[True, False], kind="stable")
    heading = tag("h3", "Unreliable folds")
    if chosen.empty:
        unchecked = (folds["verdict"] == Verdict.UNCHECKED.value).all()
        return join([heading, paragraph("Unknown: no fold was checked." if unchecked else "None.")])
    shown = [heading, _fold_table(chosen.iloc[:_LISTED], "Unreliable folds")]
    if len(chosen) > _LISTED:
        rest = _fold_table(chosen.iloc[_LISTED:_LONGEST], "More unreliable folds")
        shown.append(details(f"{len(chosen) - _LISTED:,} more", rest))
    return join(shown)


def _fold_table(folds: pd.DataFrame, label: str) -> Markup:
    columns = ("fold", "scored", "verdict", "loss", "control", "error", "points", "rung", "status")
    called = np.where(folds["ok"], folds["verdict"], _FAILED)
    values = (folds[name] for name in ("loss", "control", "error", "size", "rung", "status"))
    return table(columns, zip(map(str, folds.index), folds["span"], called, *values, strict=True), label)


def _all_folds(folds: pd.DataFrame) -> Markup:
    if len(folds) <= _LONGEST:
        return _fold_table(folds, "All folds")
    words = f"The {_LONGEST:,} folds with the largest loss, of {len(folds):,}."
    largest = folds.sort_values("loss", ascending=False, kind="stable").iloc[:_LONGEST]
    return join([paragraph(words), _fold_table(largest, "Folds with the largest loss")])


def _rungs(result: Result) -> Markup:
    counts = result.folds["rung"].value_counts()
    order = [*(name for name in _RUNGS if name in counts), *sorted(set(counts.index) - set(_RUNGS))]
    rows = [(name, int(counts[name]), _RUNGS.get(name, "")) for name in order]
    return join([tag("h3", "Rungs"), table(("rung", "folds", "meaning"), rows, "Rungs")])
