"""Maps: sites with shapes, what was observed at each, and which of them are neighbours."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import naming, read_names, refusal, require, require_count, require_text
from fitonce.core.numerics import is_count, is_number
from fitonce.core.wording import counted, listed
from fitonce.data import neighbours as ways
from fitonce.data.alignment import are_called_alike
from fitonce.data.edge_files import edges_of
from fitonce.data.geography import Geography, SiteShape
from fitonce.data.graph import Graph, of_pairs
from fitonce.data.graph import graph as read_graph
from fitonce.data.map_columns import (
    observed_at,
    region_labels,
    require_column,
    site_names,
    with_covariates,
)
from fitonce.data.map_files import Layer, read_layer
from fitonce.data.map_join import chosen, conditions, joined
from fitonce.data.parts import require_called_once
from fitonce.data.places import Names
from fitonce.data.sequences import Sequences
from fitonce.data.table_files import decimal_of, read_table

_NEAREST = 4


@dataclass(frozen=True, eq=False)
class Map:
    """Sites on a map. `fo.models.PottsMixture(map)` and `fo.folds.regions(map, ...)` take it as their
    graph, `PottsMixture` with its exposure; `fo.fit(model, map.data)` has its data.

    Attributes:
        data: what was observed at each site, with names.
        graph: which sites are neighbours.
        exposure: (sites,) what counts are relative to; None: nothing. Where nothing can be observed (no
            exposure), data are missing and it is 1.
        table: the columns of the file, a row for each site.
        geography: where the sites lie; None: a table without coordinates.
        notes: how the file was read, in sentences.
    """

    data: Sequences
    graph: Graph
    exposure: np.ndarray | None
    table: pd.DataFrame = field(repr=False)
    geography: Geography | None = field(repr=False)
    notes: list[str] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the sites."""
        sites = self.data.names.sites if self.data.names is not None else None
        return sites or tuple(f"site {number}" for number in range(self.graph.n_sites))

    @property
    def regions(self) -> tuple[str, ...] | None:
        """The label of each site's region, if a column was named."""
        return None if self.data.names is None else self.data.names.regions

    def __repr__(self) -> str:
        missing = int((self.data.weights == 0).sum())
        lines = [f"Map of {counted(self.graph.n_sites, 'site')}, {missing:,} missing"]
        return "\n  ".join([*lines, *self.notes])


def read_map(
    path: Any,
    counts: str,
    *,
    exposure: str | None = None,
    covariates: str | Sequence[str] = (),
    names: str | Sequence[str] | None = None,
    neighbours: Any = None,
    nearest: int | None = None,
    within: str | float | None = None,
    join: Any = None,
    where: str | None = None,
    layer: str | None = None,
    coordinates: tuple[str, str] | None = None,
    regions: str | None = None,
    missing: float | None = None,
    decimal: str | None = None,
) -> Map:
    """Read a map: polygons or points with columns, one feature for each site.

    Args:
        path: GeoJSON, which needs no other package; GeoPackage (.gpkg), shapefile (.shp, or zipped) or
            FlatGeobuf (.fgb), which need pyogrio; a table with `coordinates`; a GeoDataFrame; or the
            content of a GeoJSON file.
        counts: the column to model.
        exposure: the column that counts are relative to, such as population or births.
        covariates: columns that regressions read by name, such as
            `PoissonRegression(["income"])`; every site must have a number in each.
        names: the column that names sites, or several that do together; None: one that looks like it.
        neighbours: "contiguity" (polygons that touch), "rook" (in more than a corner), "distance",
            "nearest", "delaunay", a file of pairs, or what `fo.graph` reads; None: contiguity of
            polygons, delaunay of points.
        nearest: how many nearest sites, for "nearest"; 4.
        within: the distance of "distance": "20 km", "500 m", "1500 units" or a number, which is in km
            where coordinates are degrees and in units of the map elsewhere. Distances are between points
            or centres of polygons, along the earth where coordinates are degrees.
        join: a table (a file or a DataFrame) with further columns, a row for each site, found by names
            or codes that both have.
        where: which rows to take, such as "year = 2018": of the joined table or else of the map.
        layer: the name of the layer in a file of several.
        coordinates: the columns x and y (longitude and latitude) of a table.
        regions: a column that says in which region each site lies, for `fo.folds.regions`.
        missing: a number that also means missing.
        decimal: the decimal mark of a text file; None: detected.
    """
    texts = {
        "exposure": exposure,
        "where": where,
        "layer": layer,
        "regions": regions,
        "decimal": decimal,
    }
    _check(path, counts, texts, nearest, within, join, coordinates, missing)
    known_by = (covariates,) if isinstance(covariates, str) else read_names("covariates", covariates)
    called_by = (
        () if names is None else (names,) if isinstance(names, str) else read_names("names", names)
    )
    with naming("path"):
        found = read_layer(path, layer, coordinates, decimal_of(path, join, decimal))
    with naming("join and where"):
        found = _chosen_rows(found, join, where, decimal_of(join, path, decimal))
    table = found.table
    given = {"counts": counts, "exposure": exposure, "regions": regions}
    several = {"names": called_by, "covariates": known_by}
    each = [(argument, one) for argument, columns in several.items() for one in columns]
    for argument, column in (*given.items(), *each):
        with naming(argument):
            require_column(table, column)
    notes = list(found.notes)
    called, column = site_names(
        table,
        names if isinstance(names, str) else called_by or None,
        (counts, exposure, regions, *known_by),
        notes,
    )
    data, known = observed_at(table, counts, exposure, missing, called, notes)
    with naming("covariates"):
        data = with_covariates(data, table, known_by, called, notes)
    geography = None
    if found.shapes is not None:
        geography = Geography.of(found.shapes, found.degrees, found.metres)
    with naming("neighbours, nearest and within"):
        links = _graph(neighbours, nearest, within, found.shapes, geography, table, called, notes)
    if column is not None:
        notes.append(f"sites are named by {column}")
        links = replace(links, names=called if len(set(called)) == len(called) else None)
    labels = None if regions is None else region_labels(table[regions], called)
    data = replace(data, names=Names(("the map",), called, geography, labels))
    return Map(data, links, known, table, geography, notes)


