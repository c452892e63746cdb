"""Every command, with its options; `cli.app` imports this when one of them is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from fitonce.cli import options as o
from fitonce.cli.demo import demo
from fitonce.cli.errors import reporting_errors
from fitonce.cli.fit_commands import run_cv, run_influence, run_loo
from fitonce.cli.journal_command import journal
from fitonce.cli.model_commands import models
from fitonce.cli.other_commands import compare, data_app, report, reproduce
from fitonce.cli.request import FOLDS, command
from fitonce.cli.saved_commands import decode, forecast, run_fit, sample
from fitonce.cli.select_command import run_select

every = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")

_SUSPICION: dict[str, Any] = {"label": (o.LabelOption, None), "rather": (o.RatherOption, None)}
_OF_RESULTS: dict[str, Any] = {"suspects": (o.SuspectsOption, None), "show": (o.ShowOption, None)}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "fit": command(
        run_fit, (*FOLDS, "report"), order_by=(o.OrderOption, None), table=(o.ParametersOption, None)
    ),
    "decode": decode,
    "forecast": forecast,
    "sample": sample,
    "cv": command(run_cv, **_OF_RESULTS, **_SUSPICION),
    "loo": command(run_loo, FOLDS, **_OF_RESULTS, **_SUSPICION),
    "influence": command(
        run_influence,
        (*FOLDS, "report", "save"),
        top=(o.TopOption, 10),
        table=(o.TableOption, None),
        **_SUSPICION,
    ),
    "select": command(run_select, ranges=True),
    "compare": compare,
    "report": report,
    "demo": demo,
    "models": models,
    "journal": journal,
    "reproduce": reproduce,
}
for _name, _command in _FUNCTIONS.items():
    every.command(_name)(reporting_errors(_command))
every.add_typer(data_app, name="data")
