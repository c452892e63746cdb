"""Steps that commands share: fits, folds, further parts of a report, writing files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fitonce.analysis.influence import Influence, influence
from fitonce.analysis.maps import plot_map
from fitonce.cli.choices import FoldChoice
from fitonce.cli.errors import complain
from fitonce.cli.files import Files
from fitonce.cli.request import Request
from fitonce.core.arguments import require_choice
from fitonce.core.interrupts import stoppable
from fitonce.core.wording import counted
from fitonce.core.writing import write_figure
from fitonce.crossval.cross_validate import cross_validate
from fitonce.crossval.valleys import valleys
from fitonce.fitting.fit import Fit, fit
from fitonce.folds import Folds
from fitonce.objectives.abilities import PredictsTails
from fitonce.objectives.families import family_of, objective_of
from fitonce.results.odd_scales import are_counts
from fitonce.results.result import CVResult

_SHOWN = ("loss", "control", "p", "ratio")  # of a map
_EXACT = 20  # folds that a report compares with exact refits
_FEW_PARAMETERS, _FEW_POINTS = 500, 200_000  # influence takes seconds up to here


def fitted(request: Request, model: Any, data: Any, order_by: str | None = None) -> Fit:
    """The model fitted to the data as requested."""
    return fit(
        model,
        data,
        restarts=request.restarts,
        seed=request.seed,
        optima=request.optima,
        order_by=order_by,
        progress=request.bars,
        memory_limit=request.memory_limit,
    )


class Task(NamedTuple):
    """What a command works on: a model, its data, remarks on how the file was read, and what makes the
    fit."""

    model: Any
    data: Any
    notes: list[str]
    fit: Callable[[], Fit]


def task_of(request: Request, folds: bool = True) -> Task:
    """From a saved fit, or from data that are still to be fitted; `folds`: whether some are made."""
    if request.is_saved_fit:
        saved = request.saved_fit(folds)
        if request.verbose:
            print(f"{request.file.name}: {saved.model}, {saved.status.outcome.value}")
        return Task(saved.model, saved.data, [], lambda: saved)
    loaded, model = request.loaded()
    return Task(model, loaded.data, loaded.notes, lambda: fitted(request, model, loaded.data))


def shown_fit(request: Request, task: Task) -> Fit:
    """The fit, which is printed: what follows is about this model with these parameters."""
    found = task.fit()
    if request.verbose:
        print(f"\n{found}", flush=True)
    return found


def folds_for(choice: FoldChoice, model: Any, data: Any) -> Folds:
    """Folds that score only points for which the model has a density: an autoregression conditions on
    its first steps."""
    return choice.build(model, family_of(model).modelled(model, data))


def validated(fit: Fit, folds: Folds, **how: Any) -> tuple[CVResult, bool]:
    """Cross-validate until done or Ctrl-C. Returns the result and whether it was interrupted."""
    with stoppable() as stop:
        result = cross_validate(fit, folds, stop=stop, **how)
        return result, stop()


def report_extras(fit: Fit, folds: Folds, result: CVResult) -> dict[str, Any]:
    """Arguments of `html_report`: exact refits of some folds to compare with, and influence."""
    more: dict[str, Any] = {}
    # Those that moved are exact, in an optimum that refits from the full fit do not lead to.
    stayed = np.flatnonzero(result.folds["optimum"] == 0)
    which = stayed[np.unique(np.linspace(0, len(stayed) - 1, min(_EXACT, len(stayed))).astype(int))]
    try:
        if which.size:
            more["scatter"] = _pairs(fit, folds, which, result)
            more["scatter_labels"] = (result.method, f"exact refits of {counted(len(which), 'fold')}")
    except ValueError as error:
        complain(f"exact refits are missing from the report: {error}")
    more["influence"] = influence_for_report(fit)
    try:
        more["valley"] = valleys(fit, folds, result)
    except ValueError as error:
        complain(f"the picture of two optima is missing from the report: {error}")
    return more


def influence_for_report(fit: Fit) -> pd.DataFrame | None:
    """The table of influence; None where that would take longer than seconds, or fails."""
    if len(fit.theta) > _FEW_PARAMETERS or len(fit.objective.base) > _FEW_POINTS:
        return None
    try:
        found = influence(fit)
    except ValueError as error:
        complain(f"influence is missing from the report: {error}")
        return None
    return found.to_dataframe()


def _pairs(fit: Fit, folds: Folds, which: np.ndarray, result: CVResult) -> pd.DataFrame:
    some = folds.some(which)
    how: dict[str, Any] = {"check": False, "progress": False, "loss": result.loss, "optima": 0}
    if folds.kind == "sites" and result.scheme in ("A", "B", "C"):
        how["scheme"] = result.scheme
    exact = cross_validate(fit, some, method="exact", **how).pointwise
    rows = result.pointwise[result.pointwise["fold"].isin(which)].reset_index(drop=True)
    pairs = rows[["fold", "sequence", "time", "site", "control"]]
    return pairs.assign(approximate=rows["loss"], exact=exact["loss"])


def check_show(request: Request, show: str | None, task: Task) -> None:
    """Raise, before the fit, unless --plot will draw a map of the data, of which to `show` something
    that the model knows."""
    if show is None:
        return
    require_choice("--show", show, _SHOWN)
    if request.plot is None:
        raise ValueError(f"--show says what --plot colours, got --show {show} without --plot")
    names = getattr(task.data, "names", None)
    if names is None or names.geography is None:
        raise ValueError("--show is for maps with shapes or coordinates, got data without them")
    if show not in ("p", "ratio"):
        return
    if request.loss not in (None, "pointwise"):
        raise ValueError(f"--show {show} is for single sites, got --loss {request.loss}")
    objective = objective_of(task.model, task.data)
    if not (isinstance(objective, PredictsTails) and objective.has_tails()):
        raise ValueError(
            f"--show {show} needs a model that says how far out a value is, got {task.model}"
        )
    if show == "ratio" and not are_counts(objective.collection.shown_values):
        raise ValueError("--show ratio is for maps of counts, got values that are no counts")


def drawn(result: CVResult, show: str | None) -> Any:
    """Matplotlib axes: a map coloured by loss, or by what to `show`, where it is known where sites lie,
    else a scatter plot."""
    by_site = (result.pointwise["site"] >= 0).any()
    on_map = by_site and result.summary.geography is not None
    return plot_map(result, show=show) if on_map else result.plot()


def influence_drawn(found: Any) -> Any:
    """Matplotlib axes: a map coloured by displacement where it is known where sites lie."""
    places = found.fit.places if isinstance(found, Influence) else None
    return found.plot() if places is None or places.geography is None else plot_map(found)


def write_outputs(
    request: Request, result: CVResult, plot: Callable[[], Any], extras: Callable[[], dict[str, Any]]
) -> Files:
    """Write the files requested by --save, --plot and --report; `plot` makes matplotlib axes, `extras`
    further arguments of the report."""
    files, force = Files(), request.force
    save, picture, report = request.save, request.plot, request.report
    if save is not None:
        files.add(lambda: result.save(save, force=force))
    if picture is not None:
        files.add(lambda: write_figure(picture, plot().figure, force=force))
    if report is not None:
        files.add(lambda: result.to_html(report, force=force, **extras()))
    return files


def finish_files(files: Files, result: CVResult) -> None:
    """End the command where a file could not be written; the result is kept elsewhere."""
    files.finish(result.save, "`fitonce report KEPT FILE` writes its report without computing it again")
