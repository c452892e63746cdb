"""Small factors against LAPACK's, and no LAPACK in programs that run on a CPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from fitonce.core.constraints import Free
from fitonce.core.numerics import in_float64
from fitonce.core.small_factors import cholesky, solve_lower, without_lapack
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


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@in_float64
def test_every_triangular_solve_of_a_user_is_ours(monkeypatch, left, lower, transposed, unit):
    monkeypatch.setattr("fitonce.core.small_factors._later_jaxlib", lambda: False)
    how = {"left_side": left, "lower": lower, "transpose_a": transposed, "unit_diagonal": unit}

    def solve(matrix, right):
        factor = jnp.linalg.cholesky(matrix)
        factor = factor if lower else jnp.swapaxes(factor, -1, -2)
        return {"found": jax.lax.linalg.triangular_solve(factor, right, **how), "matrix": 2.0 * matrix}

    given = jnp.asarray(matrices()), jnp.asarray(np.random.default_rng(3).normal(size=(4, 5, 5)))
    ours, theirs = without_lapack(solve)(*given), solve(*given)
    np.testing.assert_allclose(ours["found"], theirs["found"], rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(ours["matrix"], theirs["matrix"])
    text = jax.jit(without_lapack(solve)).lower(*given).as_text()
    assert "lapack" not in text


class OwnNormal(fo.models.Emission):
    """A user's normal emission, written with a batch of factors."""

    name = "own normal"

    def parameters(self, n_states, rows):
        return {"mean": Free((n_states, 2))}

    def start(self, n_states, rows, rng):
        return {"mean": np.zeros((n_states, 2))}

    def log_density(self, params, rows):
        covariance = jnp.eye(2) * (1.0 + params["mean"][:, :1, None] ** 2)
        factor = jnp.linalg.cholesky(covariance)
        residual = jnp.moveaxis(rows.x[:, None] - params["mean"], 0, -1)
        white = jax.scipy.linalg.solve_triangular(factor, residual, lower=True)
        return -0.5 * jnp.sum(white**2, 1).T - jnp.sum(
            jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), 1
        )

    def log_prior(self, params, rows):
        return -0.5 * jnp.sum(params["mean"] ** 2)


@in_float64
def test_a_users_own_emission_calls_no_lapack(monkeypatch):
    monkeypatch.setattr("fitonce.core.small_factors._later_jaxlib", lambda: False)
    data = np.random.default_rng(0).normal(size=(20, 2))
    objective = best_objective(fo.models.HMM(2, OwnNormal()), data, "scan")
    at = jnp.asarray(objective.start(None))[None]

    def value(thetas):
        return jnp.sum(
            objective.values(objective.program, thetas, objective.base[None], *objective.arrays)
        )

    assert "lapack" not in jax.jit(jax.grad(value)).lower(at).as_text()
