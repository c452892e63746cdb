"""cv, loo and influence, from a request to what is printed and written."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from fitonce.analysis.influence import influence
from fitonce.cli import outputs
from fitonce.cli.display import show_cv, show_influence
from fitonce.cli.errors import STOPPED, complain
from fitonce.cli.request import Request
from fitonce.cli.steps import fitted, folds_for, influence_for_report, made_for_report, validated
from fitonce.core.writing import write_figure, write_text
from fitonce.crossval.loo import loo
from fitonce.results.result import CVResult


def run_cv(request: Request) -> None:
    """Cross-validate a model of the data in a file, from one fit."""
    started = time.perf_counter()
    loaded, model = request.loaded()
    folds = folds_for(request.fold_choice(), [model], loaded.data)  # before the fit: may refuse
    fit = fitted(request, model, loaded.data)
    how: dict[str, Any] = {
        "method": request.method,
        "scheme": request.scheme,
        "loss": request.loss,
    }
    if request.max_seconds is not None:
        how["max_seconds"] = request.max_seconds
    result, stopped = validated(fit, folds, request.bars, **how)
    if stopped:
        result = replace(result, about={**result.about, "interrupted": True})
        complain(f"interrupted: this is a partial result; {result.treatment}")
    _finish(request, loaded.notes, result, lambda: made_for_report(fit, folds, result), started, stopped)


def run_loo(request: Request) -> None:
    """Leave out every single point, all of them from one sweep."""
    started = time.perf_counter()
    loaded, model = request.loaded()
    fit = fitted(request, model, loaded.data)
    result = loo(fit, progress=request.bars)
    more = lambda: {"influence": influence_for_report(fit)}  # noqa: E731
    _finish(request, loaded.notes, result, more, started, False)


def _finish(
    request: Request,
    notes: list[str],
    result: CVResult,
    more: Callable[[], dict[str, Any]],
    started: float,
    stopped: bool,
) -> None:
    """Write and print; `notes`: what was said of the file; `more`: what a report takes beside the
    result, made once that is safe."""
    result = replace(result, about={**result.about, **request.about(notes)})
    wrote = []
    if request.save is not None:
        wrote.append(result.save(request.save, force=request.force))
    if request.plot is not None:
        wrote.append(write_figure(request.plot, result.plot().figure, force=request.force))
    if request.report is not None:
        if request.talks:
            print("for the report: exact refits of some folds, influence ...", flush=True)
        extra = {} if stopped else more()
        extra["times"] = {"from command to report": time.perf_counter() - started}
        wrote.append(result.to_html(request.report, force=request.force, **extra))
    if request.json:
        outputs.print_json(
            {
                **outputs.as_document(result),
                "command": result.about["command"],
                "wrote": list(map(str, wrote)),
            }
        )
    else:
        show_cv(result, request.quiet)
        for path in wrote if request.talks else ():
            print(f"wrote {path}")
    if stopped:
        raise typer.Exit(STOPPED)


def run_influence(request: Request, top: int, table: Path | None) -> None:
    """Which points move the fit most; --save writes the whole table as CSV, or JSON by its ending."""
    outputs.check_outputs([table, request.plot], request.force)
    loaded, model = request.loaded()
    fit = fitted(request, model, loaded.data)
    found = influence(fit)
    if not fit.ok:
        complain(f"the fit is not a certified minimum: {fit.status}")
    wrote = []
    if table is not None:
        rows = found.to_dataframe()
        as_json = table.suffix.lower() == ".json"
        text = outputs.as_json(outputs.table_rows(rows)) if as_json else rows.to_csv(index=False)
        wrote.append(write_text(table, text, force=request.force))
    if request.plot is not None:
        wrote.append(write_figure(request.plot, found.plot().figure, force=request.force))
    if request.json:
        outputs.print_json(outputs.table_rows(found.top(top)))
    else:
        show_influence(found, top, request.quiet)
        for path in wrote if request.talks else ():
            print(f"wrote {path}")
