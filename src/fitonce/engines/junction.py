"""Log-partition, marginals, their tangents and cavities of discrete factor graphs, on a junction tree.

    log Z = log sum_z exp( sum_v unary[v, z_v] + sum_f table_f[z_f] )

A plan is run table by table in NumPy: nothing is compiled, so that a large graph costs no more to set
up than a small one. The batch (folds) is the last axis of every array; tables of factors that are the
same in all folds have a last axis of one.

Messages are logarithms; what is kept of a table on the way up are the conditional probabilities of
its own nodes given the separator. On the way down these are multiplied by the separator's probability.
Tangents need no exponentials at all: d log sum exp is an average under the conditionals.

    unary    (V, K, B)    entries from a node's number of states on are not read
    factors  (P, B or 1)  tables of all factors, flat, one after the other in the plan's order
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fitonce.engines.elimination import Clique, Plan


@dataclass(frozen=True, eq=False)
class Collected:
    """What the way up leaves.

    Attributes:
        log_partition: (B,).
        conditionals: for each clique (S, R, B), p(own nodes | separator); zero where impossible.
        messages: for each clique (S, B), log sum over its own nodes and all below.
    """

    log_partition: np.ndarray
    conditionals: list[np.ndarray]
    messages: list[np.ndarray]


def collect(plan: Plan, unary: np.ndarray, factors: np.ndarray) -> Collected:
    """From the leaves to the roots."""
    count = len(plan.cliques)
    conditionals: list[np.ndarray] = [np.empty(0)] * count
    messages: list[np.ndarray] = [np.empty(0)] * count
    total = np.zeros(unary.shape[-1])
    for number in reversed(range(count)):
        clique = plan.cliques[number]
        table = _table(plan, number, unary, factors, messages)
        conditionals[number], messages[number] = _normalise(_split(clique, table))
        if clique.parent is None:
            total = total + messages[number][0]
    return Collected(total, conditionals, messages)


def marginals(
    plan: Plan, collected: Collected, with_factors: bool = True
) -> tuple[np.ndarray, np.ndarray | None]:
    """Probabilities of nodes (V, K, B) and of factors' entries (P, B), derivatives of log Z by both.

    Nothing is meant where log Z is -inf.
    """
    batch = collected.log_partition.shape[0]
    nodes = np.zeros((len(plan.states), max(plan.states), batch))
    tables = np.zeros((plan.starts[-1], batch)) if with_factors else None
    beliefs: list[np.ndarray] = []
    for clique, conditional in zip(plan.cliques, collected.conditionals, strict=True):
        if clique.parent is None:
            belief = conditional
        else:
            above = _project(plan.cliques[clique.parent], beliefs[clique.parent], _separator(clique))
            belief = conditional * above.reshape(-1, 1, batch)
        belief = belief.reshape(*clique.shape, batch)
        beliefs.append(belief)
        _read_off(plan, clique, belief, nodes, tables)
    return nodes, tables


def tangents(
    plan: Plan,
    collected: Collected,
    d_unary: np.ndarray,
    d_factors: np.ndarray,
    with_factors: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Derivatives of log Z and of `marginals` along D directions of the potentials.

    Args:
        plan: as for `collect`.
        collected: from `collect`.
        d_unary: (V, K, D, B).
        d_factors: (P, D, B).
        with_factors: whether tangents of factors' marginals are wanted.

    Returns: (D, B), (V, K, D, B), (P, D, B) or None.
    """
    directions, batch = d_unary.shape[-2:]
    count = len(plan.cliques)
    messages: list[np.ndarray] = [np.empty(0)] * count
    moves: list[np.ndarray] = [np.empty(0)] * count
    total = np.zeros((directions, batch))
    for number in reversed(range(count)):
        clique, conditional = plan.cliques[number], collected.conditionals[number][..., None, :]
        move = _split(clique, _table(plan, number, d_unary, d_factors, messages))
        messages[number] = (conditional * move).sum(1)
        moves[number] = conditional * (move - messages[number][:, None])
        if clique.parent is None:
            total = total + messages[number][0]
    d_nodes = np.zeros(d_unary.shape)
    d_tables = np.zeros((plan.starts[-1], directions, batch)) if with_factors else None
    beliefs: list[np.ndarray] = []
    d_beliefs: list[np.ndarray] = []
    for number, clique in enumerate(plan.cliques):
        belief, d_belief = collected.conditionals[number], moves[number]
        if clique.parent is not None:
            up, keep = plan.cliques[clique.parent], _separator(clique)
            above = _project(up, beliefs[clique.parent], keep).reshape(-1, 1, batch)
            d_above = _project(up, d_beliefs[clique.parent], keep).reshape(-1, 1, directions, batch)
            d_belief = d_belief * above[..., None, :] + belief[..., None, :] * d_above
            belief = belief * above
        beliefs.append(belief.reshape(*clique.shape, batch))
        d_beliefs.append(d_belief.reshape(*clique.shape, directions, batch))
        _read_off(plan, clique, d_beliefs[-1], d_nodes, d_tables)
    return total, d_nodes, d_tables


