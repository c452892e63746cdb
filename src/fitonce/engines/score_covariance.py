"""Covariances of complete-data scores: the missing information, due to the states being hidden.

The complete-data score of a sequence is C = sum_t c_t. The step score c_t has three parts: the gradient
of the log emission by the parameters of the state at t, the one by emission parameters that states
share, and the gradient of the log probability of the transition into t (for t = 0, of the initial state)
by the chain's parameters. With V_t(j) the mean of all later step scores given z_t = j, from one backward
pass,

    E[C C'] = sum_t E[c_t (V_t(z_t) + c_t / 2)'] + its transpose

so that second derivatives of the log-likelihood by D parameters are matrix products of scores, where D
tangents would take D passes. Two implementations give the same result: on a CPU a loop over steps that
skips states without posterior mass (`sparse`), nearly all of them in a well separated model; elsewhere
a scan over dense arrays (`dense`).

Columns are the K P parameters by state, then the chain's M, then the S shared ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fitonce.core.deferred import jit, jnp, lax
from fitonce.core.numerics import Array

_NOTHING = 1e-18  # posterior mass that is negligible in double precision
_BUFFER = 2**28  # bytes of rows collected for a matrix product


class Pieces(NamedTuple):
    """Posterior probabilities and gradients of n sequences of T steps in K states.

    Attributes:
        nodes: (T, K, n) p(z_t), zero at padding.
        moves: (T - 1, K, K, n) p(z_t+1 | z_t), zero into padding.
        own: (K, n, T, P) gradients of log emissions by the state's own parameters.
        shared: (K, n, T, S) the same by parameters that states share.
        first: (K, M) gradients of the log initial probabilities by the chain's parameters.
        move: (K, K, M) the same of the log transition probabilities.
    """

    nodes: Array
    moves: Array
    own: Array
    shared: Array
    first: Array
    move: Array


class Totals(NamedTuple):
    """`covariance` (D, D) of scores, summed over sequences, and their mean scores `means` (n, D)."""

    covariance: Array
    means: Array


def sparse(pieces: Pieces, coefficients: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Add coefficient times the covariance of each sequence's score to `total` (D, D), as M in M + M',
    which `symmetrised` completes. Returns mean scores (n, D)."""
    parts: Any = Pieces(*(np.asarray(part) for part in pieces))  # type: ignore[arg-type]
    means = np.zeros((parts.nodes.shape[2], len(total)))
    sums = _Sums(parts, total)
    lengths = (parts.nodes.sum(1) > 0.5).sum(0)
    for n in range(len(means)):
        means[n] = _one(parts, n, int(lengths[n]), sums, float(coefficients[n]))
        sums.outer.append((-0.5 * coefficients[n] * means[n], means[n]))
    sums.end()
    return means


