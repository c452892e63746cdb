"""What only some models can do, as protocols: whoever needs an ability asks for it, not for a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from fitonce.core.parameters import Params
from fitonce.core.predictive import Tails
from fitonce.objectives.label_records import HeldoutTags, LabelEvidence
from fitonce.results.laplace_error import LaplaceError
from fitonce.results.smoothed import Smoothed


@runtime_checkable
class NumbersStates(Protocol):
    """Hidden states, or classes, whose numbers can change places."""

    @property
    def n_numbered(self) -> int:
        """How many there are."""
        ...

    def with_one_more(self) -> Self:
        """A model with one state more, and nothing said of single ones."""
        ...

    def renumbered(self, order: np.ndarray, axes: dict[str, tuple[int, ...]]) -> Self:
        """The model whose state j is the state order[j] of this one; `axes` of each parameter number
        states."""
        ...


@runtime_checkable
class MovesBetweenStates(NumbersStates, Protocol):
    """Hidden states that follow each other in time."""

    def first_states(self, params: Params, data: Any, sequence: int) -> np.ndarray:
        """(K,) the distribution of the first state of a sequence."""
        ...


@runtime_checkable
class HasZeros(Protocol):
    """Probabilities that may be zero, see `models.hidden.zeros`."""

    @property
    def zeros(self) -> Any: ...


@runtime_checkable
class HasLabels(Protocol):
    """An objective whose labels can be judged; its `data` are `data.labelled.Labelled`."""

    def label_evidence(self, theta: np.ndarray, sites: np.ndarray) -> LabelEvidence:
        """Known labels at `sites` (n,), each given all others."""
        ...

    def sequence_evidence(
        self, theta: np.ndarray, sequences: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """-log p(labels of a sequence | x) (n,), and slopes (n, D)."""
        ...

    def heldout_tags(
        self,
        theta_of: Callable[[int], np.ndarray],
        dropped: Sequence[np.ndarray],
        scored: Sequence[np.ndarray],
    ) -> HeldoutTags:
        """What folds, at `theta_of(fold)`, predict for the tokens, or all tokens of the sequences, that
        they score."""
        ...


@runtime_checkable
class HasContinuousStates(Protocol):
    """An objective whose hidden states are numbers, as in state-space models."""

    @property
    def approximation(self) -> str:
        """What its likelihoods are, such as "Laplace approximation"; empty: they are exact."""
        ...

    @property
    def n_unknown_starts(self) -> int:
        """How many first states of a sequence nothing is known about."""
        ...

    @property
    def unknown_starts(self) -> str:
        """These states in words: with others, likelihoods have other units and cannot be compared."""
        ...

    def has_components(self) -> bool:
        """Whether what is observed is a sum of parts."""
        ...

    def smoothed(self, theta: np.ndarray) -> Smoothed:
        """Means and standard deviations of the states given all data."""
        ...

    def components(self, theta: np.ndarray) -> Smoothed:
        """The same of the parts that add up to what is observed."""
        ...

    def laplace_error(self, theta: np.ndarray, draws: int, seed: int) -> LaplaceError:
        """The approximate log-likelihood beside the same by importance sampling."""
        ...

    def lost_coefficients(
        self, theta: np.ndarray, dropped: Sequence[np.ndarray], whole: bool
    ) -> np.ndarray:
        """(F,) whether what is kept beside sets of sites, or of `whole` sequences, does not determine
        some coefficient."""
        ...


@runtime_checkable
class HasEvenDirections(Protocol):
    """An objective that is even along some directions, whatever the weights, other than coordinates that
    are declared to be."""

    def mirrors(self, theta: np.ndarray) -> list[tuple[str, np.ndarray]]:
        """The name of the parameter that each direction (D,) at theta is about, and the direction."""
        ...

    def canonical(self, theta: np.ndarray) -> np.ndarray:
        """The theta (D,) that a fit reports, of several that are the same model for all data."""
        ...

    def not_canonical(self, thetas: np.ndarray) -> np.ndarray:
        """Which of thetas (F, D) may be another than `canonical` has."""
        ...


@runtime_checkable
class HasTransitions(Protocol):
    """An objective of hidden states that follow each other in time."""

    def transition(self, theta: np.ndarray) -> np.ndarray | None:
        """(K, K) by which they do; None where that is not one matrix."""
        ...


@runtime_checkable
class PredictsTails(Protocol):
    """An objective that knows how far out values lie in their predictive distributions."""

    def has_tails(self) -> bool:
        """Whether the emission knows it."""
        ...

    def heldout_tails(self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray) -> Tails:
        """(F, M) of the sites `scored` (F, M) given the kept data, latent states kept."""
        ...

    def leave_one_out_tails(self, theta: np.ndarray, thetas: np.ndarray, sites: np.ndarray) -> Tails:
        """(n,) the same of `sites` (n,), each without itself at its own of `thetas` (n, D), to first
        order in how far these are from `theta`."""
        ...


def even_directions(objective: Any, theta: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Those of an objective at theta; see `HasEvenDirections`."""
    return objective.mirrors(theta) if isinstance(objective, HasEvenDirections) else []


def canonical(objective: Any, theta: np.ndarray) -> np.ndarray:
    """The theta (D,) that a fit reports; see `HasEvenDirections`."""
    return objective.canonical(theta) if isinstance(objective, HasEvenDirections) else theta
