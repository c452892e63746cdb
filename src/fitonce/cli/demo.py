"""The main job on an embedded default: 25 weeks of traffic, one fit, 1,000 block folds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fitonce import folds, models
from fitonce.core.writing import check_free, write_figure
from fitonce.crossval.cross_validate import cross_validate
from fitonce.data import datasets
from fitonce.data.sequences import Sequences
from fitonce.fitting.fit import fit
from fitonce.results.result import CVResult

STEPS_PER_DAY = 288


def run(
    *,
    data: Path | None,
    n_folds: int,
    percent: float,
    method: str,
    seed: int,
    plot: Path,
    report: Path | None = None,
    force: bool = False,
) -> CVResult:
    """Load or simulate, fit, cross-validate, print, draw."""
    check_free(plot, force)
    if data is None:
        series = datasets.simulate_events(seed=seed)
        print("25 weeks of five-minute traffic counts, simulated from the event-count model")
    else:
        series = datasets.read_dodgers(data)
        print(f"traffic counts from {data.name}")
    print(f"  {series}\n")
    fitted = fit(models.EventCounts(steps_per_day=STEPS_PER_DAY), series, restarts=1)
    print(f"{fitted}\n")
    chosen = folds.blocks(series, percent=percent, n=n_folds, seed=seed)
    result = cross_validate(fitted, chosen, method=method)
    print(f"{result}\n")
    print(f"picture: {write_figure(plot, _drawn(result, series), force=force, dpi=130)}")
    if report is not None:
        print(f"report: {result.to_html(report, force=force, command='fitonce demo')}")
    return result


def _drawn(result: CVResult, series: Sequences) -> Any:
    """Counts and daily held-out loss along time; point by point against the control."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    panels: Any = figure.subfigures(1, 2, width_ratios=(3, 2))
    along, right = panels
    top, bottom = along.subplots(2, 1, sharex=True)
    counts = np.where(series.observed[0, :, 0], series.values[0, :, 0], np.nan)
    top.plot(np.arange(len(counts)) / STEPS_PER_DAY, counts, lw=0.3, color="0.4")
    top.set_ylabel("count")
    top.set_title(f"held-out loss {result.estimate:.4f} ± {result.se:.4f} nats a point", fontsize=10)
    daily = result.pointwise["loss"].groupby(result.pointwise["site"] // STEPS_PER_DAY).mean()
    bottom.bar(daily.index + 0.5, daily, width=1.0, color="#2166ac")
    bottom.axhline(result.estimate, color="black", lw=0.8, ls="--")
    bottom.set_ylim(0.8 * daily.min(), 1.05 * daily.max())
    bottom.set_ylabel("held-out loss, daily mean")
    bottom.set_xlabel("day")
    result.plot(ax=right.subplots())
    return figure
