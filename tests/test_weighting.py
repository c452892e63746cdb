"""Schemes at the ends of their paths, and the paper's proposition."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import enumeration
import fitonce as fo
from fitonce import schemes
from fitonce.engines.chain import log_partition
from fitonce.models.potentials import Chain
from fitonce.objectives.chain.layout import ChainLayout
from fuzzing.strategies import seeds
from solving import solve

MODEL = fo.models.GaussianHMM(2, covariance="fixed", mean_scale=2.0)
DATA = np.random.default_rng(0).normal(np.repeat([-1.0, 1.0, -1.0], 20), 1.0)
SCHEMES = [
    schemes.A(),
    schemes.B(),
    schemes.B(normalised=True),
    schemes.B(per_transition=True),
    schemes.B(normalised=True, per_transition=True),
]


@pytest.fixture(scope="module")
def fit():
    return fo.fit(MODEL, DATA)


@partial(jax.jit, static_argnums=(0, 1))
def engine(scheme, kernel, chain, weights, layout):
    terms = scheme.terms(chain, scheme.path(weights, layout), layout)
    return sum(c @ log_partition(u, p, layout.lengths, kernel) for c, u, p in terms)


def enumerated(scheme, chain, weights, observed, lengths):
    """The paper's equations (A) and (B), path by path, with sites numbered through both sequences."""
    total, site = 0.0, 0
    for n, length in enumerate(lengths):
        seen, w = observed[n, :length], weights[site : site + length]
        site += length
        latent = np.ones(length) if isinstance(scheme, schemes.A) else np.where(seen, w, 1.0)
        scaled = [
            w[t] * chain.emission[n, t] if seen[t] and w[t] > 0 else np.zeros(2) for t in range(length)
        ]
        start = latent[0] * chain.initial
        links = np.array([latent[t] * latent[t + 1] * chain.transition for t in range(length - 1)])
        links = links.reshape(length - 1, 2, 2)
        unary = np.array(scaled)
        unary[0] += start
        total += enumeration.log_partition(unary, links)
        if getattr(scheme, "normalised", False):
            free = np.zeros((length, 2))
            free[0] += start
            total -= enumeration.log_partition(free, links)
    return total


@pytest.mark.parametrize("kernel", ["scan", "tree"])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@given(seed=seeds, impossible=st.booleans())
@settings(max_examples=25, deadline=None)
def test_weights_of_any_kind_and_missing_data_match_enumeration(kernel, scheme, seed, impossible):
    rng = np.random.default_rng(seed)
    lengths = np.array([5, 3])
    observed = (rng.random((2, 5)) < 0.7) & (np.arange(5) < lengths[:, None])
    weights = rng.choice([0.0, 0.3, 1.0, 1.7], size=8)
    emission = rng.normal(size=(2, 5, 2)) * 3
    if impossible:
        emission[0, 1, 0] = emission[1, 2, 1] = -np.inf
    chain = Chain(np.log([0.3, 0.7]), np.log([[0.6, 0.4], [0.1, 0.9]]), emission)
    places = np.array([[0, 1, 2, 3, 4], [5, 6, 7, 0, 0]])
    with jax.enable_x64(True):
        layout = ChainLayout(
            *map(jnp.asarray, (observed, lengths, places, np.array([0, 1, 2, 3, 4, 5, 6, 7])))
        )
        ours = engine(scheme, kernel, chain, jnp.asarray(weights), layout)
    expected = enumerated(scheme, chain, weights, observed, lengths)
    assert float(ours) == pytest.approx(expected, rel=1e-11, abs=1e-11)


def value(fit, scheme, weights):
    return fo.curvature(fit, scheme).objective(fit.theta, weights)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_all_weights_one_is_the_full_objective(fit, scheme):
    assert value(fit, scheme, np.ones(60)) == pytest.approx(fit.value, rel=1e-14)


def test_a_at_weight_zero_is_a_missing_observation(fit):
    missing = DATA.copy()
    missing[[3, 30, 31]] = np.nan
    there = fo.fit_at(MODEL, missing, fit.params)
    weights = np.where(np.isnan(missing), 0.0, 1.0)
    assert value(fit, "A", weights) == pytest.approx(there.value, rel=1e-13)


@pytest.mark.parametrize("scheme", SCHEMES[1:], ids=str)
def test_b_at_weight_zero_cuts_the_chain(fit, scheme):
    """What is left are two chains; the second one has no initial distribution."""
    weights = np.ones(60)
    weights[20:25] = 0.0
    emission = -0.5 * (DATA[:, None] - fit.params["mean"][:, 0]) ** 2 - 0.5 * np.log(2 * np.pi)
    initial, moves = np.log(fit.params["initial"]), np.log(fit.params["transition"])

    def forward(first, rows):
        state = first + rows[0]
        for row in rows[1:]:
            state = np.logaddexp.reduce(state[:, None] + moves, axis=0) + row
        return np.logaddexp.reduce(state)

    left_out = 5 * np.log(2)  # five free states, summed over with factor one
    expected = forward(initial, emission[:20]) + forward(np.zeros(2), emission[25:]) + left_out
    if scheme.normalised:
        expected -= left_out + np.log(2)  # the second chain's flat start sums to two
    with jax.enable_x64(True):
        prior = float(
            MODEL.log_prior_at(
                {k: jnp.asarray(v) for k, v in fit.params.items()}, fit.objective.prepared
            )
        )
    assert value(fit, scheme, weights) == pytest.approx(-expected - prior, rel=1e-12)


def test_missing_observations_keep_their_latent_state_under_b(fit):
    missing = DATA.copy()
    missing[10:15] = np.nan
    there = fo.fit_at(MODEL, missing, fit.params)
    assert value(there, "B", there.objective.base) == pytest.approx(there.value, rel=1e-14)


def test_a_and_b_have_the_same_exact_refit_for_leave_future_out(fit):
    """The paper's proposition."""
    weights = fo.folds.future(60, start=[40, 50]).weights
    ends = [solve("exact", fo.curvature(fit, scheme), weights).thetas for scheme in SCHEMES[:3]]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-9)
    np.testing.assert_allclose(ends[0], ends[2], atol=1e-9)
    assert np.abs(ends[0] - fit.theta).max() > 1e-2


def test_a_and_b_have_different_refits_inside_the_chain(fit):
    weights = fo.folds.sites([range(25, 35)], 60).weights
    a, b = (solve("exact", fo.curvature(fit, scheme), weights).thetas for scheme in ("A", "B"))
    assert np.abs(a - b).max() > 1e-3


@pytest.mark.slow
def test_paths_of_b_have_the_same_exact_refit(fit):
    weights = fo.folds.sites([range(25, 35), [0, 5, 59]], 60).weights
    ends = [solve("exact", fo.curvature(fit, scheme), weights).thetas for scheme in SCHEMES[1:]]
    for other in ends[1:]:
        np.testing.assert_allclose(ends[0], other, atol=1e-8)


def test_unknown_scheme(fit):
    with pytest.raises(ValueError, match=r"scheme must be one of \['A', 'B', 'C', 'structures'\]"):
        fo.curvature(fit, "Z")
    with pytest.raises(ValueError, match=r"or a scheme such as B\(\), got 3"):
        fo.curvature(fit, 3)


def test_scheme_and_folds_must_leave_out_the_same_kind(fit):
    with pytest.raises(ValueError, match="leaves out sequences, but the folds leave out sites"):
        fo.cross_validate(fit, fo.folds.kfold(60, 3), scheme="structures")
