"""Closed forms of emissions against derivatives by JAX of the same density and prior."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from fitonce.core.parameters import ParameterSpace
from fitonce.core.units import stretch_of
from fitonce.models import (
    Categorical,
    CategoricalRegression,
    Gaussian,
    GaussianMixture,
    GaussianRegression,
    Multinomial,
    PoissonRegression,
)
from fitonce.models.emissions.closed_forms import Values
from fitonce.models.emissions.stretched_forms import StretchedForms

STEPS = 24


def numbers(missing=False, far=False):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(STEPS, 2)) + 2.0 * (np.arange(STEPS) % 4)[:, None]
    if missing:
        x[3], x[9, 1] = np.nan, np.nan
    return x * [3000.0, 1e-3] + [9000.0, 0.0] if far else x


def categories(channels=2):
    rng = np.random.default_rng(1)
    x = rng.integers(3, size=(STEPS, channels)).astype(float)
    x[4], x[7, 0] = np.nan, np.nan
    return fo.sequences(x, covariates=rng.normal(size=(STEPS, 2)) * [1.0, 400.0])


def counts(groups=1):
    rng = np.random.default_rng(2)
    x = np.concatenate(
        [rng.multinomial(rng.integers(1, 9, STEPS), [0.5, 0.3, 0.2]) for _ in range(groups)], 1
    ).astype(float)
    x[5] = np.nan
    return x


PULLED = {"mean_weight": 0.7, "mean_centre": (1.0, -2.0), "mean_scale": 3.0, "strength": 2.5}
CASES = {
    "gaussian diag": (Gaussian("diag", squares=0.3, variance_rate=0.4, **PULLED), numbers(missing=True)),
    "gaussian spherical": (Gaussian("spherical", variance_rate=0.4, **PULLED), numbers(far=True)),
    "gaussian fixed": (Gaussian("fixed", fixed_variance=(0.5, 2.0), **PULLED), numbers()),
    "gaussian full": (Gaussian("full", squares=((2.0, 0.5), (0.5, 1.0)), **PULLED), numbers()),
    "gaussian tied": (Gaussian("tied", **PULLED), numbers(far=True)),
    "mixture diag": (GaussianMixture(3, Gaussian("diag", **PULLED)), numbers(missing=True)),
    "mixture spherical": (GaussianMixture(2, "spherical", (1.5, 2.0)), numbers(far=True)),
    "mixture full": (GaussianMixture(2, Gaussian("full", **PULLED)), numbers(far=True)),
    "mixture tied": (
        GaussianMixture(2, Gaussian("tied", squares=0.4, **PULLED), [[1.5, 2.0], [1.0, 3.0]]),
        numbers(),
    ),
    "mixture fixed": (GaussianMixture(2, "fixed"), numbers()),
    "mixture of one": (GaussianMixture(1, "full"), numbers()),
    "categorical": (Categorical(3, (1.5, 2.0, 1.1)), categories()),
    "categorical regression": (CategoricalRegression(3, ["u0", "u1"]), categories()),
    "categorical regression flat": (
        CategoricalRegression(3, ["u1"], 1.0, coefficient_scale=None),
        categories(1),
    ),
    "poisson shared": (
        PoissonRegression(["u0"], 2.0, shape=1.5, inverse_scale=0.1, shared=["u1"]),
        categories(),
    ),
    "gaussian all shared": (
        GaussianRegression((), 2.0, shared=["u0", "u1"]),
        categories(),
    ),
    "multinomial": (Multinomial((1.5, 2.0, 1.1)), counts()),
    "multinomials": (Multinomial(n_categories=3), counts(2)),
    "categorical support": (
        Categorical(3, (1.5, 2.0, 1.1), [[True, True, False], [True, True, True]]),
        categories(),
    ),
    "multinomial support": (
        Multinomial(1.5, n_categories=3, support=[[True, False, True], [True, True, True]]),
        counts(2),
    ),
}


_FAST = (
    "gaussian full",
    "mixture diag",
    "categorical regression",
    "multinomial",
    "categorical support",
    "poisson shared",
)
every_case = [pytest.param(n, marks=[] if n in _FAST else [pytest.mark.slow]) for n in CASES]


def close(found, expected, digits=9):
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=10.0**-digits * scale)


@pytest.mark.parametrize("name", every_case)
def test_closed_forms_are_what_jax_derives(name):
    emission, data = CASES[name]
    states = 2
    with jax.enable_x64(True):
        rows = fo.models.HMM(states, emission).prepare(fo.sequences(data)).rows
        space = ParameterSpace(emission.parameters(states, rows))
        rng = np.random.default_rng(4)
        theta = space.to_free(emission.start(states, rows, rng)) + 0.2 * rng.normal(size=space.size)
        shares = rng.random((len(rows.counts), states)) * np.asarray(rows.counts)[:, None]

        def table(free):
            return emission.log_density(space.to_params(free), rows)

        possible = np.isfinite(np.asarray(table(jnp.asarray(theta))))
        shares = np.where(possible, shares, 0.0)

        def weighted(free):
            return jnp.sum(jnp.where(possible, shares * table(free), 0.0))

        def prior(free):
            return emission.log_prior(space.to_params(free), rows)

        free = jnp.asarray(theta)
        derived = [
            np.asarray(jax.jit(of)(free))
            for of in (
                table, jax.jacfwd(table), jax.grad(weighted), jax.hessian(weighted), prior,
                jax.grad(prior), jax.hessian(prior),
            )
        ]  # fmt: skip
    arrays = rows.arrays()
    closed = emission.closed_forms(arrays)
    own = np.concatenate(
        [
            np.tile(places, (states, 1)) if leaf in closed.shared else places.reshape(states, -1)
            for leaf, _, places in space.leaves()
        ],
        1,
    )
    forms = StretchedForms(closed, stretch_of(space)[own])
    one = Values.at(theta, {n: v[..., 0] for n, v in space.values(theta[None]).items()})
    two = Values.at(np.stack([theta, theta]), space.values(np.stack([theta, theta])))
    twice = np.repeat(shares[..., None], 2, -1)
    density, scores, slope, second, log_prior, prior_slope, prior_second = derived
    for fold in range(2):
        found = forms.log_density(two, arrays)[..., fold]
        close(found[possible], density[possible])
        assert (found[~possible] == -np.inf).all()
        close(gathered(forms.slopes(two, twice, arrays)[..., fold], own), slope)
        close(forms.log_prior(two, arrays)[fold], log_prior)
        close(gathered(forms.prior_slopes(two, arrays)[..., fold], own), prior_slope)
    for state in range(states):
        here = possible[:, state]
        close(forms.scores(one, arrays)[here, state], scores[here, state][:, own[state]])
    close(gathered(forms.curvature(one, shares, arrays), own, own), second)
    close(gathered(forms.prior_curvature(one, arrays), own, own), prior_second)
    assert np.isfinite(forms.metric(one, shares, arrays)).all()
    assert forms.operations(states, arrays) > 0


def gathered(found, *own):
    """Sums over states, by the coordinates of all of them."""
    size = own[0].max() + 1
    total = np.zeros((size,) * len(own))
    for state, block in enumerate(found):
        np.add.at(total, np.ix_(*(places[state] for places in own)), block)
    return total
