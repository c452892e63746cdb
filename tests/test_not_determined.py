"""What is no optimum and no hidden state is not called one."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from fitonce.core.status import Outcome
from fitonce.fitting.certificate import certify
from fitonce.fitting.factor import Factor, _by_powers, factor_of

NAMES = ["level", "shift"]


def certified(lowest, shift=0.0):
    hessian = np.diag([3.0, lowest])
    return certify(np.array([0.0, shift]), np.zeros(2), hessian, factor_of(hessian), NAMES, 1e-6)


def test_a_singular_h_is_no_proof_of_an_optimum():
    status = certified(2e-35)
    assert status.outcome is Outcome.NOT_DETERMINED
    assert str(status).startswith("not determined: H is singular along 'shift' (standard error 2.2e+17)")
    assert not status.ok
    assert certified(2e-20).ok


def test_a_large_unit_is_no_lack_of_determination():
    """Of parameters in a unit of 1e18, standard errors are as large, and H is as small."""
    assert certified(2e-35, shift=3e18).ok
    assert certified(2e-35, shift=-40.0).outcome is Outcome.NOT_DETERMINED


def test_a_mean_in_a_large_unit_is_determined():
    x = 1e18 * np.random.default_rng(0).normal(3.0, size=40)

    def density(params, x, weights):
        return jnp.sum(weights * -0.5 * ((x - params["mean"]) / 1e18) ** 2)

    fit = fo.fit(fo.models.Custom(density, {"mean": x[0]}), x, restarts=1, optima=0)
    assert fit.status.ok
    np.testing.assert_allclose(fit.params["mean"], x.mean())


def test_a_fit_with_a_parameter_that_makes_no_difference_says_so():
    def density(params, x, weights):
        by_point = -0.5 * (x - params["level"]) ** 2
        return jnp.sum(weights * by_point) - 1e-35 * params["shift"] ** 2

    x = np.random.default_rng(0).normal(size=40)
    model = fo.models.Custom(density, {"level": np.array(0.0), "shift": np.array(0.5)})
    fit = fo.fit(model, x, restarts=1, optima=0)
    assert fit.status.outcome is Outcome.NOT_DETERMINED
    assert "'shift'" in fit.status.message


def test_observed_classes_are_no_hidden_states():
    seen = np.repeat([0.0, 1.0], [5, 25])
    edges = [(k, k + 1) for k in range(29)]

    def emission(params, x):
        return jnp.where(jnp.arange(2) == x[:, None], 0.0, -jnp.inf)

    field = fo.models.CustomField(
        edges, lambda p: [p["beta"] * jnp.eye(2)] * 29, emission, {"beta": np.array(0.1)},
        log_prior=lambda p: -0.5 * p["beta"] ** 2,
    )  # fmt: skip
    fit = fo.fit(field, seen, restarts=1, optima=0)
    assert "rests on" not in str(fit)
    hidden = fo.fit(fo.models.PottsMixture(edges, beta=0.5), 1.0 + 200.0 * seen, restarts=1, optima=0)
    assert "class 0 rests on 5.0" in str(hidden)


@pytest.mark.parametrize("size", [2, 5, 30])
@pytest.mark.parametrize("exponent", [0, 8, 20, 100, 150])
def test_the_smallest_eigenvalue_beside_a_tiny_coordinate_is_right(size, exponent):
    some = np.random.default_rng(size).normal(size=(size, size))
    scale = np.ones(size)
    scale[0] = 10.0**-exponent
    matrix = (some @ some.T + size * np.eye(size)) * np.outer(scale, scale)
    inverse = (
        np.linalg.inv(matrix / np.outer(scale, scale)) * 10.0 ** (-2 * exponent) / np.outer(scale, scale)
    )
    expected = 10.0 ** (-2 * exponent) / np.linalg.eigvalsh(inverse)[-1]
    assert factor_of(matrix).lowest == pytest.approx(expected, rel=1e-6)


def test_an_eigenvalue_below_the_smallest_number_is_zero():
    tiny = Factor(np.eye(3), np.array([1e-170, 1.0, 1.0]), 1.0)
    assert tiny.lowest == 0.0
    start = np.random.default_rng(0).normal(size=3)
    assert _by_powers(lambda v: v / np.array([1e-4, 1.0, 1.0]), start) == pytest.approx(1e-4)
    assert np.isnan(_by_powers(tiny.solve, start))
