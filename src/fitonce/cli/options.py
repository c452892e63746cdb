"""Panels of --help, and the options that several commands share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer


def option(panel: str, help: str, *names: str, **more: Any) -> Any:  # noqa: A002 - typer's name
    """An option in a panel of --help, named after its parameter unless `names` are given."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


data, model, folds, out = (partial(option, panel) for panel in ("Data", "Model", "Folds", "Output"))

TableOption = Annotated[Path | None, out("Write the whole table (CSV, JSON)", "--save", "-o")]
ParametersOption = Annotated[
    Path | None, out("Write the table of parameters (CSV, JSON)", "--table", "-t")
]
OrderOption = Annotated[
    str | None, model("Number states by this parameter, by share or dwell", "--order-by")
]
TopOption = Annotated[int, out("Number of points to show", "--top", "--n", "-n", min=1)]
ReportOption = Annotated[Path | None, out("Write an HTML report", "--report")]
SuspectsOption = Annotated[
    int | None, out("Number of suspicious labels to show, of a model of labels; 10", "--suspects", min=0)
]
_KIND = "Suspicious labels only {}: a tag (B-LOC) or a type (LOC)"
LabelOption = Annotated[str | None, out(_KIND.format("of this given one"), "--label")]
RatherOption = Annotated[str | None, out(_KIND.format("where the model says this"), "--rather")]
PlotOption = Annotated[Path | None, out("Write a plot (PNG, PDF, SVG)", "--plot")]
ShowOption = Annotated[
    str | None, out("What --plot colours of a map: loss, control, p (how odd), ratio", "--show")
]
ForceOption = Annotated[bool, out("Overwrite existing files", "--force")]
JsonOption = Annotated[bool, out("Print only JSON", "--json")]
QuietOption = Annotated[bool, out("Print one line", "--quiet", "-q")]
MemoryOption = Annotated[
    str | None, model("Most memory that the work may add, such as 2GB", "--memory-limit")
]
CacheOption = Annotated[bool, out("Cache compiled programs (FITONCE_CACHE)", "--cache/--no-cache")]
