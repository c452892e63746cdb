"""Networks in M steps: derivatives by differences, and steps that go down."""

from __future__ import annotations

import numpy as np
import pytest

import fitonce as fo
from ar_cases import at_random, walks
from fitonce.models.emissions.gauss_newton import Layers, Problem, improved


@pytest.fixture(scope="module")
def layers():
    rng = np.random.default_rng(1)
    return Layers(*(rng.normal(size=shape) for shape in ((4,), (3,), (4, 2), (3, 4))))


def problem(rows=30, missing=False):
    rng = np.random.default_rng(0)
    inputs = np.concatenate([rng.normal(size=(rows, 2)), np.ones((rows, 1))], 1)
    observed = rng.random((rows, 3)) < 0.8 if missing else np.ones((rows, 3), bool)
    return Problem(inputs, rng.normal(size=(rows, 3)), observed, rng.random(rows))


def differences(function, at, step=1e-5):
    moves = step * np.eye(len(at))
    return np.array([(function(at + m) - function(at - m)) / (2 * step) for m in moves])


@pytest.mark.parametrize("missing", [False, True])
def test_the_gradient_is_that_of_half_the_squares(layers, missing):
    given = problem(missing=missing)
    half = lambda flat: 0.5 * given.squares(layers.like(flat))  # noqa: E731
    np.testing.assert_allclose(
        given.gradient(layers), differences(half, layers.flat()), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("missing", [False, True])
def test_gauss_newton_is_the_gram_matrix_of_slopes(layers, missing):
    given = problem(missing=missing)
    slopes = differences(lambda flat: given.residuals(layers.like(flat)).ravel(), layers.flat())
    expected = (slopes * np.repeat(given.shares, 3)) @ slopes.T
    np.testing.assert_allclose(given.gauss_newton(layers), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("missing", [False, True])
def test_the_hessian_is_the_slope_of_the_gradient(layers, missing):
    given = problem(missing=missing)
    expected = differences(lambda flat: given.gradient(layers.like(flat)), layers.flat())
    np.testing.assert_allclose(given.hessian(layers), expected, rtol=1e-6, atol=1e-7)
    total = given.shares @ given.pulls_of_rows(layers)
    np.testing.assert_allclose(total, -given.gradient(layers), rtol=1e-12, atol=1e-12)


def test_m_steps_where_the_prior_is_lost_to_rounding_do_no_harm(layers):
    """Data in tiny units: the matrix is singular, and the prior's precision too small beside it."""
    given = problem()
    given = given._replace(inputs=np.zeros_like(given.inputs), targets=1e-9 * given.targets)

    def cost(one):
        return 0.5 * (given.squares(one) / 1e-30 + one.flat() @ one.flat())

    assert cost(improved(given, layers, 1e-30, 1.0)) <= cost(layers)


def test_a_state_without_rows_keeps_its_prior(layers):
    empty = problem(rows=0)
    assert not empty.gradient(layers).any()
    assert not empty.gauss_newton(layers).any()
    assert np.abs(improved(empty, layers, 0.1, 1.0).flat()).max() < 1e-12  # the prior's mode


def test_m_steps_lower_the_cost(layers):
    given = problem()

    def cost(one):
        return 0.5 * (given.squares(one) / 0.1 + one.flat() @ one.flat())

    costs = [cost(layers)]
    for _ in range(4):
        layers = improved(given, layers, 0.1, 1.0)
        costs.append(cost(layers))
    assert (np.diff(costs) < 0).all()


@pytest.mark.parametrize(
    "noise", ["fixed", *(pytest.param(n, marks=pytest.mark.slow) for n in ("shared", "state"))]
)
def test_em_of_networks_never_raises_the_objective(noise):
    objective, theta = at_random(fo.models.NeuralARHMM(2, 1, hidden=3, noise=noise), walks([14, 20]))
    before = first = objective(theta)
    for _ in range(6):
        theta = objective.m_step(theta)[1]
        value = objective(theta)
        assert value <= before + 1e-9 * abs(before)
        before = value
    assert before < first - 1.0
