"""The shell of every page: head, navigation, style, scripts and data in one file."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

from fitonce.data.places import Names
from fitonce.results.report.markup import Markup, tag
from fitonce.results.report.points import script_json
from fitonce.results.summary import FitSummary

_SCRIPTS = (
    "data.js", "chart.js", "find.js", "scatter.js", "series.js", "losses.js", "odd.js", "map.js",
    "start.js",
)  # fmt: skip
_HEADINGS = {
    "choice": "Model selection",
    "models": "Models",
    "estimate": "Estimate",
    "labels": "Held-out labels",
    "largest": "Largest losses",
    "along": "Losses by position",
    "apart": "Largest differences",
    "differences": "Differences by position",
    "verdicts": "Reliability",
    "optima": "Other optima",
    "scatter": "Point by point",
    "influence": "Influence",
    "model": "Model",
    "asked": "Settings",
    "timings": "Times",
    "reproduce": "Reproduce",
    "glossary": "Glossary",
}


def page(name: str, lead: Markup, sections: dict[str, Markup], data: dict[str, Any]) -> str:
    """The whole file; `sections` by the keys of their headings, `data` for the charts."""
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
        tag("a", "Skip to the report", href=f"#{next(iter(sections))}", class_="skip"),
        tag("header", tag("h1", name), lead),
        tag("nav", tag("ul", *links), aria_label="Contents"),
        tag("main", *shown),
        tag("div", "", id="tip", role="tooltip", hidden=True),
        tag("script", Markup(script_json(data)), type="application/json", id="data"),
        tag("script", Markup(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def speech(fitted: FitSummary, names: Names | None) -> dict[str, Any]:
    """What charts need to name places: the coordinates that identify one, and the user's names."""
    found: dict[str, Any] = {"spoken": list(spoken(fitted))}
    if names is not None:
        found["names"] = {"sequences": names.sequences, "sites": names.sites}
    return found


def spoken(fitted: FitSummary) -> tuple[str, ...]:
    """The coordinates needed to identify a point."""
    if fitted.edges is not None:
        return ("site",)
    return ("time",) if len(fitted.lengths) == 1 else ("sequence", "time")


def _policy(script: str) -> str:
    """A content security policy: no external resources, and no script but this one."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _asset(name: str) -> str:
    return files("fitonce.results.report").joinpath("assets", name).read_text(encoding="utf-8")
