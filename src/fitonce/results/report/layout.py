"""Where the sites of a graph are drawn: inside polygons, or near their neighbours."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
from scipy import sparse

from fitonce.data.geojson import polygons_of
from fitonce.results.report.points import floats, integers

_SPRINGS = 1500  # sites; each round of springs looks at all pairs
_NAMES = ("name", "NAME", "Name", "label", "GEOID", "geoid", "id")


def packed(sites: int, edges: np.ndarray, polygons: dict[str, Any] | None) -> dict[str, Any]:
    """Outlines, or points and the edges between them. y goes up."""
    if polygons is not None:
        return _outlines(polygons, sites)
    places = positions(sites, edges)
    return {"x": floats(places[:, 0]), "y": floats(places[:, 1]), "edges": integers(edges.ravel())}


def _outlines(polygons: dict[str, Any], sites: int) -> dict[str, Any]:
    """Rings of all sites one after another, with where each ring and each site begins."""
    shapes = polygons_of(polygons, sites, None, None)
    rings = [ring for shape in shapes for ring in shape]
    points = np.concatenate(rings)
    points = (points - points.min(0)) * [_east(points), 1.0]
    return {
        "x": floats(points[:, 0]),
        "y": floats(points[:, 1]),
        "rings": integers(_starts([len(ring) for ring in rings])),
        "shapes": integers(_starts([len(shape) for shape in shapes])),
        "names": _names(polygons["features"]),
    }


def _starts(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)])


def _east(points: np.ndarray) -> float:
    """Of degrees a step east is shorter than a step north, away from the equator."""
    x, y = points.T
    degrees = np.abs(x).max() <= 180 and np.abs(y).max() <= 90 and np.ptp(x) > 1e-3 and np.ptp(y) < 60
    return float(np.cos(np.radians(y.mean()))) if degrees else 1.0


def _names(features: list[Any]) -> list[str] | None:
    """What the file calls its sites, where it does."""
    known = [feature.get("properties") or {} for feature in features]
    for key in _NAMES:
        if all(key in properties for properties in known):
            return [str(properties[key]) for properties in known]
    return None


def positions(sites: int, edges: np.ndarray) -> np.ndarray:
    """(sites, 2): neighbours near each other, the same for the same graph every time."""
    drawn: nx.Graph = nx.Graph()
    drawn.add_nodes_from(range(sites))
    drawn.add_edges_from(np.asarray(edges).tolist())
    if sites <= 3:
        found = nx.circular_layout(drawn)
    elif sites <= _SPRINGS:
        start = _spectral(sites, edges) if nx.is_connected(drawn) else None
        begun = None if start is None else dict(enumerate(start))
        found = nx.spring_layout(drawn, pos=begun, seed=0, iterations=100, k=1.5 / np.sqrt(sites))
    else:
        return _spectral(sites, edges)
    return np.array([found[site] for site in range(sites)])


def _spectral(sites: int, edges: np.ndarray) -> np.ndarray:
    """The two slowest modes of the graph, each between -1 and 1."""
    i, j = np.asarray(edges).T
    matrix = sparse.coo_array((np.ones(len(edges)), (i, j)), shape=(sites, sites)).tocsr()
    matrix = matrix + matrix.T
    laplacian = sparse.csc_array(sparse.diags_array(matrix.sum(1)) - matrix)
    if sites <= _SPRINGS:
        modes = np.linalg.eigh(laplacian.toarray())[1][:, 1:3]
    else:
        begin = np.cos(np.arange(sites))  # fixed, so that the map is the same every time
        modes = sparse.linalg.eigsh(laplacian, 3, sigma=-1e-3, v0=begin)[1][:, 1:3]
    return modes / np.abs(modes).max(0)
