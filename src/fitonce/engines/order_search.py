"""The search for an elimination order with few table entries.

Finding the best order is hard, so several are tried. Where the tables of the best are small, that is
all. Where they are large, the graph is also cut in two, again and again ("nested dissection"), with the
nodes of the cuts summed out last, and the best order is improved by moving single nodes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from fitonce.engines.orders import Order, StateGraph, bits, corners, greedy, sweeps

_MANY = 1500  # nodes: the time of min-fill grows with their square
_TINY = 2.0**17  # entries, 2 MiB: of no account
_SMALL = 2.0**20  # entries, 16 MiB: a search would take longer than it saves
_HOPELESS = 2.0**40  # entries: no search gains as much as a machine would need
_LEVELS = 4  # of cuts
_LEAST = 24  # nodes of a part that is cut
_SHARES = (0.25, 0.4)  # of the nodes, which are surely on either side of a cut
_MOVES, _WORK = 1500, 400_000  # of single nodes, and nodes that these look at
_FAR = (3.0, 20.0, 80.0)  # positions that a node moves


def best_order(whole: StateGraph) -> Order:
    """The order with the fewest entries among those that are tried, for each connected part."""
    nodes: list[int] = []
    found = []
    for part in whole.parts():
        best = _best(whole.part(part))
        nodes += [part[k] for k in best.nodes]
        found.append(best)
    largest = max(found, key=lambda order: order.cost)
    return Order(
        tuple(nodes), largest.way, sum(order.entries for order in found), max(o.width for o in found)
    )


def _best(graph: StateGraph) -> Order:
    few, found = len(graph.states) <= _MANY, [*_greedy(graph, "min-degree")]
    if found[0].entries > _TINY:
        found += sweeps(graph)
    if few:
        found += _greedy(graph, "min-fill", min(order.entries for order in found))
    best = min(found, key=lambda order: order.cost)
    if not few or not _SMALL < best.entries < _HOPELESS:
        return best
    best = min(best, *dissections(graph), key=lambda order: order.cost)
    return improved(graph, best, min(_MOVES, _WORK // len(graph.states)))


def _greedy(graph: StateGraph, way: str, most: float = math.inf) -> Iterator[Order]:
    """The greedy order, unless a table has more entries than `most`."""
    nodes = greedy(graph, way, most)
    if nodes is not None:
        yield graph.counted(nodes, way)


def dissections(graph: StateGraph) -> Iterator[Order]:
    """Orders with one level of cuts, with two, and so on; within parts and cuts, by min-fill."""
    levels = cuts(graph)
    for depth in range(1, _LEVELS + 1):
        last = [depth - level if level < depth else 0 for level in levels]
        nodes = greedy(graph, "min-fill", last=last)
        if nodes is not None:
            yield graph.counted(nodes, "nested dissection")


def cuts(graph: StateGraph) -> list[int]:
    """The level of the cut that each node is in, 0 for the first; _LEVELS for those in none."""
    found = [_LEVELS] * len(graph.states)
    waiting = [(list(range(len(found))), 0)]
    while waiting:
        nodes, level = waiting.pop()
        inner = graph.part(nodes)
        for part in inner.parts():
            if len(part) < _LEAST or level == _LEVELS:
                continue
            gone = _cut(inner.part(part))
            for k in gone:
                found[nodes[part[k]]] = level
            waiting.append(([nodes[v] for k, v in enumerate(part) if k not in gone], level + 1))
    return found


def _cut(graph: StateGraph) -> set[int]:
    """Nodes that part a connected graph in two, few for the size of the smaller side."""
    best, least = set(range(len(graph.states))), math.inf
    ends = corners(graph)
    for number, first in enumerate(ends):
        for second in ends[:number]:
            along = np.lexsort((second, first - second))
            for share in _SHARES:
                cut, near = smallest_cut(graph, along, max(int(share * len(along)), 1))
                smaller = min(near, len(along) - near - len(cut))
                if smaller > 0 and len(cut) / math.sqrt(smaller) < least:
                    best, least = cut, len(cut) / math.sqrt(smaller)
    return best


def smallest_cut(graph: StateGraph, along: np.ndarray, sure: int) -> tuple[set[int], int]:
    """The fewest nodes without which no path leads from the first to the last `sure` nodes of a line;
    some of these may be among them. And how many nodes are on the first side.

    A maximum flow where every node lets one unit pass: node v is an edge from v to n + v.
    """
    n, matrix = len(graph.states), graph.matrix().tocoo()
    source, sink, every = 2 * n, 2 * n + 1, np.arange(n)
    rows = np.concatenate([every, n + matrix.row, np.full(sure, source), n + np.asarray(along[-sure:])])
    columns = np.concatenate([n + every, matrix.col, along[:sure], np.full(sure, sink)])
    room = np.where(np.arange(len(rows)) < n, 1, n + 1).astype(np.int32)
    capacity = sparse.csr_array((room, (rows, columns)), shape=(2 * n + 2, 2 * n + 2))
    left = sparse.csr_array(capacity - maximum_flow(capacity, source, sink).flow)
    left.eliminate_zeros()
    reached = np.zeros(2 * n + 2, bool)
    reached[breadth_first_order(left, source, return_predecessors=False)] = True
    entered, passed = reached[:n], reached[n : 2 * n]
    return set(np.flatnonzero(entered & ~passed).tolist()), int(passed.sum())


def improved(graph: StateGraph, start: Order, moves: int) -> Order:
    """Move single nodes of the largest tables to other places in the order, at random, and keep what
    costs no more than a little, which becomes less. The same moves every time."""
    draw = random.Random(0)
    here = best = start
    large, later = _large(graph, here)
    for number in range(moves):
        place = draw.choice(large)
        if draw.random() < 0.5:
            place = draw.choice(bits(later[place]) or [place])
        nodes = list(here.nodes)
        to = place + round(draw.gauss(0.0, draw.choice(_FAR)))
        nodes.insert(min(max(to, 0), len(nodes) - 1), nodes.pop(place))
        tried = graph.counted(nodes, f"{start.way}, improved")
        allowed = 1.0 + 0.02 * draw.random() * (1.0 - number / moves)
        if tried.entries <= allowed * here.entries:
            here = tried
            large, later = _large(graph, here)
            best = min(best, here, key=lambda order: order.cost)
    return best


def _large(graph: StateGraph, order: Order) -> tuple[list[int], list[int]]:
    """Positions whose tables are about the largest, and what is in the table of each position."""
    later, _ = graph.tables(order.nodes)
    return [own for own, mask in enumerate(later) if mask.bit_count() >= order.width - 1], later
