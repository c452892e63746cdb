"""The register of families, and from a model and data to the objective that is fitted."""

from __future__ import annotations

from typing import Any

from fitonce.objectives.base import Objective
from fitonce.objectives.chain.family import CHAINS
from fitonce.objectives.custom import CUSTOM
from fitonce.objectives.family import Family
from fitonce.objectives.graph.family import FIELDS
from fitonce.objectives.labels.family import LABELS

_families: list[Family] = [CHAINS, FIELDS, LABELS, CUSTOM]


def register(family: Family) -> None:
    """Make a family known: from here on its models are fitted, cross-validated and reported as any."""
    if not isinstance(family, Family):
        raise ValueError(f"register takes a Family, got {type(family).__name__}")
    if any(known.name == family.name for known in _families):
        raise ValueError(f"a family called '{family.name}' is registered already")
    _families.append(family)


def families() -> tuple[Family, ...]:
    """All that are registered."""
    return tuple(_families)


def family_of(model: Any) -> Family:
    """The family that a model belongs to."""
    for family in _families:
        if family.accepts(model):
            return family
    raise ValueError(f"model must be one of fo.models or have its methods, got {type(model).__name__}")


def objective_of(model: Any, data: Any, kernel: Any = None) -> Objective:
    """F of a model on data."""
    return family_of(model).objective(model, data, kernel)
