"""The section that says which folds to trust."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fitonce.core.status import Rung
from fitonce.results.report.markup import Markup, details, join, number, paragraph, table, tag
from fitonce.results.summary import Result
from fitonce.results.verdicts import Verdict

_LISTED = 20
_LONGEST = 2000
_FAILED = "no number"
_MEANING = {
    Verdict.GOOD.value: "Three times the error is within the tolerance, and nothing speaks against it.",
    Verdict.FAIR.value: "The error is within the tolerance, but the fold went far or looks odd.",
    Verdict.BAD.value: "The error is above the tolerance, or not known. Use method 'auto' or 'exact'.",
    Verdict.UNCHECKED.value: "Nobody looked. Ask for a check to have an error.",
    _FAILED: "There is no usable number; the fold is not in the estimate.",
}


_RUNGS = {rung.value: rung.meaning for rung in Rung}


def verdicts_section(result: Result, spans: pd.Series) -> Markup:
    """Counts of verdicts, folds that are not to be trusted, rungs; `spans`: what each fold scored."""
    folds = result.folds.assign(span=spans.reindex(result.folds.index, fill_value=""))
    called = result.folds["verdict"].where(result.folds["ok"], _FAILED)
    counts = {name: int((called == name).sum()) for name in _MEANING}
    rows = [
        (tag("span", _swatch(name), name, class_="nowrap"), counts[name], _MEANING[name])
        for name in _MEANING
    ]
    return join(
        [
            paragraph(_sentence(counts, len(result.folds))),
            _bar(counts),
            table(("verdict", "folds", "what it means"), rows, "Verdicts"),
            paragraph(f"The tolerance is {number(result.tolerance, 3)}, in units of the loss."),
            _untrusted(folds),
            _rungs(result),
            details(f"All folds ({len(result.folds):,})", _all_folds(folds)),
        ]
    )


def _sentence(counts: dict[str, int], total: int) -> str:
    words = {_FAILED: "without a usable number"}
    named = [f"{count:,} {words.get(name, name)}" for name, count in counts.items() if count]
    return f"Of {total:,} folds: " + ", ".join(named) + "."


def _swatch(name: str) -> Markup:
    return tag("span", "", class_=f"swatch {name.replace(' ', '-')}", aria_hidden="true")


def _bar(counts: dict[str, int]) -> Markup:
    total, start, parts = max(sum(counts.values()), 1), 0.0, []
    for name, count in counts.items():
        wide = 600 * count / total
        parts.append(
            tag("rect", x=f"{start:.2f}", width=f"{wide:.2f}", height=18, class_=name.replace(" ", "-"))
        )
        start += wide
    label = _sentence(counts, sum(counts.values()))
    shape = {"viewBox": "0 0 600 18", "preserveAspectRatio": "none"}
    return tag("svg", *parts, **shape, role="img", aria_label=label, class_="verdicts")


def _untrusted(folds: pd.DataFrame) -> Markup:
    chosen = folds[~folds["ok"] | (folds["verdict"] == Verdict.BAD.value) | folds["away"]]
    chosen = chosen.sort_values(["ok", "error"], ascending=[True, False], kind="stable")
    heading = tag("h3", "Folds not to be trusted")
    if chosen.empty:
        nobody = (folds["verdict"] == Verdict.UNCHECKED.value).all()
        words = "No fold was checked, so nobody knows." if nobody else "None."
        return join([heading, paragraph(words)])
    shown = [heading, _fold_table(chosen.iloc[:_LISTED], "Folds not to be trusted")]
    if len(chosen) > _LISTED:
        rest = chosen.iloc[_LISTED:_LONGEST]
        shown.append(details(f"{len(chosen) - _LISTED:,} more", _fold_table(rest, "More of them")))
    return join(shown)


def _fold_table(folds: pd.DataFrame, label: str) -> Markup:
    columns = ("fold", "scored", "verdict", "loss", "control", "error", "points", "rung", "status")
    called = np.where(folds["ok"], folds["verdict"], _FAILED)
    values = (folds[name] for name in ("loss", "control", "error", "size", "rung", "status"))
    fold_names = (str(name) for name in folds.index)
    return table(columns, zip(fold_names, folds["span"], called, *values, strict=True), label)


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
    return join([tag("h3", "Rungs"), table(("rung", "folds", "what was done"), rows, "Rungs")])
