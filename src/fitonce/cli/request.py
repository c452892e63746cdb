"""What was asked, and commands whose options are what can be asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter
from typing import Annotated, Any, get_type_hints

from rich.console import Console

from fitonce.cli import options as o
from fitonce.cli.catalogue import FoldChoice, ModelChoice, model_options
from fitonce.cli.outputs import check_outputs, check_picture, command_line
from fitonce.core import compile_cache
from fitonce.data.reading import Columns
from fitonce.folds.catalogue import FoldOptions
from fitonce.objectives.families import families
from fitonce.objectives.family import Loaded, Option


@dataclass(frozen=True)
class Request:
    """What was asked on the command line, word by word: the one list of options of the commands that
    fit a file."""

    file: o.File
    model: o.ModelOption
    columns: o.ColumnsOption = None
    time: o.TimeOption = None
    group: o.GroupOption = None
    missing: o.MissingOption = None
    first: o.FirstOption = None
    last: o.LastOption = None
    gaps: o.GapsOption = True
    decimal: o.DecimalOption = None
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
    options: dict[str, Any] = field(default_factory=dict)  # of the models, see `catalogue`

    @property
    def bars(self) -> bool | None:
        """Progress bars: not where one line or JSON was asked for."""
        return False if self.json or self.quiet else None

    @property
    def talks(self) -> bool:
        return not (self.json or self.quiet)

    def choice(self) -> ModelChoice:
        return ModelChoice(self.model, self.options)

    def fold_choice(self) -> FoldChoice:
        options = FoldOptions(self.percent, self.n, self.k, self.hops, self.horizon, self.seed)
        return FoldChoice(self.folds, options)

    def load(self) -> Loaded:
        """Check what can be checked at once, then read the file."""
        choice = self.choice()
        self.fold_choice().kind(choice.family)  # said before the fit, not after it
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
        for family in families():
            if self.file.suffix.lower() in family.endings and family is not choice.family:
                users = ", ".join(model.name for model in family.models)
                raise ValueError(
                    f"a {self.file.suffix} file is for --model {users}, got --model {self.model}"
                )
        known = {name: option.default for name, option in model_options().items()}
        loaded = choice.family.load(self.file, columns, {**known, **self.options})
        if self.talks:
            console = Console()
            console.print(f"{self.file.name}: {loaded.text}", highlight=False, markup=False)
            for note in loaded.notes:
                console.print(f"  {note}", style="dim", highlight=False, markup=False)
        return loaded

    def loaded(self) -> tuple[Loaded, Any]:
        """The file, and the model for it."""
        loaded = self.load()
        return loaded, self.choice().build(loaded.data, loaded.found)

    def asked(self) -> dict[str, str]:
        """For the report: what was asked, in words."""
        shown = {
            "file": self.file.name, "model": self.model, "columns": self.columns, "time": self.time,
            "group": self.group, "missing": self.missing, "decimal": self.decimal, "from": self.first,
            "to": self.last, "seed": self.seed,
        }  # fmt: skip
        shown |= {
            name: getattr(self.options.get(name), "name", self.options.get(name))  # files by their name
            for name, option in model_options().items()
            if option.of_data
        }
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
    run: Callable[..., None], without: Collection[str] = (), ranges: bool = False, **apart: Any
) -> Callable[..., None]:
    """A function for typer that calls `run` with a request.

    Args:
        run: takes a `Request`, and the options `apart` by name.
        without: fields of a request that this command has no use for.
        ranges: whether options of models that may be ranges are, and so stay words.
        apart: options that are this command's own, each a type and a default.
    """
    hints = get_type_hints(Request, include_extras=True)
    asked = [entry for entry in fields(Request) if entry.name not in ("options", *without)]
    known = [_parameter(entry.name, hints[entry.name], entry.default) for entry in asked]
    own = [_parameter(name, kind, default) for name, (kind, default) in apart.items()]
    of_models = [_of_model(option, ranges) for option in model_options().values()]

    def call(**given: Any) -> None:
        extra = {name: given.pop(name) for name in apart}
        options = {one.name: given.pop(one.name) for one in of_models}
        run(Request(**given, options=options), **extra)

    parameters = [*known[:2], *own, *of_models, *known[2:]]  # file and model first, then what is special
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    call.__doc__ = run.__doc__
    return call


def _of_model(option: Option, ranges: bool) -> Parameter:
    several = ranges and option.several
    names = [f"--{option.name.replace('_', '-')}", *([option.short] if option.short else [])]
    shown = o.option(option.several if several else option.help, *names, of_data=option.of_data)
    default = str(option.default) if several else option.default
    kind = str if several else option.kind
    return _parameter(option.name, Annotated[kind | None if default is None else kind, shown], default)


def _parameter(name: str, kind: Any, default: Any) -> Parameter:
    needed = default is MISSING
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=Parameter.empty if needed else default,
        annotation=kind,
    )
