"""The typer application: registers every command."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version as installed
from typing import Any

import typer

from fitonce.cli import options as o
from fitonce.cli.demo import demo
from fitonce.cli.errors import reporting_errors
from fitonce.cli.fit_commands import run_cv, run_influence, run_loo
from fitonce.cli.other_commands import compare, data_app, models, report, reproduce
from fitonce.cli.request import FOLDS, command
from fitonce.cli.select_command import run_select

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Fit once. Cross-validate everywhere.",
)


@app.callback(invoke_without_command=True)
def main(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Fit once. Cross-validate everywhere."""
    if version:
        print(f"fitonce {installed('fitonce')}")
        raise typer.Exit


_COMMANDS: dict[str, Callable[..., Any]] = {
    "cv": command(run_cv),
    "loo": command(run_loo, FOLDS),
    "influence": command(
        run_influence, (*FOLDS, "report", "save"), top=(o.TopOption, 10), table=(o.TableOption, None)
    ),
    "select": command(run_select, ("max_seconds",), ranges=True),
    "compare": compare,
    "report": report,
    "demo": demo,
    "models": models,
    "reproduce": reproduce,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(reporting_errors(_command))
app.add_typer(data_app, name="data")
