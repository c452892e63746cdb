"""Values, exposures, labels and masks of sites and sequences are found by their names."""

from __future__ import annotations

import re

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pandas as pd
import pytest

import fitonce as fo

NAMES = [f"county {letter}" for letter in "abcdefghij"]
ORDER = [3, 0, 7, 9, 1, 5, 2, 8, 6, 4]
EDGES = [(k, k + 1) for k in range(9)]
ROOMS = pd.Series(np.arange(1.0, 11.0), NAMES)
COUNTS = pd.Series([3.0, 1.0, 4.0, 9.0, 2.0, 11.0, 5.0, 8.0, 12.0, 7.0], NAMES, name="cases")
NAMED = nx.relabel_nodes(nx.path_graph(10), dict(enumerate(NAMES)))


def rate(graph, exposure, data=COUNTS):
    model = fo.models.PottsMixture(graph, 1, beta=0.0, exposure=exposure)
    return fo.fit(model, data).value


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1), ORDER])
def test_exposures_are_found_by_the_names_of_sites(order):
    assert rate(NAMED, ROOMS.iloc[order]) == rate(NAMED, ROOMS.to_numpy())
    assert rate(NAMED, ROOMS.to_numpy()) != rate(NAMED, ROOMS.to_numpy()[::-1])


def test_exposures_beside_numbered_sites_must_have_the_order_of_the_data():
    assert rate(EDGES, ROOMS) == rate(EDGES, ROOMS.to_numpy())
    assert rate(EDGES, ROOMS.reset_index(drop=True)) == rate(EDGES, ROOMS.to_numpy())
    with pytest.raises(ValueError, match=r"is 'county a', got 'county d'; give exposure.loc\[data"):
        rate(EDGES, ROOMS.iloc[ORDER])


@pytest.mark.parametrize("graph", [EDGES, NAMED], ids=["edges", "named"])
def test_exposures_of_other_sites_are_refused(graph):
    with pytest.raises(ValueError, match=r"exposure must have rows for all .* without county a"):
        rate(graph, ROOMS.rename(lambda name: name.replace("county a", "county z")))
    with pytest.raises(ValueError, match="occurs twice in exposure"):
        rate(graph, ROOMS.rename(lambda name: name.replace("county a", "county b")))


def test_data_in_another_order_than_the_graph_are_refused():
    model = fo.models.PottsMixture(NAMED, 1, beta=0.0)
    with pytest.raises(ValueError, match=r"is 'county a', got 'county d'\. Sort the data by"):
        fo.fit(model, COUNTS.iloc[ORDER])
    numbers = COUNTS.reset_index(drop=True)
    with pytest.raises(ValueError, match="whose site 0 is '0', got '3'"):
        fo.fit(fo.models.PottsMixture(EDGES, 1, beta=0.0), numbers.iloc[ORDER])
    codes = COUNTS.set_axis(pd.Index(range(1, 11), name="code"))  # which are no numbers of sites
    assert fo.fit(model, codes).value == fo.fit(model, COUNTS).value


@pytest.mark.parametrize("name", ["x" * 300, ""])
def test_long_and_empty_names_leave_a_sentence(name):
    """A name of 300 characters came in full, up to three times, and an empty one could not be seen."""
    groups = pd.Series(list("pqr"), [name, "b", "c"])
    data = {one: pd.DataFrame({"x": np.arange(3.0)}) for one in groups.index}
    graph = nx.relabel_nodes(nx.path_graph(3), dict(enumerate(groups.index)))
    model = fo.models.PottsMixture(graph, 1, beta=0.0)
    moved = pd.Series([1.0, 2.0, 3.0], groups.index[::-1])
    rooms = pd.Series(1.0, groups.index[::-1])
    shown = f"'{name[:60]}...'" if name else "''"
    for work, words in [
        (lambda: fo.folds.structures(data, groups=groups[1:]), shown.strip("'") or shown),
        (lambda: fo.folds.structures(data, groups=groups.iloc[[0, 0, 1]]), "occurs twice"),
        (lambda: fo.fit(model, moved), shown),
        (lambda: rate([(0, 1), (1, 2)], rooms, pd.Series([1.0, 2.0, 3.0], groups.index)), shown),
    ]:
        with pytest.raises(ValueError, match=re.escape(words)) as refused:
            work()
        assert len(str(refused.value)) < 400


def test_own_fields_refuse_sites_in_another_order():
    def emission(params, x):
        return -((x[:, None] - params["mean"]) ** 2)

    tables = [np.eye(2)] * len(EDGES)
    model = fo.models.CustomField(EDGES, tables, emission, {"mean": jnp.array([2.0, 9.0])})
    numbers = COUNTS.reset_index(drop=True)
    fo.fit(model, numbers)
    with pytest.raises(ValueError, match="whose site 0 is '0', got '3'"):
        fo.fit(model, numbers.iloc[ORDER])


