"""Polygons of sites, read from GeoJSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any
import json
import numpy as np


def polygons_of(where: Any, count: int, key: str | None, names: Any) -> list[list[np.ndarray]]:
    """For each site its rings: outlines and holes of all its parts."""
    if not isinstance(where, dict):
        path = Path(where)
        if not path.is_file():
            raise ValueError(f"expected a GeoJSON file, found none at {path}")
        try:
            where = json.loads(path.read_text())
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise ValueError(f"{path.name} must be GeoJSON, but is not JSON") from None
    if not isinstance(where, dict) or not isinstance(where.get("features"), list):
        raise ValueError("GeoJSON must be a FeatureCollection, got something without 'features'")
    features = [feature if isinstance(feature, dict) else {} for feature in where["features"]]
    if key is not None:
        features = _in_order(features, key, names)
    if len(features) != count:
        raise ValueError(f"the map has {len(features):,} features, what to show has {count:,} sites")
    return [_rings(feature.get("geometry") or {}, number) for number, feature in enumerate(features)]


def _in_order(features: list[Any], key: str, names: Any) -> list[Any]:
    if names is None:
        raise ValueError(f"key='{key}' needs names=, the sites' names in order")
    found = {str((feature.get("properties") or {}).get(key)): feature for feature in features}
    if len(found) < len(features):
        shared = len(features) - len(found)
        raise ValueError(f"key='{key}' must name each feature, but {shared} share a name")
    lost = [str(name) for name in names if str(name) not in found]
    if lost:
        raise ValueError(f"no feature has {key}='{lost[0]}' ({len(lost)} of the names are not found)")
    return [found[str(name)] for name in names]


def _rings(geometry: dict[str, Any], number: int) -> list[np.ndarray]:
    kind, content = geometry.get("type"), geometry.get("coordinates", [])
    if kind == "Polygon":
        content = [content]
    elif kind != "MultiPolygon":
        raise ValueError(f"feature {number} must be a Polygon or MultiPolygon, got {kind}")
    try:
        rings = [[_outline(ring) for ring in polygon] for polygon in content]
    except (TypeError, ValueError, IndexError):
        raise ValueError(
            f"feature {number} must have rings of coordinates, got {content!r:.60}"
        ) from None
    # An outline runs one way round and its holes the other, or the holes are filled.
    return [_wound(ring, hole=place > 0) for polygon in rings for place, ring in enumerate(polygon)]


def _outline(ring: Any) -> np.ndarray:
    points = np.asarray(ring, float)[:, :2]
    if len(points) < 3:
        raise ValueError
    return points


def _wound(ring: np.ndarray, hole: bool) -> np.ndarray:
    x, y = ring.T
    area = np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])
    return ring if (area < 0) == hole else ring[::-1]
