"""Posterior probabilities of hidden states, expected transitions and complete-data scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.chunks import chunks
from fitonce.core.constraints import Frozen
from fitonce.core.deferred import jax, jit, jnp
from fitonce.core.numerics import Array
from fitonce.core.parameters import ParameterSpace
from fitonce.engines import chain_groups as grouped
from fitonce.engines import score_covariance as scores
from fitonce.models.hidden.names import CHAIN
from fitonce.objectives.base import Program
from fitonce.objectives.chain.layout import ChainLayout

_CHUNK, _CHUNK_DEVICE = 2**28, 2**34  # bytes of scores at a time


@dataclass(frozen=True)
class Split:
    """Which coordinates of theta belong to single states, to the chain, or to all states."""

    space: ParameterSpace
    n_states: int

    def _is_own(self, name: str, leaf: Any) -> bool:
        return name not in CHAIN and leaf.shape[:1] == (self.n_states,)

    @cached_property
    def own(self) -> np.ndarray:
        """(K, P) places of each state's emission parameters."""
        parts = [
            places.reshape(self.n_states, -1)
            for name, leaf, places in self.space.leaves()
            if self._is_own(name, leaf)
        ]
        return np.concatenate([np.zeros((self.n_states, 0), int), *parts], 1)

    @cached_property
    def chain(self) -> np.ndarray:
        """(M,) places of initial and transition probabilities."""
        parts = [places for name, _, places in self.space.leaves() if name in CHAIN]
        return np.concatenate([np.zeros(0, int), *parts])

    @cached_property
    def shared(self) -> np.ndarray:
        """(S,) places of emission parameters that states share."""
        return np.setdiff1d(np.arange(self.space.size), np.append(self.own.ravel(), self.chain))

    @cached_property
    def order(self) -> np.ndarray:
        """(D,) the place in theta of each column of `engines.score_covariance`."""
        return np.concatenate([self.own.ravel(), self.chain, self.shared])

    def one_state(self, own: Array, shared: Array, fixed: dict[str, Array]) -> dict[str, Array]:
        """Emission parameters of a model with one state, from its own (P,) and the shared (S,)
        coordinates; `fixed` are frozen values of this state."""
        params, start = dict(fixed), 0
        for name, leaf, places in self.space.leaves():
            if name in CHAIN or name in fixed:
                continue
            if self._is_own(name, leaf):
                count = len(places) // self.n_states
                alone: Any = replace(leaf, shape=(1, *leaf.shape[1:]))  # type: ignore[type-var]
                params[name] = alone.to_value(own[start : start + count])
                start += count
            else:
                params[name] = leaf.to_value(shared[np.searchsorted(self.shared, places)])
        return params

    def frozen(self) -> dict[str, np.ndarray]:
        """Values of frozen emission parameters, with the state first; shared ones are repeated."""
        found = {}
        for name, leaf, _ in self.space.leaves():
            if isinstance(leaf, Frozen) and name not in CHAIN:
                value = np.asarray(leaf.value, float)
                repeated = np.broadcast_to(value, (self.n_states, *value.shape))
                found[name] = value[:, None] if self._is_own(name, leaf) else repeated
        return found


def chain_logs(program: Program, theta: Array, prepared: Any) -> Callable[[Array], tuple[Array, Array]]:
    """Log initial (K,) and transition (K, K) probabilities as a function of the coordinates (M,) of the
    chain, zero where impossible."""
    places = Split(program.space, program.model.n_states).chain

    def logs(free: Array) -> tuple[Array, Array]:
        params = program.space.to_params(theta.at[places].set(free))
        found = program.model.potentials(params, prepared.take(jnp.zeros(1, int)))
        first, move = (jnp.where(p > -jnp.inf, p, 0.0) for p in (found.initial, found.transition))
        return first, move

    return logs


