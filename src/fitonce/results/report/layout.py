"""Positions of the sites of a graph: given polygons, or a layout with neighbours close together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from fitonce.core.deferred import nx
from fitonce.data.geography import Geography, aspect_of
from fitonce.data.geojson import polygons_of
from fitonce.data.places import Names
from fitonce.results.report.points import integers
from fitonce.results.summary import FitSummary

_SPRINGS = 1500  # sites; each iteration of a spring layout visits all pairs
_GRIDS = tuple(2**power for power in range(14, 8, -1))  # steps across a map, the finest first
_MOST_LINKED = 20_000  # sites: among more, lines between neighbours are shorter than the dots
_MOST_CORNERS = 60_000  # of all outlines, which a coarser grid lowers
_NAMES = ("name", "NAME", "Name", "label", "GEOID", "geoid", "id")


Where = dict[str, Any] | Geography | None  # GeoJSON, or what a map file said


def packed(sites: int, edges: np.ndarray, where: Where) -> dict[str, Any]:
    """Outlines, or points and the edges between them, on a grid. y points up."""
    shapes = _shapes(where, sites)
    if shapes is not None:
        return _outlines(shapes)
    places = positions(sites, edges) if where is None else _points(where, sites)
    drawn = edges if sites <= _MOST_LINKED else edges[:0]
    return {"edges": integers(np.asarray(drawn).ravel()), **_on_grid(places, _GRIDS[0])}


def _shapes(where: Where, sites: int) -> list[list[np.ndarray]] | None:
    """The rings of each site; None of points."""
    if isinstance(where, Geography):
        shrunk = np.array([1.0 / where.aspect, 1.0])
        found = [[ring * shrunk for ring in shape] for shape in where.outlines()]
        return found if where.has_outlines else None
    if where is None or _are_points(where):
        return None
    shapes = polygons_of(where, sites, None, None)
    shrunk = _shrunk(np.concatenate([ring for shape in shapes for ring in shape]))
    return [[ring * shrunk for ring in shape] for shape in shapes]


def _points(where: dict[str, Any] | Geography, sites: int) -> np.ndarray:
    if isinstance(where, Geography):
        places = where.points * [1.0 / where.aspect, 1.0]
        return np.where(np.isfinite(places), places, np.nanmin(places, axis=0))
    listed = [feature["geometry"]["coordinates"][:2] for feature in where["features"]]
    if len(listed) != sites:
        raise ValueError(f"the map has {len(listed):,} features, but {sites:,} values are to be shown")
    places = np.asarray(listed, float)
    return places * _shrunk(places)


def _are_points(polygons: dict[str, Any]) -> bool:
    features = polygons.get("features") or [{}]
    return all((feature.get("geometry") or {}).get("type") == "Point" for feature in features)


def _shrunk(points: np.ndarray) -> np.ndarray:
    """Degrees as on a map: one of longitude is shorter than one of latitude."""
    return np.array([1.0 / aspect_of(points), 1.0])


def _on_grid(points: np.ndarray, steps: int) -> dict[str, Any]:
    """Coordinates as whole numbers."""
    whole = _rounded(points, steps)
    return {"x": integers(whole[:, 0]), "y": integers(whole[:, 1])}


def _rounded(points: np.ndarray, steps: int) -> np.ndarray:
    """Whole numbers, the wider direction from 0 to `steps`."""
    low = points.min(0)
    wide = float((points.max(0) - low).max()) or 1.0
    return np.rint((points - low) * (steps / wide)).astype(int)


def _outlines(shapes: list[list[np.ndarray]]) -> dict[str, Any]:
    """The rings of all sites, concatenated, with the start of each ring and of each site, as fine as the
    file may be large."""
    rings = [ring for shape in shapes for ring in shape]
    points, ends = np.concatenate(rings), np.cumsum([len(ring) for ring in rings])
    for steps in _GRIDS:
        drawn = [_corners(ring) for ring in np.split(_rounded(points, steps), ends[:-1])]
        if sum(map(len, drawn)) <= _MOST_CORNERS:
            break
    corners = np.concatenate(drawn)
    return {
        "x": integers(corners[:, 0]),
        "y": integers(corners[:, 1]),
        "rings": integers(_starts([len(ring) for ring in drawn])),
        "shapes": integers(_starts([len(shape) for shape in shapes])),
    }


def _corners(ring: np.ndarray) -> np.ndarray:
    """Without repeated points and those on a straight line between their neighbours; at least one."""
    ring = ring[np.concatenate([[True], (np.diff(ring, axis=0) != 0).any(1)])]
    if len(ring) < 4:
        return ring
    before, after = np.diff(ring[:-1], axis=0), np.diff(ring[1:], axis=0)
    turns = before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0]
    return ring[np.concatenate([[True], turns, [True]])]


def _starts(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)])


def named(fitted: FitSummary, polygons: dict[str, Any] | None) -> FitSummary:
    """With the names of the map, where the data have none."""
    if fitted.edges is None or polygons is None or (fitted.places and fitted.places.sites):
        return fitted
    names = _names_in(polygons)
    return fitted if names is None else replace(fitted, places=Names(("the map",), tuple(names)))


def where_of(fitted: FitSummary, polygons: dict[str, Any] | None) -> Where:
    """The polygons given, or what the data know."""
    return polygons if polygons is not None or fitted.places is None else fitted.places.geography


def _names_in(polygons: dict[str, Any]) -> list[str] | None:
    """The names of the sites in the file, if it has any."""
    known = [feature.get("properties") or {} for feature in polygons.get("features") or []]
    for key in _NAMES if known else ():
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
