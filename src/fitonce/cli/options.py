"""Options that commands share, in one place, so that they mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_DATA, _MODEL, _FOLDS, _OUT = "Data", "Model", "Folds", "Output"


def option(help: str, *names: str, of_data: bool = False) -> Any:  # noqa: A002 - typer's word
    """Of a model, or of its data."""
    return typer.Option(*names, help=help, rich_help_panel=_DATA if of_data else _MODEL)


def _data(help: str, *names: str) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=_DATA)


def _folds(help: str, *names: str) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=_FOLDS)


def _out(help: str, *names: str, **more: Any) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=_OUT, **more)


File = Annotated[
    Path,
    typer.Argument(help="CSV, TSV, Parquet, NPZ or CoNLL (.conll, .iob2, .bio)", show_default=False),
]
ColumnsOption = Annotated[str | None, _data("Columns to model, separated by commas", "--columns")]
TimeOption = Annotated[str | None, _data("Column of times: orders rows, shows gaps", "--time")]
GroupOption = Annotated[str | None, _data("Column that tells sequences apart", "--group")]
MissingOption = Annotated[float | None, _data("A number that means missing, such as -1", "--missing")]
FirstOption = Annotated[str | None, _data("Keep rows from this time on", "--from")]
LastOption = Annotated[str | None, _data("Keep rows up to this time", "--to")]
DecimalOption = Annotated[str | None, _data("Decimal mark, . or , (detected)", "--decimal")]
GapsOption = Annotated[bool, _data("Insert steps that the times lack as missing", "--gaps/--no-gaps")]
ModelOption = Annotated[str, option("Model name; `fitonce models` lists them", "--model", "-m")]
RestartsOption = Annotated[int, option("Starts of a fit", "--restarts")]
FoldsOption = Annotated[
    str | None,
    _folds(
        "blocks (default), iid, points, kfold, future, sequences (default of crf); on a graph "
        "regions (default), spatial-kfold, buffered",
        "--folds",
    ),
]
PercentOption = Annotated[float, _folds("Share that a fold leaves out, in %", "--percent")]
NOption = Annotated[int | None, _folds("Number of folds", "--n", "-n")]
KOption = Annotated[int, _folds("Number of folds of kfold and spatial-kfold", "--k")]
HopsOption = Annotated[int | None, _folds("Reach of regions or buffers on a graph", "--hops")]
HorizonOption = Annotated[int | None, _folds("Steps ahead that future scores", "--horizon")]
MethodOption = Annotated[str, _folds("auto, none, ij, onestep, newton or exact", "--method")]
SchemeOption = Annotated[str | None, _folds("A, B or C", "--scheme")]
LossOption = Annotated[str, _folds("pointwise or joint", "--loss")]
SecondsOption = Annotated[float | None, _folds("Time budget of auto and exact", "--max-seconds")]
SeedOption = Annotated[int, _out("Seed for starts and folds", "--seed", min=0)]
ReportOption = Annotated[Path | None, _out("Write an HTML report", "--report")]
SaveOption = Annotated[Path | None, _out("Write the result (JSON)", "--save", "-o")]
TableOption = Annotated[Path | None, _out("Write the whole table (CSV, JSON)", "--save", "-o")]
TopOption = Annotated[int, _out("Number of points to show", "--top", "--n", "-n", min=1)]
PlotOption = Annotated[Path | None, _out("Write a picture (PNG, PDF, SVG)", "--plot")]
ForceOption = Annotated[bool, _out("Replace files that exist", "--force")]
JsonOption = Annotated[bool, _out("Print JSON, and nothing else", "--json")]
QuietOption = Annotated[bool, _out("Print one line", "--quiet", "-q")]
CacheOption = Annotated[bool, _out("Keep compiled programs (FITONCE_CACHE)", "--cache/--no-cache")]
