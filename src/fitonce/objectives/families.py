"""The registry of families: from a model and data to the objective that is fitted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fitonce.models.prior_words import FLAT, priors_of
from fitonce.objectives.base import Objective
from fitonce.objectives.chain.family import CHAINS
from fitonce.objectives.custom import CUSTOM
from fitonce.objectives.family import Family
from fitonce.objectives.graph.family import GRAPHS
from fitonce.objectives.labels.family import LABELS
from fitonce.objectives.space.family import SPACES

_families: list[Family] = [CHAINS, GRAPHS, LABELS, SPACES, CUSTOM]


def register(family: Family) -> None:
    """Register a family: its models can then be fitted, cross-validated and reported like any other."""
    if not isinstance(family, Family):
        raise ValueError(f"register takes a Family, got {type(family).__name__}")
    if any(known.name == family.name for known in _families):
        raise ValueError(f"a family called '{family.name}' is already registered")
    _families.append(family)


def families() -> tuple[Family, ...]:
    """All registered families."""
    return tuple(_families)


def family_of(model: Any) -> Family:
    """The family that a model belongs to."""
    for family in _families:
        if family.accepts(model):
            return family
    got = type(model).__name__
    raise ValueError(f"model must be one of fo.models or have the same methods, got {got}")


def priors_in_words(model: Any, parameters: Iterable[str]) -> list[str]:
    """ "rate flat": of these parameters, those with one prior together."""
    return priors_of(model, parameters)


def has_priors(model: Any, parameters: Iterable[str]) -> bool:
    """Whether some parameter has a prior that is known not to be flat."""
    return any(not text.endswith(f" {FLAT}") for text in priors_of(model, parameters))


def objective_of(model: Any, data: Any, kernel: Any = None) -> Objective:
    """F of a model on data."""
    return family_of(model).objective(model, data, kernel)
