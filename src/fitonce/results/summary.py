"""The part of a fit that is shown and saved. A result read from a file has it in place of its fit."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
import pandas as pd

from fitonce.core.status import Status
from fitonce.data.geography import Geography
from fitonce.data.places import Names
from fitonce.results.standard_errors import Terms


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
