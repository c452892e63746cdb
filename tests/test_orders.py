"""Elimination orders against an elimination by networkx, and log Z under any order."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitonce as fo
from fitonce.engines import junction_tree as junction
from fitonce.engines import order_search, orders
from fitonce.engines.elimination import TooWideError, plan_tree
from fuzzing.strategies import seeds
from lattices import edges_of, grid, hexagons, triangles


def tables(graph, nodes):
    """Sets of nodes in one table, by summing out one after the other; only those within no other one."""
    left, found = graph.copy(), []
    for node in nodes:
        near = list(left[node])
        found.append({node, *near})
        left.add_edges_from(itertools.combinations(near, 2))
        left.remove_node(node)
    return [one for k, one in enumerate(found) if not any(one <= other for other in found[:k])]


def problem(graph, states=2):
    states = (states,) * len(graph) if isinstance(states, int) else states
    return orders.StateGraph(states, edges_of(graph))


def entries_of(graph, nodes):
    return sum(2 ** len(one) for one in tables(graph, nodes))


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 14), st.floats(0.05, 0.9))
def test_widths_and_entries_are_those_of_an_elimination_by_networkx(seed, size, share):
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(size, share, seed=int(seed))
    states = tuple(rng.integers(1, 5, size).tolist())
    nodes = rng.permutation(size).tolist()
    expected = tables(graph, nodes)
    found = problem(graph, states).counted(nodes, "given")
    assert found.width == max(map(len, expected)) - 1
    assert found.entries == sum(math.prod(states[v] for v in one) for one in expected)
    plan = plan_tree(states, edges_of(graph), tuple(nodes))
    assert {frozenset(clique.variables) for clique in plan.cliques} == set(map(frozenset, expected))
    assert (plan.width, plan.entries) == (found.width, found.entries)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 14), st.floats(0.0, 0.9))
def test_every_way_gives_a_permutation_and_the_best_of_them_is_taken(seed, size, share):
    graph = nx.gnp_random_graph(size, share, seed=int(seed))
    whole = problem(graph, tuple(np.random.default_rng(seed).integers(1, 4, size).tolist()))
    best = order_search.best_order(whole)
    assert sorted(best.nodes) == list(range(size))
    assert best == whole.counted(best.nodes, best.way)
    for way in ("min-degree", "min-fill"):
        nodes = orders.greedy(whole, way)
        assert sorted(nodes) == list(range(size))
        if nx.is_connected(graph):
            assert best.entries <= whole.counted(nodes, way).entries
    if nx.is_connected(graph):
        for order in orders.sweeps(whole):
            assert sorted(order.nodes) == list(range(size))
            assert best.entries <= max(order.entries, 2.0**17)


@pytest.mark.parametrize("way", ["min-degree", "min-fill"])
def test_greedy_orders_are_greedy(way):
    """Each node has the least cost of all that are left, by networkx."""
    graph = triangles(60)
    left = graph.copy()

    def cost(node):
        near = list(left[node])
        if way == "min-degree":
            return len(near)
        return sum(not left.has_edge(a, b) for a, b in itertools.combinations(near, 2))

    for node in orders.greedy(problem(graph), way):
        assert cost(node) == min(map(cost, left))
        left.add_edges_from(itertools.combinations(list(left[node]), 2))
        left.remove_node(node)


@pytest.mark.parametrize(
    ("graph", "width"),
    [(grid(18, 50), 18), (grid(40, 25), 25), (grid(20, 20), 20), (hexagons(16, 20), 17)],
    ids=["18 x 50", "40 x 25", "20 x 20", "hexagons 16 x 20"],
)
def test_lattices_are_swept_from_side_to_side(graph, width):
    """Min-fill and min-degree have widths of 28, 37, 29 and 26 there."""
    rng = np.random.default_rng(0)
    graph = nx.relabel_nodes(graph, dict(enumerate(rng.permutation(len(graph)).tolist())))
    whole = problem(graph)
    swept = min(orders.sweeps(whole), key=lambda order: order.width)
    assert swept.width == width
    assert max(map(len, tables(graph, swept.nodes))) == swept.width + 1
    assert order_search.best_order(whole).entries <= swept.entries


def test_irregular_maps_are_no_lattices():
    graph = problem(triangles(200))
    swept = min(order.entries for order in orders.sweeps(graph))
    best = order_search.best_order(graph)
    assert (best.way, best.width) == ("min-fill", 17)
    assert best.entries < swept


def test_a_bound_ends_a_greedy_order_early():
    graph = problem(grid(12, 12))
    full = graph.counted(orders.greedy(graph, "min-fill"), "min-fill")
    assert orders.greedy(graph, "min-fill", 2.0**full.width) is None
    assert orders.greedy(graph, "min-fill", 2.0 ** (full.width + 1)) == list(full.nodes)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(4, 14), st.integers(1, 4))
def test_cuts_are_as_small_as_those_of_networkx(seed, size, sure):
    graph = nx.gnp_random_graph(size, 0.4, seed=int(seed))
    along = np.random.default_rng(seed).permutation(size)
    sure = min(sure, size // 2)
    cut, near = order_search.smallest_cut(problem(graph), along, sure)
    first, last = set(along[:sure].tolist()), set(along[-sure:].tolist())
    ends = graph.copy()
    ends.add_edges_from(("first", node) for node in first)
    ends.add_edges_from(("last", node) for node in last)
    assert len(cut) == len(nx.minimum_node_cut(ends, "first", "last"))
    rest = graph.subgraph(set(graph) - cut)
    sides = [set(part) for part in nx.connected_components(rest)]
    assert not any(part & first and part & last for part in sides)
    assert near <= len(rest)


def test_cuts_fall_apart_into_parts():
    graph = triangles(150)
    levels = order_search.cuts(problem(graph))
    for level in range(2):
        left = graph.subgraph([node for node, one in enumerate(levels) if one > level])
        assert nx.number_connected_components(left) >= 2 ** (level + 1)


def test_dissection_and_moves_make_large_tables_smaller():
    """By counts of networkx; the same order each time."""
    graph = triangles(400)
    whole = problem(graph)
    greedy = whole.counted(orders.greedy(whole, "min-fill"), "min-fill")
    cut = min(order_search.dissections(whole), key=lambda order: order.cost)
    moved = order_search.improved(whole, cut, 300)
    assert moved == order_search.improved(whole, cut, 300)
    for order in (cut, moved):
        assert sorted(order.nodes) == list(range(400))
        assert order.entries == entries_of(graph, order.nodes)
    lattice = problem(grid(14, 14))
    swept = min(orders.sweeps(lattice), key=lambda order: order.cost)
    shifted = order_search.improved(lattice, swept, 1500)
    assert [order.width for order in (greedy, cut, moved)] == [23, 22, 22]
    assert cut.entries < greedy.entries
    assert moved.entries <= cut.entries
    assert [order.width for order in (swept, shifted)] == [
        14,
        15,
    ]  # the largest of many
    assert shifted.entries < swept.entries


def test_small_tables_are_not_searched_for(monkeypatch):
    def never(*_):
        raise AssertionError("a search takes longer than it saves")

    monkeypatch.setattr(order_search, "dissections", never)
    monkeypatch.setattr(order_search, "improved", never)
    assert order_search.best_order(problem(triangles(150))).entries < 2**20


def test_parts_have_orders_of_their_own():
    both = nx.disjoint_union(grid(12, 12), triangles(100))
    apart = [order_search.best_order(problem(one)) for one in (grid(12, 12), triangles(100))]
    found = order_search.best_order(problem(both))
    assert found.entries == sum(order.entries for order in apart)
    assert found.width == max(order.width for order in apart)


def test_the_least_width_is_that_of_the_densest_core():
    for graph in (grid(6, 6), triangles(80), nx.complete_graph(9), nx.empty_graph(3)):
        assert problem(graph).least_width() == max(nx.core_number(graph).values())


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2, 9))
def test_log_z_and_marginals_are_the_same_under_any_order(seed, size):
    rng = np.random.default_rng(seed)
    edges = edges_of(nx.gnp_random_graph(size, 0.5, seed=int(seed)))
    states = tuple(rng.integers(1, 4, size).tolist())
    plans = [plan_tree(states, edges, order) for order in (None, tuple(rng.permutation(size).tolist()))]
    unary = rng.normal(size=(size, max(states), 2))
    factors = 2.0 * rng.normal(size=(plans[0].starts[-1], 2))
    first, second = (junction.collect(plan, unary, factors) for plan in plans)
    np.testing.assert_allclose(first.log_partition, second.log_partition, rtol=1e-12, atol=1e-12)
    pairs = zip(junction.marginals(plans[0], first), junction.marginals(plans[1], second), strict=True)
    for here, there in pairs:
        np.testing.assert_allclose(here, there, atol=1e-12)


def refusal_of(graph, n_classes, **how):
    with pytest.raises(TooWideError) as error:
        fo.plan(fo.models.PottsMixture(list(graph.edges), n_classes, **how))
    return str(error.value)


def test_a_refusal_says_how_many_classes_and_sites_would_do():
    said = refusal_of(hexagons(16, 20), 3)
    assert not re.search("width|sweep", said)
    assert "graph of 320 sites with 3 classes needs" in said
    assert "it would work with 2 classes" in said
    fewer = int(re.search(r"may have about (\d+) sites with 3 classes: take a part .*--where", said)[1])
    rows = round(math.sqrt(fewer * 16 / 20))
    fits = fo.plan(fo.models.PottsMixture(list(hexagons(rows, fewer // rows).edges), 3))
    two = fo.plan(fo.models.PottsMixture(list(hexagons(16, 20).edges), 2))
    assert (fewer, fits.tree.width, two.tree.width) == (170, 14, 19)
    assert fits.tree.bytes < 2**32
    assert two.tree.bytes < 2**32


@pytest.mark.parametrize(("rows", "columns"), [(18, 43), (18, 50)])
def test_the_limit_that_a_refusal_names_is_enough(rows, columns):
    graph = edges_of(grid(rows, columns))
    states = (2,) * (rows * columns)
    with pytest.raises(TooWideError, match="memory_limit=") as refused:
        plan_tree(states, graph, limit=2.0**20)
    limit = float(re.search(r"memory_limit=([\d.e+]+)", str(refused.value))[1])
    assert plan_tree(states, graph, limit=limit).bytes <= limit


def test_the_order_of_the_data_is_tried():
    plan = plan_tree((2,) * 320, edges_of(hexagons(20, 16)))
    assert plan.width == 17
    assert plan.order == "a sweep in the order of the data"


def test_a_refusal_counts_mixed_numbers_of_classes():
    edges = edges_of(nx.complete_graph(12))
    with pytest.raises(TooWideError, match=r"12 sites with 5 classes needs .* with 3 classes"):
        plan_tree((5,) * 6 + (2,) * 5 + (1,), edges, limit=2.0**20)
    plan = plan_tree((3,) * 6 + (2,) * 5 + (1,), edges, limit=2.0**20)
    assert plan.bytes < 2**20


def test_where_fewer_sites_cannot_be_foretold_edges_are_to_be_left_out():
    assert "leave out edges or sites; no memory_limit= helps" in refusal_of(nx.complete_graph(40), 2)


def test_an_order_of_ones_own_changes_the_plan_and_no_result():
    counts = np.random.default_rng(0).poisson(3.0, 25).astype(float)
    edges = list(grid(5, 5).edges)
    mine = tuple(np.random.default_rng(1).permutation(25).tolist())
    models = [fo.models.PottsMixture(edges, beta=0.4, order=order) for order in (None, mine)]
    assert "by the order given" in str(fo.plan(models[1]))
    assert fo.plan(models[1]).entries == problem(grid(5, 5)).counted(mine, "").entries
    first, second = (fo.fit(model, counts, restarts=1, optima=0) for model in models)
    assert first.log_likelihood == pytest.approx(second.log_likelihood, rel=1e-10)


def test_orders_are_by_name_or_number():
    named = nx.relabel_nodes(grid(2, 2), dict(enumerate("abcd")))
    assert fo.models.PottsMixture(named, order=list("dbca")).order == (3, 1, 2, 0)
    assert fo.models.PottsMixture(named, order=np.array(list("dbca"))).order == (3, 1, 2, 0)
    numbers = [np.int64(3), np.int32(1), 2, np.uint8(0)]
    assert fo.models.PottsMixture(named, order=numbers).order == (3, 1, 2, 0)
    again = fo.models.PottsMixture(named, order=np.array([3, 1, 2, 0]))
    assert dataclasses.replace(again, beta=1.0).order == (3, 1, 2, 0)
    field = fo.models.CustomField([(0, 1)], [np.eye(2)], lambda p, x: x, {"a": 0.0}, order=[1, 0])
    assert field.order == (1, 0)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (list("abc"), "got 3 of them"),
        (list("abca"), "got 'a' twice"),
        (list("abcx"), "got 'x', which is none of them"),
        ([0, 1, 2, 4], "got 4, which is none of them"),
        ([0, 1, 2, None], "got None, which is none of them"),
        ([0, 1, 2, 2.5], "got 2.5, which is none of them"),
        ([False, True, 2, 3], "got False, which is none of them"),
        (np.array([0, 1.5, 2, 3]), "got 0.0, which is none of them"),
        ("abcd", "got 'abcd'"),
        (3, "got 3"),
    ],
)
def test_an_order_that_is_no_permutation_is_refused(order, words):
    named = nx.relabel_nodes(grid(2, 2), dict(enumerate("abcd")))
    with pytest.raises(ValueError, match=f"order must .*each of the 4 sites once.*{words}"):
        fo.models.PottsMixture(named, order=order)


@pytest.mark.slow
def test_hexagons_of_16_x_20_are_fitted_and_cross_validated():
    edges = list(hexagons(16, 20).edges)
    counts = np.random.default_rng(0).poisson(np.where(np.arange(320) % 20 < 10, 3.0, 9.0))
    model = fo.models.PottsMixture(edges, 2, "poisson", beta=0.5)
    with pytest.warns(UserWarning, match="is slow: its largest table is of 20 sites. A sweep"):
        fit = fo.fit(model, counts, restarts=1, optima=0)
    assert fit.status.ok
    np.testing.assert_allclose(np.sort(fit.params["rate"]), [3.0, 9.0], rtol=0.15)
    cv = fo.cross_validate(fit, fo.folds.regions(model, percent=10, n=2), method="ij", optima=0)
    assert np.isfinite(cv.pointwise["loss"]).all()
