"""What a model is: its parameters, its prior and its potentials, and nothing about folds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from fitonce.constraints import Constraint
from fitonce.graph import Graph
from fitonce.numerics import Array
from fitonce.params import Params
from fitonce.potentials import Chain, Field, Linear

MEMORY_LIMIT = 2.0**32  # bytes that exact inference on a graph may take for one fold


class Model(Protocol):
    """What every structured model says. Hashable, so that compiled programs are shared."""

    def prepare(self, data: Any) -> Any:
        """Check the data and turn it into a pytree of arrays that `potentials` reads."""
        ...

    def parameters(self, prepared: Any) -> dict[str, Constraint]: ...

    def start(self, prepared: Any, rng: np.random.Generator | None) -> Params:
        """A starting point from the data; a random variation of it when `rng` is given."""
        ...

    def log_prior_at(self, params: Params, prepared: Any) -> Array:
        """On the constrained values, without a Jacobian, up to a constant. Its scale may come from the
        data as a whole; folds do not change it."""
        ...

    def bytes_per_fold(self, prepared: Any) -> int:
        """About how much memory one fold needs, from which the folds in a chunk are counted."""
        ...


@runtime_checkable
class ChainModel(Model, Protocol):
    """A model whose latent structure is a chain."""

    def potentials(self, params: Params, prepared: Any) -> Chain: ...


@runtime_checkable
class FieldModel(Model, Protocol):
    """A model whose latent structure is a field on a graph."""

    @property
    def states(self) -> tuple[int, ...]:
        """How many states each site has."""
        ...

    @property
    def scopes(self) -> tuple[tuple[int, ...], ...]:
        """The sites of each factor."""
        ...

    @property
    def graph(self) -> Graph:
        """Sites that share a factor are neighbours."""
        ...

    @property
    def learns_factors(self) -> bool:
        """Whether the factors depend on the parameters."""
        ...

    @property
    def memory_limit(self) -> float:
        """Bytes that one sweep may take."""
        ...

    def potentials(self, params: Params, prepared: Any) -> Field: ...


@runtime_checkable
class LabelModel(Model, Protocol):
    """A model of labels given features, along sequences, linear in its parameters."""

    def design(self, features: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """(sites, Q') what multiplies `stack`'s weights at each token, and (sites, K) scores that are
        given, or None."""
        ...

    def stack(self, params: Params) -> Linear:
        """The parameters as `design` reads them; each of them is one entry."""
        ...


@runtime_checkable
class Maximises(FieldModel, Protocol):
    """A field whose emission has a best value in closed form, so that EM can start its fits."""

    def maximise(self, params: Params, shares: np.ndarray, prepared: Any) -> Params:
        """An M step: the best emission when site v is of class k with probability shares[v, k]."""
        ...


@runtime_checkable
class Conditions(Protocol):
    """A model or an emission that conditions on part of the data."""

    def modelled(self, data: Any) -> Any:
        """The data with that part marked as `conditioned`, and so not observed."""
        ...


@runtime_checkable
class MaximisesChain(ChainModel, Protocol):
    """A chain whose M steps have a closed form where `can_maximise`, so that EM can start its fits."""

    @property
    def can_maximise(self) -> bool: ...

    def maximise(self, params: Params, expected: Chain, prepared: Any) -> Params:
        """The best parameters, given how often each potential is expected to count."""
        ...


@runtime_checkable
class ByState(ChainModel, Protocol):
    """A chain whose states have emission parameters of their own where `by_state`: parameters whose
    first axis is the state, so that a state's log density is that of a model with this state alone."""

    n_states: int
    emission: Any

    @property
    def by_state(self) -> bool: ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """Observations as rows, the only thing an emission sees.

    Attributes:
        x: (R, C) values; where not observed, some harmless value from the same channel.
        observed: (R, C) bools, or None when everything is.
        covariates: (R, Q) known quantities, such as the day of the week.
        counts: (R,) how often each row occurs among the observed steps.
        largest: the largest value of x, known when a program is compiled; 0 for real-valued data.
    """

    x: Array
    observed: Array | None
    covariates: Array
    counts: Array
    largest: int = field(default=0, metadata={"static": True})
