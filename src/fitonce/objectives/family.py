"""What a family of models registers: all that the rest must know of it, in one place."""

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
        default: where it is not given.
        help: one line.
        short: such as "-k".
        several: the help where `select` takes a range of it; "": it takes one value there, too.
        least: of a number.
        noun: what it counts, in the singular; "": its name goes before its value.
        of_data: whether it says something of the data, and not of the model.
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

    def said(self, value: Any) -> str:
        """ "3 states", "beta 0.5"."""
        return counted(value, self.noun) if self.noun else f"{self.name} {value}"


STATES = Option(
    "states", int, 2, "Hidden states or classes", "-k", "Such as 1..8 or 2,3,5", least=1, noun="state"
)


@dataclass(frozen=True)
class NamedModel:
    """A model of the command line.

    Attributes:
        name: such as "poisson-hmm".
        title: what it is for, in a line.
        make: the options (and what reading the data added to them) and the data to the model.
        options: those that it takes.
    """

    name: str
    title: str
    make: Callable[[Mapping[str, Any], Any], Any]
    options: tuple[Option, ...] = ()


class Loaded(NamedTuple):
    """A file as the models of a family read it.

    Attributes:
        data: for `fit`.
        notes: what was made of it, in sentences.
        text: the data in a line.
        found: what it adds to the options of a model, such as a graph.
    """

    data: Any
    notes: list[str]
    text: str
    found: Mapping[str, Any] = {}


def _nothing_to_load(path: Path, columns: Columns, options: Mapping[str, Any]) -> Loaded:
    raise ValueError(f"models of this kind read no files, got {path.name}")


@dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
        name: in a word.
        accepts: whether a model belongs to it.
        objective: a model, data as the user gave them and a kernel (or None) to F.
        usual_folds: what is left out where nobody says, a name of `folds.catalogue`.
        folds: names of all folds that its data can be split into.
        plan: what a model costs, where that is known without data.
        modelled: a model and data as read, to the data with what the model only conditions on marked.
        models: names on the command line.
        load: a file, its columns and the options that were given to data.
        endings: of files that only this family reads.
    """

    name: str
    accepts: Callable[[Any], bool]
    objective: Callable[[Any, Any, Any], Objective]
    usual_folds: str = "blocks"
    folds: tuple[str, ...] = ("blocks", "iid", "points", "kfold", "future", "sequences")
    plan: Callable[[Any], Any] | None = None
    modelled: Callable[[Any, Any], Any] = lambda model, data: data
    models: tuple[NamedModel, ...] = ()
    load: Callable[[Path, Columns, Mapping[str, Any]], Loaded] = field(default=_nothing_to_load)
    endings: tuple[str, ...] = ()
