"""The plan of a junction tree: which tables are made, in which order, and what that costs.

A plan depends only on scopes and numbers of states, so it is made once and reused for every sweep. Its
cost is known before anything runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal, NamedTuple

import networkx as nx
from networkx.algorithms.approximation import treewidth_min_degree, treewidth_min_fill_in

Order = Literal["min-fill", "min-degree"]
_HEURISTICS: dict[str, Callable[[nx.Graph], tuple[int, nx.Graph]]] = {
    "min-fill": treewidth_min_fill_in,
    "min-degree": treewidth_min_degree,
}


_MOST_AXES = 60  # of a table: NumPy has 64, and folds and directions take theirs
_ARRAYS = 2  # of all tables at a time: the conditionals that are kept, and what a step works on
_HOPELESS = 2.0**30  # times the limit: the other heuristic does not help by so much
_MANY = 1500  # nodes: min-fill takes time that grows with the square of them


class TooWideError(ValueError):
    """The graph has no narrow elimination order, so that exact inference does not fit in memory."""


class _Bag(NamedTuple):
    """Nodes of a clique: those that it shares with the one above, and its own."""

    separator: tuple[int, ...]
    own: tuple[int, ...]
    parent: int | None

    @property
    def variables(self) -> tuple[int, ...]:
        return (*self.separator, *self.own)


class Place(NamedTuple):
    """How a small table lies in a clique's.

    Attributes:
        states: shape of the small table.
        order: its axes in the clique's order.
        shape: it then has, to broadcast against the clique's.
        gone: axes of the clique to sum over, to come back.
        back: the axes that are left, in the small table's order.
    """

    states: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]
    gone: tuple[int, ...]
    back: tuple[int, ...]


@dataclass(frozen=True)
class Clique:
    """One table of the junction tree.

    Attributes:
        variables: its nodes: the separator from its parent first, then those that no clique above has.
        shape: of the table.
        rows: entries of the separator.
        root: whether no clique is above.
        children: numbers of the cliques below, and how the message of each lies in this table.
        nodes: whose unary potentials it holds: those that no clique above has.
        factors: it holds, each in the smallest table that has all its nodes.
        reads: nodes whose marginals are read here: the smallest table that has the node.
    """

    variables: tuple[int, ...]
    shape: tuple[int, ...]
    rows: int
    root: bool
    children: tuple[tuple[int, Place], ...]
    nodes: tuple[tuple[int, Place], ...]
    factors: tuple[tuple[int, Place], ...]
    reads: tuple[tuple[int, Place], ...]


@dataclass(frozen=True)
class JunctionTree:
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

    @property
    def seconds(self) -> float:
        """A guess at the time of one sweep of one fold, from two constants of one machine."""
        return 1.2e-4 * len(self.cliques) + 1.5e-8 * self.entries

    def __str__(self) -> str:
        return (
            f"{len(self.states):,} nodes in {len(self.cliques):,} cliques by {self.order}: width "
            f"{self.width}, {self.entries:,} table entries, {_size(self.bytes)} and about "
            f"{self.seconds:.2g} s a sweep"
        )


@lru_cache(maxsize=64)
def plan_tree(
    states: tuple[int, ...],
    scopes: tuple[tuple[int, ...], ...],
    order: Order | None = None,
    limit: float = math.inf,
) -> JunctionTree:
    """The junction tree of factors with these scopes.

    Args:
        states: how many states each node has.
        scopes: the nodes of each factor.
        order: "min-fill", "min-degree", or None for the cheaper of both.
        limit: bytes; a plan that needs more is refused.
    """
    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(range(len(states)))
    for scope in scopes:
        graph.add_edges_from((a, b) for i, a in enumerate(scope) for b in scope[:i])
    least = max(nx.core_number(graph).values(), default=0)  # no order is narrower than this
    if least >= _MOST_AXES:
        size = 8 * _ARRAYS * math.prod(sorted(states)[: least + 1])
        raise TooWideError(_refusal(len(states), f"at least {least}", size, limit))
    best = _plan(graph, states, scopes, order or "min-degree")
    if order is None and len(states) <= _MANY and best.bytes <= _HOPELESS * limit:
        best = min(best, _plan(graph, states, scopes, "min-fill"), key=lambda tree: tree.entries)
    if best.bytes > limit or best.width >= _MOST_AXES:
        raise TooWideError(_refusal(len(states), f"{best.width}", best.bytes, limit))
    return best


def _refusal(nodes: int, width: str, size: float, limit: float) -> str:
    return (
        f"exact inference on this graph of {nodes:,} nodes has width {width} and needs {_size(size)} a "
        f"sweep, the limits are width {_MOST_AXES - 1} and {_size(limit)}; use fewer classes, leave out "
        "edges, cut the graph into parts, or raise memory_limit="
    )


def _plan(
    graph: nx.Graph, states: tuple[int, ...], scopes: tuple[tuple[int, ...], ...], order: Order
) -> JunctionTree:
    """Cliques from the heuristic's bags, with all that they hold in place."""
    bags: list[_Bag] = []
    for part in nx.connected_components(graph):
        bags += _rooted(graph.subgraph(part), order, len(bags))
    factors, reads = _holders(bags, states, scopes)
    children: list[list[int]] = [[] for _ in bags]
    for number, bag in enumerate(bags):
        if bag.parent is not None:
            children[bag.parent].append(number)
    cliques = []
    for number, bag in enumerate(bags):
        place = partial(_place, states, bag.variables)
        cliques.append(
            Clique(
                bag.variables,
                tuple(states[v] for v in bag.variables),
                math.prod(states[v] for v in bag.separator),
                bag.parent is None,
                tuple((child, place(bags[child].separator)) for child in children[number]),
                tuple((v, place((v,))) for v in bag.own),
                tuple((f, place(scopes[f])) for f in factors[number]),
                tuple((v, place((v,))) for v in reads[number]),
            )
        )
    sizes = [math.prod(states[v] for v in scope) for scope in scopes]
    starts = tuple(itertools.accumulate(sizes, initial=0))
    return JunctionTree(states, scopes, starts, tuple(cliques), order)


