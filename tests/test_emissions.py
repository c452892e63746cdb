"""Emissions: one class serves chains and graphs, M steps are the best there is, hooks are declared."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from fitonce.core.constraints import Free
from fitonce.core.parameters import ParameterSpace
from fitonce.models import Binomial, Categorical, EmissionTraits, Gaussian, Poisson
from fitonce.models.emissions import Emission, spread_levels, sum_channels
from fitonce.objectives.families import objective_of

BETA = 0.8
STEPS = 40


def draw(kind, channels=1, seed=0):
    rng = np.random.default_rng(seed)
    z = np.repeat([0, 1, 0, 1], STEPS // 4)[:, None]
    shape = (STEPS, channels)
    x = {
        "poisson": lambda: rng.poisson(np.where(z, 9.0, 2.0), shape),
        "gaussian": lambda: rng.normal(np.where(z, 2.0, -1.0), np.where(z, 0.5, 1.0), shape),
        "binomial": lambda: rng.binomial(12, np.where(z, 0.7, 0.2), shape),
        "categorical": lambda: np.where(rng.random(shape) < 0.8, z, rng.integers(3, size=shape)),
    }[kind]().astype(float)
    x[[3, 17]] = np.nan
    return x


CASES = {
    "poisson": Poisson(2.0, 0.1),
    "gaussian": Gaussian(scale=0.3),
    "gaussian-spherical": Gaussian("spherical", scale=0.3),
    "gaussian-fixed": Gaussian("fixed", fixed_variance=0.8, mean_scale=3.0),
    "gaussian-shrunk": Gaussian(mean_scale=2.0),
    "binomial": Binomial(1.5, 1.2, trials=12),
    "categorical": Categorical(3),
}
every_emission = pytest.mark.parametrize("name", CASES)


def as_chain(emission):
    """The Potts field of a path as a chain: its moves are those of a Markov chain."""
    moves = np.full((2, 2), 1.0 / (np.exp(BETA) + 1.0))
    np.fill_diagonal(moves, np.exp(BETA) / (np.exp(BETA) + 1.0))
    return fo.models.HMM(2, emission, frozen={"initial": [0.5, 0.5], "transition": moves})


def as_field(emission):
    return fo.models.PottsMixture(np.stack([np.arange(39), np.arange(1, 40)], 1), 2, emission, BETA)


@every_emission
def test_a_chain_and_the_graph_of_a_path_are_one_model(name):
    data = draw(name.split("-")[0])
    chain, field = (objective_of(make(CASES[name]), data) for make in (as_chain, as_field))
    theta = field.start(None) + 0.1 * np.random.default_rng(1).normal(size=field.space.size)
    assert [n.split("[")[0] for n in chain.space.names] == [n.split("[")[0] for n in field.space.names]
    weights = np.stack([field.base, field.base * (np.arange(STEPS) % 5 > 0)])
    both = [o.values_and_gradients(np.tile(theta, (2, 1)), weights) for o in (chain, field)]
    np.testing.assert_allclose(both[0][0], both[1][0], rtol=1e-12)
    np.testing.assert_allclose(both[0][1], both[1][1], atol=1e-9)


MATRICES = {  # not for graphs, whose sites have one channel
    "gaussian-full": Gaussian("full", mean_scale=2.0),
    "gaussian-tied": Gaussian("tied", scale=0.3),
}


@pytest.mark.parametrize("name", CASES | MATRICES)
@pytest.mark.parametrize("channels", [1, 2])
def test_m_steps_are_stationary(name, channels):
    """Where repeated M steps end, no direction makes the expected complete-data posterior larger."""
    emission = (CASES | MATRICES)[name]
    data = fo.sequences(draw(name.split("-")[0], channels))
    if channels > 1:
        data.observed[0, 5, 1] = False  # a step with one channel missing
    model = fo.models.HMM(2, emission)
    with jax.enable_x64(True):
        rows = model.prepare(data).rows
        space = ParameterSpace(emission.parameters(2, rows))
        shares = (
            np.random.default_rng(2).random((len(rows.counts), 2)) * np.asarray(rows.counts)[:, None]
        )
        params = emission.start(2, rows, None)
        for _ in range(200):
            params = emission.maximise(params, shares, rows)

        def expected(theta):
            values = space.to_params(theta)
            return jnp.sum(shares * emission.log_density(values, rows)) + emission.log_prior(
                values, rows
            )

        slope = jax.jit(jax.grad(expected))(jnp.asarray(space.to_free(params)))
    np.testing.assert_allclose(slope, 0.0, atol=1e-8)


@every_emission
def test_em_never_raises_the_objective(name):
    objective = objective_of(as_field(CASES[name]), draw(name.split("-")[0]))
    assert objective.traits.m_steps == "all"
    theta = objective.start(np.random.default_rng(0))
    values = []
    for _ in range(8):
        value, theta = objective.m_step(theta)
        values.append(value)
    assert (np.diff(values) <= 1e-9).all()
    assert values[-1] < values[0]


def test_exposure_multiplies_rates_and_counts_trials():
    x, exposure = draw("poisson")[:, 0], np.linspace(0.5, 3.0, STEPS)
    model = fo.models.PottsMixture(as_field(Poisson()).adjacency, 2, Poisson(), BETA, exposure=exposure)
    objective = objective_of(model, x)
    with jax.enable_x64(True):
        params = {"rate": jnp.asarray([2.0, 5.0])}
        field = model.potentials(params, objective.prepared)
    from scipy.stats import poisson

    seen = np.isfinite(x)
    expected = poisson.logpmf(x[:, None], exposure[:, None] * np.array([2.0, 5.0]))
    np.testing.assert_allclose(np.asarray(field.emission)[seen], expected[seen], rtol=1e-12)


def test_binomial_trials_are_those_of_scipy():
    from scipy.stats import binom

    x = draw("binomial")
    model = fo.models.HMM(2, Binomial(trials=12))
    with jax.enable_x64(True):
        prepared = model.prepare(fo.sequences(x))
        params = {"initial": jnp.ones(2) / 2, "transition": jnp.ones((2, 2)) / 2}
        params["rate"] = jnp.asarray([[0.25], [0.6]])
        found = np.asarray(model.potentials(params, prepared).emission)[0]
    seen = np.isfinite(x[:, 0])
    np.testing.assert_allclose(found[seen], binom.logpmf(x, 12, [0.25, 0.6])[seen], rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fo.models.HMM(2, Binomial()), "needs trials="),
        (lambda: fo.models.HMM(2, Binomial(trials=5)), "cannot exceed its trials=5, got"),
        (lambda: Binomial(trials=0), "trials must be an integer of at least 1 or None, got 0"),
        (lambda: fo.models.HMM(2, Gaussian), "must be an instance, such as Gaussian"),
        (lambda: fo.models.HMM(2, 3), "emission must be an fo.models.Emission such as"),
        (lambda: fo.models.HMM(2, "gauss"), "emission must be one of poisson, .*, got 'gauss'"),
        (lambda: as_field(Gaussian("full")), "single values have no full covariance"),
        (lambda: as_field(Gaussian("tied")), "single values have no tied covariance"),
    ],
)
def test_what_does_not_fit_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        objective_of(make(), draw("binomial"))


@dataclass(frozen=True)
class Named(Emission):
    """An emission that happens to have things called as hooks are, and declares none of them."""

    metric: ClassVar[str] = "euclidean"
    information: ClassVar[float] = 3.0
    maximise: ClassVar[None] = None

    def parameters(self, n_states, rows):
        return {"mean": Free((n_states, rows.x.shape[1]))}

    def start(self, n_states, rows, rng):
        return {"mean": spread_levels(n_states, rows, rng)}

    def log_prior(self, params, rows):
        return -0.5 * jnp.sum(params["mean"] ** 2) / 9.0

    def log_density(self, params, rows):
        return sum_channels(-0.5 * (rows.x[:, None] - params["mean"]) ** 2, rows)


@dataclass(frozen=True)
class Promising(Named):
    """Declares what it does not have."""

    declared: EmissionTraits | str
    information = Emission.information

    @property
    def traits(self):
        return self.declared


@dataclass(frozen=True)
class Narrow(Named):
    """One density for all states."""

    def log_density(self, params, rows):
        return super().log_density(params, rows)[:, :1]


@pytest.mark.parametrize(
    ("emission", "sentence"),
    [
        (
            Promising(EmissionTraits(information=True)),
            "Promising declare information=True, so it must have a method `information`",
        ),
        (Promising("fast"), "must be fo.models.EmissionTraits, got 'fast'"),
        (Narrow(), r"of Narrow must return one number for each row and state, shape \(40, 2\), got"),
    ],
)
def test_an_emission_that_is_not_what_it_says_is_refused(emission, sentence):
    with pytest.raises(ValueError, match=sentence):
        objective_of(fo.models.HMM(2, emission), draw("gaussian"))(np.zeros(5))


def test_hooks_that_are_not_declared_are_not_used():
    traits = objective_of(fo.models.HMM(2, Named()), draw("gaussian"), "scan").traits
    assert not traits.strongly_nonquadratic  # so that far folds go by secants
    assert not traits.blocks
    assert traits.m_steps == "none"
    assert objective_of(
        fo.models.NeuralARHMM(2, hidden=2), draw("gaussian")
    ).traits.strongly_nonquadratic


class OldStyle:
    """Six methods and no base class, as emissions were written before 0.2."""

    deduplicate = False
    metric = "euclidean"
    check = covariates = staticmethod(lambda data: None)
    parameters = Named.parameters
    start = Named.start
    log_prior = Named.log_prior
    log_density = Named.log_density


def test_emissions_without_the_base_class_work_for_one_more_version():
    with pytest.warns(
        DeprecationWarning, match="should derive from fo.models.Emission; OldStyle does not"
    ):
        model = fo.models.HMM(2, OldStyle())
    old, new = (objective_of(m, draw("gaussian")) for m in (model, fo.models.HMM(2, Named())))
    theta = new.start(None)
    assert old(theta) == pytest.approx(new(theta), rel=1e-14)
    assert str(model) == "HMM, 2 states, OldStyle emission"
    assert not old.traits.strongly_nonquadratic


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (lambda: fo.models.PoissonSites(2.0, 0.1), Poisson(2.0, 0.1)),
        (lambda: fo.models.BinomialSites(2.0, 3.0), Binomial(2.0, 3.0)),
        (lambda: fo.models.GaussianSites(2.0, 0.5), Gaussian(strength=2.0, scale=0.5)),
    ],
)
def test_names_of_emissions_of_sites_work_for_one_more_version(old, new):
    with pytest.warns(DeprecationWarning, match="Sites"):
        assert old() == new


def test_nothing_warns_of_emissions_that_are_ours():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for emission in CASES.values():
            fo.models.HMM(2, emission)
