"""Linear-Gaussian state-space models of dynamax, brought here."""

from __future__ import annotations

from types import SimpleNamespace

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fitonce as fo
from fitonce.core.numerics import in_float64

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # theirs
SIZES = {"states as channels": (2, 2, 0, 3), "inputs": (3, 2, 2, 1), "one channel": (2, 1, 0, 2)}
SHARED = (1, 3, 0, 4)


def _spread(rng, size):
    root = rng.normal(size=(size, size))
    return root @ root.T / size + 0.3 * np.eye(size)


@in_float64
def case(name, **kept):
    """A model of theirs, parameters, properties, emissions and inputs; `kept` are not trained."""
    pytest.importorskip("dynamax", reason="needs the peers extra: dynamax")
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    states, channels, inputs, count = SIZES.get(name, SHARED)
    rng = np.random.default_rng(len(name))
    model = LinearGaussianSSM(states, channels, inputs)
    move = rng.normal(size=(states, states))
    given = {
        "initial_mean": rng.normal(size=states), "initial_covariance": _spread(rng, states),
        "dynamics_weights": 0.8 * move / np.abs(np.linalg.eigvals(move)).max(),
        "dynamics_bias": rng.normal(size=states), "dynamics_covariance": _spread(rng, states),
        "dynamics_input_weights": rng.normal(size=(states, inputs)),
        "emission_weights": rng.normal(size=(channels, states)),
        "emission_bias": rng.normal(size=channels), "emission_covariance": _spread(rng, channels),
        "emission_input_weights": rng.normal(size=(channels, inputs)),
    }  # fmt: skip
    if name == "shared":
        given |= {"emission_weights": np.ones((3, 1)), "emission_covariance": np.eye(3)}
    params, props = model.initialize(jr.PRNGKey(0), **{k: jnp.asarray(v) for k, v in given.items()})
    for group, fields in kept.items():
        for field in fields:
            getattr(getattr(props, group), field).trainable = False
    u = rng.normal(size=(count, 60, inputs)) if inputs else None
    y = [model.sample(params, jr.PRNGKey(n), 60, None if u is None else jnp.asarray(u[n]))[1]
         for n in range(count)]  # fmt: skip
    return model, params, props, np.stack([np.asarray(one) for one in y]), u


