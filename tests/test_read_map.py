"""Maps from files: shapes, neighbours, names, joined tables, and what is refused."""

from __future__ import annotations

import sys
import zipfile

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import fitonce as fo
from conftest import shared
from fitonce.cli import app
from fitonce.data import neighbours
from fitonce.data.geography import Geography, SiteShape, area_of
from fuzzing.strategies import seeds
from map_cases import wall, written


def pairs(edges):
    return set(map(tuple, np.sort(np.asarray(edges, int), 1).tolist()))


def named_pairs(found):
    return {(found.names[i], found.names[j]) for i, j in found.graph.edges}


def points(places, degrees=False):
    return Geography.of([SiteShape((), np.asarray(place, float)) for place in places], degrees)


# --- neighbours ------------------------------------------------------------------------------------


def test_squares_touch_in_corners_or_along_sides():
    queen = fo.read_map(wall(), "n")
    rook = fo.read_map(wall(), "n", neighbours="rook")
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4))
    assert pairs(rook.graph.edges) == pairs(list(grid.edges))
    assert len(queen.graph.edges) == len(grid.edges) + 2 * 2 * 3


def test_corners_on_sides_of_others_count():
    found = fo.read_map(wall(shift=0.37), "n")
    assert ("a1", "b0") in named_pairs(found)
    assert ("a1", "b1") in named_pairs(found)
    assert ("a0", "b1") not in named_pairs(found)
    assert pairs(found.graph.edges) == pairs(
        fo.read_map(wall(shift=0.37), "n", neighbours="rook").graph.edges
    )


@settings(max_examples=25, deadline=None)
@given(seeds, st.booleans())
def test_contiguity_is_that_of_shapely(seed, sides):
    shapely = pytest.importorskip("shapely")
    rng = np.random.default_rng(seed)
    cuts = [np.sort(rng.choice(12, rng.integers(1, 6), replace=False)) for _ in range(4)]
    boxes = [
        (x, y, after, y + 1)
        for y, cut in enumerate(cuts)
        for x, after in zip(np.append(-1, cut), np.append(cut, 12), strict=True)
    ]
    boxes = [box for box in boxes if rng.random() < 0.8] or boxes
    areas = [shapely.box(*box) for box in boxes]
    shapes = [area_of([np.asarray(area.exterior.coords)[::-1]]) for area in areas]
    expected = {
        (i, j)
        for j in range(len(areas))
        for i in range(j)
        if (areas[i].intersection(areas[j]).length > 0 if sides else areas[i].touches(areas[j]))
    }
    if len(shapes) > 1:
        assert pairs(neighbours.contiguous(shapes, sides)) == expected


def test_contiguity_of_a_real_map_is_that_of_libpysal():
    weights = pytest.importorskip("libpysal.weights")
    geopandas = pytest.importorskip("geopandas")
    tracts = shared("data", "philly", "philly_tracts_2010.geojson")
    found = fo.read_map(tracts, "ALAND10")
    edges = pd.read_csv(shared("data", "philly", "philly_edges.csv"))
    assert pairs(found.graph.edges) == pairs(edges[["i", "j"]])
    rook = fo.read_map(tracts, "ALAND10", neighbours="rook")
    theirs = weights.Rook.from_dataframe(geopandas.read_file(tracts), use_index=False)
    assert rook.graph == fo.graph(theirs)


def test_distances_are_along_the_earth_in_degrees():
    # One degree is 111.19 km along a meridian, and half of that along the parallel of 60 degrees.
    places = [(10.0, 60.0), (11.0, 60.0), (10.0, 61.0)]
    where = points(places, degrees=True)
    assert pairs(neighbours.within(where, 56.0)) == {(0, 1)}
    assert pairs(neighbours.within(where, 55.0)) == set()
    assert (0, 2) in pairs(neighbours.within(where, 111.2))
    assert (0, 2) not in pairs(neighbours.within(where, 111.1))
    assert where.distance_of("111200 m") == pytest.approx(111.2)
    assert pairs(neighbours.within(points(places), 1.0)) == {(0, 1), (0, 2)}


def test_nearest_and_triangulated_points_match_brute_force():
    rng = np.random.default_rng(3)
    places = rng.uniform(0, 1000, (40, 2))
    where = points(places)
    apart = np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1))
    near = np.argsort(apart, 1)[:, 1:4]
    assert pairs(neighbours.nearest(where, 3)) == pairs([(i, j) for i in range(40) for j in near[i]])
    found = nx.Graph(list(map(tuple, neighbours.triangulated(where))))
    # Each pair of mutually nearest sites is an edge, and the triangulation of 40 points is planar.
    assert all(found.has_edge(i, near[i, 0]) for i in range(40))
    assert nx.check_planarity(found)[0]
    assert found.number_of_edges() <= 3 * 40 - 6


