"""Layers of sites with shapes, from files: GeoJSON, GeoPackage, shapefile, tables with coordinates."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import listed
from fitonce.core.writing import existing
from fitonce.data.cells import as_numbers
from fitonce.data.geography import NOWHERE, SiteShape, maybe_degrees
from fitonce.data.geojson import content_of, read_features
from fitonce.data.parts import require_called_once
from fitonce.data.table_files import TABLES, read_table, require_decimal_mark
from fitonce.data.wkb import shape_of_wkb

GEOJSON = (".geojson", ".json")
OTHERS = (".gpkg", ".shp", ".zip", ".fgb")
_GEOGRAPHIC = re.compile(r"\s*(GEOGCS|GEOGCRS|GEODCRS)\b|(EPSG|OGC):\s*(4326|4269|4258|4267|CRS84)\s*$")
_UNITS = re.compile(r'UNIT\["[^"]*",\s*([0-9.eE+-]+)')


@dataclass(frozen=True, eq=False)
class Layer:
    """Sites with their columns and shapes.

    Attributes:
        table: a row for each site.
        shapes: one for each site; None: a table without coordinates.
        degrees: whether coordinates are longitude and latitude.
        metres: the length of a unit of projected coordinates; nan if unknown.
        notes: sentences on how the file was read.
    """

    table: pd.DataFrame
    shapes: list[SiteShape] | None
    degrees: bool = False
    metres: float = float("nan")
    notes: list[str] = field(default_factory=list)


def read_layer(
    path: Any, layer: str | None, coordinates: tuple[str, str] | None, decimal: str | None = None
) -> Layer:
    """A layer from a file, from the content of a GeoJSON file, or from a GeoDataFrame.

    Args:
        path: where it is.
        layer: its name, in a file of several.
        coordinates: columns of x and y (longitude and latitude), for tables.
        decimal: the decimal mark of a text file.
    """
    ending = "" if isinstance(path, dict) or hasattr(path, "geometry") else Path(path).suffix.lower()
    if coordinates is not None and ending not in TABLES:
        raise ValueError("coordinates are for a table; a map file has the shapes of its sites")
    if layer is not None and ending not in OTHERS:
        raise ValueError(f"layer is for files of several layers ({', '.join(OTHERS)}), got '{layer}'")
    require_decimal_mark(path, decimal)
    if hasattr(path, "geometry"):
        found = _from_frame(path)
    elif isinstance(path, dict) or ending in GEOJSON:
        found = _from_geojson(path)
    elif ending in OTHERS:
        found = _from_vector(existing(path, "a map file"), layer)
    elif ending in TABLES:
        found = _from_table(Path(path), coordinates, decimal)
    else:
        known = ", ".join((*GEOJSON, *OTHERS, *TABLES))
        raise ValueError(f"a map must end in one of {known}, got {Path(path).name}")
    require_called_once(found.table, _called(path))
    if not len(found.table):
        raise ValueError(f"{_called(path)} must have a feature for each site, got none")
    return found


def _called(path: Any) -> str:
    return "the map" if isinstance(path, dict) or hasattr(path, "geometry") else Path(path).name


def _from_geojson(path: Any) -> Layer:
    content = content_of(path)
    if isinstance(content, dict) and str(content.get("format", "")).startswith("fitonce "):
        raise ValueError(f"{Path(path).name} is a saved {content['format'][8:]}, not a map")
    table, shapes, degrees = read_features(content)
    return _judged(table, shapes, degrees, 1.0 if not degrees else float("nan"))


def _from_frame(frame: Any) -> Layer:
    shapes = [
        shape_of_wkb(None if one is None else one.wkb, number)
        for number, one in enumerate(frame.geometry)
    ]
    table = pd.DataFrame(frame.drop(columns=frame.geometry.name)).reset_index(drop=True)
    return _in_system(table, shapes, None if frame.crs is None else frame.crs.to_wkt())


def _from_vector(path: Path, layer: str | None) -> Layer:
    try:
        import pyogrio
    except ImportError:
        raise ValueError(
            f"{path.suffix} files need pyogrio: pip install 'fitonce[maps]'; GeoJSON needs nothing"
        ) from None
    where = _inside(path)
    try:
        names = [str(name) for name, _ in pyogrio.list_layers(where)]
    except Exception as error:  # GDAL has many
        raise ValueError(f"{path.name} is not a map that can be read: {_first_line(error)}") from None
    if not names:
        raise ValueError(f"{path.name} must have a layer of sites, got none")
    if layer is None and len(names) > 1:
        raise ValueError(
            f"{path.name} has several layers; choose one with layer (--layer): {listed(names)}"
        )
    if layer is not None and layer not in names:
        raise ValueError(f"{path.name} has no layer '{layer}', but {listed(names)}")
    try:
        about, _, geometry, columns = pyogrio.raw.read(where, layer=layer or names[0])
    except Exception as error:
        raise ValueError(f"{path.name} is not a map that can be read: {_first_line(error)}") from None
    named = zip(about["fields"], columns, strict=True)
    table = pd.DataFrame({str(name): _column(values) for name, values in named})
    if geometry is None:
        raise ValueError(f"layer '{layer or names[0]}' of {path.name} has no shapes")
    table = table if len(about["fields"]) else pd.DataFrame(index=range(len(geometry)))
    shapes = [shape_of_wkb(one, number) for number, one in enumerate(geometry)]
    return _in_system(table, shapes, about["crs"])


def _column(values: np.ndarray) -> Any:
    return values if values.dtype.kind != "O" else pd.Series(values).infer_objects()


def _inside(path: Path) -> str:
    """A shapefile in a ZIP archive is read from there."""
    if path.suffix.lower() != ".zip":
        return str(path)
    try:
        with zipfile.ZipFile(path) as archive:
            maps = [name for name in archive.namelist() if name.lower().endswith((".shp", ".gpkg"))]
    except zipfile.BadZipFile:
        raise ValueError(f"{path.name} must be a ZIP archive, but is not") from None
    maps = [name for name in maps if not name.startswith("__MACOSX")]
    if len(maps) != 1:
        raise ValueError(f"{path.name} must hold one shapefile, got {listed(maps) or 'none'}")
    return f"/vsizip/{path}/{maps[0]}"


def _from_table(path: Path, coordinates: tuple[str, str] | None, decimal: str | None) -> Layer:
    table = read_table(path, decimal)
    if coordinates is None:
        return Layer(table, None)
    for name in coordinates:
        if name not in table.columns:
            raise ValueError(f"'{name}' is not a column; columns are {listed(table.columns)}")
    places = table[list(coordinates)].apply(as_numbers).to_numpy(float)
    shapes = [NOWHERE if np.isnan(point).any() else SiteShape((), point) for point in places]
    return _judged(table, shapes, None, float("nan"))


def _in_system(table: pd.DataFrame, shapes: list[SiteShape], system: str | None) -> Layer:
    """`system`: of coordinates, as WKT or a code; None: not stated."""
    if system is None:
        return _judged(table, shapes, None, float("nan"))
    if _GEOGRAPHIC.match(system):
        return _judged(table, shapes, True, float("nan"))
    units = _UNITS.findall(system)
    metres = float(units[-1]) if units else _metres_of(system)
    return _judged(table, shapes, False, metres)


def _metres_of(system: str) -> float:
    """The length of a unit of a system given by its code, if pyproj is there to tell."""
    try:
        from pyproj import CRS
    except ImportError:
        return float("nan")
    return float(CRS(system).axis_info[0].unit_conversion_factor)


def _judged(table: pd.DataFrame, shapes: list[SiteShape], degrees: bool | None, metres: float) -> Layer:
    """Coordinates that are not stated, or cannot be what is stated, are told by their range."""
    every = np.array([shape.point for shape in shapes], float).reshape(-1, 2)
    known = every[np.isfinite(every).all(1)]
    possible = maybe_degrees(known)
    notes = []
    if degrees is None:
        degrees = possible
        words = "degrees of longitude and latitude" if possible else "lengths on a plane"
        notes.append(f"coordinates are taken as {words}: the file does not say what they are")
    elif degrees and len(known) and not possible:
        degrees = False
        notes.append("coordinates are beyond degrees of longitude and latitude: taken as lengths")
    return Layer(table, shapes, degrees, metres, notes)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["unknown"])[0]
