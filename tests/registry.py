"""Every model, registered once; the tests in test_models.py hold each of them to every property."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.scipy.special import logsumexp

import fitonce as fo
from ar_cases import walk
from mixture_family import IidMixture


@dataclass(frozen=True)
class Entry:
    name: str
    model: Any
    data: Any
    sequences: bool = False  # whether whole sequences can be left out
    slow: bool = False  # like another in all but its shape: under `make test-all`

    def __str__(self) -> str:
        return self.name


def _states(rng, steps, states, stay=0.85):
    z = np.zeros(steps, int)
    for t in range(1, steps):
        z[t] = z[t - 1] if rng.random() < stay else rng.integers(states)
    return z


def _gaussian(steps=80, channels=2, seed=0, missing=True):
    rng = np.random.default_rng(seed)
    z = _states(rng, steps, 2)
    x = np.where(z[:, None] == 0, -1.5, 1.5) + rng.normal(size=(steps, channels)) * (
        0.6 + 0.5 * z[:, None]
    )
    if missing:
        x[10:13] = np.nan
        x[30, 0] = np.nan
    return x


def _counts(steps=60, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.poisson(np.array([2.0, 9.0])[_states(rng, steps, 2)]).astype(float)
    x[[5, 6, 50]] = np.nan
    return x


def _categories(steps=120, seed=2):
    rng = np.random.default_rng(seed)
    table = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    z = _states(rng, steps, 2)
    return np.array([rng.choice(3, p=table[k]) for k in z])


def _rare(steps=300, seed=17):
    """Four categories, the last in one state only."""
    rng = np.random.default_rng(seed)
    table = np.array([[0.7, 0.2, 0.1, 0.0], [0.05, 0.15, 0.6, 0.2]])
    z = _states(rng, steps, 2, 0.95)
    return np.array([rng.choice(4, p=table[k]) for k in z])


def _mixtures(steps=400, seed=13):
    """Two states of two Gaussians each."""
    rng = np.random.default_rng(seed)
    z, m = _states(rng, steps, 2, 0.9), rng.random(steps) < 0.4
    centre = np.array([[[0.0, 0.0], [4.0, 0.5]], [[1.0, 6.0], [7.0, 7.0]]])
    x = centre[z, m.astype(int)] + rng.normal(size=(steps, 2))
    x[[11, 12]] = np.nan
    return x


def _tallies(steps=80, seed=14):
    """Counts of three categories."""
    rng = np.random.default_rng(seed)
    table = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])[_states(rng, steps, 2)]
    x = rng.multinomial(rng.integers(3, 9, steps), table).astype(float)
    x[[7, 8]] = np.nan
    return x


def _choices(steps=300, seed=15):
    """Three categories that follow two covariates, in two states."""
    rng = np.random.default_rng(seed)
    u, z = rng.normal(size=(steps, 2)), _states(rng, steps, 2, 0.95)
    slopes = np.array([[[1.0, 0.5], [-1.0, 0.8], [0, 0]], [[-1.5, 0.0], [0.5, -1.0], [0, 0]]])[z]
    logits = np.array([[1.0, 0.5, 0.0], [-1.0, 0.5, 0.0]])[z] + np.einsum("tjq,tq->tj", slopes, u)
    x = np.argmax(logits + rng.gumbel(size=logits.shape), 1).astype(float)
    x[[5, 6]] = np.nan
    return fo.sequences(x, covariates=u)


def _two_lines(steps=100, seed=16):
    """Two correlated channels that follow a covariate."""
    rng = np.random.default_rng(seed)
    u, z = rng.normal(size=(steps, 1)), _states(rng, steps, 2)
    mean = np.array([[0.0, 0.0], [3.0, 2.0]])[z] + np.array([[1.0, -0.5], [-1.0, 0.5]])[z] * u
    x = mean + 0.7 * rng.normal(size=(steps, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    x[[5, 6]], x[30, 0] = np.nan, np.nan
    return fo.sequences(x, covariates=u)


def _trials(steps=90, seed=9):
    rng = np.random.default_rng(seed)
    x = rng.binomial(20, np.array([0.2, 0.6])[_states(rng, steps, 2)]).astype(float)
    x[[7, 8, 60]] = np.nan
    return x


def _univariate():
    """Name, emission, and how to draw data: two channels, some missing; and whether it is slow."""

    def draw(sample, steps=90, seed=10):
        def made():
            rng = np.random.default_rng(seed)
            z = _states(rng, steps, 2)
            x = np.stack([sample(rng, z), sample(rng, z)], 1).astype(float)
            x[[4, 5]], x[20, 0] = np.nan, np.nan
            return x

        return made

    m, pick = fo.models, lambda z, a, b: np.array([a, b])[z]
    return [
        ("student-t", m.StudentT(spread=0.1), draw(
            lambda rng, z: pick(z, 0.0, 3.0) + pick(z, 1.0, 0.5) * rng.standard_t(4, len(z))), False),
        ("log-normal", m.LogNormal(scale=0.1), draw(
            lambda rng, z: np.exp(rng.normal(pick(z, 0, 2), 0.5))), True),
        ("gamma", m.Gamma(), draw(lambda rng, z: rng.gamma(pick(z, 2, 6), pick(z, 1, 2)), 240), True),
        ("zero-inflated-gamma", m.ZeroInflatedGamma(), draw(
            lambda rng, z: (rng.random(len(z)) > pick(z, 0.5, 0.2)) * rng.gamma(
                pick(z, 2, 6), pick(z, 1, 2)), 240), True),
        ("exponential", m.Exponential(), draw(lambda rng, z: rng.exponential(pick(z, 1, 9))), True),
        ("beta", m.Beta(), draw(lambda rng, z: rng.beta(pick(z, 2, 6), pick(z, 6, 2))), True),
        ("von-mises", m.VonMises(), draw(lambda rng, z: rng.vonmises(pick(z, -1, 2), 3.0)), True),
        ("negative-binomial", m.NegativeBinomial(), draw(
            lambda rng, z: rng.negative_binomial(3, 3 / (3 + pick(z, 2.0, 15.0))), 240), False),
        ("zero-inflated-poisson", m.ZeroInflatedPoisson(), draw(
            lambda rng, z: (rng.random(len(z)) > 0.3) * rng.poisson(pick(z, 2, 11))), True),
        ("bernoulli", "bernoulli", draw(
            lambda rng, z: rng.random(len(z)) < pick(z, 0.2, 0.8), 200), True),
    ]  # fmt: skip


def _regression(sample, steps=90, positive=False, seed=11):
    """One channel that follows two covariates, in two states."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(steps, 2)) * np.array([1.0, 0.5])
    u = np.abs(u) + 0.5 if positive else u
    eta = np.array([0.5, 2.0])[_states(rng, steps, 2)] + u @ np.array([0.4, -0.3])
    x = sample(rng, eta).astype(float)
    x[[7, 8, 40]] = np.nan
    return fo.sequences(x, covariates=u)


