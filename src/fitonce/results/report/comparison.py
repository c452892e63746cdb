"""The page of a comparison: models on the same folds, and where they differ."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import counted
from fitonce.results.fold_names import named_folds
from fitonce.results.report import along as by_place
from fitonce.results.report import layout
from fitonce.results.report.along import Along, spans
from fitonce.results.report.choice import choice_section
from fitonce.results.report.facts import versions_table
from fitonce.results.report.figures import colour_controls, figure, finder, zoom_buttons
from fitonce.results.report.glossary import glossary
from fitonce.results.report.labels import in_words
from fitonce.results.report.largest import Shares
from fitonce.results.report.markup import Markup, details, join, paragraph, table, tag
from fitonce.results.report.points import floats, loss_unit
from fitonce.results.report.shell import page, speech
from fitonce.results.summary import FitSummary, Result

_MOST = 8  # models whose differences are drawn
_LISTED = 10
_HINT = "Point at the chart, touch it, or use the arrow keys."


def comparison_report(
    found: Any,
    *,
    command: str | None = None,
    title: str | None = None,
    polygons: dict[str, Any] | None = None,
) -> str:
    """A `Comparison` as one self-contained HTML page. The same input gives the same page.

    Args:
        found: of `fitonce.compare`.
        command: reproduces it.
        title: of the page; None: made from the number of models.
        polygons: the content of a GeoJSON file, one polygon or point for each site of a graph, in order.
    """
    if not hasattr(found, "results"):
        raise ValueError(f"found must be a Comparison, got {type(found).__name__}")
    best = found.results[found.best]
    fitted = in_words(layout.named(best.summary, polygons), best)
    where = layout.where_of(fitted, polygons)
    place = by_place.along(best, fitted)
    on_map = fitted.edges is not None and place.kind == "site"
    others = [str(name) for name in found.table.index[1:]][:_MOST]
    apart = {name: _difference(found.results[name], best, place) for name in others}
    sections = {"models": choice_section(found.table, found.sentence)}
    if apart:
        sections["apart"] = _largest(found.best, apart, found.results, place, fitted)
        sections["differences"] = _differences_section(found.best, place, on_map)
    sections |= {
        "model": _models(found.results),
        "asked": _settings(found, best),
        "reproduce": versions_table(best, command),
        "glossary": glossary(),
    }
    data = speech(fitted, fitted.places)
    if apart:
        data["along"] = by_place.packed(place, best) | {
            "runs": None,
            "layers": {f"{name} minus {found.best}": floats(values) for name, values in apart.items()},
            "signs": [f"better with {found.best}", *(f"better with {name}" for name in apart)],
        }
        if on_map and fitted.edges is not None:
            data["map"] = layout.packed(int(fitted.lengths.sum()), fitted.edges, where)
    name = title or f"Comparison of {counted(len(found.table), 'model')}"
    return page(name, _lead(found), sections, data)


def _lead(found: Any) -> Markup:
    kind, first, words = "fine", [], found.sentence
    if found.doubts:
        said = "; ".join(found.doubts)
        kind, words = "caution", words.removesuffix(f"; {said}")
        first = [tag("strong", f"Caution: {said}.", class_="warns"), " "]
    words = words[:1].upper() + words[1:] + "."
    cautions = [paragraph(text[:1].upper() + text[1:] + ".", class_="small") for text in found.cautions]
    return join([paragraph(found.left_out), paragraph(*first, words, class_=f"note {kind}"), *cautions])


def _difference(result: Result, best: Result, place: Along) -> np.ndarray:
    """(places,) mean over folds of the loss less that of the best."""
    both = result.pointwise["loss"].to_numpy() - best.pointwise["loss"].to_numpy()
    fold = best.pointwise["fold"].to_numpy()
    used = (result.folds["ok"].to_numpy(bool) & best.folds["ok"].to_numpy(bool))[fold] & np.isfinite(
        both
    )
    return by_place.means(place.place, both, used, len(place.loss))


def _largest(
    best: str, apart: dict[str, np.ndarray], results: dict[str, Result], place: Along, fitted: FitSummary
) -> Markup:
    """The places where each model differs most from the best."""
    noun = "site" if fitted.edges is not None else "point" if place.kind == "site" else place.kind
    folds = spans(results[best], fitted), named_folds(results[best], fitted)
    called = partial(by_place.place_name, place, fitted, *folds)
    intro = f"Where models differ most from {best}, over the folds that score a {noun}."
    shown: list[Markup] = [paragraph(intro)]
    for number, (name, values) in enumerate(apart.items()):
        words, rows = _rows(values, results[name], results[best], place, called)
        header = (noun, "difference", "better with", name, best)
        named = [(*row[:2], best if row[1] > 0 else name, *row[2:]) for row in rows]
        listed = table(header, named, f"Largest differences between {name} and {best}")
        content = join([paragraph(words), listed])
        shown.append(join([tag("h3", name), content]) if number == 0 else details(name, content))
    return join(shown)


def _rows(
    values: np.ndarray, result: Result, best: Result, place: Along, called: Any
) -> tuple[str, list[tuple[Any, ...]]]:
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(-np.abs(values[known]), kind="stable")][:_LISTED]
    own, other = (Shares(one, place.place, len(values)) for one in (result, best))
    size = np.abs(own.parts - other.parts)
    top = np.sort(size)[::-1].cumsum()
    half = int(np.searchsorted(top, 0.5 * top[-1])) + 1 if top[-1] > 0 else 0
    words = (
        f"{half:,} of {len(known):,} carry half of all differences in either direction."
        if half
        else "They do not differ anywhere."
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, least = own.parts / own.weights, other.parts / other.weights
    rows = [(called(int(k)), float(values[k]), float(mean[k]), float(least[k])) for k in order]
    return words, rows


def _differences_section(best: str, place: Along, on_map: bool) -> Markup:
    intro = f"Mean held-out loss less that of {best}: above zero, {best} predicts better."
    if on_map:
        label = "Map of differences of held-out losses"
        chart = figure(
            "map", label, "Grey: not scored.", _HINT, *colour_controls(), finder("site"), scale=True
        )
    else:
        label = "Differences of held-out losses by position"
        controls = (tag("label", "show ", tag("select", name="show")), finder("point"), zoom_buttons())
        chart = figure("along", label, "", _HINT + " Keys + and - zoom.", *controls)
    return join([paragraph(intro), chart])


def _models(results: dict[str, Result]) -> Markup:
    rows = [
        (name, cv.summary.model, _fitted(cv.summary), cv.method, _verdicts(cv.folds))
        for name, cv in results.items()
    ]
    return table(("name", "model", "fit", "method", "verdicts"), rows, "Models in words")


def _fitted(fitted: FitSummary) -> str:
    """The status of a fit, its other optima, and states that rest on few points."""
    starts = "" if fitted.optima is None else f"; {fitted.optima.sentence}"
    return f"{fitted.status}{starts}{f'; {fitted.about_few}' if fitted.about_few else ''}"


def _verdicts(folds: pd.DataFrame) -> str:
    counts = folds["verdict"].where(folds["ok"], "without a number").value_counts()
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _settings(found: Any, best: Result) -> Markup:
    known = {
        "data": best.summary.data,
        "folds": found.left_out,
        "loss": f"{best.loss}, {loss_unit(best)}" if best.loss in ("pointwise", "joint") else best.loss,
        "paired by": found.by,
    }
    return table(("setting", "value"), list(known.items()), "Settings")
