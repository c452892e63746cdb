"""A fit without its machinery: what is shown and written down of it.

A result that was read back from a file has a `FitSummary` in place of its fit.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
import pandas as pd

from fitonce.core.status import Status
from fitonce.data.places import Names


class Fitted(Protocol):
    """What a result asks of its fit, or of what was written down of it."""

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

    def params_at(self, theta: np.ndarray) -> Any: ...


@dataclass(frozen=True, eq=False)
class FitSummary:
    """What was fitted to what, and what came out.

    Attributes:
        model, data: in words.
        status: whether it is a certified minimum.
        parameters: one row per free coordinate: `name`, `value`, `se`.
        log_likelihood: of all data, without the prior; nan where a model does not tell them apart.
        lengths: (N,) sites of each sequence.
        values: (sites,) the first channel, nan where missing or where data are not numbers.
        channels: names.
        edges: (E, 2) of a graph; None where there is none.
        seconds: that the fit took.
        places: what the user calls sequences and sites; None: they have numbers only.
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

    @property
    def ok(self) -> bool:
        return self.status.ok

    @property
    def summary(self) -> FitSummary:
        return self

    @property
    def n_sites(self) -> int:
        return int(self.lengths.sum())

    def params_at(self, theta: np.ndarray) -> Any:
        """Not without the model."""
        raise ValueError(
            "a result read from a file has no model; its theta and names are there, "
            "cross-validate again for params"
        )


def moves_most(moves: pd.DataFrame) -> list[str]:
    """Of moves of parameters in standard errors, a row for each point, the largest in words."""
    values = np.nan_to_num(moves.to_numpy(float))
    most = np.abs(values).argmax(1)
    return [f"{moves.columns[k]} ({row[k]:+.2f} se)" for row, k in zip(values, most, strict=True)]


def loss_in_words(scheme: str, loss: str) -> str:
    """What a result averages over folds."""
    if scheme == "structures":
        usual = loss in ("pointwise", "joint")
        return (
            "minus the log-likelihood of a whole sequence" if usual else f"the {loss} loss per sequence"
        )
    return f"the {loss} loss per point"


def versions() -> dict[str, str]:
    """Of what computes, here and now."""
    named = {name: version(name) for name in ("fitonce", "jax", "numpy", "scipy", "pandas")}
    return {"python": platform.python_version(), **named}


# A `CVResult`. It writes reports itself, so this package cannot import it.
Result = Any