def test_sites_at_one_point_are_not_their_own_neighbours():
    found = neighbours.nearest(points([(0, 0), (0, 0), (0, 0), (5, 5)]), 2)
    assert all(i != j for i, j in found)
    assert pairs(found) >= {(0, 1), (0, 2), (1, 2)}


# --- files -----------------------------------------------------------------------------------------


def test_all_kinds_of_files_hold_the_same_map(tmp_path):
    geopandas = pytest.importorskip("geopandas")
    path = written(wall(), tmp_path / "wall.geojson")
    frame = geopandas.read_file(path)
    frame.to_file(tmp_path / "wall.gpkg", layer="wall")
    frame.to_file(tmp_path / "wall.shp")
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        for part in tmp_path.glob("wall.[sdpc][hbrp]*"):
            archive.write(part, f"inside/{part.name}")
    plain = fo.read_map(path, "n", exposure="births", names="name")
    others = [frame, tmp_path / "wall.gpkg", tmp_path / "wall.shp", tmp_path / "zipped.zip"]
    for other in others:
        found = fo.read_map(other, "n", exposure="births", names="name")
        assert found.graph == plain.graph
        assert found.names == plain.names
        assert found.geography.degrees
        np.testing.assert_array_equal(found.data.values, plain.data.values)
        np.testing.assert_array_equal(found.exposure, plain.exposure)
        np.testing.assert_allclose(found.geography.points, plain.geography.points, atol=1e-9)
    frame.to_file(tmp_path / "wall.gpkg", layer="second")
    with pytest.raises(ValueError, match=r"has several layers; choose one .*wall, second"):
        fo.read_map(tmp_path / "wall.gpkg", "n")
    assert fo.read_map(tmp_path / "wall.gpkg", "n", layer="second").graph == plain.graph
    with pytest.raises(ValueError, match="no layer 'third', but wall, second"):
        fo.read_map(tmp_path / "wall.gpkg", "n", layer="third")


def test_units_of_projected_maps_are_known(tmp_path):
    geopandas = pytest.importorskip("geopandas")
    frame = geopandas.read_file(written(wall(at=(-75.2, 40.0)), tmp_path / "wall.geojson"))
    feet, metres = frame.to_crs(2272), frame.to_crs(32618)
    near = [
        fo.read_map(one, "n", neighbours="distance", within="9 km").graph
        for one in (frame, feet, metres)
    ]
    assert near[0] == near[1] == near[2]
    assert len(near[0].edges) == 9  # 8.5 km from west to east, 11.1 km from south to north


def test_without_pyogrio_a_shapefile_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "map.shp").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "pyogrio", None)
    with pytest.raises(
        ValueError, match=r"pyogrio: pip install 'fitonce\[maps\]'; GeoJSON needs nothing"
    ):
        fo.read_map(tmp_path / "map.shp", "n")


def test_a_table_of_points_has_coordinates(tmp_path):
    table = pd.DataFrame(
        {"well": list("pqrs"), "n": [3, 4, 5, 6], "lon": [0.0, 1, 0, 1], "lat": [0.0, 0, 1, 1.5]}
    )
    table.to_csv(tmp_path / "wells.csv", index=False)
    found = fo.read_map(tmp_path / "wells.csv", "n", coordinates=("lon", "lat"))
    assert found.names == tuple("pqrs")
    assert len(found.graph.edges) == 5
    assert any("delaunay" in note for note in found.notes)
    with pytest.raises(ValueError, match="need shapes, got a table; give coordinates"):
        fo.read_map(tmp_path / "wells.csv", "n", neighbours="nearest")
    with pytest.raises(ValueError, match="contiguity needs polygons, got points"):
        fo.read_map(tmp_path / "wells.csv", "n", coordinates=("lon", "lat"), neighbours="contiguity")


def test_pairs_from_a_file_by_name_or_code(tmp_path):
    edges = pd.DataFrame({"from": ["a0", "a1"], "to": ["a1", "b3"]})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    found = fo.read_map(wall(), "n", neighbours=tmp_path / "edges.csv")
    assert named_pairs(found) == {("a0", "a1"), ("a1", "b3")}
    with pytest.raises(
        ValueError, match=r"neighbours must be one of contiguity, .* 'nobody', which is no file"
    ):
        fo.read_map(wall(), "n", neighbours="nobody")


# --- names, joined tables, rows --------------------------------------------------------------------


