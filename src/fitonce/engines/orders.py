"""Elimination orders: in which order the nodes of a graph are summed out, which decides the size of all
tables.

Greedy orders suit irregular maps, sweeps from one side to the other suit lattices; `order_search` takes
the best.

Sets of nodes are integers whose bits are the nodes: their unions and sizes take nanoseconds, so that an
order of some hundred nodes is counted out in less than a millisecond.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

Ints = tuple[int, ...]
_CORNERS = 5  # nodes far apart, between which sweeps go


class Order(NamedTuple):
    """An elimination order.

    Attributes:
        nodes: in the order in which they are summed out.
        way: how it was found.
        entries: of all tables together, infinite beyond the range of floats.
        width: neighbours that a node has at most when it is summed out.
    """

    nodes: Ints
    way: str
    entries: float
    width: int

    @property
    def cost(self) -> tuple[float, int]:
        """What is compared."""
        return self.entries, self.width


class StateGraph:
    """A graph whose nodes have numbers of states; orders of its nodes are found and counted out here.

    Args:
        states: of each node.
        scopes: sets of nodes that must be in one table.
    """

    def __init__(self, states: Sequence[int], scopes: Sequence[Sequence[int]]) -> None:
        self.states = tuple(states)
        self.around = [0] * len(self.states)
        for scope in scopes:
            together = sum(1 << node for node in scope)
            for node in scope:
                self.around[node] |= together
        for node in range(len(self.states)):
            self.around[node] &= ~(1 << node)
        self.neighbours = [bits(mask) for mask in self.around]
        counts = sorted(set(self.states))
        with np.errstate(over="ignore"):
            powers = [np.power(float(k), np.arange(len(self.states) + 1)).tolist() for k in counts]
        self._powers = dict(zip(counts, powers, strict=True))

    def parts(self) -> Iterator[list[int]]:
        """The connected components."""
        labels = sparse.csgraph.connected_components(self.matrix(), directed=False)[1]
        order = np.argsort(labels, kind="stable")
        yield from (
            part.tolist() for part in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
        )

    def part(self, nodes: Sequence[int]) -> StateGraph:
        """The graph of some nodes, numbered in their order."""
        number = {node: k for k, node in enumerate(nodes)}
        pairs = [
            (number[a], number[b]) for a in nodes for b in self.neighbours[a] if a < b and b in number
        ]
        return StateGraph([self.states[node] for node in nodes], pairs)

    def with_at_most(self, number: int) -> StateGraph:
        """The graph with no more states than this at any node."""
        return StateGraph(
            [min(states, number) for states in self.states],
            [(a, b) for a, others in enumerate(self.neighbours) for b in others if a < b],
        )

    def matrix(self) -> sparse.csr_array:
        """The adjacency matrix."""
        size = [len(others) for others in self.neighbours]
        rows = np.repeat(np.arange(len(size)), size)
        columns = np.fromiter(itertools.chain.from_iterable(self.neighbours), int, len(rows))
        return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(size), len(size)))

    def counter(self, position: Sequence[int]) -> Callable[[int], float]:
        """The number of entries of a table, given its nodes by position."""
        if len(self._powers) == 1:
            ((_, power),) = self._powers.items()
            return lambda mask: power[mask.bit_count()]
        groups = [
            (sum(1 << position[v] for v, k in enumerate(self.states) if k == states), power)
            for states, power in self._powers.items()
        ]
        return lambda mask: math.prod(power[(mask & own).bit_count()] for own, power in groups)

    def tables(self, nodes: Sequence[int]) -> tuple[list[int], list[int]]:
        """For each position of an order, what is in its table: later positions, as bits; and the one to
        which its message goes, -1 for none."""
        position = positions(nodes)
        later, above = [0] * len(nodes), [-1] * len(nodes)
        for node, others in enumerate(self.neighbours):
            own = position[node]
            later[own] = sum(1 << position[other] for other in others if position[other] > own)
        for own in range(len(nodes)):
            mask = later[own]
            if mask:
                above[own] = (mask & -mask).bit_length() - 1
                later[above[own]] |= mask & (mask - 1)
        return later, above

    def least_width(self) -> int:
        """A lower bound: in some subgraph every node has as many neighbours."""
        around = list(self.around)
        degrees = {node: mask.bit_count() for node, mask in enumerate(around)}
        waiting = [(degree, node) for node, degree in degrees.items()]
        heapq.heapify(waiting)
        least = 0
        while waiting:
            degree, node = heapq.heappop(waiting)
            if degrees.get(node) != degree:
                continue
            del degrees[node]
            least = max(least, degree)
            for other in bits(around[node]):
                around[other] &= ~(1 << node)
                degrees[other] -= 1
                heapq.heappush(waiting, (degrees[other], other))
        return least

    def counted(self, nodes: Sequence[int], way: str) -> Order:
        """An order with the sizes of its tables. A table within the next one is no table of its own."""
        later, above = self.tables(nodes)
        sizes = [mask.bit_count() for mask in later]
        within = {
            parent for own, parent in enumerate(above) if parent >= 0 and sizes[own] > sizes[parent]
        }
        count = self.counter(positions(nodes))
        kept = (own for own in range(len(nodes)) if own not in within)
        total = sum(count(later[own] | 1 << own) for own in kept)
        return Order(tuple(nodes), way, total, max(sizes))


def sweeps(graph: StateGraph) -> Iterator[Order]:
    """Orders that go through a connected graph from one side to the other.

    Breadth-first orders and reverse Cuthill-McKee go from a corner to the opposite one. The difference
    of the distances to two corners goes from one side to the other. Among equals that nearer to the
    second corner is first, so that the front moves without gaps. The order of the data often is a sweep,
    too, row by row.
    """
    yield graph.counted(range(len(graph.states)), "a sweep in the order of the data")
    matrix = graph.matrix()
    cuthill = sparse.csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True)
    yield graph.counted(cuthill.tolist(), "a sweep")
    for first, second in itertools.permutations(corners(graph), 2):
        for side in (first, first - second):
            yield graph.counted(np.lexsort((second, side)).tolist(), "a sweep")


def corners(graph: StateGraph) -> list[np.ndarray]:
    """Distances to all nodes of a connected graph from corners that are far apart: nodes farther from
    everything than their neighbours are."""
    matrix = graph.matrix()

    def spread(among: np.ndarray) -> list[np.ndarray]:
        found = [hops(among[np.argmax(hops(among[0])[among])])]
        nearest = found[0]
        while len(found) < _CORNERS and nearest[among].max() > 0:
            found.append(hops(among[np.argmax(nearest[among])]))
            nearest = np.minimum(nearest, found[-1])
        return found

    def hops(node: int) -> np.ndarray:
        return sparse.csgraph.shortest_path(matrix, unweighted=True, directed=False, indices=node)

    remote = np.sum(spread(np.arange(len(graph.states))), 0).tolist()
    found = [
        node
        for node, others in enumerate(graph.neighbours)
        if all(remote[node] >= remote[other] for other in others)
    ]
    return spread(np.array(found))


def greedy(
    graph: StateGraph, way: str, most: float = math.inf, last: Sequence[int] | None = None
) -> list[int] | None:
    """Sum out the node with the smallest table ("min-degree"), or that makes the fewest new neighbours
    ("min-fill"), again and again; those with a larger `last` after all others. None where a table has
    more than `most` entries."""
    around = list(graph.around)
    count = graph.counter(range(len(around)))

    def key(node: int) -> tuple[float, ...]:
        mask = around[node]
        size = count(mask | 1 << node)
        stage = 0 if last is None else last[node]
        return (stage, size) if way == "min-degree" else (stage, _fill(around, mask), size)

    keys = {node: key(node) for node in range(len(around))}
    waiting = [(value, node) for node, value in keys.items()]
    heapq.heapify(waiting)
    nodes = []
    while waiting:
        value, node = heapq.heappop(waiting)
        if keys.get(node) != value:
            continue  # an entry from before its neighbours changed
        del keys[node]
        mask = around[node]
        if value[-1] > most:
            return None
        nodes.append(node)
        near = bits(mask)
        new = way == "min-degree" or value[1] > 0  # whether neighbours of neighbours are touched
        touched = mask
        for one in near:
            around[one] = (around[one] | mask) & ~(1 << one | 1 << node)
            touched |= around[one] if new and way == "min-fill" else 0
        for one in bits(touched):
            again = key(one)
            if again != keys[one]:
                keys[one] = again
                heapq.heappush(waiting, (again, one))
    return nodes


def _fill(around: list[int], mask: int) -> int:
    """Twice the pairs of nodes of a set that are no neighbours."""
    size = mask.bit_count()
    return size * (size - 1) - sum((mask & around[one]).bit_count() for one in bits(mask))


def positions(nodes: Sequence[int]) -> list[int]:
    """The inverse of a permutation."""
    found = [0] * len(nodes)
    for place, node in enumerate(nodes):
        found[node] = place
    return found


def bits(mask: int) -> list[int]:
    """The nodes of a set, in increasing order."""
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found
