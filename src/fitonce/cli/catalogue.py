"""Names on the command line to models and folds, as families and folds register them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fitonce.folds import Folds
from fitonce.folds.catalogue import FOLD_KINDS, FoldOptions
from fitonce.objectives.families import families, family_of
from fitonce.objectives.family import Family, NamedModel, Option


def named_models() -> dict[str, NamedModel]:
    """All models that --model knows."""
    return {model.name: model for family in families() for model in family.models}


def model_options() -> dict[str, Option]:
    """All options that some of them take."""
    return {option.name: option for model in named_models().values() for option in model.options}


def _spelt(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class ModelChoice:
    """What was asked for: a model's name and its options, those that were given and the others."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = named_models()
        if self.name not in known:
            raise ValueError(f"--model must be one of {', '.join(known)}, got '{self.name}'")
        taken = {option.name for option in known[self.name].options}
        for name, option in model_options().items():
            # What a model has no use for would be ignored, and what is ignored was a slip.
            if name not in taken and self.options.get(name, option.default) != option.default:
                users = [model.name for model in known.values() if option in model.options]
                raise ValueError(f"{_spelt(name)} is for {', '.join(users)}, got --model {self.name}")

    @property
    def family(self) -> Family:
        return next(f for f in families() if self.name in {model.name for model in f.models})

    def build(self, data: Any, found: Mapping[str, Any]) -> Any:
        """The model; `found`: what reading the data added to the options."""
        model = named_models()[self.name]
        known = {option.name: option.default for option in model.options}
        return model.make({**known, **self.options, **found}, data)


@dataclass(frozen=True)
class FoldChoice:
    """What was asked for: a kind of folds, None for what is usual, and its options."""

    name: str | None = None
    options: FoldOptions = field(default_factory=FoldOptions)

    def __post_init__(self) -> None:
        if self.name is not None and self.name not in FOLD_KINDS:
            raise ValueError(f"--folds must be one of {', '.join(FOLD_KINDS)}, got '{self.name}'")

    def kind(self, family: Family) -> str:
        """The name, or what is usual for a family; other options must be for it."""
        name = self.name or family.usual_folds
        if name not in family.folds:
            raise ValueError(
                f"--folds must be one of {', '.join(family.folds)} for this model, got '{name}'"
            )
        for option in fields(FoldOptions):
            given = getattr(self.options, option.name) != option.default
            if given and option.name not in ("seed", *FOLD_KINDS[name].options):
                users = [kind for kind, entry in FOLD_KINDS.items() if option.name in entry.options]
                raise ValueError(f"{_spelt(option.name)} is for {', '.join(users)}, got --folds {name}")
        return name

    def build(self, model: Any, data: Any) -> Folds:
        """The folds, for the data as a fit has them."""
        return FOLD_KINDS[self.kind(family_of(model))].make(model, data, self.options)
