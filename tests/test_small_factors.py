"""Small factors against LAPACK's, and no LAPACK in programs that run on a CPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fitonce.core.numerics import in_float64
from fitonce.core.small_factors import cholesky, solve_lower


def matrices(seed=0, count=4, size=5):
    root = np.random.default_rng(seed).normal(size=(count, size, size + 2))
    return root @ root.transpose(0, 2, 1)


@in_float64
def test_factors_and_solutions_are_those_of_lapack():
    given = matrices()
    factors = cholesky(jnp.asarray(given))
    np.testing.assert_allclose(factors, np.linalg.cholesky(given), rtol=1e-12, atol=1e-13)
    right = np.random.default_rng(1).normal(size=(5, 3))
    np.testing.assert_allclose(
        solve_lower(factors, jnp.asarray(right)), np.linalg.solve(factors, right[None]), rtol=1e-10
    )


@in_float64
def test_derivatives_are_those_of_lapack():
    right = jnp.asarray(np.random.default_rng(1).normal(size=(5, 3)))

    def value(root, factor, solve):
        found = factor(root @ root.T + jnp.eye(5))
        return jnp.sum(solve(found, right) ** 2) + jnp.sum(jnp.log(jnp.diagonal(found)))

    def by_lapack(factor, right):
        return jax.scipy.linalg.solve_triangular(factor, right, lower=True)

    root = jnp.asarray(np.random.default_rng(2).normal(size=(5, 5)))
    for derivative in (jax.grad, jax.hessian):
        ours = derivative(lambda r: value(r, cholesky, solve_lower))(root)
        theirs = derivative(lambda r: value(r, jnp.linalg.cholesky, by_lapack))(root)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


@in_float64
def test_an_indefinite_matrix_has_no_factor():
    assert jnp.isnan(cholesky(jnp.asarray([[[1.0, 2.0], [2.0, 1.0]]]))).any()
