"""The command select: ranges of options to a range of models."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import typer

from fitonce.analysis.select import modelled_by_all, select
from fitonce.analysis.selection import Selection
from fitonce.cli import outputs
from fitonce.cli.choices import ModelChoice, flag, model_options, named_models, require_differences
from fitonce.cli.display import show_models, show_written
from fitonce.cli.errors import complain
from fitonce.cli.request import Request
from fitonce.cli.steps import finish_files, influence_for_report, write_outputs
from fitonce.core.interrupts import STOPPED, stoppable
from fitonce.core.wording import split_names
from fitonce.fitting.fit import Fit
from fitonce.objectives.family import Option

_MOST = 64  # models: a longer range is probably a typing error


def run_select(request: Request) -> None:
    """Cross-validate a range of models on the same folds and select one. --report and --save are for the
    model that is chosen, the simplest within a margin of the best."""
    choices = chosen(request)
    first = next(iter(choices.values()))
    columns = {name: request.options[name] for name in request.options if model_options()[name].columns}
    loaded = replace(request, options={**first.options, **columns}).load(covering=True)
    last = list(choices.values())[-1]  # of the first, options may make no difference
    request.tell_defaults(last, f"model: {request.model_name}")
    candidates, impossible = {}, {}
    for name, choice in choices.items():
        try:
            candidates[name] = choice.build(loaded.data, loaded.found)
        except ValueError as error:
            impossible[name] = str(error)
    if not candidates:
        raise ValueError(next(iter(impossible.values())))
    folds = request.fold_choice(covering=True).build(*modelled_by_all(candidates.values(), loaded.data))
    with stoppable() as stop:
        how = {"restarts": request.restarts, "seed": request.seed, "stop": stop, **request.how}
        told = _announce if request.verbose else lambda _: None
        found = select(candidates, loaded.data, folds, told=told, **how)
        stopped = stop()
    sizes = {name: _sizes(request, choice) for name, choice in choices.items()}
    why = {**impossible, **found.skipped}
    found = replace(found, skipped={name: why[name] for name in choices if name in why}, sizes=sizes)
    _finish(request, found, loaded.notes)
    if stopped:
        complain("interrupted: only the models that were finished are compared")
        raise typer.Exit(STOPPED)


def _announce(name: str) -> None:
    print(f"  {name} ...", flush=True)


def chosen(request: Request) -> dict[str, ModelChoice]:
    """All combinations of the ranges of options, named by what varies."""
    asked = request.choice()
    ranges = {option.name: option for option in asked.named.options if option.several}
    texts = {name: request.options.get(name, str(option.default)) for name, option in ranges.items()}
    lists = {name: _values(option, texts[name]) for name, option in ranges.items()}
    varying = [name for name, values in lists.items() if len(values) > 1]
    every, choices = list[ModelChoice](), dict[str, ModelChoice]()
    for values in product(*lists.values()):
        combination = dict(zip(lists, values, strict=True))
        every.append(replace(asked, options={**request.options, **combination}))
        idle = asked.named.idle(every[-1].whole())
        said = [ranges[one].said(combination[one]) for one in varying if one not in idle]
        given = {**every[-1].options, **idle}
        choices[", ".join(said) or request.model_name] = replace(asked, options=given)
    require_differences(request.options, every)
    if len(choices) > _MOST:
        raise ValueError(f"select takes at most {_MOST} models, got {len(choices)}")
    return choices


def _sizes(request: Request, choice: ModelChoice) -> dict[str, int]:
    """The options of a model that are numbers of which there could be more."""
    model = named_models()[request.model_name]
    counts = [one for one in model.options if one.kind is int and one.several]
    idle = model.idle(choice.options)  # such as harmonics of no seasons: nobody asked for none
    known = {one: choice.options[one.name] for one in counts if one.name not in idle}
    return {f"number of {one.noun}s" if one.noun else one.name: size for one, size in known.items()}


def _values(option: Option, text: str) -> list[Any]:
    if option.kind is int:
        return numbers(text, flag(option.name), option.least)
    return split_names(text)


def numbers(text: str, option: str, least: int) -> list[int]:
    """The sorted integers of '1..8', '1-8', '2,3,5' or '4'."""
    try:
        if ".." in text or "-" in text.strip()[1:]:
            first, last = (int(part) for part in text.strip().split(".." if ".." in text else "-"))
            found = list(range(first, last + 1)) if last - first < 10 * _MOST else [first, last]
        else:
            found = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be like 3, 1..8 or 2,3,5, got '{text}'") from None
    if not found:
        raise ValueError(f"{option} must go from the smaller number to the larger, got '{text}'")
    if min(found) < least:
        raise ValueError(f"{option} must list numbers of at least {least}, got '{text}'")
    return sorted(set(found))


def _finish(request: Request, found: Selection, notes: list[str]) -> None:
    """Write the files requested, and print the selection."""
    result = found.results[found.simplest]
    about = request.about(notes, selected=f"{found.simplest}; {found.sentence}")
    result = replace(result, about={**result.about, **about})

    def extras() -> dict[str, Any]:
        influence = influence_for_report(result.fit) if isinstance(result.fit, Fit) else None
        return {"models": found.table, "choice": found.sentence, "influence": influence}

    if not request.json:  # numbers first
        _show(found, request.quiet)
    files = write_outputs(request, result, found.plot, extras)
    if request.json:
        document = {
            "best": found.best,
            "simplest": found.simplest,
            "as_good": found.as_good,
            "margin": found.margin,
            "sentence": found.sentence,
            "undecided": found.undecided,
            "doubts": found.doubts,
            "models": outputs.table_rows(found.table),
            "skipped": found.skipped,
            "not_compared": outputs.table_rows(found.not_compared),
            "wrote": files.wrote,
        }
        outputs.print_json(document)
    else:
        show_written(files.wrote, request.quiet)
    finish_files(files, result)


def _show(found: Selection, quiet: bool) -> None:
    """Print the selection."""
    if quiet:
        if found.undecided:
            complain(found.undecided)
        else:
            print(found.simplest)
        for doubt in found.doubts:
            complain(doubt)
        return
    print(f"\n{found.comparison.left_out}")
    if found.undecided:
        print(found.undecided)
    at_zero = ["at_zero"] if found.table["at_zero"].any() else []
    show_models(found.table, ["parameters", *at_zero, "nats", "p", "aic", "bic", "worst", "found"])
    print(f"{found.simplest}, {found.results[found.simplest].about_se}")
    for line in (*(found.at_the_end if found.undecided else [found.choice]), *found.doubts):
        print(line)
    for line in found.skipped_words:
        print(line)
