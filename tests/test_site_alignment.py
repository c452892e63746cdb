"""Values, exposures, labels and masks of sites and sequences are found by their names."""

from __future__ import annotations

import re

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
    with pytest.raises(ValueError, match="whose site 0 is 'county a', got 'county d'; sort the data by"):
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
