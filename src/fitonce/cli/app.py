"""The commands: words to calls."""

from __future__ import annotations

from typing import Any

import typer

from fitonce.cli import options as o
from fitonce.cli.others import compare, data_app, demo, models, report, reproduce
from fitonce.cli.speaking import spoken

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Fit once. Cross-validate everywhere.",
)


@app.callback(invoke_without_command=True)
def main(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    """Fit once. Cross-validate everywhere."""
    if version:
        from importlib.metadata import version as installed

        print(f"fitonce {installed('fitonce')}")
        raise typer.Exit


@app.command()
@spoken
def cv(
    file: o.File,
    model: o.ModelOption,
    states: o.StatesOption = 2,
    order: o.OrderOption = 1,
    beta: o.BetaOption = "learned",
    steps_per_day: o.DayOption = 288,
    columns: o.ColumnsOption = None,
    time: o.TimeOption = None,
    group: o.GroupOption = None,
    missing: o.MissingOption = None,
    first: o.FirstOption = None,
    last: o.LastOption = None,
    gaps: o.GapsOption = True,
    decimal: o.DecimalOption = ".",
    edges: o.EdgesOption = None,
    exposure: o.ExposureOption = None,
    folds: o.FoldsOption = None,
    percent: o.PercentOption = 10.0,
    n: o.NOption = None,
    k: o.KOption = 10,
    hops: o.HopsOption = None,
    horizon: o.HorizonOption = None,
    method: o.MethodOption = "auto",
    scheme: o.SchemeOption = None,
    loss: o.LossOption = "pointwise",
    max_seconds: o.SecondsOption = None,
    restarts: o.RestartsOption = 3,
    seed: o.SeedOption = 0,
    report: o.ReportOption = None,
    save: o.SaveOption = None,
    plot: o.PlotOption = None,
    force: o.ForceOption = False,
    json: o.JsonOption = False,
    quiet: o.QuietOption = False,
    cache: o.CacheOption = True,
) -> None:
    """Cross-validate a model of the data in a file, from one fit."""
    from fitonce.cli.running import Request, run_cv

    run_cv(Request(**locals_of(locals())))


@app.command()
@spoken
def loo(
    file: o.File,
    model: o.ModelOption,
    states: o.StatesOption = 2,
    order: o.OrderOption = 1,
    beta: o.BetaOption = "learned",
    steps_per_day: o.DayOption = 288,
    columns: o.ColumnsOption = None,
    time: o.TimeOption = None,
    group: o.GroupOption = None,
    missing: o.MissingOption = None,
    first: o.FirstOption = None,
    last: o.LastOption = None,
    gaps: o.GapsOption = True,
    decimal: o.DecimalOption = ".",
    edges: o.EdgesOption = None,
    exposure: o.ExposureOption = None,
    restarts: o.RestartsOption = 3,
    seed: o.SeedOption = 0,
    report: o.ReportOption = None,
    save: o.SaveOption = None,
    plot: o.PlotOption = None,
    force: o.ForceOption = False,
    json: o.JsonOption = False,
    quiet: o.QuietOption = False,
    cache: o.CacheOption = True,
) -> None:
    """Leave out every single point, all of them from one sweep."""
    from fitonce.cli.running import Request, run_loo

    run_loo(Request(**locals_of(locals())))


@app.command()
@spoken
def influence(
    file: o.File,
    model: o.ModelOption,
    states: o.StatesOption = 2,
    order: o.OrderOption = 1,
    beta: o.BetaOption = "learned",
    steps_per_day: o.DayOption = 288,
    columns: o.ColumnsOption = None,
    time: o.TimeOption = None,
    group: o.GroupOption = None,
    missing: o.MissingOption = None,
    first: o.FirstOption = None,
    last: o.LastOption = None,
    gaps: o.GapsOption = True,
    decimal: o.DecimalOption = ".",
    edges: o.EdgesOption = None,
    exposure: o.ExposureOption = None,
    n: o.TopOption = 10,
    restarts: o.RestartsOption = 3,
    seed: o.SeedOption = 0,
    save: o.TableOption = None,
    plot: o.PlotOption = None,
    force: o.ForceOption = False,
    json: o.JsonOption = False,
    quiet: o.QuietOption = False,
    cache: o.CacheOption = True,
) -> None:
    """Which points move the fit most; --save writes the whole table as CSV."""
    from fitonce.cli.running import Request, run_influence

    run_influence(Request(**locals_of(locals())))


@app.command()
@spoken
def select(
    file: o.File,
    model: o.ModelOption,
    states: str = typer.Option("2", "--states", "-k", help="Such as 1..8 or 2,3,5."),
    order: str = typer.Option("1", "--order", help="Of an autoregression, such as 0..3."),
    beta: str = typer.Option("learned", "--beta", help="Couplings, such as 0,0.5,1,learned."),
    steps_per_day: o.DayOption = 288,
    columns: o.ColumnsOption = None,
    time: o.TimeOption = None,
    group: o.GroupOption = None,
    missing: o.MissingOption = None,
    first: o.FirstOption = None,
    last: o.LastOption = None,
    gaps: o.GapsOption = True,
    decimal: o.DecimalOption = ".",
    edges: o.EdgesOption = None,
    exposure: o.ExposureOption = None,
    folds: o.FoldsOption = None,
    percent: o.PercentOption = 10.0,
    n: o.NOption = None,
    k: o.KOption = 10,
    hops: o.HopsOption = None,
    horizon: o.HorizonOption = None,
    method: o.MethodOption = "auto",
    scheme: o.SchemeOption = None,
    loss: o.LossOption = "pointwise",
    restarts: o.RestartsOption = 3,
    seed: o.SeedOption = 0,
    report: o.ReportOption = None,
    save: o.SaveOption = None,
    plot: o.PlotOption = None,
    force: o.ForceOption = False,
    json: o.JsonOption = False,
    quiet: o.QuietOption = False,
    cache: o.CacheOption = True,
) -> None:
    """Cross-validate a range of models on the same folds, and name the winner. --report and --save are
    of the simplest model within one standard error."""
    from fitonce.cli.running import Request
    from fitonce.cli.selecting import run_select

    given = locals_of(locals())
    ranges = {name: given.pop(name) for name in ("states", "order", "beta")}
    run_select(Request(**given), ranges)


def locals_of(given: dict[str, Any]) -> dict[str, Any]:
    """The options of a command, without what it imported."""
    return {name: value for name, value in given.items() if not name.startswith(("Request", "run_"))}


app.command()(spoken(compare))
app.command()(spoken(report))
app.command()(spoken(demo))
app.command()(spoken(models))
app.command()(spoken(reproduce))
app.add_typer(data_app, name="data")
