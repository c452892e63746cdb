"""Probabilities of an HMM that are zero: which they are, and models in which they are impossible or not.

What a `support` rules out is an assumption. What a fit found at zero, or was given as zero, is an
estimate, which the model remembers (`HMM.vanished`): data that are left out may bring it back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fitonce.core.constraints import as_tuples
from fitonce.core.numerics import as_numbers
from fitonce.core.parameters import Params
from fitonce.models.hidden.names import COEFFICIENTS
from fitonce.models.hidden.stationary import is_irreducible

if TYPE_CHECKING:
    from fitonce.models.hmm import HMM

SUPPORTS = {"initial": "initial_support", "transition": "support"}
_VANISHED = 1e-6  # a probability that a descent has left on its way to zero


@dataclass(frozen=True)
class Zeros:
    """Probabilities of a model that are zero or may be, by the names of its parameters.

    Attributes:
        model: whose they are.
        categories: the name of probabilities of categories, which may not be zero unless that is an
            optimum: no user means it.
    """

    model: HMM
    categories: ClassVar[str] = "probability"

    def learned(self, params: Params) -> list[str]:
        """Names of the probabilities that are learned and may be zero."""
        frozen = dict(self.model.frozen)
        names = [*SUPPORTS, *([self.categories] if self.model.emission.has_support else [])]
        return [name for name in names if name in params and name not in frozen]

    def possible(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Which of the entries may be positive."""
        if name in SUPPORTS:
            return np.asarray(self.model.possible(name))
        support = self.model.emission.support
        if support is None:
            return np.ones(shape, bool)
        support = np.asarray(support)
        return np.broadcast_to(support[:, None] if support.ndim < len(shape) else support, shape)

    def concentration(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """That of the Dirichlet prior of every entry."""
        of_emission = name == self.categories
        given = self.model.emission if of_emission else self.model.chain
        field = "concentration" if of_emission else f"{name}_concentration"
        return np.broadcast_to(np.asarray(getattr(given, field), float), shape)

    def is_flat(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Which of the entries have a flat prior."""
        return self.concentration(name, shape) == 1.0

    @property
    def remembered(self) -> dict[str, np.ndarray]:
        """Masks of the zeros that the model remembers, by name."""
        return {name: np.asarray(mask, bool) for name, mask in self.model.vanished}

    @property
    def given(self) -> dict[str, np.ndarray]:
        """Masks of those of them that a user gave, by name."""
        return {name: np.asarray(mask, bool) for name, mask in self.model.given}

    # --- other models ------------------------------------------------------------------------------

    def relaxed(self, name: str) -> HMM:
        """The model in which everything of a name is possible, with a flat prior."""
        model = self.model
        if name == self.categories:
            return replace(model, emission=replace(model.emission, support=None, concentration=1.0))
        flat: dict[str, Any] = {SUPPORTS[name]: None, f"{name}_concentration": 1.0}
        flat |= {"stickiness": 0.0} if name == "transition" else {}
        return replace(model, **flat)

    def freed(self) -> HMM:
        """The model in which what is remembered is possible again, if its prior is flat."""
        found = replace(self.model, vanished=(), given=())
        for name, mask in self.remembered.items():
            flat = mask & self.is_flat(name, mask.shape)
            found = _with_possible(found, name, found.zeros.possible(name, mask.shape) | flat)
        return found

    def held(self, params: Any, given: bool = False) -> HMM:
        """The model in which probabilities that are zero in `params` are impossible, and remembered;
        `given`: as what a user gave, whose exact zeros are meant."""
        found = self.model
        for name in self.learned(params) if isinstance(params, dict) else ():
            value = as_numbers(params[name])
            expected = 3 if name == self.categories else len(found.possible(name).shape)
            if value is None or value.ndim != expected or not (value > 0).any(-1).all():
                continue  # which whoever reads the parameters says better
            entries = found.zeros.possible(name, value.shape)
            if entries.shape == value.shape and (entries & (value == 0)).any():
                found = _with_possible(found, name, entries & (value != 0))
                found = _remember(found, "vanished", name, entries & (value == 0))
                if given:
                    found = _remember(found, "given", name, entries & (value == 0))
        return found

    # --- other parameters --------------------------------------------------------------------------

    def without_vanished(self, given: Params) -> Params | None:
        """Parameters with zeros where probabilities vanish under a flat prior; None where none does."""
        params, any_gone = {name: np.asarray(value) for name, value in given.items()}, False
        for name in self.learned(params):
            value = params[name]
            flat = self.possible(name, value.shape) & self.is_flat(name, value.shape)
            gone = flat & (value < _VANISHED)
            if gone.any():
                kept = np.where(gone, 0.0, value)
                if name == "transition" and self.model.stationary and not is_irreducible(kept > 0):
                    continue  # states never left or entered have no stationary distribution
                params[name], any_gone = kept / kept.sum(-1, keepdims=True), True
        return self.held(params).zeros.compared(params) if any_gone else None

    def compared(self, params: Params) -> Params:
        """Parameters with coefficients of transitions that are against those of the model: staying, or
        what is possible where that is not."""
        value = as_numbers(params.get(COEFFICIENTS)) if isinstance(params, dict) else None
        free = self.model.chain.contrasts()
        if value is None or value.ndim != 3 or value.shape[:2] != free.shape:
            return params
        reference = (self.model.possible("transition") & ~free).argmax(1)
        against = value - value[np.arange(len(free)), reference][:, None]
        return {**params, COEFFICIENTS: np.where(free[..., None], against, 0.0)}


def _with_possible(model: HMM, name: str, entries: np.ndarray) -> HMM:
    """The model in which exactly these entries may be positive."""
    if name == Zeros.categories:
        return replace(model, emission=replace(model.emission, support=entries))
    changed: dict[str, Any] = {SUPPORTS[name]: entries}
    return replace(model, **changed)


def _remember(model: HMM, field: str, name: str, zero: np.ndarray) -> HMM:
    known = {key: np.asarray(mask, bool) for key, mask in getattr(model, field)}
    known[name] = known.get(name, np.zeros_like(zero)) | zero
    masks: dict[str, Any] = {
        field: tuple((key, as_tuples(mask.tolist())) for key, mask in known.items())
    }
    return replace(model, **masks)
