"""Shapes from well-known binary, the form in which GeoPackages and shapefiles are read."""

from __future__ import annotations

import struct

import numpy as np

from fitonce.data.geography import NOWHERE, SiteShape, area_of, oriented

_POINT, _POLYGON, _MULTIPOINT, _MULTIPOLYGON = 1, 3, 4, 6
_OTHERS = {2: "LineString", 5: "MultiLineString", 7: "GeometryCollection"}
_HAS_Z, _HAS_M, _HAS_SRID = 0x80000000, 0x40000000, 0x20000000  # flags of extended WKB


def shape_of_wkb(content: bytes | None, number: int) -> SiteShape:
    """A polygon or a point; without content, or with an empty one, it is nowhere."""
    if content is None or len(content) == 0:
        return NOWHERE
    kind, rings, points = _geometry(memoryview(bytes(content)), 0, number)[:3]
    if kind in (_POLYGON, _MULTIPOLYGON):
        return area_of(rings) if rings else NOWHERE
    known = np.array(points).reshape(-1, 2)
    known = known[np.isfinite(known).all(1)]
    return SiteShape((), known.mean(0)) if len(known) else NOWHERE


def _geometry(
    content: memoryview, at: int, number: int
) -> tuple[int, list[np.ndarray], list[np.ndarray], int]:
    """Kind, rings, points, and where the geometry ends."""
    order = "<" if content[at] == 1 else ">"
    code = struct.unpack_from(f"{order}I", content, at + 1)[0]
    at += 9 if code & _HAS_SRID else 5
    plain = code & 0x1FFFFFFF
    kind, extra = plain % 1000, plain // 1000
    axes = 2 + (extra == 3 or extra in (1, 2)) + (extra == 3)
    axes += bool(code & _HAS_Z) + bool(code & _HAS_M)
    if kind == _POINT:
        point = np.frombuffer(content, f"{order}f8", axes, at)[:2]
        return kind, [], [point], at + 8 * axes
    if kind not in (_POLYGON, _MULTIPOINT, _MULTIPOLYGON):
        got = _OTHERS.get(kind, f"kind {kind}")
        raise ValueError(f"feature {number} must be a polygon or a point, got {got}")
    count = struct.unpack_from(f"{order}I", content, at)[0]
    at += 4
    rings: list[np.ndarray] = []
    points: list[np.ndarray] = []
    for place in range(count):
        if kind == _POLYGON:
            size = struct.unpack_from(f"{order}I", content, at)[0]
            corners = np.frombuffer(content, f"{order}f8", size * axes, at + 4).reshape(size, axes)
            at += 4 + 8 * size * axes
            if size >= 3:
                rings.append(oriented(corners[:, :2].astype(float), place > 0))
        else:
            _, some, others, at = _geometry(content, at, number)
            rings, points = rings + some, points + others
    return kind, rings, points, at