@partial(jit, static_argnums=0)
def pieces_of(
    program: Program, theta: Array, weights: Array, prepared: Any, observed: Array, lengths: Array
) -> tuple[scores.Pieces, Array]:
    """Scores of sequences whose emissions have weights (n, T), and p(z_t) times these (K, n, T)."""
    split, emission = Split(program.space, program.model.n_states), program.model.emission
    prepared = replace(prepared, grid=observed.shape)  # a shard has fewer sequences than the whole
    chain = program.model.potentials(program.space.to_params(theta), prepared)
    weights = jnp.where(observed, weights, 0.0)
    unary = weights[..., None] * jnp.where(observed[..., None], chain.emission, 0.0)
    unary = unary.at[:, 0].add(chain.initial)
    nodes, moves = grouped.conditionals(unary, chain.transition, lengths)

    def log_density(own: Array, shared: Array, fixed: dict[str, Array], row: Any) -> Array:
        alone = jax.tree_util.tree_map(lambda a: a[None], row)
        return emission.log_density(split.one_state(own, shared, fixed), alone)[0, 0]

    by_row = jax.vmap(jax.grad(log_density, (0, 1)), (None, None, None, 0))
    own, shared = jax.vmap(by_row, (0, None, 0, None))(
        theta[split.own], theta[split.shared], split.frozen(), prepared.rows
    )
    grid = (program.model.n_states, *observed.shape)
    keep = weights[None, ..., None]
    own, shared = (jnp.where(keep != 0, keep * s.reshape(*grid, -1), 0.0) for s in (own, shared))
    first, move = jax.jacfwd(chain_logs(program, theta, prepared))(theta[split.chain])
    pieces = scores.Pieces(nodes, moves, own, shared, first, move)
    return pieces, jnp.moveaxis(nodes, 0, 2) * weights


@partial(jit, static_argnums=0)
def posterior_of(
    program: Program, theta: Array, coefficients: Array, *arrays: Any
) -> tuple[Array, Array, Array]:
    """Expected first states and transitions, and p(z_t) times weights. XLA does not compute the scores,
    which are not used."""
    pieces, shares = pieces_of(program, theta, *arrays)
    return (*counts(pieces, coefficients), shares)


@jit
def counts(pieces: scores.Pieces, coefficients: Array) -> tuple[Array, Array]:
    """Expected first states (K,) and transitions (K, K)."""
    moves = jnp.sum(pieces.nodes[:-1, :, None] * pieces.moves * coefficients, (0, 3))
    return pieces.nodes[0] @ coefficients, moves


class Chunk(NamedTuple):
    """Some of the sequences, padded to the size of the other chunks by repeating the last one.

    Attributes:
        numbers: (n,) of the sequences.
        real: (n,) which are not padding.
        coefficients: (n,) their weights, zero at padding.
        arrays: weights of the emissions (n, T), the data, `observed` (n, T) and lengths (n,).
    """

    numbers: np.ndarray
    real: np.ndarray
    coefficients: np.ndarray
    arrays: tuple[Array, Any, Array, Array]

    @property
    def rows(self) -> Any:
        return self.arrays[1].rows


@dataclass(frozen=True, eq=False)
class Sample:
    """Weighted sequences, and the program that reads them.

    Attributes:
        program: of a model whose states have their own parameters.
        grid: (N, T) weights of the emissions.
        coefficients: (N,) weights of the sequences.
        prepared, layout: the data as the model and the engine read them.
    """

    program: Program
    grid: np.ndarray
    coefficients: np.ndarray
    prepared: Any
    layout: ChainLayout

    @property
    def split(self) -> Split:
        return Split(self.program.space, self.program.model.n_states)

    @property
    def lengths(self) -> np.ndarray:
        count, steps = self.grid.shape
        return np.full(count, steps) if self.layout.lengths is None else np.asarray(self.layout.lengths)

    def some(self, group: np.ndarray) -> Sample:
        """Some of the sequences, as NumPy arrays that can be sent to a worker."""
        taken = (self.prepared.take(jax.device_put(group)), self.layout.take(jax.device_put(group)))
        local = jax.tree_util.tree_map(np.asarray, taken)
        return Sample(self.program, self.grid[group], self.coefficients[group], *local)

    def chunks(self, devices: int = 1) -> Iterator[Chunk]:
        """All sequences, as many at a time as memory allows."""
        for numbers, real in chunks(len(self.grid), self._chunk(devices)):
            arrays = (
                jax.device_put(self.grid[numbers]),
                self.prepared.take(jax.device_put(numbers)),
                jax.device_put(self.layout.observed)[numbers],
                jax.device_put(self.lengths[numbers]),
            )
            yield Chunk(numbers, real, self.coefficients[numbers] * real, arrays)

    def _chunk(self, devices: int) -> int:
        """Sequences in a chunk: about the same number in each, a multiple of the devices."""
        (count, steps), states = self.grid.shape, self.program.model.n_states
        host = jax.default_backend() == "cpu"
        need = 8 * states * (self.split.own.shape[1] + len(self.split.shared) + 4) * steps
        if devices > 1 or not host:  # dense arrays of mean later scores
            need += 32 * states * self.program.space.size
        most = int(np.clip((_CHUNK if host else _CHUNK_DEVICE) // need, 1, count))
        even = -(-count // -(-count // most))
        return -(-even // devices) * devices
