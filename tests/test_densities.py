"""Densities of one number against SciPy's, and their derivatives against those that JAX derives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fitonce as fo
from fitonce.models.emissions import densities

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(4.0, 60).astype(float)
ZEROS = COUNTS * (RNG.random(60) > 0.4)
POSITIVE = RNG.gamma(2.0, size=60)
SOME_ZEROS = np.where(np.arange(60) % 3 == 1, 0.0, POSITIVE)
SHARES = RNG.beta(2.0, 3.0, size=60)
ANGLES = RNG.uniform(-3.0, 3.0, 60)
NUMBERS = RNG.standard_t(3.0, 60)
NATS = np.arange(60) - 30.0

EVERY = {
    "poisson": (densities.PoissonDensity(), COUNTS, 1),
    "binomial": (densities.BinomialDensity(), (np.minimum(COUNTS, 9), np.full(60, 9.0)), 1),
    "normal": (densities.NormalDensity(), NUMBERS, 2),
    "negative-binomial": (densities.NegativeBinomialDensity(), COUNTS, 2),
    "zero-inflated": (densities.ZeroInflatedDensity(), ZEROS, 2),
    "exponential": (densities.ExponentialDensity(), POSITIVE, 1),
    "gamma": (densities.GammaDensity(), POSITIVE, 2),
    "zero-inflated-gamma": (densities.ZeroMassDensity(densities.GammaDensity()), SOME_ZEROS, 3),
    "beta": (densities.BetaDensity(), SHARES, 2),
    "von-mises": (densities.VonMisesDensity(), ANGLES, 2),
    "student-t": (densities.StudentTDensity(), NUMBERS, 3),
}


@pytest.mark.parametrize("name", EVERY)
def test_derivatives_are_those_that_jax_derives(name):
    density, x, size = EVERY[name]
    at = 0.8 * np.random.default_rng(1).normal(size=(size, 60))
    with jax.enable_x64(True):

        def log(free, x):
            return density.log(x, tuple(free), densities.jax_maths())

        def derived(of):
            return np.asarray(jax.vmap(of, (1, 0))(jnp.asarray(at), jax.tree.map(jnp.asarray, x)))

        value, slope, second = (derived(of) for of in (log, jax.grad(log), jax.hessian(log)))
    ours = density.log(x, tuple(at), densities.numpy_maths())
    np.testing.assert_allclose(ours, value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.stack(density.slopes(x, tuple(at)), 1), slope, rtol=1e-11, atol=1e-12)
    found = np.zeros((60, size, size))
    for (i, j), entries in density.second(x, tuple(at)).items():
        found[:, i, j] = found[:, j, i] = entries
    np.testing.assert_allclose(found, second, rtol=1e-10, atol=1e-11)


m = fo.models
SCIPY = {
    "student-t": (m.StudentT(), NUMBERS, {"location": 0.3, "scale": 1.4, "df": 5.0},
                  stats.t(5.0, 0.3, 1.4).logpdf),
    "log-normal": (m.LogNormal(), POSITIVE, {"mean": 0.4, "variance": 0.49},
                   stats.lognorm(0.7, scale=np.exp(0.4)).logpdf),
    "binomial": (m.BinomialRegression(trials=30), COUNTS, {"rate": 0.2}, stats.binom(30, 0.2).logpmf),
    "gamma": (m.Gamma(), POSITIVE, {"mean": 3.0, "shape": 2.5}, stats.gamma(2.5, scale=1.2).logpdf),
    "zero-inflated-gamma": (
        m.ZeroInflatedGamma(), SOME_ZEROS, {"mean": 3.0, "shape": 2.5, "zeros": 0.3},
        lambda x: np.where(
            x == 0, np.log(0.3),
            np.log(0.7) + stats.gamma(2.5, scale=1.2).logpdf(np.where(x > 0, x, 1.0)))),
    "exponential": (m.Exponential(), POSITIVE, {"mean": 3.0}, stats.expon(scale=3.0).logpdf),
    "beta": (m.Beta(), SHARES, {"mean": 0.3, "precision": 8.0}, stats.beta(2.4, 5.6).logpdf),
    "von-mises": (m.VonMises(), ANGLES, {"mean": 0.5, "concentration": 2.0},
                  stats.vonmises(2.0, 0.5).logpdf),
    "negative-binomial": (m.NegativeBinomial(), COUNTS, {"mean": 4.0, "size": 2.0},
                          stats.nbinom(2.0, 1 / 3).logpmf),
    "zero-inflated-poisson": (
        m.ZeroInflatedPoisson(), ZEROS, {"rate": 3.0, "zeros": 0.3},
        lambda x: np.log(0.7 * stats.poisson(3.0).pmf(x) + 0.3 * (x == 0))),
}  # fmt: skip


@pytest.mark.parametrize("name", SCIPY)
def test_log_likelihoods_are_those_of_scipy(name):
    """One state: the log-likelihood is the sum of the log densities."""
    emission, x, values, log_density = SCIPY[name]
    model = fo.models.HMM(1, emission)
    params = {key: np.full((1, 1), value) for key, value in values.items()}
    fit = fo.fit_at(model, x, {"initial": np.ones(1), "transition": np.ones((1, 1)), **params})
    found = fit.objective.log_likelihoods(fit.theta[None], fit.objective.base[None])[0]
    assert found == pytest.approx(log_density(x).sum(), rel=1e-11)


@pytest.mark.parametrize("name", SCIPY)
def test_every_emission_serves_a_graph(name):
    emission, x, values, log_density = SCIPY[name]
    model = fo.models.PottsMixture([(k, k + 1) for k in range(19)], 1, emission, beta=0.0)
    fit = fo.fit_at(model, x[:20], {key: np.full(1, value) for key, value in values.items()})
    assert fit.log_likelihood == pytest.approx(log_density(x[:20]).sum(), rel=1e-11)


@pytest.mark.parametrize("name", ["student-t", "log-normal"])
def test_constant_channels_are_refused(name):
    with pytest.raises(ValueError, match="channel 'x0' is constant"):
        fo.fit(fo.models.HMM(2, name), np.full(20, 2.0))


STATES = np.cumsum(np.random.default_rng(2).random(3000) < 0.04) % 2


def _errors(fit, parameter):
    """Standard errors of a parameter's entries."""
    table = fit.to_dataframe()
    return table["se"][table["name"].str.startswith(parameter)].to_numpy()


