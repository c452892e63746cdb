"""Maps: what they show, where, and what is refused."""

from __future__ import annotations

import json

import matplotlib as mpl
import networkx as nx
import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from conftest import shared
from fitonce.analysis.map_colours import shortened
from map_cases import wall

mpl.use("Agg")
GRID = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4))
COUNTS = np.array([3, 5, 2, 9, 4, 6, 11, 10, np.nan, 12, 9, 14])


def squares():
    """A GeoJSON of twelve unit squares, one of them in two parts with a hole."""
    features = []
    for site in range(12):
        x, y = site % 4, site // 4
        ring = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]
        hole = [[x + 0.4, y + 0.4], [x + 0.6, y + 0.4], [x + 0.6, y + 0.6], [x + 0.4, y + 0.4]]
        shape = {"type": "Polygon", "coordinates": [ring]}
        if site == 5:
            shape = {"type": "MultiPolygon", "coordinates": [[ring, hole], [ring]]}
        features.append({"type": "Feature", "properties": {"id": f"s{site}"}, "geometry": shape})
    return {"type": "FeatureCollection", "features": features}


@pytest.fixture(scope="module")
def fit():
    return fo.fit(fo.models.PottsMixture(GRID, beta=0.7), COUNTS)


@pytest.fixture(autouse=True)
def _close():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def colours(ax):
    return ax.collections[0].get_facecolors()


def test_polygons_take_the_colours_of_their_sites():
    ax = fo.plot_map(np.arange(12.0), squares())
    viridis = mpl.colormaps["viridis"]
    np.testing.assert_allclose(colours(ax)[[0, -1]], [viridis(0.0), viridis(1.0)])
    assert len(ax.collections[0].get_paths()) == 12


def test_features_are_matched_by_name():
    shuffled = squares()
    shuffled["features"] = shuffled["features"][::-1]
    names = [f"s{site}" for site in range(12)]
    ax = fo.plot_map(np.arange(12.0), shuffled, key="id", names=names)
    first = ax.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose(first.min(0), [0.0, 0.0])


