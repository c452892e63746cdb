"""A card: what it is, how far to trust it, in a sentence, then a table, a picture and the printed text.

Colours are the page's own (`currentColor`) and a few that stand out on white and on black, because a
notebook's theme is not that of the browser. Where styles or pictures are removed, as in notebooks that
are not trusted, headings and tables still read well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fitonce.results.report.markup import Markup, details, tag, text

# The same words and colours everywhere; the word is always there, so that colours are never needed.
LEVELS = {"good": "#2a9d68", "fair": "#b8860b", "bad": "#dc4a26", "unchecked": "#808890"}
_MARKS = "".join(f".fitonce .{level} {{ color: {colour}; }}" for level, colour in LEVELS.items())
STYLE = Markup(
    ".fitonce { max-width: 56rem; margin: 0.3rem 0; color: inherit; line-height: 1.45; }"
    ".fitonce p { margin: 0.2rem 0; }"
    ".fitonce .mark { font-weight: 600; border: 1px solid; border-radius: 0.8em; padding: 0 0.55em; "
    "margin-right: 0.35em; white-space: nowrap; }"
    f"{_MARKS}"
    ".fitonce .scroll { overflow-x: auto; }"
    ".fitonce table { border-collapse: collapse; margin: 0.4rem 0; font-size: 0.92em; color: inherit; }"
    ".fitonce th, .fitonce td { text-align: left; padding: 0.12rem 0.9rem 0.12rem 0; "
    "border: 0 solid rgba(128, 136, 144, 0.35); border-bottom-width: 1px; background: none; "
    "color: inherit; font-weight: inherit; vertical-align: top; }"
    ".fitonce tbody th { white-space: nowrap; }"
    ".fitonce thead th { font-weight: 600; white-space: nowrap; }"
    ".fitonce .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }"
    ".fitonce svg { display: block; max-width: 100%; height: auto; margin: 0.35rem 0 0; }"
    ".fitonce td svg { max-width: none; margin: 0; }"
    ".fitonce .small { font-size: 0.86em; opacity: 0.8; }"
    ".fitonce summary { cursor: pointer; font-size: 0.86em; opacity: 0.8; }"
    ".fitonce pre { font-size: 0.86em; overflow-x: auto; background: none; color: inherit; }"
)


class Mark(NamedTuple):
    """How far to trust what is shown: "good", "fair", "bad" or "unchecked", and its word if another."""

    level: str
    word: str = ""


class Table(NamedTuple):
    """Rows of a card's table, the first column naming each."""

    header: Sequence[str]
    rows: Iterable[Sequence[Any]]


class Picture(NamedTuple):
    """A drawing and what it shows, in words."""

    drawing: Markup
    caption: str


def card(
    title: str,
    verdict: Mark | None,
    sentence: str,
    *,
    table: Table | None = None,
    picture: Picture | None = None,
    notes: Iterable[str] = (),
    printed: str = "",
) -> str:
    """One card as HTML. All text is escaped.

    Args:
        title: what it is.
        verdict: how far to trust it; None where nothing is judged.
        sentence: the result itself.
        table: a few rows.
        picture: one small drawing.
        notes: caveats and where there is more, a paragraph each.
        printed: the whole text, folded away.
    """
    parts = [tag("style", STYLE), tag("p", *_marked(verdict), tag("strong", title), ": ", sentence)]
    if table is not None:
        parts.append(_written(table))
    if picture is not None:
        parts += [picture.drawing, tag("p", picture.caption, class_="small")]
    parts += [tag("p", note, class_="small") for note in notes if note]
    if printed:
        parts.append(details("as printed", tag("pre", printed)))
    return str(tag("div", *parts, class_="fitonce"))


def _marked(verdict: Mark | None) -> list[Markup]:
    if verdict is None:
        return []
    word = verdict.word or verdict.level
    return [tag("span", word, class_=f"mark {verdict.level}"), Markup(" ")]


def _written(table: Table) -> Markup:
    rows = [list(row) for row in table.rows]
    kinds = [
        "number" if _are_numbers([row[place] for row in rows]) else None
        for place in range(len(table.header))
    ]
    head = tag(
        "tr",
        *(
            tag("th", name, scope="col", class_=kind)
            for name, kind in zip(table.header, kinds, strict=True)
        ),
    )
    body = [
        tag("tr", *(_cell(row[place], place, kind) for place, kind in enumerate(kinds))) for row in rows
    ]
    whole = tag("table", tag("thead", head) if any(table.header) else "", tag("tbody", *body))
    return tag("div", whole, class_="scroll")


def _cell(content: Any, place: int, kind: str | None) -> Markup:
    shown = figure(content) if _is_number(content) else text(content)
    given: dict[str, Any] = {"class_": kind}
    return tag("th", shown, scope="row", **given) if place == 0 else tag("td", shown, **given)


def _are_numbers(cells: list[Any]) -> bool:
    """Whether a column has numbers, and nothing else but empty cells."""
    return any(_is_number(cell) for cell in cells) and all(_is_number(c) or c == "" for c in cells)


def _is_number(content: Any) -> bool:
    return isinstance(content, (int, float, np.number)) and not isinstance(content, (bool, np.bool_))


def figure(value: Any) -> str:
    """A number with four significant digits; nothing where there is none."""
    if isinstance(value, (int, np.integer)):
        return f"{int(value):,}"
    value = float(value)
    if not np.isfinite(value):
        return "" if np.isnan(value) else ("∞" if value > 0 else "-∞")
    if value == np.round(value) and abs(value) < 1e7:
        return f"{value:,.0f}"
    if 1e-4 <= abs(value) < 1e7:
        size = int(np.floor(np.log10(abs(value))))
        return f"{value:,.{min(max(3 - size, 0), 6)}f}"
    return f"{value:.2e}"


def of_frame(frame: pd.DataFrame, columns: Sequence[str], first: str = "") -> Table:
    """Columns of a table of pandas that are there and not empty, behind its index where `first` names
    that."""
    kept = [name for name in columns if name in frame and not bool(frame[name].isna().all())]
    rows = [
        [*([str(index)] if first else []), *("" if _is_missing(value) else value for value in row)]
        for index, row in zip(frame.index, frame[kept].to_numpy(object), strict=True)
    ]
    return Table([*([first] if first else []), *kept], rows)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and bool(np.isnan(value)))


def more_rows(shown: int, total: int, where: str) -> str:
    """A note on the rows that are not shown."""
    return f"{shown:,} of {total:,} shown; more: {where}" if shown < total else ""
