"""The typer application. What a command needs is imported when it is called: --help takes no time."""

from __future__ import annotations

import functools
from importlib.metadata import version as installed
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# The commands, each with the first sentence of its own help.
COMMANDS = {
    "fit": "Fit a model to the data in a file.",
    "decode": "Decode the most probable hidden states or tags of every step, from a saved fit.",
    "forecast": "Forecast the steps after the data of a saved fit.",
    "sample": "Draw a random sequence from a saved fit.",
    "cv": "Cross-validate a model of the data in a file, from one fit.",
    "loo": "Leave-one-out cross-validation of all points, from one fit.",
    "influence": "Points with the largest influence on the fit.",
    "select": "Cross-validate a range of models on the same folds and select one.",
    "compare": "Compare saved results on the same folds, with paired standard errors.",
    "report": "Write the HTML report of a saved result.",
    "demo": "Fit 25 weeks of traffic counts once and cross-validate on 1,000 blocks of time.",
    "models": "List the models that --model accepts, or describe one of them.",
    "journal": "Check the entries of a journal against their checksums.",
    "reproduce": "Reproduce the paper's tables and figures; needs a checkout of the repository.",
    "data": "Data sets by name.",
}


@functools.cache
def _commands() -> dict[str, Any]:
    from fitonce.cli.commands import every

    group = typer.main.get_command(every)
    return group.commands  # type: ignore[attr-defined]


class _Deferred(TyperGroup):
    """Lists commands by name and first line, and imports them when one is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        return name, found if found is None else _commands()[found.name or ""], rest


app = typer.Typer(
    add_completion=False,
    cls=_Deferred,
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
