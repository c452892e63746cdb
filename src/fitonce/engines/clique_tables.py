"""Tables of a junction tree: broadcasting small tables to a clique's axes, and summing them back.

Trailing axes, (B,) or (D, B) with D directions, are carried along.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fitonce.engines.elimination import Clique, JunctionTree, Place


def table_of(
    tree: JunctionTree,
    number: int,
    unary: np.ndarray | None,
    factors: np.ndarray,
    messages: Sequence[Any],
    combine: Any = np.add,
    without_node: int | None = None,
    without_child: int | None = None,
) -> np.ndarray:
    """A clique's potentials and the messages of its children, combined, smallest first.

    With `unary` None, the unary potentials of its own nodes are left out.
    """
    clique = tree.cliques[number]
    parts = []
    if unary is not None:
        own = [(v, place) for v, place in clique.nodes if v != without_node]
        parts += [spread(unary[v, : tree.states[v]], place) for v, place in own]
    parts += [spread(factors[tree.starts[f] : tree.starts[f + 1]], place) for f, place in clique.factors]
    parts += [spread(messages[c], place) for c, place in clique.children if c != without_child]
    full = (*clique.shape, *factors.shape[1:])
    if not parts:
        return np.full(full, float(combine.identity))
    total = functools.reduce(combine, sorted(parts, key=lambda part: part.size))
    return total if total.shape == full else np.broadcast_to(total, full)


def spread(entries: np.ndarray, place: Place) -> np.ndarray:
    """A small table (entries, ...) as an array that broadcasts against the clique's table."""
    rest = entries.shape[1:]
    if len(place.order) > 1 and place.order != tuple(range(len(place.order))):
        axes = (*place.order, *range(len(place.order), len(place.order) + len(rest)))
        entries = entries.reshape(*place.states, *rest).transpose(axes)
    return entries.reshape(*place.shape, *rest)


def project(belief: np.ndarray, place: Place) -> np.ndarray:
    """A clique's table summed onto a small one: (entries, ...)."""
    small = belief.sum(place.gone) if place.gone else belief
    count = len(place.back)
    rest = small.shape[count:]
    if count > 1 and place.back != tuple(range(count)):
        small = small.transpose(*place.back, *range(count, small.ndim))
    return small.reshape(-1, *rest)


def rows_of(clique: Clique, table: np.ndarray) -> np.ndarray:
    """The table as (entries of the separator, entries of the own nodes, ...)."""
    own = math.prod(clique.shape) // clique.rows
    return table.reshape(clique.rows, own, *table.shape[len(clique.shape) :])


def read_off(
    tree: JunctionTree, clique: Clique, belief: np.ndarray, nodes: np.ndarray, tables: np.ndarray | None
) -> None:
    """Write the marginals that a clique is responsible for into `nodes` and `tables`."""
    for node, place in clique.reads:
        nodes[node, : tree.states[node]] = project(belief, place)
    if tables is not None:
        for factor, place in clique.factors:
            tables[tree.starts[factor] : tree.starts[factor + 1]] = project(belief, place)


def log_sum(table: np.ndarray, axes: int | tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """log sum exp over `axes`, kept with length one, and the share of each entry in its sum.

    The derivative of the log sum is the sum of shares times the entries' derivatives. Where all entries
    are -inf, so is the log sum, and the shares are zero.
    """
    peak = finite(table.max(axes, keepdims=True))
    share = np.exp(table - peak)
    total = share.sum(axes, keepdims=True)
    share /= np.where(total == 0, 1.0, total)
    return log_of(total) + peak, share


def finite(peak: np.ndarray) -> np.ndarray:
    """Maxima to subtract, zero where infinite."""
    return np.where(np.isfinite(peak), peak, 0.0)


def log_of(total: np.ndarray) -> np.ndarray:
    """The logarithm, -inf at zero."""
    with np.errstate(divide="ignore"):
        return np.log(total)
