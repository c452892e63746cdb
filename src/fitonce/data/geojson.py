"""Features of GeoJSON: their shapes and properties, read without other packages."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import shown
from fitonce.core.wording import counted
from fitonce.core.writing import existing
from fitonce.data.geography import NOWHERE, SiteShape, area_of, oriented

_DEGREES = ("CRS84", "4326", "4269", "4258")  # ends of names of coordinate systems in degrees


def read_features(where: Any) -> tuple[pd.DataFrame, list[SiteShape], bool]:
    """Properties and shapes of all features, and whether the file says or implies degrees.

    Args:
        where: a GeoJSON file or its content.
    """
    content = content_of(where)
    features = features_of(content)
    table = pd.DataFrame([feature.get("properties") or {} for feature in features])
    shapes = [_shape(feature.get("geometry"), number) for number, feature in enumerate(features)]
    return table.reset_index(drop=True), shapes, _in_degrees(content)


def content_of(where: Any) -> Any:
    """The content of a GeoJSON file."""
    if isinstance(where, (dict, list)):  # content; `features_of` refuses what is no collection
        return where
    path = existing(where, "a GeoJSON file")
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(f"{path.name} must be GeoJSON, but is not JSON") from None


def features_of(content: Any) -> list[dict[str, Any]]:
    """The features of a collection."""
    if not isinstance(content, dict) or not isinstance(content.get("features"), list):
        raise ValueError("GeoJSON must be a FeatureCollection, got no list of 'features'")
    return [feature if isinstance(feature, dict) else {} for feature in content["features"]]


def polygons_of(where: Any, count: int, key: str | None, names: Any) -> list[list[np.ndarray]]:
    """The rings of each site, arrays (points, 2): outlines and holes of all its polygons."""
    features: list[Any] = features_of(content_of(where))
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


def _in_degrees(content: dict[str, Any]) -> bool:
    """GeoJSON is in degrees unless it names another system, as its first edition allowed."""
    named = content.get("crs")
    name = (named.get("properties") or {}).get("name") if isinstance(named, dict) else None
    return name is None or str(name).endswith(_DEGREES)


def _shape(geometry: Any, number: int) -> SiteShape:
    """A polygon or a point; a feature without a geometry, or with an empty one, is nowhere."""
    if not isinstance(geometry, dict) or not geometry.get("coordinates"):
        return NOWHERE
    kind, content = geometry.get("type"), geometry["coordinates"]
    if kind in ("Point", "MultiPoint"):
        try:
            points = np.atleast_2d(np.asarray(content, float))[:, :2]
        except (TypeError, ValueError):
            points = np.full((1, 2), np.nan)
        if points.shape[1] < 2 or not np.isfinite(points).all():
            raise ValueError(f"feature {number} needs two coordinates, got {content!r:.60}")
        return SiteShape((), points.mean(0))
    return area_of(_rings(geometry, number))


def _rings(geometry: dict[str, Any], number: int) -> list[np.ndarray]:
    kind, content = geometry.get("type"), geometry.get("coordinates", [])
    if kind == "Polygon":
        content = [content]
    elif kind != "MultiPolygon":
        raise ValueError(f"feature {number} must be a Polygon or MultiPolygon, got {kind}")
    try:
        return [_ring(points, place > 0) for polygon in content for place, points in enumerate(polygon)]
    except (TypeError, ValueError, IndexError):
        raise ValueError(f"feature {number} needs rings of coordinates, got {shown(content)}") from None


def _ring(points: Any, is_hole: bool) -> np.ndarray:
    ring = np.asarray(points, float)[:, :2]
    if len(ring) < 3 or not np.isfinite(ring).all():
        raise ValueError
    return oriented(ring, is_hole)