def test_names_must_tell_sites_apart():
    content = wall()
    for feature in content["features"]:
        feature["properties"]["county"] = feature["properties"]["name"][1]
        feature["properties"]["row"] = feature["properties"]["name"][0]
    with pytest.raises(
        ValueError, match=r"'county' must name each site once, but '0' names 3; .*together would"
    ):
        fo.read_map(content, "n", names="county")
    assert fo.read_map(content, "n", names=("county", "row")).names[:2] == ("0, a", "1, a")
    assert fo.read_map(content, "n").names[:2] == ("a0", "a1")


def test_a_table_is_joined_by_what_it_shares_with_the_map(tmp_path):
    content = wall()
    rows = [
        {"unit": int(f["properties"]["code"]), "year": year, "cases": 10 * year + k}
        for k, f in enumerate(content["features"])
        for year in (1, 2)
    ]
    table = pd.DataFrame(rows).sample(frac=1.0, random_state=0)
    table.to_csv(tmp_path / "cases.csv", index=False)
    found = fo.read_map(content, "cases", join=tmp_path / "cases.csv", where="year = 2")
    np.testing.assert_array_equal(found.table["cases"], 20 + np.arange(12))
    assert "cases.csv is joined by 'unit' (here 'code')" in found.notes
    with pytest.raises(ValueError, match=r"cases.csv has 2 rows for unit 0, .*--where.*'year = [12]'"):
        fo.read_map(content, "cases", join=tmp_path / "cases.csv")
    few = fo.read_map(
        content, "cases", join=table[table["unit"] != 3], where="year = 1 and state = west"
    )
    assert few.graph.n_sites == 6
    lost = fo.read_map(content, "cases", join=table[table["unit"] != 3], where="year = 1")
    assert "003 of the map is not in the table: missing" in lost.notes
    assert np.flatnonzero(lost.data.weights == 0).tolist() == [3]
    with pytest.raises(ValueError, match="must have a column with the names or codes of the sites"):
        fo.read_map(content, "cases", join=table.assign(unit=-1))
    with pytest.raises(
        ValueError, match=r"is 4 of 12 sites \(by 'unit'; not there: 10, 11, 12 and 5 more\)"
    ):
        fo.read_map(content, "cases", join=table[table["unit"] < 5], where="year = 1")


def test_a_decimal_mark_is_of_the_text_file_among_two_and_no_other(tmp_path):
    path = written(wall(), tmp_path / "wall.geojson")
    table = pd.DataFrame({"code": [f["properties"]["code"] for f in wall()["features"]], "cases": "1,5"})
    table.to_csv(tmp_path / "cases.csv", sep=";", index=False)
    found = fo.read_map(path, "cases", join=tmp_path / "cases.csv", decimal=",")
    assert (found.table["cases"] == 1.5).all()
    table.assign(cases=1.5).to_parquet(tmp_path / "cases.parquet")
    for join in (None, tmp_path / "cases.parquet"):
        with pytest.raises(ValueError, match=r"decimal is for text files .*, got ',' for wall\.geojson"):
            fo.read_map(path, "n", join=join, decimal=",")
    words = [
        "fit",
        str(path),
        "--model",
        "potts-poisson",
        "--columns",
        "n",
        "--beta",
        "0.5",
        "--decimal",
        ",",
    ]
    done = CliRunner().invoke(app, words)
    assert "--decimal is for text files (.csv, .tsv, .txt), got wall.geojson" in done.stderr


def test_columns_of_a_map_that_are_called_alike_are_refused():
    geopandas = pytest.importorskip("geopandas")
    frame = geopandas.GeoDataFrame.from_features(wall())
    twice = frame.rename(columns={"births": "n"})
    with pytest.raises(ValueError, match="called differently, but 'n' occurs twice in the map"):
        fo.read_map(twice, "n")
    table = pd.DataFrame(twice.drop(columns="geometry"))
    with pytest.raises(ValueError, match="called differently, but 'n' occurs twice in the table"):
        fo.read_map(frame, "births", join=table)


# --- what is odd in maps that people have ----------------------------------------------------------


def test_islands_and_sites_without_a_shape_are_said():
    content = wall()
    content["features"][0]["geometry"] = None
    shape = content["features"][11]["geometry"]
    shape["coordinates"] = [[[x + 5.0, y] for x, y in shape["coordinates"][0]]]
    found = fo.read_map(content, "n")
    assert "without a shape, so without neighbours: a0" in found.notes
    assert "without neighbours, so left to themselves: c3" in found.notes
    fit = fo.fit(fo.models.PottsMixture(found, beta=0.5), found.data)
    assert np.isfinite(fo.loo(fit).estimate)


