"""Plots. matplotlib is imported when a plot is asked for, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fitonce.result import CVResult

_MOST_POINTS = 20_000  # more than this many dots hide each other and slow the file down


def plot_losses(cv: CVResult, against: CVResult | None = None, ax: Any = None) -> Any:
    """Held-out losses, one dot per left-out point, with the diagonal of perfect agreement.

    Args:
        cv: vertical axis.
        against: horizontal axis, a result on the same folds; None: the control.
        ax: matplotlib axes to draw on; None: a new figure.
    """
    import matplotlib.pyplot as plt

    if against is None:
        x, label = cv.pointwise["control"].to_numpy(), "control: parameters not adjusted"
    else:
        same = cv.pointwise[["fold", "sequence", "site"]].equals(
            against.pointwise[["fold", "sequence", "site"]]
        )
        if not same:
            raise ValueError(
                f"both results must be on the same folds, got '{cv.left_out}' and '{against.left_out}'"
            )
        x, label = against.pointwise["loss"].to_numpy(), against.method
    y = cv.pointwise["loss"].to_numpy()
    finite = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    shown = finite
    if len(finite) > _MOST_POINTS:
        shown = np.random.default_rng(0).choice(finite, _MOST_POINTS, replace=False)
    if ax is None:
        _, ax = plt.subplots(figsize=(5.2, 5.0), layout="constrained")
    ax.plot(x[shown], y[shown], ".", ms=3, alpha=0.4, color="#b2182b", rasterized=True)
    if len(shown):
        ends = [min(x[shown].min(), y[shown].min()), max(x[shown].max(), y[shown].max())]
        ax.plot(ends, ends, "--", color="black", lw=1)
    ax.set_xlabel(f"held-out loss, {label}")
    ax.set_ylabel(f"held-out loss, {cv.method}")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_title(f"{len(shown):,} of {len(y):,} left-out points, {len(cv.folds):,} folds", fontsize=9)
    return ax
