"""What was asked, and commands whose options are what can be asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import MISSING, dataclass, fields
from inspect import Parameter
from typing import Any, get_type_hints

from rich.console import Console

from fitonce import compile_cache
from fitonce.cli import options as o
from fitonce.cli.choices import FoldChoice, ModelChoice, usual_folds
from fitonce.cli.loading import Loaded, load_file
from fitonce.cli.outputs import check_outputs, check_picture, command_line
from fitonce.files import Columns


@dataclass(frozen=True)
class Request:
    """What was asked on the command line, word by word: the one list of options of the commands that
    fit a file."""

    file: o.File
    model: o.ModelOption
    states: o.StatesOption = 2
    order: o.OrderOption = 1
    beta: o.BetaOption = "learned"
    steps_per_day: o.DayOption = 288
    columns: o.ColumnsOption = None
    time: o.TimeOption = None
    group: o.GroupOption = None
    missing: o.MissingOption = None
    first: o.FirstOption = None
    last: o.LastOption = None
    gaps: o.GapsOption = True
    decimal: o.DecimalOption = None
    edges: o.EdgesOption = None
    exposure: o.ExposureOption = None
    folds: o.FoldsOption = None
    percent: o.PercentOption = 10.0
    n: o.NOption = None
    k: o.KOption = 10
    hops: o.HopsOption = None
    horizon: o.HorizonOption = None
    method: o.MethodOption = "auto"
    scheme: o.SchemeOption = None
    loss: o.LossOption = "pointwise"
    max_seconds: o.SecondsOption = None
    restarts: o.RestartsOption = 3
    seed: o.SeedOption = 0
    report: o.ReportOption = None
    save: o.SaveOption = None
    plot: o.PlotOption = None
    force: o.ForceOption = False
    json: o.JsonOption = False
    quiet: o.QuietOption = False
    cache: o.CacheOption = True

    @property
    def bars(self) -> bool | None:
        """Progress bars: not where one line or JSON was asked for."""
        return False if self.json or self.quiet else None

    @property
    def talks(self) -> bool:
        return not (self.json or self.quiet)

    def choice(self) -> ModelChoice:
        return ModelChoice(self.model, self.states, self.order, self.beta, self.steps_per_day)

    def fold_choice(self) -> FoldChoice:
        return FoldChoice(self.folds, self.percent, self.n, self.k, self.hops, self.horizon, self.seed)

    def load(self) -> Loaded:
        """Check what can be checked at once, then read the file."""
        choice = self.choice()
        usual = usual_folds(choice.on_graph, choice.name == "crf")
        self.fold_choice().kind(usual)  # said before the fit, not after it
        check_outputs([self.report, self.save, self.plot], self.force)
        check_picture(self.plot)
        if self.cache:
            compile_cache.use()
        names = None if self.columns is None else tuple(c.strip() for c in self.columns.split(","))
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"--decimal must be . or , and not '{self.decimal}'")
        columns = Columns(
            names, self.time, self.group, self.missing, self.first, self.last, self.gaps, self.decimal
        )
        loaded = load_file(self.file, choice, columns, self.edges, self.exposure)
        if self.talks:
            console = Console()
            console.print(f"{self.file.name}: {loaded}", highlight=False, markup=False)
            for note in loaded.notes:
                console.print(f"  {note}", style="dim", highlight=False, markup=False)
        return loaded

    def asked(self) -> dict[str, str]:
        """For the report: what was asked, in words."""
        shown = {
            "file": self.file.name, "model": self.model, "columns": self.columns, "time": self.time,
            "group": self.group, "missing": self.missing, "decimal": self.decimal, "from": self.first,
            "to": self.last, "edges": None if self.edges is None else self.edges.name,
            "exposure": self.exposure, "seed": self.seed,
        }  # fmt: skip
        return {name: str(value) for name, value in shown.items() if value is not None}

    def about(self, notes: list[str], **more: str) -> dict[str, Any]:
        """What a saved result keeps: the command, and what was asked; `notes`: what was said of the
        file; `more`: further words by name."""
        asked = self.asked() | ({"read as": "; ".join(notes)} if notes else {}) | more
        return {"command": command_line(), "seed": self.seed, "asked": asked}


FOLDS = (
    "folds", "percent", "n", "k", "hops", "horizon", "method", "scheme", "loss", "max_seconds",
)  # fmt: skip


def command(
    run: Callable[..., None], without: Collection[str] = (), **apart: tuple[Any, Any]
) -> Callable[..., None]:
    """A function for typer that calls `run` with a request.

    Args:
        run: takes a `Request`, and the options `apart` by name.
        without: fields of a request that this command has no use for.
        apart: options that are this command's own, each a type and a default.
    """
    hints = get_type_hints(Request, include_extras=True)
    asked = [field for field in fields(Request) if field.name not in without]
    known = [_option(field.name, hints[field.name], field.default) for field in asked]
    own = [_option(name, kind, default) for name, (kind, default) in apart.items()]

    def call(**given: Any) -> None:
        extra = {name: given.pop(name) for name in apart}
        run(Request(**given), **extra)

    parameters = [*known[:2], *own, *known[2:]]  # file and model first, then what is special
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    call.__doc__ = run.__doc__
    return call


def _option(name: str, kind: Any, default: Any) -> Parameter:
    needed = default is MISSING
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=Parameter.empty if needed else default,
        annotation=kind,
    )