class _Sums:
    """Products of scores with the means of later ones. Rows are collected until there are enough for a
    matrix product; terms that are linear over all sequences are multiplied once, at the end."""

    def __init__(self, parts: Any, total: np.ndarray) -> None:
        self.parts, self.total, self.width = parts, total, parts.own.shape[-1]
        size = len(total)
        states, count = parts.first.shape
        self.chain = slice(states * self.width, states * self.width + count)
        self.shared = slice(states * self.width + count, size)
        self.room = max(_BUFFER // (8 * size), 64)
        self.later = np.empty((self.room, size))
        self.place = np.empty((self.room, 3), int)
        self.weight = np.empty(self.room)
        self.pairs = np.empty((self.room, states))
        self.filled = 0
        self.links = np.zeros((states, states, size))  # products of transitions i, j with later scores
        self.moves = np.zeros((states, states))
        self.by_shared = np.zeros((size - self.shared.start, size))
        self.outer: list[tuple[np.ndarray, np.ndarray]] = []
        # Transitions from a state depend on few of the chain's parameters, usually those of its row.
        used = [np.flatnonzero(slopes.any(0)) for slopes in parts.move]
        self.from_state = [
            (self.chain.start + columns, slopes[:, columns])
            for columns, slopes in zip(used, parts.move, strict=True)
        ]

    def add(
        self,
        later: np.ndarray,
        states: np.ndarray,
        n: int,
        t: int,
        weight: np.ndarray,
        pairs: np.ndarray,
    ) -> None:
        """Add the rows of one step for its states (a,): later means plus half of the step's own score
        (a, D), the states' mass `weight` (a,), and the mass `pairs` (K, a) of transitions into them."""
        if self.filled + len(states) > self.room:
            self.flush()
        some = slice(self.filled, self.filled + len(states))
        self.later[some], self.weight[some], self.pairs[some] = later, weight, pairs.T
        self.place[some, 0], self.place[some, 1], self.place[some, 2] = states, n, t
        self.filled += len(states)

    def flush(self) -> None:
        """Multiply the rows collected so far."""
        place, later = self.place[: self.filled], self.later[: self.filled]
        for state in np.unique(place[:, 0]):
            chosen = np.flatnonzero(place[:, 0] == state)
            where = (state, place[chosen, 1], place[chosen, 2])
            own, common, rows = self.parts.own[where], self.parts.shared[where], later[chosen]
            block = slice(state * self.width, (state + 1) * self.width)
            weight, pairs = self.weight[chosen, None], self.pairs[chosen]
            self.total[block] += (own * weight).T @ rows
            self.by_shared += (common * weight).T @ rows
            used = np.flatnonzero(pairs.any(0))
            # Rows hold half of the step's own score, but a transition multiplies all of it.
            links = pairs[:, used].T @ rows
            links[:, block] += 0.5 * pairs[:, used].T @ own
            links[:, self.shared] += 0.5 * pairs[:, used].T @ common
            self.links[used, state] += links
        self.filled = 0
        if self.outer:
            left, right = (np.stack(side) for side in zip(*self.outer, strict=True))
            self.total += left.T @ right
            self.outer = []

    def end(self) -> None:
        """Add all that is still outstanding."""
        self.flush()
        for (rows, slopes), links, counts in zip(self.from_state, self.links, self.moves, strict=True):
            self.total[rows] += slopes.T @ links
            self.total[np.ix_(rows, rows)] += 0.5 * slopes.T @ (slopes * counts[:, None])
        self.total[self.shared] += self.by_shared


def _one(parts: Any, n: int, length: int, sums: _Sums, coefficient: float) -> np.ndarray:
    """The backward pass of sequence `n`. Returns its mean score (D,)."""
    nodes, moves = parts.nodes[:, :, n], parts.moves[..., n]
    own, shared = parts.own[:, n], parts.shared[:, n]
    width, size = sums.width, sums.later.shape[1]
    active = np.flatnonzero(nodes[length - 1] > _NOTHING)
    later = np.zeros((len(active), size))
    for t in range(length - 1, -1, -1):
        half = later.copy()
        for row, state in enumerate(active):
            half[row, state * width : (state + 1) * width] += 0.5 * own[state, t]
            half[row, sums.shared] += 0.5 * shared[state, t]
        pairs = np.zeros((nodes.shape[1], len(active)))
        if t > 0:
            before = np.flatnonzero(nodes[t - 1] > _NOTHING)
            ways = moves[t - 1][np.ix_(before, active)]
            pairs[before] = coefficient * nodes[t - 1, before, None] * ways
            sums.moves[:, active] += pairs
        sums.add(half, active, n, t, coefficient * nodes[t, active], pairs)
        later += 2.0 * (half - later)  # now includes the step's own score
        if t == 0:
            break
        ahead = ways @ later
        for row, state in enumerate(before):
            columns, slopes = sums.from_state[state]
            ahead[row, columns] += ways[row] @ slopes[active]
        active, later = before, ahead
    mass = nodes[0, active]
    first = parts.first[active] * mass[:, None]
    # The initial state has a score like a transition's.
    block = first.T @ later
    block[:, sums.chain] += 0.5 * first.T @ parts.first[active]
    sums.total[sums.chain] += coefficient * block
    mean = mass @ later
    mean[sums.chain] += first.sum(0)
    return mean


def symmetrised(total: np.ndarray) -> np.ndarray:
    """M + M', computed in place, block by block."""
    step = 1024
    for start in range(0, len(total), step):
        rows = slice(start, start + step)
        for other in range(start, len(total), step):
            columns = slice(other, other + step)
            both = total[rows, columns] + total[columns, rows].T
            total[rows, columns], total[columns, rows] = both, both.T
    return total


@jit
def dense(pieces: Pieces, coefficients: Array) -> Totals:
    """The same by a scan, for any device: the symmetric sum of coefficient times covariance."""
    states, count, _, width = pieces.own.shape
    chain, shared = pieces.first.shape[1], pieces.shared.shape[-1]
    size = states * width + chain + shared
    chain_columns = slice(states * width, states * width + chain)
    alike = jnp.eye(states)[:, None, :, None]

    def with_own(later: Array, own: Array, common: Array, share: float) -> Array:
        placed = (alike * own[:, :, None]).reshape(states, count, states * width)
        return later + share * jnp.concatenate([placed, jnp.zeros((states, count, chain)), common], -1)

    def emitted(later, sums, by_shared, node, own, common):  # type: ignore[no-untyped-def]
        """Add the products of a step's emission scores with later ones; also its weights and means."""
        half = with_own(later, own, common, 0.5)
        weight = (node * coefficients)[..., None]  # (K, n, 1)
        sums = sums + jnp.einsum("knp,knd->kpd", weight * own, half)
        by_shared = by_shared + jnp.einsum("kns,knd->sd", weight * common, half)
        return sums, by_shared, weight, with_own(later, own, common, 1.0)

    def step(carry, inputs):  # type: ignore[no-untyped-def]
        later, sums, links, by_shared = carry
        node, before, move, own, common = inputs
        sums, by_shared, _, after = emitted(later, sums, by_shared, node, own, common)
        pairs = before[:, None] * move * coefficients  # (i, j, n)
        links = links + jnp.einsum("ijn,jnd->ijd", pairs, after)
        ahead = jnp.einsum("ijn,jnd->ind", move, after)
        moved = jnp.einsum("ijn,ijm->inm", move, pieces.move)
        return (ahead.at[:, :, chain_columns].add(moved), sums, links, by_shared), None

    own, common = jnp.moveaxis(pieces.own, 2, 0), jnp.moveaxis(pieces.shared, 2, 0)
    inputs = (pieces.nodes[1:], pieces.nodes[:-1], pieces.moves, own[1:], common[1:])
    start = (
        jnp.zeros((states, count, size)),
        jnp.zeros((states, width, size)),
        jnp.zeros((states, states, size)),
        jnp.zeros((shared, size)),
    )
    (later, sums, links, by_shared), _ = lax.scan(step, start, inputs, reverse=True)
    first = (pieces.nodes[0], own[0], common[0])
    sums, by_shared, weight, after = emitted(later, sums, by_shared, *first)
    by_chain = jnp.einsum("ijm,ijd->md", pieces.move, links)
    by_chain += jnp.einsum("km,knd->md", pieces.first, weight * after)
    counts = jnp.sum(pieces.nodes[:-1, :, None] * pieces.moves * coefficients, (0, 3))
    squares = jnp.einsum("ijm,ij,ijl->ml", pieces.move, counts, pieces.move)
    squares += jnp.einsum("km,k,kl->ml", pieces.first, weight[..., 0].sum(1), pieces.first)
    by_chain = by_chain.at[:, chain_columns].add(0.5 * squares)
    means = jnp.einsum("kn,knd->nd", pieces.nodes[0], after)
    means = means.at[:, chain_columns].add(pieces.nodes[0].T @ pieces.first)
    half_total = jnp.concatenate([sums.reshape(states * width, size), by_chain, by_shared])
    half_total -= 0.5 * (means * coefficients[:, None]).T @ means
    return Totals(half_total + half_total.T, means)
