"""What a model is: its parameters, its prior and its potentials, and nothing about folds."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from fitonce.core.constraints import Constraint
from fitonce.core.numerics import Array
from fitonce.core.parameters import Params
from fitonce.data.graph import Graph
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import Emission
from fitonce.models.potentials import Chain, Field, Linear

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
    """A model whose latent structure is a chain. What it prepares has `rows`, of all steps in order, and
    `take(sequences)`, the same of some of them."""

    n_states: int
    emission: Emission

    def modelled(self, data: Sequences) -> Sequences:
        """The data with what is only conditioned on marked as such, and so not observed."""
        ...

    def potentials(self, params: Params, prepared: Any) -> Chain: ...

    def by_state(self, prepared: Any) -> bool:
        """Whether the log density of each step in each state has parameters of its own, whose first axis
        is the state, besides those that states share."""
        ...

    @property
    def has_m_steps(self) -> bool:
        """Whether fits start by EM, whose M step is `maximise`."""
        ...

    def maximise(self, params: Params, expected: Chain, prepared: Any) -> Params:
        """The best parameters, given how often each potential is expected to count."""
        ...


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

    @property
    def has_m_steps(self) -> bool:
        """Whether fits start by EM, whose M step is `maximise`."""
        ...

    def maximise(self, params: Params, shares: np.ndarray, prepared: Any) -> Params:
        """The best emission when site v is of class k with weight shares[v, k], zero where missing."""
        ...


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
