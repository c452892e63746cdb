"""A portrait of a fit: what of it is shown and written down, without the machinery.

A result that was read back from a file has one in place of its fit.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from fitonce.data import Collection, Sequences
from fitonce.fit import Fit
from fitonce.names import Names
from fitonce.numerics import in_float64
from fitonce.status import Status

_MOST_PARAMETERS = 2000  # of more, standard errors take too long


@dataclass(frozen=True, eq=False)
class Portrait:
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

    def params_at(self, theta: np.ndarray) -> Any:
        """Not without the model."""
        raise ValueError(
            "a result read from a file has no model; its theta and names are there, "
            "cross-validate again for params"
        )


def places(fit: Fit | Portrait) -> Names | None:
    """What the user calls sequences and sites."""
    if isinstance(fit, Portrait):
        return fit.places
    return fit.data.names if isinstance(fit.data, Collection) else None


def portrait(fit: Fit | Portrait) -> Portrait:
    """Of a fit; what is one already stays as it is."""
    if isinstance(fit, Portrait):
        return fit
    data = fit.data
    known = isinstance(data, Collection)
    several = len(fit.theta) > _MOST_PARAMETERS
    table = _values(fit) if several else fit.to_dataframe()[["name", "value", "se"]]
    graph = getattr(fit.model, "graph", None)
    return Portrait(
        model=str(fit.model),
        data=str(data) if known else type(data).__name__,
        status=fit.status,
        parameters=table,
        log_likelihood=log_likelihood(fit),
        lengths=np.asarray(data.lengths if known else [len(fit.problem.base)]),
        values=_first_channel(data, fit),
        channels=tuple(getattr(data, "channels", ())),
        edges=None if graph is None else np.asarray(graph.edges),
        seconds=fit.seconds,
        places=places(fit),
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


@in_float64
def _values(fit: Fit) -> pd.DataFrame:
    """Without standard errors, each of which takes a solution with H."""
    named = fit.problem.program.space.named_values
    return pd.DataFrame(
        {"name": fit.names, "value": np.asarray(named(jnp.asarray(fit.theta))), "se": np.nan}
    )


def _first_channel(data: Any, fit: Fit) -> np.ndarray:
    if not isinstance(data, Sequences):
        return np.full(
            int(data.n_sites) if isinstance(data, Collection) else len(fit.problem.base), np.nan
        )
    seen = np.where(data.observed[..., 0], data.values[..., 0], np.nan)  # noqa: PD011 - not a DataFrame
    return seen[data.valid]


@in_float64
def log_likelihood(fit: Fit) -> float:
    """Of all data at the fit, without the prior; nan where a model does not tell them apart."""
    prior = getattr(fit.model, "log_prior_at", None)
    prepared = getattr(fit.problem, "prepared", None)
    if prior is None or prepared is None:
        return float("nan")
    return -fit.value - float(prior(jax.tree_util.tree_map(jnp.asarray, fit.params), prepared))


def versions() -> dict[str, str]:
    """Of what computes, here and now."""
    named = {name: version(name) for name in ("fitonce", "jax", "numpy", "scipy", "pandas")}
    return {"python": platform.python_version(), **named}