def _holders(
    bags: list[_Bag], states: tuple[int, ...], scopes: tuple[tuple[int, ...], ...]
) -> tuple[list[list[int]], list[list[int]]]:
    """For each bag the factors that it holds and the nodes that are read there: of all that could, the
    smallest table does."""
    size = [math.prod(states[v] for v in bag.variables) for bag in bags]
    containing: dict[int, set[int]] = {node: set() for node in range(len(states))}
    for number, bag in enumerate(bags):
        for node in bag.variables:
            containing[node].add(number)

    def smallest(scope: tuple[int, ...]) -> int:
        possible = set.intersection(*(containing[node] for node in scope))
        return min(possible, key=lambda number: (size[number], number))

    factors: list[list[int]] = [[] for _ in bags]
    reads: list[list[int]] = [[] for _ in bags]
    for node in range(len(states)):
        reads[smallest((node,))].append(node)
    for factor, scope in enumerate(scopes):
        factors[smallest(scope)].append(factor)
    return factors, reads


def _place(states: tuple[int, ...], variables: tuple[int, ...], scope: tuple[int, ...]) -> Place:
    where = [variables.index(node) for node in scope]
    order = sorted(range(len(scope)), key=lambda axis: where[axis])
    shape = tuple(states[node] if node in scope else 1 for node in variables)
    gone = tuple(axis for axis, node in enumerate(variables) if node not in scope)
    back = tuple(order.index(axis) for axis in range(len(scope)))
    return Place(tuple(states[node] for node in scope), tuple(order), shape, gone, back)


def _rooted(part: nx.Graph, order: Order, offset: int) -> Iterator[_Bag]:
    """The cliques of a connected part, from the root.

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
        yield _Bag(tuple(known), tuple(new), parent)


def _single(part: nx.Graph) -> nx.Graph:
    tree: nx.Graph = nx.Graph()
    tree.add_node(frozenset(part))
    return tree


def _maximal(tree: nx.Graph) -> nx.Graph:
    """The tree without bags that are part of a neighbour."""
    pending = list(tree.edges)
    while pending:
        a, b = pending.pop()
        both = a | b
        if a not in tree or b not in tree or both not in (a, b):
            continue
        others = [other for bag in (a, b) for other in tree[bag] if other not in (a, b)]
        tree.remove_nodes_from((a, b))
        tree.add_node(both)
        tree.add_edges_from((other, both) for other in others)
        pending += [(other, both) for other in others]
    return tree


def _size(count: float) -> str:
    if count == math.inf:
        return "any memory"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count = count / 1024 if count < 1e300 else count // 1024  # whole numbers can be larger
    return f"{count:.3g} PiB" if count < 1e300 else "more than 1e+300 PiB"
