"""cv, loo and influence, from a request to what is printed and written."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from fitonce import compile_cache
from fitonce.archive import write_text
from fitonce.cli import working
from fitonce.cli.choices import FoldChoice, ModelChoice
from fitonce.cli.showing import show_cv, show_influence
from fitonce.cli.speaking import STOPPED, complain
from fitonce.files import Columns
from fitonce.influence import influence
from fitonce.loo import loo
from fitonce.result import CVResult


@dataclass(frozen=True)
class Request:
    """What was asked on the command line, word by word."""

    file: Path
    model: str
    states: int = 2
    order: int = 1
    beta: str = "learned"
    steps_per_day: int = 288
    columns: str | None = None
    time: str | None = None
    group: str | None = None
    missing: float | None = None
    first: str | None = None
    last: str | None = None
    gaps: bool = True
    decimal: str = "."
    edges: Path | None = None
    exposure: str | None = None
    folds: str | None = None
    percent: float = 10.0
    n: int | None = None
    k: int = 10
    hops: int | None = None
    horizon: int | None = None
    method: str = "auto"
    scheme: str | None = None
    loss: str = "pointwise"
    max_seconds: float | None = None
    restarts: int = 3
    seed: int = 0
    report: Path | None = None
    save: Path | None = None
    plot: Path | None = None
    force: bool = False
    json: bool = False
    quiet: bool = False
    cache: bool = True

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

    def load(self) -> working.Loaded:
        """Check what can be checked at once, then read the file."""
        choice = self.choice()
        self.fold_choice()
        working.check_outputs([self.report, self.save, self.plot], self.force)
        working.check_picture(self.plot)
        if self.cache:
            compile_cache.use()
        names = None if self.columns is None else tuple(c.strip() for c in self.columns.split(","))
        if self.decimal not in (".", ","):
            raise ValueError(f"--decimal must be . or , and not '{self.decimal}'")
        columns = Columns(
            names, self.time, self.group, self.missing, self.first, self.last, self.gaps, self.decimal
        )
        loaded = working.load_file(self.file, choice, columns, self.edges, self.exposure)
        if self.talks:
            console = Console()
            console.print(f"{self.file.name}: {loaded.data}", highlight=False, markup=False)
            for note in loaded.notes:
                console.print(f"  {note}", style="dim", highlight=False, markup=False)
        return loaded

    def asked(self) -> dict[str, str]:
        """For the report: what was asked, in words."""
        shown = {
            "file": self.file.name, "model": self.model, "columns": self.columns, "time": self.time,
            "group": self.group, "missing": self.missing, "seed": self.seed,
        }  # fmt: skip
        return {name: str(value) for name, value in shown.items() if value is not None}


def run_cv(request: Request) -> None:
    """Fit, cross-validate, print, write."""
    started = time.perf_counter()
    loaded = request.load()
    fit = working.fitted(loaded, request.restarts, request.seed, request.bars)
    folds = request.fold_choice().build(fit.model, fit.data)
    how: dict[str, Any] = {
        "method": request.method,
        "scheme": request.scheme,
        "loss": request.loss,
    }
    if request.max_seconds is not None:
        how["max_seconds"] = request.max_seconds
    result, stopped = working.validated(fit, folds, request.bars, **how)
    if stopped:
        complain(f"interrupted: this is a partial result; {result.treatment}")
    _finish(request, result, lambda: working.made_for_report(fit, folds, result), started, stopped)


def run_loo(request: Request) -> None:
    """The same for every single point."""
    started = time.perf_counter()
    loaded = request.load()
    fit = working.fitted(loaded, request.restarts, request.seed, request.bars)
    result = loo(fit, progress=request.bars)
    more = lambda: {"influence": working.influence_for_report(fit)}  # noqa: E731
    _finish(request, result, more, started, False)


def _finish(
    request: Request,
    result: CVResult,
    more: Callable[[], dict[str, Any]],
    started: float,
    stopped: bool,
) -> None:
    """Write and print; `more` is what a report takes beside the result, made once that is safe."""
    command = working.command_line()
    about = {"command": command, "seed": request.seed, "interrupted": stopped, "asked": request.asked()}
    result = replace(result, about={**result.about, **about})
    wrote = []
    if request.save is not None:
        wrote.append(result.save(request.save, force=request.force))
    if request.plot is not None:
        wrote.append(picture(request, result.plot().figure))
    if request.report is not None:
        if request.talks:
            print("for the report: exact refits of some folds, influence ...", flush=True)
        extra = {} if stopped else more()
        extra["times"] = {"from command to report": time.perf_counter() - started}
        wrote.append(result.to_html(request.report, force=request.force, **extra))
    if request.json:
        working.print_json(
            {**working.summary(result), "command": command, "wrote": list(map(str, wrote))}
        )
    else:
        show_cv(result, request.quiet)
        for path in wrote if request.talks else ():
            print(f"wrote {path}")
    if stopped:
        raise typer.Exit(STOPPED)


def picture(request: Request, figure: Any) -> Path:
    """A figure to a file, by its ending."""
    assert request.plot is not None
    figure.savefig(request.plot, dpi=150)
    return request.plot


def run_influence(request: Request) -> None:
    """The points that move the fit most."""
    loaded = request.load()
    fit = working.fitted(loaded, request.restarts, request.seed, request.bars)
    found = influence(fit)
    wrote = []
    if request.save is not None:
        table = found.to_dataframe().to_csv(index=False)
        wrote.append(write_text(request.save, table, force=request.force))
    if request.plot is not None:
        wrote.append(picture(request, found.plot().figure))
    count = 10 if request.n is None else request.n
    if request.json:
        working.print_json(working.rows_of(found.top(count)))
    else:
        show_influence(found, count, request.quiet)
        for path in wrote if request.talks else ():
            print(f"wrote {path}")
