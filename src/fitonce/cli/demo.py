"""The demo: 25 weeks of traffic counts, one fit, 1,000 block folds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fitonce import models
from fitonce.cli.display import show_written
from fitonce.cli.files import Files
from fitonce.cli.options import CacheOption, ForceOption
from fitonce.cli.outputs import check_outputs
from fitonce.cli.steps import finish_files
from fitonce.core import compile_cache
from fitonce.core.progress_lines import in_lines
from fitonce.core.writing import write_figure
from fitonce.crossval.cross_validate import cross_validate
from fitonce.crossval.methods import resolve_method
from fitonce.data import datasets
from fitonce.data.sequences import Sequences
from fitonce.fitting.fit import fit
from fitonce.folds import blocks
from fitonce.results.result import CVResult

STEPS_PER_DAY = 288


def demo(
    data: Annotated[Path | None, typer.Option(help="Dodgers.data; default: simulated data")] = None,
    folds: Annotated[int, typer.Option(help="Number of folds", min=1)] = 1000,
    percent: Annotated[float, typer.Option(help="Percentage of the series left out in a fold")] = 10.0,
    method: Annotated[str, typer.Option(help="none, ij, onestep, newton, exact or auto")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed for the simulation and the folds", min=0)] = 0,
    plot: Annotated[Path, typer.Option(help="Write the plot to this file")] = Path("fitonce-demo.png"),
    report: Annotated[Path | None, typer.Option(help="Write an HTML report")] = None,
    force: ForceOption = False,
    cache: CacheOption = True,
) -> None:
    """Fit 25 weeks of traffic counts once and cross-validate on 1,000 blocks of time."""
    check_outputs([report], plot, force)
    resolve_method(method)
    if not cache:
        compile_cache.turn_off()
    if data is None:
        series = datasets.simulate_events(seed=seed)
        print("25 weeks of five-minute traffic counts, simulated from the event-count model")
    else:
        series = datasets.read_dodgers(data)
        print(f"traffic counts from {data.name}")
    left_out = blocks(series, percent=percent, n=folds, seed=seed)
    print(f"  {series}\n")
    with in_lines("fit"):
        fitted = fit(models.EventCounts(steps_per_day=STEPS_PER_DAY), series, restarts=1)
    print(f"{fitted}\n")
    with in_lines("folds"):
        result = cross_validate(fitted, left_out, method=method)
    print(f"{result}\n")
    files = Files()
    files.add(lambda: write_figure(plot, _figure(result, series), force=force, dpi=130))
    if report is not None:
        files.add(lambda: result.to_html(report, force=force, command="fitonce demo"))
    show_written(files.wrote)
    finish_files(files, result)


def _figure(result: CVResult, series: Sequences) -> Any:
    """Counts and daily mean held-out loss over time; pointwise losses against the control."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    panels: Any = figure.subfigures(1, 2, width_ratios=(3, 2))
    left, right = panels
    top, bottom = left.subplots(2, 1, sharex=True)
    counts = np.where(series.observed[0, :, 0], series.values[0, :, 0], np.nan)
    top.plot(np.arange(len(counts)) / STEPS_PER_DAY, counts, lw=0.3, color="0.4")
    top.set_ylabel("count")
    top.set_title(f"held-out loss {result.estimate:.4f} ± {result.se:.4f} nats per point", fontsize=10)
    daily = result.pointwise["loss"].groupby(result.pointwise["site"] // STEPS_PER_DAY).mean()
    bottom.bar(daily.index + 0.5, daily, width=1.0, color="#2166ac")
    bottom.axhline(result.estimate, color="black", lw=0.8, ls="--")
    bottom.set_ylim(0.8 * daily.min(), 1.05 * daily.max())
    bottom.set_ylabel("held-out loss, daily mean")
    bottom.set_xlabel("day")
    result.plot(ax=right.subplots())
    return figure
