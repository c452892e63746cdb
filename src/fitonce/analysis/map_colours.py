"""Colours of maps, in scales that say what they leave out; outlines; names of the largest sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fitonce.core.wording import counted
from fitonce.data.geography import Geography

_QUANTILE = 0.95
_LETTER, _LINE = 0.014, 0.045  # the size of a letter, as a part of the map's width
_LONGEST = 24  # letters of a name
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def paint_numbers(
    ax: Any,
    shown: Any,
    limits: tuple[float, float] | None,
    scale: str | None,
    cmap: str | None,
    below: bool = False,
) -> np.ndarray:
    """(V, 4) colours, and a colour bar, on the right or `below`, that says where they end."""
    from matplotlib import cm, colormaps
    from matplotlib.colors import Normalize

    finite = shown.values[np.isfinite(shown.values)]
    if finite.size == 0:
        raise ValueError(f"there is nothing to show: '{shown.text}' has no finite value")
    cmap = cmap or ("RdBu_r" if shown.signed else "viridis")
    if scale == "ranks" and limits is None:
        return _paint_ranks(ax, shown, finite, cmap, below)
    largest = np.abs(finite).max()
    low, high = (-largest, largest) if shown.signed else (finite.min(), finite.max())
    low, high = (low, high) if limits is None else limits
    if limits is None and (scale == "robust" or (scale is None and shown.robust)):
        low, high = _robust(finite, shown.signed)
    norm = Normalize(low, high, clip=True)
    beyond = {(True, True): "both", (True, False): "min", (False, True): "max"}
    extend = beyond.get((bool(finite.min() < low), bool(finite.max() > high)), "neither")
    bar = cm.ScalarMappable(norm, cmap)
    said = shown.text + _left_out(finite, low, high)
    ax.figure.colorbar(bar, ax=ax, label=said, extend=extend, **bar_place(below))
    return colormaps[cmap](norm(np.nan_to_num(shown.values)))


def _robust(finite: np.ndarray, signed: bool) -> tuple[float, float]:
    """All values, or up to a quantile where more than half of the scale would be for those above."""
    if signed:
        end = _upper(np.abs(finite), 0.0)
        return -end, end
    return float(finite.min()), _upper(finite, float(finite.min()))


def _upper(finite: np.ndarray, low: float) -> float:
    usual, largest = float(np.quantile(finite, _QUANTILE)), float(finite.max())
    return usual if largest - usual > usual - low > 0 else largest


def _left_out(finite: np.ndarray, low: float, high: float) -> str:
    """What is beyond the colours, in words."""
    above, below = finite > high, finite < low
    parts = []
    if above.any():
        parts.append(f"{counted(int(above.sum()), 'site')} above, up to {finite.max():.4g}")
    if below.any():
        parts.append(f"{counted(int(below.sum()), 'site')} below, down to {finite.min():.4g}")
    return f"\ncolours are cut off at the ends: {'; '.join(parts)}" if parts else ""


def bar_place(below: bool) -> dict[str, Any]:
    """Of a colour bar."""
    return {"shrink": 0.7, "aspect": 35, "location": "bottom"} if below else {"shrink": 0.7}


def _paint_ranks(ax: Any, shown: Any, finite: np.ndarray, cmap: str, below: bool) -> np.ndarray:
    """Colours by order; the bar has the values at quarters."""
    from matplotlib import cm, colormaps
    from matplotlib.colors import Normalize

    ordered = np.sort(finite)
    low, high = (np.searchsorted(ordered, shown.values, side) for side in ("left", "right"))
    ranks = (low + high - 1) / 2 / max(len(ordered) - 1, 1)  # equal values have one colour
    bar = cm.ScalarMappable(Normalize(0.0, 1.0), cmap)
    label = f"{shown.text}\ncoloured by rank: each quarter of the bar is a quarter of the sites"
    made = ax.figure.colorbar(bar, ax=ax, label=label, **bar_place(below))
    made.set_ticks(_TICKS, labels=[f"{value:.3g}" for value in np.quantile(finite, _TICKS)])
    return colormaps[cmap](np.clip(np.nan_to_num(ranks), 0.0, 1.0))


def draw_geography(ax: Any, where: Geography, paint: np.ndarray) -> None:
    """Outlines, or points where there are none."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path as Outline

    if len(where.points) != len(paint):
        raise ValueError(
            f"where: the map has {len(where.points):,} sites, but {len(paint):,} values are to be shown"
        )
    outlines = where.outlines()
    areas = [site for site, rings in enumerate(outlines) if len(rings)]
    if areas:
        closed = [[np.concatenate([ring, ring[:1]]) for ring in outlines[site]] for site in areas]
        paths = [
            Outline.make_compound_path(*(Outline(r, closed=True) for r in rings)) for rings in closed
        ]
        drawn = PathCollection(paths, facecolors=paint[areas], edgecolors="white", linewidths=0.3)
        ax.add_collection(drawn)
        ax.autoscale_view()
    dots = np.array([site for site, rings in enumerate(outlines) if not len(rings)], int)
    dots = dots[np.isfinite(where.points[dots]).all(1)]
    if len(dots):
        size = np.clip(6000.0 / len(where.points), 8.0, 160.0)
        ax.scatter(*where.points[dots].T, c=paint[dots], s=size, edgecolors="white", linewidths=0.4)
    ax.set_aspect(where.aspect)


