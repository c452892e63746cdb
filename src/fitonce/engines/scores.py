"""Covariances of the scores of chains: the information that not seeing the states takes away.

The score of a sequence, all states seen, is C = sum_t c_t. The step score c_t has three parts: the
slope of the log emission by the parameters of the state at t (its own), by emission parameters that
states share, and of the log of the move into t (for t = 0, of the first state) by the chain's. With
V_t(j) the mean of all later step scores given z_t = j, from one backward pass,

    E[C C'] = sum_t E[c_t (V_t(z_t) + c_t / 2)'] + its transpose

so that second derivatives of the log-likelihood by D parameters are matrix products of scores,
where pushing D tangents through the chains would take D passes. Two ways with the same answer: on a
CPU a loop over steps that skips states without posterior mass (`sparse`), which is nearly all of them
in a well separated model; elsewhere a scan over dense arrays (`dense`).

Columns are ordered by state, K P of them, then the chain's M, then the S that are shared.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fitonce.numerics import Array

# A state with less posterior mass than this changes nothing that doubles can hold.
_NOTHING = 1e-18
_BUFFER = 2**28  # bytes of rows that wait for their matrix product


class Pieces(NamedTuple):
    """What is known of n sequences of T steps in K states.

    Attributes:
        nodes: (T, K, n) p(z_t), zero at padding.
        moves: (T - 1, K, K, n) p(z_t+1 | z_t), zero into padding.
        own: (K, n, T, P) slopes of log emissions by the state's own parameters.
        shared: (K, n, T, S) by those that states share.
        first: (K, M) slopes of the log initial probabilities by the chain's parameters.
        move: (K, K, M) of the log transition probabilities.
    """

    nodes: Array
    moves: Array
    own: Array
    shared: Array
    first: Array
    move: Array


class Totals(NamedTuple):
    """Sums over sequences: `covariance` (D, D) of scores, and the mean scores `means` (n, D) of each."""

    covariance: Array
    means: Array


def sparse(pieces: Pieces, coefficients: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Add coefficient times the covariance of each sequence's score to `total` (D, D), of which only
    M of M + M' is filled; `symmetrised` ends it. Returns mean scores (n, D)."""
    parts = [np.asarray(part) for part in pieces]
    nodes, moves, own, shared = parts[:4]
    size = total.shape[0]
    means = np.zeros((nodes.shape[2], size))
    rows = _Rows(own, size, total)
    lengths = (nodes.sum(1) > 0.5).sum(0)
    for n in range(nodes.shape[2]):
        tied = _Tied(parts[4], parts[5], size, own.shape[-1])
        means[n] = _one(nodes[:, :, n], moves[..., n], own[:, n], shared[:, n], int(lengths[n]),
                        rows, tied, n, float(coefficients[n]))  # fmt: skip
        tied.add(total, float(coefficients[n]))
        total_mean = -0.5 * coefficients[n] * means[n]
        rows.outer.append((total_mean, means[n]))
    rows.flush()
    return means


class _Tied:
    """Products of the chain's and the shared scores with the means of later ones, of one sequence."""

    def __init__(self, first: np.ndarray, move: np.ndarray, size: int, width: int) -> None:
        self.first, self.move = first, move
        states, count = first.shape
        self.states, self.chain = states, slice(states * width, states * width + count)
        self.shared = slice(states * width + count, size)
        self.links = np.zeros((states, states, size))
        self.by_shared = np.zeros((size - self.shared.start, size))
        self.counts = np.zeros((states, states))

    def add(self, total: np.ndarray, coefficient: float) -> None:
        flat = self.move.reshape(self.states**2, -1)
        links = self.links.reshape(self.states**2, -1)
        used = np.flatnonzero(self.counts.ravel() > 0)
        total[self.chain] += coefficient * flat[used].T @ links[used]
        weighted = flat[used] * self.counts.ravel()[used, None]
        total[self.chain, self.chain] += 0.5 * coefficient * flat[used].T @ weighted
        total[self.shared] += coefficient * self.by_shared


class _Rows:
    """Rows of later means that wait until they are many enough for a matrix product."""

    def __init__(self, own: np.ndarray, size: int, total: np.ndarray) -> None:
        self.own, self.total, self.width = own, total, own.shape[-1]
        self.room = max(_BUFFER // (8 * size), 64)
        self.later = np.empty((self.room, size))
        self.place = np.empty((self.room, 3), int)
        self.weight = np.empty(self.room)
        self.count = 0
        self.outer: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, later: np.ndarray, states: np.ndarray, n: int, t: int, weight: np.ndarray) -> None:
        if self.count + len(states) > self.room:
            self.flush()
        some = slice(self.count, self.count + len(states))
        self.later[some], self.weight[some] = later, weight
        self.place[some, 0], self.place[some, 1], self.place[some, 2] = states, n, t
        self.count += len(states)

    def flush(self) -> None:
        place, later = self.place[: self.count], self.later[: self.count]
        for state in np.unique(place[:, 0]):
            chosen = np.flatnonzero(place[:, 0] == state)
            scores = self.own[state, place[chosen, 1], place[chosen, 2]] * self.weight[chosen, None]
            block = slice(state * self.width, (state + 1) * self.width)
            self.total[block] += scores.T @ later[chosen]
        self.count = 0
        if self.outer:
            left, right = (np.stack(side) for side in zip(*self.outer, strict=True))
            self.total += left.T @ right
            self.outer = []