def test_labels_of_regions_are_found_by_the_names_of_sites():
    regions = pd.Series(list("ppqqqrrrss"), NAMES)
    expected = fo.folds.regions(NAMED, labels=regions.to_numpy())
    for graph, data in ((NAMED, None), (EDGES, COUNTS)):
        found = fo.folds.regions(graph, labels=regions.iloc[ORDER], data=data)
        assert found.fingerprint == expected.fingerprint
    with pytest.raises(ValueError, match="labels must have rows for all of the sites"):
        fo.folds.regions(NAMED, labels=regions[:8])


def test_groups_are_found_by_the_names_of_sequences():
    data = {name: pd.DataFrame({"x": np.arange(3.0)}) for name in "abcd"}
    groups = pd.Series(["left", "left", "right", "right"], list("abcd"))
    expected = fo.folds.structures(data, groups=groups.to_numpy())
    assert fo.folds.structures(data, groups=groups[::-1]).fingerprint == expected.fingerprint
    with pytest.raises(ValueError, match=r"groups must have rows for all of the sequences .* without d"):
        fo.folds.structures(data, groups=groups[:3])


def test_names_with_control_characters_are_found():
    """Results show such names with other characters, by which labels were sought, and refused."""
    names = ["a\u202e", "b", "c\x1b"]
    data = {name: pd.DataFrame({"x": np.arange(3.0)}) for name in names}
    groups = pd.Series(["left", "right", "left"], names)
    expected = fo.folds.structures(data, groups=groups.to_numpy())
    assert fo.folds.structures(data, groups=groups[::-1]).fingerprint == expected.fingerprint


def test_masks_are_found_by_the_index_of_the_data():
    y = pd.Series(np.arange(10.0), pd.date_range("2024-01-01", periods=10))
    mask = y.index.day_of_week >= 5
    expected = fo.folds.sites([mask], y)
    given = pd.Series(mask, y.index)
    assert fo.folds.sites([given[::-1]], y).fingerprint == expected.fingerprint
    with pytest.raises(ValueError, match="the mask of fold 0 must have rows for all of the data"):
        fo.folds.sites([given.shift(400, freq="D")], y)


def test_neighbours_of_a_map_are_found_by_the_names_of_its_sites():
    table = {"type": "FeatureCollection", "features": [
        {"type": "Feature", "properties": {"name": name, "cases": value},
         "geometry": {"type": "Point", "coordinates": [float(k), 0.0]}}
        for k, (name, value) in enumerate(COUNTS.items())
    ]}  # fmt: skip
    shuffled = nx.Graph()
    shuffled.add_nodes_from([NAMES[k] for k in ORDER])
    shuffled.add_edges_from(NAMED.edges)
    found = fo.read_map(table, "cases", names="name", neighbours=shuffled)
    np.testing.assert_array_equal(found.graph.edges, EDGES)
    shuffled = nx.relabel_nodes(shuffled, {NAMES[0]: "elsewhere"})
    with pytest.raises(ValueError, match="must have all sites of the map, but has no 'county a'"):
        fo.read_map(table, "cases", names="name", neighbours=shuffled)


