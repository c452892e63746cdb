"""What CRFs run on: chains that share transitions, covariances, kept labels, best paths, buckets."""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import enumeration
from fitonce.engines import chain
from fitonce.engines import chain_groups as grouped
from fitonce.engines import chain_scan as scan
from fitonce.engines.count_covariance import count_covariance
from fitonce.engines.partial_labels import mean_log_partition
from fitonce.objectives.labels import buckets
from fuzzing.engine_strategies import label_chains

pytestmark = pytest.mark.usefixtures("scaled_where_safe")
STEPS, STATES, LENGTHS = 5, 3, np.array([5, 1, 3])
MOVES = {
    "every": np.ones((3, 3), bool),
    "two steps": np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], bool),  # as of O, B-X and I-X
    "onward": np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]], bool),
}
# Compiled once per shape; hypothesis then varies the numbers.
expected_counts, conditionals = jax.jit(grouped.expected), jax.jit(grouped.conditionals)
many = settings(max_examples=60, deadline=None)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def potentials(moves, labels, spread, wide, seed, groups=2):
    """Unary (F, n, T, K), zero at padding, pairwise (F, K, K), a possible path (n, T), and a random
    generator; where `labels`, most states of some steps are impossible."""
    rng = np.random.default_rng(seed)
    unary = spread * rng.normal(size=(groups, len(LENGTHS), STEPS, STATES))
    pairwise = wide * rng.normal(size=(groups, STATES, STATES))
    pairwise -= pairwise.max()
    pairwise[:, ~MOVES[moves]] = -np.inf
    routes = enumeration.paths(STEPS, STATES)
    routes = routes[MOVES[moves][routes[:, :-1], routes[:, 1:]].all(1)]
    path = routes[rng.integers(len(routes), size=len(LENGTHS))]
    if labels:
        other = np.arange(STATES) != path[..., None]
        unary[:, other & (rng.random(path.shape) < 0.4)[..., None]] = -np.inf
    unary[:, np.arange(STEPS) >= LENGTHS[:, None]] = 0.0
    return unary, pairwise, path, rng


def close(found, expected, rtol=1e-12, atol=1e-9):
    """Logarithms of thousands have errors of 1e-12, and so have exponentials of their differences."""
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def pair_marginals(unary, pairwise):
    """(T - 1, K, K) by enumeration."""
    scores, routes = enumeration.path_scores(unary, pairwise), enumeration.paths(*unary.shape)
    share = np.exp(scores - scores.max())
    share /= share.sum()
    found = np.zeros((len(unary) - 1, STATES, STATES))
    for t in range(len(unary) - 1):
        np.add.at(found[t], (routes[:, t], routes[:, t + 1]), share)
    return found


@given(case=label_chains)
@many
def test_expected_counts_of_grouped_chains_match_enumeration(case):
    unary, pairwise, _, rng = potentials(**case)
    coefficients = rng.choice([0.0, 1.0, -0.7], size=len(LENGTHS))
    found = expected_counts(unary, pairwise, LENGTHS, coefficients)
    for f in range(2):
        moved = np.zeros((STATES, STATES))
        for n, length in enumerate(LENGTHS):
            one = unary[f, n, :length], pairwise[f]
            close(found.log_partition[f, n], enumeration.log_partition(*one))
            close(found.nodes[:length, f, :, n], enumeration.marginals(*one))
            assert (np.asarray(found.nodes[length:, f, :, n]) == 0).all()
            moved += coefficients[n] * pair_marginals(*one).sum(0)
        close(found.edges[f], moved)


@given(case=label_chains)
@many
def test_grouped_chains_are_the_same_as_single_ones(case):
    unary, pairwise, _, rng = potentials(**case)
    coefficients = rng.normal(size=len(LENGTHS))
    found = expected_counts(unary, pairwise, LENGTHS, coefficients)
    value, nodes, moves = jax.jit(chain.log_posterior)(unary, pairwise[:, None], LENGTHS)
    close(found.log_partition, value)
    close(np.moveaxis(found.nodes, (0, 2), (2, 3)), nodes)
    close(found.edges, np.einsum("fnij,n->fij", moves, coefficients))
    close(jax.jit(chain.log_partition)(unary, pairwise[:, None], LENGTHS), value)


