"""Schemes at the ends of their paths, and the paper's proposition."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from fitonce import weighting
from fitonce.methods import METHODS

MODEL = fo.models.GaussianHMM(2, covariance="fixed", mean_scale=2.0)
DATA = np.random.default_rng(0).normal(np.repeat([-1.0, 1.0, -1.0], 20), 1.0)
SCHEMES = [
    weighting.A(),
    weighting.B(),
    weighting.B(normalised=True),
    weighting.B(per_transition=True),
    weighting.B(normalised=True, per_transition=True),
]


@pytest.fixture(scope="module")
def fit():
    return fo.fit(MODEL, DATA)


def value(fit, scheme, weights):
    return fo.curvature(fit, scheme).objective.value(fit.theta, weights)


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
        prior = float(MODEL.log_prior({k: jnp.asarray(v) for k, v in fit.params.items()}))
    assert value(fit, scheme, weights) == pytest.approx(-expected - prior, rel=1e-12)


def test_missing_observations_keep_their_latent_state_under_b(fit):
    missing = DATA.copy()
    missing[10:15] = np.nan
    there = fo.fit_at(MODEL, missing, fit.params)
    assert value(there, "B", there.problem.base) == pytest.approx(there.value, rel=1e-14)


def test_a_and_b_have_the_same_exact_refit_for_leave_future_out(fit):
    """The paper's proposition."""
    weights = fo.folds.future(60, start=[40, 50]).weights
    ends = [METHODS["exact"](fo.curvature(fit, scheme), weights).thetas for scheme in SCHEMES[:3]]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-9)
    np.testing.assert_allclose(ends[0], ends[2], atol=1e-9)
    assert np.abs(ends[0] - fit.theta).max() > 1e-2


def test_a_and_b_have_different_refits_inside_the_chain(fit):
    weights = fo.folds.sites([range(25, 35)], 60).weights
    a, b = (METHODS["exact"](fo.curvature(fit, scheme), weights).thetas for scheme in ("A", "B"))
    assert np.abs(a - b).max() > 1e-3


def test_paths_of_b_have_the_same_exact_refit(fit):
    weights = fo.folds.sites([range(25, 35), [0, 5, 59]], 60).weights
    ends = [METHODS["exact"](fo.curvature(fit, scheme), weights).thetas for scheme in SCHEMES[1:]]
    for other in ends[1:]:
        np.testing.assert_allclose(ends[0], other, atol=1e-8)


def test_unknown_scheme(fit):
    with pytest.raises(ValueError, match=r"scheme must be one of \['A', 'B', 'structures'\]"):
        fo.curvature(fit, "Z")
    with pytest.raises(ValueError, match="or a scheme, got 3"):
        fo.curvature(fit, 3)


def test_scheme_and_folds_must_leave_out_the_same_kind(fit):
    with pytest.raises(ValueError, match="leaves out sequences, but the folds leave out sites"):
        fo.cross_validate(fit, fo.folds.kfold(60, 3), scheme="structures")
