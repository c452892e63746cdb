"""Model protocols: parameters, prior and potentials; folds are none of a model's concern."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from fitonce.core.constraints import Constraint
from fitonce.core.numerics import Array
from fitonce.core.parameters import Params
from fitonce.core.predictive import Tails
from fitonce.data.graph import Graph
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import Emission
from fitonce.models.potentials import Chain, Field, Linear

MEMORY_LIMIT = 2.0**32  # bytes that exact inference on a graph may take for one fold


class Model(Protocol):
    """The interface of every structured model. Hashable, so that compiled programs are shared."""

    def prepare(self, data: Any) -> Any:
        """Check the data and convert it to the pytree of arrays that `potentials` reads."""

    def parameters(self, prepared: Any) -> dict[str, Constraint]: ...

    def start(self, prepared: Any, rng: np.random.Generator | None) -> Params:
        """Starting values from the data, perturbed at random when `rng` is given."""

    def log_prior_at(self, params: Params, prepared: Any) -> Array:
        """The log prior of the constrained values, without a Jacobian, up to a constant. Its scale may
        depend on the whole data set, but not on folds."""

    def bytes_per_fold(self, prepared: Any) -> int:
        """Approximate memory per fold, which determines how many folds form a chunk."""


@runtime_checkable
class ChainModel(Model, Protocol):
    """A model whose latent structure is a chain. Its prepared data have `rows`, all steps in order, and
    `take(sequences)`, which selects sequences."""

    n_states: int
    emission: Emission

    def modelled(self, data: Sequences) -> Sequences:
        """The data with steps that are only conditioned on marked as such, not as observed."""

    def potentials(self, params: Params, prepared: Any) -> Chain: ...

    def by_state(self, prepared: Any) -> bool:
        """Whether emission parameters are per state (first axis), apart from shared ones, and rows are
        not deduplicated."""

    @property
    def starts_with_em(self) -> bool:
        """Whether fits start with EM, whose M step is `maximise`."""

    def maximise(self, params: Params, expected: Chain, prepared: Any) -> Params:
        """The M step: the best parameters given the expected count of each potential."""


@runtime_checkable
class FieldModel(Model, Protocol):
    """A model whose latent structure is a Markov random field on a graph."""

    @property
    def states(self) -> tuple[int, ...]:
        """The number of states of each site."""

    @property
    def scopes(self) -> tuple[tuple[int, ...], ...]:
        """The sites of each factor."""

    @property
    def graph(self) -> Graph:
        """The graph in which sites that share a factor are neighbours."""

    @property
    def learns_factors(self) -> bool:
        """Whether the factors depend on the parameters."""

    @property
    def memory_limit(self) -> float:
        """Bytes that one sweep may take."""

    @property
    def order(self) -> tuple[int, ...] | None:
        """In which sites are summed out; None: the cheapest that is found."""

    def potentials(self, params: Params, prepared: Any) -> Field: ...

    @property
    def starts_with_em(self) -> bool:
        """Whether fits start with EM, whose M step is `maximise`."""

    def maximise(self, params: Params, shares: np.ndarray, prepared: Any) -> Params:
        """The M step: the best emission parameters when site v is in class k with weight shares[v, k],
        zero where missing."""

    @property
    def has_tails(self) -> bool:
        """Whether it implements `tails`."""

    def tails(self, params: Params, prepared: Any, sites: np.ndarray) -> Tails:
        """(n, K) how far out the values of the sites (n,) lie, given each class."""


@runtime_checkable
class LabelModel(Model, Protocol):
    """A model of label sequences given features, linear in its parameters."""

    def design(self, features: Any, lengths: np.ndarray) -> tuple[Any, np.ndarray | None]:
        """The design matrix (sites, Q') of `stack`'s weights, and fixed scores (sites, K) or None; of
        features in compressed rows, a sparse one."""

    def stack(self, params: Params) -> Linear:
        """The parameters in the layout of `design`; each one is a single entry."""