def suffix_conditionals(unary, pairwise):
    """(T - 1, K, K) p(z_t+1 = j | z_t = i) by enumerating what can follow; zero if nothing can."""
    found = np.zeros((len(unary) - 1, STATES, STATES))
    for t, i in itertools.product(range(len(unary) - 1), range(STATES)):
        after = unary[t + 1 :].copy()
        after[0] += pairwise[i]
        scores = enumeration.path_scores(after, pairwise)
        if scores.max() > -np.inf:
            share = np.exp(scores - scores.max())
            first = enumeration.paths(*after.shape)[:, 0]
            found[t, i] = np.bincount(first, share / share.sum(), STATES)
    return found


@given(case=label_chains)
@many
def test_conditionals_of_grouped_chains_match_enumeration(case):
    unary, pairwise, _, _ = potentials(**case, groups=1)
    nodes, moves = conditionals(unary[0], pairwise[0], LENGTHS)
    for n, length in enumerate(LENGTHS):
        one = unary[0, n, :length], pairwise[0]
        close(nodes[:length, :, n], enumeration.marginals(*one))
        close(moves[: length - 1, :, :, n], suffix_conditionals(*one))
        assert (np.asarray(nodes[length:, :, n]) == 0).all()
        assert (np.asarray(moves[length - 1 :, :, :, n]) == 0).all()


def test_one_step_has_nodes_and_no_moves():
    unary = np.array([[[0.3, -1.0, 2.0]], [[-np.inf, 0.0, 1.0]]])
    found = expected_counts(
        jnp.asarray(unary[None]), jnp.zeros((1, 3, 3)), jnp.array([1, 1]), jnp.ones(2)
    )
    expected = [enumeration.marginals(u, np.zeros((3, 3)))[0] for u in unary]
    close(found.nodes[0, 0].T, expected, atol=1e-15)
    assert (np.asarray(found.edges) == 0).all()
    nodes, moves = conditionals(jnp.asarray(unary), jnp.zeros((3, 3)), jnp.array([1, 1]))
    close(nodes[0].T, expected, atol=1e-15)
    assert moves.shape == (0, 3, 3, 2)


def test_a_chain_that_cannot_happen_does_not_disturb_the_others():
    unary, pairwise, _, _ = potentials("onward", False, 1.0, 1.0, 0)
    broken = unary.copy()
    broken[0, 0, 0, :2] = broken[0, 0, 1, 2] = -np.inf  # the last state, then another
    coefficients = np.array([0.0, 1.0, 1.0])
    found, whole = (expected_counts(u, pairwise, LENGTHS, coefficients) for u in (broken, unary))
    assert found.log_partition[0, 0] == -np.inf
    assert (np.asarray(found.nodes[:, 0, :, 0]) == 0).all()
    close(found.log_partition[:, 1:], whole.log_partition[:, 1:])
    close(found.edges, whole.edges)


@pytest.mark.parametrize("kind", ["transitions", "emissions"])
def test_padding_counts_for_nothing_however_large_its_potentials(kind):
    """exp(800) is no double."""
    unary, pairwise, _, _ = potentials("every", False, 1.0, 1.0, 0, groups=1)
    if kind == "transitions":
        pairwise[0, 0, 1] = 800.0
    else:
        unary[:, 1, 1:, 0] = 800.0  # all but the first step of the second sequence are padding
    found = expected_counts(*map(jnp.asarray, (unary, pairwise, LENGTHS, np.ones(3))))
    expected = sum(
        pair_marginals(unary[0, n, :length], pairwise[0]).sum(0) for n, length in enumerate(LENGTHS)
    )
    close(found.edges[0], expected)
    nodes, moves = conditionals(*map(jnp.asarray, (unary[0], pairwise[0], LENGTHS)))
    assert (np.asarray(nodes[1:, :, 1]) == 0).all()
    assert (np.asarray(moves[:, :, :, 1]) == 0).all()


