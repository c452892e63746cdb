"""Plots of plain arrays. matplotlib is imported on first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fitonce.core.arguments import require

_MOST_POINTS = 20_000  # more dots overlap and make the file slow
_MOST_NUMBERS = 15  # states: with more, cells are too small for numbers


def new_axes(width: float, height: float, rows: int = 0) -> Any:
    """The matplotlib axes of a new figure; with `rows`, an array of so many below each other."""
    import matplotlib.pyplot as plt

    if rows:
        return plt.subplots(rows, figsize=(width, height), layout="constrained", squeeze=False)[1][:, 0]
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def axes_on(ax: Any, width: float, height: float) -> Any:
    """The axes that a user gave, or new ones."""
    if ax is None:
        return new_axes(width, height)
    fine = hasattr(ax, "figure") and hasattr(ax, "plot")
    require(fine, "ax", "matplotlib axes or None", ax)
    return ax


def agreement(x: np.ndarray, y: np.ndarray, xlabel: str, ylabel: str, ax: Any = None) -> Any:
    """Scatter plot of pairs of finite losses, with the line of equality.

    Args:
        x, y: losses of the same points.
        xlabel, ylabel: how each was obtained.
        ax: matplotlib axes to draw on; None: a new figure.
    """
    shown = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(shown) > _MOST_POINTS:
        shown = np.random.default_rng(0).choice(shown, _MOST_POINTS, replace=False)
    ax = axes_on(ax, 5.2, 5.0)
    ax.plot(x[shown], y[shown], ".", ms=3, alpha=0.4, color="#b2182b", rasterized=True)
    if len(shown):
        ends = [min(x[shown].min(), y[shown].min()), max(x[shown].max(), y[shown].max())]
        ax.plot(ends, ends, "--", color="black", lw=1)
    ax.set_xlabel(f"held-out loss, {xlabel}")
    ax.set_ylabel(f"held-out loss, {ylabel}")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_title(f"{len(shown):,} of {len(y):,} left-out points", fontsize=9)
    return ax


def along_sites(
    x: np.ndarray,
    y: np.ndarray,
    xlabel: str,
    ylabel: str,
    ax: Any = None,
    names: Sequence[str] | None = None,
) -> Any:
    """Stem plot of values along the data, the ten largest labelled by position, or by `names` (n,)."""
    ax = axes_on(ax, 9.0, 3.4)
    ax.vlines(x, 0.0, y, color="#2166ac", lw=0.6, rasterized=len(x) > _MOST_POINTS)
    ax.axhline(0.0, color="black", lw=0.6)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    largest = np.argsort(-np.abs(y), kind="stable")[:10]
    said = [f"{x[place]}" if names is None else _shortened(names[place]) for place in largest]
    for margin in (0.12, 0.25, 0.4, 0.6, 0.9):  # until all labels are inside
        ax.margins(y=margin)
        if len(y) and np.nanmin(y) >= 0:
            ax.set_ylim(bottom=0.0, top=(1.0 + margin) * max(float(np.nanmax(y)), 1e-12))
        ax.figure.draw_without_rendering()  # where the axes will be
        placed = _label(ax, x[largest], y[largest], said)
        inside = ax.get_window_extent()
        boxes = [text.get_window_extent() for text in placed]
        if margin == 0.9 or all(inside.y0 <= box.y0 and box.y1 <= inside.y1 for box in boxes):
            break
        for text in placed:
            text.remove()
    return ax


def _shortened(name: str, most: int = 14) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _label(ax: Any, x: np.ndarray, y: np.ndarray, texts: Sequence[str]) -> list[Any]:
    """Texts beside the ends of stems, the longest stems first: each a line further away while it would
    lie on another one."""
    placed: list[Any] = []
    middle = float(np.mean(ax.get_xlim()))
    for at, height, text in zip(x, y, texts, strict=True):
        left, up = at > middle, height >= 0
        shown = ax.annotate(
            text, (at, height), textcoords="offset points", xytext=(0, 0), fontsize=7,
            ha="right" if left else "left", va="bottom" if up else "top",
        )  # fmt: skip
        taken = [other.get_window_extent() for other in placed]
        for line in range(len(texts)):
            shown.set_position((-3 if left else 3, (2 + 9 * line) * (1 if up else -1)))
            box = shown.get_window_extent().padded(2.0)
            if not any(box.overlaps(other) for other in taken):
                break
        placed.append(shown)
    return placed


def confusion(shares: np.ndarray, counts: np.ndarray, tags: Sequence[str], ax: Any = None) -> Any:
    """A map of the shares (K, K) of given tags (down) that are predicted as others (across), with counts
    (K, K) in its cells."""
    places = np.arange(len(tags))
    ax = axes_on(ax, 2.4 + 0.62 * len(tags), 1.8 + 0.42 * len(tags))
    ax.imshow(np.sqrt(shares), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for row, column in np.argwhere(counts) if len(tags) <= _MOST_NUMBERS else ():
        colour = "white" if shares[row, column] > 0.4 else "black"
        said = f"{counts[row, column]:,}"
        ax.text(column, row, said, ha="center", va="center", fontsize=8, color=colour)
    ax.set_xticks(places, tags, rotation=45, ha="right", rotation_mode="anchor", fontsize=8)
    ax.set_yticks(places, tags, fontsize=8)
    ax.set_xlabel("predicted without it")
    ax.set_ylabel("given label")
    ax.tick_params(length=0)
    return ax


def transitions(moves: np.ndarray, shares: np.ndarray, dwell: np.ndarray, ax: Any = None) -> Any:
    """A map of transition probabilities (K, K), from row to column, with each state's share of the steps
    and its mean dwell time (K,)."""
    states = np.arange(len(moves))
    ax = axes_on(ax, 2.6 + 0.62 * len(states), 1.7 + 0.55 * len(states))
    # Most mass is on the diagonal: the square root lets the rest be seen.
    ax.imshow(np.sqrt(moves), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for row in states if len(states) <= _MOST_NUMBERS else ():
        for column in states:
            said = _probability(moves[row, column])
            colour = "white" if moves[row, column] > 0.4 else "black"
            ax.text(column, row, said, ha="center", va="center", fontsize=8, color=colour)
    ax.set_xticks(states)
    ax.set_yticks(
        states, [f"{k} ({100 * share:.0f} %)" for k, share in zip(states, shares, strict=True)]
    )
    ax.set_xlabel("next state")
    ax.set_ylabel("state (share of the steps)")
    right = ax.secondary_yaxis("right")
    right.set_yticks(states, [f"{steps:.3g}" for steps in dwell])
    right.set_ylabel("mean dwell time, steps")
    for side in (ax, right):
        side.tick_params(length=0)
    return ax


def _probability(value: float) -> str:
    """With two digits, and 1 only where it is one."""
    if value == 0 or value == 1:
        return f"{value:.0f}"
    return "<.001" if value < 0.001 else ">.999" if value > 0.999 else f"{value:.3f}".lstrip("0")
