"""Points that are all there is of a hidden state, left out: their losses, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

import fitonce as fo

ALONE = 40


def _fit(outlier):
    """The third state has one point, far from all others: without it, its mean could be anywhere."""
    rng = np.random.default_rng(3)
    x = rng.normal(np.tile(np.repeat([0.0, 4.0], 15), 3))
    x[ALONE] = outlier
    params = {
        "initial": np.array([0.6, 0.3, 0.1]),
        "transition": np.array([[0.9, 0.08, 0.02], [0.08, 0.9, 0.02], [0.3, 0.6, 0.1]]),
        "mean": np.array([[0.0], [4.0], [outlier]]),
        "variance": np.array([[1.0], [1.0], [0.01]]),
    }
    model = fo.models.GaussianHMM(3, strength=1e-3)
    return fo.fit_at(model, x, fo.fit(model, x, init=params, restarts=1).params)


@pytest.fixture(scope="module")
def fit():
    return _fit(25.0)


@pytest.fixture(scope="module")
def loo(fit):
    return fo.loo(fit)


def _loss_under(fit, states):
    """-log p(x_t, z_t in states given all others), by a forward pass of its own."""
    x, p = np.asarray(fit.data.values).ravel(), fit.params

    def log_likelihood(at):
        logs = -0.5 * (x[:, None] - p["mean"][:, 0]) ** 2 / p["variance"][:, 0]
        logs -= 0.5 * np.log(2 * np.pi * p["variance"][:, 0])
        logs[ALONE] = at(logs[ALONE])
        ahead = np.log(p["initial"]) + logs[0]
        for t in range(1, len(x)):
            ahead = logsumexp(ahead[:, None] + np.log(p["transition"]), 0) + logs[t]
        return logsumexp(ahead)

    kept = np.where(np.isin(np.arange(3), states), 0.0, -np.inf)
    return log_likelihood(np.zeros_like) - log_likelihood(lambda own: own + kept)


def test_the_loss_of_a_lost_state_s_point_is_that_under_the_other_states(fit, loo):
    fold = loo.folds.loc[ALONE]
    assert not fold["ok"]
    assert fold["control"] == pytest.approx(_loss_under(fit, [0, 1, 2]), rel=1e-9)
    assert fold["loss"] == pytest.approx(_loss_under(fit, [0, 1]), rel=1e-9)
    assert fold["loss"] > 100
    assert "state 2 rests on this point alone" in fold["status"]


def test_a_point_that_the_other_states_exclude_has_no_loss_instead_of_a_calm_one():
    loo = fo.loo(_fit(60.0))
    assert np.isnan(loo.folds.loc[ALONE, "loss"])
    assert "state 2 rests on this point alone, its density is zero" in loo.folds.loc[ALONE, "status"]
    assert loo.folds["loss"].notna().sum() == 89


def test_the_estimate_with_folds_left_out_is_said_with_their_losses(loo):
    ok = loo.folds["ok"]
    assert loo.estimate == pytest.approx(loo.folds.loc[ok, "loss"].mean())
    whole = loo.folds["loss"].mean()
    assert f"left out (estimate with what is known of their losses: {whole:.4f}, " in loo.treatment
    assert f"fold {ALONE}: not a minimum" in str(loo)
    assert f"; loss {loo.folds.loc[ALONE, 'loss']:.4g}\n" in str(loo)
    assert "estimated loss error" not in str(loo)


def test_losses_that_hardly_change_the_estimate_or_are_none_are_not_said(loo):
    folds = loo.folds.copy()
    for loss in (loo.estimate, np.nan):
        folds.loc[ALONE, "loss"] = loss
        assert replace(loo, folds=folds).treatment == "1 of 90 folds without a usable number, left out"


def test_a_fit_without_other_starts_says_what_was_not_looked_for(loo, tmp_path):
    said = "nor better ones of the fit, which had no other starts: fo.fit(fit.model, fit.data)"
    assert said in loo.about_optima
    loo.save(tmp_path / "loo.json")
    assert fo.load(tmp_path / "loo.json").about_optima == loo.about_optima


def test_points_that_carry_much_of_the_loss_are_named(loo):
    assert "  points  " not in str(loo)
    folds = loo.folds.copy()
    folds["ok"] = True
    share = 100 * folds["loss"][ALONE] / folds["loss"].abs().sum()
    text = str(replace(loo, folds=folds))
    assert f"  points    largest losses: time {ALONE} (" in text
    assert f"; the first is {share:.0f} % of the loss" in text


def test_where_all_folds_moved_the_change_is_against_staying(loo):
    folds = loo.folds.assign(optimum=1, shift=-0.5)
    moved = replace(loo, folds=folds, optima_search="searched").about_optima
    assert "90 of 90 folds moved, estimate -0.5000 against staying with the fit's, included" in moved