WIDTH = 2


@jax.jit
def tangents(weights, transition, offset, pairwise, features, coefficients):
    """The Hessian by JAX: of sums of log Z, by weights and transitions."""

    def total(free):
        by_feature, moves = jnp.split(free, [WIDTH * STATES])
        unary = offset + features @ by_feature.reshape(WIDTH, STATES)
        shared = pairwise + moves.reshape(STATES, STATES)
        return coefficients @ chain.log_partition(unary, shared[None], jnp.asarray(LENGTHS), "scan")

    return jax.hessian(total)(jnp.concatenate([weights.ravel(), transition.ravel()]))


@given(case=label_chains)
@settings(max_examples=40, deadline=None)
def test_the_covariance_of_counts_is_the_hessian_of_the_log_partition(case):
    offset, pairwise, _, rng = potentials(**case, groups=1)
    features = rng.normal(size=(len(LENGTHS), STEPS, WIDTH))
    features[np.arange(STEPS) >= LENGTHS[:, None]] = 0.0
    weights, moves = rng.normal(size=(WIDTH, STATES)), rng.normal(size=(STATES, STATES))
    coefficients = rng.choice([0.0, 1.0, -0.7], size=len(LENGTHS))
    unary, shared = offset[0] + features @ weights, pairwise[0] + moves
    found = jax.jit(count_covariance)(unary, shared, LENGTHS, features, coefficients)
    expected = tangents(weights, moves, offset[0], pairwise[0], features, coefficients)
    assert np.isfinite(expected).all()
    close(found, expected)
    np.testing.assert_allclose(found, np.asarray(found).T, atol=1e-12)


def kept_log_partition(unary, pairwise, labels, kept):
    """log N and its slopes by unary and pairwise potentials, with the kept labels fixed."""
    fixed = np.where(kept[:, None] & (np.arange(STATES) != labels[:, None]), -np.inf, unary)
    return (
        enumeration.log_partition(fixed, pairwise),
        enumeration.marginals(fixed, pairwise),
        pair_marginals(fixed, pairwise).sum(0),
    )


@jax.jit
def mean_and_slopes(unary, pairwise, lengths, labels, weights):
    """Slopes are those of a shift: an impossible potential stays impossible."""

    def total(d_unary, d_pairwise):
        values = mean_log_partition(unary + d_unary, pairwise + d_pairwise, lengths, labels, weights)
        return jnp.sum(values), values

    zeros = (jnp.zeros_like(unary), jnp.zeros_like(pairwise))
    slopes, values = jax.grad(total, (0, 1), has_aux=True)(*zeros)
    return values, *slopes


@given(case=label_chains)
@settings(max_examples=30, deadline=None)
def test_the_mean_over_kept_labels_matches_all_subsets(case):
    unary, pairwise, path, rng = potentials(**(case | {"labels": False}), groups=1)
    unary, shared = unary[0], np.tile(pairwise, (len(LENGTHS), 1, 1))
    weights = rng.choice([0.0, 0.3, 0.8, 1.0], size=path.shape)
    labels = np.where((weights == 0) & (rng.random(path.shape) < 0.5), 0, path)  # any, if not kept
    found = mean_and_slopes(unary, shared, LENGTHS, labels, weights)
    for n, length in enumerate(LENGTHS):
        parts = [0.0, np.zeros((length, STATES)), np.zeros((STATES, STATES))]
        for subset in itertools.product([False, True], repeat=int(length)):
            kept = np.array(subset)
            chance = np.prod(np.where(kept, weights[n, :length], 1 - weights[n, :length]))
            if chance > 0:
                one = kept_log_partition(unary[n, :length], pairwise[0], labels[n, :length], kept)
                parts = [a + chance * b for a, b in zip(parts, one, strict=True)]
        close(found[0][n], parts[0])
        close(found[1][n, :length], parts[1])
        close(found[2][n], parts[2])
        assert (np.asarray(found[1][n, length:]) == 0).all()