def _pick(a, b):
    return np.array([a, b])[STATES]


SIMULATED = {
    "student-t": (lambda rng: _pick(0.0, 4.0) + _pick(1.0, 0.5) * rng.standard_t(5.0, 3000),
                  {"location": (0.0, 4.0), "scale": (1.0, 0.5)}),
    "log-normal": (lambda rng: np.exp(rng.normal(_pick(0.0, 2.0), _pick(0.4, 0.6))),
                   {"mean": (0.0, 2.0), "variance": (0.16, 0.36)}),
    "gamma": (lambda rng: rng.gamma(_pick(2.0, 6.0), _pick(1.0, 2.0)),
              {"mean": (2.0, 12.0), "shape": (2.0, 6.0)}),
    "zero-inflated-gamma": (
        lambda rng: (rng.random(3000) > _pick(0.4, 0.1)) * rng.gamma(_pick(2.0, 6.0), _pick(1.0, 2.0)),
        {"mean": (2.0, 12.0), "shape": (2.0, 6.0), "zeros": (0.4, 0.1)}),
    "exponential": (lambda rng: rng.exponential(_pick(1.0, 9.0)), {"mean": (1.0, 9.0)}),
    "beta": (lambda rng: rng.beta(_pick(2.0, 6.0), _pick(6.0, 2.0)),
             {"mean": (0.25, 0.75), "precision": (8.0, 8.0)}),
    "von-mises": (lambda rng: rng.vonmises(_pick(-1.0, 2.0), _pick(4.0, 2.0)),
                  {"mean": (-1.0, 2.0), "concentration": (4.0, 2.0)}),
    "negative-binomial": (lambda rng: rng.negative_binomial(3, 3 / (3 + _pick(3.0, 20.0))),
                          {"mean": (3.0, 20.0), "size": (3.0, 3.0)}),
    "zero-inflated-poisson": (
        lambda rng: (rng.random(3000) > _pick(0.4, 0.1)) * rng.poisson(_pick(3.0, 12.0)),
        {"rate": (3.0, 12.0), "zeros": (0.4, 0.1)}),
    "bernoulli": (lambda rng: rng.random(3000) < _pick(0.2, 0.9), {"rate": (0.2, 0.9)}),
}  # fmt: skip


@pytest.mark.parametrize("name", SIMULATED)
def test_parameters_are_recovered_from_simulation(name):
    """Within four standard errors of those that made the data."""
    draw, truth = SIMULATED[name]
    fit = fo.fit(fo.models.HMM(2, name), draw(np.random.default_rng(3)).astype(float))
    assert fit.ok
    location = fit.params[next(iter(truth))].ravel()
    order = np.argsort(location) if truth[next(iter(truth))][0] < truth[next(iter(truth))][1] else [1, 0]
    for parameter, values in truth.items():
        errors = _errors(fit, parameter)[order]
        assert (np.abs(fit.params[parameter].ravel()[order] - values) < 4 * errors).all(), parameter