def test_a_file_coordinates_and_the_graph_itself(tmp_path):
    path = tmp_path / "squares.geojson"
    path.write_text(json.dumps(squares()))
    values = pd.Series(np.arange(12.0), name="rate")
    places = np.stack([np.arange(12) % 4 + 0.5, np.arange(12) // 4 + 0.25], 1)
    for where in (path, str(path), places, GRID, fo.graph(GRID)):
        ax = fo.plot_map(values, where)
        assert len(colours(ax)) == 12
    assert ax.figure.axes[-1].get_ylabel() == "rate"


def test_data_classes_losses_and_influence(fit):
    grey = (0.85, 0.85, 0.85, 1.0)
    data = fo.plot_map(fit, squares(), show="data")
    np.testing.assert_allclose(colours(data)[8], grey)  # a missing site has no colour
    classes = fo.plot_map(fit, squares())
    assert [text.get_text() for text in classes.get_legend().get_texts()] == ["class 0", "class 1"]
    assert len({tuple(colour) for colour in colours(classes)}) == 2
    swept = fo.loo(fit)
    lost = fo.plot_map(swept, squares())
    np.testing.assert_allclose(colours(lost)[8], grey)
    worst = swept.pointwise.loc[swept.pointwise["loss"].idxmax(), "site"]
    np.testing.assert_allclose(colours(lost)[worst], mpl.colormaps["viridis"](1.0))
    effect = fo.influence(fit)
    for by in ("displacement", "rate", "loss"):
        moved = fo.plot_map(effect, squares(), show=by)
        most = effect.table.loc[effect.column(by).idxmax(), "site"]
        np.testing.assert_allclose(colours(moved)[most], mpl.colormaps["viridis"](1.0))


def test_a_hole_is_a_hole_whichever_way_it_runs():
    def square(a, b):
        return [[a, a], [b, a], [b, b], [a, b], [a, a]]

    shapes = [[square(1, 2)], [square(0, 3), square(1, 2)], [square(0, 3), square(1, 2)[::-1]]]
    for outer in shapes[1:]:
        features = [
            {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": c}}
            for c in (shapes[0], outer)
        ]
        ax = fo.plot_map(np.array([0.0, 1.0]), {"type": "FeatureCollection", "features": features})
        ring = ax.collections[0].get_paths()[1]
        areas = [
            np.sum(p[:-1, 0] * p[1:, 1] - p[1:, 0] * p[:-1, 1]) / 2 for p in np.split(ring.vertices, 2)
        ]
        assert areas == pytest.approx([9.0, -1.0])


def test_whole_coordinates_are_places_and_a_fit_has_a_graph_of_its_own(fit):
    grid = np.stack([np.arange(12) % 4, np.arange(12) // 4], 1)
    ax = fo.plot_map(np.arange(12.0), grid)
    np.testing.assert_allclose(ax.collections[0].get_offsets(), grid)
    assert len(colours(fo.plot_map(fit))) == 12
    assert len(colours(fo.plot_map(fo.loo(fit)))) == 12


def test_moves_of_a_parameter_have_colours_around_zero(fit):
    effect = fo.influence(fit)
    ax = fo.plot_map(effect, squares(), show="rate[0]")
    least = effect.table.loc[effect.table["rate[0]"].abs().idxmin(), "site"]
    np.testing.assert_allclose(colours(ax)[least][:3], mpl.colormaps["RdBu_r"](0.5)[:3], atol=0.1)


def test_limits_keep_extreme_sites_from_hiding_the_rest():
    ax = fo.plot_map(np.array([*range(11), 1e6]), squares(), limits=(0, 10))
    np.testing.assert_allclose(colours(ax)[[10, 11]], [mpl.colormaps["viridis"](1.0)] * 2)


def test_philadelphia():
    data = fo.datasets.load_map("philly", shared("data"))
    assert len(data.table) == data.graph.n_sites == 384
    assert len(data.graph.edges) == 1153
    assert data.table["violent"].sum() == 38392
    ax = fo.plot_map(data.table["violent"], data.polygons)
    assert len(colours(ax)) == 384
    assert ax.get_aspect() == pytest.approx(1 / np.cos(np.radians(40)), rel=0.01)


def test_infant_deaths():
    data = fo.datasets.load_map("sids2", shared("data"))
    assert len(data.table) == data.graph.n_sites == 100
    assert len(data.graph.edges) == 245
    assert data.table["SID74"].sum() == 667


def test_long_names_leave_the_map_its_size():
    assert shortened(["Wake", "Prince George's County, Maryland"]) == ["Wake", "Prince George's County…"]
    alike = [f"Census Tract of Philadelphia County {number}" for number in (101, 102)]
    assert [name[-4:] for name in shortened(alike)] == [" 101", " 102"]
    found = fo.read_map(wall(3, 8), "n")
    maps = []
    for names in (
        [f"a{k}" for k in range(24)],
        [f"{k} {'of a very long name ' * 9}" for k in range(24)],
    ):
        ax = fo.plot_map(np.arange(24.0), found, names=names, mark=5)
        ax.figure.canvas.draw()
        maps.append(ax.get_position().bounds)
        wide, tall = ax.get_position().size
        assert wide > 0.85  # of the figure
        assert tall > 0.6
    assert maps[0] == maps[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fit: fo.plot_map(np.ones((3, 4)), GRID), r"one value for each site, got shape \(3, 4\)"),
        (lambda fit: fo.plot_map("data", GRID), "must be numbers, got str"),
        (lambda fit: fo.plot_map(np.ones(12)), "where must be a map, a GeoJSON file"),
        (lambda fit: fo.plot_map(np.ones(5), GRID), "map has 12 sites, but 5 values are to be shown"),
        (lambda fit: fo.plot_map(np.ones(5), squares()), "12 features, but 5 values are to be shown"),
        (lambda fit: fo.plot_map(np.full(12, np.nan), GRID), "has no finite value"),
        (lambda fit: fo.plot_map(np.ones(12), GRID, show="class"), "show is for a fit"),
        (lambda fit: fo.plot_map(fit, GRID, show="loss"), "show must be 'data' or 'class'"),
        (lambda fit: fo.plot_map(np.ones(12), "nowhere.geojson"), "found none at nowhere.geojson"),
        (lambda fit: fo.plot_map(np.ones(12), {"type": "Point"}), "no list of 'features'"),
        (lambda fit: fo.plot_map(np.ones(12), __file__), "must be GeoJSON, but is not JSON"),
        (lambda fit: fo.plot_map(np.ones(12), squares(), key="id"), "needs names="),
        (
            lambda fit: fo.plot_map(np.ones(12), squares(), key="id", names=["x"] * 12),
            "no feature has id='x'",
        ),
        (lambda fit: fo.plot_map(fo.loo(fit), GRID, show="data"), "'loss', 'control', 'p' or 'ratio'"),
        (lambda fit: fo.plot_map(fo.influence(fit), GRID, show="mood"), "got 'mood'"),
    ],
)
def test_bad_maps(fit, call, message):
    with pytest.raises(ValueError, match=message):
        call(fit)


def test_a_joint_loss_is_not_on_the_map(fit):
    cv = fo.cross_validate(
        fit, fo.folds.spatial_kfold(GRID, 3), method="none", loss="joint", check=False
    )
    with pytest.raises(ValueError, match="belongs to folds"):
        fo.plot_map(cv, GRID)


def test_points_are_no_polygons():
    broken = squares()
    broken["features"][3]["geometry"] = {"type": "Point", "coordinates": [0, 0]}
    with pytest.raises(ValueError, match="feature 3 must be a Polygon or MultiPolygon, got Point"):
        fo.plot_map(np.ones(12), broken)


def test_broken_polygons_are_named():
    for rings in ([[[0, 0], [1, 1]]], [0, 1], None):
        broken = squares()
        broken["features"][2]["geometry"] = {"type": "Polygon", "coordinates": rings}
        with pytest.raises(ValueError, match="feature 2 needs rings of coordinates"):
            fo.plot_map(np.ones(12), broken)
    doubled = squares()
    doubled["features"][1]["properties"] = {"id": "s0"}
    with pytest.raises(ValueError, match="must be unique to each feature, but 1 share a value"):
        fo.plot_map(np.ones(12), doubled, key="id", names=["s0"] * 12)


def test_bad_names_of_maps(tmp_path):
    with pytest.raises(ValueError, match="name must be one of"):
        fo.datasets.load_map("paris")
    with pytest.raises(ValueError, match=r"found no sids2\.csv"):
        fo.datasets.load_map("sids2", tmp_path)
    with pytest.raises(ValueError, match="year must be an integer between 2006 and 2018, got 1999"):
        fo.datasets.load_map("philly", shared("data"), year=1999)


# --- maps that came with the data -----------------------------------------------------------------


@pytest.fixture(scope="module")
def mapped():
    found = fo.read_map(wall(), "n", exposure="births")
    model = fo.models.PottsMixture(found, emission="binomial", beta=0.5, exposure=found.exposure)
    return fo.loo(fo.fit(model, found.data))


def test_losses_by_site_are_named_and_sorted(mapped):
    table = mapped.site_losses()
    losses = mapped.pointwise.set_index("site")["loss"]
    assert table["loss"].is_monotonic_decreasing
    names = [f"{row}{column}" for row in "abc" for column in range(4)]
    assert table["place"].tolist() == [names[site] for site in table["site"]]
    np.testing.assert_allclose(table["loss"], losses[table["site"]])
    np.testing.assert_allclose(table["share"], table["loss"] / losses.sum())
    assert f"largest losses: {table['place'][0]} (" in repr(mapped)


def test_a_result_draws_the_map_of_its_data_also_from_a_file(mapped, tmp_path):
    loaded = fo.load(mapped.save(tmp_path / "result.json"))
    for result in (mapped, loaded):
        ax = fo.plot_map(result, mark=3)
        assert len(ax.collections[0].get_paths()) == 12
        worst = result.site_losses()["place"][:3]
        assert {text.get_text() for text in ax.texts} == set(worst)
    report = mapped.to_html(tmp_path / "report.html").read_text()
    again = loaded.to_html(tmp_path / "again.html").read_text()
    assert '"shapes"' in report
    assert '"shapes"' in again
    assert "A layout, not a map" not in report


def test_scales_say_what_they_cut_off():
    values = np.append(np.linspace(1.0, 2.0, 39), 100.0)
    places = np.random.default_rng(0).uniform(0, 9, (40, 2))
    ax = fo.plot_map(values, places, scale="robust")
    bar = ax.figure.axes[-1]
    assert (
        "cut off at the ends: 1 site above, up to 100" in bar.get_ylabel()
        or "2 sites" in bar.get_ylabel()
    )
    assert bar.get_ylim()[1] < 3.0
    ax = fo.plot_map(values, places)
    assert ax.figure.axes[-1].get_ylim()[1] == 100.0
    ax = fo.plot_map(values, places, scale="ranks")
    assert "coloured by rank" in ax.figure.axes[-1].get_ylabel()
    with pytest.raises(
        ValueError, match=r"scale must be one of \('linear', 'robust', 'ranks'\) or None, got 'log'"
    ):
        fo.plot_map(values, places, scale="log")
