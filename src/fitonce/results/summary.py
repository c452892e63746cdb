"""The part of a fit that is shown and saved. A result read from a file has it in place of its fit."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from fitonce.core.status import Status
from fitonce.core.wording import counted
from fitonce.data.geography import Geography
from fitonce.data.places import Names
from fitonce.results.occupancy import about_few
from fitonce.results.standard_errors import Terms

_SHOWN = 10  # parameters


class Fitted(Protocol):
    """What a result needs of its fit, or of a summary of it."""

    @property
    def ok(self) -> bool: ...

    @property
    def status(self) -> Status: ...

    @property
    def summary(self) -> FitSummary: ...

    @property
    def places(self) -> Names | None: ...

    @property
    def edges(self) -> np.ndarray | None: ...

    @property
    def n_sites(self) -> int: ...

    @property
    def approximation(self) -> str: ...

    def params_at(self, theta: np.ndarray) -> Any: ...

    def memory_of(self, terms: Terms) -> float | None: ...


class Starts(NamedTuple):
    """What the starts of a fit say about its optima.

    Attributes:
        found: how many of them ended in the fit's.
        starts: how many there were.
        sentence: the same, other optima and the chance of new ones, in words.
        single: whether the model has no random starts.
    """

    found: int
    starts: int
    sentence: str
    single: bool = False

    @property
    def alone(self) -> bool:
        """Whether a single one of several starts ended in the fit's optimum: others may be better."""
        return self.starts > 1 and self.found <= 1

    @property
    def share(self) -> str:
        """ "3 of 40"; empty where there was one start."""
        return f"{self.found} of {self.starts}" if self.starts > 1 else ""


def parameters_in_words(fit: Any) -> str:
    """How many free parameters a model has: "16 free parameters, 6 of them at zero"."""
    at_zero = f", {fit.at_zero:,} of them at zero" if fit.at_zero else ""
    return f"{counted(fit.n_parameters, 'free parameter')}{at_zero}"


@dataclass(frozen=True, eq=False)
class FitSummary:
    """A fit without its model and data.

    Attributes:
        model, data: descriptions.
        status: whether the fit is a certified minimum.
        parameters: one row per free coordinate: `name`, `value`, `se`; small rates of exposure are per
            1,000 or more, as their names say.
        log_likelihood: of all data, without the prior.
        lengths: (N,) number of sites of each sequence.
        values: (sites,) the first channel, nan where missing or not numeric.
        channels: their names.
        edges: (E, 2) of a graph; None where there is none.
        seconds: duration of the fit.
        places: the user's names of sequences and sites; None: they are only numbered.
        unknown_starts: first states that nothing is known about, in words; empty: there are none.
        approximation: what the likelihood is, where it is not exact.
        optima: how often starts ended in the fit's optimum; None: not known, or it has no others.
        priors: of its parameters, in words; empty: not known.
        in_states: (K,) expected number of observed sites in each hidden state; None: not known, or there
            are no several states.
        few_in_states: (K,) the sites that are probably in each of these, by name, where they are few;
            empty: not known, or no state has few.
        further: (sites, C) the channels after the first, as far as tables show them; None: not known.
    """

    model: str
    data: str
    status: Status
    parameters: pd.DataFrame
    log_likelihood: float
    lengths: np.ndarray
    values: np.ndarray
    channels: tuple[str, ...]
    edges: np.ndarray | None
    seconds: float
    places: Names | None = None
    unknown_starts: str = ""
    approximation: str = ""
    optima: Starts | None = None
    priors: str = ""
    in_states: np.ndarray | None = None
    few_in_states: tuple[str, ...] = ()
    further: np.ndarray | None = None

    def __repr__(self) -> str:
        lines = [
            f"Summary of a fit of {self.model}, to {self.data}",
            f"  {self.status}",
            f"  log-likelihood {self.log_likelihood:.4f}; parameters: in `parameters`, as below",
            self.parameters.head(_SHOWN).to_string(index=False, float_format=lambda v: f"{v:.4g}"),
        ]
        more = len(self.parameters) - _SHOWN
        return "\n".join([*lines, *([f"... and {more:,} more"] if more > 0 else [])])

    @property
    def ok(self) -> bool:
        return self.status.ok

    @property
    def summary(self) -> FitSummary:
        return self

    @property
    def n_sites(self) -> int:
        return int(self.lengths.sum())

    @property
    def geography(self) -> Geography | None:
        """Where sites of a map lie; None: not known."""
        return None if self.places is None else self.places.geography

    @cached_property
    def names(self) -> Names:
        """The user's names of sequences and sites, or their numbers."""
        if self.places is not None:
            return self.places
        sequences = tuple(f"sequence {number}" for number in range(len(self.lengths)))
        sites = range(0 if self.edges is None else self.n_sites)
        return Names(sequences, tuple(f"site {number}" for number in sites) or None)

    @property
    def about_few(self) -> str:
        """Hidden states that rest on few points, in words; empty: none, or not known."""
        if self.in_states is None:
            return ""
        return about_few(self.in_states, self.edges is not None, self.few_in_states)

    @property
    def further_channels(self) -> dict[str, np.ndarray]:
        """The channels after the first, (sites,) each, by name."""
        columns = [] if self.further is None else list(self.further.T)
        return dict(zip(self.channels[1:], columns, strict=False))

    def name_of(self, site: int) -> str:
        """A site in words: its name or, in a sequence, its time."""
        ends = np.cumsum(self.lengths)
        sequence = int(np.searchsorted(ends, site, side="right"))
        time = site - int(ends[sequence] - self.lengths[sequence])
        return self.names.places(*(np.array([number]) for number in (sequence, time, site)))[0]

    def memory_of(self, terms: Terms) -> float | None:
        """None: a summary has no states."""
        return None

    def params_at(self, theta: np.ndarray) -> Any:
        """Raises: a summary has no model."""
        raise ValueError(
            "a result read from a file has no model: use its theta with params_at of a fit, or "
            "cross-validate again"
        )


def moves_most(moves: pd.DataFrame) -> list[str]:
    """The largest parameter change of each point, such as "rate[0] (+0.12 se)"; `moves`: (points, D) in
    standard errors."""
    values = np.nan_to_num(moves.to_numpy(float))
    most = np.abs(values).argmax(1)
    return [f"{moves.columns[k]} ({row[k]:+.2f} se)" for row, k in zip(values, most, strict=True)]


def loss_in_words(scheme: str, loss: str) -> str:
    """The loss that a result averages over folds."""
    if scheme != "structures":
        return f"the {loss} loss per point"
    if loss in ("pointwise", "joint"):
        return "minus the log-likelihood of a whole sequence"
    return f"the {loss} loss per sequence"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute."""
    named = {name: version(name) for name in ("fitonce", "jax", "numpy", "scipy", "pandas")}
    return {"python": platform.python_version(), **named}


# A `CVResult`, which imports this package to write reports, so that it cannot be imported here.
Result = Any
