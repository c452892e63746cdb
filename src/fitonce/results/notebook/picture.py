"""Small drawings in SVG, in colours that stand out on white and on black."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.angles import turns_of, wrapped
from fitonce.results.notebook.card import figure
from fitonce.results.report.markup import Markup, tag

FIRST, SECOND, GREY = "#2f81c9", "#d9691e", "#808890"
# Of classes, with their names; they begin again after the last.
NAMED = {"blue": FIRST, "orange": SECOND, "green": "#2a9d68", "purple": "#9a6fd0", "pink": "#d6568f",
         "olive": "#9a8b1f", "grey": GREY}  # fmt: skip
_WIDTH, _HEIGHT = 480, 96
_LEFT, _RIGHT, _TOP, _FOOT = 52, 6, 8, 14  # margins, with room for numbers
MOST_BARS = 200  # with more, each bar is the largest of several neighbours
_MOST_NUMBERS = 8  # states: with more, the cells are too small for numbers


class Scale(NamedTuple):
    """From values to places in a drawing."""

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        span = self.high - self.low
        share = (value - self.low) / span if span > 0 else 0.5
        return round(self.start + share * (self.stop - self.start), 1)


def scale_of(values: Any, start: float, stop: float, room: float = 0.0) -> Scale:
    """A scale for the finite values, with some room at both ends."""
    finite = np.asarray(values, float)
    finite = finite[np.isfinite(finite)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return Scale(low - room * (high - low), high + room * (high - low), start, stop)


def _svg(width: float, height: float, label: str, *content: Any) -> Markup:
    return tag(
        "svg", tag("title", label), *content, role="img", width=width, height=height,
        viewBox=f"0 0 {width} {height}",
    )  # fmt: skip


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str = "currentColor", **more: Any
) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, **more)


def _number(value: float, x: float, y: float, anchor: str = "end") -> Markup:
    return _text(figure(value), x, y, anchor)


def _text(words: str, x: float, y: float, anchor: str = "end") -> Markup:
    return tag(
        "text", words, x=x, y=y, text_anchor=anchor, font_size=11, fill="currentColor", opacity=0.8
    )


def interval(
    scale: Scale, low: float, centre: float, high: float, control: float = float("nan"), label: str = ""
) -> Markup:
    """One row of a table: an interval with its centre, and a cross for the control."""
    parts = []
    if np.isfinite(low) and np.isfinite(high):
        parts.append(_line(scale.at(low), 9, scale.at(high), 9, FIRST, stroke_width=2))
    if np.isfinite(control):
        x = scale.at(control)
        parts.append(tag("path", d=f"M{x - 4} 5l8 8m0 -8l-8 8", stroke=SECOND, stroke_width=1.8))
    if np.isfinite(centre):
        parts.append(tag("circle", cx=scale.at(centre), cy=9, r=4, fill=FIRST))
    return _svg(scale.start + scale.stop, 18, label, *parts)


def histogram(draws: np.ndarray, low: float, centre: float, high: float, label: str) -> Markup:
    """One row of a table: how draws are distributed, the interval, and the value."""
    finite = draws[np.isfinite(draws)]
    scale = scale_of([*finite, low, centre, high], 4, 156)
    parts = []
    if len(finite) > 1:
        counts, _ = np.histogram(finite, bins=38, range=(scale.low, scale.high))
        tops = 20 - 18 * counts / max(counts.max(), 1)
        path = "M4 20" + "".join(f"V{top:.1f}h4" for top in tops) + "V20Z"
        parts.append(tag("path", d=path, fill=GREY, opacity=0.55))
    if np.isfinite(low) and np.isfinite(high):
        parts.append(_line(scale.at(low), 20, scale.at(high), 20, FIRST, stroke_width=3))
    parts.append(_line(scale.at(centre), 1, scale.at(centre), 22, SECOND, stroke_width=1.8))
    return _svg(160, 24, label, *parts)


def pooled(values: np.ndarray, most: int = MOST_BARS) -> tuple[np.ndarray, int]:
    """At most so many values, each the one farthest from zero of `size` neighbours; and `size`."""
    size = max(-(-len(values) // most), 1)
    padded = np.append(values, np.full(-len(values) % size, np.nan)).reshape(-1, size)
    sizes = np.where(np.isfinite(padded), np.abs(padded), -1.0)
    return padded[np.arange(len(padded)), sizes.argmax(1)], size


def bars(values: np.ndarray, label: str) -> tuple[Markup, int]:
    """Values along the data, and how many neighbours share a bar, which shows the largest."""
    shown, size = pooled(np.asarray(values, float))
    y = scale_of([0.0, *shown], _HEIGHT - _FOOT, _TOP)
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(shown), 1)
    path = "".join(
        f"M{_LEFT + (k + 0.5) * step:.1f} {y.at(0.0)}V{y.at(value)}"
        for k, value in enumerate(shown)
        if np.isfinite(value)
    )
    thick = max(min(0.7 * step, 8.0), 0.8)
    drawn = _svg(
        _WIDTH, _HEIGHT, label,
        _line(_LEFT, y.at(0.0), _WIDTH - _RIGHT, y.at(0.0), opacity=0.5),
        tag("path", d=path, stroke=FIRST, stroke_width=round(thick, 1), fill="none"),
        _number(y.high, _LEFT - 6, _TOP + 8),
        _number(0.0, _LEFT - 6, y.at(0.0) + 4) if y.high > 0 else "",
        _number(y.low, _LEFT - 6, _HEIGHT - _FOOT + 4) if y.low < 0 else "",
    )  # fmt: skip
    return drawn, size


def moves(
    chances: np.ndarray, names: Sequence[str], label: str, tip: str = "from {0} to {1}: {2:.3g}"
) -> Markup:
    """Probabilities (K, K) from row to column; stronger colours are more probable."""
    longest = max(len(name) for name in names)
    side = max(34, 8 * longest) if len(chances) <= _MOST_NUMBERS else 16
    left = max(_LEFT, 7 * longest + 12)
    parts = []
    for row, chance in enumerate(chances):
        parts.append(_text(names[row], left - 6, 18 + side * (row + 0.5) + 4))
        if side > 16:
            parts.append(_text(names[row], left + side * (row + 0.5), 12, "middle"))
        for column, value in enumerate(chance):
            x, y = left + side * column, 18 + side * row
            said = tag("title", tip.format(names[row], names[column], value))
            # Most of the mass is on the diagonal: the square root lets the rest be seen.
            shade = 0.06 + 0.64 * float(np.sqrt(max(value, 0.0)))
            size = {"x": x, "y": y, "width": side - 2, "height": side - 2}
            parts.append(tag("rect", said, fill=FIRST, fill_opacity=round(shade, 2), **size))
            if len(chances) <= _MOST_NUMBERS:
                parts.append(_text(_share(value), x + side / 2 - 1, y + side / 2 + 3, "middle"))
    whole = side * len(chances)
    return _svg(left + whole, 18 + whole, label, *parts)


def network(places: np.ndarray, edges: np.ndarray, classes: np.ndarray, label: str) -> Markup:
    """The sites of a graph (sites, 2) and its edges (E, 2), coloured by class."""
    x, y = scale_of(places[:, 0], 8, 292), scale_of(places[:, 1], 192, 8)
    at = [(x.at(a), y.at(b)) for a, b in places]
    lines = "".join(f"M{at[a][0]} {at[a][1]}L{at[b][0]} {at[b][1]}" for a, b in edges)
    radius = 4.5 if len(places) <= 100 else 3
    colours = list(NAMED.values())
    dots = [
        tag("circle", tag("title", f"site {k}: {kind}"), cx=px, cy=py, r=radius,
            fill=colours[kind % len(colours)])
        for k, ((px, py), kind) in enumerate(zip(at, classes.tolist(), strict=True))
    ]  # fmt: skip
    drawn = tag("path", d=lines, stroke="currentColor", opacity=0.35, fill="none")
    return _svg(300, 200, label, drawn, *dots)


def _share(value: float) -> str:
    """With two digits, and 1 only where it is one."""
    if value in (0, 1):
        return f"{value:.0f}"
    return "<.01" if value < 0.005 else ">.99" if value >= 0.995 else f"{value:.2f}".lstrip("0")


def future(seen: np.ndarray, mean: np.ndarray, low: np.ndarray, high: np.ndarray, label: str) -> Markup:
    """The end of a sequence, and the band in which it is expected to go on."""
    y = scale_of([*seen, *mean, *low, *high], _HEIGHT + 20 - _FOOT, _TOP)
    x = _along(seen, mean)
    return _svg(
        _WIDTH, _HEIGHT + 20, label,
        _band(x, y, low, high, len(seen)),
        tag("path", d=_path(x, y, seen, 0), fill="none", stroke="currentColor", opacity=0.75),
        tag("path", d=_path(x, y, mean, len(seen)), fill="none", stroke=FIRST, stroke_width=2),
        _number(y.high, _LEFT - 6, _TOP + 8),
        _number(y.low, _LEFT - 6, _HEIGHT + 20 - _FOOT),
    )  # fmt: skip


def future_angles(
    seen: np.ndarray, mean: np.ndarray, low: np.ndarray, high: np.ndarray, label: str
) -> Markup:
    """The same of angles, from -pi to pi: a band that leaves at one end comes back at the other."""
    y = Scale(-np.pi, np.pi, _HEIGHT + 20 - _FOOT, _TOP)
    x, start = _along(seen, mean), len(seen)
    dots = "".join(
        f"M{x.at(place)} {y.at(value)}h0.1"
        for place, value in enumerate(wrapped(seen))
        if np.isfinite(value)
    )
    # An element of its own cuts what is beyond its ends.
    size = {"x": 0, "y": _TOP, "width": _WIDTH, "height": y.start - _TOP}
    cut = f"0 {_TOP} {_WIDTH} {y.start - _TOP}"
    return _svg(
        _WIDTH, _HEIGHT + 20, label,
        tag("svg", *(_band(x, y, begin, end, start) for begin, end in turns_of(low, high)),
            *(tag("path", d=_path(x, y, line, start), fill="none", stroke=FIRST, stroke_width=2)
              for line, _ in turns_of(mean, mean)), viewBox=cut, **size),
        tag("path", d=dots, fill="none", stroke="currentColor", opacity=0.75, stroke_width=2,
            stroke_linecap="round"),
        _text("π", _LEFT - 6, _TOP + 8),
        _text("-π", _LEFT - 6, _HEIGHT + 20 - _FOOT),
    )  # fmt: skip


def _along(seen: np.ndarray, mean: np.ndarray) -> Scale:
    return Scale(0, max(len(seen) + len(mean) - 1, 1), _LEFT, _WIDTH - _RIGHT)


def _band(x: Scale, y: Scale, low: np.ndarray, high: np.ndarray, start: int) -> Markup:
    places = range(start, start + len(low))
    edge = [f"{x.at(k)} {y.at(v)}" for k, v in zip(places, high, strict=True)]
    back = [f"{x.at(k)} {y.at(v)}" for k, v in zip(places, low, strict=True)]
    band = "M" + "L".join([*edge, *reversed(back)]) + "Z"
    return tag("path", d=band, fill=FIRST, opacity=0.35, stroke=FIRST, stroke_width=1)


def _path(x: Scale, y: Scale, values: np.ndarray, start: int) -> str:
    """A line through the values, broken where one is missing; a value alone is a dot."""
    pieces, before = [], False
    for place, value in enumerate(values, start):
        if np.isfinite(value):
            pieces.append(
                f"{'L' if before else 'M'}{x.at(place)} {y.at(value)}" + ("" if before else "h0.1")
            )
        before = bool(np.isfinite(value))
    return "".join(pieces)
