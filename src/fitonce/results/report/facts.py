"""Sections without interactive charts: settings, model, estimate, times, how to reproduce it."""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fitonce.core.wording import ONE_START, counted
from fitonce.results.occupancy import points_in_words
from fitonce.results.printed import refits_in_words
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
from fitonce.results.summary import FitSummary, Result, Starts, loss_in_words, versions

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
    """The model, whether the fit is a certified minimum and the best of several, and its parameters."""
    verb = "is" if fitted.ok else "is not"
    said: list[Any] = [
        tag("strong", f"The fit {verb} a certified minimum.", class_=None if fitted.ok else "warns")
    ]
    said += [" Status: ", fitted.status, "."]
    if fitted.optima is not None:
        said += [" ", about_starts(fitted.optima)]
    careful = not fitted.ok or (fitted.optima is not None and fitted.optima.alone)
    return join(
        [
            paragraph(tag("strong", fitted.model), ", fitted to ", fitted.data, "."),
            paragraph(*said, class_=f"note {'caution' if careful else 'fine'}"),
            _states(fitted),
            paragraph("Log-likelihood of all data: ", number(fitted.log_likelihood, 6), "."),
            *([paragraph(f"Priors: {fitted.priors}.")] if fitted.priors else []),
            _parameters(fitted.parameters),
        ]
    )


def about_starts(known: Starts) -> str:
    """What the starts of a fit say about its optima, as a sentence."""
    if known.starts < 2:
        why = f": {ONE_START}" if known.single else ""
        return f"Other optima of the fit were not looked for{why}."
    return f"The optimum of the fit was {known.sentence}."


def _states(fitted: FitSummary) -> Markup:
    """How many points each hidden state rests on."""
    if fitted.in_states is None:
        return Markup("")
    words, few = points_in_words(fitted.in_states, fitted.edges is not None), fitted.about_few
    said = [paragraph(f"Expected {words}.")]
    if few:
        why = ": what few points tell is hardly known, and lost by folds that leave these out."
        strong = tag("strong", f"{few[:1].upper()}{few[1:]}")
        said.append(paragraph(strong, why, class_="note caution"))
    return join(said)


def _parameters(known: pd.DataFrame) -> Markup:
    cut = known.iloc[:_LONGEST]
    rows = list(zip(cut["name"].astype(str), cut["value"], cut["se"], strict=True))
    shown = table(("parameter", "value", "standard error"), rows, "Parameters")
    if len(known) > _LONGEST:
        words = f"The first {_LONGEST:,} of {len(known):,} parameters. All, in Python: "
        shown = join([paragraph(words, advice("fit.to_dataframe()"), "."), shown])
    return shown if len(known) <= _SHORT else details(f"All {len(known):,} parameters", shown)


def timings_section(result: Result, fitted: FitSummary, times: Mapping[str, float] | None) -> Markup:
    """Durations, with bars on one scale."""
    known = {
        "fit, including compiling": fitted.seconds,
        f"cross-validation of {counted(len(result.folds), 'fold')}": result.seconds,
        "compiling during cross-validation": result.compiling,
        **{str(name): float(seconds) for name, seconds in (times or {}).items()},
    }
    refits = f"{counted(len(result.folds), 'refit')}, one start each (estimated)"
    likely = {**known, refits: _middle(result.refits_seconds, result.refits_most)}
    longest = max((value for value in likely.values() if math.isfinite(value)), default=0.0)
    said = {name: time_taken(value) for name, value in known.items()}
    said[refits] = refits_in_words(result) if math.isfinite(likely[refits]) else NOT_AVAILABLE
    rows = [
        (name, tag("span", said[name], class_="nowrap"), _bar(value, longest))
        for name, value in likely.items()
    ]
    note = "Times depend on the machine and its load; a second run of the same command compiles less."
    return join([table(("step", "time", ""), rows, "Timings"), paragraph(note, class_="small")])


def _middle(least: float, most: float) -> float:
    """Of a range of times, as a bar shows it."""
    return math.sqrt(least * most) if math.isfinite(most) else least


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
