"""Rims of regions: sites that are left out with a region and not scored."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from fitonce.core.arguments import refusal, shown
from fitonce.core.numerics import is_count
from fitonce.core.wording import counted
from fitonce.data.geography import Geography
from fitonce.data.graph import Graph


def geography_of(*things: Any) -> Geography | None:
    """Where the sites of data, a map or a fit lie, if one of these things knows it."""
    for thing in things:
        for part in (thing, getattr(thing, "data", None)):
            known = getattr(getattr(part, "names", None), "geography", None)
            if isinstance(known, Geography):
                return known
    return None


def with_rim(
    graph: Graph, regions: list[np.ndarray], buffer: int | str, where: Geography | None
) -> tuple[list[np.ndarray], str]:
    """Each region with its rim, and the rim in words: hops (an integer), or a distance."""
    if isinstance(buffer, str):
        with suppress(ValueError):
            buffer = int(buffer)
    if isinstance(buffer, str):
        if where is None:
            need = "needs a map with shapes or coordinates; give hops"
            raise ValueError(f"buffer or within: a buffer of {shown(buffer)} {need}")
        far = where.distance_of(buffer)
        return [_near(region, where, far) for region in regions], f"{far:g} {where.unit}"
    if not is_count(buffer, 0):
        raise refusal("buffer", "a number of hops, or a distance such as '20 km'", buffer)
    hops = min(int(buffer), graph.n_sites)
    return [_around(region, graph, hops) for region in regions], counted(hops, "hop")


def _around(region: np.ndarray, graph: Graph, hops: int) -> np.ndarray:
    inside = np.zeros(graph.n_sites)
    inside[region] = 1.0
    for _ in range(hops):
        inside = inside + graph.matrix @ inside
        inside = (inside > 0).astype(float)
    return np.flatnonzero(inside)


def _near(region: np.ndarray, where: Geography, far: float) -> np.ndarray:
    positions = where.positions()
    known = np.isfinite(positions).all(1)
    members = region[known[region]]
    inside = np.zeros(len(positions), bool)
    inside[region] = True
    if len(members):
        apart = cKDTree(positions[members]).query(positions[known])[0]
        inside[np.flatnonzero(known)[apart <= where.reach(far) * (1 + 1e-12)]] = True
    return np.flatnonzero(inside)
