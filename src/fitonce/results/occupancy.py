"""How many observations each hidden state of a fit rests on, in words."""

from __future__ import annotations

import numpy as np

FEW = 10.0  # expected points: the parameters of a state with fewer are hardly known
_MOST, _NAMED = 20, 3  # states that are listed, and that are named in a sentence


def points_in_words(points: np.ndarray, on_map: bool) -> str:
    """ "points in each state: 341.2, 8.8 of 350" of expected numbers (K,)."""
    shown = ", ".join(_number(value) for value in points[:_MOST])
    more = ", ..." if len(points) > _MOST else ""
    thing, state = ("sites", "class") if on_map else ("points", "state")
    return f"{thing} in each {state}: {shown}{more}, of {points.sum():,.0f}"


def about_few(points: np.ndarray, on_map: bool) -> str:
    """States that rest on few points; empty where there are none."""
    few = np.flatnonzero(points < FEW)
    if not few.size:
        return ""
    things, state = ("sites", "class") if on_map else ("points", "state")
    named = [f"{state} {k} rests on {_number(points[k])}" for k in few[:_NAMED]]
    more = f" and {len(few) - _NAMED} more" if len(few) > _NAMED else ""
    return f"{', '.join(named)}{more} of {points.sum():,.0f} {things} only"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 or value < 0.05 else f"{value:.1f}"
