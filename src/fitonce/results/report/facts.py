"""Sections without interactive charts: settings, model, estimate, times, how to reproduce it."""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Mapping, Sequence

import pandas as pd

from fitonce.core.wording import counted
from fitonce.results.certainty import BEGIN_THERE, better_fit
from fitonce.results.printed import unknown_error
from fitonce.results.report.markup import (
    NOT_AVAILABLE,
    Markup,
    advice,
    details,
    join,
    number,
    paragraph,
    table,
    tag,
    time_taken,
)
from fitonce.results.report.ranges import Row, ranges
from fitonce.results.summary import FitSummary, Result, loss_in_words, versions

_SHORT = 12  # rows of a table that is shown open
_LONGEST = 500


def asked_section(result: Result, fitted: FitSummary, asked: Mapping[str, str] | None) -> Markup:
    """The settings: those given by the caller, and those known from the result."""
    known = {
        "data": fitted.data,
        "model": fitted.model,
        "folds": result.left_out,
        "method": result.method,
        "scheme": result.scheme,
        **({"likelihood": fitted.approximation} if fitted.approximation else {}),
        "loss": loss_in_words(result.scheme, result.loss),
        "tolerance for a fold's loss": number(result.tolerance, 3),
        **({"damping": number(result.damping, 3)} if result.damping else {}),
    }
    given = {str(key): str(value) for key, value in (asked or {}).items()}
    named = {key.lower() for key in given}
    rest = {key: value for key, value in known.items() if key not in named}
    return table(("setting", "value"), list((given | rest).items()), "Settings")


def model_section(fitted: FitSummary) -> Markup:
    """The model, whether the fit is a certified minimum, and its parameters."""
    kind, verb = ("fine", "is") if fitted.ok else ("caution", "is not")
    words = f"The fit {verb} a certified minimum."
    return join(
        [
            paragraph(tag("strong", fitted.model), ", fitted to ", fitted.data, "."),
            paragraph(tag("strong", words), " Status: ", fitted.status, ".", class_=f"note {kind}"),
            paragraph("Log-likelihood of all data: ", number(fitted.log_likelihood, 6), "."),
            _parameters(fitted.parameters),
        ]
    )


def _parameters(known: pd.DataFrame) -> Markup:
    cut = known.iloc[:_LONGEST]
    rows = list(zip(cut["name"].astype(str), cut["value"], cut["se"], strict=True))
    shown = table(("parameter", "value", "standard error"), rows, "Parameters")
    if len(known) > _LONGEST:
        words = f"The first {_LONGEST:,} of {len(known):,} parameters. All, in Python: "
        shown = join([paragraph(words, advice("fit.to_dataframe()"), "."), shown])
    return shown if len(known) <= _SHORT else details(f"All {len(known):,} parameters", shown)


def estimate_section(result: Result) -> Markup:
    """The estimate, its control and its estimated error against exact refits."""
    contents = [
        ("estimate", number(result.estimate, 5), f"standard error {number(result.se, 3)}"),
        ("control", number(result.control, 5), "same folds, parameters not adjusted"),
        ("error of the estimate", number(result.error, 2), _share(result)),
    ]
    boxes = [
        tag("dl", tag("dt", name), tag("dd", value, class_="value"), tag("dd", words), class_="box")
        for name, value, words in contents
    ]
    return join(
        [
            tag("div", *boxes, class_="boxes"),
            _interval(result),
            paragraph(
                f"Mean over folds of {loss_in_words(result.scheme, result.loss)}. Lower is better."
            ),
            paragraph(tag("strong", "Folds in the estimate: "), result.treatment, "."),
            *_certainty(result),
        ]
    )


def _certainty(result: Result) -> list[Markup]:
    """Where the standard error comes from, other optima of the folds, and a better one of the fit."""
    said = [text for text in (result.about_se, result.about_optima) if text]
    shown = [paragraph(text[0].upper() + text[1:] + ".") for text in said]
    if result.better_theta is not None:
        words = f"The fit is not at its best optimum: {better_fit(result)}. To start there: "
        shown.insert(0, paragraph(words, advice(BEGIN_THERE), "."))
    return shown


def _share(result: Result) -> str:
    if not math.isfinite(result.error):
        checked = (result.folds["verdict"] != "unchecked").any()
        known = unknown_error(result.folds)
        said = "no error could be estimated" if known == "unknown" else known
        return said if checked else "no fold was checked"
    if not (math.isfinite(result.se) and result.se > 0):
        return "against exact refits, if all errors had the same sign"
    share = result.error / result.se
    return f"{100 * share:.2g} % of the standard error" if share < 1 else f"{share:.1f} standard errors"


def _interval(result: Result) -> Markup:
    """The estimate with its standard error, and the control, on one line."""
    known = (result.estimate, result.se, result.control)
    if not all(map(math.isfinite, known)) or result.se <= 0:
        return Markup("")
    label = (
        f"Estimate {number(result.estimate, 5)} plus or minus {number(result.se, 3)}, "
        f"control {number(result.control, 5)}"
    )
    picture = ranges([Row("", *known[:2], math.nan, result.control)], label)
    key = "Dot and bar: estimate and one standard error. Diamond: control."
    return join([picture, paragraph(key, class_="small")])


def timings_section(result: Result, fitted: FitSummary, times: Mapping[str, float] | None) -> Markup:
    """Durations, with bars on one scale."""
    known = {
        "fit, including compiling": fitted.seconds,
        f"cross-validation of {counted(len(result.folds), 'fold')}": result.seconds,
        "compiling during cross-validation": result.compiling,
        **{str(name): float(seconds) for name, seconds in (times or {}).items()},
        f"{counted(len(result.folds), 'refit')} from scratch (estimated)": result.refits_seconds,
    }
    longest = max((value for value in known.values() if math.isfinite(value)), default=0.0)
    rows = [
        (name, tag("span", time_taken(value), class_="nowrap"), _bar(value, longest))
        for name, value in known.items()
    ]
    note = "Times depend on the machine and its load; a second run of the same command compiles less."
    return join([table(("step", "time", ""), rows, "Timings"), paragraph(note, class_="small")])


def _bar(value: float, longest: float) -> Markup:
    share = value / longest if math.isfinite(value) and longest > 0 else 0.0
    inside = tag("rect", width=f"{max(100 * share, 0.5):.1f}", height=10) if share else ""
    return tag("svg", inside, viewBox="0 0 100 10", class_="bar", aria_hidden="true")


def reproduce_section(result: Result, asked: Mapping[str, str] | None, command: str | None) -> Markup:
    """The command, versions, the seed and the platform."""
    named = re.search(r"seed (\d+)", result.left_out)
    seed = (asked or {}).get("seed") or (named.group(1) if named else NOT_AVAILABLE)
    return versions_table(result, command, [("seed of the folds", seed)])


def versions_table(result: Result, command: str | None, more: Sequence[tuple[str, str]] = ()) -> Markup:
    """The command, versions and the platform."""
    rows = [
        *(result.about.get("versions") or versions()).items(),
        *more,
        ("platform", f"{platform.system()} {platform.machine()}"),
    ]
    if command is None:
        shown = paragraph("No command is recorded: the report was made from Python.")
    else:
        shown = tag("pre", tag("code", command), tabindex=0, aria_label="Command")
    return join([shown, table(("item", "value"), rows, "Versions")])
