"""Data to predict for, of which a channel or everything is missing: likelihoods are those of the model
without that channel, states those that the rest says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from fitonce.objectives.families import family_of
from fuzzing.chains import MADE, drawn
from fuzzing.judges import Chain, log_densities
from registry import entries

STEPS = 12
ENTRIES = {one.name: one for one in entries() if family_of(one.model).name in ("chain", "state-space")}
WIDE = {name: one for name, one in ENTRIES.items() if len(fo.sequences(one.data).channels) > 1}
# What needs all channels of a step, or of those before it, says so.
WHOLE = {
    "autoregression": "needs a step with 1 complete step before it",
    "neural-autoregression": "needs a step with 1 complete step before it",
    "multinomial": "needs the counts of all categories of a step, or of none",
}


def parameters(of):
    return [pytest.param(n, marks=[pytest.mark.slow] if one.slow else []) for n, one in of.items()]


def values_of(kind, channels, seed=0):
    rng, shape = np.random.default_rng(seed), (STEPS, channels)
    if kind in ("poisson", "binomial", "negative-binomial", "zero-inflated"):
        return rng.integers(0, 20, shape).astype(float)
    if kind == "categorical":
        return rng.integers(0, 4, shape).astype(float)
    if kind in ("log-normal", "gamma", "exponential"):
        return rng.gamma(2.0, 3.0, shape)
    if kind == "zero-inflated-gamma":
        return (rng.random(shape) > 0.3) * rng.gamma(2.0, 3.0, shape)
    return rng.uniform(0.1, 0.9, shape) if kind == "beta" else rng.uniform(-3.0, 3.0, shape)


def at_random(kind, channels=2):
    params = drawn(kind, 2, channels, {"seed": 3, "far": 1.0, "zeros": 0.0, "options": {}})
    return fo.fit_at(fo.models.HMM(2, MADE[kind]()), values_of(kind, channels), params)


@pytest.mark.parametrize("channel", [0, 1])
@pytest.mark.parametrize("kind", sorted(MADE))
def test_a_missing_channel_counts_for_nothing(kind, channel):
    fit, x = at_random(kind), values_of(kind, 2, seed=1)
    x[:, channel], x[4] = np.nan, np.nan
    chain, all_steps = Chain.of(fit.params, log_densities(kind, fit.params, x)), np.ones(STEPS, bool)
    assert fit.score(x) == pytest.approx(chain.log_likelihood(all_steps), rel=1e-10)
    np.testing.assert_allclose(fo.marginals(fit, x)[0], np.exp(chain.posterior(all_steps)), atol=1e-10)
    assert chain.score(fit.decode(x)[0]) == pytest.approx(chain.best(), rel=1e-10)


@pytest.mark.parametrize("kind", sorted(MADE))
def test_nothing_observed_has_likelihood_one_and_the_states_of_the_chain(kind):
    fit = at_random(kind, channels=1)
    nothing = [np.full(STEPS, np.nan), np.full(3, np.nan)]
    np.testing.assert_allclose(fit.log_likelihood_of(nothing), 0.0, atol=1e-12)
    states = np.asarray(fit.params["initial"])
    for found in fo.marginals(fit, nothing)[0]:
        np.testing.assert_allclose(found, states, atol=1e-12)
        states = states @ np.asarray(fit.params["transition"])


def other_data(data, missing=None):
    """The data of a registered model with a channel missing, or everything."""
    read = fo.sequences(data)
    keep, values = np.ones(len(read.channels), bool), read.values  # noqa: PD011
    keep[slice(None) if missing is None else missing] = False
    parts = [
        np.where(read.observed[n, :length] & keep, values[n, :length], np.nan)
        for n, length in enumerate(read.lengths)
    ]
    tables = [pd.DataFrame(part, columns=read.channels) for part in parts]
    if read.covariates is None:
        return tables, None
    known = [
        pd.DataFrame(read.covariates[n, :length], columns=read.covariate_names)
        for n, length in enumerate(read.lengths)
    ]
    return tables, known


@pytest.mark.parametrize("name", parameters(WIDE))
def test_a_channel_that_is_missing_in_one_sequence_is_as_if_it_were_alone(name):
    """Beside a sequence that has the channel, one without it was never refused."""
    entry = WIDE[name]
    fit = fo.fit(entry.model, entry.data, max_iterations=3, restarts=1, optima=0)
    for channel in range(len(fit.data.channels)):
        without, known = other_data(entry.data, channel)
        whole, _ = other_data(entry.data, [])
        alone = fo.sequences(without[:1], covariates=known and known[:1])
        both = fo.sequences(without[:1] + whole[:1], covariates=known and [known[0], known[0]])
        if name in WHOLE:
            with pytest.raises(ValueError, match=WHOLE[name]):
                fit.score(alone)
            continue
        expected = fit.log_likelihood_of(both)[0]
        assert fit.score(alone) == pytest.approx(expected, rel=1e-10)
        if family_of(entry.model).name == "chain":
            found, beside = fo.marginals(fit, alone)[0], fo.marginals(fit, both)[0]
            np.testing.assert_allclose(np.asarray(found), np.asarray(beside), atol=1e-10)


@pytest.mark.parametrize("name", parameters(ENTRIES))
def test_nothing_observed_is_predicted_for_by_every_family(name):
    entry = ENTRIES[name]
    fit = fo.fit(entry.model, entry.data, max_iterations=3, restarts=1, optima=0)
    tables, known = other_data(entry.data)
    nothing = fo.sequences(tables[:1], covariates=known and known[:1])
    if getattr(fit.objective, "n_unknown_starts", 0):
        with pytest.raises(ValueError, match="which the data must determine: got 0 observed steps"):
            fit.score(nothing)
        return
    ends = getattr(getattr(entry.model, "chain", None), "end_prior", None)
    if ends is None:  # that a sequence ends says something
        assert fit.score(nothing) == pytest.approx(0.0, abs=1e-9)
    if family_of(entry.model).name == "state-space":
        assert np.isfinite(fit.smoothed(nothing).to_dataframe()).all(axis=None)
    else:
        assert len(fit.decode(nothing)[0]) == len(tables[0])
        np.testing.assert_allclose(np.asarray(fo.marginals(fit, nothing)[0]).sum(1), 1.0)


def test_a_product_without_a_part_is_the_product_of_the_others():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"count": rng.poisson(4.0, STEPS), "turn": rng.uniform(-3, 3, STEPS)})
    parts = {"count": fo.models.Poisson(), "turn": fo.models.VonMises()}
    fit = fo.fit(
        fo.models.HMM(2, fo.models.Product(parts)), table, max_iterations=3, restarts=1, optima=0
    )
    for name in parts:
        own = {key: value for key, value in fit.params.items() if not key.startswith(f"{name}.")}
        (left,) = set(parts) - {name}
        less = fo.fit_at(fo.models.HMM(2, fo.models.Product({left: parts[left]})), table[[left]], own)
        missing = table.assign(**{name: np.nan})
        assert fit.score(missing) == pytest.approx(less.log_likelihood, rel=1e-12)
        np.testing.assert_array_equal(fit.decode(missing)[0], less.decode()[0])


def test_a_factor_model_without_a_channel_is_that_of_the_others():
    rng = np.random.default_rng(1)
    level = np.cumsum(0.3 * rng.normal(size=120))
    x = level[:, None] * [1.0, 0.5, -0.8] + rng.normal(size=(120, 3))
    fit = fo.fit(fo.models.DynamicFactor(1), x, max_iterations=3, restarts=1, optima=0)
    some = x[:40].copy()
    some[:, 2] = np.nan
    params = fit.params
    phi = float(np.ravel(params["ar"])[0])
    loading, noise = np.ravel(params["loading"])[:2], np.ravel(params["noise"])[:2]
    lags = np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
    factor = phi**lags / (1 - phi**2)
    whole = np.kron(factor, np.outer(loading, loading)) + np.kron(np.eye(40), np.diag(noise))
    apart = (some[:, :2] - np.ravel(params["mean"])[:2]).ravel()
    expected = -0.5 * (np.linalg.slogdet(2 * np.pi * whole)[1] + apart @ np.linalg.solve(whole, apart))
    assert fit.score(some) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.array([[1.0, np.nan], [2.0, np.nan]]), "channel 'x1' has no observed value"),
        (np.full((4, 2), np.nan), "at least one observation, got only missing values"),
    ],
)
@pytest.mark.parametrize("model", [fo.models.GaussianHMM(2), fo.models.DynamicFactor(1)])
def test_nothing_is_learned_about_what_was_never_observed(model, data, message):
    with pytest.raises(ValueError, match=message):
        fo.fit(model, data)
