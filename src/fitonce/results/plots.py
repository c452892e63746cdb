"""Plots of plain arrays. matplotlib is imported when a plot is asked for, not before."""

from __future__ import annotations

from typing import Any

import numpy as np

_MOST_POINTS = 20_000  # more than this many dots hide each other and slow the file down


def agreement(x: np.ndarray, y: np.ndarray, xlabel: str, ylabel: str, ax: Any = None) -> Any:
    """A dot for each pair of finite losses, with the diagonal of perfect agreement.

    Args:
        x, y: losses of the same points.
        xlabel, ylabel: how each was obtained.
        ax: matplotlib axes to draw on; None: a new figure.
    """
    shown = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(shown) > _MOST_POINTS:
        shown = np.random.default_rng(0).choice(shown, _MOST_POINTS, replace=False)
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(5.2, 5.0), layout="constrained")
    ax.plot(x[shown], y[shown], ".", ms=3, alpha=0.4, color="#b2182b", rasterized=True)
    if len(shown):
        ends = [min(x[shown].min(), y[shown].min()), max(x[shown].max(), y[shown].max())]
        ax.plot(ends, ends, "--", color="black", lw=1)
    ax.set_xlabel(f"held-out loss, {xlabel}")
    ax.set_ylabel(f"held-out loss, {ylabel}")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_title(f"{len(shown):,} of {len(y):,} left-out points", fontsize=9)
    return ax


def along_sites(x: np.ndarray, y: np.ndarray, xlabel: str, ylabel: str, ax: Any = None) -> Any:
    """A stem for each value along the data, the ten largest labelled by their place."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(9.0, 3.4), layout="constrained")
    ax.vlines(x, 0.0, y, color="#2166ac", lw=0.6, rasterized=len(x) > _MOST_POINTS)
    for place in np.argsort(-np.abs(y))[:10]:
        ax.annotate(
            f"{x[place]}",
            (x[place], y[place]),
            textcoords="offset points",
            xytext=(3, 2 if y[place] >= 0 else -8),
            fontsize=7,
        )
    ax.axhline(0.0, color="black", lw=0.6)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.margins(y=0.12)
    return ax