def _check(
    path: Any,
    counts: Any,
    texts: dict[str, Any],
    nearest: Any,
    within: Any,
    join: Any,
    coordinates: Any,
    missing: Any,
) -> None:
    """Arguments of `read_map` that need no file to be judged; `texts`: those that are text or None."""
    for name, text in texts.items():
        require_text(name, text, optional=True)
    require_text("counts", counts)
    require_count("nearest", nearest, 1, 10**6, optional=True)
    require(missing is None or is_number(missing), "missing", "a number or None", missing)
    near = within is None or isinstance(within, str) or is_number(within)
    require(near, "within", "a distance such as '20 km', a number or None", within)
    if coordinates is not None and len(read_names("coordinates", coordinates, "two columns")) != 2:
        raise refusal("coordinates", "a list of two columns", coordinates)
    fine = isinstance(path, (dict, str, os.PathLike)) or hasattr(path, "geometry")
    require(fine, "path", "a file, a GeoDataFrame or the content of a GeoJSON file", path)
    tabular = join is None or isinstance(join, (str, os.PathLike, pd.DataFrame, Mapping))
    require(tabular, "join", "a file, a table or None", join)


def _chosen_rows(found: Layer, join: Any, where: str | None, decimal: str | None) -> Layer:
    """The layer with the columns of the joined table, both restricted by the conditions."""
    other, called = None, ""
    if join is not None:
        by_file = isinstance(join, (str, os.PathLike))
        other = read_table(join, decimal) if by_file else pd.DataFrame(join).reset_index(drop=True)
        called = Path(join).name if by_file else "the table"
        require_called_once(other, called)
    table, shapes, notes = found.table, found.shapes, list(found.notes)
    for column, sign, value in conditions(where) if where is not None else ():
        inner = other is not None and column in other.columns
        target = other if inner and other is not None else table
        require_column(target, column)
        keep = chosen(target, column, sign, value)
        if not keep.any():
            raise ValueError(
                f"no row has {column} {sign} {value}; it has {listed(target[column].unique(), 5)}"
            )
        if inner and other is not None:
            other = other[keep].reset_index(drop=True)
        else:
            table = table[keep].reset_index(drop=True)
            shapes = None if shapes is None else [s for s, k in zip(shapes, keep, strict=True) if k]
        notes.append(f"{keep.sum():,} of {counted(len(keep), 'row')} have {column} {sign} {value}")
    if other is not None:
        table, more = joined(table, other, called)
        notes += more
    return replace(found, table=table, shapes=shapes, notes=notes)


