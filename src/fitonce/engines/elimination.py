"""Junction tree plans: which tables are computed, in which order, and at what cost.

A plan depends only on scopes and numbers of states, so it is made once and reused for every sweep. Its
cost is known before anything runs.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict, deque
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

from fitonce.core.memory import machine_memory
from fitonce.core.wording import counted
from fitonce.engines.order_search import best_order
from fitonce.engines.orders import Ints, Order, StateGraph, bits

_MOST_AXES = 60  # of a table: NumPy allows 64, some of which folds and directions need
_ARRAYS = 2  # copies of all tables in memory: the conditionals that are kept, and temporaries


class TooWideError(ValueError):
    """No elimination order is narrow enough for exact inference to fit in memory."""


class _Bag(NamedTuple):
    """Nodes of a clique: those shared with its parent, and its own."""

    separator: Ints
    own: Ints
    parent: int | None

    @property
    def variables(self) -> Ints:
        return (*self.separator, *self.own)


class Place(NamedTuple):
    """How a small table is embedded in a clique's table.

    Attributes:
        states: shape of the small table.
        order: its axes in the clique's order.
        shape: shape after that reordering, which broadcasts against the clique's.
        gone: axes of the clique to sum over on the way back.
        back: the remaining axes in the small table's order.
    """

    states: Ints
    order: Ints
    shape: Ints
    gone: Ints
    back: Ints


@dataclass(frozen=True)
class Clique:
    """One table of the junction tree.

    Attributes:
        variables: its nodes: the separator from its parent first, then its own, which no ancestor has.
        shape: of the table.
        rows: entries of the separator.
        root: whether it has no parent.
        children: numbers of the child cliques, and the place of each one's message in this table.
        nodes: its own nodes, whose unary potentials it holds.
        factors: the factors it holds; each factor is in the smallest table with all its nodes.
        reads: nodes whose marginals are read here: those for which this is the smallest table.
    """

    variables: Ints
    shape: Ints
    rows: int
    root: bool
    children: tuple[tuple[int, Place], ...]
    nodes: tuple[tuple[int, Place], ...]
    factors: tuple[tuple[int, Place], ...]
    reads: tuple[tuple[int, Place], ...]


@dataclass(frozen=True)
class JunctionTree:
    """A junction tree (a forest for a disconnected graph), parents before children.

    Attributes:
        states: number of states of each node.
        scopes: nodes of each factor, in the order of its table's axes.
        starts: where each factor's table starts in the flat vector of entries, and its end.
        cliques: the tables.
        order: how the elimination order was found.
    """

    states: Ints
    scopes: tuple[Ints, ...]
    starts: Ints
    cliques: tuple[Clique, ...]
    order: str

    @property
    def width(self) -> int:
        """Number of nodes of the largest clique, minus one."""
        return max(len(clique.variables) for clique in self.cliques) - 1

    @property
    def entries(self) -> int:
        """Total number of table entries; the work of a sweep is proportional to it."""
        return sum(math.prod(clique.shape) for clique in self.cliques)

    @property
    def bytes(self) -> int:
        """Approximate memory of one sweep of one fold."""
        return 8 * _ARRAYS * self.entries

    @property
    def seconds(self) -> float:
        """A rough estimate of the time of one sweep of one fold, calibrated on one machine. A table of
        many factors, as of sites that are all neighbours, takes as many passes over its entries."""
        many = (max(len(clique.nodes) + len(clique.factors) - 4, 0) for clique in self.cliques)
        sizes = (math.prod(clique.shape) for clique in self.cliques)
        extra = sum(passes * size for passes, size in zip(many, sizes, strict=True))
        return 1.2e-4 * len(self.cliques) + 1.5e-8 * self.entries + 4e-9 * extra

    def __str__(self) -> str:
        return (
            f"{counted(len(self.states), 'node')} in {counted(len(self.cliques), 'clique')} "
            f"by {self.order}: width {self.width}, {self.entries:,} table entries, "
            f"{_size(self.bytes)} and about {self.seconds:.2g} s a sweep"
        )


@lru_cache(maxsize=64)
def plan_tree(
    states: Ints,
    scopes: tuple[Ints, ...],
    order: Ints | None = None,
    limit: float = math.inf,
) -> JunctionTree:
    """The junction tree of factors with these scopes.

    Args:
        states: number of states of each node.
        scopes: the nodes of each factor.
        order: in which nodes are summed out; None: the cheapest of those that are tried.
        limit: bytes; a plan that needs more raises TooWideError.
    """
    graph, least = _graph(states, scopes)
    if least >= _MOST_AXES:
        raise TooWideError(_crowded(states, least))
    best = _best(states, scopes) if order is None else graph.counted(order, "the order given")
    if best.width >= _MOST_AXES or 8 * _ARRAYS * best.entries > limit:
        raise TooWideError(_refusal(graph, best, limit))
    return _plan(graph, scopes, best)


@lru_cache(maxsize=8)
def _graph(states: Ints, scopes: tuple[Ints, ...]) -> tuple[StateGraph, int]:
    """The graph, and a lower bound on its width."""
    graph = StateGraph(states, scopes)
    return graph, graph.least_width()


@lru_cache(maxsize=64)
def _best(states: Ints, scopes: tuple[Ints, ...]) -> Order:
    """Kept apart from plans: those that are refused are asked for again."""
    return best_order(_graph(states, scopes)[0])


def _crowded(states: Ints, least: int) -> str:
    """Of a graph that has no order with tables of so few axes."""
    return (
        f"exact inference is not possible on this graph of {counted(len(states), 'site')}: some "
        f"group of sites has {least} neighbours each within it. Leave out edges (tables would be of "
        f"{least + 1} sites at least, and {_MOST_AXES} are possible)"
    )


def _refusal(graph: StateGraph, order: Order, limit: float) -> str:
    """What would fit: fewer classes, fewer sites, or more memory."""
    most, sites = max(graph.states), len(graph.states)
    needs, larger = 8 * _ARRAYS * order.entries, order.width >= _MOST_AXES
    with_classes = f" with {most} classes" if most > 1 else ""
    found = [
        f"exact inference on this graph of {counted(sites, 'site')}{with_classes} needs {_size(needs)} "
        f"for a fold, and {_size(limit)} are allowed"
    ]
    fewer = _most_classes(graph, order, limit)
    if fewer is not None:
        found.append(f"it would work with {counted(fewer, 'class', 'classes')}")
    few = _most_sites(graph, order, limit)
    if few is None:
        found.append("leave out edges or sites")
    else:
        part = f"a map of this kind may have about {few:,} sites{with_classes}"
        found.append(f"{part}: take a part of it (--where, or where= of fo.read_map)")
    if not larger and needs <= machine_memory():
        found.append(f"or give the model memory_limit={_rounded_up(needs):.3g}")
    else:
        has = "" if larger else f": this machine has {_size(machine_memory())}"
        found.append(f"no memory_limit= helps here{has}")
    possible = f", and {_MOST_AXES} are possible" if larger else ""
    return f"{'; '.join(found)} (the largest table is of {order.width + 1} sites{possible})"


def _rounded_up(number: float) -> float:
    """To three digits, none below."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 2)
    return math.ceil(number / unit) * unit


