"""The junction tree against enumeration, the chain engine, and itself in logarithms."""

from __future__ import annotations

import warnings

import jax
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import enumeration
import fitonce as fo
from fitonce.engines import chain, elimination
from fitonce.engines import junction_tree as junction
from fitonce.engines.elimination import TooWideError, plan_tree
from fitonce.engines.junction_tree import cavities
from fitonce.objectives.graph.objective import field_objective
from fuzzing.engine_strategies import factor_graphs
from fuzzing.strategies import seeds


class Case:
    """A random factor graph, with what enumeration says of it."""

    def __init__(self, seed, nodes, most_states, factors, impossible=0.0, scale=1.0):
        rng = np.random.default_rng(seed)
        states = rng.integers(2, most_states + 1, nodes)
        for node in range(nodes):  # few enough configurations to enumerate
            states[node] = 2 if np.prod(states) > 20_000 else states[node]
        self.states = tuple(states.tolist())
        self.scopes = tuple(
            tuple(rng.choice(nodes, min(int(rng.integers(1, 5)), nodes), replace=False).tolist())
            for _ in range(factors)
        )
        self.tables = [
            scale * rng.normal(size=tuple(self.states[v] for v in scope)) for scope in self.scopes
        ]
        possible = [rng.integers(count) for count in self.states]
        for scope, table in zip(self.scopes, self.tables, strict=True):
            table[rng.random(table.shape) < impossible] = -np.inf
            table[tuple(possible[v] for v in scope)] = 0.0  # something is always possible
        self.unary = scale * rng.normal(size=(nodes, max(self.states)))
        self.plan = plan_tree(self.states, self.scopes)

    @property
    def flat(self):
        return np.concatenate([np.zeros(0), *map(np.ravel, self.tables)])[:, None]

    def split(self, flat):
        parts = zip(self.plan.starts, self.plan.starts[1:], self.tables, strict=False)
        return [flat[a:b].reshape(table.shape) for a, b, table in parts]

    def scores(self, unary=None, flat=None):
        unary = self.unary if unary is None else unary
        tables = self.tables if flat is None else self.split(flat)
        return enumeration.field_scores(self.states, unary, self.scopes, tables)

    def probabilities(self):
        scores = self.scores()
        weight = np.exp(scores - scores.max())
        return weight / weight.sum()

    def indicators(self):
        """(configurations, V, K) and (configurations, P) zeros and ones: what is in each."""
        z = enumeration.configurations(self.states)
        nodes = (z[..., None] == np.arange(max(self.states))).astype(float)
        entries = []
        for scope in self.scopes:
            shape = tuple(self.states[v] for v in scope)
            index = np.ravel_multi_index(tuple(z[:, list(scope)].T), shape)
            entries.append(np.eye(int(np.prod(shape)))[index])
        return nodes, np.concatenate([np.zeros((len(z), 0)), *entries], 1)


cases = st.builds(Case, **factor_graphs)


def log_sum(scores):
    return np.logaddexp.reduce(scores)


