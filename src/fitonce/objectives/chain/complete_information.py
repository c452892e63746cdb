"""Complete-data information: H, if all states had been observed.

Its blocks are those of K separate regressions (or densities): an emission may have them in closed form,
else they come from P directions, set in all states at once. They also precondition H.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from fitonce.core.chunks import unit_rows
from fitonce.core.deferred import jax, jit, jnp
from fitonce.core.numerics import Array, in_float64
from fitonce.core.units import stretch_of
from fitonce.models.emissions.base import Blocks
from fitonce.models.hidden.names import CHAIN
from fitonce.objectives import priors
from fitonce.objectives.base import LinearMap, Program
from fitonce.objectives.chain.posteriors import Chunk, Sample, Split, chain_logs, posterior_of

_DIRECTIONS = 64  # rows of second derivatives at a time


@partial(jit, static_argnums=0)
def _complete(
    program: Program, theta: Array, shares: Array, rows: Any, directions: Array, common: Array
) -> tuple[Array, tuple[Array, Array]]:
    """Second derivatives of sum_rk shares[k, r] log p(row r | k): along `directions` (m, P) of the own
    coordinates of all states, (m, K, P), and along `common` (j, S) of the shared ones, (j, K, P) and
    (j, S)."""
    split = Split(program.space, program.model.n_states)
    emission = program.model.emission

    def value(own: Array, shared: Array) -> Array:
        def one(own: Array, fixed: dict[str, Any], share: Array) -> Array:
            density = emission.log_density(split.one_state(own, shared, fixed), rows)[:, 0]
            return jnp.sum(jnp.where(share > 0, share * density, 0.0))

        return jnp.sum(jax.vmap(one)(own, split.frozen(), shares))

    at = (theta[split.own], theta[split.shared])
    slope = jax.grad(value, (0, 1))

    def along(direction: Array) -> Array:
        tangents = (jnp.broadcast_to(direction, at[0].shape), jnp.zeros_like(at[1]))
        return jax.jvp(slope, at, tangents)[1][0]

    def along_shared(direction: Array) -> tuple[Array, Array]:
        return jax.jvp(slope, at, (jnp.zeros_like(at[0]), direction))[1]

    return jax.vmap(along)(directions), jax.vmap(along_shared)(common)


@partial(jit, static_argnums=0)
def _chain_hessian(program: Program, theta: Array, first: Array, moves: Array, prepared: Any) -> Array:
    """(M, M) second derivatives of sum first log initial + sum moves log transition."""
    logs = chain_logs(program, theta, prepared)

    def value(free: Array) -> Array:
        initial, transition = logs(free)
        return jnp.sum(first * initial) + jnp.sum(moves * transition)

    return jax.hessian(value)(theta[Split(program.space, program.model.n_states).chain])


@dataclass(frozen=True)
class Information:
    """Complete-data information, at the posterior probabilities of the states.

    Attributes:
        own: (K, P, P) the block of each state.
        own_shared: (K, P, S).
        shared: (S, S).
        chain: (M, M).
    """

    own: np.ndarray
    own_shared: np.ndarray
    shared: np.ndarray
    chain: np.ndarray

    def blocks(self, split: Split) -> Iterator[tuple[tuple[slice, slice], np.ndarray]]:
        """Place and values of each part in a matrix with the columns of `engines.score_covariance`."""
        states, width = split.own.shape
        chain = slice(states * width, states * width + len(split.chain))
        shared = slice(chain.stop, chain.stop + len(split.shared))
        for state in range(states):
            own = slice(state * width, (state + 1) * width)
            yield (own, own), self.own[state]
            if len(split.shared):
                yield (own, shared), self.own_shared[state]
                yield (shared, own), self.own_shared[state].T
        yield (chain, chain), self.chain
        if len(split.shared):
            yield (shared, shared), self.shared


def summed(parts: list[Information]) -> Information:
    """Of all parts of the data."""
    names = Information.__annotations__
    return Information(*(sum(getattr(part, name) for part in parts) for name in names))


def information_of(
    sample: Sample,
    theta: np.ndarray,
    chunk: Chunk,
    first: Array,
    moves: Array,
    shares: Array,
    how: str = "information",
) -> Information:
    """Of a chunk, from its expected first states (K,), transitions (K, K) and states of steps (K, n, T).
    `how`: the method of the emission for its closed form, used where its traits declare it."""
    program, at = sample.program, jax.device_put(theta)
    weighted = (shares * chunk.coefficients[:, None]).reshape(len(shares), -1)
    chain = -np.asarray(_chain_hessian(program, at, first, moves, sample.prepared))
    emission = program.model.emission
    if dict(program.model.frozen).keys() <= set(CHAIN) and getattr(emission.traits, how):
        shares_of_rows = np.asarray(weighted).T
        plain = getattr(emission, how)(program.space.to_params(at), shares_of_rows, chunk.rows)
        parts = _stretched(program, plain)
    else:
        parts = _by_directions(program, at, weighted, chunk.rows)
    return Information(parts[0], parts[1], parts[2], chain)


def _stretched(program: Program, parts: Blocks) -> Blocks:
    """By coordinates of the space, from those of plain constraints, in which they are written."""
    stretch, split = stretch_of(program.space), Split(program.space, program.model.n_states)
    own, shared = stretch[split.own], stretch[split.shared]
    return (
        own[:, :, None] * parts[0] * own[:, None],
        own[:, :, None] * parts[1] * shared,
        shared[:, None] * parts[2] * shared,
    )


def _by_directions(
    program: Program, at: Array, weighted: Array, rows: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The part of the emission, from P directions set in all states at once."""
    split = Split(program.space, program.model.n_states)
    states, width = split.own.shape
    own = np.empty((width, states, width))
    common = jnp.eye(len(split.shared))
    directions = list(unit_rows(width, _DIRECTIONS)) or [(np.zeros(0, int), np.zeros((0, 0)))]
    for some, unit in directions:
        found, tied = _complete(program, at, weighted, rows, jax.device_put(unit), common)
        own[some] = np.asarray(found)
    by_shared = -np.moveaxis(np.asarray(tied[0]), 0, -1)
    return -np.moveaxis(own, 1, 0), by_shared, -np.asarray(tied[1])