def _most_classes(graph: StateGraph, order: Order, limit: float) -> int | None:
    """With how many classes for each site the tables of the order would fit; None of less than two."""
    if order.width >= _MOST_AXES:
        return None
    fewer = [
        number
        for number in range(2, max(graph.states))
        if 8 * _ARRAYS * graph.with_at_most(number).counted(order.nodes, order.way).entries <= limit
    ]
    return max(fewer, default=None)


def _most_sites(graph: StateGraph, order: Order, limit: float) -> int | None:
    """How many sites a map may have, if the sites of its largest table grow as the root of their number
    does, as on planar maps; None of other graphs, which have more edges, and of fewer than ten."""
    sites, states = len(graph.states), max(graph.states)
    pairs = sum(map(len, graph.neighbours)) // 2
    if pairs > 3 * sites or states < 2:
        return None

    def fits(count: int) -> bool:
        table = (order.width + 1) * math.sqrt(count / sites) + 1  # for the rim, and to be safe
        logs = math.log(8 * _ARRAYS * tables_like * count) + table * math.log(states)
        return table <= _MOST_AXES and logs <= math.log(limit)

    # How many tables as large as the largest one there would be for each site.
    largest = (order.width + 1) * math.log(states)
    tables_like = 1.0 / sites
    if math.isfinite(order.entries):
        tables_like = math.exp(math.log(order.entries) - largest) / sites
    found = sum(1 for _ in itertools.takewhile(fits, range(1, sites)))
    rounded = found - found % 10 ** max(len(str(found)) - 2, 1)
    return rounded or None


