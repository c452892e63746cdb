"""Switching regressions: closed forms against JAX, M steps, and what is refused."""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fitonce as fo
from fitonce.core.parameters import ParameterSpace
from fitonce.models import SwitchingAutoregression, SwitchingRegression
from fitonce.models.emissions.closed_forms import Values

CASES = {
    "mixed": SwitchingRegression(["u0"], ["u1"], variance="shared", coefficient_scale=2.0),
    "shared-mean": SwitchingRegression(["u1", "u0"], mean="shared", scale=0.4),
    "no-mean": SwitchingRegression(shared=["u0", "u1"], mean="zero", coefficient_scale=3.0),
    "flat": SwitchingRegression(mean="state", variance="shared", strength=0.0),
}


def _data(channels=2):
    rng = np.random.default_rng(3)
    known, x = rng.normal(size=(40, 2)), rng.normal(size=(40, channels))
    x[20:] += 2.0
    x[3] = np.nan
    if channels > 1:
        x[5, 1] = np.nan
    return fo.sequences(x, covariates=known)


LAGGED = {
    "-".join((mean, weight, variance)): SwitchingAutoregression(2, weight, variance, mean)
    for mean, weight, variance in product(("state", "shared", "zero"), *(("state", "shared"),) * 2)
    if "state" in (mean, weight, variance)
}


@pytest.mark.parametrize("name", [*CASES, *LAGGED])
def test_closed_forms_are_those_that_jax_derives(name):
    emission, rng = (CASES | LAGGED)[name], np.random.default_rng(1)
    model, data = fo.models.HMM(2, emission), _data(1 if name in LAGGED else 2)
    rows, columns = model.prepare(model.modelled(data)).rows, model.n_emitting
    space, arrays = ParameterSpace(emission.parameters(2, rows)), rows.arrays()
    forms, shares = emission.closed_forms(arrays), rng.random((40, columns))
    theta = 0.5 * rng.normal(size=space.size)
    values = Values.at(theta[None], space.values(theta[None]))
    leaves = [(key in forms.shared, places) for key, _, places in space.leaves()]
    own = np.concatenate(
        [np.tile(p, (columns, 1)) if one else p.reshape(columns, -1) for one, p in leaves], 1
    )

    def gathered(blocks):
        found = np.zeros((space.size,) * (blocks.ndim - 1))
        for k in range(columns):
            np.add.at(found, np.ix_(*[own[k]] * (blocks.ndim - 1)), blocks[k])
        return found

    def table(theta):
        return emission.log_density(space.to_params(theta), rows)

    def prior(theta):
        return emission.log_prior(space.to_params(theta), rows)

    def everything(theta):
        def weighted(theta):
            return jnp.sum(shares * table(theta))

        parts = table(theta), jax.jacfwd(table)(theta), prior(theta)
        return *parts, [
            derived(part)(theta) for derived in (jax.grad, jax.hessian) for part in (weighted, prior)
        ]

    with jax.enable_x64(True):
        densities, scores, log_prior, (slopes, of_prior, second, twice) = jax.tree.map(
            np.asarray, jax.jit(everything)(jnp.asarray(theta))
        )
    alone, same = values.alone(), {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(forms.log_density(values, arrays)[..., 0], densities, **same)
    np.testing.assert_allclose(forms.log_prior(values, arrays)[0], log_prior, **same)
    for k in range(columns):
        np.testing.assert_allclose(forms.scores(alone, arrays)[:, k], scores[:, k][:, own[k]], **same)
    ours = forms.slopes(values, shares[..., None], arrays)[..., 0]
    np.testing.assert_allclose(gathered(ours), slopes, **same)
    np.testing.assert_allclose(gathered(forms.prior_slopes(values, arrays)[..., 0]), of_prior, **same)
    np.testing.assert_allclose(gathered(forms.curvature(alone, shares, arrays)), second, **same)
    np.testing.assert_allclose(gathered(forms.prior_curvature(alone, arrays)), twice, **same)


@pytest.mark.parametrize("name", CASES)
def test_m_steps_are_stationary(name):
    """Where repeated M steps end, closed forms have no slope."""
    emission = CASES[name]
    rows = fo.models.HMM(2, emission).prepare(_data()).rows
    space, arrays = ParameterSpace(emission.parameters(2, rows)), rows.arrays()
    shares = np.random.default_rng(2).random((40, 2)) * arrays.counts[:, None]
    params = emission.start(2, rows, None)
    for _ in range(200):
        params = emission.maximise(params, shares, rows)
    theta = space.to_free(params)
    values, forms = Values.at(theta[None], space.values(theta[None])), emission.closed_forms(arrays)
    slopes = forms.slopes(values, shares[..., None], arrays) + forms.prior_slopes(values, arrays)
    found = np.zeros(space.size)
    for key, _, places in space.leaves():
        width = len(places) if key in forms.shared else len(places) // 2
        part, slopes = slopes[:, :width, 0], slopes[:, width:]
        found[places] = part.sum(0) if key in forms.shared else part.ravel()
    np.testing.assert_allclose(found, 0.0, atol=1e-8)


def test_states_that_share_nothing_are_gaussian_regressions():
    data = _data(1)
    both = [
        fo.models.HMM(2, emission)
        for emission in (SwitchingRegression(["u0"]), fo.models.GaussianRegression(["u0"]))
    ]
    fit = fo.fit(both[0], data, restarts=1)
    assert fit.ok, fit.status
    same = fo.fit_at(both[1], data, fit.params)
    assert same.value == pytest.approx(fit.value, abs=1e-9)
    np.testing.assert_allclose(same.H, fit.H, rtol=1e-7, atol=1e-7)


def test_a_graph_has_the_density_of_a_chain():
    data, emission = _data(1), CASES["mixed"]
    params = {
        "coefficients": np.array([[0.5], [-1.0]]), "mean": np.array([0.0, 2.0]),
        "shared_coefficients": np.array([0.3]), "variance": np.array(0.7),
    }  # fmt: skip
    field = fo.models.PottsMixture([(k, k + 1) for k in range(39)], 2, emission, beta=0.0)
    moves = {"initial": np.full(2, 0.5), "transition": np.full((2, 2), 0.5)}
    in_chain = {"coefficients": params["coefficients"][:, None], "mean": params["mean"][:, None],
                "shared_coefficients": params["shared_coefficients"][None],
                "variance": params["variance"][None]}  # fmt: skip
    on_graph = fo.sequences(data.values[0, :, 0], covariates=data.covariates[0])
    on_graph.observed[0, 3] = False
    chain = fo.fit_at(fo.models.HMM(2, emission), data, in_chain | moves)
    graph = fo.fit_at(field, on_graph, params)
    assert graph.log_likelihood == pytest.approx(chain.log_likelihood, abs=1e-9)


def test_an_autoregression_of_zero_mean_is_the_linear_one_without_a_bias():
    x = np.random.default_rng(4).normal(size=60)
    weight, variance = np.array([[0.5, 0.2], [-0.4, 0.1]]), np.array([0.5, 2.0])
    moves = {"initial": np.full(2, 0.5), "transition": np.array([[0.9, 0.1], [0.2, 0.8]])}
    ours = fo.models.HMM(2, SwitchingAutoregression(2, mean="zero", weight_scale=None))
    found = fo.fit_at(ours, x, moves | {"weight": weight, "variance": variance})
    theirs = fo.models.ARHMM(2, 2, noise="state", weight_scale=None, bias_scale=None)
    linear = {"weight": weight[:, None], "bias": np.zeros((2, 1)), "variance": variance}
    expected = fo.fit_at(theirs, x, moves | linear)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-9)


