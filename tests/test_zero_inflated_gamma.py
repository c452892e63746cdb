"""Positive numbers with exact zeros, such as the lengths of the steps of animals that rest."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import enumeration
import fitonce as fo
from commanding import run

M = fo.models
WITH_ZEROS = "zero-inflated-gamma"
TRACKS = f"step={WITH_ZEROS},turn=von-mises"
# Of moveHMM: a state has the mean and the standard deviation of its steps, and a mass of zeros.
MEAN, SD, MASS = np.array([0.3, 2.0]), np.array([0.2, 1.1]), np.array([0.35, 0.02])
ANGLE, CONCENTRATION = np.array([np.pi, 0.0]), np.array([0.6, 3.0])
MOVES, FIRST = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([0.4, 0.6])


def track(steps, seed=0):
    """A table of steps and turns; where a step is zero it has no turn."""
    rng = np.random.default_rng(seed)
    z = np.zeros(steps, int)
    for t in range(1, steps):
        z[t] = rng.random() < MOVES[z[t - 1], 1]
    step = rng.gamma((MEAN / SD)[z] ** 2, (SD**2 / MEAN)[z]) * (rng.random(steps) >= MASS[z])
    turn = np.where(step == 0, np.nan, rng.vonmises(ANGLE[z], CONCENTRATION[z]))
    return pd.DataFrame({"step": step, "turn": turn})


def as_in_movehmm(table):
    """(T, K) log densities, by the formula in the paper of moveHMM: zeros have the mass, steps that are
    not zero the gamma density times what is left, and turns that are missing no part."""
    step, turn = (table[name].to_numpy()[:, None] for name in ("step", "turn"))
    found = np.broadcast_to(np.log(MASS), (len(table), 2)).copy()
    usual = stats.gamma.logpdf(step, MEAN**2 / SD**2, scale=SD**2 / MEAN)
    found = np.where(step > 0, np.log(1 - MASS) + usual, found)
    of_turns = stats.vonmises.logpdf(turn, CONCENTRATION, ANGLE)
    return found + np.where(np.isnan(turn), 0.0, of_turns)


PARAMS = {
    "initial": FIRST, "transition": MOVES, "step.mean": MEAN[:, None],
    "step.shape": (MEAN**2 / SD**2)[:, None], "step.zeros": MASS[:, None],
    "turn.mean": ANGLE[:, None], "turn.concentration": CONCENTRATION[:, None],
}  # fmt: skip


def of_tracks(states=2):
    return M.HMM(states, M.Product({"step": WITH_ZEROS, "turn": "von-mises"}))


def test_the_likelihood_of_a_track_is_that_of_movehmm_by_enumeration():
    """2^10 paths; some steps are zero, and one of the two columns is missing there."""
    table = track(10, seed=5)
    assert 0 < (table["step"] == 0).sum() < 10
    unary = as_in_movehmm(table)
    unary[0] += np.log(FIRST)
    fit = fo.fit_at(of_tracks(), table, PARAMS)
    assert fit.log_likelihood == pytest.approx(
        enumeration.log_partition(unary, np.log(MOVES)), rel=1e-11
    )
    np.testing.assert_allclose(
        fo.marginals(fit)[0], enumeration.marginals(unary, np.log(MOVES)), rtol=1e-9, atol=1e-12
    )


def test_tracks_give_back_what_made_them():
    fit = fo.fit(of_tracks(), track(4000), restarts=2, optima=0).ordered("step.mean")
    assert fit.ok
    table = fit.to_dataframe().set_index("name")
    for name in ("step.mean", "step.shape", "step.zeros", "turn.concentration"):
        for state in (0, 1):
            row = table.loc[f"{name}[{state},0]"]
            assert abs(row["value"] - PARAMS[name][state, 0]) < 4 * row["se"], name


def test_held_out_zeros_and_steps_by_hand():
    """With one state, zeros and positive numbers are learned apart: the share of zeros is that of its
    Beta prior's mode, and the gamma is that of a plain fit to positive numbers."""
    rng = np.random.default_rng(1)
    x = rng.gamma(3.0, 2.0, 40)
    x[rng.random(40) < 0.3] = 0.0
    zero, n = x == 0, len(x)
    found = fo.cross_validate(fo.fit(M.HMM(1, WITH_ZEROS), x), fo.folds.points(x), method="exact")
    plain = x[~zero]
    of_gamma = fo.cross_validate(
        fo.fit(M.HMM(1, "gamma"), plain), fo.folds.points(plain), method="exact"
    )
    share = (zero.sum() - zero + 0.1) / (n - 1 + 0.2)
    expected = -np.log(share)
    expected[~zero] = -np.log1p(-share[~zero]) + of_gamma.folds["loss"]
    np.testing.assert_allclose(found.folds["loss"], expected, rtol=1e-7)


