"""Autoregressive HMMs: densities by hand, paths by enumeration, what is conditioned on, and peers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import fitonce as fo
from ar_cases import at_random, fitted, gaps, walk, walks
from enumeration import log_partition
from fitonce.objectives.families import objective_of

pytestmark = pytest.mark.xdist_group("krylov")  # where the same fit is
INITIAL = np.array([0.3, 0.7])
MOVES = np.array([[0.8, 0.2], [0.35, 0.65]])


def parameters_of(order, noise, channels=2, seed=1):
    """Constrained values for two states."""
    rng = np.random.default_rng(seed)
    found = {"initial": INITIAL, "transition": MOVES, "bias": rng.normal(size=(2, channels))}
    if order:
        found["weight"] = 0.4 * rng.normal(size=(2, channels, order * channels))
    if noise != "fixed":
        found["variance"] = np.array([0.5, 1.7]) if noise == "state" else np.array(0.8)
    return found


def density_by_hand(params, x, order, variance):
    """(T, K) log p(x_t | state, the steps before); zero where there are not enough, nan is skipped."""
    table = np.zeros((len(x), 2))
    for t in range(order, len(x)):
        past = x[t - order : t][::-1].ravel()
        seen = np.isfinite(x[t])
        if not (np.isfinite(past).all() and seen.any()):
            continue
        for k in range(2):
            mean = params["bias"][k] + (params["weight"][k] @ past if order else 0.0)
            spread = np.broadcast_to(variance, 2)[k] * np.eye(seen.sum())
            table[t, k] = multivariate_normal.logpdf(x[t][seen], mean[seen], spread)
    return table


def likelihood(model, data, params):
    objective = objective_of(model, data)
    theta = objective.space.to_free(params)
    return objective.log_likelihoods(theta[None], objective.base[None])[0]


def emission_of(model, data, params):
    """(N, T, K), zero where nothing is said."""
    objective = objective_of(model, data)
    with jax.enable_x64(True):
        values = {name: jnp.asarray(value) for name, value in params.items()}
        chain = model.potentials(values, objective.prepared)
    return np.where(np.asarray(objective.layout.observed)[..., None], np.asarray(chain.emission), 0.0)


@pytest.mark.parametrize("noise", ["fixed", "shared", "state"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_log_density_is_that_of_a_normal_around_the_regression(order, noise):
    model = fo.models.ARHMM(2, order, noise=noise, variance=0.6)
    params = parameters_of(order, noise)
    x = walk(6)
    expected = density_by_hand(params, x, order, params.get("variance", 0.6))
    np.testing.assert_allclose(emission_of(model, x, params)[0], expected, rtol=1e-12, atol=1e-12)


def test_log_density_skips_channels_and_regressions_that_are_not_known():
    params = parameters_of(2, "state")
    (x,) = gaps([9])
    expected = density_by_hand(params, x, 2, params["variance"])
    found = emission_of(fo.models.ARHMM(2, 2, noise="state"), x, params)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_likelihood_is_the_sum_over_all_paths(order):
    """The chain starts at the first step, of which as of others before `order` nothing is said."""
    params = parameters_of(order, "shared")
    data = walks([5, 4])
    with np.errstate(divide="ignore"):
        expected = 0.0
        for x in data:
            unary = density_by_hand(params, x, order, params["variance"])
            unary[0] += np.log(INITIAL)
            expected += log_partition(unary, np.log(MOVES))
    assert likelihood(fo.models.ARHMM(2, order), data, params) == pytest.approx(expected, rel=1e-12)


def test_likelihood_with_missing_steps_is_the_sum_over_all_paths():
    params = parameters_of(1, "shared")
    data = gaps([5, 6])
    expected = 0.0
    for x in data:
        unary = density_by_hand(params, x, 1, params["variance"])
        unary[0] += np.log(INITIAL)
        expected += log_partition(unary, np.log(MOVES))
    assert likelihood(fo.models.ARHMM(2, 1), data, params) == pytest.approx(expected, rel=1e-12)


def test_neural_density_is_that_of_a_normal_around_the_network():
    rng = np.random.default_rng(5)
    model = fo.models.NeuralARHMM(2, 2, hidden=3, noise="state")
    params = {
        "initial": INITIAL,
        "transition": MOVES,
        "weight_in": rng.normal(size=(2, 3, 4)),
        "bias_in": rng.normal(size=(2, 3)),
        "weight_out": rng.normal(size=(2, 2, 3)),
        "bias_out": rng.normal(size=(2, 2)),
        "variance": np.array([0.5, 1.5]),
    }
    x = walk(6)
    found = emission_of(model, x, params)[0]
    assert (found[:2] == 0).all()
    for t in range(2, 6):
        past = np.concatenate([x[t - 1], x[t - 2]])
        for k in range(2):
            inner = np.tanh(params["weight_in"][k] @ past + params["bias_in"][k])
            mean = params["weight_out"][k] @ inner + params["bias_out"][k]
            expected = multivariate_normal.logpdf(x[t], mean, params["variance"][k] * np.eye(2))
            assert found[t, k] == pytest.approx(expected, rel=1e-12)


def test_the_first_steps_of_each_sequence_are_conditioned_on():
    fit = fitted()
    given = fit.data.conditioned
    assert given[:, 0].all()
    assert not given[:, 1:].any()
    assert not fit.data.observed[:, 0].any()
    first = fit.data.offsets
    assert (fit.objective.base[first] == 0).all()
    assert fit.objective.base.sum() == fit.data.n_sites - fit.data.n_sequences
    assert "0 of 126 sites missing" in repr(fit.data)


@pytest.mark.parametrize("order", [0, 1, 3])
def test_marking_twice_or_for_another_order_is_the_same_as_once(order):
    model, other = fo.models.ARHMM(2, order), fo.models.ARHMM(2, 2)
    data = fo.sequences(gaps([9, 12]))
    once = model.modelled(data)
    for again in (model.modelled(once), model.modelled(other.modelled(data))):
        np.testing.assert_array_equal(again.observed, once.observed)
        np.testing.assert_array_equal(again.conditioned, once.conditioned)
        np.testing.assert_array_equal(again.values, once.values)


def test_steps_after_a_missing_one_are_conditioned_on():
    (x,) = gaps([10])
    data = fo.models.ARHMM(2, 2).modelled(fo.sequences(x))
    assert np.flatnonzero(data.conditioned[0].all(-1)).tolist() == [0, 1, 6, 7, 9]
    assert np.flatnonzero(data.observed[0].any(-1)).tolist() == [2, 3, 4, 8]
    assert data.observed[0, 8].tolist() == [True, False]
    assert not data.conditioned[0, [5, 8]].any()


def test_a_step_that_is_conditioned_on_has_no_loss_and_no_weight():
    fit = fitted()
    folds = fo.folds.points(fit.data)
    assert len(folds) == fit.objective.base.sum()
    assert not set(np.concatenate(folds.dropped)) & set(fit.data.offsets)


@pytest.mark.parametrize(
    ("make", "data", "message"),
    [
        (lambda: fo.models.ARHMM(2, 3), walks([6, 3]), "at least 4 steps, but sequence 1 has 3"),
        (lambda: fo.models.NeuralARHMM(2, 1), [np.ones((1, 2))], "at least 2 steps"),
        (lambda: fo.models.ARHMM(1, 1), np.array([[1.0], [np.nan], [2.0]]), "found none"),
    ],
)
def test_sequences_without_enough_steps_are_refused(make, data, message):
    with pytest.raises(ValueError, match=message):
        fo.fit(make(), data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": -1}, "order must be an integer of at least 0"),
        ({"order": 1.5}, "order must be an integer"),
        ({"order": True}, "order must be an integer"),
        ({"noise": "diag"}, "noise must be one of"),
        ({"variance": 0.0}, "variance must be a positive number"),
        ({"variance": "one"}, "variance must be a positive number"),
        ({"strength": -1.0}, "strength must be"),
        ({"scale": 0.0}, "scale must be a positive number or None"),
        ({"weight_scale": 0.0}, "weight_scale must be a positive number or None"),
        ({"bias_scale": np.inf}, "bias_scale must be a positive number or None"),
    ],
)
def test_impossible_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fo.models.ARHMM(2, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": 0}, "order must be an integer of at least 1"),
        ({"hidden": 0}, "hidden must be an integer of at least 1"),
        ({"hidden": 2.0}, "hidden must be an integer"),
        ({"weight_scale": -1.0}, "scale must be a positive number"),
        ({"weight_scale": None}, "scale must be a positive number"),
        ({"noise": "full"}, "noise must be one of"),
    ],
)
def test_impossible_settings_of_a_network_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fo.models.NeuralARHMM(2, **arguments)


def test_a_channel_that_is_only_conditioned_on_is_refused():
    x = walk(8)
    x[1:, 1] = np.nan
    with pytest.raises(ValueError, match="'x1' has no observed value"):
        fo.fit(fo.models.ARHMM(1, 1), x)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (fo.models.ARHMM(2, 1, noise="state"), walks([14, 20, 9, 17])),
        (fo.models.ARHMM(2, 1), gaps([14, 20, 9, 17])),
        pytest.param(
            fo.models.ARHMM(2, 0, noise="fixed", support=[[1, 1], [0, 1]], bias_scale=None),
            walks([14, 20]),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_em_never_raises_the_objective(model, data):
    objective, theta = at_random(model, data)
    assert objective.traits.m_steps == "all"
    before = objective(theta)
    for _ in range(8):
        theta = objective.m_step(theta)[1]
        value = objective(theta)
        assert value <= before + 1e-9 * abs(before)
        before = value


def test_em_keeps_weights_of_sites():
    objective, theta = at_random(fo.models.ARHMM(2, 1, noise="state"), walks([14, 20, 9, 17]))
    weights = objective.base * np.random.default_rng(0).random(len(objective.base))
    before = objective(theta, weights)
    for _ in range(4):
        theta = objective.m_step(theta, weights)[1]
        value = objective(theta, weights)
        assert value <= before + 1e-9 * abs(before)
        before = value


def test_frozen_emissions_are_left_to_other_methods():
    objective = objective_of(fo.models.ARHMM(2, 1, frozen={"variance": 0.5}), walk(12))
    assert objective.traits.m_steps == "none"


def test_the_fit_is_certified_and_tells_the_processes_apart():
    fit = fitted()
    assert fit.ok, str(fit.status)
    assert fit.distance < 1e-9
    turning = np.argmax(np.abs(fit.params["weight"][:, 0, 1]))
    assert fit.params["weight"][turning, 0, 1] == pytest.approx(-0.7, abs=0.2)
    assert fit.params["weight"][1 - turning, 0, 1] == pytest.approx(0.0, abs=0.2)


def test_order_zero_has_the_likelihood_of_hmmlearn():
    hmm = pytest.importorskip("hmmlearn.hmm", reason="needs the peers extra: hmmlearn")
    params, data = parameters_of(0, "state"), walks([12, 7])
    peer = hmm.GaussianHMM(2, covariance_type="spherical", init_params="")
    peer.startprob_, peer.transmat_ = INITIAL, MOVES
    peer.means_, peer.covars_ = params["bias"], params["variance"]
    theirs = peer.score(np.concatenate(data), [12, 7])
    flat = {"strength": 0.0, "bias_scale": None}
    model = fo.models.ARHMM(
        2, 0, noise="state", initial_concentration=1.0, transition_concentration=1.0, **flat
    )
    assert likelihood(model, data, params) == pytest.approx(theirs, rel=1e-10)
    objective = objective_of(model, data)
    theta = objective.space.to_free(params)
    assert objective(theta) == pytest.approx(-theirs, rel=1e-10)  # the priors are flat


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("order", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_likelihood_is_that_of_dynamax(order):
    pytest.importorskip("dynamax", reason="needs the peers extra: dynamax")
    from dynamax.hidden_markov_model import LinearAutoregressiveHMM

    params, x = parameters_of(order, "state"), walk(14)
    with jax.enable_x64(True):
        peer = LinearAutoregressiveHMM(2, 2, num_lags=order)
        theirs, _ = peer.initialize(
            initial_probs=jnp.asarray(INITIAL @ np.linalg.matrix_power(MOVES, order)),
            transition_matrix=jnp.asarray(MOVES),
            emission_weights=jnp.asarray(params["weight"]),
            emission_biases=jnp.asarray(params["bias"]),
            emission_covariances=jnp.asarray(params["variance"][:, None, None] * np.eye(2)),
        )
        inputs = peer.compute_inputs(jnp.asarray(x[order:]), jnp.asarray(x[:order]))
        expected = float(peer.marginal_log_prob(theirs, jnp.asarray(x[order:]), inputs))
    found = likelihood(fo.models.ARHMM(2, order, noise="state"), x, params)
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_plan_says_what_h_takes():
    model, data = fo.models.ARHMM(2, 1, noise="state"), walks([14, 20])
    plan = fo.plan(model, data)
    size = len(at_random(model, data)[1])
    assert (plan.parameters, plan.sequences, plan.sites) == (size, 2, 34)
    assert plan.dense
    assert f"D = {size} parameters, 2 sequences, 34 sites" in repr(plan)
    assert "formed and factored" in repr(plan)


def test_a_plan_says_where_h_does_not_fit():
    data = np.random.default_rng(0).normal(size=(30, 12))
    plan = fo.plan(fo.models.ARHMM(2, 2), data, memory_limit=1e4)
    assert not plan.dense
    assert "not formed: solved by products" in repr(plan)
    assert fo.plan(fo.models.ARHMM(2, 2), data, memory_limit=1e9).dense


@pytest.mark.parametrize("limit", [0, -1.0, "1 furlong", "GB", np.nan, True])
def test_an_impossible_memory_limit_is_refused(limit):
    model, x = fo.models.ARHMM(2, 1), walk(12)
    for call in (fo.plan, fo.fit):
        with pytest.raises(ValueError, match="memory_limit must be a positive number of bytes"):
            call(model, x, memory_limit=limit)


def test_a_plan_needs_the_data():
    with pytest.raises(ValueError, match="needs the data"):
        fo.plan(fo.models.ARHMM(2, 1))
