"""Log-partition function, marginals and their tangents for discrete factor graphs, on a junction tree.

    log Z = log sum_z exp( sum_v unary[v, z_v] + sum_f table_f[z_f] )

A plan is run table by table in NumPy: nothing is compiled, so that a large graph costs no more to set
up than a small one. The batch (folds) is the last axis of every array.

The upward pass keeps the conditional probabilities of each clique's own nodes given its separator; the
downward pass multiplies them by the separator's probability. Tangents need no exponentials:
d log sum exp is an average under the conditionals.

The upward pass multiplies numbers scaled to at most 1. Where a product of factors and messages is so
small that digits may have been lost, the clique is recomputed in log space, and its message stays there
as long as needed. A node's own potential is multiplied in last, where the node is summed out: data may
exclude a class by thousands of nats, and what underflows is then negligible in the sum.

    unary    (V, K, B)    entries beyond a node's number of states are not read
    factors  (P, B)       tables of all factors, flattened and concatenated in the plan's order
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.engines.clique_tables import (
    finite,
    log_of,
    log_sum,
    project,
    read_off,
    rows_of,
    spread,
    table_of,
)
from fitonce.engines.elimination import JunctionTree


def cavities(
    tree: JunctionTree,
    unary: np.ndarray,
    factors: np.ndarray,
    d_unary: np.ndarray,
    d_factors: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """For every node, the log sum over all other nodes of all potentials but its own unary one.

    Both passes are in log space, so that states that a node's own data all but exclude keep full
    precision.

    Args:
        tree, unary, factors: as for `collect`.
        d_unary, d_factors: (V, K, D, B) and (P, D, B), directions; D may be 0.

    Returns: (V, K, B) up to a constant for each node, and derivatives (V, K, D, B).
    """
    up = collect(tree, unary, factors, in_logs=True)
    d_messages, _ = message_tangents(tree, up, d_unary, d_factors)
    values, slopes = np.full(unary.shape, -np.inf), np.zeros(d_unary.shape)
    tops: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def reduced(number: int, gone: tuple[int, ...], **but: int) -> tuple[np.ndarray, np.ndarray]:
        """log sum exp over axes of a clique, its parent's message included, and the derivatives."""
        table = table_of(tree, number, unary, factors, up.logs, **but)
        d_table = table_of(tree, number, d_unary, d_factors, d_messages, **but)
        if number in tops:
            table, d_table = table + tops[number][0], d_table + tops[number][1]
        value, share = log_sum(table, gone)
        return value.squeeze(gone), (share[..., None, :] * d_table).sum(gone)

    for number, clique in enumerate(tree.cliques):
        for child, place in clique.children:
            value, slope = reduced(number, place.gone, without_child=child)
            shape = (*place.states, *(1 for _ in tree.cliques[child].nodes))
            tops[child] = (
                value.reshape(*shape, *value.shape[-1:]),
                slope.reshape(*shape, *slope.shape[-2:]),
            )
        for node, place in clique.nodes:
            states = slice(tree.states[node])
            values[node, states], slopes[node, states] = reduced(number, place.gone, without_node=node)
        tops.pop(number, None)
    return values, slopes


_SAFE = 1e-280  # products of factors and messages: what the data then push below 1e-308 is negligible
_RANGE = 600.0  # nats between log messages that do not underflow when exponentiated


@dataclass(frozen=True, eq=False)
class Collected:
    """The result of the upward pass.

    Attributes:
        log_partition: (B,), -inf where nothing is possible.
        conditionals: for each clique (S, R, B), p(own nodes | separator); zero where impossible.
        logs: for each clique (S, B), the log of its message up to a constant; None where not needed.
    """

    log_partition: np.ndarray
    conditionals: list[np.ndarray]
    logs: list[np.ndarray | None]


def collect(
    tree: JunctionTree, unary: np.ndarray, factors: np.ndarray, in_logs: bool = False
) -> Collected:
    """The upward pass, from the leaves to the roots; with `in_logs`, in log space throughout."""
    unary, factors, total = _centred(tree, unary, factors)
    count = len(tree.cliques)
    scaled = None if in_logs else (np.exp(unary), np.exp(factors))
    conditionals: list[Any] = [None] * count
    logs: list[Any] = [None] * count
    messages: list[Any] = [None] * count
    for number in reversed(range(count)):
        clique = tree.cliques[number]
        done = None
        if scaled is not None and all(messages[child] is not None for child, _ in clique.children):
            done = _by_products(tree, number, *scaled, messages)
        if done is not None:
            conditionals[number], messages[number], shift = done
        else:
            for child, _ in clique.children:
                if logs[child] is None:
                    logs[child] = log_of(messages[child])
            table = rows_of(clique, table_of(tree, number, unary, factors, logs))
            message, conditionals[number] = log_sum(table, 1)
            shift = message[:, 0].max(0)
            logs[number] = message[:, 0] - finite(shift)
            lowest = np.where(logs[number] == -np.inf, 0.0, logs[number]).min()
            messages[number] = np.exp(logs[number]) if lowest > -_RANGE else None
        total = total + shift
    return Collected(total, conditionals, logs)


