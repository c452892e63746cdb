"""Graphs of known shape, for elimination orders and what stands on them."""

from __future__ import annotations

import networkx as nx
import numpy as np
from benchmarks.orders import grid, hexagons
from scipy.spatial import Delaunay

__all__ = ["edges_of", "grid", "hexagons", "triangles"]


def triangles(sites, seed=0):
    """A triangulation of random points, as irregular maps are."""
    corners = Delaunay(np.random.default_rng(seed).random((sites, 2))).simplices
    found = nx.empty_graph(sites)
    for corner in corners.tolist():
        nx.add_cycle(found, corner)
    return found


def edges_of(graph):
    return tuple(tuple(sorted(edge)) for edge in sorted(graph.edges))