def test_coefficients_and_exposure_are_recovered():
    rng = np.random.default_rng(4)
    u, exposure = rng.normal(size=3000), rng.uniform(1.0, 5.0, 3000)
    mean = exposure * np.exp(_pick(0.0, 1.5) + _pick(0.4, -0.3) * u)
    data = fo.sequences(rng.poisson(mean).astype(float), covariates={"heat": u, "people": exposure})
    fit = fo.fit(fo.models.HMM(2, m.PoissonRegression(["heat"], exposure="people")), data)
    order = np.argsort(fit.params["rate"].ravel())
    for name, truth in (("rate", np.exp([0.0, 1.5])), ("coefficients", np.array([0.4, -0.3]))):
        gap = np.abs(fit.params[name].ravel()[order] - truth)
        assert (gap < 4 * _errors(fit, name)[order]).all()


@pytest.mark.parametrize(
    ("emission", "x", "sentence"),
    [
        ("gamma", [1.0, 0.0, 2.0], r"a gamma emission needs positive numbers, got 0; the emission "
         r'"zero-inflated-gamma" takes zeros, too \(--emission x0=zero-inflated-gamma, --model '
         r"zero-inflated-gamma-hmm\)$"),
        ("gamma", [1.0, 0.0, -2.0], "a gamma emission needs positive numbers, got 0$"),
        ("log-normal", [1.0, 0.0], 'got 0; the emission "zero-inflated-gamma" takes zeros, too'),
        ("exponential", [1.0, 0.0], 'got 0; the emission "zero-inflated-gamma" takes zeros, too'),
        ("zero-inflated-gamma", [1.0, 0.0, -2.0],
         "a zero-inflated gamma emission needs zeros or positive numbers, got -2"),
        ("zero-inflated-gamma", [0.0, 0.0, 0.0],
         "channel 'x0' has zeros only, so the mean of positive numbers has no estimate"),
        ("log-normal", [1.0, -1.0], "a log-normal emission needs positive numbers, got -1"),
        ("beta", [0.2, 1.0], "a beta emission needs numbers between 0 and 1, got 1"),
        ("von-mises", [10.0, 0.1], "needs angles in radians, -2 pi to 2 pi, got 10"),
        ("negative-binomial", [1.0, 2.5], "needs non-negative integer counts, got 2.5"),
        (
            m.PoissonRegression(["heat"]),
            [1.0, 2.0],
            "needs a covariate 'heat' in the data, but it has none",
        ),
        (m.BinomialRegression(trials=3), [1.0, 4.0], "cannot exceed its trials, got 4 of 3"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit_are_refused(emission, x, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.fit(fo.models.HMM(2, emission), x)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: m.StudentT(df_prior=(0, 1)), "df_prior must be a positive shape"),
        (lambda: m.PoissonRegression("heat"), "regressors must be a list of names of covariates"),
        (lambda: m.Gamma(coefficient_scale=-1), "coefficient_scale must be a positive number or None"),
        (lambda: m.ZeroInflatedGamma(zeros_prior=(0, 1)), "zeros_prior must be two positive numbers"),
        (lambda: m.ZeroInflatedGamma(shape_prior=1), "shape_prior must be a positive shape"),
        (lambda: m.BinomialRegression(trials=0), "trials must be an integer of at least 1, the name"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: m.Product([]), "parts must be a dict of names of channels and emissions"),
        (lambda: m.Product({"x": "gamma", ("x", "y"): "gaussian"}), "a channel can be in one part only"),
        (lambda: m.Product({"x": m.ARHMM(2).emission}), "cannot be part of a product"),
        (lambda: m.Product({"x": "gamma", "x.1": "gamma"}), "begins with the name of another part, 'x'"),
        (
            lambda: fo.fit(m.HMM(2, m.Product({"x": "gamma"})), POSITIVE),
            r"channels of the data, \['x0'\]",
        ),
        (
            lambda: fo.fit(m.HMM(2, m.Product({"x0": "gamma"})), NUMBERS),
            "a gamma emission needs positive numbers",
        ),
    ],
)
def test_products_that_make_no_sense_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_product_of_poisson_channels_is_the_poisson_model():
    x = np.random.default_rng(5).poisson(np.repeat([[2.0, 8.0], [7.0, 1.0]], 40, 0)).astype(float)
    plain = fo.fit(m.PoissonHMM(2), x, order_by="rate[1]")
    parts = m.Product({"x1": "poisson", "x0": "poisson"})
    product = fo.fit(m.HMM(2, parts), x, order_by="x1.rate")
    assert product.value == pytest.approx(plain.value, rel=1e-10)
    np.testing.assert_allclose(product.params["x1.rate"], plain.params["rate"][:, 1:], rtol=1e-6)
