"""Graphs of known shape, for elimination orders and what stands on them."""

from __future__ import annotations

import networkx as nx
import numpy as np
from scipy.spatial import Delaunay


def grid(rows, columns):
    """Squares, four neighbours each."""
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns))


def hexagons(rows, columns):
    """Six neighbours each: odd rows are half a cell to the right."""
    found = grid(rows, columns)
    for row in range(1, rows):
        side = 1 if row % 2 else -1
        for column in range(columns):
            if 0 <= column + side < columns:
                found.add_edge(row * columns + column, (row - 1) * columns + column + side)
    return found


def triangles(sites, seed=0):
    """A triangulation of random points, as irregular maps are."""
    corners = Delaunay(np.random.default_rng(seed).random((sites, 2))).simplices
    found = nx.empty_graph(sites)
    for corner in corners.tolist():
        nx.add_cycle(found, corner)
    return found


def edges_of(graph):
    return tuple(tuple(sorted(edge)) for edge in sorted(graph.edges))
