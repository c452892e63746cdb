"""Elimination orders of eight graphs: widths and tables by min-fill and min-degree alone, as networkx has
them, and by the search. Times are of this process's processor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import numpy as np
from networkx.algorithms.approximation import treewidth_min_degree, treewidth_min_fill_in

import fitonce as fo
from fitonce.data.datasets import load_map
from fitonce.engines.order_search import best_order
from fitonce.engines.orders import StateGraph

_BYTES = 16  # for an entry: what `fo.plan` counts


def grid(rows: int, columns: int) -> nx.Graph:
    """Squares, four neighbours each."""
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns))


def hexagons(rows: int, columns: int) -> nx.Graph:
    """Six neighbours each: odd rows are half a cell to the right."""
    found = grid(rows, columns)
    for row in range(1, rows):
        side = 1 if row % 2 else -1
        for column in range(columns):
            if 0 <= column + side < columns:
                found.add_edge(row * columns + column, (row - 1) * columns + column + side)
    return found


def graphs() -> Iterator[tuple[str, nx.Graph]]:
    """Four lattices, two of hexagons, two irregular maps."""
    for rows, columns in ((18, 50), (40, 25), (20, 20), (16, 16)):
        yield f"grid {rows} x {columns}", grid(rows, columns)
    for rows, columns in ((16, 20), (12, 30)):
        yield f"hexagons {rows} x {columns}", hexagons(rows, columns)
    for name, edges, sites in irregular():
        found = nx.empty_graph(sites)
        found.add_edges_from(edges.tolist())
        yield name, found


def irregular() -> Iterator[tuple[str, np.ndarray, int]]:
    """Census tracts of Albuquerque (in libpysal's wheel) and Philadelphia."""
    import libpysal  # only these need it

    tracts = fo.graph(libpysal.io.open(libpysal.examples.get_path("10740_queen.gal")).read())
    yield "Albuquerque", tracts.edges, tracts.n_sites
    philly = load_map("philly").graph
    yield "Philadelphia", philly.edges, philly.n_sites


def by_networkx(graph: nx.Graph) -> tuple[int, float]:
    """Width and bytes of the better one of its two heuristics."""
    found = []
    for heuristic in (treewidth_min_fill_in, treewidth_min_degree):
        width, tree = heuristic(graph)
        bags = {frozenset(bag) for bag in tree}
        largest = [bag for bag in bags if not any(bag < other for other in tree[bag])]
        found.append((_BYTES * sum(2.0 ** len(bag) for bag in largest), width))
    size, width = min(found)
    return width, size


def searched(graph: nx.Graph) -> tuple[int, float, str]:
    """Width, bytes and way of the order that is taken."""
    order = best_order(StateGraph((2,) * len(graph), list(graph.edges)))
    return order.width, _BYTES * order.entries, order.way


def timed(work: Callable[[nx.Graph], Any], graph: nx.Graph) -> tuple[Any, float]:
    """What it returns, and how long it takes."""
    start = time.process_time()
    return work(graph), time.process_time() - start


def main() -> None:
    print("two classes; width, tables in MiB and seconds to find the order")
    print(
        f"{'':<18}{'sites':>6}{'networkx: width':>17}{'MiB':>10}{'s':>7}{'now: width':>12}{'MiB':>10}{'s':>7}"
    )
    for name, graph in graphs():
        (old, before, *_), first = timed(by_networkx, graph)
        (new, after, way), second = timed(searched, graph)
        mib = [f"{size / 2**20:>10.3g}" for size in (before, after)]
        print(
            f"{name:<18}{len(graph):>6}{old:>17}{mib[0]}{first:>7.2f}{new:>12}{mib[1]}{second:>7.2f}  {way}",
            flush=True,
        )