def cavities(
    plan: Plan, unary: np.ndarray, factors: np.ndarray, d_unary: np.ndarray, d_factors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """log sum over all other nodes, of everything but a node's own unary potential, for every node.

    In logarithms both ways, so that what a node's own data all but excludes is still known to full
    precision.

    Args:
        plan, unary, factors: as for `collect`.
        d_unary, d_factors: (V, K, D, B) and (P, D, B or 1), directions; D may be 0.

    Returns: (V, K, B), and derivatives (V, K, D, B).
    """
    up = collect(plan, unary, factors)
    d_messages: list[np.ndarray] = [np.empty(0)] * len(plan.cliques)
    for number in reversed(range(len(plan.cliques))):
        move = _split(plan.cliques[number], _table(plan, number, d_unary, d_factors, d_messages))
        d_messages[number] = (up.conditionals[number][..., None, :] * move).sum(1)
    values, slopes = np.full(unary.shape, -np.inf), np.zeros(d_unary.shape)
    tops: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def reduced(number: int, keep: tuple[int, ...], but: int) -> tuple[np.ndarray, np.ndarray]:
        """log sum exp onto the nodes `keep` of a clique with what comes from above, and its slopes."""
        table = _table(plan, number, unary, factors, up.messages, but)
        move = _table(plan, number, d_unary, d_factors, d_messages, but)
        if number in tops:
            table, move = table + tops[number][0], move + tops[number][1]
        gone = _others(plan.cliques[number], keep)
        peak = table.max(gone, keepdims=True)
        peak = np.where(np.isfinite(peak), peak, 0.0)
        weight = np.exp(table - peak)
        total = weight.sum(gone, keepdims=True)
        weight /= np.where(total == 0, 1.0, total)
        return (_log(total) + peak).squeeze(gone), (weight[..., None, :] * move).sum(gone)

    for number, clique in enumerate(plan.cliques):
        for child in clique.children:
            below = plan.cliques[child]
            value, slope = reduced(number, _separator(below), _CHILD - child)
            ones = (1,) * (len(below.shape) - below.separator)
            shape = (*below.shape[: below.separator], *ones)
            tops[child] = (
                value.reshape(*shape, *value.shape[-1:]),
                slope.reshape(*shape, *slope.shape[-2:]),
            )
        for node in clique.nodes:
            states = plan.states[node]
            values[node, :states], slopes[node, :states] = reduced(number, (node,), node)
        tops.pop(number, None)
    return values, slopes


# --- tables: trailing axes (B,), or (D, B) for directions, are carried along ----------------------

_NOTHING = -1
_CHILD = -2  # `but` is a node, or _CHILD less the number of a clique below


def _table(
    plan: Plan,
    number: int,
    unary: np.ndarray,
    factors: np.ndarray,
    messages: list[np.ndarray],
    but: int = _NOTHING,
) -> np.ndarray:
    """The sum of all that a clique holds and hears from below, except `but`: small parts first."""
    clique = plan.cliques[number]
    parts = [_place(plan, clique, (v,), unary[v, : plan.states[v]]) for v in clique.nodes if v != but]
    parts += [
        _place(plan, clique, plan.scopes[f], factors[plan.starts[f] : plan.starts[f + 1]])
        for f in clique.factors
    ]
    for child in clique.children:
        if but != _CHILD - child:
            parts.append(_place(plan, clique, _separator(plan.cliques[child]), messages[child]))
    full = (*clique.shape, *unary.shape[2:])
    total = np.zeros(())
    for part in sorted(parts, key=lambda part: part.size):
        total = total + part
    return total if total.shape == full else np.broadcast_to(total, full)


def _place(plan: Plan, clique: Clique, scope: tuple[int, ...], entries: np.ndarray) -> np.ndarray:
    """Entries (states of the scope, flat; ...) as an array that broadcasts against a clique's table."""
    where = [clique.variables.index(node) for node in scope]
    states = tuple(plan.states[node] for node in scope)
    rest = entries.shape[1:]
    table = entries.reshape(*states, *rest)
    order = sorted(range(len(where)), key=lambda axis: where[axis])
    if order != list(range(len(order))):
        table = table.transpose(*order, *range(len(order), table.ndim))
    shape = [1] * len(clique.shape)
    for axis, size in zip(where, states, strict=True):
        shape[axis] = size
    return table.reshape(*shape, *rest)


def _separator(clique: Clique) -> tuple[int, ...]:
    return clique.variables[: clique.separator]


def _split(clique: Clique, table: np.ndarray) -> np.ndarray:
    """(separator, own nodes, ...)."""
    size = math.prod(clique.shape[: clique.separator])
    return table.reshape(size, -1, *table.shape[len(clique.shape) :])


def _others(clique: Clique, keep: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis, node in enumerate(clique.variables) if node not in keep)


def _project(clique: Clique, belief: np.ndarray, keep: tuple[int, ...]) -> np.ndarray:
    """Sum over all nodes but `keep`, which stay in the clique's order."""
    gone = _others(clique, keep)
    return belief.sum(gone) if gone else belief


def _read_off(
    plan: Plan, clique: Clique, belief: np.ndarray, nodes: np.ndarray, tables: np.ndarray | None
) -> None:
    """Put the marginals that a clique is responsible for in place."""
    for node in clique.nodes:
        nodes[node, : plan.states[node]] = _project(clique, belief, (node,))
    if tables is None:
        return
    for factor in clique.factors:
        scope = plan.scopes[factor]
        small = _project(clique, belief, scope)
        found = [node for node in clique.variables if node in scope]
        order = [found.index(node) for node in scope]
        small = small.transpose(*order, *range(len(scope), small.ndim))
        tables[plan.starts[factor] : plan.starts[factor + 1]] = small.reshape(-1, *tables.shape[1:])


def _normalise(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Conditionals (S, R, B) and log sums (S, B); zeros where nothing is possible."""
    peak = table.max(1, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    weight = np.subtract(table, peak)
    np.exp(weight, out=weight)
    total = weight.sum(1, keepdims=True)
    weight /= np.where(total == 0, 1.0, total)
    return weight, (_log(total) + peak)[:, 0]


def _log(total: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(total)
