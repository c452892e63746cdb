"""Classes of other libraries: which one a model is of, and whether a subclass makes it another model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

_MARKS = {"hmmlearn": "startprob_prior", "dynamax": "emission_component"}  # attributes of every HMM


def kind_of(model: Any, library: str, known: Collection[str], own: Collection[str]) -> str:
    """The name of the class, among those known of a library, that a model is or only inherits from.

    Args:
        model: of the library; one of another that has such a class, too, is refused.
        library: "hmmlearn" or "dynamax".
        known: names of classes.
        own: methods by which a subclass is another model.
    """
    order = type(model).__mro__
    reader, got = f"from_{library}", order[0].__name__
    found = next((other for other, mark in _MARKS.items() if hasattr(model, mark)), None)
    if found not in (None, library):
        raise ValueError(
            f"model: {reader} reads HMMs of {library}, got a {got} of {found}: use fo.from_{found}"
        )
    name = next((one.__name__ for one in order if one.__name__ in known), None)
    if name is None:
        raise ValueError(f"model: {reader} reads {', '.join(known)}, got {got}")
    if found is None:
        home = order[0].__module__.split(".")[0]
        raise ValueError(f"model: {reader} reads HMMs of {library}, got a {got} of {home}")
    require_inherited(model, name, own, reader)
    return name


def require_inherited(model: Any, name: str, own: Collection[str], reader: str) -> None:
    """Raise if a subclass of a class of this name has one of the methods `own`."""
    order = type(model).__mro__
    theirs = max(place for place, one in enumerate(order) if one.__name__ == name)
    for one in order[:theirs]:
        changed = [method for method in own if method in vars(one)]
        if changed:
            raise ValueError(
                f"{one.__name__} has its own {changed[0]}, so it is not the {name} that {reader} would "
                "read"
            )
