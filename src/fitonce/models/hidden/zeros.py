"""Probabilities of an HMM that are zero: which they are, and models in which they are impossible or not.

What a `support` rules out is an assumption. What a fit found at zero, or was given as zero, is an
estimate, which the model remembers (`HMM.vanished`): data that are left out may bring it back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fitonce.core.constraints import as_tuples
from fitonce.core.numerics import as_numbers
from fitonce.core.parameters import Params
from fitonce.models.hidden.names import COEFFICIENTS
from fitonce.models.hidden.stationary import is_irreducible

SUPPORTS = {"initial": "initial_support", "transition": "support"}
EMISSION = "probability"
_VANISHED = 1e-6  # a probability that a descent has left on its way to zero


def learned(model: Any, params: Params) -> list[str]:
    """Names of the probabilities that are learned and may be zero."""
    frozen = dict(model.frozen)
    names = [*SUPPORTS, *([EMISSION] if model.emission.has_support else [])]
    return [name for name in names if name in params and name not in frozen]


def possible(model: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Which of the entries may be positive."""
    if name in SUPPORTS:
        return np.asarray(model.possible(name))
    support = model.emission.support
    if support is None:
        return np.ones(shape, bool)
    support = np.asarray(support)
    return np.broadcast_to(support[:, None] if support.ndim < len(shape) else support, shape)


def concentration(model: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """That of the Dirichlet prior of every entry."""
    given = model.emission if name == EMISSION else model.chain
    field = "concentration" if name == EMISSION else f"{name}_concentration"
    return np.broadcast_to(np.asarray(getattr(given, field), float), shape)


def with_possible(model: Any, name: str, entries: np.ndarray) -> Any:
    """The model in which exactly these entries may be positive."""
    if name == EMISSION:
        return replace(model, emission=replace(model.emission, support=entries))
    return replace(model, **{SUPPORTS[name]: entries})


def relaxed(model: Any, name: str) -> Any:
    """The model in which everything of a name is possible, with a flat prior."""
    if name == EMISSION:
        return replace(model, emission=replace(model.emission, support=None, concentration=1.0))
    flat: dict[str, Any] = {SUPPORTS[name]: None, f"{name}_concentration": 1.0}
    return replace(model, **flat, **({"stickiness": 0.0} if name == "transition" else {}))


def with_zeros_of(model: Any, params: Any, given: bool = False) -> Any:
    """The model in which probabilities that are zero in `params` are impossible, and remembered;
    `given`: as what a user gave, whose exact zeros are meant."""
    found = model
    for name in learned(model, params) if isinstance(params, dict) else ():
        value = as_numbers(params[name])
        expected = 3 if name == EMISSION else len(model.possible(name).shape)
        if value is None or value.ndim != expected or not (value > 0).any(-1).all():
            continue  # which whoever reads the parameters says better
        entries = possible(model, name, value.shape)
        if entries.shape == value.shape and (entries & (value == 0)).any():
            found = with_possible(found, name, entries & (value != 0))
            found = _remember(found, "vanished", name, entries & (value == 0))
            if given:
                found = _remember(found, "given", name, entries & (value == 0))
    return found


def _remember(model: Any, field: str, name: str, zero: np.ndarray) -> Any:
    known = {key: np.asarray(mask, bool) for key, mask in getattr(model, field)}
    known[name] = known.get(name, np.zeros_like(zero)) | zero
    masks = tuple((key, as_tuples(mask.tolist())) for key, mask in known.items())
    return replace(model, **{field: masks})


def vanished(model: Any) -> dict[str, np.ndarray]:
    """Masks of what is remembered, by name."""
    return {name: np.asarray(mask, bool) for name, mask in model.vanished}


def given(model: Any) -> dict[str, np.ndarray]:
    """Masks of what is remembered and was given by a user, by name."""
    return {name: np.asarray(mask, bool) for name, mask in model.given}


def freed(model: Any) -> Any:
    """The model in which what is remembered is possible again, if its prior is flat."""
    found = replace(model, vanished=(), given=())
    for name, mask in vanished(model).items():
        flat = mask & (concentration(model, name, mask.shape) == 1.0)
        found = with_possible(found, name, possible(model, name, mask.shape) | flat)
    return found


def without_vanished(model: Any, given: Params) -> Params | None:
    """Parameters with zeros where probabilities vanish under a flat prior; None where none does."""
    params, any_gone = {name: np.asarray(value) for name, value in given.items()}, False
    for name in learned(model, params):
        value = params[name]
        flat = possible(model, name, value.shape) & (concentration(model, name, value.shape) == 1.0)
        gone = flat & (value < _VANISHED)
        if gone.any():
            kept = np.where(gone, 0.0, value)
            if name == "transition" and model.stationary and not is_irreducible(kept > 0):
                continue  # states that are never left or entered have no stationary distribution
            params[name], any_gone = kept / kept.sum(-1, keepdims=True), True
    return compared(with_zeros_of(model, params), params) if any_gone else None


def compared(model: Any, params: Params) -> Params:
    """Parameters with coefficients of transitions that are against those of the model: staying, or what
    is possible where that is not."""
    value = as_numbers(params.get(COEFFICIENTS)) if isinstance(params, dict) else None
    free = model.chain.contrasts()
    if value is None or value.ndim != 3 or value.shape[:2] != free.shape:
        return params
    reference = (model.possible("transition") & ~free).argmax(1)
    against = value - value[np.arange(len(free)), reference][:, None]
    return {**params, COEFFICIENTS: np.where(free[..., None], against, 0.0)}
