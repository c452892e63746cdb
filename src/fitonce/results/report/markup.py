"""HTML from plain values. All text is escaped here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from fitonce.core.wording import duration

NOT_AVAILABLE = "not available"


class Markup(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def text(content: Any) -> Markup:
    """Anything as HTML: markup is kept, numbers are rounded, the rest is escaped."""
    if isinstance(content, Markup):
        return content
    if isinstance(content, (float, np.floating)):
        return Markup(number(float(content)))
    if isinstance(content, (int, np.integer)) and not isinstance(content, bool):
        return Markup(f"{int(content):,}")
    return Markup(escape(str(content)))


def join(parts: Iterable[Any], between: str = "") -> Markup:
    """Concatenate parts as HTML."""
    return Markup(escape(between).join(text(part) for part in parts))


def tag(name: str, /, *content: Any, **attributes: Any) -> Markup:
    """An element. `class_` is class, `aria_label` is aria-label; None omits an attribute."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None
    )
    if name in ("meta", "link", "input"):
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(content)}</{name}>")


def paragraph(*content: Any, **attributes: Any) -> Markup:
    """A paragraph of concatenated parts."""
    return tag("p", *content, **attributes)


def table(header: Sequence[Any], rows: Iterable[Sequence[Any]], label: str) -> Markup:
    """A table that scrolls in its own box when the page is narrow."""
    rows = list(rows)
    kinds: list[str | None] = [None] * len(header)
    if rows:
        kinds = [_kind(cells) for cells in zip(*rows, strict=True)]
    if len(header) < _MANY:  # texts may wrap
        kinds = [kind if kind == "number" else None for kind in kinds]
    head = tag(
        "tr",
        *(tag("th", cell, scope="col", class_=kind) for cell, kind in zip(header, kinds, strict=True)),
    )
    body = join(tag("tr", *(map(_cell, row, kinds, range(len(row))))) for row in rows)
    whole = tag("table", tag("thead", head), tag("tbody", body))
    return tag("div", whole, class_="scroll", role="region", aria_label=label, tabindex=0)


_MANY = 4  # columns: a long text among so many is given its width, and the table scrolls
_LONG, _SENTENCES = 26, 120  # characters
_NUMBER = re.compile(r"[-+]?[\d,.]+(e[-+]?\d+)?( %)?|not available|missing")


def _cell(content: Any, kind: str | None, place: int) -> Markup:
    if place == 0:
        return tag("th", content, scope="row", class_=kind)
    return tag("td", content, class_=kind)


def _kind(cells: Iterable[Any]) -> str:
    """The class of a column: numbers, long or short texts."""
    plain = [_plain(cell) for cell in cells]
    if all(_NUMBER.fullmatch(text) for text in plain):
        return "number"
    longest = max(map(len, plain))
    return "short" if longest <= _LONG else "long" if longest <= _SENTENCES else "long sentences"


def _plain(cell: Any) -> str:
    if isinstance(cell, (float, np.floating)):
        return number(float(cell))
    return re.sub("<[^>]*>", "", cell) if isinstance(cell, Markup) else str(cell)


def advice(code: str) -> Markup:
    """Code to run, with `fo`, `fit`, `folds`, `cv`, `model` and `data` as in the tutorial."""
    return tag("code", code, class_="advice")


def details(summary: Any, *content: Any) -> Markup:
    """A section that is collapsed at first."""
    return tag("details", tag("summary", summary), *content)


def number(value: Any, digits: int = 4) -> str:
    """A number with `digits` significant digits; "not available" unless finite."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if -4 <= size < 7:
        return f"{value:,.{max(digits - 1 - size, 0)}f}"
    return f"{value:.{digits - 1}e}"


def datum(value: Any) -> str:
    """A number of the data, without trailing zeros."""
    written = number(value)
    return written.rstrip("0").rstrip(".") if "." in written and "e" not in written else written


def time_taken(seconds: Any) -> str:
    """A duration such as "12 s"; "not available" unless finite."""
    return NOT_AVAILABLE if seconds is None or not math.isfinite(seconds) else duration(seconds)
