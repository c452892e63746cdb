"""The page: its sections in order, its style, its script and its data, in one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Mapping
from importlib.resources import files
from typing import Any

import pandas as pd

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
from fitonce.results.report.points import script_json
from fitonce.results.report.trust import verdicts_section
from fitonce.results.summary import FitSummary, Result

_SCRIPTS = ("data.js", "chart.js", "scatter.js", "series.js", "losses.js", "map.js", "start.js")
_HEADINGS = {
    "asked": "What was asked",
    "choice": "The choice",
    "model": "The model",
    "estimate": "The estimate",
    "verdicts": "How far to trust it",
    "scatter": "Point by point",
    "along": "Along the data",
    "influence": "Influence",
    "timings": "Times",
    "reproduce": "Do it again",
    "glossary": "Words",
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
) -> str:
    """A result as one HTML page that needs no network. The same input gives the same page.

    Args:
        result: of `cross_validate`, of `loo`, or read from a file.
        scatter: losses of left-out points by two methods: `fold`, `sequence`, `time`, `site`,
            `approximate`, `exact`, `control`; None: the result's losses against its control.
        scatter_labels: what `approximate` and `exact` are, in words.
        influence: the table of `fitonce.influence(fit)`; None: the page says how to get one.
        asked: what was asked, name by name; what it does not name is taken from the result.
        command: that makes this result again.
        title: of the page; None: the model and the folds.
        polygons: the content of a GeoJSON file, one feature for each site of a graph, in order.
        times: seconds of further work, by name.
        models: the table of `fitonce.select`, where the result is of a model that was chosen by it.
        choice: its sentence.
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
    data |= {"spoken": list(spoken)} | _if_asked(fitted, on_map, polygons, influence)
    name = title or f"Cross-validation of {fitted.model}"
    return _page(name, _lead(result, fitted), sections, data)


def _if_asked(
    fitted: FitSummary, on_map: bool, polygons: dict[str, Any] | None, influence: pd.DataFrame | None
) -> dict[str, Any]:
    """Data of charts that not every page has."""
    data: dict[str, Any] = {}
    if on_map and fitted.edges is not None:
        data["map"] = layout.packed(int(fitted.lengths.sum()), fitted.edges, polygons)
    if influence is not None:
        data["influence"] = packed_influence(influence)
    if fitted.places is not None:
        data["names"] = {"sequences": fitted.places.sequences, "sites": fitted.places.sites}
    return data


def _places(polygons: dict[str, Any] | None) -> str:
    if polygons is not None:
        return "Outlined: left out by the chosen fold."
    return "Neighbours are drawn near each other, which is no geography. Ringed: left out by the fold."


def _spoken(fitted: FitSummary) -> tuple[str, ...]:
    """What tells a point from others: not what is the same for all, or said twice."""
    if fitted.edges is not None:
        return ("site",)
    return ("time",) if len(fitted.lengths) == 1 else ("sequence", "time")


def _lead(result: Result, fitted: FitSummary) -> Markup:
    """The whole report in two sentences."""
    counts = result.folds.loc[result.folds["ok"], "verdict"].value_counts()
    named = [
        f"{counts[name]:,} {name}" for name in ("good", "fair", "bad", "unchecked") if name in counts
    ]
    if result.n_failed:
        named.append(f"{result.n_failed:,} without a usable number")
    told = (
        f"Held-out loss {number(result.estimate, 5)}, standard error {number(result.se, 3)}, "
        f"from {len(result.folds):,} folds: {', '.join(named)}. Control {number(result.control, 5)}."
    )
    calm = fitted.ok and not result.n_failed and not counts.get("bad", 0)
    words = "" if calm else " Read how far to trust it before you use the number."
    return join(
        [
            paragraph(result.left_out),
            paragraph(told, words, class_=f"note {'fine' if calm else 'caution'}"),
        ]
    )


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
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#asked", class_="skip"),
        tag("header", tag("h1", name), lead),
        _contents(sections),
        tag("main", *(_section(key, content) for key, content in sections.items())),
        tag("div", "", id="tip", role="tooltip", hidden=True),
        tag("script", Markup(script_json(data)), type="application/json", id="data"),
        tag("script", Markup(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _policy(script: str) -> str:
    """Nothing from anywhere, and no script but ours, whatever a file name may contain."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _contents(sections: Collection[str]) -> Markup:
    links = [tag("li", tag("a", _HEADINGS[key], href=f"#{key}")) for key in sections]
    return tag("nav", tag("ul", *links), aria_label="Contents")


def _section(key: str, content: Markup) -> Markup:
    heading = tag("h2", _HEADINGS[key], id=f"{key}-heading")
    return tag("section", heading, content, id=key, aria_labelledby=f"{key}-heading")


def _asset(name: str) -> str:
    return files("fitonce.results.report").joinpath("assets", name).read_text(encoding="utf-8")