def _hamilton(x, known, params, order):
    """log p(x) from sums over all paths, in which each step has the means of the states before it."""
    weight, means = np.asarray(params["weight"]), np.asarray(params["mean"])
    spread, total = np.sqrt(np.asarray(params["variance"])), -np.inf
    odds = np.asarray(params["transition"]) * np.exp(
        known[:, None, None] * np.asarray(params["transition_coefficients"])[..., 0]
    )
    moves = odds / odds.sum(-1, keepdims=True)
    values, vectors = np.linalg.eig(moves[0].T)
    first = np.real(vectors[:, np.argmax(np.real(values))])
    first = first / first.sum()
    for path in product(range(2), repeat=len(x)):
        found = np.log(first[path[0]])
        for t in range(1, len(x)):
            found += np.log(moves[t, path[t - 1], path[t]])
        for t in range(order, len(x)):
            if np.isnan(x[t - order : t + 1]).any():
                continue
            before = [
                weight[path[t], lag - 1] * (x[t - lag] - means[path[t - lag]])
                for lag in range(1, order + 1)
            ]
            found += stats.norm.logpdf(x[t], means[path[t]] + sum(before), spread[path[t]])
        total = np.logaddexp(total, found)
    return total


@pytest.mark.parametrize("order", [1, 2])
def test_means_that_switch_are_those_of_all_paths(order):
    rng = np.random.default_rng(5)
    x, known = rng.normal(size=9) + np.repeat([0.0, 3.0], [5, 4]), rng.normal(size=9)
    x[6 if order == 1 else 0] = np.nan
    params = {"transition": np.array([[0.8, 0.2], [0.3, 0.7]]), "mean": np.array([0.1, 2.8]),
              "weight": np.array([[0.5, 0.2], [-0.4, 0.3]])[:, :order],
              "variance": np.array([0.5, 1.5]),
              "transition_coefficients": np.array([[[0.0], [0.7]], [[-0.4], [0.0]]])}  # fmt: skip
    model = fo.models.HMM(
        2,
        SwitchingAutoregression(order, mean="state"),
        stationary=True,
        transition_covariates=["u0"],
    )
    fit = fo.fit_at(model, fo.sequences(x, covariates=known), params)
    assert fit.log_likelihood == pytest.approx(_hamilton(x, known, params, order), abs=1e-10)


