"""Which parameters belong to a state, to the chain or to all states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

from fitonce.core.constraints import Frozen
from fitonce.core.numerics import Array
from fitonce.core.parameters import ParameterSpace
from fitonce.objectives.base import Program


@dataclass(frozen=True)
class Split:
    """Which coordinates of theta belong to a state, to the chain, or to all states.

    Attributes:
        own: (K, P) places of each state's.
        chain: (M,) of initial and transition probabilities.
        shared: (S,) of the others.
        leaves: name, how many coordinates each state has of it, and its constraint for one state.
    """

    space: ParameterSpace
    n_states: int

    @cached_property
    def _leaves(self) -> list[tuple[str, Any, np.ndarray]]:
        return [(name, leaf, places) for name, leaf, places in self.space.leaves()]

    def _is_own(self, name: str, leaf: Any) -> bool:
        return name not in ("initial", "transition") and leaf.shape[:1] == (self.n_states,)

    @cached_property
    def own(self) -> np.ndarray:
        parts = [
            places.reshape(self.n_states, -1)
            for name, leaf, places in self._leaves
            if self._is_own(name, leaf)
        ]
        return np.concatenate([np.zeros((self.n_states, 0), int), *parts], 1)

    @cached_property
    def chain(self) -> np.ndarray:
        parts = [places for name, _, places in self._leaves if name in ("initial", "transition")]
        return np.concatenate([np.zeros(0, int), *parts])

    @cached_property
    def shared(self) -> np.ndarray:
        return np.setdiff1d(np.arange(self.space.size), np.append(self.own.ravel(), self.chain))

    @cached_property
    def order(self) -> np.ndarray:
        """(D,) the place in theta of each column of `engines.score_covariance`."""
        return np.concatenate([self.own.ravel(), self.chain, self.shared])

    def one_state(self, own: Array, shared: Array, fixed: dict[str, Array]) -> dict[str, Array]:
        """Emission parameters of a model with one state, from its own (P,) and the shared (S,)
        coordinates; `fixed` are frozen values of this state."""
        params, start = dict(fixed), 0
        for name, leaf, places in self._leaves:
            if name in ("initial", "transition") or name in fixed:
                continue
            if self._is_own(name, leaf):
                count = len(places) // self.n_states
                alone = replace(leaf, shape=(1, *leaf.shape[1:]))
                params[name] = alone.to_value(own[start : start + count])
                start += count
            else:
                params[name] = leaf.to_value(shared[np.searchsorted(self.shared, places)])
        return params

    def frozen(self) -> dict[str, np.ndarray]:
        """Values of frozen emission parameters, with the state first (repeated where it is shared)."""
        found = {}
        for name, leaf, _ in self._leaves:
            if isinstance(leaf, Frozen) and name not in ("initial", "transition"):
                value = np.asarray(leaf.value, float)
                by_state = leaf.shape[:1] == (self.n_states,)
                found[name] = (
                    value[:, None] if by_state else np.broadcast_to(value, (self.n_states, *value.shape))
                )
        return found


def log_density_of(program: Program, split: Split) -> Any:
    """log p(row | state), as a function of its own and the shared coordinates."""
    emission = program.model.emission

    def one(own: Array, shared: Array, fixed: dict[str, Array], row: Any) -> Array:
        alone = jax.tree_util.tree_map(lambda a: a[None], row)
        return emission.log_density(split.one_state(own, shared, fixed), alone)[0, 0]

    return one
