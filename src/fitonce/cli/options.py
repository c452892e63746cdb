"""Options that commands share, in one place, so that they mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_DATA, _MODEL, _FOLDS, _OUT = "Data", "Model", "Folds", "Output"

File = Annotated[
    Path,
    typer.Argument(help="CSV, TSV, Parquet, NPZ or CoNLL (.conll, .iob2, .bio).", show_default=False),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option("--columns", help="Columns to model, with commas.", rich_help_panel=_DATA),
]
TimeOption = Annotated[
    str | None,
    typer.Option("--time", help="Column of times: orders rows, shows gaps.", rich_help_panel=_DATA),
]
GroupOption = Annotated[
    str | None,
    typer.Option("--group", help="Column that tells sequences apart.", rich_help_panel=_DATA),
]
MissingOption = Annotated[
    float | None,
    typer.Option("--missing", help="A number that means missing, such as -1.", rich_help_panel=_DATA),
]
FirstOption = Annotated[
    str | None, typer.Option("--from", help="Keep rows from this time on.", rich_help_panel=_DATA)
]
LastOption = Annotated[
    str | None, typer.Option("--to", help="Keep rows up to this time.", rich_help_panel=_DATA)
]
DecimalOption = Annotated[
    str | None,
    typer.Option("--decimal", help="The mark in numbers: . or , (found out)", rich_help_panel=_DATA),
]
GapsOption = Annotated[
    bool,
    typer.Option(
        "--gaps/--no-gaps", help="Insert steps that the times lack as missing.", rich_help_panel=_DATA
    ),
]
EdgesOption = Annotated[
    Path | None,
    typer.Option("--edges", help="For graphs: a file with two columns of sites.", rich_help_panel=_DATA),
]
ExposureOption = Annotated[
    str | None,
    typer.Option("--exposure", help="For graphs: column of exposures or trials.", rich_help_panel=_DATA),
]
ModelOption = Annotated[
    str,
    typer.Option("--model", "-m", help="Its name; `fitonce models` lists them.", rich_help_panel=_MODEL),
]
StatesOption = Annotated[
    int, typer.Option("--states", "-k", help="Hidden states or classes.", rich_help_panel=_MODEL)
]
OrderOption = Annotated[
    int, typer.Option("--order", help="Of an autoregression.", rich_help_panel=_MODEL)
]
BetaOption = Annotated[
    str,
    typer.Option("--beta", help="Coupling of neighbours, or 'learned'.", rich_help_panel=_MODEL),
]
StatesRange = Annotated[
    str, typer.Option("--states", "-k", help="Such as 1..8 or 2,3,5.", rich_help_panel=_MODEL)
]
OrderRange = Annotated[
    str,
    typer.Option("--order", help="Of an autoregression, such as 0..3.", rich_help_panel=_MODEL),
]
BetaRange = Annotated[
    str,
    typer.Option("--beta", help="Couplings, such as 0,0.5,1,learned.", rich_help_panel=_MODEL),
]
DayOption = Annotated[
    int,
    typer.Option("--steps-per-day", help="Of event-counts.", rich_help_panel=_MODEL),
]
RestartsOption = Annotated[
    int, typer.Option("--restarts", help="Starts of a fit.", rich_help_panel=_MODEL)
]
FoldsOption = Annotated[
    str | None,
    typer.Option(
        "--folds",
        help="blocks (default), iid, points, kfold, future, sequences (default of crf); on a graph "
        "regions (default), spatial-kfold, buffered.",
        rich_help_panel=_FOLDS,
    ),
]
PercentOption = Annotated[
    float, typer.Option("--percent", help="Share that a fold leaves out.", rich_help_panel=_FOLDS)
]
NOption = Annotated[
    int | None, typer.Option("--n", "-n", help="How many folds.", rich_help_panel=_FOLDS)
]
KOption = Annotated[
    int, typer.Option("--k", help="Folds of kfold and spatial-kfold.", rich_help_panel=_FOLDS)
]
HopsOption = Annotated[
    int | None,
    typer.Option("--hops", help="Reach of regions or buffers on a graph.", rich_help_panel=_FOLDS),
]
HorizonOption = Annotated[
    int | None,
    typer.Option("--horizon", help="Of future: how many steps ahead.", rich_help_panel=_FOLDS),
]
MethodOption = Annotated[
    str,
    typer.Option("--method", help="auto, none, ij, onestep, newton or exact.", rich_help_panel=_FOLDS),
]
SchemeOption = Annotated[str | None, typer.Option("--scheme", help="A, B or C.", rich_help_panel=_FOLDS)]
LossOption = Annotated[str, typer.Option("--loss", help="pointwise or joint.", rich_help_panel=_FOLDS)]
SecondsOption = Annotated[
    float | None,
    typer.Option("--max-seconds", help="A budget for auto and exact.", rich_help_panel=_FOLDS),
]
SeedOption = Annotated[
    int, typer.Option("--seed", help="Of starts and folds.", min=0, rich_help_panel=_OUT)
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", help="Write an HTML report.", rich_help_panel=_OUT)
]
SaveOption = Annotated[
    Path | None, typer.Option("--save", "-o", help="Write the result (JSON).", rich_help_panel=_OUT)
]
TableOption = Annotated[
    Path | None,
    typer.Option("--save", "-o", help="Write the whole table (CSV, JSON).", rich_help_panel=_OUT),
]
TopOption = Annotated[
    int, typer.Option("--top", "--n", "-n", help="How many points to show.", min=1, rich_help_panel=_OUT)
]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", help="Write a picture (PNG, PDF, SVG).", rich_help_panel=_OUT)
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace files that exist.", rich_help_panel=_OUT)
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, and nothing else.", rich_help_panel=_OUT)
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print one line.", rich_help_panel=_OUT)
]
CacheOption = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache", help="Keep compiled programs (FITONCE_CACHE).", rich_help_panel=_OUT
    ),
]
