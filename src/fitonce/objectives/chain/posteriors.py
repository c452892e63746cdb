"""What is known of the hidden states of some sequences: posteriors, moves and scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.core.chunks import chunks
from fitonce.core.constraints import Frozen
from fitonce.core.numerics import Array
from fitonce.core.parameters import ParameterSpace
from fitonce.engines import chain_groups as grouped
from fitonce.engines import score_covariance as scores
from fitonce.objectives.base import Program
from fitonce.objectives.chain.layout import Layout


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


_CHUNK = 2**28  # bytes of scores at a time
_CHUNK_DEVICE = 2**34


@partial(jax.jit, static_argnums=0)
def pieces_of(
    program: Program, theta: Array, weights: Array, prepared: Any, observed: Array, lengths: Array
) -> tuple[scores.Pieces, Array]:
    """Scores of sequences whose emissions have weights (n, T), and p(z_t) times these (K, n, T)."""
    split = Split(program.space, program.model.n_states)
    prepared = replace(prepared, grid=observed.shape)  # of a shard: fewer than the whole has
    chain = program.model.potentials(program.space.to_params(theta), prepared)
    weights = jnp.where(observed, weights, 0.0)
    unary = weights[..., None] * jnp.where(observed[..., None], chain.emission, 0.0)
    unary = unary.at[:, 0].add(chain.initial)
    nodes, moves = grouped.conditionals(unary, chain.transition, lengths)
    slope = jax.grad(log_density_of(program, split), (0, 1))
    by_row = jax.vmap(slope, (None, None, None, 0))
    own, shared = jax.vmap(by_row, (0, None, 0, None))(
        theta[split.own], theta[split.shared], split.frozen(), prepared.rows
    )
    grid = (program.model.n_states, *observed.shape)
    keep = weights[None, ..., None]
    own, shared = (jnp.where(keep != 0, keep * s.reshape(*grid, -1), 0.0) for s in (own, shared))

    def logs(free: Array) -> tuple[Array, Array]:
        found = program.model.potentials(
            program.space.to_params(theta.at[split.chain].set(free)), prepared.take(jnp.zeros(1, int))
        )
        possible = found.transition > -jnp.inf
        return found.initial, jnp.where(possible, found.transition, 0.0)

    first, move = jax.jacfwd(logs)(theta[split.chain])
    pieces = scores.Pieces(nodes, moves, own, shared, first, move)
    return pieces, jnp.moveaxis(nodes, 0, 2) * weights


@partial(jax.jit, static_argnums=0)
def posterior_of(
    program: Program, theta: Array, coefficients: Array, *arrays: Any
) -> tuple[Array, Array, Array]:
    """Expected first states and moves, and p(z_t) times weights; XLA drops the scores, not asked for."""
    pieces, shares = pieces_of(program, theta, *arrays)
    return (*counts(pieces, coefficients), shares)


@jax.jit
def counts(pieces: scores.Pieces, coefficients: Array) -> tuple[Array, Array]:
    """Expected first states (K,) and moves (K, K)."""
    moves = jnp.sum(pieces.nodes[:-1, :, None] * pieces.moves * coefficients, (0, 3))
    return pieces.nodes[0] @ coefficients, moves


class Chunk(NamedTuple):
    """Some of the sequences, padded to the size of other chunks by repeating the last one.

    Attributes:
        numbers: (n,) of the sequences.
        real: (n,) which are not padding.
        coefficients: (n,) their weights, zero at padding.
        arrays: weights of the emissions (n, T), the data, what is observed (n, T) and lengths (n,).
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
        program: of a model whose states have parameters of their own.
        grid: (N, T) weights of the emissions.
        coefficients: (N,) weights of the sequences.
        prepared, layout: the data as the model and the engine read it.
    """

    program: Program
    grid: np.ndarray
    coefficients: np.ndarray
    prepared: Any
    layout: Layout

    @property
    def split(self) -> Split:
        return Split(self.program.space, self.program.model.n_states)

    @property
    def lengths(self) -> np.ndarray:
        count, steps = self.grid.shape
        return np.full(count, steps) if self.layout.lengths is None else np.asarray(self.layout.lengths)

    def some(self, group: np.ndarray) -> Sample:
        """Of some sequences, in arrays of the host: that is what travels."""
        taken = (self.prepared.take(jnp.asarray(group)), self.layout.take(jnp.asarray(group)))
        local = jax.tree_util.tree_map(np.asarray, taken)
        return Sample(self.program, self.grid[group], self.coefficients[group], *local)

    def chunks(self, devices: int = 1) -> Iterator[Chunk]:
        """All sequences, as many at a time as memory allows."""
        for numbers, real in chunks(len(self.grid), self._chunk(devices)):
            arrays = (
                jnp.asarray(self.grid[numbers]),
                self.prepared.take(jnp.asarray(numbers)),
                jnp.asarray(self.layout.observed)[numbers],
                jnp.asarray(self.lengths[numbers]),
            )
            yield Chunk(numbers, real, self.coefficients[numbers] * real, arrays)

    def _chunk(self, devices: int) -> int:
        """How many sequences there are in a chunk: as many for each device, and in each chunk."""
        (count, steps), states = self.grid.shape, self.program.model.n_states
        host = jax.default_backend() == "cpu"
        need = 8 * states * (self.split.own.shape[1] + len(self.split.shared) + 4) * steps
        if devices > 1 or not host:  # dense arrays of later means
            need += 32 * states * self.program.space.size
        most = int(np.clip((_CHUNK if host else _CHUNK_DEVICE) // need, 1, count))
        even = -(-count // -(-count // most))
        return -(-even // devices) * devices