def _one(
    nodes: np.ndarray,
    moves: np.ndarray,
    own: np.ndarray,
    shared: np.ndarray,
    length: int,
    rows: _Rows,
    tied: _Tied,
    n: int,
    coefficient: float,
) -> np.ndarray:
    """The backward pass of one sequence: nodes (T, K), moves (T - 1, K, K), own (K, T, P), shared
    (K, T, S). Returns its mean score (D,)."""
    width, size = own.shape[-1], tied.links.shape[-1]
    active = np.flatnonzero(nodes[length - 1] > _NOTHING)
    later = np.zeros((len(active), size))
    for t in range(length - 1, -1, -1):
        mass = nodes[t, active]
        half = later.copy()
        for row, state in enumerate(active):
            half[row, state * width : (state + 1) * width] += 0.5 * own[state, t]
            half[row, tied.shared] += 0.5 * shared[state, t]
        rows.add(half, active, n, t, coefficient * mass)
        if shared.shape[-1]:
            tied.by_shared += (shared[active, t] * mass[:, None]).T @ half
        later += 2.0 * (half - later)  # with the step's own score
        if t == 0:
            break
        before = np.flatnonzero(nodes[t - 1] > _NOTHING)
        ways = moves[t - 1][np.ix_(before, active)]
        pairs = nodes[t - 1, before, None] * ways
        grid = np.ix_(before, active)
        tied.counts[grid] += pairs
        tied.links[grid] += pairs[:, :, None] * later[None]
        ahead = ways @ later
        ahead[:, tied.chain] += np.einsum("ij,ijm->im", ways, tied.move[grid])
        active, later = before, ahead
    mass = nodes[0, active]
    first = tied.first[active] * mass[:, None]
    # The first state has a score as a move has.
    block = first.T @ later
    block[:, tied.chain] += 0.5 * first.T @ tied.first[active]
    rows.total[tied.chain] += coefficient * block
    mean = mass @ later
    mean[tied.chain] += first.sum(0)
    return mean


def symmetrised(total: np.ndarray) -> np.ndarray:
    """M + M', in place, in blocks."""
    step = 1024
    for start in range(0, len(total), step):
        rows = slice(start, start + step)
        for other in range(start, len(total), step):
            columns = slice(other, other + step)
            both = total[rows, columns] + total[columns, rows].T
            total[rows, columns], total[columns, rows] = both, both.T
    return total


@jax.jit
def dense(pieces: Pieces, coefficients: Array) -> Totals:
    """The same by a scan: the sum (D, D) of coefficient times the covariances, whole."""
    states, count, _, width = pieces.own.shape
    chain, shared = pieces.first.shape[1], pieces.shared.shape[-1]
    size = states * width + chain + shared
    alike = jnp.eye(states)[:, None, :, None]

    def with_own(later: Array, own: Array, common: Array, share: float) -> Array:
        placed = (alike * own[:, :, None]).reshape(states, count, states * width)
        return later + share * jnp.concatenate([placed, jnp.zeros((states, count, chain)), common], -1)

    def step(carry, inputs):  # type: ignore[no-untyped-def]
        later, sums, links, by_shared = carry
        node, before, move, own, common = inputs
        half = with_own(later, own, common, 0.5)
        weight = (node * coefficients)[..., None]  # (K, n, 1)
        sums = sums + jnp.einsum("knp,knd->kpd", weight * own, half)
        by_shared = by_shared + jnp.einsum("kns,knd->sd", weight * common, half)
        after = with_own(later, own, common, 1.0)
        pairs = before[:, None] * move * coefficients  # (i, j, n)
        links = links + jnp.einsum("ijn,jnd->ijd", pairs, after)
        ahead = jnp.einsum("ijn,jnd->ind", move, after)
        moved = jnp.einsum("ijn,ijm->inm", move, pieces.move)
        ahead = ahead.at[:, :, states * width : states * width + chain].add(moved)
        return (ahead, sums, links, by_shared), None

    inputs = (
        pieces.nodes[1:],
        pieces.nodes[:-1],
        pieces.moves,
        jnp.moveaxis(pieces.own, 2, 0)[1:],
        jnp.moveaxis(pieces.shared, 2, 0)[1:],
    )
    start = (
        jnp.zeros((states, count, size)),
        jnp.zeros((states, width, size)),
        jnp.zeros((states, states, size)),
        jnp.zeros((shared, size)),
    )
    (later, sums, links, by_shared), _ = lax.scan(step, start, inputs, reverse=True)
    own, common = pieces.own[:, :, 0], pieces.shared[:, :, 0]
    half = with_own(later, own, common, 0.5)
    weight = (pieces.nodes[0] * coefficients)[..., None]
    sums += jnp.einsum("knp,knd->kpd", weight * own, half)
    by_shared += jnp.einsum("kns,knd->sd", weight * common, half)
    after = with_own(later, own, common, 1.0)
    by_chain = jnp.einsum("ijm,ijd->md", pieces.move, links)
    by_chain += jnp.einsum("km,knd->md", pieces.first, weight * after)
    counts = jnp.sum(pieces.nodes[:-1, :, None] * pieces.moves * coefficients, (0, 3))
    squares = jnp.einsum("ijm,ij,ijl->ml", pieces.move, counts, pieces.move)
    squares += jnp.einsum("km,k,kl->ml", pieces.first, weight[..., 0].sum(1), pieces.first)
    at = states * width
    by_chain = by_chain.at[:, at : at + chain].add(0.5 * squares)
    means = jnp.einsum("kn,knd->nd", pieces.nodes[0], after)
    means = means.at[:, at : at + chain].add(pieces.nodes[0].T @ pieces.first)
    half_total = jnp.concatenate([sums.reshape(at, size), by_chain, by_shared])
    half_total -= 0.5 * (means * coefficients[:, None]).T @ means
    return Totals(half_total + half_total.T, means)
