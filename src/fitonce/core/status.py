"""Outcomes as values: whether something succeeded, and a sentence that says what happened."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Rung(Enum):
    """How the parameters of a fold were obtained, from the cheapest to the dearest."""

    NONE = "none"
    IJ = "ij"
    ONESTEP = "onestep"
    NEWTON = "newton"
    REFINE = "refine"
    REFINE_OWN = "refine-own"
    REFIT = "refit"

    @property
    def meaning(self) -> str:
        """In words."""
        return _RUNGS[self]


_RUNGS = {
    Rung.NONE: "parameters of the full fit, not adjusted",
    Rung.IJ: "first order along the path of a weighting scheme",
    Rung.ONESTEP: "one step with the data deleted, by the full fit's Hessian",
    Rung.NEWTON: "one step with the data deleted, by the fold's own Hessian",
    Rung.REFINE: "refined to the fold's own optimum",
    Rung.REFINE_OWN: "refined to the fold's own optimum, with the fold's own Hessian from early on",
    Rung.REFIT: "refitted by damped Newton steps from the full fit",
}


class Outcome(Enum):
    """What became of a fit or of one fold."""

    STATIONARY = "stationary"
    NOT_STATIONARY = "not stationary"
    NOT_A_MINIMUM = "not a minimum"
    NOT_FINITE = "not finite"
    OVERSHOT = "overshot"
    APPROXIMATE = "approximate"


@dataclass(frozen=True)
class Status:
    """An outcome and its sentence.

    `ok` is true where the number beside it is what it claims to be: a certified minimum for a fit or
    an exact refit, a finite result from a sound factorisation for an approximation.
    """

    outcome: Outcome
    message: str

    @property
    def ok(self) -> bool:
        return self.outcome in (Outcome.STATIONARY, Outcome.APPROXIMATE)

    def __str__(self) -> str:
        return f"{self.outcome.value}: {self.message}" if self.message else self.outcome.value
