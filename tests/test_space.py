"""Folds on graphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import fitonce as fo
from fitonce.data.graph import partition
from map_cases import wall

GRID = nx.convert_node_labels_to_integers(nx.grid_2d_graph(7, 9))
SITES = 63


def is_connected(sites):
    return nx.is_connected(GRID.subgraph(sites.tolist()))


def test_balls_of_hops_are_all_sites_within_them():
    folds = fo.folds.regions(GRID, hops=2)
    assert len(folds) == SITES
    for centre, ball in enumerate(folds.dropped):
        within = nx.single_source_shortest_path_length(GRID, centre, cutoff=2)
        assert ball.tolist() == sorted(within)


def test_balls_of_a_share_are_connected_and_of_that_size():
    folds = fo.folds.regions(GRID, percent=15, n=20, seed=4)
    assert len(folds) == 20
    for ball in folds.dropped:
        assert len(ball) == 9
        assert is_connected(ball)
    again = fo.folds.regions(GRID, percent=15, n=20, seed=4)
    assert all(np.array_equal(a, b) for a, b in zip(folds.dropped, again.dropped, strict=True))


@pytest.mark.parametrize("k", [2, 5, 16])
def test_spatial_folds_are_connected_balanced_and_leave_each_site_out_once(k):
    folds = fo.folds.spatial_kfold(GRID, k)
    assert sorted(np.concatenate(folds.dropped)) == list(range(SITES))
    sizes = [len(part) for part in folds.dropped]
    assert max(sizes) <= 1.25 * SITES / k + 1
    assert min(sizes) >= 0.75 * SITES / k - 1
    assert all(is_connected(part) for part in folds.dropped)


def test_a_partition_of_a_graph_in_parts_leaves_nobody_out():
    found = fo.graph([(0, 1), (2, 3), (4, 5)], n_sites=8)
    labels = partition(found, 2)
    assert set(labels) == {0, 1}


def test_a_partition_of_a_long_path_needs_no_matrix_of_all_pairs():
    labels = partition(fo.graph(nx.path_graph(4000)), 32)
    sizes = np.bincount(labels)
    assert sizes.min() > 0
    assert np.count_nonzero(np.diff(labels)) == 31  # connected: one stretch each


def test_a_buffer_is_dropped_and_not_scored():
    folds = fo.folds.buffered(GRID, hops=1)
    assert len(folds) == SITES
    for centre, (dropped, scored) in enumerate(zip(folds.dropped, folds.scored, strict=True)):
        assert scored.tolist() == [centre]
        assert set(dropped) == {centre, *GRID[centre]}


def test_islands_are_no_centres_of_a_region_that_does_not_fit():
    links = np.array(GRID.edges)
    folds = fo.folds.regions(fo.graph(links, n_sites=SITES + 2), percent=10, n=SITES)
    assert all(ball.max() < SITES for ball in folds.dropped)


def test_missing_sites_are_no_centres():
    x = np.ones(SITES)
    x[:3] = np.nan
    assert len(fo.folds.buffered(GRID, data=x)) == SITES - 3
    assert len(fo.folds.regions(GRID, hops=0, data=x)) == SITES - 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fo.folds.regions(GRID), "either hops, percent or labels, got neither"),
        (lambda: fo.folds.regions(GRID, hops=1, percent=5), "got both"),
        (lambda: fo.folds.regions(GRID, hops=-1), "at least 0, got -1"),
        (lambda: fo.folds.regions(GRID, percent=0), "between 0 and 100"),
        (lambda: fo.folds.regions(GRID, percent=1), "is less than one"),
        (lambda: fo.folds.regions(GRID, hops=1, n=64), "64 regions requested, but only 63 sites"),
        (lambda: fo.folds.regions(GRID, hops=20), "leaves out all observed sites"),
        (lambda: fo.folds.regions([(0, 1), (2, 3)], percent=75), "only 0 sites can be the centre"),
        (lambda: fo.folds.regions(GRID, hops=1, data=np.ones(5)), "data has 5 sites, the graph has 63"),
        (lambda: fo.folds.spatial_kfold(GRID, 1), "between 2 and the number of sites"),
        (lambda: fo.folds.buffered(GRID, hops=0.5), "must be an integer"),
        (lambda: fo.folds.buffered(np.triu(np.ones((3, 3)), 1)), "symmetric"),
    ],
)
def test_bad_folds(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- regions with a rim -----------------------------------------------------------------------------


def test_a_rim_in_hops_is_left_out_and_not_scored():
    plain = fo.folds.regions(GRID, percent=10, n=8, seed=2)
    folds = fo.folds.regions(GRID, percent=10, n=8, seed=2, buffer=2)
    for ball, out, scored in zip(plain.dropped, folds.dropped, folds.scored, strict=True):
        near = nx.multi_source_dijkstra_path_length(GRID, set(ball.tolist()), cutoff=2)
        assert out.tolist() == sorted(near)
        assert scored.tolist() == ball.tolist()
    assert "without the rim of 2 hops" in folds.describe()


def test_labels_make_regions():
    labels = np.array(["north", "south", "east"])[np.arange(SITES) % 3]
    folds = fo.folds.regions(GRID, labels=labels)
    assert [set(labels[part]) for part in folds.dropped] == [{"east"}, {"north"}, {"south"}]
    assert len(fo.folds.regions(GRID, labels=labels, n=2, seed=1)) == 2
    missing = np.where(labels == "east", np.nan, 1.0)
    assert len(fo.folds.regions(GRID, labels=labels, data=missing)) == 2
    rows = np.repeat(np.arange(7), 9)
    wide = fo.folds.regions(GRID, labels=rows, buffer=1)
    assert set(rows[wide.dropped[0]]) == {0, 1}
    assert set(rows[wide.scored[0]]) == {0}


def test_a_rim_by_distance_needs_places():
    found = fo.read_map(wall(4, 5, at=(10.0, 0.0)), "n", regions="state")
    folds = fo.folds.regions(found, labels=True, buffer="12 km")  # a square is 11.1 km wide
    column = np.arange(20) % 5
    assert set(column[folds.dropped[0]]) == {2, 3, 4}  # east, and what is next to it
    assert set(column[folds.scored[0]]) == {3, 4}
    single = fo.folds.buffered(found, within="12 km")
    assert [len(part) for part in single.dropped[:2]] == [3, 4]
    model = fo.models.PottsMixture(found)
    same = fo.folds.regions(model, labels=True, buffer="12 km", data=found.data)
    assert same.fingerprint == folds.fingerprint
    with pytest.raises(ValueError, match="a buffer of '3 km' needs a map with shapes or coordinates"):
        fo.folds.regions(GRID, hops=1, buffer="3 km")
    with pytest.raises(ValueError, match="are the whole map, and nothing is left to fit"):
        fo.folds.regions(found, labels=True, buffer="500 km")
    with pytest.raises(ValueError, match="buffer must be a number of hops, or a distance"):
        fo.folds.regions(GRID, hops=1, buffer=-1)
    one = "tell at least two regions apart, but all that was observed is in '0.0'"
    with pytest.raises(ValueError, match=one):
        fo.folds.regions(GRID, labels=np.zeros(SITES))
    with pytest.raises(
        ValueError, match=r"within must be a distance with its unit, .* got '2'; steps are"
    ):
        fo.folds.buffered(found, within="2")
    with pytest.raises(ValueError, match="either hops or within, got hops=1 and within='12 km'"):
        fo.folds.buffered(found, hops=1, within="12 km")
    with pytest.raises(ValueError, match="labels must have one entry per site"):
        fo.folds.regions(GRID, labels=[1, 2])
    with pytest.raises(ValueError, match="labels=True needs a map that was read with regions="):
        fo.folds.regions(GRID, labels=True)
    with pytest.raises(ValueError, match="labels must have a region for every site"):
        fo.folds.regions(GRID, labels=[None] * SITES)