def complete_information(sample: Sample, theta: np.ndarray) -> Information:
    """The complete-data information of a sample, or the metric that an emission has in its place."""
    at, parts = jax.device_put(theta), []
    how = "metric" if sample.program.model.emission.traits.metric else "information"
    for chunk in sample.chunks():
        weight = jax.device_put(chunk.coefficients)
        first, moves, shares = posterior_of(sample.program, at, weight, *chunk.arrays)
        parts.append(information_of(sample, theta, chunk, first, moves, shares, how))
    return summed(parts)


@in_float64
def preconditioner(sample: Sample, theta: np.ndarray) -> LinearMap:
    """An approximate H^-1 as a function of columns (D, m), from the complete-data information and the
    prior: one block for each state, one for the chain and one for the shared parameters."""
    split, found = sample.split, complete_information(sample, theta)
    places = [*split.own, split.chain, split.shared]
    blocks = [*found.own, found.chain, found.shared]

    def prior_rows(directions: np.ndarray) -> np.ndarray:
        arrays = (jax.device_put(theta), jax.device_put(directions), sample.prepared)
        return np.asarray(priors.products(sample.program, *arrays))

    for some, unit in unit_rows(split.own.shape[1], 4 * _DIRECTIONS):
        directions = np.zeros((len(unit), len(theta)))
        directions[:, split.own] = unit[:, None]  # in all states at once: their priors are independent
        rows = prior_rows(directions)
        for block, own in zip(blocks, split.own, strict=False):
            block[some] -= rows[:, own]
    for number in (-2, -1):
        if len(places[number]):
            rows = prior_rows(np.eye(len(theta))[places[number]])
            blocks[number] = blocks[number] - rows[:, places[number]]
    factors = [definite_factor(block) for block in blocks]

    def inverse(columns: np.ndarray) -> np.ndarray:
        out = np.empty_like(columns)
        for place, factor in zip(places, factors, strict=True):
            out[place] = (
                linalg.cho_solve(factor, columns[place], check_finite=False)
                if len(place)
                else columns[place]
            )
        return out

    return inverse


def definite_factor(block: np.ndarray) -> Any:
    """The Cholesky factor of a symmetric block; where it is indefinite, with absolute eigenvalues."""
    block = 0.5 * (block + block.T)
    try:
        return linalg.cho_factor(block, lower=True)
    except linalg.LinAlgError:
        values, vectors = np.linalg.eigh(block)
        floor = max(1e-8 * np.abs(values).max(), np.finfo(float).tiny)
        definite = (vectors * np.maximum(np.abs(values), floor)) @ vectors.T
        return linalg.cho_factor(definite, lower=True)
