"""Support for emissions written before `Emission` was a class: six methods and `deduplicate`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.core.arguments import require, shown
from fitonce.core.constraints import Constraint
from fitonce.core.numerics import Array
from fitonce.core.parameters import Params
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import Emission, EmissionTraits, Rows

_METHODS = ("check", "covariates", "parameters", "start", "log_prior", "log_density")


@dataclass(frozen=True)
class AdaptedEmission(Emission):
    """An emission that does not derive from `Emission`."""

    given: Any

    @property
    def traits(self) -> EmissionTraits:
        return EmissionTraits(deduplicate=bool(self.given.deduplicate), along_time=True)

    @property
    def name(self) -> str:
        return type(self.given).__name__

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        self.given.check(data)

    def covariates(self, data: Sequences) -> np.ndarray | None:
        return self.given.covariates(data)

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        return self.given.parameters(n_states, rows)

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        return self.given.start(n_states, rows, rng)

    def log_prior(self, params: Params, rows: Rows) -> Array:
        return self.given.log_prior(params, rows)

    def log_density(self, params: Params, rows: Rows) -> Array:
        return self.given.log_density(params, rows)


def as_emission(given: Any) -> Emission:
    """The emission itself, or an adapter for one that does not derive from `Emission`."""
    if isinstance(given, Emission):
        _require_declared(given)
        return given
    if isinstance(given, type):
        raise ValueError(f"emission must be an instance, such as {given.__name__}(), got the class")
    require(
        all(hasattr(given, name) for name in (*_METHODS, "deduplicate")),
        "emission",
        "an fo.models.Emission such as fo.models.Poisson(), or derive from it",
        given,
    )
    warnings.warn(
        f"an emission should derive from fo.models.Emission; {type(given).__name__} does not, which the "
        "next version will refuse",
        DeprecationWarning,
        stacklevel=4,
    )
    return AdaptedEmission(given)


def _require_declared(given: Emission) -> None:
    """Raise unless the emission has what its traits declare."""
    if not isinstance(given.traits, EmissionTraits):
        raise ValueError(
            f"traits of an emission must be fo.models.EmissionTraits, got {shown(given.traits)}"
        )
    promised = {"m_step": "maximise", **{name: name for name in ("information", "metric", "tails")}}
    for trait, method in promised.items():
        if getattr(given.traits, trait) and getattr(type(given), method) is getattr(Emission, method):
            raise ValueError(
                f"the traits of {given.name} declare {trait}=True, so it must have a method `{method}`"
            )