def _graph(
    how: Any,
    count: int | None,
    within: str | float | None,
    shapes: list[SiteShape] | None,
    where: Geography | None,
    table: pd.DataFrame,
    called: tuple[str, ...],
    notes: list[str],
) -> Graph:
    """The neighbours, with a note on who has none."""
    if how is None:
        given = "distance" if within is not None else "nearest" if count is not None else None
        area = where is not None and where.has_outlines
        how = given or ("contiguity" if area else "delaunay")
    if isinstance(how, (str, os.PathLike)) and str(how) not in ways.WAYS:
        return _from_file(how, table, called, notes)
    if not isinstance(how, str):
        found = read_graph(how)
        if found.n_sites != len(table):
            raise ValueError(f"the graph has {found.n_sites:,} sites, the map has {len(table):,}")
        return _by_name(found, called)
    if shapes is None or where is None:
        raise ValueError(
            f"neighbours by {how} need shapes, got a table; give coordinates (--coordinates X,Y) or a "
            "file of neighbours (--edges)"
        )
    if within is not None and how != "distance":
        raise ValueError(f"within is for neighbours by distance, got {how}")
    if count is not None and how != "nearest":
        raise ValueError(f"nearest is for neighbours by nearest, got {how}")
    pairs, said = _pairs(how, count, within, shapes, where)
    links = of_pairs(pairs, len(table))
    notes.append(f"neighbours by {said}: {links.said}")
    _say_twins(shapes, called, notes)
    _say_alone(links, where, called, notes)
    return links


def _by_name(links: Graph, called: tuple[str, ...]) -> Graph:
    """A graph whose sites have the names of the map, in the order of the map."""
    sites, places = pd.Index(links.names or (), tupleize_cols=False), pd.Index(called)
    if not places.is_unique or not are_called_alike(sites, places):
        return links
    lacking = places.difference(sites.map(str), sort=False)
    if len(lacking):
        raise ValueError(f"the graph must have all sites of the map, but has no '{lacking[0]}'")
    return of_pairs(places.get_indexer(sites.map(str))[links.edges], links.n_sites)


def _pairs(
    how: str, count: int | None, within: Any, shapes: list[SiteShape], where: Geography
) -> tuple[np.ndarray, str]:
    if how in ("contiguity", "rook"):
        if not where.has_outlines:
            raise ValueError(f"{how} needs polygons, got points; take distance, nearest or delaunay")
        return ways.contiguous(shapes, sides=how == "rook"), how
    if how == "distance":
        if within is None:
            raise ValueError("neighbours by distance need within (--within), such as '20 km'")
        far = where.distance_of(within)
        near = ways.within(where, far)
        if not len(near):
            apart = f"the nearest two are {ways.least_distance(where):.3g} {where.unit} apart"
            raise ValueError(f"no two sites are within {far:g} {where.unit} of each other; {apart}")
        return near, f"distance up to {far:g} {where.unit}"
    if how == "nearest":
        count = _NEAREST if count is None else count
        if not is_count(count):
            raise ValueError(f"nearest must be an integer of at least 1, got {count!r}")
        return ways.nearest(where, count), f"the {count} nearest"
    return ways.triangulated(where), "delaunay's triangulation"


def _say_twins(shapes: list[SiteShape], called: tuple[str, ...], notes: list[str]) -> None:
    """Sites with one shape are all neighbours of each other, and mostly a mistake of the file."""
    alike: dict[bytes, list[str]] = {}
    for shape, name in zip(shapes, called, strict=True):
        if np.isfinite(shape.point).all():
            ends = [len(ring).to_bytes(8, "little") + ring.tobytes() for ring in shape.rings]
            alike.setdefault(b"".join(ends) or shape.point.tobytes(), []).append(name)
    twins = sorted((names for names in alike.values() if len(names) > 1), key=len, reverse=True)
    if twins:
        more = f"; so have {sum(map(len, twins[1:])):,} others, by twos or more" if twins[1:] else ""
        notes.append(f"these {len(twins[0]):,} have one and the same shape: {listed(twins[0], 5)}{more}")


def _say_alone(links: Graph, where: Geography, called: tuple[str, ...], notes: list[str]) -> None:
    nowhere = ~np.isfinite(where.points).all(1)
    if nowhere.any():
        notes.append(f"without a shape, so without neighbours: {listed(np.array(called)[nowhere], 5)}")
    alone = (np.bincount(links.edges.ravel(), minlength=links.n_sites) == 0) & ~nowhere
    if alone.any():
        who = listed(np.array(called)[alone], 5)
        notes.append(f"without neighbours, so left to themselves: {who}")


def _from_file(
    path: str | os.PathLike[str], table: pd.DataFrame, called: tuple[str, ...], notes: list[str]
) -> Graph:
    """From a file of pairs, by number or by any name that a column has."""
    if not Path(path).is_file():
        raise ValueError(
            f"neighbours must be one of {', '.join(ways.WAYS)} or a file of pairs, got '{path}', which "
            "is no file"
        )
    sites = pd.concat([table, pd.Series(called, name="the names of the sites")], axis=1)
    plain = [c for c in sites.columns if sites[c].dtype.kind != "f"]
    pairs, _ = edges_of(Path(path), sites[plain])
    links = read_graph(pairs, len(table))
    notes.append(f"neighbours from {Path(path).name}: {links.said}")
    return links
