"""LAPACK has one matrix at a time in programs that run on a CPU, whatever a user writes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest

import fitonce as fo
from fitonce.core import lapack
from fitonce.core.constraints import Free
from fitonce.core.deferred import jit
from fitonce.core.lapack import CALLS, one_matrix_at_a_time
from fitonce.core.numerics import in_float64
from fitonce.objectives.chain.native import best_objective
from lapack_densities import CALLS_OF_JAX, DERIVED

HERE = Path(__file__).parent
OWN_LOOPS = {"cholesky_update", "lu_pivots_to_permutation", "symmetric_product"}  # of JAX on a CPU
PATIENCE = 900.0  # seconds for a process that takes less than a minute on an idle machine


@pytest.fixture(autouse=True)
def as_before_jaxlib_011(monkeypatch):
    monkeypatch.setattr(lapack, "waits", lambda: True)


def batches_of(program, *given):
    """The calls of LAPACK in a lowered program that get more than one matrix."""
    text = jax.jit(program).lower(*given).as_text()
    calls = [line for line in text.splitlines() if "@lapack_" in line]
    assert calls
    shapes = [re.findall(r"tensor<((?:\d+x)+)", line.rpartition(" : ")[2]) for line in calls]
    large = [[int(size) for size in shape.split("x")[:-1]] for line in shapes for shape in line]
    return [shape for shape in large if len(shape) > 2 and np.prod(shape[:-2]) > 1]


def test_every_call_of_lapack_is_known():
    names = {name[:-2] for name in dir(jax.lax.linalg) if name.endswith("_p")}
    assert names - OWN_LOOPS <= CALLS


@pytest.mark.parametrize("name", CALLS_OF_JAX)
@in_float64
def test_matrix_by_matrix_is_the_batch(name):
    found = CALLS_OF_JAX[name]
    root = np.random.default_rng(0).normal(size=(2, 3, 6, 9))
    given = jnp.asarray(root @ root.swapaxes(-1, -2) + np.diag(np.arange(6.0)))

    def value(matrices):
        return jax.vmap(jax.vmap(found))(matrices)

    def slope(matrices):
        return jax.grad(lambda m: jnp.sum(value(m)))(matrices)

    for program in (value, slope) if name in DERIVED else (value,):
        np.testing.assert_allclose(
            jax.jit(one_matrix_at_a_time(program))(given), jax.jit(program)(given), rtol=1e-9, atol=1e-9
        )
        assert batches_of(program, given)
        assert not batches_of(one_matrix_at_a_time(program), given)


@in_float64
def test_calls_in_loops_branches_and_rules_are_found():
    @jax.custom_jvp
    def own(matrix):
        return jnp.linalg.slogdet(matrix)[1]

    own.defjvp(lambda at, along: (own(*at), jnp.sum(jnp.linalg.inv(at[0]) * along[0])))

    def value(matrix):
        matrix = jax.lax.fori_loop(0, 3, lambda _, m: jnp.linalg.cholesky(m @ m.T), matrix)
        matrix = jax.lax.cond(matrix[0, 0] > 0, jnp.linalg.inv, lambda m: m, matrix)
        total, _ = jax.lax.scan(lambda t, m: (t + own(m), None), 0.0, jnp.stack([matrix, 2 * matrix]))
        return jax.checkpoint(lambda m: total * jnp.sum(jnp.linalg.solve(m, m[0])))(matrix)

    def program(matrices):
        return jax.vmap(value)(matrices)

    given = jnp.asarray(np.random.default_rng(1).normal(size=(4, 5, 5)) + 3.0 * np.eye(5))
    np.testing.assert_allclose(
        jax.jit(one_matrix_at_a_time(program))(given), jax.jit(program)(given), rtol=1e-10
    )
    assert batches_of(program, given)
    assert not batches_of(one_matrix_at_a_time(program), given)


@in_float64
def test_our_jit_has_one_matrix_at_a_time_and_keeps_derivatives():
    @jit
    def value(matrices, power, *, shift):
        return jnp.sum(jnp.linalg.slogdet(matrices + shift * jnp.eye(5))[1] ** power)

    given = jnp.asarray(np.random.default_rng(2).normal(size=(4, 5, 5)))

    def program(matrices):
        return value(matrices, 2.0, shift=9.0)

    expected = jnp.sum(jnp.linalg.slogdet(given + 9.0 * jnp.eye(5))[1] ** 2)
    np.testing.assert_allclose(program(given), expected, rtol=1e-12)
    slope = jax.grad(program)(given)
    step = jnp.zeros_like(given).at[1, 2, 3].set(1e-6)
    difference = (program(given + step) - program(given - step)) / 2e-6
    np.testing.assert_allclose(slope[1, 2, 3], difference, rtol=1e-6)
    assert not batches_of(one_matrix_at_a_time(jax.grad(program)), given)


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
        white = jsl.solve_triangular(factor, residual, lower=True)
        return -0.5 * jnp.sum(white**2, 1).T - jnp.sum(
            jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), 1
        )

    def log_prior(self, params, rows):
        return -0.5 * jnp.sum(params["mean"] ** 2)


@in_float64
def test_a_users_own_emission_has_one_matrix_at_a_time():
    data = np.random.default_rng(0).normal(size=(20, 2))
    objective = best_objective(fo.models.HMM(2, OwnNormal()), data, "scan")
    at = jnp.asarray(objective.start(None))[None]

    def value(thetas):
        return jnp.sum(
            objective.values(objective.program, thetas, objective.base[None], *objective.arrays)
        )

    assert batches_of(jax.grad(value), at)
    assert not batches_of(one_matrix_at_a_time(jax.grad(value)), at)


def through_every_method(*names):
    """`lapack_densities` in a process that ends after a while."""
    words = [sys.executable, str(HERE / "lapack_densities.py"), *names]
    done = subprocess.run(words, timeout=PATIENCE, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"{name}:done" for name in names]


def test_a_factor_and_an_inverse_return_through_every_method():
    through_every_method("car")


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS_OF_JAX)
def test_every_call_of_lapack_returns_through_every_method(name):
    through_every_method(name)