@in_float64
def theirs(model, params, y, u, what):
    """Of each sequence, by their filter and smoother."""
    known = [None] * len(y) if u is None else [jnp.asarray(one) for one in u]
    done = [model.smoother(params, jnp.asarray(one), k) for one, k in zip(y, known, strict=True)]
    return [np.asarray(getattr(one, what)) for one in done]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "inputs" else [pytest.mark.slow]) for n in SIZES]
)
def test_likelihoods_filtered_and_smoothed_states_are_theirs(name):
    model, params, props, y, u = case(name, emissions=["weights", "bias"])
    fit = fo.from_dynamax(model, params, props, y, u)
    expected = sum(theirs(model, params, y, u, "marginal_loglik"))
    assert fit.log_likelihood == pytest.approx(float(expected), rel=1e-8)
    smoothed = np.concatenate(theirs(model, params, y, u, "smoothed_means"))
    np.testing.assert_allclose(fit.smoothed().mean, smoothed, atol=1e-8 * np.abs(smoothed).max())
    spreads = np.concatenate(theirs(model, params, y, u, "smoothed_covariances"))
    sd = np.sqrt(np.einsum("tii->ti", spreads))
    np.testing.assert_allclose(fit.smoothed().sd, sd, rtol=1e-7)
    filtered = theirs(model, params, y, u, "filtered_means")[0]
    for steps in (5, 9):  # the last smoothed state is the filtered one
        known = None if u is None else u[0, :steps]
        part = fo.from_dynamax(model, params, props, y[0, :steps], known)
        np.testing.assert_allclose(part.smoothed().mean[-1], filtered[steps - 1], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", SIZES)
def test_states_that_could_be_turned_and_shifted_get_one_form(name):
    """With everything trained, and with first states that are known to be around zero."""
    model, params, props, y, u = case(name)
    fit = fo.from_dynamax(model, params, props, y, u)
    expected = sum(theirs(model, params, y, u, "marginal_loglik"))
    assert fit.log_likelihood == pytest.approx(float(expected), rel=1e-8)
    states, channels = model.state_dim, model.emission_dim
    square = states**2 + states  # dimensions of turns, scales and shifts
    counts = [states, states, states**2, states * channels, channels]
    counts += [states * (states + 1) // 2] * 2 + [channels * (channels + 1) // 2]
    counts += [model.input_dim * (states + channels)]
    assert len(fit.theta) == sum(counts) - square
    np.testing.assert_allclose(fit.params["dynamics_cov"], np.eye(states))
    assert not np.triu(fit.params["emissions_weights"], 1).any()


def test_a_fit_is_polished_and_cross_validated():
    model, params, props, y, u = case("shared", initial=["mean", "cov"])
    params = _changed(params, "initial", mean=np.zeros(1))
    params = _changed(params, "emissions", cov=np.ones(3))  # a diagonal
    fit = fo.from_dynamax(model, params, props, y, u).polish()
    assert fit.status.ok, fit.status
    folds = fo.folds.blocks(fit.data, percent=10, n=3, seed=0)
    found = {m: fo.cross_validate(fit, folds, method=m, optima=0).estimate for m in ("auto", "exact")}
    assert found["auto"] == pytest.approx(found["exact"], rel=1e-3)


def _changed(params, group, **fields):
    return params._replace(**{group: getattr(params, group)._replace(**fields)})


def test_a_diagonal_of_the_noise_is_read_as_one():
    model, params, props, y, u = case("states as channels", emissions=["weights"])
    noise = np.array([0.5, 1.5])
    diagonal = fo.from_dynamax(model, _changed(params, "emissions", cov=noise), props, y, u)
    whole = fo.from_dynamax(model, _changed(params, "emissions", cov=np.diag(noise)), props, y, u)
    assert diagonal.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    assert len(diagonal.theta) == len(whole.theta) - 1


def test_what_cannot_be_read_is_refused_by_name():
    model, params, props, y, _ = case("states as channels")
    moving = np.zeros((60, 2, 2))
    for at, words in (
        (_changed(params, "dynamics", weights=moving), r"dynamics.weights must have shape \(2, 2\)"),
        (_changed(params, "dynamics", cov=lambda t: t), "dynamics.cov must be an array, got a function"),
    ):
        with pytest.raises(ValueError, match=words):
            fo.from_dynamax(model, at, props, y)
    with pytest.raises(ValueError, match="inputs must have 0 columns, got 1"):
        fo.from_dynamax(model, params, props, y, np.ones((3, 60, 1)))
    with pytest.raises(ValueError, match="params must be those of a model of dynamax"):
        fo.from_dynamax(model, SimpleNamespace(), props, y)
    prior = type("LinearGaussianConjugateSSM", (type(model),), {"log_prior": None})(2, 2)
    with pytest.raises(ValueError, match="has its own log_prior"):
        fo.from_dynamax(prior, params, props, y)


@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_random_walks_are_shifted_to_a_first_mean_of_zero(bias):
    """I - dynamics.weights is singular: no shift removes a bias."""
    model, params, props, y, u = case("states as channels")
    params = _changed(params, "dynamics", weights=np.eye(2), bias=np.full(2, bias))
    fit = fo.from_dynamax(model, params, props, y, u)
    expected = sum(theirs(model, params, y, u, "marginal_loglik"))
    assert fit.log_likelihood == pytest.approx(float(expected), rel=1e-8)
    assert not fit.params["initial_mean"].any()
    assert fit.params["dynamics_bias"].any() == bool(bias)
    usual = case("states as channels")
    assert len(fit.theta) == len(fo.from_dynamax(*usual).theta)


def test_a_known_first_state_is_no_unit_of_states():
    model, params, props, y, u = case("states as channels", initial=["mean", "cov"])
    params = _changed(params, "initial", mean=np.zeros(2), cov=np.zeros((2, 2)))
    fit = fo.from_dynamax(model, params, props, y, u)
    np.testing.assert_allclose(fit.params["dynamics_cov"], np.eye(2))
    whole = case("states as channels", emissions=["weights"], initial=["mean", "cov"])[2]
    expected = fo.from_dynamax(model, params, whole, y, u).log_likelihood
    assert fit.log_likelihood == pytest.approx(expected, rel=1e-8)


def test_covariances_that_are_no_unit_are_refused_in_words():
    model, params, props, y, u = case("states as channels", initial=["cov"])
    params = _changed(params, "initial", cov=np.diag([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"initial.cov must be positive definite .* do not train"):
        fo.from_dynamax(model, params, props, y, u)
    props.emissions.weights.trainable = False
    assert np.isfinite(fo.from_dynamax(model, params, props, y, u).log_likelihood)
