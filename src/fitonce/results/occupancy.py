"""How many observations each hidden state of a fit rests on, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FEW = 10.0  # expected points: the parameters of a state with fewer are hardly known
_MOST, _NAMED = 20, 3  # states that are listed, and that are named in a sentence


def points_in_words(points: np.ndarray, on_map: bool) -> str:
    """ "points in each state: 341.2, 8.8 of 350" of expected numbers (K,)."""
    shown = ", ".join(_number(value) for value in points[:_MOST])
    more = ", ..." if len(points) > _MOST else ""
    thing, state = ("sites", "class") if on_map else ("points", "state")
    return f"{thing} in each {state}: {shown}{more}, of {points.sum():,.0f}"


def about_few(points: np.ndarray, on_map: bool, places: Sequence[str] = ()) -> str:
    """States that rest on few points; empty where there are none. `places`: for each state those that
    are probably in it, or an empty string; none: not known."""
    few = np.flatnonzero(points < FEW).tolist()
    if not few:
        return ""
    things, state = ("sites", "class") if on_map else ("points", "state")
    which = {k: f" ({places[k]})" for k in few if k < len(places) and places[k]}
    named = [f"{state} {k} rests on {_number(points[k])}{which.get(k, '')}" for k in few[:_NAMED]]
    more = f" and {len(few) - _NAMED} more" if len(few) > _NAMED else ""
    return f"{', '.join(named)}{more} of {points.sum():,.0f} {things} only"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 or value < 0.05 else f"{value:.1f}"
