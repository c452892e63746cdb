"""Sections with interactive charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import counted
from fitonce.results.report.along import Along
from fitonce.results.report.markup import Markup, advice, datum, join, paragraph, table, tag
from fitonce.results.report.points import MOST_POINTS, Pairs, floats, integers, summary
from fitonce.results.summary import moves_most

_NEEDED = ("sequence", "time", "site", "loss", "displacement")
_COMMON = (*_NEEDED, "place", "value", "how")
_AROUND = 4  # words on either side of a label
_TOP = 10
_LEGEND = (
    "Shaded: left out by the selected fold. Hatched: missing. Strip below the losses: number of folds "
    "that score a point, darker is more."
)
_POINT = "Point at the chart, touch it, or use the arrow keys."
_ODD = (
    ' To see which sites are odd, choose "p, how odd" under "show": large losses may only be those of '
    "large counts."
)
_ZOOM = " Keys + and - zoom."


def figure(
    name: str, label: str, caption: Any, hint: str, *controls: Markup, scale: bool = False
) -> Markup:
    """A canvas that a script draws on, its controls, a line that repeats the tooltip and starts with a
    hint and, with `scale`, one that says what the colours mean."""
    canvas = tag(
        "canvas", label, role="img", aria_label=label, tabindex=0, aria_describedby=f"{name}-said"
    )
    parts = [
        tag("div", *controls, class_="controls") if controls else "",
        canvas,
        tag("p", "", class_="scale small") if scale else "",
        tag("p", hint, class_="readout", id=f"{name}-said", aria_live="polite"),
        tag("noscript", paragraph("This chart needs JavaScript.")),
        tag("figcaption", caption) if caption else "",
    ]
    return tag("figure", *parts, id=f"chart-{name}", class_="chart")


def checkbox(name: str, words: str, on: bool = False) -> Markup:
    """A labelled checkbox."""
    return tag("label", tag("input", type="checkbox", name=name, checked=on or None), " ", words)


def scatter_section(shown: Pairs) -> Markup:
    """Two losses of each left-out point, plotted against each other."""
    across, up = shown.labels
    total, drawn = len(shown.table), int(shown.finite.sum())
    few = f"{MOST_POINTS:,} of {drawn:,} dots are drawn, including the extremes."
    note = few if drawn > MOST_POINTS else f"{counted(drawn, 'dot')}."
    if drawn < total:
        note += f" Not drawn: {total - drawn:,} with a loss that is not finite."
    intro = f"Each dot is a {shown.noun}: {up} against {across}. On the line, the two agree."
    if not shown.exact:
        intro = (
            f"No exact refits were requested. Each dot is a {shown.noun}: its loss against its control. "
            "The distance from the line is the effect of adjusting the parameters."
        )
    switches = [checkbox("control", "show the control", on=True)] if shown.exact else []
    key = join([_mark("dot", up), " ", _mark("triangle", "control")]) if shown.exact else ""
    against = f"Scatter plot of held-out losses: {up} against {across}"
    apart = f"Scatter plot of differences: {up} minus {across}, against {across}"
    header = (f"difference from {across}", "mean absolute", "largest")
    hint = "Point at a dot, touch it, or use the arrow keys, which start at the largest difference."
    charts = [
        figure("scatter", against, key, hint, *switches),
        figure("differences", apart, key, "The same dots: their distances from the line.", *switches),
    ]
    return join(
        [
            paragraph(intro),
            table(header, summary(shown), "Differences"),
            tag("div", *charts, class_="pair"),
            paragraph(note, class_="small"),
        ]
    )


def _mark(kind: str, words: str) -> Markup:
    """A sign of a chart and what it stands for."""
    inside = {"dot": tag("circle", cx=6, cy=6, r=4), "triangle": tag("path", d="M6 2l4 8h-8z")}[kind]
    sign = tag("svg", inside, viewBox="0 0 12 12", class_=f"sign {kind}", aria_hidden="true")
    return tag("span", sign, words, class_="mark")


def finder(noun: str) -> Markup:
    """A field that searches places by name."""
    field = tag("input", type="search", name="find", autocomplete="off", placeholder=f"name of a {noun}")
    return tag("label", "find ", field, " ", tag("output", "", class_="found"), class_="find")


def along_section(
    found: Along, on_map: bool, sequences: Sequence[str], places: str, folds: int, odd: bool
) -> Markup:
    """Mean losses by place, and what each fold left out; `odd`: the map also shows p."""
    skipped = ""
    if found.skipped:
        losses = counted(found.skipped, "loss", "losses")
        skipped = f" Excluded from the means: {losses}, not finite or of a failed fold."
    never = int((found.times == 0).sum())
    noun = "point" if found.kind == "site" and not on_map else found.kind
    rest = f" Not scored: {never:,} of {counted(len(found.times), noun)}." if never else ""
    intro = f"Mean held-out loss of each {noun} over the folds that score it.{rest}{skipped}"
    if found.kind == "fold":
        intro = f"The joint loss of each fold.{skipped}"
    if on_map and odd:
        intro += _ODD
    hint = _POINT
    controls = [_fold_slider(len(found.runs.folds))] if found.runs is not None else []
    if on_map:
        controls = [*colour_controls(), finder("site"), *controls]
        label, keys = (
            "Map of mean held-out losses",
            f"{places}{_rim(found)} Grey: not scored. Crossed: missing.",
        )
    else:
        label = f"Mean held-out loss along {'time' if found.kind == 'site' else found.kind + 's'}"
        keys = _LEGEND + _rim(found) if found.kind == "site" else ""
        hint += _ZOOM
        several = len(sequences) > 1 and found.kind == "site"
        controls += [_sequence_choice(sequences)] if several else []
        controls += [checkbox("control", "show the control"), finder(noun), zoom_buttons()]
    if found.runs is not None and len(found.runs.folds) < folds:
        keys += f" To keep the file small, {len(found.runs.folds):,} of {folds:,} folds can be selected."
    name = "map" if on_map else "along"
    return join([paragraph(intro), figure(name, label, keys, hint, *controls, scale=on_map)])


def _rim(found: Along) -> str:
    return "" if found.scored is None else " Thinner or lighter: left out with it, but not scored."


def colour_controls() -> list[Markup]:
    """What a map shows, and by which scale."""
    scales = [tag("option", words, value=key) for key, words in (("rank", "rank"), ("value", "value"))]
    return [
        tag("label", "show ", tag("select", name="show")),
        tag("label", "colours by ", tag("select", *scales, name="scale")),
    ]


def _fold_slider(count: int) -> Markup:
    slider = tag("input", type="range", name="fold", min=0, max=count - 1, value=0, aria_label="fold")
    return tag("label", "fold ", slider, " ", tag("output", "", class_="said"), class_="wide")


def _sequence_choice(names: Sequence[str]) -> Markup:
    options = [tag("option", "all, one after another", value=-1)]
    options += [tag("option", name, value=k) for k, name in enumerate(names)]
    return tag("label", "show ", tag("select", *options, name="sequence"))


def zoom_buttons() -> Markup:
    """Buttons to zoom in and out, to move left and right, and to show all."""
    named = {"in": "zoom in", "out": "zoom out", "left": "left", "right": "right", "all": "all"}
    buttons = [tag("button", words, type="button", data_zoom=key) for key, words in named.items()]
    return tag("span", *buttons, class_="buttons", role="group", aria_label="Range shown")


def influence_section(
    found: pd.DataFrame | None,
    spoken: tuple[str, ...],
    value: str,
    further: Mapping[str, np.ndarray],
) -> Markup:
    """The points with the largest influence on the fit, or the labels that the rest disagrees with;
    `value`: the name of the data; `further`: other channels (sites,) by name."""
    if found is None:
        return paragraph(
            "Not in this report. In Python, ",
            advice('cv.to_html("report.html", influence=fo.influence(fit))'),
            " includes it; on the command line, ", tag("code", "fitonce influence"), " prints it.",
        )  # fmt: skip
    lacking = [name for name in _NEEDED if name not in found]
    if lacking:
        raise ValueError(f"influence must have the columns {', '.join(_NEEDED)}; lacking: {lacking[0]}")
    label = "Displacement of the fit by each point"
    noun = "label" if "label" in found else "point"
    chart = figure("influence", label, "", _POINT + _ZOOM, finder(noun), zoom_buttons())
    if "label" in found:
        return join([*_suspicious(found), chart])
    order = found["displacement"].abs().sort_values(ascending=False, kind="stable").index[:_TOP]
    top = found.loc[order]
    moves = [name for name in found.columns if name not in _COMMON]
    where = ("place",) if "place" in found else spoken
    how = ("how",) if "how" in found else ()
    header = (
        *where, value, *further, "loss", "displacement", *how, *(["moves most"] if moves else [])
    )  # fmt: skip
    columns: list[list[Any]] = [top[name].astype(str).tolist() for name in where]
    columns.append([datum(one) for one in top["value"]])
    columns += [[datum(one) for one in values[top["site"]]] for values in further.values()]
    columns += [top[name].astype(float).tolist() for name in ("loss", "displacement")]
    columns += [top[name].astype(str).tolist() for name in how]
    columns += [moves_most(top[moves])] if moves else []
    intro = (
        f"Of {counted(len(found), 'point')}, those that move the fit most when left out. Their loss is "
        "at the parameters of the fit, as the control is. Displacements that are exact come from a "
        "refit without the point; those to first order are rough where a point moves the fit far:"
    )
    rows = zip(*columns, strict=True)
    return join([paragraph(intro), table(header, rows, "Points with the largest influence"), chart])


def _suspicious(found: pd.DataFrame) -> list[Markup]:
    """Labels by their surprise, in their sentences."""
    top = found.sort_values("loss", ascending=False, kind="stable").iloc[:_TOP]
    intro = f"Of {counted(len(found), 'label')}, those that the rest of the data disagrees with most:"
    header = (
        "in its sentence",
        "label",
        "rather",
        "probability",
        "surprise, nats",
        "displacement",
        "where",
    )
    where = top["place"] if "place" in top else [
        f"sequence {s}, token {t}" for s, t in zip(top["sequence"], top["time"], strict=True)
    ]  # fmt: skip
    rows = zip(
        [_in_sentence(found, row) for row in top.to_dict("records")], top["label"].astype(str),
        top["rather"].astype(str), [f"{100 * chance:.0f} %" for chance in top["chance"]],
        top["loss"].astype(float), top["displacement"].astype(float), where, strict=True,
    )  # fmt: skip
    return [paragraph(intro), table(header, rows, "Suspicious labels")]


def _in_sentence(found: pd.DataFrame, row: dict[Any, Any]) -> Markup:
    near = found[
        (found["sequence"] == row["sequence"]) & ((found["time"] - row["time"]).abs() <= _AROUND)
    ]
    words = [
        tag("strong", word) if time == row["time"] else word
        for word, time in zip(near["word"].astype(str), near["time"], strict=True)
    ]
    return tag("span", join(words, " "))


def packed_influence(found: pd.DataFrame) -> dict[str, Any]:
    """The data of the chart."""
    whole = {name: integers(found[name]) for name in ("sequence", "time", "site")}
    if "value" in found:
        whole["value"] = floats(found["value"])
    return whole | {name: floats(found[name]) for name in ("loss", "displacement")}
