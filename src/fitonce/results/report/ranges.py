"""Estimates with their standard errors on one scale, as HTML, so that names wrap and nothing is cut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fitonce.results.report.markup import Markup, number, tag

_CROWDED = 0.2  # of the picture


@dataclass(frozen=True)
class Row:
    """An estimate, its standard error, that of its difference from the best, its control, and the mean
    of exact refits; nan where there is none. `partial`: the error of the estimate is not in its bar."""

    name: str
    estimate: float
    se: float
    paired: float
    control: float
    exact: float = math.nan
    partial: bool = False


def ranges(rows: Sequence[Row], label: str, best: float | None = None) -> Markup:
    """One line for each row; a dashed line at the best of several. Rows so far to the right that the
    others could not be told apart are drawn as arrows with their number."""
    near = [row for row, far in zip(rows, beyond([_ends(row) for row in rows]), strict=True) if not far]
    ends = [end for row in near for end in _ends(row) if math.isfinite(end)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        low, high = low - 1.0, high + 1.0

    def at(value: float) -> float:
        return 100.0 * (value - low) / (high - low)

    lines = [
        tag(
            "div", tag("span", row.name, class_="name") if len(rows) > 1 else "",
            tag("span", *(_marks(row, at, best) if row in near else _arrow(row)), class_="range"),
            class_="row",
        )
        for row in rows
    ]  # fmt: skip
    axis = tag("span", tag("span", number(low, 4)), tag("span", number(high, 4)), class_="range ends")
    first = tag("span", "", class_="name") if len(rows) > 1 else ""
    kind = "ranges" if len(rows) > 1 else "ranges alone"
    return tag(
        "div", *lines, tag("div", first, axis, class_="row"), role="img", aria_label=label, class_=kind
    )


def beyond(ends: Sequence[Sequence[float]]) -> list[bool]:
    """Which rows lie so far above the others that these would share a fifth of the picture; of a few
    rows at least two are kept."""
    tops = [max((end for end in row if math.isfinite(end)), default=-math.inf) for row in ends]
    least = min((end for row in ends for end in row if math.isfinite(end)), default=0.0)
    order = sorted(range(len(tops)), key=tops.__getitem__)
    kept = len(order)
    for count in range(2, len(order)):
        if tops[order[count - 1]] - least < _CROWDED * (tops[order[-1]] - least):
            kept = count
    return [place in order[kept:] for place in range(len(tops))]


def _arrow(row: Row) -> list[Markup]:
    """A row beyond the right end."""
    return [tag("span", f"{number(row.estimate, 4)} \u2192", class_="beyond")]


def _ends(row: Row) -> tuple[float, ...]:
    widest = max((se for se in (row.se, row.paired) if math.isfinite(se)), default=0.0)
    return (row.estimate - widest, row.estimate + widest, row.control, row.exact)


def _marks(row: Row, at, best: float | None) -> list[Markup]:  # type: ignore[no-untyped-def]
    def bar(se: float, kind: str) -> list[Markup]:
        if not (math.isfinite(se) and math.isfinite(row.estimate)):
            return []
        start, stop = at(row.estimate - se), at(row.estimate + se)
        return [tag("i", class_=kind, style=f"left:{start:.2f}%;width:{stop - start:.2f}%")]

    dots = [(row.exact, "exact"), (row.estimate, "estimate"), (row.control, "control")]
    return [
        *([tag("i", class_="best", style=f"left:{at(best):.2f}%")] if best is not None else []),
        *bar(row.se, "thin partial" if row.partial else "thin"),
        *bar(row.paired, "se"),
        *(tag("i", class_=kind, style=f"left:{at(x):.2f}%") for x, kind in dots if math.isfinite(x)),
    ]
