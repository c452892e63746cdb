from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fitonce.core import numerics
from fitonce.core.numerics import in_float64

INF = np.inf
# Compiled, so that each is one program and not one for every operation in it.
logsumexp = jax.jit(numerics.logsumexp, static_argnums=1)
safe_log, scale_log = jax.jit(numerics.safe_log), jax.jit(numerics.scale_log)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def test_safe_log_and_two_derivatives_match_log_at_positive_numbers():
    for x in (1e-300, 0.3, 1.0, 7.0):
        np.testing.assert_allclose(safe_log(x), np.log(x), rtol=1e-15)
        np.testing.assert_allclose(jax.grad(safe_log)(x), 1 / x, rtol=1e-15)
    np.testing.assert_allclose(jax.grad(jax.grad(safe_log))(0.3), -1 / 0.3**2, rtol=1e-14)


def test_safe_log_of_zero_is_minus_infinity_with_zero_derivatives():
    assert safe_log(0.0) == -INF
    assert jax.grad(safe_log)(0.0) == 0.0
    assert jax.grad(jax.grad(safe_log))(0.0) == 0.0


@pytest.mark.parametrize("x", [np.nan, -1.0])
def test_safe_log_does_not_hide_what_has_no_logarithm(x):
    assert np.isnan(safe_log(x))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_logsumexp_matches_numpy_along_each_axis(axis):
    x = np.random.default_rng(0).normal(size=(3, 4)) * 5
    expected = np.log(np.exp(x).sum(axis))
    np.testing.assert_allclose(logsumexp(jnp.asarray(x), axis), expected, rtol=1e-14)


@pytest.mark.parametrize("shift", [-2000.0, 2000.0])
def test_logsumexp_survives_where_exp_does_not(shift):
    np.testing.assert_allclose(logsumexp(jnp.array([shift, shift]), 0), shift + np.log(2), rtol=1e-15)


@pytest.mark.parametrize("x", [[0.1, -2.0, 1.5], [0.1, -INF, 1.5], [-INF, -INF, 3.0]])
def test_logsumexp_derivatives_are_those_of_the_softmax(x):
    x = jnp.array(x)
    p = np.exp(x) / np.exp(x).sum()
    np.testing.assert_allclose(logsumexp(x, 0), np.log(np.exp(x).sum()), rtol=1e-15)
    gradient = jax.grad(lambda v: logsumexp(v, 0))(x)
    np.testing.assert_allclose(gradient, p, rtol=1e-14, atol=0)
    hessian = jax.hessian(lambda v: logsumexp(v, 0))(x)
    np.testing.assert_allclose(hessian, np.diag(p) - np.outer(p, p), rtol=1e-14, atol=1e-16)


def test_logsumexp_of_nothing_possible_is_minus_infinity_with_zero_derivatives():
    x = jnp.full(3, -INF)
    assert logsumexp(x, 0) == -INF
    np.testing.assert_array_equal(jax.grad(lambda v: logsumexp(v, 0))(x), np.zeros(3))
    np.testing.assert_array_equal(jax.hessian(lambda v: logsumexp(v, 0))(x), np.zeros((3, 3)))


def test_logsumexp_and_scale_log_do_not_hide_nan():
    assert np.isnan(logsumexp(jnp.array([0.0, np.nan]), 0))
    assert np.isnan(scale_log(1.0, np.nan))


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
def test_scale_log_and_its_derivatives_are_those_of_a_product_at_possible_terms(weight):
    assert scale_log(weight, -3.0) == weight * -3.0
    assert jax.grad(scale_log, (0, 1))(weight, -3.0) == (-3.0, weight)
    second = jax.hessian(scale_log, (0, 1))(weight, -3.0)
    np.testing.assert_array_equal(second, [[0, 1], [1, 0]])


@pytest.mark.parametrize(("weight", "expected"), [(0.0, 0.0), (1e-9, -INF), (1.0, -INF)])
def test_scale_log_deletes_an_impossible_term_only_at_weight_zero(weight, expected):
    assert scale_log(weight, -INF) == expected
    assert jax.grad(scale_log, (0, 1))(weight, -INF) == (0.0, 0.0)
    np.testing.assert_array_equal(jax.hessian(scale_log, (0, 1))(weight, -INF), np.zeros((2, 2)))


@pytest.mark.parametrize("enabled", [False, True])
def test_in_float64_computes_in_float64_and_restores_the_flag(enabled):
    @in_float64
    def dtype(fail):
        """Say which."""
        if fail:
            raise RuntimeError("inside")
        return jnp.ones(()).dtype

    with jax.enable_x64(enabled):
        assert dtype(False) == jnp.float64
        assert jax.config.jax_enable_x64 is enabled
        with pytest.raises(RuntimeError, match="inside"):
            dtype(True)
        assert jax.config.jax_enable_x64 is enabled
    assert (dtype.__name__, dtype.__doc__) == ("dtype", "Say which.")


def test_lengths_of_vectors_do_not_overflow():
    vectors = np.array([[3.0, -4.0], [3e250, 4e250], [3e-250, 4e-250], [0.0, 0.0], [INF, 1.0]])
    with np.errstate(all="raise"):
        found = numerics.lengths_of(vectors)
    np.testing.assert_allclose(found, [5.0, 5e250, 5e-250, 0.0, INF], rtol=1e-15)
    assert found[0] == numerics.lengths_of(vectors[0]) == np.linalg.norm(vectors[0])
    assert np.isnan(numerics.lengths_of(np.array([1.0, np.nan])))
