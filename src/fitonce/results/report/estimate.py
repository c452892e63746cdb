"""The section on the estimate: its control, its error, and exact refits beside it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fitonce.core.wording import counted
from fitonce.results.doubts import (
    NOT_USABLE,
    WITHIN,
    advice_on_better,
    better_fit,
    beyond_interval,
    error_of,
    is_unchecked,
    share_of_se,
)
from fitonce.results.report.facts import about_starts
from fitonce.results.report.markup import Markup, advice, join, number, paragraph, tag
from fitonce.results.report.points import Pairs
from fitonce.results.report.ranges import Row, ranges
from fitonce.results.summary import Result, loss_in_words


class Refits(NamedTuple):
    """Exact refits of some folds: how many, the mean of their losses, and that of the estimate's losses
    in the same folds."""

    folds: int
    exact: float
    estimate: float


def refits_of(pairs: Pairs, result: Result) -> Refits | None:
    """Means over folds, as the estimate has them; None where there are none, or some loss is not
    finite."""
    if not pairs.exact or pairs.table.empty:
        return None
    means = pairs.table.groupby("fold")[["x", "y"]].mean()
    if result.loss == "joint":  # one row for each fold, with the sum over its points
        means = means.div(result.folds["size"].reindex(means.index), axis=0)
    means = means[result.folds["ok"].reindex(means.index, fill_value=False)]
    if means.empty or not np.isfinite(means.to_numpy()).all():
        return None
    return Refits(len(means), *(float(mean) for mean in means.mean()))


def estimate_section(result: Result, pairs: Pairs) -> Markup:
    """The estimate, its control, its error against exact refits and, where there are some, these."""
    refits = refits_of(pairs, result)
    contents = [
        ("estimate", number(result.estimate, 5), f"standard error {number(result.se, 3)}"),
        ("control", number(result.control, 5), "same folds, parameters not adjusted"),
        ("error of the estimate", *_error(result)),
        *([] if refits is None else [apart(refits, result)]),
    ]
    boxes = [
        tag("dl", tag("dt", name), tag("dd", value, class_="value"), tag("dd", words), class_="box")
        for name, value, words in contents
    ]
    return join(
        [
            tag("div", *boxes, class_="boxes"),
            _interval(result, refits),
            *([] if refits is None else [paragraph(_measured(refits, result))]),
            paragraph(
                f"Mean over folds of {loss_in_words(result.scheme, result.loss)}. Lower is better."
            ),
            paragraph(tag("strong", "Folds in the estimate: "), result.treatment, "."),
            *_certainty(result),
        ]
    )


class Apart(NamedTuple):
    """The estimate less exact refits, of the folds that were refitted: their own means, so that other
    folds make no difference. The one place that says it.

    Attributes:
        name: "estimate minus exact refits on 20 folds".
        size: "+0.0003".
        beside: how it was found, and its share of the standard error.
    """

    name: str
    size: str
    beside: str


def apart(refits: Refits, result: Result) -> Apart:
    """In words."""
    difference = refits.estimate - refits.exact
    every = "all " if refits.folds == len(result.folds) else ""
    ratio = abs(difference) / result.se if result.se > 0 else math.nan
    share = f", {number(ratio, 2)} standard errors" if ratio >= 0.1 else ""
    beside = f"measured on the same folds{share}" if not every else f"measured{share}"
    return Apart(
        f"estimate minus exact refits on {every}{counted(refits.folds, 'fold')}",
        f"{'+' if difference > 0 else ''}{number(difference, 2)}",
        beside,
    )


def _measured(refits: Refits, result: Result) -> str:
    known = error_of(result)
    found = apart(refits, result)
    name = f"{found.name[:1].upper()}{found.name[1:]}"
    words = f"{name}: {found.size}, {found.beside}. Refits started at the fit."
    if known.how == "at least" and not known.missed and known.size > abs(refits.estimate - refits.exact):
        words += (
            " The error of the estimate was extrapolated from steps that are too long for that; of "
            "these folds the difference was measured, and counts."
        )
    return words


def _error(result: Result) -> tuple[str, str]:
    """Of the card: the error and what it means."""
    if is_unchecked(result):
        return "unknown", "no fold was checked"
    known = error_of(result)
    if known.how == NOT_USABLE:
        return known.how, "estimated larger than the loss"
    if known.how == "unknown":
        return known.how, "no error could be estimated"
    size = f"{'at least ' if known.how == 'at least' else ''}{number(known.size, 2)}"
    if known.missed:
        return "unknown", f"{size} {WITHIN}"
    if not math.isfinite(result.error):
        return size, known.beside.strip(" ()")
    share = share_of_se(result, "of the standard error", "standard errors")
    return size, share or "against exact refits, if all errors had the same sign"


def _certainty(result: Result) -> list[Markup]:
    """Where the standard error comes from, other optima of the folds, and a better one of the fit."""
    said = [text for text in (result.about_se, result.about_optima) if text]
    shown = [paragraph(text[0].upper() + text[1:] + ".") for text in said]
    if result.better_theta is not None:
        words = f"The fit is not at its best optimum: {better_fit(result)}. Better: "
        shown.insert(0, paragraph(words, advice(advice_on_better(result)), "."))
    if result.summary.optima is not None:
        shown.append(paragraph(about_starts(result.summary.optima)))
    return shown


def _interval(result: Result, refits: Refits | None) -> Markup:
    """The estimate with its standard error, the control and exact refits, on one line."""
    known = (result.estimate, result.se, result.control)
    if not all(map(math.isfinite, known)) or result.se <= 0:
        return Markup("")
    label = (
        f"Estimate {number(result.estimate, 5)} plus or minus {number(result.se, 3)}, "
        f"control {number(result.control, 5)}"
    )
    every = refits is not None and refits.folds == len(result.folds)
    exact = refits.exact if refits is not None and every else math.nan
    without = beyond_interval(result)
    row = Row("", *known[:2], math.nan, result.control, exact, bool(without))
    bar = f"Dashed bar: one standard error, {without}" if without else "Bar: one standard error"
    keys = ["Dot: estimate", bar, "Diamond: control", *(["Square: exact refits"] if every else [])]
    return join([ranges([row], label), paragraph(". ".join(keys) + ".", class_="small")])