def test_a_state_without_zeros_has_the_mode_of_its_prior_and_the_print_names_it():
    x = np.random.default_rng(2).gamma(3.0, 2.0, 60)
    fit = fo.fit(M.HMM(1, WITH_ZEROS), x)
    assert fit.ok
    assert fit.params["zeros"].item() == pytest.approx(0.1 / 60.2, rel=1e-6)
    assert "mean flat; shape Gamma(2, 0.01); zeros Beta(1.1, 1.1)" in str(fit)
    assert fit.params["mean"].item() == pytest.approx(fo.fit(M.HMM(1, "gamma"), x).params["mean"].item())
    assert np.isfinite(fit.to_dataframe()["se"]).all()


def test_with_a_flat_prior_a_state_without_zeros_has_none():
    x = np.random.default_rng(2).gamma(3.0, 2.0, 60)
    fit = fo.fit(M.HMM(1, M.ZeroInflatedGamma(zeros_prior=(1, 1))), x)
    assert fit.ok
    assert "at the limit of its values: 'zeros[0,0]'" in str(fit)
    plain = fo.fit(M.HMM(1, M.Gamma()), x)
    assert fit.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-9)


def test_states_that_differ_in_their_zeros_only_are_found():
    """The gamma of positive numbers is the same in both."""
    rng = np.random.default_rng(3)
    z = np.arange(3000) // 60 % 2
    x = (rng.random(3000) >= np.where(z == 1, 0.7, 0.1)) * rng.gamma(3.0, 2.0, 3000)
    fit = fo.fit(M.HMM(2, WITH_ZEROS), x).ordered("zeros")
    np.testing.assert_allclose(fit.params["zeros"].ravel(), [0.1, 0.7], atol=0.05)
    assert ((fit.decode()[0] == z).mean()) > 0.95


def test_draws_and_forecasts_have_zeros(tmp_path):
    fit = fo.fit_at(of_tracks(), track(60), PARAMS)
    drawn = fit.sample(20_000, seed=0)
    zero, states = drawn.values[:, 0] == 0, drawn.states  # noqa: PD011 - not of pandas
    for state in (0, 1):
        in_state = states == state
        error = np.sqrt(MASS[state] * (1 - MASS[state]) / in_state.sum())
        assert abs(zero[in_state].mean() - MASS[state]) < 5 * error
    fit.save(tmp_path / "fit.json")
    found = fo.load(tmp_path / "fit.json")
    assert repr(found) == repr(fit)
    assert found.model == of_tracks()
    ahead = found.forecast(3, n=4000)
    expected = ahead.state_probabilities @ (MEAN * (1 - MASS))
    np.testing.assert_allclose(ahead.mean[:, 0], expected, rtol=1e-10)
    assert (ahead.samples[..., 0] == 0).any()


def test_maps_of_amounts_with_zeros():
    rng = np.random.default_rng(4)
    x = rng.gamma(2.0, np.where(np.arange(36) < 18, 1.0, 8.0)) * (rng.random(36) > 0.2)
    grid = [(6 * i + j, 6 * i + j + 1) for i in range(6) for j in range(5)]
    grid += [(6 * i + j, 6 * i + j + 6) for i in range(5) for j in range(6)]
    fit = fo.fit(M.PottsMixture(grid, 2, WITH_ZEROS, beta=0.5), x)
    assert fit.ok
    assert fit.params["zeros"].shape == (2,)
    refit = fo.cross_validate(fit, fo.folds.points(x), method="exact", optima=0).folds["loss"]
    np.testing.assert_allclose(fo.loo(fit).folds["loss"].mean(), refit.mean(), atol=0.02)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    track(150).to_csv("track.csv", index=False)
    return ["track.csv", "--model", "hmm"]


QUICK = ["--restarts", "1", "--optima", "0", "--no-cache"]


def test_commands_take_tracks_with_zeros(file):
    done = run("fit", *file, "--emission", TRACKS, *QUICK, "--save", "fit.json")
    assert done.exit_code == 0, done.output
    assert "step.zeros Beta(1.1, 1.1)" in done.stdout
    done = run("sample", "fit.json", "-n", 200, "--save", "drawn.csv")
    assert done.exit_code == 0, done.output
    table = pd.read_csv("drawn.csv")
    assert (table["step"] == 0).any()
    assert list(table["number"]) == list(range(1, 201))
    words = ["--emission", TRACKS, "--folds", "kfold", "--k", "5", "--method", "onestep", "--json"]
    done = run("cv", *file, *words, *QUICK)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["failed"] == 0


def test_the_command_refuses_zeros_with_what_to_type(file):
    done = run("fit", *file, "--emission", "step=gamma,turn=von-mises", *QUICK)
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert "step: a gamma emission needs positive numbers, got 0; the emission" in said
    assert f"(--emission step={WITH_ZEROS}, --model {WITH_ZEROS}-hmm)" in said


def test_the_model_is_described_with_an_example_that_has_zeros(tmp_path):
    done = run("models", f"{WITH_ZEROS}-hmm", "--example", tmp_path)
    assert done.exit_code == 0, done.output
    assert "zeros" in done.stdout
    assert (pd.read_csv(tmp_path / "rain.csv")["rain"] == 0).any()