def test_numbers_of_libpysal_are_those_of_rows_or_names_of_sites():
    weights = pytest.importorskip("libpysal.weights")
    geopandas = pytest.importorskip("geopandas")
    shapely = pytest.importorskip("shapely")
    cells = [shapely.box(k % 7, k // 7, k % 7 + 1, k // 7 + 1) for k in range(49)]
    codes = np.random.default_rng(0).permutation(np.arange(1, 50))
    table = geopandas.GeoDataFrame({"code": codes, "cases": np.arange(49)}, geometry=cells)
    expected = fo.read_map(table, "cases", names="code").graph
    rows = weights.Queen.from_dataframe(table, use_index=False)  # 0 to 48
    assert fo.read_map(table, "cases", names="code", neighbours=rows).graph == expected
    other = table.set_index("code", drop=False).iloc[::-1]
    named = weights.Queen.from_dataframe(other, use_index=True)
    assert list(fo.graph(named).names) == list(codes[::-1])
    assert fo.read_map(table, "cases", names="code", neighbours=named).graph == expected


DATES = pd.date_range("2024-01-01", periods=30, name="day")
VALUES = np.random.default_rng(5).normal(size=60)
CHOSEN = np.arange(60) < 7


def dated(second):
    return {
        name: pd.DataFrame({"x": part}, index)
        for name, part, index in zip("ab", np.split(VALUES, 2), (DATES, second), strict=True)
    }


SAME, LATER = dated(DATES), dated(DATES + pd.Timedelta(days=30))


@pytest.mark.parametrize("data", [SAME, LATER, list(SAME.values())], ids=["same", "later", "list"])
def test_masks_of_several_sequences_are_found_by_their_names_and_steps(data):
    parts = data if isinstance(data, dict) else {"sequence 0": data[0], "sequence 1": data[1]}
    names, steps = pd.concat(parts).index, pd.concat(list(parts.values())).index
    expected = fo.folds.sites([CHOSEN], data).fingerprint
    for index in (names, steps):
        assert fo.folds.sites([pd.Series(CHOSEN, index)], data).fingerprint == expected
    again = pd.Series(CHOSEN, names)[::-1]
    assert fo.folds.sites([again], data).fingerprint == expected
    reversed_steps = pd.Series(CHOSEN, steps)[::-1]
    if steps.is_unique:
        assert fo.folds.sites([reversed_steps], data).fingerprint == expected
    else:
        with pytest.raises(ValueError, match=r"as 2024-01-30 occurs twice in the mask of fold 0$"):
            fo.folds.sites([reversed_steps], data)


def test_rows_of_a_table_are_found_where_its_sequences_take_turns():
    table = pd.DataFrame({"x": VALUES, "who": np.tile(["a", "b"], 30)})
    data = fo.sequences(table, group="who")
    found = fo.folds.sites([table["x"] > 1], data)
    assert sorted(data.shown_values[found.dropped[0]]) == sorted(VALUES[VALUES > 1])


def test_sequences_of_arrays_have_steps_in_order_within_each():
    steps = DATES.append(DATES)
    given, rows = pd.Series(VALUES, steps), {"lengths": [30, 30]}
    for covariates in (given.to_frame("u"), {"u": given}, given.to_frame("u").reset_index()):
        found = fo.sequences(VALUES, covariates=covariates, **rows)
        np.testing.assert_array_equal(found.covariates.ravel(), VALUES)
    mask = pd.Series(CHOSEN, steps)
    expected = fo.folds.sites([CHOSEN], VALUES, **rows).fingerprint
    assert fo.folds.sites([mask], VALUES, **rows).fingerprint == expected
    wrong = r"dates of .* must increase from row to row, but 2024-01-30 is followed by 2024-01-29"
    with pytest.raises(ValueError, match=wrong):
        fo.sequences(VALUES, covariates={"u": given[::-1]}, **rows)
    with pytest.raises(ValueError, match=wrong):
        fo.folds.sites([mask[::-1]], VALUES, **rows)
    with pytest.raises(ValueError, match=r"occurs twice$"):  # masks have no column of groups
        fo.folds.sites([mask], VALUES)


def test_an_index_of_several_levels_names_the_rows_of_one_sequence():
    index = pd.MultiIndex.from_product([["oslo", "bergen"], range(30)], names=["town", "week"])
    table = pd.DataFrame({"x": VALUES}, index)
    assert fo.sequences(table).names.sites[30] == "bergen, week 0"
    expected = fo.folds.sites([CHOSEN], table).fingerprint
    assert fo.folds.sites([pd.Series(CHOSEN, index)[::-1]], table).fingerprint == expected
    known = fo.sequences(table, covariates={"u": pd.Series(VALUES, index)[::-1]})
    np.testing.assert_array_equal(known.covariates.ravel(), VALUES)
    parts = dict(iter(table.groupby("town", sort=False)))
    mask = pd.Series(CHOSEN, pd.concat(parts).index)
    assert fo.folds.sites([mask[::-1]], parts).fingerprint == expected


@pytest.mark.parametrize("data", [SAME, LATER], ids=["same", "later"])
def test_clusters_of_several_sequences_are_found_by_their_names_and_steps(data):
    fit, folds = fo.fit(fo.models.GaussianHMM(1), data), fo.folds.points(data)
    groups = np.repeat(np.arange(12), 5)

    def error(clusters):
        return fo.cross_validate(fit, folds, method="onestep", clusters=clusters).se

    names, steps = pd.concat(data).index, pd.concat(list(data.values())).index
    expected = error(groups)
    assert error(pd.Series(groups, names)[::-1]) == expected
    assert error(pd.Series(groups, steps)) == expected
    assert error(np.roll(groups, 2)) != expected


def test_clusters_of_sequences_are_found_by_their_names():
    tables = {
        name: pd.DataFrame({"x": part + (name in "ab")})
        for name, part in zip("abcdef", np.split(VALUES, 6), strict=True)
    }
    fit, folds = fo.fit(fo.models.GaussianHMM(1), tables), fo.folds.structures(tables)
    clusters = pd.Series([0, 0, 1, 1, 2, 2], list("abcdef"))

    def error(given):
        return fo.cross_validate(fit, folds, method="onestep", clusters=given).se

    assert error(clusters[::-1]) == error(clusters) == error(clusters.to_numpy())
    assert error(clusters.to_numpy()) != error([0, 1, 0, 2, 1, 2])
    with pytest.raises(
        ValueError, match=r"clusters must have rows for all of the sequences .* without f"
    ):
        error(clusters[:5])


def test_groups_and_targets_of_splitters_are_found_by_name():
    selection = pytest.importorskip("sklearn.model_selection")
    splitter = selection.GroupKFold(3)
    groups = np.repeat(np.arange(12), 5)
    expected = fo.folds.from_splitter(splitter, SAME, groups=groups).fingerprint
    given = pd.Series(groups, pd.concat(SAME).index)[::-1]
    assert fo.folds.from_splitter(splitter, SAME, groups=given).fingerprint == expected
    tables = {name: pd.DataFrame({"x": VALUES[:10]}) for name in "abcdef"}
    kinds = pd.Series([0, 1, 0, 0, 1, 1], list("abcdef"))
    stratified = selection.StratifiedKFold(3)
    expected = fo.folds.from_splitter(stratified, tables, over="sequences", y=kinds.to_numpy())
    found = fo.folds.from_splitter(stratified, tables, over="sequences", y=kinds[::-1])
    assert found.fingerprint == expected.fingerprint


def test_a_missing_label_is_refused():
    index = pd.Index([1.0, 2.0, np.nan, 4.0], name="depth")
    full = pd.Index([1.0, 2.0, 3.0, 4.0], name="depth")
    numbers = np.arange(4.0)
    for ours, theirs, whose in ((full, index, r"covariates\['u'\]"), (index, full, "the data")):
        with pytest.raises(ValueError, match=f"as the index of {whose} has a missing label in row 2"):
            fo.sequences(pd.Series(numbers, ours), covariates={"u": pd.Series(numbers, theirs)})


def test_sites_of_a_map_keep_their_names(tmp_path):
    """In its graph, and so in models, folds and clusters that are made from it."""
    names = [f"county {number}" for number in range(16)]
    rng = np.random.default_rng(3)
    where = pd.DataFrame({"name": names, "x": np.tile(range(4), 4), "y": np.repeat(range(4), 4)})
    table = where.assign(cases=rng.poisson(5.0, 16))
    table.to_csv(tmp_path / "counties.csv", index=False)
    read = fo.read_map(tmp_path / "counties.csv", "cases", names="name", coordinates=["x", "y"])
    model = fo.models.PottsMixture(read, 2, "poisson", beta=0.5)
    with pytest.raises(ValueError, match="in the order of the graph, whose site 0 is 'county 0'"):
        fo.fit(model, table.set_index("name")["cases"][::-1])
    with pytest.raises(ValueError, match="whose site 3 is 'county 3', got 'Mars'"):
        fo.fit(model, table.set_index("name")["cases"].rename({"county 3": "Mars"}))
    half = pd.Series(np.arange(16) // 8, names)
    folds = [fo.folds.regions(model, labels=one) for one in (half, half[::-1])]
    assert [part.tolist() for part in folds[1].dropped] == [list(range(8)), list(range(8, 16))]
    assert folds[0].fingerprint == folds[1].fingerprint
    fit = fo.fit(model, read.data, restarts=1)
    points, quarters = fo.folds.points(read.data), pd.Series(np.arange(16) // 4, names)
    found = [
        fo.cross_validate(fit, points, method="onestep", clusters=one).se
        for one in (quarters, quarters[::-1])
    ]
    assert found[0] == found[1]


def test_folds_of_a_graph_refuse_data_in_another_order():
    values = pd.Series(np.arange(6.0), list("abcdef"))
    graph = nx.path_graph(list("abcdef"))
    fo.folds.regions(graph, hops=1, data=values)
    for make in (fo.folds.buffered, lambda graph, data: fo.folds.regions(graph, hops=1, data=data)):
        with pytest.raises(ValueError, match="in the order of the graph, whose site 0 is 'a', got 'f'"):
            make(graph, data=values[::-1])


@pytest.mark.parametrize("kind", ["bool", "boolean"])
def test_masks_with_an_index_are_found_by_it(kind):
    dates = pd.date_range("2024-01-01", periods=10)
    values = pd.Series(np.arange(10.0), dates)
    late = pd.Series(np.arange(10) >= 7, dates).astype(kind)
    assert fo.folds.sites([late[::-1]], values).dropped[0].tolist() == [7, 8, 9]
    pairs = [(~late[::-1], late[::-1])]
    assert fo.folds.from_splitter(pairs, values).scored[0].tolist() == [7, 8, 9]


def test_masks_say_something_of_every_site():
    unknown = pd.Series([True, None, False], dtype="boolean")
    with pytest.raises(ValueError, match="mask of fold 0 must be True or False everywhere"):
        fo.folds.sites([unknown], np.arange(3.0))