@settings(max_examples=60, deadline=None)
@given(cases)
def test_values_and_marginals_agree_with_enumeration(case):
    found = junction.collect(case.plan, case.unary[..., None], case.flat)
    assert found.log_partition[0] == pytest.approx(log_sum(case.scores()), abs=1e-10)
    nodes, entries = junction.marginals(case.plan, found)
    weight = case.probabilities()
    in_nodes, in_entries = case.indicators()
    np.testing.assert_allclose(nodes[..., 0], np.tensordot(weight, in_nodes, 1), atol=1e-11)
    np.testing.assert_allclose(entries[:, 0], weight @ in_entries, atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(cases)
def test_tangents_of_marginals_are_covariances(case):
    rng = np.random.default_rng(0)
    d_unary = rng.normal(size=(*case.unary.shape, 3, 1))
    d_flat = rng.normal(size=(len(case.flat), 3, 1))
    found = junction.collect(case.plan, case.unary[..., None], case.flat)
    slope, d_nodes, d_entries = junction.tangents(case.plan, found, d_unary, d_flat)
    weight = case.probabilities()
    in_nodes, in_entries = case.indicators()
    move = np.tensordot(in_nodes, d_unary[..., 0], 2) + in_entries @ d_flat[..., 0]
    centred = move - weight @ move
    np.testing.assert_allclose(slope[:, 0], weight @ move, atol=1e-10)
    expected = np.einsum("c,cd,cvk->vkd", weight, centred, in_nodes)
    np.testing.assert_allclose(d_nodes[..., 0], expected, atol=1e-10)
    expected = np.einsum("c,cd,cp->pd", weight, centred, in_entries)
    np.testing.assert_allclose(d_entries[..., 0], expected, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(cases)
def test_cavities_leave_out_a_nodes_own_potential(case):
    rng = np.random.default_rng(1)
    d_unary = rng.normal(size=(*case.unary.shape, 2, 1))
    d_flat = rng.normal(size=(len(case.flat), 2, 1))
    arrays = (case.unary[..., None], case.flat, d_unary, d_flat)
    value, slope = cavities(case.plan, *arrays)

    def alone(node, step, direction):
        unary = case.unary + step * d_unary[..., direction, 0]
        unary[node] = 0.0
        scores = case.scores(unary, case.flat[:, 0] + step * d_flat[:, direction, 0])
        z = enumeration.configurations(case.states)[:, node]
        logs = np.array([log_sum(scores[z == k]) for k in range(case.states[node])])
        return logs - log_sum(logs)  # a constant for each node is not meant

    for node, states in enumerate(case.states):
        here = value[node, :states, 0] - log_sum(value[node, :states, 0])
        np.testing.assert_allclose(here, alone(node, 0.0, 0), atol=1e-10)
        share = np.exp(here)
        for direction in range(2):
            ends = [alone(node, h, direction) for h in (1e-5, -1e-5)]
            possible = np.isfinite(here)
            numeric = (ends[0][possible] - ends[1][possible]) / 2e-5
            own = slope[node, :states, direction, 0]
            np.testing.assert_allclose((own - share @ own)[possible], numeric, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from([30.0, 300.0, 3000.0]), st.sampled_from([0.0, 0.4]))
def test_nothing_is_lost_when_potentials_are_extreme(seed, scale, impossible):
    """Thousands of nats apart, where products of plain numbers would be zero."""
    case = Case(seed, 6, 3, 8, impossible, scale)
    fast = junction.collect(case.plan, case.unary[..., None], case.flat)
    slow = junction.collect(case.plan, case.unary[..., None], case.flat, in_logs=True)
    expected = log_sum(case.scores())
    assert fast.log_partition[0] == pytest.approx(expected, rel=1e-12)
    assert slow.log_partition[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(
        junction.marginals(case.plan, fast)[0], junction.marginals(case.plan, slow)[0], atol=1e-10
    )


def test_impossible_evidence_has_log_partition_minus_infinity():
    plan = plan_tree((2, 2), ((0, 1),))
    unary = np.array([[0.0, -np.inf], [-np.inf, 0.0]])[..., None]
    same = np.where(np.eye(2, dtype=bool), 0.0, -np.inf).reshape(4, 1)
    assert junction.collect(plan, unary, same).log_partition[0] == -np.inf


def test_folds_of_a_batch_do_not_mix():
    case = Case(3, 7, 3, 8)
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(*case.unary.shape, 5))
    unary[..., 2] *= 2000  # one of them needs logarithms
    flat = case.flat * np.ones(5)
    together = junction.collect(case.plan, unary, flat)
    nodes, _ = junction.marginals(case.plan, together)
    for fold in range(5):
        alone = junction.collect(case.plan, unary[..., fold : fold + 1], flat[:, :1])
        assert together.log_partition[fold] == pytest.approx(alone.log_partition[0], rel=1e-13)
        single = junction.marginals(case.plan, alone)[0][..., 0]
        np.testing.assert_allclose(nodes[..., fold], single, atol=1e-13)


def test_a_chain_agrees_with_the_chain_engine():
    rng = np.random.default_rng(0)
    unary, pairwise = rng.normal(size=(40, 3)), rng.normal(size=(3, 3))
    plan = plan_tree((3,) * 40, tuple((t, t + 1) for t in range(39)))
    found = junction.collect(plan, unary[..., None], np.tile(pairwise.ravel(), 39)[:, None])
    with jax.enable_x64(True):
        expected = float(chain.log_partition(unary, pairwise))
        states = np.asarray(chain.marginals(unary, pairwise))
    assert plan.width == 1
    assert found.log_partition[0] == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(junction.marginals(plan, found)[0][..., 0], states, atol=1e-13)


@pytest.mark.parametrize("order", [None, tuple(range(34)), tuple(range(34))[::-1]])
def test_a_plan_is_a_junction_tree(order):
    rng = np.random.default_rng(5)
    scopes = tuple(tuple(rng.choice(30, 3, replace=False).tolist()) for _ in range(25))
    plan = plan_tree((2,) * 34, scopes, order)  # the last nodes are in no factor
    held = [factor for clique in plan.cliques for factor, _ in clique.factors]
    assert sorted(held) == list(range(25))
    for kind in ("nodes", "reads"):
        assert sorted(v for c in plan.cliques for v, _ in getattr(c, kind)) == list(range(34))
    above = {child: c.variables for c in plan.cliques for child, _ in c.children}
    for node in range(34):  # running intersection: the cliques of a node hang together
        holding = [number for number, c in enumerate(plan.cliques) if node in c.variables]
        assert sum(node not in above.get(number, ()) for number in holding) == 1
    assert plan.entries == sum(2 ** len(c.variables) for c in plan.cliques)
    assert f"width {plan.width}" in str(plan)


def test_a_graph_past_the_limit_is_refused_in_a_sentence():
    everyone = tuple((i, j) for i in range(40) for j in range(i))
    with pytest.raises(
        TooWideError,
        match="40 sites with 2 classes needs 16 TiB for a fold, and 4 GiB are allowed; leave",
    ):
        plan_tree((2,) * 40, everyone, limit=2.0**32)


def test_a_graph_that_fits_in_memory_but_takes_hours_is_warned_of_at_once():
    everyone = [(i, j) for i in range(21) for j in range(i)]
    slow = "its largest table is of 21 sites. A sweep takes"
    with pytest.warns(UserWarning, match=slow):
        field_objective(fo.models.PottsMixture(everyone), np.arange(21.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        field_objective(fo.models.PottsMixture(everyone[:45]), np.arange(10.0))


def test_tables_have_no_more_axes_than_numpy():
    everyone = tuple((i, j) for i in range(70) for j in range(i))
    with pytest.raises(
        TooWideError,
        match="on this graph of 70 sites: some group of sites has 69 neighbours each within it",
    ):
        plan_tree((1,) * 70, everyone)


def test_small_probabilities_of_unobserved_nodes_keep_all_their_digits():
    """Couplings of hundreds of nats: paths of very different weight lead to one unlikely state."""
    case = Case(11, 7, 2, 9, scale=60.0)
    rng = np.random.default_rng(2)
    for _ in range(20):
        unary = 400.0 * rng.normal(size=case.unary.shape)
        unary[3] = 0.0  # nothing was observed here
        found = junction.collect(case.plan, unary[..., None], case.flat)
        nodes, _ = junction.marginals(case.plan, found)
        scores = case.scores(unary)
        z = enumeration.configurations(case.states)[:, 3]
        logs = np.array([log_sum(scores[z == k]) for k in range(2)]) - log_sum(scores)
        kept = logs > -500
        np.testing.assert_allclose(np.log(nodes[3, :2, 0][kept]), logs[kept], atol=1e-9)


def test_a_large_map_is_refused_before_its_plan_is_made(monkeypatch):
    def never(*_):
        raise AssertionError("a whole plan takes minutes")

    monkeypatch.setattr(elimination, "_plan", never)
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(70, 70))
    with pytest.raises(TooWideError, match="of 4,900 sites with 2 classes needs more memory than any"):
        plan_tree((2,) * 4900, tuple(grid.edges), limit=2.0**32)
