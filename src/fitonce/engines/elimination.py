"""The plan of a junction tree: which tables are made, in which order, and what that costs.

A plan depends only on scopes and numbers of states, so it is made once and reused for every sweep. Its
cost is known before anything runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import networkx as nx
from networkx.algorithms.approximation import treewidth_min_degree, treewidth_min_fill_in

Order = Literal["min-fill", "min-degree"]
_HEURISTICS = {"min-fill": treewidth_min_fill_in, "min-degree": treewidth_min_degree}
DEFAULT_LIMIT = 2**32  # bytes that one sweep of one fold may take
_ARRAYS = 3  # of all tables at a time: conditionals, beliefs and what a step works on
_MANY = 1500  # nodes: min-fill takes time that grows with the square of them


class TooWideError(ValueError):
    """The graph has no narrow elimination order, so that exact inference does not fit in memory."""


@dataclass(frozen=True)
class Clique:
    """One table of the junction tree.

    Attributes:
        variables: its nodes: the separator from its parent first, then those that no clique above has.
        separator: how many of them are in the separator.
        parent: number of the clique above, None for a root.
        children: numbers of the cliques below.
        shape: of the table.
        nodes: whose unary potentials it holds.
        factors: which of the scopes it holds.
    """

    variables: tuple[int, ...]
    separator: int
    parent: int | None
    children: tuple[int, ...]
    shape: tuple[int, ...]
    nodes: tuple[int, ...]
    factors: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A junction tree (a forest when the graph is in parts), parents before children.

    Attributes:
        states: of each node.
        scopes: nodes of each factor, in the order of its table's axes.
        starts: where each factor's table starts in the flat vector of entries, and the end.
        cliques: the tables.
        order: the heuristic that found it.
    """

    states: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]
    cliques: tuple[Clique, ...]
    order: str

    @property
    def width(self) -> int:
        """Nodes of the largest clique, less one."""
        return max(len(clique.variables) for clique in self.cliques) - 1

    @property
    def entries(self) -> int:
        """Entries of all tables: the work of a sweep is in proportion to it."""
        return sum(math.prod(clique.shape) for clique in self.cliques)

    @property
    def bytes(self) -> int:
        """About the memory of one sweep of one fold."""
        return 8 * _ARRAYS * self.entries

    def __str__(self) -> str:
        return (
            f"{len(self.states):,} nodes in {len(self.cliques):,} cliques by {self.order}: width "
            f"{self.width}, {self.entries:,} table entries, {_size(self.bytes)} a sweep"
        )

    def __hash__(self) -> int:
        return hash((self.states, len(self.scopes), self.starts[-1], self.order))


@lru_cache(maxsize=64)
def make_plan(
    states: tuple[int, ...],
    scopes: tuple[tuple[int, ...], ...],
    order: Order | None = None,
    limit: float = DEFAULT_LIMIT,
) -> Plan:
    """The junction tree of factors with these scopes.

    Args:
        states: how many states each node has.
        scopes: the nodes of each factor.
        order: "min-fill", "min-degree", or None for the cheaper of both.
        limit: bytes; a plan that needs more is refused.
    """
    graph = nx.Graph()
    graph.add_nodes_from(range(len(states)))
    for scope in scopes:
        graph.add_edges_from((a, b) for i, a in enumerate(scope) for b in scope[:i])
    plans = [_plan(graph, states, scopes, name) for name in _orders(order, len(states))]
    best = min(plans, key=lambda plan: plan.entries)
    if best.bytes > limit:
        raise TooWideError(
            f"exact inference on this graph of {len(states):,} nodes has width {best.width} and needs "
            f"{_size(best.bytes)} a sweep, the limit is {_size(limit)}; use fewer classes, leave out "
            "edges, cut the graph into parts, or raise memory_limit="
        )
    return best


def _orders(order: Order | None, nodes: int) -> list[Order]:
    if order is not None:
        return [order]
    return ["min-degree"] if nodes > _MANY else ["min-fill", "min-degree"]


def _plan(
    graph: nx.Graph, states: tuple[int, ...], scopes: tuple[tuple[int, ...], ...], order: Order
) -> Plan:
    """Cliques from the heuristic's bags, each factor in the smallest table that has all its nodes."""
    placed: list[tuple[tuple[int, ...], int, int | None]] = []
    for part in nx.connected_components(graph):
        placed += _rooted(graph.subgraph(part), order, len(placed))
    children: list[list[int]] = [[] for _ in placed]
    containing: dict[int, set[int]] = {node: set() for node in range(len(states))}
    for number, (variables, _, parent) in enumerate(placed):
        if parent is not None:
            children[parent].append(number)
        for node in variables:
            containing[node].add(number)
    shapes = [tuple(states[v] for v in variables) for variables, _, _ in placed]
    nodes: list[list[int]] = [[] for _ in placed]
    factors: list[list[int]] = [[] for _ in placed]
    size = [math.prod(shape) for shape in shapes]
    for node in range(len(states)):
        nodes[min(containing[node], key=lambda c: (size[c], c))].append(node)
    for number, scope in enumerate(scopes):
        possible = set.intersection(*(containing[node] for node in scope))
        factors[min(possible, key=lambda c: (size[c], c))].append(number)
    cliques = tuple(
        Clique(*place, tuple(below), shape, tuple(own), tuple(held))
        for place, below, shape, own, held in zip(placed, children, shapes, nodes, factors, strict=True)
    )
    starts = [0]
    for scope in scopes:
        starts.append(starts[-1] + math.prod(states[v] for v in scope))
    return Plan(states, scopes, tuple(starts), cliques, order)


def _rooted(
    part: nx.Graph, order: Order, offset: int
) -> Iterator[tuple[tuple[int, ...], int, int | None]]:
    """Variables, size of the separator and parent of each clique of a connected part, from the root.

    Nodes are ranked as they first appear on the way down. In the order of ranks a separator is the
    beginning of its clique, and its axes come in the same order in the parent's table.
    """
    tree = _maximal(_HEURISTICS[order](part)[1]) if len(part) > 1 else _single(part)
    root = max(tree, key=lambda bag: (len(bag), sorted(bag)))
    rank: dict[int, int] = {}
    numbers: dict[frozenset[int], int] = {}
    above = {child: parent for parent, child in nx.bfs_edges(tree, root)}
    for bag in [root, *above]:
        known = sorted((node for node in bag if node in rank), key=lambda node: rank[node])
        for node in sorted(bag):
            rank.setdefault(node, len(rank))
        new = sorted(bag.difference(known), key=lambda node: rank[node])
        parent = numbers[above[bag]] if bag in above else None
        numbers[bag] = offset + len(numbers)
        yield (*known, *new), len(known), parent


def _single(part: nx.Graph) -> nx.Graph:
    tree = nx.Graph()
    tree.add_node(frozenset(part))
    return tree


def _maximal(tree: nx.Graph) -> nx.Graph:
    """The tree without bags that are part of a neighbour."""
    pending = list(tree.edges)
    while pending:
        a, b = pending.pop()
        if a not in tree or b not in tree or not (a <= b or b <= a):
            continue
        small, large = sorted((a, b), key=len)
        for other in list(tree[small]):
            if other != large:
                tree.add_edge(other, large)
                pending.append((other, large))
        tree.remove_node(small)
    return tree


def _size(count: float) -> str:
    units: Iterable[str] = ("bytes", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} PiB"
