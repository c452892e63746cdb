"""The command line: words to calls, no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Fit once. Cross-validate everywhere.",
)


@app.callback()
def main() -> None:
    """Fit once. Cross-validate everywhere."""


@app.command()
def demo(
    data: Annotated[
        Path | None, typer.Option(help="A Dodgers.data file; default: simulate 25 weeks.")
    ] = None,
    folds: Annotated[int, typer.Option(help="How many folds.", min=1)] = 1000,
    percent: Annotated[float, typer.Option(help="Share of the series in a fold, in %.")] = 10.0,
    method: Annotated[str, typer.Option(help="none, ij, onestep, newton, exact or auto.")] = "auto",
    seed: Annotated[int, typer.Option(help="Of the simulation and the folds.")] = 0,
    plot: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("fitonce-demo.png"),
) -> None:
    """Fit 25 weeks of traffic once and cross-validate it on 1,000 blocks of time."""
    # Imported here so that --help answers at once.
    from fitonce.demo import run

    try:
        run(data=data, n_folds=folds, percent=percent, method=method, seed=seed, plot=plot)
    except (ValueError, OSError) as error:
        typer.echo(f"fitonce: {error}", err=True)
        raise typer.Exit(2) from None
