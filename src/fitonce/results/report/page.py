"""The page: sections, style, scripts and data in one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import pandas as pd

from fitonce.core.wording import counted
from fitonce.results.report import along as by_place
from fitonce.results.report import layout, points
from fitonce.results.report.along import sequence_names, spans
from fitonce.results.report.choice import choice_section
from fitonce.results.report.facts import (
    asked_section,
    estimate_section,
    model_section,
    reproduce_section,
    timings_section,
)
from fitonce.results.report.figures import (
    along_section,
    influence_section,
    packed_influence,
    scatter_section,
)
from fitonce.results.report.glossary import glossary
from fitonce.results.report.markup import Markup, join, number, paragraph, tag
from fitonce.results.report.optima import optima_section
from fitonce.results.report.points import script_json
from fitonce.results.report.trust import verdicts_section
from fitonce.results.summary import FitSummary, Result

_SCRIPTS = ("data.js", "chart.js", "scatter.js", "series.js", "losses.js", "map.js", "start.js")
_HEADINGS = {
    "asked": "Settings",
    "choice": "Model selection",
    "model": "Model",
    "estimate": "Estimate",
    "verdicts": "Reliability",
    "optima": "Other optima",
    "scatter": "Point by point",
    "along": "Losses by position",
    "influence": "Influence",
    "timings": "Times",
    "reproduce": "Reproduce",
    "glossary": "Glossary",
}


def html_report(
    result: Result,
    *,
    scatter: pd.DataFrame | None = None,
    scatter_labels: tuple[str, str] = ("approximate", "exact"),
    influence: pd.DataFrame | None = None,
    asked: Mapping[str, str] | None = None,
    command: str | None = None,
    title: str | None = None,
    polygons: dict[str, Any] | None = None,
    times: Mapping[str, float] | None = None,
    models: pd.DataFrame | None = None,
    choice: str = "",
    valley: pd.DataFrame | None = None,
) -> str:
    """A result as one self-contained HTML page. The same input gives the same page.

    Args:
        result: of `cross_validate`, of `loo`, or read from a file.
        scatter: losses of left-out points by two methods: `fold`, `sequence`, `time`, `site`,
            `approximate`, `exact`, `control`; None: the result's losses against its control.
        scatter_labels: descriptions of `approximate` and `exact`.
        influence: the table of `fitonce.influence(fit)`; None: the page says how to get it.
        asked: settings by name; the others are taken from the result.
        command: reproduces this result.
        title: of the page; None: made from the model.
        polygons: the content of a GeoJSON file, one feature for each site of a graph, in order.
        times: seconds of further work, by name.
        models: the table of `fitonce.select`, where that selected the model of this result.
        choice: the sentence of that selection.
        valley: the objective of a fold between two of its optima: `fold`, `position` (0 and 1 at the
            optima) and `objective`, in nats above the lower one.
    """
    if not hasattr(result, "pointwise"):
        raise ValueError(f"result must be a CVResult, got {type(result).__name__}")
    fitted = result.summary
    found = by_place.along(result, fitted)
    pairs = points.pairs(result, scatter, scatter_labels)
    on_map = fitted.edges is not None and found.kind == "site"
    spoken = _spoken(fitted)
    sections = {
        "asked": asked_section(result, fitted, asked),
        **({} if models is None else {"choice": choice_section(models, choice)}),
        "model": model_section(fitted),
        "estimate": estimate_section(result),
        "verdicts": verdicts_section(result, spans(result, fitted)),
        **({"optima": optima_section(result, valley)} if (result.folds["optimum"] != 0).any() else {}),
        "scatter": scatter_section(pairs),
        "along": along_section(
            found, on_map, sequence_names(fitted), _places(polygons), len(result.folds)
        ),
        "influence": influence_section(influence, spoken),
        "timings": timings_section(result, fitted, times),
        "reproduce": reproduce_section(result, asked, command),
        "glossary": glossary(),
    }
    data: dict[str, Any] = {"scatter": points.packed(pairs), "along": by_place.packed(found, result)}
    data["spoken"] = list(spoken)
    if on_map and fitted.edges is not None:
        data["map"] = layout.packed(int(fitted.lengths.sum()), fitted.edges, polygons)
    if influence is not None:
        data["influence"] = packed_influence(influence)
    if fitted.places is not None:
        data["names"] = {"sequences": fitted.places.sequences, "sites": fitted.places.sites}
    name = title or f"Cross-validation of {fitted.model}"
    return _page(name, _lead(result, fitted), sections, data)


def _places(polygons: dict[str, Any] | None) -> str:
    if polygons is not None:
        return "Outlined: left out by the selected fold."
    return "A layout, not a map: neighbours are close together. Ringed: left out by the selected fold."


def _spoken(fitted: FitSummary) -> tuple[str, ...]:
    """The coordinates needed to identify a point."""
    if fitted.edges is not None:
        return ("site",)
    return ("time",) if len(fitted.lengths) == 1 else ("sequence", "time")


def _lead(result: Result, fitted: FitSummary) -> Markup:
    """The summary at the top."""
    counts = result.folds.loc[result.folds["ok"], "verdict"].value_counts()
    named = [
        f"{counts[name]:,} {name}" for name in ("good", "fair", "bad", "unchecked") if name in counts
    ]
    if result.n_failed:
        named.append(f"{result.n_failed:,} without a usable number")
    words = (
        f"Held-out loss {number(result.estimate, 5)}, standard error {number(result.se, 3)}, from "
        f"{counted(len(result.folds), 'fold')}: {', '.join(named)}. Control {number(result.control, 5)}."
    )
    fine = fitted.ok and not result.n_failed and not counts.get("bad", 0)
    words += "" if fine else " See the section on reliability before using this number."
    note = paragraph(words, class_=f"note {'fine' if fine else 'caution'}")
    return join([paragraph(result.left_out), note])


def _page(name: str, lead: Markup, sections: dict[str, Markup], data: dict[str, Any]) -> str:
    script = '"use strict";\n' + "".join(_asset(file) for file in _SCRIPTS)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content="fitonce"),
        tag("link", rel="icon", href="data:,"),
        tag("title", name),
        tag("style", Markup(_asset("report.css"))),
    )
    shown = [
        tag("section", tag("h2", _HEADINGS[key], id=f"{key}-heading"), content, id=key,
            aria_labelledby=f"{key}-heading")
        for key, content in sections.items()
    ]  # fmt: skip
    links = [tag("li", tag("a", _HEADINGS[key], href=f"#{key}")) for key in sections]
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#asked", class_="skip"),
        tag("header", tag("h1", name), lead),
        tag("nav", tag("ul", *links), aria_label="Contents"),
        tag("main", *shown),
        tag("div", "", id="tip", role="tooltip", hidden=True),
        tag("script", Markup(script_json(data)), type="application/json", id="data"),
        tag("script", Markup(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _policy(script: str) -> str:
    """A content security policy: no external resources, and no script but this one."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _asset(name: str) -> str:
    return files("fitonce.results.report").joinpath("assets", name).read_text(encoding="utf-8")