def _plan(graph: StateGraph, scopes: tuple[Ints, ...], order: Order) -> JunctionTree:
    """The junction tree of an order, with factors and reads assigned."""
    states = graph.states
    bags = _bags(graph, order.nodes)
    factors, reads = _holders(bags, states, scopes)
    children = defaultdict(list)
    for number, bag in enumerate(bags):
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
    sizes = (math.prod(states[v] for v in scope) for scope in scopes)
    starts = tuple(itertools.accumulate(sizes, initial=0))
    return JunctionTree(states, scopes, starts, tuple(cliques), order.way)


def _holders(
    bags: list[_Bag], states: Ints, scopes: tuple[Ints, ...]
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """For each bag the factors it holds and the nodes that are read there, both assigned to the smallest
    possible table."""
    size = [math.prod(states[v] for v in bag.variables) for bag in bags]
    containing = defaultdict(set)
    for number, bag in enumerate(bags):
        for node in bag.variables:
            containing[node].add(number)

    def smallest(scope: Ints) -> int:
        possible = set.intersection(*(containing[node] for node in scope))
        return min(possible, key=lambda number: (size[number], number))

    factors, reads = defaultdict(list), defaultdict(list)
    for node in range(len(states)):
        reads[smallest((node,))].append(node)
    for factor, scope in enumerate(scopes):
        factors[smallest(scope)].append(factor)
    return factors, reads


def _place(states: Ints, variables: Ints, scope: Ints) -> Place:
    order = sorted(range(len(scope)), key=lambda axis: variables.index(scope[axis]))
    shape = tuple(states[node] if node in scope else 1 for node in variables)
    gone = tuple(axis for axis, node in enumerate(variables) if node not in scope)
    back = tuple(order.index(axis) for axis in range(len(scope)))
    return Place(tuple(states[node] for node in scope), tuple(order), shape, gone, back)


def _bags(graph: StateGraph, nodes: Ints) -> list[_Bag]:
    """The cliques of an order, parents first.

    Nodes are ranked by first appearance from the root. Sorted by rank, a clique starts with its
    separator, whose axes are in the same order in the parent's table.
    """
    members, near = _cliques(graph, nodes)
    bags: list[_Bag] = []
    rank: dict[int, int] = {}
    numbers: dict[int, int] = {}
    for root in sorted(members, key=lambda clique: (len(members[clique]), members[clique]))[::-1]:
        waiting: deque[tuple[int, int | None]] = deque()
        if root not in numbers:
            waiting.append((root, None))
        while waiting:
            clique, parent = waiting.popleft()
            known = sorted((v for v in members[clique] if v in rank), key=lambda v: rank[v])
            own = [v for v in members[clique] if v not in rank]
            rank.update({v: len(rank) + k for k, v in enumerate(own)})
            numbers[clique] = len(bags)
            waiting += [(other, len(bags)) for other in near[clique] if other not in numbers]
            bags.append(_Bag(tuple(known), tuple(own), parent))
    return bags


def _cliques(graph: StateGraph, nodes: Ints) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Sorted nodes of the cliques that are in no other one, and which hang together."""
    later, above = graph.tables(nodes)
    into = list(range(len(nodes)))  # the clique in which each position's table is
    for own, parent in enumerate(above):
        if parent >= 0 and later[own].bit_count() > later[parent].bit_count():
            into[parent] = into[own]
    members = {
        own: sorted([nodes[own], *(nodes[p] for p in bits(later[own]))]) for own in sorted(set(into))
    }
    near: dict[int, list[int]] = {clique: [] for clique in members}
    for own, parent in enumerate(above):
        a, b = into[own], into[max(parent, 0)]
        if parent >= 0 and a != b:
            near[a].append(b)
            near[b].append(a)
    return members, near


def _size(count: float) -> str:
    if count == math.inf:
        return "any memory"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count = count / 1024 if count < 1e300 else count // 1024  # whole numbers can be larger
    return f"{count:.3g} PiB" if count < 1000 else "more memory than any machine has"
