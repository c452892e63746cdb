"""The chain engine against enumeration of all paths, on random small cases."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import enumeration
from fitonce.engines import chain, chain_scan
from fuzzing.engine_strategies import chain_potentials

pytestmark = pytest.mark.usefixtures("scaled_where_safe")
KERNELS = ["scan", "tree"]
log_partition = jax.jit(chain.log_partition, static_argnames="kernel")
marginals = jax.jit(chain.marginals, static_argnames="kernel")
increments, leave_one_out = jax.jit(chain.increments), jax.jit(chain.leave_one_out)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("size", "branches"), [(0, 1), (2**16, 0)])
def test_small_arrays_compile_one_arithmetic_only(size, branches, monkeypatch):
    monkeypatch.setattr(chain_scan, "SMALL", size)
    unary, pairwise = jnp.zeros((5, 2)), jnp.zeros((2, 2))
    made = jax.make_jaxpr(lambda u, p: chain.log_partition(u, p, kernel="scan"))(unary, pairwise)
    assert str(made).count("cond[") == branches


def potentials(shape, zeros, shift, spread, seed, wide=1.0):
    """Random potentials, always with one possible path."""
    steps, states, varying = shape
    rng = np.random.default_rng(seed)
    unary = spread * rng.normal(size=(steps, states))
    pairwise = wide * rng.normal(size=(steps - 1, states, states) if varying else (states, states))
    route = rng.integers(states, size=steps)
    if not varying:
        route[:] = route[0]
    if zeros in ("transitions", "all"):
        mask = rng.random(pairwise.shape) < 0.5
        for t in range(steps - 1):
            mask[(t, route[t], route[t + 1]) if varying else (route[t], route[t + 1])] = False
        pairwise[mask] = -np.inf
    if zeros in ("start", "all"):
        unary[0, np.arange(states) != route[0]] = -np.inf
    if zeros in ("emission", "all"):
        mask = rng.random(unary.shape) < 0.3
        mask[np.arange(steps), route] = False
        unary[mask] = -np.inf
    return unary + shift, pairwise - shift


# Compiled once per shape and kernel; hypothesis then varies the numbers.
@partial(jax.jit, static_argnums=0)
def engine(kernel, unary, pairwise):
    return chain.log_partition(unary, pairwise, kernel=kernel), chain.marginals(
        unary, pairwise, kernel=kernel
    )


@partial(jax.jit, static_argnums=0)
def engine_derivatives(kernel, unary, pairwise, d_unary, d_pairwise):
    def value(theta):
        moved = unary + jnp.tensordot(theta, d_unary, 1), pairwise + jnp.tensordot(theta, d_pairwise, 1)
        return chain.log_partition(*moved, kernel=kernel)

    return jax.grad(value)(jnp.zeros(2)), jax.hessian(value)(jnp.zeros(2))


@pytest.mark.parametrize("kernel", KERNELS)
@given(case=chain_potentials)
@settings(max_examples=150, deadline=None)
def test_log_partition_and_marginals_match_enumeration(kernel, case):
    unary, pairwise = potentials(**case)
    value, found = engine(kernel, unary, pairwise)
    np.testing.assert_allclose(value, enumeration.log_partition(unary, pairwise), rtol=1e-13, atol=1e-11)
    np.testing.assert_allclose(found, enumeration.marginals(unary, pairwise), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@given(case=chain_potentials)
@settings(max_examples=150, deadline=None)
def test_first_and_second_derivatives_match_enumeration(kernel, case):
    unary, pairwise = potentials(**case)
    rng = np.random.default_rng(1)
    d_unary, d_pairwise = rng.normal(size=(2, *unary.shape)), rng.normal(size=(2, *pairwise.shape))
    gradient, hessian = engine_derivatives(kernel, unary, pairwise, d_unary, d_pairwise)
    # log Z of paths with scores s + theta . f has gradient E f and Hessian Cov f.
    weight = np.exp(
        enumeration.path_scores(unary, pairwise) - enumeration.log_partition(unary, pairwise)
    )
    slopes = np.stack([enumeration.path_scores(*d) for d in zip(d_unary, d_pairwise, strict=True)])
    mean = slopes @ weight
    np.testing.assert_allclose(gradient, mean, rtol=1e-9, atol=1e-10)
    centred = slopes - mean[:, None]
    np.testing.assert_allclose(hessian, (centred * weight) @ centred.T, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("varying", [False, True])
def test_padded_batch_matches_each_sequence_alone(kernel, varying):
    rng = np.random.default_rng(0)
    lengths, states = np.array([5, 1, 3, 5]), 3
    unary = rng.normal(size=(2, 4, 5, states))
    pairwise = rng.normal(size=(2, 4, 4, states, states) if varying else (2, 1, states, states))
    value = log_partition(unary, pairwise, lengths, kernel=kernel)
    found = marginals(unary, pairwise, lengths, kernel=kernel)
    value, found = np.asarray(value), np.asarray(found)
    for fold in range(2):
        for n, length in enumerate(lengths):
            u = unary[fold, n, :length]
            p = pairwise[fold, n, : length - 1] if varying else pairwise[fold, 0]
            np.testing.assert_allclose(value[fold, n], enumeration.log_partition(u, p), rtol=1e-12)
            np.testing.assert_allclose(found[fold, n, :length], enumeration.marginals(u, p), rtol=1e-10)
            assert (found[fold, n, length:] == 0).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("zeros", ["none", "all"])
def test_marginals_at_places_are_those_of_the_full_grid(kernel, zeros):
    made = [potentials((4, 2, False), zeros, 0.0, 1.0, seed) for seed in range(6)]
    unary = np.stack([u for u, _ in made]).reshape(2, 3, 4, 2)
    pairwise, lengths = made[0][1], np.array([4, 2, 3])
    at = np.array([[0, 5, 10], [1, 3, 4]])
    full = np.asarray(marginals(unary, pairwise, lengths, kernel=kernel)).reshape(2, 12, 2)
    some = marginals(unary, pairwise, lengths, kernel=kernel, at=at)
    np.testing.assert_allclose(some, np.take_along_axis(full, at[..., None], 1))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_long_forced_path_keeps_its_improbable_value(kernel):
    """State 0 is left for good at once; probabilities far below the smallest double still count."""
    steps = 60
    unary = np.zeros((steps, 2))
    unary[: steps - 1, 0] = -40.0
    unary[-1, 1] = -np.inf
    pairwise = np.array([[0.0, 0.0], [-np.inf, 0.0]])
    value = log_partition(unary, pairwise, kernel=kernel)
    assert float(value) == pytest.approx(-40.0 * (steps - 1), rel=1e-14)


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_impossible_chain_has_log_partition_minus_infinity(kernel):
    unary = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    pairwise = np.array([[0.0, -np.inf], [0.0, 0.0]])
    assert float(log_partition(unary, pairwise, kernel=kernel)) == -np.inf
    assert (np.asarray(marginals(unary, pairwise, kernel=kernel)) == 0).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_step_impossible_in_every_state_has_log_partition_minus_infinity(kernel):
    unary = np.array([[0.0, 0.0], [-np.inf, -np.inf], [0.0, 0.0]])
    value = log_partition(unary, np.zeros((2, 2)), kernel=kernel)
    assert float(value) == -np.inf


def test_derivatives_at_the_edge_of_the_scaled_arithmetic():
    """Pairwise potentials so wide that a square of a divisor would underflow."""
    unary = np.array([[0.0, 0.0], [-np.inf, 0.0], [0.0, 0.0], [0.0, 0.0]])
    value = lambda p: chain.log_partition(jnp.asarray(unary), p, kernel="scan")  # noqa: E731
    gradient, hessian = jax.jit(jax.grad(value)), jax.jit(jax.hessian(value))
    for width in (100.0, 149.0, 151.0, 250.0, 500.0):
        pairwise = np.array([[0.0, -width], [-width, -width]])
        weight = np.exp(
            enumeration.path_scores(unary, pairwise) - enumeration.log_partition(unary, pairwise)
        )
        counts = np.array([
            [np.sum((r[:-1] == i) & (r[1:] == j)) for i in range(2) for j in range(2)]
            for r in enumeration.paths(4, 2)
        ])  # fmt: skip
        mean = weight @ counts
        np.testing.assert_allclose(gradient(pairwise).ravel(), mean, atol=1e-12)
        cov = (counts - mean).T @ (weight[:, None] * (counts - mean))
        np.testing.assert_allclose(hessian(pairwise).reshape(4, 4), cov, atol=1e-12)


def test_kernels_agree_on_a_long_chain():
    rng = np.random.default_rng(0)
    unary, pairwise = jnp.asarray(rng.normal(size=(3001, 4))), jnp.asarray(rng.normal(size=(4, 4)))

    @partial(jax.jit, static_argnums=0)
    def both(kernel, pairwise):
        return jax.value_and_grad(lambda p: chain.log_partition(unary, p, kernel=kernel))(pairwise)

    (scan, d_scan), (tree, d_tree) = both("scan", pairwise), both("tree", pairwise)
    np.testing.assert_allclose(scan, tree, rtol=1e-13)
    np.testing.assert_allclose(d_scan, d_tree, rtol=1e-10)


def test_default_kernel_is_the_scan_on_a_cpu():
    assert jax.default_backend() != "cpu" or chain.default_kernel() == "scan"


@partial(jax.jit, static_argnums=4)
def _leave_one_out(emission, initial, pairwise, slope, derivative):
    def value(scale):
        return chain.leave_one_out(emission + scale * slope, initial, pairwise)

    return jax.jvp(value, (0.0,), (1.0,)) if derivative else value(0.0)


@settings(max_examples=30, deadline=None)
@given(case=chain_potentials)
def test_leave_one_out_matches_enumeration(case):
    """Also where emissions and transitions are impossible, in the values and the derivatives."""
    unary, pairwise = potentials(**(case | {"shift": 0.0, "shape": (*case["shape"][:2], False)}))
    steps, states = unary.shape
    rng = np.random.default_rng(case["seed"])
    initial = rng.normal(size=states)
    slope = rng.normal(size=unary.shape)
    found, tangent = _leave_one_out(unary, initial, pairwise, slope, True)

    def expected(scale):
        emission = unary + scale * slope
        full = emission.copy()
        full[0] += initial
        out = []
        for t in range(steps):
            without = full.copy()
            without[t] -= np.where(np.isfinite(emission[t]), emission[t], 0.0)
            without[t, np.isneginf(emission[t])] = initial[np.isneginf(emission[t])] if t == 0 else 0.0
            out.append(enumeration.log_partition(without, pairwise))
        return enumeration.log_partition(full, pairwise) - np.array(out)

    np.testing.assert_allclose(found, expected(0.0), rtol=1e-9, atol=1e-9)
    numeric = (expected(1e-5) - expected(-1e-5)) / 2e-5
    np.testing.assert_allclose(tangent, numeric, rtol=1e-5, atol=1e-5 * case["spread"])


@settings(max_examples=20, deadline=None)
@given(case=chain_potentials)
def test_increments_match_enumeration_of_prefixes(case):
    unary, pairwise = potentials(**(case | {"shift": 0.0, "shape": (*case["shape"][:2], False)}))
    pairwise[np.isneginf(pairwise).all(1)] = 0.0  # a state that nothing follows has no probabilities
    norm = np.log(np.exp(pairwise - pairwise.max(1, keepdims=True)).sum(1)) + pairwise.max(1)
    pairwise = pairwise - norm[:, None]
    found = increments(unary, pairwise)
    totals = [enumeration.log_partition(unary[: t + 1], pairwise) for t in range(len(unary))]
    np.testing.assert_allclose(found, np.diff(totals, prepend=0.0), rtol=1e-9, atol=1e-8)


def test_padding_adds_nothing_to_increments_and_leave_one_out():
    rng = np.random.default_rng(0)
    unary, initial = rng.normal(size=(6, 2)), np.log([0.4, 0.6])
    pairwise, lengths = np.log([[0.8, 0.2], [0.3, 0.7]]), np.array([6, 4])
    both = np.stack([unary, unary])
    steps = np.asarray(increments(both, pairwise[None], lengths))
    alone = np.asarray(leave_one_out(both, initial, pairwise[None], lengths))
    np.testing.assert_allclose(steps[1, :4], increments(unary[:4], pairwise), rtol=1e-12)
    np.testing.assert_allclose(alone[1, :4], leave_one_out(unary[:4], initial, pairwise), rtol=1e-12)
    np.testing.assert_array_equal(steps[1, 4:], 0.0)
    np.testing.assert_array_equal(alone[1, 4:], 0.0)
