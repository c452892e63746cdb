"""The report of one result, section by section."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd

from fitonce.core.wording import counted
from fitonce.results.certainty import se_is_a_guess
from fitonce.results.doubts import is_unchecked
from fitonce.results.fold_names import named_folds
from fitonce.results.report import along as by_place
from fitonce.results.report import layout, points
from fitonce.results.report.along import spans
from fitonce.results.report.choice import choice_section, title_of
from fitonce.results.report.estimate import estimate_section
from fitonce.results.report.facts import (
    asked_section,
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
from fitonce.results.report.labels import in_words, labels_section
from fitonce.results.report.largest import largest_section
from fitonce.results.report.markup import Markup, join, number, paragraph, tag
from fitonce.results.report.oddest import Odd
from fitonce.results.report.optima import optima_section
from fitonce.results.report.shell import page, speech, spoken
from fitonce.results.report.trust import verdicts_section
from fitonce.results.summary import FitSummary, Result


def html_report(
    result: Result,
    *,
    scatter: pd.DataFrame | None = None,
    scatter_labels: tuple[str, str] = ("approximate", "exact"),
    influence: Any = None,
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
        influence: `fitonce.influence(fit)`, or its table; None: the page says how to get it.
        asked: settings by name; the others are taken from the result.
        command: reproduces this result.
        title: of the page; None: made from the model.
        polygons: the content of a GeoJSON file, one polygon or point for each site of a graph, in order;
            a property `name`, `NAME` or `label` names the sites where the data do not.
        times: seconds of further work, by name.
        models: the table of `fitonce.select`, where that selected the model of this result.
        choice: the sentence of that selection.
        valley: the objective of a fold between two of its optima: `fold`, `position` (0 and 1 at the
            optima) and `objective`, in nats above the lower one.
    """
    if not hasattr(result, "pointwise"):
        raise ValueError(f"result must be a CVResult, got {type(result).__name__}")
    fitted = in_words(layout.named(result.summary, polygons), result)
    where = layout.where_of(fitted, polygons)
    found = by_place.along(result, fitted)
    pairs = points.pairs(result, scatter, scatter_labels)
    on_map = fitted.edges is not None and found.kind == "site"
    moved = influence if influence is None or hasattr(influence, "columns") else influence.to_dataframe()
    noun = "site" if on_map else "point" if found.kind == "site" else found.kind
    words, by_name = spans(result, fitted), named_folds(result, fitted)
    called = partial(by_place.place_name, found, fitted, words, by_name)
    odd = Odd(result)
    sections = {
        **({} if models is None else {"choice": choice_section(models, choice)}),
        "estimate": estimate_section(result, pairs),
        **({} if result.labels is None else {"labels": labels_section(result)}),
        "largest": largest_section(found, result, odd, called, noun),
        "along": along_section(
            found, on_map, fitted.names.sequences, _places(where), len(result.folds), bool(odd.p)
        ),
        "verdicts": verdicts_section(result, words, by_name),
        **(
            {"optima": optima_section(result, valley, by_name)}
            if (result.folds["optimum"] != 0).any()
            else {}
        ),
        "scatter": scatter_section(pairs),
        "influence": influence_section(
            moved, spoken(fitted), by_place.channel_of(fitted), fitted.further_channels
        ),
        "model": model_section(fitted),
        "asked": asked_section(result, fitted, asked),
        "timings": timings_section(result, fitted, times),
        "reproduce": reproduce_section(result, asked, command),
        "glossary": glossary(),
    }
    data = speech(fitted, fitted.places)
    data |= {"scatter": points.packed(pairs), "along": by_place.packed(found, result)}
    if on_map and fitted.edges is not None:
        data["along"]["odd"] = odd.packed(len(found.loss)) or None
        data["map"] = layout.packed(int(fitted.lengths.sum()), fitted.edges, where)
    if moved is not None:
        data["influence"] = packed_influence(moved)
    made = f"Cross-validation of {fitted.model}" if models is None else title_of(models, fitted.model)
    name = title or made
    return page(name, _lead(result, fitted), sections, data)


def _places(where: layout.Where) -> str:
    if where is not None:
        return "Outlined or ringed: left out by the selected fold."
    return "A layout, not a map: neighbours are close together. Ringed: left out by the selected fold."


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
    guess = [result.about_se] if se_is_a_guess(result) else []
    careful = [*result.doubts, *guess]
    kind = "caution" if careful else "unchecked" if is_unchecked(result) else "fine"
    first = []
    if careful:
        first = [tag("strong", f"Caution: {'; '.join(careful)}.", class_="warns"), " "]
    if result.doubts:
        words += " See the section on reliability before using this number."
    note = paragraph(*first, words, class_=f"note {kind}")
    scored = result.left_out
    if fitted.edges is not None:  # of a map
        scored = re.sub(r"\bpoint(s?) scored", r"site\1 scored", scored)
    few = fitted.about_few
    rests = [paragraph(f"{few[:1].upper()}{few[1:]}: see the section on the model.")] if few else []
    return join([paragraph(scored), note, *rests])