def test_sites_with_one_shape_are_named():
    content = wall()
    features = content["features"]
    copies = [{**features[0], "properties": {**features[0]["properties"]}} for _ in range(2)]
    alike = {**content, "features": [*features, *copies]}
    for number, feature in enumerate(alike["features"]):
        feature["properties"]["name"] = f"tract {number}"
    found = fo.read_map(alike, "n", names="name")
    assert "these 3 have one and the same shape: tract 0, tract 12, tract 13" in found.notes
    twice = {**alike, "features": [*alike["features"][:-1], *features[1:2]]}
    twice["features"][-1] = {**features[1], "properties": {**features[1]["properties"], "name": "b"}}
    (said,) = [note for note in fo.read_map(twice, "n", names="name").notes if "shape" in note]
    assert said.endswith("tract 0, tract 12; so have 2 others, by twos or more")
    assert not any("shape" in note for note in fo.read_map(wall(), "n").notes)


def test_a_model_of_a_map_has_the_exposure_of_the_map():
    found = fo.read_map(wall(), "n", exposure="births")
    explicit = fo.models.PottsMixture(found.graph, beta=0.5, exposure=found.exposure)
    model = fo.models.PottsMixture(found, beta=0.5)
    fit = fo.fit(model, found.data)
    assert fit.value == fo.fit(explicit, found.data).value
    assert "of exposure" in str(fit)
    np.testing.assert_array_equal(model.exposure, found.exposure)
    assert fo.models.PottsMixture(model, 3).exposure == fo.models.PottsMixture(fit, 3).exposure
    assert fo.models.PottsMixture(found, exposure=2.0).exposure == (2.0,) * len(found.exposure)
    assert fo.models.PottsMixture(found, emission=fo.models.Binomial(trials=99)).exposure is None
    assert fo.models.PottsMixture(found.graph).exposure is None
    with pytest.raises(ValueError, match=r"no exposure, but the sites have one; .* \(map.graph\)"):
        fo.models.PottsMixture(found, emission="gaussian")


def test_nobody_lives_there():
    content = wall()
    content["features"][2]["properties"] |= {"births": 0, "n": 0}
    found = fo.read_map(content, "n", exposure="births")
    assert "without births, so missing: a2" in found.notes
    assert np.flatnonzero(found.data.weights == 0).tolist() == [2]
    content["features"][2]["properties"]["n"] = 4
    with pytest.raises(
        ValueError, match="'births' must be positive where something was counted, got 0 at a2"
    ):
        fo.read_map(content, "n", exposure="births")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"counts": "deaths"}, "'deaths' is not a column; columns are name, code, n, births, state"),
        ({"counts": "N"}, "'N' is not a column; did you mean 'n'"),
        ({"counts": "state"}, "'state' must hold numbers, got 'west' at a0"),
        ({"exposure": "pop"}, "'pop' is not a column"),
        ({"neighbours": "distance"}, "need within"),
        ({"neighbours": "nearest", "nearest": 12}, "less than the 12 sites"),
        ({"neighbours": "rook", "within": "3 km"}, "within is for neighbours by distance, got rook"),
        (
            {"within": "1 m"},
            "no two sites are within 0.001 km of each other; the nearest two are 7.11 km",
        ),
        ({"within": "3 leagues"}, "a distance must be positive, such as '20 km'"),
        ({"within": "3 units"}, "the map is in degrees, so a distance must be in km, m or mi"),
        ({"where": "n > 10000"}, "no row has n > 10000"),
        ({"where": "n"}, "where must be such as 'year = 2018'"),
        ({"layer": "one"}, "layer is for files of several layers"),
        ({"coordinates": ("x", "y")}, "coordinates are for a table"),
        ({"decimal": ","}, "decimal is for text files .*, got ',' for the map"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fo.read_map(wall(), **{"counts": "n", **options})


def test_files_that_are_no_maps(tmp_path):
    empty = {"type": "FeatureCollection", "features": []}
    with pytest.raises(ValueError, match="the map must have a feature for each site, got none"):
        fo.read_map(empty, "n")
    line = wall(1, 1)
    line["features"][0]["geometry"] = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
    with pytest.raises(ValueError, match="feature 0 must be a Polygon or MultiPolygon, got LineString"):
        fo.read_map(line, "n")
    with pytest.raises(ValueError, match=r"a map must end in one of \.geojson"):
        fo.read_map(tmp_path / "map.kml", "n")
    pytest.importorskip("pyogrio")
    (tmp_path / "map.gpkg").write_bytes(b"no map")
    with pytest.raises(ValueError, match="is not a map that can be read"):
        fo.read_map(tmp_path / "map.gpkg", "n")
