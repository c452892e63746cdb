"""Where sites lie: their outlines or points, distances between them, and how they are drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_EARTH = 6_371_008.8  # metres, the mean radius
_STEPS = 1500  # of the grid on which outlines are drawn
_METRES = {"km": 1000.0, "m": 1.0, "mi": 1609.344}
_DISTANCE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(km|m|mi|units?)?\s*")


class SiteShape(NamedTuple):
    """Of one site: `rings`, arrays (corners, 2), outlines counterclockwise and holes clockwise; `point`
    (2,), where it lies, nan without a geometry."""

    rings: tuple[np.ndarray, ...]
    point: np.ndarray


NOWHERE = SiteShape((), np.full(2, np.nan))


def area_of(rings: Sequence[np.ndarray]) -> SiteShape:
    """The shape with these rings and its centre of mass."""
    total, moment = 0.0, np.zeros(2)
    origin = rings[0][0]
    for ring in rings:
        a, b = ring - origin, np.roll(ring, -1, 0) - origin
        cross = a[:, 0] * b[:, 1] - b[:, 0] * a[:, 1]
        total += 0.5 * float(cross.sum())
        moment += ((a + b) * cross[:, None]).sum(0) / 6.0
    point = origin + moment / total if total > 0 else np.concatenate(rings).mean(0)
    return SiteShape(tuple(rings), point)


def oriented(points: np.ndarray, is_hole: bool) -> np.ndarray:
    """Outlines counterclockwise and holes clockwise: otherwise holes are drawn filled."""
    x, y = points.T
    area = np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)
    return points if (area < 0) == is_hole else points[::-1]


@dataclass(frozen=True, eq=False)
class Geography:
    """Where V sites lie, for distances and for drawing.

    Attributes:
        points: (V, 2) a point of each site (the centre of mass of its outline), nan if unknown.
        corners: (P, 2) of all rings, on a fine grid.
        rings: (R + 1,) where each ring starts among the corners, and their end.
        shapes: (V + 1,) where each site starts among the rings, and their end.
        degrees: whether coordinates are longitude and latitude.
        metres: the length of a unit of projected coordinates; nan if unknown.
    """

    points: np.ndarray
    corners: np.ndarray
    rings: np.ndarray
    shapes: np.ndarray
    degrees: bool = False
    metres: float = float("nan")

    @classmethod
    def of(cls, shapes: Sequence[SiteShape], degrees: bool, metres: float = float("nan")) -> Geography:
        """Outlines are rounded to a grid on which neighbours keep their common corners."""
        points = np.array([shape.point for shape in shapes], float).reshape(-1, 2)
        every = [ring for shape in shapes for ring in shape.rings]
        low = np.min([ring.min(0) for ring in every], axis=0) if every else np.zeros(2)
        high = np.max([ring.max(0) for ring in every], axis=0) if every else np.zeros(2)
        step = max(float((high - low).max()), np.finfo(float).tiny) / _STEPS
        drawn = [_rounded(ring, low, step) for ring in every]
        corners = np.concatenate(drawn) if drawn else np.zeros((0, 2))
        starts = np.cumsum([0, *map(len, drawn)])
        return cls(
            points, corners, starts, np.cumsum([0, *(len(shape.rings) for shape in shapes)]), degrees,
            metres,
        )  # fmt: skip

    @property
    def has_outlines(self) -> bool:
        return len(self.corners) > 0

    @property
    def unit(self) -> str:
        """Of distances."""
        return "km" if self.degrees else "units of the map"

    def outlines(self) -> list[list[np.ndarray]]:
        """The rings of each site."""
        rings = np.split(self.corners, self.rings[1:-1]) if len(self.rings) > 1 else []
        return [rings[a:b] for a, b in zip(self.shapes[:-1], self.shapes[1:], strict=True)]

    @property
    def aspect(self) -> float:
        """Of a drawing: away from the equator, a degree of longitude is shorter than one of latitude."""
        latitude = self.points[np.isfinite(self.points).all(1), 1]
        if not self.degrees or not latitude.size or np.ptp(latitude) > 60:
            return 1.0
        return float(1.0 / np.cos(np.radians(latitude.mean())))

    @property
    def proportion(self) -> float:
        """Width over height of a drawing."""
        spots = self.corners if self.has_outlines else self.points
        wide, tall = np.nanmax(spots, axis=0) - np.nanmin(spots, axis=0)
        return float(np.clip(wide / max(tall * self.aspect, 1e-300), 0.2, 5.0))

    def positions(self) -> np.ndarray:
        """(V, 3 or 2) coordinates whose Euclidean distances stand for those on the map: in units of the
        map, or in km through the earth."""
        if not self.degrees:
            return self.points
        longitude, latitude = np.radians(self.points.T)
        flat = np.cos(latitude)
        around = [flat * np.cos(longitude), flat * np.sin(longitude), np.sin(latitude)]
        return _EARTH / 1000.0 * np.stack(around, 1)

    def reach(self, distance: float) -> float:
        """The distance between `positions` of points that lie this far apart on the map."""
        if not self.degrees:
            return distance
        radius = _EARTH / 1000.0
        return float(2.0 * radius * np.sin(min(0.5 * distance / radius, 0.5 * np.pi)))

    def along(self, straight: float) -> float:
        """Inverse of `reach`."""
        if not self.degrees:
            return straight
        radius = _EARTH / 1000.0
        return float(2.0 * radius * np.arcsin(min(0.5 * straight / radius, 1.0)))

    def distance_of(self, said: str | float) -> float:
        """A distance in `unit` from "20 km", "500 m", "3 mi", "1500 units" or a number of `unit`."""
        number, unit = read_distance(said)
        if unit == "":
            return number
        if unit == "units":
            if self.degrees:
                raise ValueError("the map is in degrees, so a distance must be in km, m or mi")
            return number
        if self.degrees:
            return number * _METRES[unit] / 1000.0
        if np.isnan(self.metres):
            raise ValueError(
                f"the map does not say how long its units are, so a distance must be such as "
                f"'{number:g} units', got '{said}'"
            )
        return number * _METRES[unit] / self.metres


def maybe_degrees(points: np.ndarray) -> bool:
    """Whether points (n, 2), of which there are some, may be longitudes and latitudes."""
    return bool(len(points) and (np.abs(points).max(0) <= (180.0, 90.0)).all())


def aspect_of(points: np.ndarray) -> float:
    """Of a drawing of points (n, 2) that may be in degrees, by their range: away from the equator, a
    degree of longitude is shorter than one of latitude."""
    wide, tall = np.ptp(points, axis=0)
    degrees = maybe_degrees(points) and tall < 60 and wide > 1e-3
    return float(1.0 / np.cos(np.radians(points[:, 1].mean()))) if degrees else 1.0


def read_distance(said: str | float) -> tuple[float, str]:
    """The number, and "km", "m", "mi", "units" or "" of a distance."""
    found = _DISTANCE.fullmatch(str(said))
    if isinstance(said, bool) or found is None or not float(found[1]) > 0:
        raise ValueError(f"a distance must be positive, such as '20 km' or '1500 units', got {said!r}")
    unit = found[2] or ""
    return float(found[1]), "units" if unit.startswith("unit") else unit


def _rounded(ring: np.ndarray, low: np.ndarray, step: float) -> np.ndarray:
    """Without corners that are the same on the grid; a ring that would vanish keeps its own."""
    grid = np.round((ring - low) / step)
    kept = np.any(grid != np.roll(grid, 1, 0), axis=1)
    return low + step * grid[kept] if kept.sum() >= 3 else ring
