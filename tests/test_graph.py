"""Graphs are read from what people have, and refused in a sentence."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fitonce as fo

EDGES = [(0, 1), (1, 2), (1, 3)]
MATRIX = np.array([[0, 1, 0, 0], [1, 0, 1, 1], [0, 1, 0, 0], [0, 1, 0, 0]])


def weights_of_libpysal(kind):
    from libpysal.graph import Graph
    from libpysal.weights import W

    neighbours = {site: np.flatnonzero(row).tolist() for site, row in enumerate(MATRIX)}
    made = W(neighbours)
    if kind == "scaled":
        made.transform = "r"
    return Graph.from_W(made) if kind == "graph" else made


@pytest.mark.parametrize(
    "given",
    [
        EDGES,
        np.array(EDGES),
        [(1, 0), (0, 1), (2, 1), (1, 3)],
        pd.DataFrame(EDGES, columns=["i", "j"]),
        pd.DataFrame({"j": [1, 2, 3], "length": [0.1, 0.2, 0.3], "i": [0, 1, 1]}),
        MATRIX,
        MATRIX.astype(bool),
        MATRIX.astype(float).tolist(),
        sparse.csr_matrix(MATRIX),
        sparse.coo_array(MATRIX.astype(float)),
        nx.Graph(EDGES),
        nx.DiGraph([*EDGES, *((b, a) for a, b in EDGES)]),
        "plain",
        "scaled",
        "graph",
    ],
    ids=lambda given: type(given).__name__ if not isinstance(given, str) else f"libpysal-{given}",
)
def test_all_forms_are_the_same_graph(given):
    if isinstance(given, str):
        given = weights_of_libpysal(given)
    found = fo.graph(given)
    assert found.n_sites == 4
    assert found.edges.tolist() == [[0, 1], [1, 2], [1, 3]]
    assert found == fo.graph(MATRIX)
    assert hash(found) == hash(fo.graph(MATRIX))


def test_a_model_has_a_graph_and_a_graph_is_one():
    model = fo.models.PottsMixture(MATRIX, beta=1.0)
    assert fo.graph(model) == fo.graph(fo.graph(MATRIX))


def test_names_of_sites_are_kept():
    assert fo.graph(nx.Graph([("a", "b")])).names == ("a", "b")


def test_labels_that_number_the_sites_do_so_whatever_order_they_come_in():
    shuffled = nx.Graph([(3, 1), (2, 1), (0, 1)])
    assert fo.graph(shuffled) == fo.graph(MATRIX)
    from libpysal.graph import Graph

    found = Graph.from_dicts({3: [1], 1: [3, 2, 0], 2: [1], 0: [1]})
    assert fo.graph(found) == fo.graph(MATRIX)


def test_islands():
    assert fo.graph(EDGES, n_sites=6).n_sites == 6
    assert "in 3 parts" in repr(fo.graph(EDGES, n_sites=6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from libpysal.weights import W

        assert fo.graph(W({"a": ["b"], "b": ["a"], "c": []})).n_sites == 3
    assert fo.graph([], n_sites=2).edges.shape == (0, 2)


def test_two_edges_are_not_taken_for_a_matrix():
    assert fo.graph([(0, 1), (1, 2)]).n_sites == 3
    assert fo.graph([(0, 1), (0, 1)]).n_sites == 2
    assert fo.graph([(0, 1), (1, 0)], n_sites=5).n_sites == 5


def test_stored_zeros_are_no_edges():
    rows, columns, values = [0, 1, 1, 2, 2], [1, 0, 2, 1, 2], [1.0, 1.0, 0.0, 0.0, 0.0]
    stored = sparse.csr_array((values, (rows, columns)), shape=(3, 3))
    assert fo.graph(stored).edges.tolist() == [[0, 1]]
    from libpysal.graph import Graph

    isolate = Graph.from_arrays([0, 1, 1, 2, 3], [1, 0, 2, 1, 3], [1, 1, 1, 1, 0])
    assert fo.graph(isolate).edges.tolist() == [[0, 1], [1, 2]]


def test_nullable_integers_are_integers():
    assert fo.graph(pd.DataFrame(EDGES, columns=["i", "j"], dtype="Int64")) == fo.graph(EDGES)


@pytest.mark.parametrize(
    ("given", "n_sites", "message"),
    [
        (np.triu(MATRIX), None, "symmetric, but site 0 has 1 as a neighbour and not the reverse"),
        (nx.DiGraph([(0, 1)]), None, "symmetric"),
        (MATRIX + np.eye(4, dtype=int), None, "cannot be its own neighbour, but site 0 is"),
        ([(0, 1), (2, 2), (1, 2)], None, "cannot be its own neighbour, but site 2 is"),
        ([(0, 1), (1, 9), (2, 3)], 4, r"edge \(1, 9\) is outside the 4 sites"),
        ([(0, 1), (1, -2), (2, 3)], None, r"edge \(1, -2\) is outside"),
        ([(0, 1), (1, 2.5), (2, 3)], None, "must hold integers, got 2.5"),
        (0.3 * MATRIX, None, "must hold zeros and ones, got 0.3"),
        (sparse.csr_array(2 * MATRIX), None, "must hold zeros and ones, got 2"),
        (MATRIX, 5, "n_sites=5, but the graph has 4"),
        (EDGES, 5.5, "n_sites must be an integer of at least 1 or None, got 5.5"),
        (EDGES, 0, "n_sites must be an integer of at least 1 or None, got 0"),
        ([(0, 1), (1, np.inf), (2, 3)], None, "must hold integers, got inf"),
        (np.zeros((3, 4)), None, r"got \(3, 4\)"),
        (sparse.csr_array(np.ones((2, 3))), None, "must be square"),
        ([], None, "pass n_sites="),
        ("edges.csv", None, "got str"),
        (7, None, "got int"),
        ([("a", "b")], None, "pairs of integers"),
        (np.full((3, 3), np.nan), None, "must hold zeros and ones, got nan"),
    ],
)
def test_bad_graphs(given, n_sites, message):
    with pytest.raises(ValueError, match=message):
        fo.graph(given, n_sites)