def _switching(seed=13):
    """Counts of two states; a covariate makes changes from one to the other likely, another does not."""
    rng, parts, known = np.random.default_rng(seed), [], []
    for steps in (70, 55, 1, 90, 64):
        u, z = rng.normal(size=(steps, 2)), np.zeros(steps, int)
        for t in range(1, steps):
            z[t] = z[t - 1] ^ (rng.random() < 1 / (1 + np.exp(2.0 - 1.5 * u[t, 0])))
        parts.append(rng.poisson(np.array([2.0, 9.0])[z]).astype(float))
        known.append(u)
    parts[0][[5, 6]] = np.nan
    return fo.sequences(parts, covariates=known)


def _levels() -> np.ndarray:
    """An autoregression around two means."""
    rng, x = np.random.default_rng(6), np.zeros(160)
    for t in range(1, len(x)):
        means = 5.0 * (np.array([t - 1, t]) // 16 % 2)
        x[t] = means[1] + 0.5 * (x[t - 1] - means[0]) + 0.4 * rng.normal()
    return x


def _memories(steps=160, seed=14):
    """Around one mean, in one state with a long memory, in the other alternating."""
    rng, x = np.random.default_rng(seed), np.ones(steps)
    z = _states(rng, steps, 2, 0.9)
    for t in range(1, steps):
        x[t] = 1.0 + np.array([0.9, -0.7])[z[t]] * (x[t - 1] - 1.0) + 0.5 * rng.normal()
    return x


def _mixed(steps, columns=("calls", "x", "y", "turn"), seed=12):
    """Two numbers, an angle and a count that depends on a covariate; angles are missing now and then."""
    rng = np.random.default_rng(seed)
    z, heat = _states(rng, steps, 2), rng.normal(size=steps)
    table = pd.DataFrame({
        "calls": rng.poisson(np.exp(np.array([0.5, 1.8])[z] + 0.3 * heat)).astype(float),
        "x": rng.normal(1.5 * z, 0.8), "y": rng.normal(-z, 0.8),
        "turn": rng.vonmises(np.array([-1.0, 1.5])[z], 3.0), "heat": heat,
    })  # fmt: skip
    table.loc[[4, 30], "turn"] = np.nan
    table.loc[[50, 51], ["calls", "x", "y", "turn"]] = np.nan
    return fo.sequences(table[[*columns, "heat"]], covariates="heat")


def _unequal(seed=3):
    return [
        _gaussian(steps, 1, seed + n, missing=False) for n, steps in enumerate([30, 12, 41, 1, 25, 18])
    ]


def _mixture_density(params, data, weights):
    """Two Gaussian clusters, independent points: weights multiply."""
    log_share = jnp.log(params["share"])
    terms = log_share - 0.5 * (data[:, None] - params["centre"]) ** 2 - 0.5 * jnp.log(2 * jnp.pi)
    return jnp.sum(weights * logsumexp(terms, axis=1))


def two_clusters():
    rng = np.random.default_rng(4)
    return np.concatenate([rng.normal(-2, 1, 40), rng.normal(2, 1, 30)])


def _mixture():
    data = two_clusters()
    init = {"share": np.array([0.5, 0.5]), "centre": np.array([-1.0, 1.0])}
    return fo.models.Custom(_mixture_density, init, constraints={"share": "simplex"}), data


_TURNS = [[1, 1, 0], [1, 1, 1], [1, 1, 1]]  # the last tag does not follow the first


def _tagged(unknown=0.0, seed=8):
    """Tags that follow each other, the last never the first, and that shift two features."""
    rng = np.random.default_rng(seed)
    moves = np.array([[0.7, 0.3, 0.0], [0.3, 0.3, 0.4], [0.4, 0.2, 0.4]])
    centres = np.array([[-0.8, 0.0], [0.8, 0.5], [0.3, -0.8]])
    features, labels = [], []
    for length in rng.integers(3, 10, size=12):
        z = [0]
        while len(z) < length:
            z.append(rng.choice(3, p=moves[z[-1]]))
        features.append(centres[z] + rng.normal(size=(length, 2)))
        labels.append([None if rng.random() < unknown else k for k in z])
    return fo.labelled(features, labels, tags=[0, 1, 2])


def entries() -> list[Entry]:
    left_right = np.array([[True, True, False], [False, True, True], [False, False, True]])
    stretches = np.concatenate([np.random.default_rng(6).normal(m, 0.7, 30) for m in (-2.0, 0.5, 3.0)])
    made = [
        Entry("gaussian-fixed", fo.models.GaussianHMM(2, covariance="fixed", mean_scale=3.0),
              _gaussian(), slow=True),
        Entry("gaussian-spherical", fo.models.GaussianHMM(2, covariance="spherical", scale=0.3),
              _gaussian(), slow=True),
        Entry("gaussian-diag", fo.models.GaussianHMM(2, covariance="diag", scale=0.3), _gaussian(),
              slow=True),
        Entry("gaussian-full", fo.models.GaussianHMM(2, covariance="full", scale=0.3), _gaussian(),
              slow=True),
        Entry("gaussian-tied", fo.models.GaussianHMM(2, covariance="tied", scale=0.3), _gaussian(),
              slow=True),
        Entry("gaussian-unequal", fo.models.GaussianHMM(2), _unequal(), sequences=True),
        Entry("gaussian-left-right", fo.models.GaussianHMM(3, support=left_right, scale=0.3),
              stretches, slow=True),
        Entry("poisson", fo.models.PoissonHMM(2), _counts()),
        Entry("categorical", fo.models.CategoricalHMM(2, 3), _categories(), slow=True),
        Entry("categorical-support", fo.models.HMM(2, fo.models.Categorical(
            4, support=[[True, True, True, False], [True, True, True, True]])), _rare(), slow=True),
        Entry("gaussian-mixture", fo.models.HMM(2, fo.models.GaussianMixture(
            2, fo.models.Gaussian("diag", scale=0.3))), _mixtures()),
        Entry("gaussian-mixture-tied", fo.models.HMM(2, fo.models.GaussianMixture(
            2, fo.models.Gaussian("tied", scale=0.3))), _mixtures(), slow=True),
        Entry("multinomial", fo.models.HMM(2, "multinomial"), _tallies()),
        Entry("categorical-regression", fo.models.HMM(
            2, fo.models.CategoricalRegression(
                3, ["u0", "u1"], coefficient_scale=None)), _choices(),
              slow=True),
        Entry("linear-regression", fo.models.HMM(2, fo.models.LinearRegression(
            ["u0"], fo.models.Gaussian("full", scale=0.3), coefficient_scale=None)), _two_lines(),
              slow=True),
        Entry("binomial", fo.models.HMM(2, fo.models.Binomial(trials=20)), _trials(), slow=True),
        *(Entry(name, fo.models.HMM(2, emission), draw(), slow=slow)
          for name, emission, draw, slow in _univariate()),
        Entry("poisson-regression", fo.models.HMM(2, fo.models.PoissonRegression(["u0", "u1"])),
              _regression(lambda rng, eta: rng.poisson(np.exp(eta)))),
        Entry("shared-regression", fo.models.HMM(
            2, fo.models.PoissonRegression(["u0"], shared=["u1"])),
              _regression(lambda rng, eta: rng.poisson(np.exp(eta))), slow=True),
        Entry("negative-binomial-exposure", fo.models.HMM(
            2, fo.models.NegativeBinomial(["u0"], exposure="u1")),
              _regression(lambda rng, eta: rng.poisson(np.exp(eta)), 240, positive=True), slow=True),
        Entry("bernoulli-regression", fo.models.HMM(2, fo.models.BinomialRegression(["u0", "u1"])),
              _regression(lambda rng, eta: rng.random(len(eta)) < 1 / (1 + np.exp(3 - 2 * eta)), 900),
              slow=True),
        Entry("gaussian-regression", fo.models.HMM(2, fo.models.GaussianRegression(
            ["u0", "u1"], scale=0.3, coefficient_scale=None)),
              _regression(lambda rng, eta: rng.normal(5 * eta, 0.7)), slow=True),
        Entry("switching-regression", fo.models.HMM(2, fo.models.SwitchingRegression(
            ["u0"], ["u1"], variance="shared", scale=0.3, coefficient_scale=None)),
              _regression(lambda rng, eta: rng.normal(5 * eta, 0.7)), slow=True),
        Entry("switching-variance", fo.models.HMM(2, fo.models.SwitchingRegression(
            ["u0"], mean="shared", coefficient_scale=None, strength=0.0), stationary=True),
              _regression(lambda rng, eta: rng.normal(0.5, np.where(eta > 1.2, 3.0, 0.4))), slow=True),
        Entry("transition-regression", fo.models.HMM(
            2, "poisson", transition_covariates=["u0", "u1"]), _switching(), sequences=True),
        Entry("transition-regression-support", fo.models.HMM(
            3, "poisson", transition_covariates=["u0"], support=left_right, stickiness=2.0),
              _switching(), sequences=True, slow=True),
        Entry("stationary", fo.models.HMM(2, "poisson", stationary=True), _switching(), sequences=True,
              slow=True),
        Entry("durations", fo.models.HMM(2, "poisson", durations="negative-binomial", stages=3),
              _switching(), sequences=True, slow=True),
        Entry("ends", fo.models.HMM(2, "poisson", end_prior=(1.1, 1.1)), _switching(), sequences=True,
              slow=True),
        Entry("potts-regression", fo.models.PottsMixture(
            _grid(), emission=fo.models.PoissonRegression(["u0"]), beta=0.5),
              fo.sequences(_field("poisson"), covariates=np.sin(np.arange(48.0))), slow=True),
        Entry("potts-shared", fo.models.PottsMixture(
            _grid(), emission=fo.models.PoissonRegression(shared=["u0"]), beta=0.5),
              fo.sequences(_field("poisson"), covariates=np.sin(np.arange(48.0))), slow=True),
        Entry("product", fo.models.HMM(2, fo.models.Product(
            {("x", "y"): fo.models.Gaussian("full", scale=0.3), "turn": "von-mises",
             "calls": fo.models.PoissonRegression(["heat"])})), _mixed(120)),
        Entry("product-em", fo.models.HMM(2, fo.models.Product(
            {"calls": "poisson", ("x", "y"): fo.models.Gaussian("tied", scale=0.3)})),
              _mixed(90, ["calls", "x", "y"]), slow=True),
        Entry("frozen-transition", fo.models.PoissonHMM(
            2, frozen={"transition": [[0.9, 0.1], [0.1, 0.9]]}), _counts(), slow=True),
        Entry("events", fo.models.EventCounts(steps_per_day=6), _events()),
        Entry("custom-mixture", *_mixture()),
        Entry("iid-mixture", IidMixture(2), np.where(np.arange(70) % 23 == 5, np.nan, two_clusters())),
        Entry("potts-poisson", fo.models.PottsMixture(_grid(), beta=0.5), _field("poisson")),
        Entry("potts-gaussian", fo.models.PottsMixture(
            _grid(), emission=fo.models.Gaussian(scale=0.3), beta=0.6),
              _field("gaussian"), slow=True),
        Entry("potts-binomial", fo.models.PottsMixture(
            _grid(), emission="binomial", beta=0.4, exposure=np.full(48, 40.0)), _field("binomial"),
            slow=True),
        Entry("potts-categorical", fo.models.PottsMixture(
            _grid(), emission=fo.models.Categorical(3), beta=0.7), _field("categorical"), slow=True),
        Entry("potts-learned", fo.models.PottsMixture(
            _grid(), emission=fo.models.Poisson(2.0, 0.1), beta="learned", beta_scale=1.0),
            _field("poisson")),
        Entry("custom-field", _triples(), _field("gaussian")),
        Entry("crf", fo.models.LinearChainCRF(scale=1.0), _tagged(), sequences=True),
        Entry("crf-partial", fo.models.LinearChainCRF(support=_TURNS, scale=1.0),
              _tagged(unknown=0.2), sequences=True, slow=True),
        Entry("autoregression", fo.models.ARHMM(2, 1), walk(60, seed=6)),
        Entry("switching-autoregression", fo.models.HMM(2, fo.models.SwitchingAutoregression(
            1, variance="shared", scale=0.3), stationary=True), _memories(), slow=True),
        Entry("switching-mean", fo.models.HMM(2, fo.models.SwitchingAutoregression(
            1, weight="shared", variance="shared", mean="state", scale=0.3)), _levels()),
        Entry("stationary-regression", fo.models.HMM(
            2, "poisson", transition_covariates=["u0"], stationary=True), _switching(), sequences=True,
              slow=True),
        Entry("local-level", fo.models.Structural(), _level()),
        Entry("seasons", fo.models.Structural("trend", seasonal=4, exog=["u0"]), _seasons(),
              sequences=True),
        Entry("arima", fo.models.SARIMAX((1, 1, 1)), _level()),
        Entry("poisson-level", fo.models.Structural(observations="poisson"), _rates()),
        Entry("binomial-seasons", fo.models.Structural(
            seasonal=4, exog=["u0"], moving_seasonal=False, observations="binomial", trials="n"),
              _shares(), sequences=True, slow=True),
        Entry("own-state-space", fo.models.StateSpace(
            _shared, {"phi": [0.5], "loading": [1.0, 0.5], "noise": np.eye(2)},
            {"phi": "stationary", "noise": "covariance"}, ["u0"]), _pairs()),
        Entry("dynamic-factor", fo.models.DynamicFactor(1), _followers()),
        Entry("dynamic-factors", fo.models.DynamicFactor(
            2, exog=["u0"], anchors=[1, 3]), _followers(2), sequences=True, slow=True),
        Entry("neural-autoregression", fo.models.NeuralARHMM(
            2, 1, hidden=2, weight_scale=0.5), walk(60, seed=6), slow=True),
    ]  # fmt: skip
    return made


def _level(steps=70, seed=21):
    """A random walk under noise, with a gap."""
    rng = np.random.default_rng(seed)
    x = 40.0 + np.cumsum(rng.normal(size=steps)) + 1.5 * rng.normal(size=steps)
    x[30:34] = np.nan
    return x


def _rates(steps=70, seed=23):
    """Counts whose rate is a random walk, with a gap."""
    rng = np.random.default_rng(seed)
    x = rng.poisson(np.exp(1.5 + np.cumsum(0.35 * rng.normal(size=steps)))).astype(float)
    x[30:34] = np.nan
    return x


def _shares(count=6, steps=40, seed=24):
    """Short series of successes among a few trials, with seasons and a covariate."""
    rng = np.random.default_rng(seed)
    made, known = [], []
    for _ in range(count):
        level = np.cumsum(0.3 * rng.normal(size=steps))
        season = np.tile([0.6, -0.2, -0.7, 0.3], steps // 4)
        u0, trials = rng.normal(size=steps), rng.integers(3, 12, steps)
        odds = level + season + 0.4 * u0
        made.append(rng.binomial(trials, 1.0 / (1.0 + np.exp(-odds))).astype(float))
        known.append({"u0": u0, "n": trials.astype(float)})
    return fo.sequences(made, covariates=known)


def _seasons(count=9, steps=40, seed=22):
    """Short series with a trend, four seasons and a covariate."""
    rng = np.random.default_rng(seed)
    made, known = [], []
    for _ in range(count):
        slope = np.cumsum(0.15 * rng.normal(size=steps))
        level = np.cumsum(slope + 0.5 * rng.normal(size=steps))
        season = np.tile(rng.normal(0.0, 0.5, 4), steps // 4) + np.cumsum(0.3 * rng.normal(size=steps))
        known.append(rng.normal(size=steps))
        made.append(level + season + 0.5 * known[-1] + rng.normal(size=steps))
    return fo.sequences(made, covariates=known)


def _shared(params, covariates):
    """One autoregression under two channels with correlated noise; its drive depends on a covariate."""
    drive = 1.0 + 0.5 * covariates[:, :1, None] ** 2
    return {
        "design": params["loading"][:, None],
        "transition": params["phi"][:, None],
        "state_cov": drive,
        "obs_cov": params["noise"],
        "initial_state_cov": np.ones((1, 1)),
    }


def _pairs(steps=200, seed=23):
    """Two channels that share a state, one of them often missing."""
    rng = np.random.default_rng(seed)
    known, state = rng.normal(size=steps), np.zeros(steps)
    for t in range(1, steps):
        drive = 1.0 + 0.5 * known[t - 1] ** 2
        state[t] = 0.7 * state[t - 1] + np.sqrt(drive) * rng.normal()
    noise = rng.multivariate_normal(np.zeros(2), [[1.0, 0.3], [0.3, 0.8]], size=steps)
    x = state[:, None] * np.array([1.0, 0.6]) + noise
    x[rng.random(steps) < 0.2, 1] = np.nan
    x[25:27] = np.nan
    return fo.sequences(x, covariates={"u0": known})


def _followers(factors=1, seed=24):
    """Series that follow common factors, with gaps."""
    rng, parts, known = np.random.default_rng(seed), [], []
    loading = np.array([[1.2, 0.3], [1.3, 0.0], [0.9, -0.8], [-0.2, 1.3], [0.4, 1.0]])[:, :factors]
    loading = loading[: 2 * factors + 1]
    for steps in (180,) if factors == 1 else (80, 70, 60, 75):
        f = np.zeros((steps, factors))
        for t in range(1, steps):
            f[t] = np.linspace(0.8, -0.5, factors) * f[t - 1] + rng.normal(size=factors)
        known.append(rng.normal(size=(steps, 1)))
        x = 2.0 + f @ loading.T + known[-1] + 0.8 * rng.normal(size=(steps, len(loading)))
        x[rng.random(steps) < 0.1, 0], x[20:22] = np.nan, np.nan
        parts.append(x)
    return fo.sequences(parts, covariates=known) if factors > 1 else parts[0] - known[0]


def _grid(rows=6, columns=8):
    """Edges of a grid with diagonals one way: triangles, as on a map."""
    number = np.arange(rows * columns).reshape(rows, columns)
    pairs = [
        (number[:, :-1], number[:, 1:]),
        (number[:-1], number[1:]),
        (number[:-1, :-1], number[1:, 1:]),
    ]
    return np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in pairs])


def _field(kind, seed=7):
    rng = np.random.default_rng(seed)
    z = np.add.outer(np.arange(6), np.arange(8)).ravel() // 7
    z = np.where(rng.random(48) < 0.15, 1 - z, z)
    draw = {
        "poisson": lambda: rng.poisson(np.array([4.0, 12.0])[z]),
        "gaussian": lambda: rng.normal(np.array([-1.0, 1.5])[z], 0.7),
        "binomial": lambda: rng.binomial(40, np.array([0.2, 0.5])[z]),
        "categorical": lambda: np.where(rng.random(48) < 0.85, 2 * z, rng.integers(3, size=48)),
    }
    x = draw[kind]().astype(float)
    x[[11, 40]] = np.nan
    return x


def _triples():
    """Three or two states at a site; factors of three sites, some of them impossible, and of two."""
    corners = np.arange(48).reshape(6, 8)[:-1, :-1].ravel()
    scopes = [(k, k + 1, k + 9) for k in corners[::2]] + [(k, k + 8) for k in corners]
    states = np.where(np.arange(48) % 5 == 0, 3, 2)

    def factors(params):
        made = []
        for scope in scopes:
            z = jnp.indices([int(states[v]) for v in scope])
            same = jnp.mean((z[0] == z[1:]).astype(float), 0)
            factor = params["pull"] * same
            made.append(factor if len(scope) == 2 else factor.at[0, -1, 0].set(-jnp.inf))  # noqa: PD008
        return made

    def emission(params, x):
        return -0.5 * (x[:, None] - params["level"]) ** 2

    def log_prior(params):
        return -0.5 * jnp.sum(params["level"] ** 2) / 9.0 - 0.5 * params["pull"] ** 2

    init = {"level": np.array([-1.0, 1.5, 0.5]), "pull": np.array(0.3)}
    return fo.models.CustomField(scopes, factors, emission, init, states, log_prior)


def _events(seed=5):
    rng = np.random.default_rng(seed)
    z = _states(rng, 210, 2, 0.9)
    x = rng.poisson(6.0, 210) + np.where(z == 1, rng.poisson(rng.gamma(4.0, 3.0, 210)), 0)
    x = x.astype(float)
    x[20:25] = np.nan
    return x
