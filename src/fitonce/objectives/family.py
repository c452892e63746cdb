"""What a family of models registers: everything the rest of the package needs to know about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fitonce.core.wording import counted
from fitonce.data.reading import Columns
from fitonce.objectives.base import Objective


@dataclass(frozen=True)
class Option:
    """A number or a word that a model takes on the command line.

    Attributes:
        name: with underscores; "steps_per_day" is --steps-per-day.
        kind: what it is read as: int, float, str or Path.
        default: its value where it is not given.
        help: one line.
        short: such as "-k".
        several: help text where `select` takes a range of values; "": it takes one value there, too.
        least: smallest value of a number.
        noun: what it counts, in the singular; "": it is shown as name and value.
        of_data: whether it describes the data rather than the model.
        columns: whether it names columns of the file.
    """

    name: str
    kind: type
    default: Any
    help: str
    short: str = ""
    several: str = ""
    least: int = 0
    noun: str = ""
    of_data: bool = False
    columns: bool = False

    def said(self, value: Any) -> str:
        """ "3 states", "beta 0.5"."""
        if self.noun:
            return counted(value, self.noun)
        return f"{self.name.replace('_', ' ')} {'none' if value == '' else value}"


STATES = Option(
    "states", int, 2, "Hidden states or classes", "-k", "Such as 1..8 or 2,3,5", least=1, noun="state"
)


EXPOSURE = Option("exposure", str, None, "Column of exposures or trials", of_data=True)


@dataclass(frozen=True)
class NamedModel:
    """A model of the command line.

    Attributes:
        name: such as "poisson-hmm".
        title: what it is for, in one line.
        make: builds the model from the options (with `Loaded.found`) and the data.
        options: those that it takes.
        covariates: whether it uses covariates of the data.
        idle: given the options, those that make no difference beside the others, and values for them:
            a grid of models has one model for all of their values.
        aliases: other words for it, under which it is described.
        instead: options of other models for which it has others, and what these are.
    """

    name: str
    title: str
    make: Callable[[Mapping[str, Any], Any], Any]
    options: tuple[Option, ...] = ()
    covariates: bool = False
    idle: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda options: {}
    aliases: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)


class Loaded(NamedTuple):
    """A file as the models of a family read it.

    Attributes:
        data: for `fit`.
        notes: how it was read, in sentences.
        text: the data in one line.
        found: further options for the model, such as a graph.
    """

    data: Any
    notes: list[str]
    text: str
    found: Mapping[str, Any] = {}


def _nothing_to_load(path: Path, columns: Columns, options: Mapping[str, Any]) -> Loaded:
    raise ValueError(f"models of this family do not read files, got {path.name}")


@dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
        name: one word.
        accepts: whether a model belongs to it.
        objective: builds F from a model, the user's data and a kernel (or None).
        usual_folds: the default folds, a name of `folds.catalogue`.
        covering_folds: the default folds to choose between models by, which score everything once.
        folds: names of all folds that apply to its data.
        n_states: the number of hidden states of a model, None where it has none.
        pictured: whether fits of a model can be drawn, also where there is no map.
        plan: the cost of a model, where that is known without data.
        modelled: given a model and data as read, marks the data that the model only conditions on.
        models: its models on the command line.
        load: reads a file, given its columns and the options.
        endings: of files that only this family reads.
    """

    name: str
    accepts: Callable[[Any], bool]
    objective: Callable[[Any, Any, Any], Objective]
    usual_folds: str = "blocks"
    covering_folds: str = "kfold"
    folds: tuple[str, ...] = ("blocks", "iid", "points", "kfold", "future", "sequences")
    n_states: Callable[[Any], int | None] = lambda model: None
    pictured: Callable[[Any], bool] = lambda model: False
    plan: Callable[[Any], Any] | None = None
    modelled: Callable[[Any, Any], Any] = lambda model, data: data
    models: tuple[NamedModel, ...] = ()
    load: Callable[[Path, Columns, Mapping[str, Any]], Loaded] = _nothing_to_load
    endings: tuple[str, ...] = ()
