"""Sections with a chart that answers to a pointer, to touch and to keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fitonce.results.report.along import Along
from fitonce.results.report.markup import Markup, datum, join, paragraph, table, tag
from fitonce.results.report.points import MOST_POINTS, Pairs, floats, integers, summary
from fitonce.results.summary import moves_most

_NEEDED = ("sequence", "time", "site", "value", "loss", "displacement")
_COMMON = (*_NEEDED, "place")
_TOP = 10
_LEGEND = (
    "Shaded: what the chosen fold left out. Hatched: missing. The strip below the losses: in how many "
    "folds a point was left out, darker is more."
)


_ZOOM = " Keys + and - zoom."


def figure(name: str, label: str, caption: str, hint: str, *controls: Markup) -> Markup:
    """A canvas that a script draws on, its controls, and a line that repeats what is pointed at, which
    starts with a hint."""
    canvas = tag(
        "canvas", label, role="img", aria_label=label, tabindex=0, aria_describedby=f"{name}-said"
    )
    said = tag("p", hint, class_="readout", id=f"{name}-said", aria_live="polite")
    held = tag("div", *controls, class_="controls") if controls else ""
    without = tag("noscript", paragraph("This chart needs JavaScript."))
    return tag(
        "figure",
        held,
        canvas,
        said,
        without,
        tag("figcaption", caption) if caption else "",
        id=f"chart-{name}",
        class_="chart",
    )


def checkbox(name: str, words: str, on: bool = False) -> Markup:
    """A switch."""
    return tag("label", tag("input", type="checkbox", name=name, checked=on or None), " ", words)


def scatter_section(shown: Pairs) -> Markup:
    """Two losses of each left-out point against each other."""
    across, up = shown.labels
    total, drawn = len(shown.table), int(shown.finite.sum())
    few = f"{MOST_POINTS:,} of {drawn:,} dots are drawn, the extremes among them."
    said = few if drawn > MOST_POINTS else f"{drawn:,} dots."
    if drawn < total:
        said += f" {total - drawn:,} more have a loss that is not a finite number."
    intro = f"Each dot is a {shown.noun}: {up} against {across}. On the line, the two agree."
    if not shown.exact:
        intro = (
            f"No exact refits were asked for. Each dot is a {shown.noun}: its loss against its control. "
            "How far dots are from the line is what adjusting the parameters did."
        )
    switches = [checkbox("control", "show the control", on=True)] if shown.exact else []
    against = f"Scatter plot of held-out losses: {up} against {across}"
    apart = f"Scatter plot of differences: {up}, less {across}, by {across}"
    rows = summary(shown)
    header = (f"difference from {across}", "mean absolute", "largest")
    hint = "Point at a dot, touch it, or use the arrow keys: from the largest difference down."
    charts = [
        figure("scatter", against, "", hint, *switches),
        figure("differences", apart, "", "The same dots: how far they are from the line.", *switches),
    ]
    told = [paragraph(intro), table(header, rows, "Differences"), tag("div", *charts, class_="pair")]
    return join([*told, paragraph(said, class_="small")])


def along_section(
    found: Along, on_map: bool, sequences: Sequence[str], places: str, folds: int
) -> Markup:
    """Mean losses by place, with what folds left out."""
    skipped = ""
    if found.skipped:
        skipped = f" {found.skipped:,} losses are in no mean: not finite, or of a fold that failed."
    never = int((found.times == 0).sum())
    noun = "point" if found.kind == "site" and not on_map else found.kind
    rest = f" {never:,} of {len(found.times):,} {noun}s have no score." if never else ""
    intro = f"Mean held-out loss of each {noun} over the folds that score it.{rest}{skipped}"
    if found.kind == "fold":
        intro = f"The joint loss of each fold.{skipped}"
    hint = "Point at the chart, touch it, or use the arrow keys."
    controls = [_fold_slider(len(found.runs.folds))] if found.runs is not None else []
    if on_map:
        controls.insert(0, _choice("show", "colour by"))
        label, keys = "Map of mean held-out losses", f"{places} Grey: no score. Crossed: missing."
    else:
        label = f"Mean held-out loss along {'time' if found.kind == 'site' else found.kind + 's'}"
        keys = _LEGEND if found.kind == "site" else ""
        hint += _ZOOM
        several = len(sequences) > 1 and found.kind == "site"
        controls += [_sequence_choice(sequences)] if several else []
        controls += [checkbox("control", "show the control"), zoom_buttons()]
    if found.runs is not None and len(found.runs.folds) < folds:
        keys += (
            f" {len(found.runs.folds):,} of {folds:,} folds can be chosen; all would make a large file."
        )
    name = "map" if on_map else "along"
    return join([paragraph(intro), figure(name, label, keys, hint, *controls)])


def _fold_slider(count: int) -> Markup:
    slider = tag(
        "input", type="range", name="fold", min=0, max=count - 1, value=0, step=1, aria_label="fold"
    )
    return tag("label", "fold ", slider, " ", tag("output", ""), class_="wide")


def _choice(name: str, words: str) -> Markup:
    return tag("label", words, " ", tag("select", name=name))


def _sequence_choice(names: Sequence[str]) -> Markup:
    options = [tag("option", "all, one after another", value=-1)]
    options += [tag("option", name, value=k) for k, name in enumerate(names)]
    return tag("label", "show ", tag("select", *options, name="sequence"))


def zoom_buttons() -> Markup:
    """Closer, farther, to both sides, and back to all."""
    named = {"in": "zoom in", "out": "zoom out", "left": "left", "right": "right", "all": "all"}
    buttons = [tag("button", words, type="button", data_zoom=key) for key, words in named.items()]
    return tag(
        "span", *buttons, class_="buttons", role="group", aria_label="Part of the data that is shown"
    )


def influence_section(found: pd.DataFrame | None, spoken: tuple[str, ...]) -> Markup:
    """Which points carry the fit."""
    if found is None:
        return paragraph(
            "Not in this report. On the command line ", tag("code", "fitonce influence"), " prints it; "
            "in Python ", tag("code", "cv.to_html(path, influence=fitonce.influence(fit).table)"),
            " shows it here.",
        )  # fmt: skip
    check_influence(found)
    order = found["displacement"].abs().sort_values(ascending=False, kind="stable").index[:_TOP]
    top = found.loc[order]
    moves = [name for name in found.columns if name not in _COMMON]
    where = ("place",) if "place" in found else spoken
    header = (*where, "value", "loss", "displacement", *(["moves most"] if moves else []))
    columns: list[list[Any]] = [top[name].astype(str).tolist() for name in where]
    columns.append([datum(value) for value in top["value"]])
    columns += [top[name].astype(float).tolist() for name in ("loss", "displacement")]
    columns += [moves_most(top[moves])] if moves else []
    intro = f"Of {len(found):,} points, those that move the fit most when they are left out:"
    label = "Displacement of the fit by each point"
    hint = "Point at the chart, touch it, or use the arrow keys." + _ZOOM
    chart = figure("influence", label, "", hint, zoom_buttons())
    rows = zip(*columns, strict=True)
    return join([paragraph(intro), table(header, rows, "Points with the largest influence"), chart])


def check_influence(found: pd.DataFrame) -> None:
    """Refuse a table that is not one of influence."""
    lacking = [name for name in _NEEDED if name not in found]
    if lacking:
        raise ValueError(f"influence must have the columns {', '.join(_NEEDED)}; lacking: {lacking[0]}")


def packed_influence(found: pd.DataFrame) -> dict[str, Any]:
    """What the page draws."""
    whole = {name: integers(found[name]) for name in ("sequence", "time", "site")}
    return whole | {name: floats(found[name]) for name in ("value", "loss", "displacement")}