@given(case=label_chains)
@many
def test_the_best_path_is_that_of_enumeration(case):
    unary, pairwise, _, _ = potentials(**case)
    path, value = jax.jit(chain.best_path)(unary, pairwise[:, None], LENGTHS)
    for f in range(2):
        for n, length in enumerate(LENGTHS):
            scores = enumeration.path_scores(unary[f, n, :length], pairwise[f])
            best = enumeration.paths(int(length), STATES)[scores.argmax()]
            np.testing.assert_array_equal(path[f, n, :length], best)
            rounding = 1e-15 * int(length) * np.abs(unary[f, n, :length]).max()  # of terms that cancel
            assert float(value[f, n]) == pytest.approx(scores.max(), rel=1e-13, abs=rounding)


def test_the_best_path_with_transitions_of_their_own_at_every_step():
    rng = np.random.default_rng(0)
    unary, pairwise = rng.normal(size=(4, 6, 3)), 2 * rng.normal(size=(4, 5, 3, 3))
    path, value = chain.best_path(jnp.asarray(unary), jnp.asarray(pairwise))
    for n in range(4):
        scores = enumeration.path_scores(unary[n], pairwise[n])
        np.testing.assert_array_equal(path[n], enumeration.paths(6, 3)[scores.argmax()])
        assert float(value[n]) == pytest.approx(scores.max(), rel=1e-14)


def iob_like(kinds, rng):
    """Moves between O and pairs of B and I: I only after its own B or I; and some more taken out of
    those, as long as two steps lead anywhere."""
    count = 1 + 2 * kinds
    moves = np.ones((count, count), bool)
    for kind in range(kinds):
        inside = 2 + 2 * kind
        moves[:, inside] = False
        moves[[inside - 1, inside], inside] = True
    for i, j in rng.permutation([(i, j) for i in range(count) for j in range(count)])[:kinds]:
        less = moves.copy()
        less[i, j] = False
        if (less.astype(int) @ less > 0).all():
            moves = less
    return moves


@partial(jax.jit, static_argnums=0)
def posterior_and_slopes(name, unary, pairwise, lengths, d_unary, d_pairwise):
    """log Z and marginals, and their derivatives along a direction: those of log Z, and second ones."""
    function = {"scaled": scan._scaled_posterior, "logs": scan.log_posterior}[name]
    return jax.jvp(
        lambda h: function(unary + h * d_unary, pairwise + h * d_pairwise, lengths), (0.0,), (1.0,)
    )


@given(
    seed=st.integers(0, 10_000),
    kinds=st.sampled_from([1, 2]),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    corners=st.booleans(),
    first=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_where_nothing_can_underflow_scaled_numbers_are_those_in_logarithms(
    seed, kinds, share, corners, first
):
    """Impossible transitions, up to the very range that is called safe: 8 (u + p) just below 600."""
    rng = np.random.default_rng(seed)
    moves = iob_like(kinds, rng)
    count, steps, batch = len(moves), 30, 4
    draw = (lambda *s: rng.integers(0, 2, size=s)) if corners else (lambda *s: rng.random(s))
    room = 74.9
    unary = -share * room * draw(steps, count, batch).astype(float)
    pairwise = -(1 - share) * room * draw(1, count, count, batch).astype(float)
    pairwise[:, ~moves] = -np.inf
    if first:
        unary[0, 2::2] = -np.inf
    assert bool(scan.cannot_underflow(jnp.asarray(unary), jnp.asarray(pairwise)))
    arrays = (
        *map(jnp.asarray, (unary, pairwise, np.array([steps, 1, 7, steps]))),
        *map(jnp.asarray, (rng.normal(size=unary.shape), rng.normal(size=pairwise.shape))),
    )
    scaled, logs = (posterior_and_slopes(name, *arrays) for name in ("scaled", "logs"))
    for found, expected in zip(jax.tree.leaves(scaled), jax.tree.leaves(logs), strict=True):
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("moves", "unary", "wide", "safe"),
    [
        ("two steps", 10.0, 10.0, True),
        ("onward", 10.0, 10.0, False),
        ("two steps", 80.0, 0.0, False),
        ("two steps", 0.0, 80.0, False),
        ("every", 500.0, 20.0, True),
        ("every", 0.0, 151.0, False),
        ("every", 601.0, 0.0, False),
    ],
)
def test_what_is_called_safe(moves, unary, wide, safe):
    u, p = np.zeros((4, 3, 1)), np.zeros((1, 3, 3, 1))
    u[2, 1], p[:, 0, 1] = unary, wide
    p[:, ~MOVES[moves]] = -np.inf
    assert bool(scan.cannot_underflow(jnp.asarray(u), jnp.asarray(p))) == safe


