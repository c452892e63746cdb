"""Outcomes as values: whether something succeeded, and a sentence that says what happened."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Rung(Enum):
    """How the parameters of a fold were obtained, from the cheapest to the most expensive."""

    NONE = "none", "parameters of the full fit, not adjusted"
    IJ = "ij", "first order along the path of a weighting scheme"
    ONESTEP = "onestep", "one Newton step with the data deleted, with the full fit's Hessian"
    NEWTON = "newton", "one Newton step with the data deleted, with the fold's own Hessian"
    REFINE = "refine", "refined towards the fold's own optimum"
    REFINE_OWN = "refine-own", "refined towards the fold's own optimum with the fold's own Hessian"
    REFIT = "refit", "refitted by damped Newton steps; also where parameters left or reached zero"
    OTHER = "other", "in another optimum, better than the one that continues the full fit's"

    meaning: str  # in words

    def __new__(cls, value: str, meaning: str) -> Rung:
        rung = object.__new__(cls)
        rung._value_, rung.meaning = value, meaning
        return rung


class Outcome(Enum):
    """How a fit or a fold ended."""

    STATIONARY = "stationary"
    NOT_STATIONARY = "not stationary"
    NOT_A_MINIMUM = "not a minimum"
    NOT_DETERMINED = "not determined"
    NOT_FINITE = "not finite"
    OVERSHOT = "overshot"
    APPROXIMATE = "approximate"


@dataclass(frozen=True)
class Status:
    """An outcome and a sentence about it.

    `ok` means: a certified minimum for a fit or an exact refit; a finite result from a successful
    factorisation for an approximation.
    """

    outcome: Outcome
    message: str

    @property
    def ok(self) -> bool:
        return self.outcome in (Outcome.STATIONARY, Outcome.APPROXIMATE)

    def __str__(self) -> str:
        return f"{self.outcome.value}: {self.message}" if self.message else self.outcome.value
