"""Positions of the sites of a graph: given polygons, or a layout with neighbours close together."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fitonce.core.deferred import nx
from fitonce.data.geojson import polygons_of
from fitonce.results.report.points import floats, integers

_SPRINGS = 1500  # sites; each iteration of a spring layout visits all pairs
_NAMES = ("name", "NAME", "Name", "label", "GEOID", "geoid", "id")


def packed(sites: int, edges: np.ndarray, polygons: dict[str, Any] | None) -> dict[str, Any]:
    """Outlines, or points and the edges between them. y points up."""
    if polygons is not None:
        return _outlines(polygons, sites)
    places = positions(sites, edges)
    return {"x": floats(places[:, 0]), "y": floats(places[:, 1]), "edges": integers(edges.ravel())}


def _outlines(polygons: dict[str, Any], sites: int) -> dict[str, Any]:
    """The rings of all sites, concatenated, with the start of each ring and of each site."""
    shapes = polygons_of(polygons, sites, None, None)
    rings = [ring for shape in shapes for ring in shape]
    points = np.concatenate(rings)
    x, y = points.T
    degrees = np.abs(x).max() <= 180 and np.abs(y).max() <= 90 and np.ptp(x) > 1e-3 and np.ptp(y) < 60
    shrink = float(np.cos(np.radians(y.mean()))) if degrees else 1.0  # a degree of longitude is shorter
    points = (points - points.min(0)) * [shrink, 1.0]
    return {
        "x": floats(points[:, 0]),
        "y": floats(points[:, 1]),
        "rings": integers(_starts([len(ring) for ring in rings])),
        "shapes": integers(_starts([len(shape) for shape in shapes])),
        "names": _names(polygons["features"]),
    }


def _starts(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)])


def _names(features: list[Any]) -> list[str] | None:
    """The names of the sites in the file, if it has any."""
    known = [feature.get("properties") or {} for feature in features]
    for key in _NAMES:
        if all(key in properties for properties in known):
            return [str(properties[key]) for properties in known]
    return None


def positions(sites: int, edges: np.ndarray) -> np.ndarray:
    """(sites, 2) a deterministic layout with neighbours close together."""
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
    """(sites, 2) the second and third eigenvectors of the graph Laplacian, scaled to [-1, 1]."""
    i, j = np.asarray(edges).T
    matrix = sparse.coo_array((np.ones(len(edges)), (i, j)), shape=(sites, sites)).tocsr()
    matrix = matrix + matrix.T
    laplacian = sparse.csc_array(sparse.diags_array(matrix.sum(1)) - matrix)
    if sites <= _SPRINGS:
        modes = np.linalg.eigh(laplacian.toarray())[1][:, 1:3]
    else:
        begin = np.cos(np.arange(sites))  # fixed, so that the layout is deterministic
        modes = sparse.linalg.eigsh(laplacian, 3, sigma=-1e-3, v0=begin)[1][:, 1:3]
    return modes / np.abs(modes).max(0)
