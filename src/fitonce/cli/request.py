"""A request from the command line, and typer commands made from its fields."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from fitonce.cli import options as o
from fitonce.cli.choices import FoldChoice, ModelChoice, flag, model_options, require_differences
from fitonce.cli.outputs import check_outputs
from fitonce.cli.saved_fits import opened
from fitonce.core import compile_cache
from fitonce.core.memory import checked_limit
from fitonce.core.progress_lines import in_lines
from fitonce.core.wording import split_names
from fitonce.crossval.journal import journal_folder
from fitonce.crossval.losses import LOSSES, resolve_loss
from fitonce.crossval.methods import METHODS, resolve_method
from fitonce.data.reading import FLAGS, Columns
from fitonce.data.table_files import TEXTS, is_text
from fitonce.fitting.fit import Fit
from fitonce.folds.catalogue import FOLD_KINDS, FoldOptions
from fitonce.objectives.families import families, family_of
from fitonce.objectives.family import Family, Loaded, Option
from fitonce.objectives.schemes import named_scheme

_FILE = "; ".join(
    ["A table: CSV, TSV, Parquet, NPZ or NPY"]
    + [
        f"{', '.join(f.endings)} for {', '.join(m.name for m in f.models)}"
        for f in families()
        if f.endings
    ]
)
_FOLDS = "What a fold leaves out. " + "; ".join(
    f"{name}: {kind.title}" for name, kind in FOLD_KINDS.items()
)
_SECONDS = "Time budget in seconds, for auto and exact; of select: for all models together"
_K = "Folds of kfold, spatial-kfold (10; select: 60, 20) and of sequences (else each is one)"


@dataclass(frozen=True)
class Request:
    """The options of the commands that fit a model to a file, as given."""

    file: Annotated[Path, typer.Argument(help=_FILE, show_default=False)]
    model: Annotated[str | None, o.model("Model name; `fitonce models` lists them", "--model", "-m")] = (
        None
    )
    columns: Annotated[str | None, o.data("Columns to model, separated by commas")] = None
    time: Annotated[str | None, o.data("Column of times; orders rows, shows gaps")] = None
    group: Annotated[str | None, o.data("Column that identifies sequences; day, week: of the time")] = (
        None
    )
    missing: Annotated[float | None, o.data("Number that codes missing, such as -1")] = None
    first: Annotated[str | None, o.data("Keep rows from this time on", "--from")] = None
    last: Annotated[str | None, o.data("Keep rows up to this time", "--to")] = None
    gaps: Annotated[bool, o.data("Insert absent time steps as missing", "--gaps/--no-gaps")] = True
    weekdays: Annotated[
        bool, o.data("Steps are the days of the week that have rows; others are missing", "--weekdays")
    ] = False
    covariates: Annotated[
        str | None, o.data("Columns that observations depend on, separated by commas")
    ] = None
    decimal: Annotated[str | None, o.data("Decimal mark, . or , (default: detected)")] = None
    folds: Annotated[str | None, o.folds(_FOLDS)] = None
    percent: Annotated[float | None, o.folds("Percentage of the data in a fold; 10")] = None
    n: Annotated[int | None, o.folds("Number of folds", "--n", "-n")] = None
    k: Annotated[int | None, o.folds(_K, "--k")] = None
    hops: Annotated[int | None, o.folds("Radius of regions or buffers, in edges")] = None
    horizon: Annotated[int | None, o.folds("Steps ahead that future folds score")] = None
    buffer: Annotated[
        str | None, o.folds("Rim of a region that is left out and not scored: hops, or '20 km'")
    ] = None
    contiguous: Annotated[
        bool, o.folds("Folds of sequences are runs of neighbours, such as sentences of a text")
    ] = False
    method: Annotated[str, o.folds(f"auto, {', '.join(METHODS)}")] = "auto"
    scheme: Annotated[str | None, o.folds("A, B or C")] = None
    loss: Annotated[str | None, o.folds(f"{' or '.join(LOSSES)}; select: joint for stretches")] = None
    max_seconds: Annotated[float | None, o.folds(_SECONDS)] = None
    journal: Annotated[
        Path | None, o.folds("Folder for results as they come: the same command goes on from there")
    ] = None
    restarts: Annotated[
        int | None, o.model("Number of starts of a fit (default: 8 in short data, 3 in long)")
    ] = None
    optima: Annotated[int, o.model("How hard to look for other optima; 0: not at all", min=0)] = 10
    seed: Annotated[int, o.out("Seed for starts and folds", min=0)] = 0
    report: Annotated[Path | None, o.out("Write an HTML report")] = None
    save: Annotated[Path | None, o.out("Write the result (JSON)", "--save", "-o")] = None
    plot: o.PlotOption = None
    force: o.ForceOption = False
    json: o.JsonOption = False
    quiet: o.QuietOption = False
    cache: o.CacheOption = True
    memory_limit: o.MemoryOption = None
    options: dict[str, Any] = field(default_factory=dict)  # of models, those given, see `choices`

    @property
    def bars(self) -> bool | None:
        """Whether to show progress bars: False for --json and --quiet, None (automatic) otherwise."""
        return False if self.json or self.quiet else None

    @property
    def verbose(self) -> bool:
        return not (self.json or self.quiet)

    @property
    def how(self) -> dict[str, Any]:
        """Arguments of `cross_validate`."""
        budget = {} if self.max_seconds is None else {"max_seconds": self.max_seconds}
        chosen = {"method": self.method, "scheme": self.scheme, "optima": self.optima}
        scored = {} if self.loss is None else {"loss": self.loss}
        stored = {} if self.journal is None else {"journal": self.journal}
        told = {"progress": self.bars, "memory_limit": self.memory_limit}
        return {**chosen, **scored, **budget, **stored, **told}

    @property
    def model_name(self) -> str:
        if self.model is None:
            raise ValueError("--model must name a model, which `fitonce models` lists, got none")
        return self.model

    def choice(self) -> ModelChoice:
        return ModelChoice(self.model_name, self.options)

    @property
    def is_saved_fit(self) -> bool:
        """Whether the file is a fit that was saved, with its model and its data."""
        return self.model is None and self.file.suffix.lower() == ".json"

    def saved_fit(self, folds: bool = True) -> Fit:
        """Check the request, then read the fit; without `folds` nothing is drawn or searched for."""
        of_fits = (*_OF_FITS, *(() if folds else ("optima", "seed")))
        for entry in fields(self):
            if entry.name in of_fits and getattr(self, entry.name) != entry.default:
                raise ValueError(
                    f"{flag(FLAGS.get(entry.name, entry.name))} is for data that are fitted, "
                    f"got the fit {self.file.name}, which has its data and its model"
                )
        if self.options:
            raise ValueError(
                f"{flag(next(iter(self.options)))} is for models that are fitted, got a fit"
            )
        fit = opened(self.file)
        self._check(family_of(fit.model), covering=False)
        return fit

    def fold_choice(self, covering: bool = False) -> FoldChoice:
        names = [option.name for option in fields(FoldOptions)]
        options = FoldOptions(**{name: getattr(self, name) for name in names})
        by_label = self.options.get("regions") is not None
        if by_label and self.folds not in (None, "regions"):
            raise ValueError(f"--regions is for --folds regions, got --folds {self.folds}")
        if by_label and (self.percent is not None or self.hops is not None):
            raise ValueError("--regions names the regions, which --percent and --hops would draw")
        return FoldChoice("regions" if by_label else self.folds, options, covering)

    def load(self, covering: bool = False) -> Loaded:
        """Check the request, then read the file; `covering` as for `fold_choice`."""
        choice = self.choice()
        self._check(choice.family, covering)
        names, known = listed(self.columns), listed(self.covariates)
        if known:
            choice.require_covariates_used()
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"--decimal must be '.' or ',', got '{self.decimal}'")
        if self.decimal is not None and not any(map(is_text, (self.file, self.options.get("join")))):
            raise ValueError(f"--decimal is for text files ({', '.join(TEXTS)}), got {self.file.name}")
        if self.weekdays and not self.gaps:
            raise ValueError(
                "--weekdays inserts weekdays without a row, --no-gaps none: give one of them"
            )
        columns = Columns(
            names, self.time, self.group, self.missing, self.first, self.last, self.gaps, self.decimal,
            covariates=known or (), weekdays=self.weekdays,
        )  # fmt: skip
        for family in families():
            if self.file.suffix.lower() in family.endings and family is not choice.family:
                users = ", ".join(model.name for model in family.models)
                raise ValueError(
                    f"a {self.file.suffix} file is for --model {users}, got --model {self.model}"
                )
        defaults = {name: option.default for name, option in model_options().items()}
        loaded = choice.family.load(self.file, columns, {**defaults, **self.options})
        if self.verbose:
            console = Console(highlight=False, markup=False)
            console.print(f"{self.file.name}: {loaded.text}", soft_wrap=True)
            for note in loaded.notes:
                console.print(f"  {note}", style="dim", soft_wrap=True)
        return loaded

    def _check(self, family: Family, covering: bool) -> None:
        """Raise now rather than after the fit."""
        self.fold_choice(covering).kind(family)
        resolve_method(self.method)
        if self.max_seconds is not None and self.method not in ("auto", "exact"):
            raise ValueError(f"--max-seconds is for auto and exact, got --method {self.method}")
        if self.loss is not None:
            resolve_loss(self.loss)
        checked_limit(self.memory_limit)
        if self.scheme is not None:
            named_scheme(self.scheme)
        if self.journal is not None:
            journal_folder(self.journal)
        check_outputs([self.report, self.save], self.plot, self.force, (self.file,))
        if not self.cache:
            compile_cache.turn_off()

    def loaded(self) -> tuple[Loaded, Any]:
        """The contents of the file, and the model for them."""
        choice = self.choice()
        require_differences(self.options, [choice])
        loaded = self.load()
        model = choice.build(loaded.data, loaded.found)
        self.tell_defaults(choice, f"model: {model}")
        return loaded, model

    def tell_defaults(self, choice: ModelChoice, said: str) -> None:
        """Print what is `said` of the model, and options of it that were not given."""
        if self.verbose:
            kept = choice.by_default(self.options)
            more = f" (by default {kept})" if kept else ""
            Console(highlight=False, markup=False).print(f"  {said}{more}", style="dim", soft_wrap=True)

    def about(self, notes: list[str], **more: str) -> dict[str, Any]:
        """What a saved result records: the command, the seed and the settings; `notes`: remarks on how
        the file was read; `more`: further settings."""
        asked = {
            "file": self.file.name, "model": self.model, "columns": self.columns, "time": self.time,
            "group": self.group, "covariates": self.covariates, "missing": self.missing,
            "decimal": self.decimal, "from": self.first, "to": self.last, "seed": self.seed,
        }  # fmt: skip
        asked |= {
            name: getattr(self.options.get(name), "name", self.options.get(name))  # paths: the file name
            for name, option in model_options().items()
            if option.of_data
        }
        asked |= {"read as": "; ".join(notes) or None, **more}
        asked = {name: str(value) for name, value in asked.items() if value is not None}
        line = shlex.join(["fitonce", *sys.argv[1:]])
        return {"command": line, "seed": self.seed, "asked": asked}


def listed(text: str | None) -> tuple[str, ...] | None:
    """Names separated by commas."""
    return None if text is None else tuple(split_names(text))


_OF_FITS = (
    "columns", "time", "group", "missing", "first", "last", "gaps", "weekdays", "covariates", "decimal",
    "restarts",
)  # fmt: skip
FOLDS = (
    "folds", "percent", "n", "k", "hops", "horizon", "buffer", "contiguous", "method", "scheme", "loss",
    "max_seconds", "journal",
)  # fmt: skip


def command(
    run: Callable[..., None], without: Collection[str] = (), ranges: bool = False, **apart: Any
) -> Callable[..., None]:
    """A function for typer that calls `run` with a `Request`.

    Args:
        run: takes the request, and the options `apart` by name.
        without: fields of a request that this command does not offer.
        ranges: whether model options that can be ranges are read as ranges, that is, as strings.
        apart: options of this command only, each a type and a default.
    """
    hints = get_type_hints(Request, include_extras=True)
    offered = [entry for entry in fields(Request) if entry.name not in ("options", *without)]
    known = [_parameter(entry.name, hints[entry.name], entry.default) for entry in offered]
    own = [_parameter(name, kind, default) for name, (kind, default) in apart.items()]
    of_models = [_of_model(option, ranges) for option in model_options().values()]

    def call(context: typer.Context, **given: Any) -> None:
        extra = {name: given.pop(name) for name in apart}
        options = {one.name: given.pop(one.name) for one in of_models}
        # One that is given with its default's value is given, too.
        options = {name: value for name, value in options.items() if _is_given(context, name)}
        request = Request(**given, options=options)
        with in_lines("reading and preparing") if request.verbose else nullcontext():
            run(request, **extra)

    told = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [told, *known[:2], *own, *of_models, *known[2:]]  # file and model first
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    call.__doc__ = run.__doc__
    return call


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _of_model(option: Option, ranges: bool) -> Parameter:
    several = ranges and option.several
    names = [flag(option.name), *([option.short] if option.short else [])]
    make = o.data if option.of_data else o.model
    shown = make(option.several if several else option.help, *names)
    default = str(option.default) if several else option.default
    kind = str if several else option.kind
    return _parameter(option.name, Annotated[kind | None if default is None else kind, shown], default)


def _parameter(name: str, kind: Any, default: Any) -> Parameter:
    default = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
