"""Models and folds by their names on the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fitonce.folds import Folds
from fitonce.folds.catalogue import FOLD_KINDS, FoldOptions, covering
from fitonce.objectives.families import families, family_of
from fitonce.objectives.family import Family, NamedModel, Option


def named_models() -> dict[str, NamedModel]:
    """All models that --model accepts, by name."""
    return {model.name: model for family in families() for model in family.models}


def model_options() -> dict[str, Option]:
    """All options that at least one model takes, by name."""
    return {option.name: option for model in named_models().values() for option in model.options}


def flag(name: str) -> str:
    """ "steps_per_day" to "--steps-per-day"."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class ModelChoice:
    """A model's name and the options given for it."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = named_models()
        if self.name not in known:
            parts = [one.strip() for one in self.name.split(",")]
            if len(parts) > 1 and all(one in known for one in parts):
                raise ValueError(
                    f"--model takes one model, got {len(parts)}: run each on the same folds, fitonce "
                    f"cv FILE --model {parts[0]} --save {parts[0]}.json, then fitonce compare "
                    f"{' '.join(f'{one}.json' for one in parts)}"
                )
            words = {name: (*name.split("-"), *one.aliases) for name, one in known.items()}
            alike = [one for name, one in known.items() if self.name in words[name]]
            named = [f"{one.name} ({one.title.split(' (')[0]})" for one in alike]
            raise ValueError(f"--model must be one of {', '.join(named or known)}, got '{self.name}'")
        taken = {option.name for option in known[self.name].options}
        for name, option in model_options().items():
            # An option that the model does not take is a mistake, so it is not ignored.
            if name not in taken and name in self.options:
                users = [model.name for model in known.values() if option in model.options]
                instead = known[self.name].instead.get(name)
                more = f", which takes {instead}" if instead else ""
                raise ValueError(
                    f"{flag(name)} is for {', '.join(users)}, got --model {self.name}{more}"
                )

    @property
    def family(self) -> Family:
        return next(f for f in families() if self.name in {model.name for model in f.models})

    @property
    def named(self) -> NamedModel:
        return named_models()[self.name]

    def require_covariates_used(self) -> None:
        """Raise if the model would not look at covariates."""
        if not self.named.covariates:
            users = [model.name for model in named_models().values() if model.covariates]
            raise ValueError(f"--covariates is for {', '.join(users)}, got --model {self.name}")

    def whole(self) -> dict[str, Any]:
        """All options of the model, by defaults where they are not given."""
        return {**{option.name: option.default for option in self.named.options}, **self.options}

    def by_default(self, given: Collection[str]) -> str:
        """The options of the model beside those that are `given`, as they would be typed; without those
        that make no difference or are empty."""
        whole = self.whole()
        beside = {*given, *self.named.idle(whole)}
        own = [one for one in self.named.options if not one.of_data and one.name not in beside]
        return " ".join(
            f"{flag(one.name)} {whole[one.name]}" for one in own if whole[one.name] not in (None, "")
        )

    def build(self, data: Any, found: Mapping[str, Any]) -> Any:
        """The model; `found`: options that reading the data added."""
        return self.named.make({**self.whole(), **found}, data)


def require_differences(given: Collection[str], choices: Iterable[ModelChoice]) -> None:
    """Raise for an option that was given and makes no difference to any of the models."""
    every = [(choice, choice.whole()) for choice in choices]
    for name in given:
        if all(name in choice.named.idle(whole) for choice, whole in every):
            choice, whole = every[0]
            idle = choice.named.idle(whole)
            others = [one for one in choice.named.options if not one.of_data and one.name not in idle]
            beside = " ".join(f"{flag(one.name)} {whole[one.name] or 'none'}" for one in others)
            raise ValueError(f"{flag(name)} makes no difference to {choice.name} with {beside}")


@dataclass(frozen=True)
class FoldChoice:
    """A kind of folds and its options. Without a name it is the default of the family: `covering` folds,
    which score everything once, if asked for and if no other options are given."""

    name: str | None = None
    options: FoldOptions = field(default_factory=FoldOptions)
    covering: bool = False

    def __post_init__(self) -> None:
        if self.name is not None and self.name not in FOLD_KINDS:
            raise ValueError(f"--folds must be one of {', '.join(FOLD_KINDS)}, got '{self.name}'")

    def kind(self, family: Family) -> str:
        """The name, or the family's default; raises where the family or the options do not allow it."""
        name = self.name or (family.covering_folds if self._covers else family.usual_folds)
        if name not in family.folds:
            raise ValueError(
                f"--folds must be one of {', '.join(family.folds)} for this model, got '{name}'"
            )
        for option in fields(FoldOptions):
            given = getattr(self.options, option.name) != option.default
            if given and option.name not in ("seed", *FOLD_KINDS[name].options):
                users = [kind for kind, entry in FOLD_KINDS.items() if option.name in entry.options]
                raise ValueError(f"{flag(option.name)} is for {', '.join(users)}, got --folds {name}")
        return name

    @property
    def _covers(self) -> bool:
        plain = FoldOptions(k=self.options.k, seed=self.options.seed)
        return self.covering and self.name is None and self.options == plain

    def build(self, model: Any, data: Any) -> Folds:
        """The folds for `data` in the form that a fit uses."""
        if self._covers and self.options.k is None:
            return covering(self.kind(family_of(model)), model, data, self.options.seed)
        return FOLD_KINDS[self.kind(family_of(model))].make(model, data, self.options)
