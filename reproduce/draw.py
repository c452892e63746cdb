"""Panels that several figures share: an approximation against exact refits, the control behind it."""

from __future__ import annotations

from typing import Any

import numpy as np

STYLES: dict[str, dict[str, Any]] = {
    "none": {"color": "0.65", "ms": 3.0},
    "ij": {"color": "#c0392b", "ms": 3.0},
    "auto": {"color": "#2c6fbb", "ms": 2.0},
}
MOST_DOTS, FEW_DOTS = 4_000, 150  # of a method in a panel; fewer are drawn larger


def scatter(axis: Any, truth: np.ndarray, found: dict[str, np.ndarray], title: str) -> None:
    """A dot for each loss, one colour a method, and the diagonal of perfect agreement."""
    shown = np.flatnonzero(np.isfinite(truth))
    if len(shown) > MOST_DOTS:
        shown = np.sort(np.random.default_rng(0).choice(shown, MOST_DOTS, replace=False))
    for name, losses in found.items():
        style = STYLES.get(name.split(",")[0], {"color": "#1b7837", "ms": 3.0})
        size = style["ms"] * (1.0 if len(shown) > FEW_DOTS else 2.2)
        axis.plot(truth[shown], losses[shown], ".", label=label(name), color=style["color"], ms=size)
    if len(shown):
        ends = [truth[shown].min(), truth[shown].max()]
        axis.plot(ends, ends, "k--", lw=0.8)
    axis.set_title(title, fontsize=9)
    axis.tick_params(labelsize=7)


def label(name: str) -> str:
    return f"{name} (control)" if name == "none" else name


def panels(rows: int, columns: int, width: float = 2.9, height: float = 2.7) -> tuple[Any, Any]:
    """A figure and its array of axes, with room between them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def name_axes(figure: Any, axes: Any, across: str, up: str) -> None:
    """Labels at the outer axes, and one legend."""
    for axis in axes[-1]:
        axis.set_xlabel(across, fontsize=8)
    for axis in axes[:, 0]:
        axis.set_ylabel(up, fontsize=8)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    for handle in legend.legend_handles:
        handle.set_markersize(7)