def test_impossible_moves_and_impossible_later_states_together_are_not_called_safe():
    pairwise = np.where(MOVES["two steps"], 0.0, -np.inf)[None, :, :, None]
    first, later = np.zeros((2, 4, 3, 1))
    first[0, 0] = later[2, 0] = -np.inf
    assert bool(scan.cannot_underflow(jnp.asarray(first), jnp.asarray(pairwise)))
    assert not bool(scan.cannot_underflow(jnp.asarray(later), jnp.asarray(pairwise)))
    every = jnp.zeros((1, 3, 3, 1))
    assert bool(scan.cannot_underflow(jnp.asarray(later), every))


def steps_of(made):
    return sum(bucket.sites.size for bucket in made)


@given(
    seed=st.integers(0, 10_000),
    count=st.sampled_from([1, 2, 50, 3000]),
    longest=st.sampled_from([1, 5, 120]),
    most=st.integers(1, 6),
)
@settings(max_examples=60, deadline=None)
def test_buckets_hold_every_sequence_once_at_its_sites(seed, count, longest, most):
    rng = np.random.default_rng(seed)
    lengths = np.minimum(1 + rng.geometric(0.05, size=count), longest)
    made = buckets.bucketed(lengths, most)
    assert len(made) <= most
    members = np.concatenate([bucket.members for bucket in made])
    np.testing.assert_array_equal(np.sort(members), np.arange(count))
    offsets = np.cumsum(lengths) - lengths
    values = 1.0 + np.arange(lengths.sum())
    for bucket in made:
        np.testing.assert_array_equal(bucket.lengths, lengths[bucket.members])
        assert bucket.sites.shape == (len(bucket.members), bucket.lengths.max())
        steps = np.arange(bucket.sites.shape[1])
        valid = steps < bucket.lengths[:, None]
        expected = offsets[bucket.members][:, None] + steps
        np.testing.assert_array_equal(bucket.valid, valid)
        np.testing.assert_array_equal(bucket.sites[valid], expected[valid])
        np.testing.assert_array_equal(bucket.grid(values), np.where(valid, 1.0 + expected, 0.0))
    one = count * lengths.max()
    assert lengths.sum() <= steps_of(made) <= one
    if one <= buckets._FEW:
        assert len(made) == 1
    if steps_of(made) > buckets._FEW and len(made) < most:
        assert steps_of(made) - lengths.sum() <= buckets._WASTE * steps_of(made)


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=30),
    most=st.integers(1, 4),
)
@settings(max_examples=100, deadline=None)
def test_no_other_cut_into_buckets_pads_less(lengths, most):
    lengths = np.array(lengths)

    def padded(ends):
        return int(np.take(ends, np.searchsorted(ends, lengths)).sum())

    found = buckets._ends(lengths, most)
    sizes = np.unique(lengths)
    assert found == sorted(set(found))
    assert len(found) <= most
    assert found[-1] == sizes[-1]
    others = [
        [*inner, sizes[-1]]
        for size in range(min(most, len(sizes)))
        for inner in itertools.combinations(sizes[:-1], size)
    ]
    assert padded(found) == min(map(padded, others))


def test_long_corpora_get_several_buckets_and_little_padding():
    lengths = np.random.default_rng(0).integers(1, 100, size=2000)
    made = buckets.bucketed(lengths)
    assert 1 < len(made) <= 6
    assert steps_of(made) < 0.7 * len(lengths) * lengths.max()