def test_means_that_switch_are_recovered_and_forecast():
    rng, z = np.random.default_rng(0), np.arange(600) // 20 % 2
    x, means = np.zeros(600), np.array([0.0, 4.0])
    for t in range(1, 600):
        x[t] = means[z[t]] + 0.6 * (x[t - 1] - means[z[t - 1]]) + 0.5 * rng.normal()
    emission = SwitchingAutoregression(1, weight="shared", variance="shared", mean="state")
    fit = fo.fit(fo.models.HMM(2, emission), x).ordered("mean")
    assert fit.ok, fit.status
    found, errors = (
        fit.to_dataframe().set_index("name")["value"],
        fit.to_dataframe().set_index("name")["se"],
    )
    for name, true in {"mean[0]": 0.0, "mean[1]": 4.0, "weight[0]": 0.6, "variance": 0.25}.items():
        assert abs(found[name] - true) < 3.0 * errors[name], name
    assert np.mean(np.concatenate(fit.decode())[1:] == z[1:]) > 0.99
    ahead = fit.forecast(60, n=4000)
    assert ahead.mean[-1, 0] == pytest.approx(fit.states()["stationary"] @ fit.params["mean"], abs=0.2)
    again = fit.simulate(1).values[0, :, 0]
    assert np.mean(np.abs(again - 2.0) > 1.0) > 0.6  # near one of the means
    assert len(fit.sample(50, seed=2).values) == 50


def test_forecasts_of_an_autoregression_go_back_to_its_mean():
    x = 5.0 + np.random.default_rng(4).normal(size=60)
    params = {"initial": np.full(2, 0.5), "transition": np.full((2, 2), 0.5), "mean": np.array(5.0),
              "weight": np.array([0.5]), "variance": np.array([0.1, 0.4])}  # fmt: skip
    model = fo.models.HMM(2, SwitchingAutoregression(1, weight="shared"))
    ahead = fo.fit_at(model, x, params).forecast(12, n=4000)
    assert ahead.mean[0, 0] == pytest.approx(5.0 + 0.5 * (x[-1] - 5.0), abs=0.05)
    assert ahead.mean[-1, 0] == pytest.approx(5.0, abs=0.05)
    assert ahead.samples[:, -1, 0].var() == pytest.approx(0.25 / 0.75, rel=0.1)


def test_draws_have_the_means_and_variances_of_their_states():
    emission = CASES["shared-mean"]
    params = {"coefficients": np.array([[[1.0, 2.0]], [[0.0, -1.0]]]), "mean": np.array([0.5]),
              "variance": np.array([[0.25], [4.0]])}  # fmt: skip
    states, known = np.repeat([0, 1], 20_000), np.tile([2.0, 1.0], (40_000, 1))
    drawn = emission.draw(params, states, known, np.random.default_rng(0)).reshape(2, -1)
    np.testing.assert_allclose(drawn.mean(1), [4.5, -0.5], atol=0.05)
    np.testing.assert_allclose(drawn.var(1), [0.25, 4.0], rtol=0.05)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SwitchingRegression("u0"), "must be a list of names of covariates, got 'u0'"),
        (lambda: SwitchingRegression(["a"], ["a"]), "regressors and shared ones must differ"),
        (lambda: SwitchingRegression(mean="none"), "mean must be one of .*, got 'none'"),
        (lambda: SwitchingRegression(variance="fixed"), "variance must be one of .*, got 'fixed'"),
        (lambda: SwitchingRegression(mean="shared", variance="shared"), "must differ in something"),
        (lambda: SwitchingRegression(strength=-1.0), "strength must be a non-negative number"),
        (lambda: SwitchingRegression(scale=0.0), "scale must be a positive number or None"),
        (lambda: fo.fit(fo.models.HMM(2, SwitchingRegression()), np.ones(9)), "'x0' is constant"),
        (lambda: fo.fit(fo.models.HMM(2, SwitchingRegression(["u0"])),
                        fo.sequences(np.arange(9.0), covariates=np.ones(9))),
         "covariate 'u0' is constant"),
        (lambda: SwitchingAutoregression(0), "order must be an integer of at least 1, got 0"),
        (lambda: SwitchingAutoregression(1, weight="zero"), "weight must be one of .*, got 'zero'"),
        (lambda: SwitchingAutoregression(1, "shared", "shared"), "must differ in something"),
        (lambda: SwitchingAutoregression(1, weight_scale=0), "weight_scale must be a positive number"),
        (lambda: fo.fit(fo.models.HMM(2, SwitchingAutoregression(1)), np.eye(9)), "one channel, got 9"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_orders_are_compared_on_the_steps_that_both_score():
    x = np.random.default_rng(0).normal(size=60).cumsum()
    models = [fo.models.ARHMM(1, order, noise="state") for order in (1, 2)]

    def results(data):
        folds = fo.folds.kfold(data, k=5)
        return {str(n): fo.cross_validate(fo.fit(m, x), folds) for n, m in enumerate(models)}

    with pytest.raises(ValueError, match=r"which score 59 and 58 points: .* model\.modelled"):
        fo.compare(results(x))
    assert len(fo.compare(results(models[1].modelled(fo.sequences(x)))).table) == 2