def shortened(names: Sequence[str]) -> list[str]:
    """Names of few letters: their beginnings or, where these are the same, without their middles."""
    begun = [
        name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1].rstrip(' ,')}…" for name in names
    ]
    if len(set(begun)) == len(begun):
        return begun
    half = _LONGEST // 2
    return [
        name if len(name) <= _LONGEST else f"{name[:half].rstrip(' ,')}…{name[-half:].lstrip()}"
        for name in names
    ]


def name_largest(
    ax: Any, where: Geography, values: np.ndarray, names: Sequence[str], count: int
) -> None:
    """Write the names of the sites with the largest values beside them, none above another."""
    from matplotlib.patheffects import withStroke

    known = np.flatnonzero(np.isfinite(values) & np.isfinite(where.points).all(1))
    chosen = known[np.argsort(-values[known], kind="stable")][:count]
    if not len(chosen):
        return
    low, high = np.nanmin(where.points, axis=0), np.nanmax(where.points, axis=0)
    extent = np.where(high > low, high - low, 1.0)
    chosen = chosen[np.argsort(-where.points[chosen, 1], kind="stable")]  # from north to south
    line = _LINE * max(where.proportion, 1.0)
    boxes: list[tuple[float, float, float]] = []  # left, right and height of what is written
    for site, name in zip(chosen, shortened([str(names[site]) for site in chosen]), strict=True):
        spot = (where.points[site] - low) / extent
        text, long = spot.copy(), _LETTER * len(name)
        right = bool(spot[0] + long > 1.0 and spot[0] > 0.5)
        begin, end = (spot[0] - long, spot[0]) if right else (spot[0], spot[0] + long)
        while any(begin < b and a < end and abs(text[1] - y) < line for a, b, y in boxes):
            text[1] -= 0.01
        boxes.append((begin, end, text[1]))
        written = ax.annotate(
            name, where.points[site], xytext=low + extent * text, textcoords="data",
            ha="right" if right else "left", va="center", fontsize=8, color="black",
            arrowprops={"arrowstyle": "-", "lw": 0.5} if (text != spot).any() else None,
            path_effects=[withStroke(linewidth=2.2, foreground="white")],
        )  # fmt: skip
        written.set_in_layout(False)  # a name that is too long would make the map smaller
        ax.plot(*where.points[site], ".", ms=3, color="black", zorder=5)
