"""Colours of maps that are fixed by what they mean, not by the values that happen to be shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fitonce.analysis.map_colours import bar_place
from fitonce.core.wording import counted
from fitonce.results.site_losses import tiny

_COLOURS = ("#005496", "#56a0d6", "#e2e4e6", "#f0a05a", "#b04200")  # those of reports
_USUAL = 0.05  # a p that is marked on the bar


class FixedScale(NamedTuple):
    """From blue, for less, to orange, for more.

    Attributes:
        shares: from values to places on the bar, 0 to 1 at its ends; nan stays nan.
        marks: places on the bar, and what is written there.
        counts_beyond: whether the bar says how many sites are beyond its ends.
    """

    shares: Callable[[np.ndarray], np.ndarray]
    marks: tuple[tuple[float, str], ...]
    counts_beyond: bool


def scale_of_p(level: float) -> FixedScale:
    """Of -log10 p with the sign of the side; full colour at `level`."""
    end = -np.log10(level)
    known = [level, _USUAL] if 1.5 * level < _USUAL else [level]
    half = [(-0.5 * float(np.log10(p)) / end, tiny(p)) for p in known]
    marks = [(0.5, "1")] + [(0.5 + sign * x, p) for sign in (-1, 1) for x, p in half[1:]]
    marks += [(0.0, f"{tiny(level)}, less"), (1.0, f"{tiny(level)}, more")]
    return FixedScale(lambda side: 0.5 + 0.5 * side / end, tuple(sorted(marks)), counts_beyond=False)


def scale_of_ratios(end: float) -> FixedScale:
    """Of ratios, in their logarithms; full colour at `end` and its reciprocal."""
    width = float(np.log(end))

    def shares(ratio: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return 0.5 + 0.5 * np.log(ratio) / width

    powers = (-1.0, -0.5, 0.0, 0.5, 1.0)
    return FixedScale(shares, tuple((0.5 + x / 2, f"{end**x:.2g}") for x in powers), counts_beyond=True)


def paint_fixed(
    ax: Any, values: np.ndarray, scale: FixedScale, text: str, cmap: str | None, below: bool
) -> np.ndarray:
    """(V, 4) colours, and a colour bar, on the right or `below`."""
    from matplotlib import cm, colormaps
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    colours = (
        LinearSegmentedColormap.from_list("less, more", _COLOURS) if cmap is None else colormaps[cmap]
    )
    shares = scale.shares(values)
    slack = 1e-9  # of rounding at the ends
    beyond = int(((shares < -slack) | (shares > 1.0 + slack)).sum())
    if beyond and scale.counts_beyond:
        ends = f"{np.nanmin(values):.3g} to {np.nanmax(values):.3g}"
        text += f"\ncolours are cut off at the ends: {counted(beyond, 'site')} beyond; all: {ends}"
    bar = cm.ScalarMappable(Normalize(0.0, 1.0), colours)
    made = ax.figure.colorbar(
        bar, ax=ax, label=text, extend="both" if beyond else "neither", **bar_place(below)
    )
    places, labels = zip(*scale.marks, strict=True)
    made.set_ticks(places, labels=labels)
    return colours(np.clip(np.nan_to_num(shares), 0.0, 1.0))