def _centred(
    tree: JunctionTree, unary: np.ndarray, factors: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Potentials minus the maximum of each table, and the sum of these maxima (B,)."""
    if min(tree.states) < unary.shape[1]:
        real = np.arange(unary.shape[1]) < np.array(tree.states)[:, None]
        unary = np.where(real[..., None], unary, -np.inf)
    peak = finite(unary.max(1))
    total = peak.sum(0)
    unary = unary - peak[:, None]
    if len(tree.scopes):
        starts = np.array(tree.starts)
        peaks = finite(np.maximum.reduceat(factors, starts[:-1], axis=0))
        total = total + peaks.sum(0)
        factors = factors - np.repeat(peaks, np.diff(starts), axis=0)
    return unary, factors, total


def _by_products(
    tree: JunctionTree, number: int, unary: np.ndarray, factors: np.ndarray, messages: Sequence[Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Conditionals, message scaled to at most 1 and log of its scale; None where digits may be lost."""
    clique = tree.cliques[number]
    table = table_of(tree, number, None, factors, messages, np.multiply)
    if not table.min() > _SAFE:
        return None
    data = [spread(unary[node, : tree.states[node]], place) for node, place in clique.nodes]
    table = rows_of(clique, table * math.prod(data[1:], start=data[0]))
    total = table.sum(1)
    if not total.min() > 0:  # a node without a possible state
        return None
    peak = total.max(0)
    return table * (1.0 / total)[:, None], total / peak, np.log(peak)


def marginals(
    tree: JunctionTree, collected: Collected, with_factors: bool = True
) -> tuple[np.ndarray, np.ndarray | None]:
    """Probabilities of nodes (V, K, B) and of factor entries (P, B), the derivatives of log Z.

    Undefined where log Z is -inf.
    """
    batch = collected.log_partition.shape[0]
    nodes = np.zeros((len(tree.states), max(tree.states), batch))
    tables = np.zeros((tree.starts[-1], batch)) if with_factors else None
    above: dict[int, np.ndarray] = {}
    for number, clique in enumerate(tree.cliques):
        belief = collected.conditionals[number]
        if not clique.root:
            belief = belief * above.pop(number)[:, None]
        belief = belief.reshape(*clique.shape, batch)
        for child, place in clique.children:
            above[child] = project(belief, place)
        read_off(tree, clique, belief, nodes, tables)
    return nodes, tables


def tangents(
    tree: JunctionTree,
    collected: Collected,
    d_unary: np.ndarray,
    d_factors: np.ndarray,
    with_factors: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Derivatives of log Z and of `marginals` along D directions of the potentials.

    Args:
        tree: as for `collect`.
        collected: from `collect`.
        d_unary: (V, K, D, B).
        d_factors: (P, D, B).
        with_factors: whether to return tangents of the factors' marginals.

    Returns: (D, B), (V, K, D, B), (P, D, B) or None.
    """
    directions, batch = d_unary.shape[-2:]
    messages, moves = message_tangents(tree, collected, d_unary, d_factors)
    roots = [m[0] for m, c in zip(messages, tree.cliques, strict=True) if c.root]
    d_nodes = np.zeros(d_unary.shape)
    d_tables = np.zeros((tree.starts[-1], directions, batch)) if with_factors else None
    above: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for number, clique in enumerate(tree.cliques):
        belief = collected.conditionals[number]
        d_belief = belief[..., None, :] * (moves[number] - messages[number][:, None])
        if not clique.root:
            up, d_up = above.pop(number)
            d_belief = d_belief * up[:, None, None] + belief[..., None, :] * d_up[:, None]
            belief = belief * up[:, None]
        belief = belief.reshape(*clique.shape, batch)
        d_belief = d_belief.reshape(*clique.shape, directions, batch)
        for child, place in clique.children:
            above[child] = project(belief, place), project(d_belief, place)
        read_off(tree, clique, d_belief, d_nodes, d_tables)
    return np.sum(roots, axis=0), d_nodes, d_tables


def message_tangents(
    tree: JunctionTree, collected: Collected, d_unary: np.ndarray, d_factors: np.ndarray
) -> tuple[list[Any], list[Any]]:
    """For each clique the tangents (S, D, B) of its log message and (S, R, D, B) of its table."""
    messages: list[Any] = [None] * len(tree.cliques)
    moves: list[Any] = [None] * len(tree.cliques)
    for number in reversed(range(len(tree.cliques))):
        table = table_of(tree, number, d_unary, d_factors, messages)
        moves[number] = rows_of(tree.cliques[number], table)
        messages[number] = (collected.conditionals[number][..., None, :] * moves[number]).sum(1)
    return messages, moves
