"""The commands cv, loo and influence."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from fitonce.analysis.influence import influence
from fitonce.cli import outputs
from fitonce.cli.display import show_cv, show_influence, show_written
from fitonce.cli.errors import complain
from fitonce.cli.files import Files
from fitonce.cli.labels import Suspicion, kinds_document, labels_document, largest, show_labels
from fitonce.cli.request import Request
from fitonce.cli.steps import (
    check_show,
    drawn,
    finish_files,
    folds_for,
    influence_drawn,
    influence_for_report,
    report_extras,
    shown_fit,
    task_of,
    validated,
    write_outputs,
)
from fitonce.core.interrupts import STOPPED
from fitonce.core.writing import write_figure
from fitonce.crossval.loo import loo
from fitonce.fitting.fit import Fit, continued
from fitonce.folds import Folds
from fitonce.results.result import CVResult


def run_cv(
    request: Request,
    suspects: int | None,
    label: str | None,
    rather: str | None,
    show: str | None,
) -> None:
    """Cross-validate a model of the data in a file, from one fit. A saved fit (.json) needs no
    model."""
    started = time.perf_counter()
    task, asked = task_of(request), Suspicion(suspects, label, rather)
    asked.check(task.data)
    check_show(request, show, task)
    folds = folds_for(request.fold_choice(), task.model, task.data)  # raises before the fit
    fit = shown_fit(request, task)
    result, stopped = validated(fit, folds, **request.how)
    if not stopped and not request.is_saved_fit:
        fit, result, stopped = _from_better(fit, result, folds, request)
    if stopped:
        result = replace(result, about={**result.about, "interrupted": True})
        complain(f"interrupted: this is a partial result; {result.treatment}")
    extras = (lambda: {}) if stopped else (lambda: report_extras(fit, folds, result))
    _finish(request, task.notes, result, extras, started, asked, show)
    if stopped:
        raise typer.Exit(STOPPED)


def _from_better(
    fit: Fit, result: CVResult, folds: Folds, request: Request
) -> tuple[Fit, CVResult, bool]:
    """The fit to which folds have led, cross-validated, where there is time."""
    theta = result.better_theta
    better = None if request.max_seconds or theta is None else continued(fit, theta)
    if better is None:
        return fit, result, False
    complain(
        f"folds led to a fit that is {fit.value - better.value:.2g} nats better: begun again from it"
    )
    again, stopped = validated(better, folds, **request.how)
    return (fit, result, True) if stopped else (better, again, False)


def run_loo(
    request: Request,
    suspects: int | None,
    label: str | None,
    rather: str | None,
    show: str | None,
) -> None:
    """Leave-one-out cross-validation of all points, from one fit. A saved fit (.json) needs no
    model."""
    started = time.perf_counter()
    task, asked = task_of(request, folds=False), Suspicion(suspects, label, rather)
    asked.check(task.data)
    check_show(request, show, task)
    fit = shown_fit(request, task)
    result = loo(fit, progress=request.bars, memory_limit=request.memory_limit)
    extras = lambda: {"influence": influence_for_report(fit)}  # noqa: E731
    _finish(request, task.notes, result, extras, started, asked, show)


def _finish(
    request: Request,
    notes: list[str],
    result: CVResult,
    extras: Callable[[], dict[str, Any]],
    started: float,
    asked: Suspicion,
    show: str | None,
) -> None:
    """Write and print a result; `extras` makes further arguments of the report, once the result itself
    is written."""
    result = replace(result, about={**result.about, **request.about(notes)})

    def timed() -> dict[str, Any]:
        if request.verbose:
            print("for the report: exact refits of some folds, influence ...", flush=True)
        return {**extras(), "times": {"from command to report": time.perf_counter() - started}}

    if not request.json:  # numbers first
        show_cv(result, request.quiet)
        if not request.quiet:
            show_labels(result, asked)
    files = write_outputs(request, result, lambda: drawn(result, show), timed)
    if request.json:
        document = {**outputs.as_document(result), **labels_document(result, asked)}
        outputs.print_json({**document, "command": result.about["command"], "wrote": files.wrote})
    else:
        show_written(files.wrote, request.quiet)
    finish_files(files, result)


def run_influence(
    request: Request, top: int, table: Path | None, label: str | None, rather: str | None
) -> None:
    """Points with the largest influence on the fit. A saved fit (.json) needs no model. --save writes
    the whole table, as CSV or as JSON (.json)."""
    outputs.check_outputs([table], request.plot, request.force, (request.file,))
    task, asked = task_of(request, folds=False), Suspicion(None, label, rather)
    asked.check(task.data)
    fit = shown_fit(request, task)
    found = influence(fit, memory_limit=request.memory_limit)
    if not fit.ok:
        complain(f"the fit is not a certified minimum: {fit.status}")
    if not request.json:  # numbers first
        show_influence(found, top, request.quiet, asked)
    files, force, picture = Files(), request.force, request.plot
    if table is not None:
        files.add(lambda: outputs.write_table(found.to_dataframe(), table, force))
    if picture is not None:
        files.add(lambda: write_figure(picture, influence_drawn(found).figure, force=force))
    if request.json:
        document = {"rows": outputs.table_rows(largest(found, top, asked))}
        outputs.print_json({**document, **kinds_document(found), "wrote": files.wrote})
    else:
        show_written(files.wrote, request.quiet)
    files.finish()
