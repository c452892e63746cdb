"""What is known of the hidden states of some sequences: posteriors, moves and scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.by_state import Split, log_density_of
from fitonce.engines import grouped, scores
from fitonce.numerics import Array
from fitonce.objective import Program
from fitonce.potentials import Layout

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


def chunks_of(
    program: Program, grid: np.ndarray, prepared: Any, layout: Layout, devices: int = 1
) -> Iterator[tuple[np.ndarray, np.ndarray, tuple[Array, Any, Array, Array]]]:
    """Sequences in chunks of one size, the last one padded; their numbers, which are real, and weights,
    data, what is observed and lengths."""
    count, steps = grid.shape
    split = Split(program.space, program.model.n_states)
    dense = devices > 1 or jax.default_backend() != "cpu"
    room = _CHUNK_DEVICE if jax.default_backend() != "cpu" else _CHUNK
    need = 8 * program.model.n_states * (split.own.shape[1] + len(split.shared) + 4) * steps
    need += 32 * program.model.n_states * program.space.size if dense else 0
    chunk = int(np.clip(room // need, 1, count))
    chunk = -(-count // -(-count // chunk))
    chunk = -(-chunk // devices) * devices
    lengths = np.full(count, steps) if layout.lengths is None else np.asarray(layout.lengths)
    for start in range(0, count, chunk):
        index = np.arange(start, start + chunk)
        numbers, real = np.minimum(index, count - 1), index < count
        some = prepared.take(jnp.asarray(numbers))
        arrays = (
            jnp.asarray(grid[numbers]),
            some,
            layout.observed[numbers],
            jnp.asarray(lengths[numbers]),
        )
        yield numbers, real, arrays
