"""Polygons of sites, read from GeoJSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fitonce.core.wording import counted
from fitonce.core.writing import existing


def polygons_of(where: Any, count: int, key: str | None, names: Any) -> list[list[np.ndarray]]:
    """The rings of each site, arrays (points, 2): outlines and holes of all its polygons."""
    if not isinstance(where, dict):
        path = existing(where, "a GeoJSON file")
        try:
            where = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise ValueError(f"{path.name} must be GeoJSON, but is not JSON") from None
    if not isinstance(where, dict) or not isinstance(where.get("features"), list):
        raise ValueError("GeoJSON must be a FeatureCollection, got no list of 'features'")
    features = [feature if isinstance(feature, dict) else {} for feature in where["features"]]
    if key is not None:
        features = _in_order(features, key, names)
    if len(features) != count:
        raise ValueError(f"the map has {len(features):,} features, but {count:,} values are to be shown")
    return [_rings(feature.get("geometry") or {}, number) for number, feature in enumerate(features)]


def _in_order(features: list[Any], key: str, names: Any) -> list[Any]:
    if names is None:
        raise ValueError(f"key='{key}' needs names=, the sites' names in order")
    named = {str((feature.get("properties") or {}).get(key)): feature for feature in features}
    if len(named) < len(features):
        shared = len(features) - len(named)
        raise ValueError(f"key='{key}' must be unique to each feature, but {shared} share a value")
    lost = [str(name) for name in names if str(name) not in named]
    if lost:
        raise ValueError(f"no feature has {key}='{lost[0]}' ({counted(len(lost), 'name')} not found)")
    return [named[str(name)] for name in names]


def _rings(geometry: dict[str, Any], number: int) -> list[np.ndarray]:
    kind, content = geometry.get("type"), geometry.get("coordinates", [])
    if kind == "Polygon":
        content = [content]
    elif kind != "MultiPolygon":
        raise ValueError(f"feature {number} must be a Polygon or MultiPolygon, got {kind}")
    try:
        return [_ring(points, place > 0) for polygon in content for place, points in enumerate(polygon)]
    except (TypeError, ValueError, IndexError):
        raise ValueError(f"feature {number} needs rings of coordinates, got {content!r:.60}") from None


def _ring(points: Any, is_hole: bool) -> np.ndarray:
    """Outlines counterclockwise and holes clockwise: otherwise holes are drawn filled."""
    ring = np.asarray(points, float)[:, :2]
    if len(ring) < 3:
        raise ValueError
    x, y = ring.T
    area = np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])
    return ring if (area < 0) == is_hole else ring[::-1]
