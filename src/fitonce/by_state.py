"""Which parameters belong to a state, to the chain or to all states; second derivatives of priors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.constraints import Frozen
from fitonce.models.base import ByState
from fitonce.numerics import Array
from fitonce.objective import Program
from fitonce.params import ParameterSpace

_DIRECTIONS = 256  # second derivatives at a time


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
        """(D,) the place in theta of each column of `engines.scores`."""
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


def applies(program: Program, prepared: Any) -> bool:
    """Whether a model's Hessian can be taken this way."""
    model = program.model
    if not (isinstance(model, ByState) and model.by_state and hasattr(prepared, "take")):
        return False
    return prepared.index is None


def log_density_of(program: Program, split: Split) -> Any:
    """log p(row | state), as a function of its own and the shared coordinates."""
    emission = program.model.emission

    def one(own: Array, shared: Array, fixed: dict[str, Array], row: Any) -> Array:
        alone = jax.tree_util.tree_map(lambda a: a[None], row)
        return emission.log_density(split.one_state(own, shared, fixed), alone)[0, 0]

    return one


@partial(jax.jit, static_argnums=0)
def prior_products(program: Program, theta: Array, directions: Array, prepared: Any) -> Array:
    """(m, D): second derivatives of the log-prior times directions (m, D)."""
    slope = jax.grad(lambda t: program.model.log_prior_at(program.space.to_params(t), prepared))
    return jax.vmap(lambda d: jax.jvp(slope, (theta,), (d,))[1])(directions)


def prior_rows(program: Program, theta: Any, prepared: Any) -> Iterator[tuple[slice, Array]]:
    """Rows of the second derivatives of the log-prior, some at a time."""
    size, step = program.space.size, _DIRECTIONS
    for start in range(0, size, step):
        stop = min(start + step, size)
        unit = np.zeros((step, size))
        unit[np.arange(stop - start), np.arange(start, stop)] = 1.0
        rows = prior_products(program, jnp.asarray(theta), jnp.asarray(unit), prepared)
        yield slice(start, stop), rows[: stop - start]
