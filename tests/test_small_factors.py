"""Small factors against LAPACK's, and no LAPACK in programs of built-in emissions that run on a CPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from fitonce.core.numerics import in_float64
from fitonce.core.small_factors import cholesky, solve_lower
from fitonce.objectives.chain.native import best_objective
from registry import entries


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


@pytest.mark.parametrize("entry", [e for e in entries() if isinstance(e.model, fo.models.HMM)], ids=str)
@in_float64
def test_no_program_of_a_chain_calls_lapack(entry):
    """Lowered, not compiled: F, and H by tangents of its gradient, for two folds at once."""
    objective = best_objective(entry.model, entry.data, "scan")
    at = np.stack([objective.start(None)] * 2)
    weights = np.stack([objective.base] * 2)

    def value(thetas):
        return jnp.sum(objective.values(objective.program, thetas, weights, *objective.arrays))

    def bent(thetas):
        return jax.jvp(jax.grad(value), (thetas,), (jnp.ones_like(thetas),))[1]

    for program in (value, bent):
        assert "lapack" not in jax.jit(program).lower(jnp.asarray(at)).as_text()


@in_float64
def test_a_call_of_lapack_would_be_seen():
    given = jnp.asarray(matrices())
    assert "lapack" in jax.jit(jnp.linalg.cholesky).lower(given).as_text()
