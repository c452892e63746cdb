"""select: ranges on the command line to a range of models."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import typer

from fitonce.analysis.select import Selection, select
from fitonce.cli import outputs
from fitonce.cli.catalogue import ModelChoice, model_options
from fitonce.cli.display import show_models
from fitonce.cli.errors import STOPPED, complain, stoppable
from fitonce.cli.request import Request
from fitonce.cli.steps import folds_for, influence_for_report
from fitonce.core.writing import write_figure
from fitonce.fitting.fit import Fit
from fitonce.objectives.family import Option

_MOST = 64  # models: a range that long is a slip


def run_select(request: Request) -> None:
    """Cross-validate a range of models on the same folds, and name the winner. --report and --save are
    of the simplest model within one standard error."""
    choices = chosen(request)
    first = next(iter(choices.values()))
    loaded = replace(request, options=first.options).load()
    candidates, impossible = {}, {}
    for name, choice in choices.items():
        try:
            candidates[name] = choice.build(loaded.data, loaded.found)
        except ValueError as error:
            impossible[name] = str(error)
    if not candidates:
        raise ValueError(next(iter(impossible.values())))
    folds = folds_for(request.fold_choice(), candidates.values(), loaded.data)
    with stoppable() as stop:
        found = select(
            candidates,
            loaded.data,
            folds,
            restarts=request.restarts,
            seed=request.seed,
            told=_say if request.talks else lambda _: None,
            stop=stop,
            method=request.method,
            scheme=request.scheme,
            loss=request.loss,
            progress=request.bars,
        )
        stopped = stop()
    found = replace(found, skipped={**impossible, **found.skipped})
    wrote = _written(request, found, loaded.notes)
    _shown(request, found, wrote)
    if stopped:
        complain("interrupted: this is of the models that were finished")
        raise typer.Exit(STOPPED)


def _say(name: str) -> None:
    print(f"  {name} ...", flush=True)


def chosen(request: Request) -> dict[str, ModelChoice]:
    """All combinations of the options that are ranges, named by what varies."""
    ranges = {name: option for name, option in model_options().items() if option.several}
    lists = {name: _values(option, request.options[name]) for name, option in ranges.items()}
    varying = [name for name, values in lists.items() if len(values) > 1] or ["states"]
    made = {}
    for values in product(*lists.values()):
        these = dict(zip(lists, values, strict=True))
        name = ", ".join(ranges[one].said(these[one]) for one in varying)
        made[name] = ModelChoice(request.model, {**request.options, **these})
    if len(made) > _MOST:
        raise ValueError(f"select takes at most {_MOST} models, got {len(made)}")
    return made


def _values(option: Option, text: str) -> list[Any]:
    if option.kind is int:
        return numbers(text, f"--{option.name.replace('_', '-')}", option.least)
    return [part.strip() for part in text.split(",")]


def numbers(text: str, option: str, least: int) -> list[int]:
    """'1..8' or '1-8', '2,3,5' or '4'."""
    try:
        if ".." in text or "-" in text.strip()[1:]:
            first, last = (int(part) for part in text.strip().split(".." if ".." in text else "-"))
            found = list(range(first, last + 1)) if last - first < 10 * _MOST else [first, last]
        else:
            found = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be like 3, 1..8 or 2,3,5, got '{text}'") from None
    if not found or min(found) < least:
        raise ValueError(f"{option} must be numbers from {least} on, got '{text}'")
    return sorted(set(found))


def _written(request: Request, found: Selection, notes: list[str]) -> list[str]:
    wrote = []
    result = found.results[found.simplest]
    about = request.about(notes, selected=f"{found.simplest}; {found.sentence}")
    result = replace(result, about={**result.about, **about})
    if request.save is not None:
        wrote.append(str(result.save(request.save, force=request.force)))
    if request.plot is not None:
        wrote.append(str(write_figure(request.plot, found.plot().figure, force=request.force)))
    if request.report is not None:
        more: dict[str, Any] = {"models": found.table, "choice": found.sentence}
        if isinstance(result.fit, Fit):
            more["influence"] = influence_for_report(result.fit)
        wrote.append(str(result.to_html(request.report, force=request.force, **more)))
    return wrote


def _shown(request: Request, found: Selection, wrote: list[str]) -> None:
    if request.json:
        document = {
            "best": found.best,
            "simplest": found.simplest,
            "sentence": found.sentence,
            "doubts": found.comparison.doubts,
            "models": outputs.table_rows(found.table),
            "skipped": found.skipped,
            "wrote": wrote,
        }
        outputs.print_json(document)
        return
    if request.quiet:
        print(found.simplest)
        for doubt in found.comparison.doubts:
            complain(doubt)
        return
    print(f"\n{found.comparison.left_out}")
    show_models(found.table, ["parameters", "aic", "bic", "worst"])
    print(found.sentence)
    for name, why in found.skipped.items():
        print(f"{name} was skipped: {why}")
    for path in wrote:
        print(f"wrote {path}")
