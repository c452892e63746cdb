"""Estimates with their standard errors on one scale, as HTML, so that names wrap and nothing is cut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fitonce.results.report.markup import Markup, number, tag


@dataclass(frozen=True)
class Row:
    """An estimate, its standard error, that of its difference from the best, and its control; nan where
    there is none."""

    name: str
    estimate: float
    se: float
    paired: float
    control: float


def ranges(rows: Sequence[Row], label: str, best: float | None = None) -> Markup:
    """One line for each row; a dashed line at the best of several."""
    ends = [end for row in rows for end in _ends(row) if math.isfinite(end)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        low, high = low - 1.0, high + 1.0

    def at(value: float) -> float:
        return 100.0 * (value - low) / (high - low)

    lines = [
        tag(
            "div", tag("span", row.name, class_="name") if len(rows) > 1 else "",
            tag("span", *_marks(row, at, best), class_="range"), class_="row",
        )
        for row in rows
    ]  # fmt: skip
    axis = tag("span", tag("span", number(low, 4)), tag("span", number(high, 4)), class_="range ends")
    first = tag("span", "", class_="name") if len(rows) > 1 else ""
    kind = "ranges" if len(rows) > 1 else "ranges alone"
    return tag(
        "div", *lines, tag("div", first, axis, class_="row"), role="img", aria_label=label, class_=kind
    )


def _ends(row: Row) -> tuple[float, ...]:
    widest = max((se for se in (row.se, row.paired) if math.isfinite(se)), default=0.0)
    return (row.estimate - widest, row.estimate + widest, row.control)


def _marks(row: Row, at, best: float | None) -> list[Markup]:  # type: ignore[no-untyped-def]
    def bar(se: float, kind: str) -> list[Markup]:
        if not (math.isfinite(se) and math.isfinite(row.estimate)):
            return []
        start, stop = at(row.estimate - se), at(row.estimate + se)
        return [tag("i", class_=kind, style=f"left:{start:.2f}%;width:{stop - start:.2f}%")]

    dots = [(row.estimate, "estimate"), (row.control, "control")]
    return [
        *([tag("i", class_="best", style=f"left:{at(best):.2f}%")] if best is not None else []),
        *bar(row.se, "thin"),
        *bar(row.paired, "se"),
        *(tag("i", class_=kind, style=f"left:{at(x):.2f}%") for x, kind in dots if math.isfinite(x)),
    ]
