"""Unknown first states: what can be compared, and folds that do not determine them."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

import fitonce as fo
from fitonce.analysis.choosing import criteria

NILE = sm.datasets.nile.load_pandas().data["volume"].to_numpy(float)
LEVELS = {"local": fo.models.Structural(), "trend": fo.models.Structural("trend")}


@pytest.fixture(scope="module")
def chosen():
    models = {**LEVELS, "seasons": fo.models.Structural(seasonal=4), "states": fo.models.GaussianHMM(2)}
    return fo.select(models, NILE[:60], method="none", restarts=1)


def test_aic_and_bic_are_of_the_same_steps_in_every_model(chosen):
    """After their diffuse steps, the likelihoods of statsmodels are of one step given those before."""
    peers = {
        "local": ("local level", {}, ("noise", "level")),
        "trend": ("local linear trend", {}, ("noise", "level", "slope")),
        "seasons": ("local level", {"seasonal": 4}, ("noise", "level", "seasonal")),
    }
    assert chosen.given == 4
    for name, (level, options, order) in peers.items():
        params = chosen.results[name].fit.params
        peer = sm.tsa.UnobservedComponents(NILE[:60], level, use_exact_diffuse=True, **options)
        after = peer.loglikeobs([float(params[key]) for key in order])[4:].sum()
        row = chosen.table.loc[name]
        assert row["aic"] == pytest.approx(2 * len(order) - 2 * after, rel=1e-8)
        assert row["bic"] == pytest.approx(np.log(56) * len(order) - 2 * after, rel=1e-8)


def test_a_model_whose_start_is_known_is_given_the_same_steps(chosen):
    fit = chosen.results["states"].fit
    first = fo.fit_at(fit.model, NILE[:4], fit.params)
    after = fit.log_likelihood - first.log_likelihood
    aic = chosen.table.loc["states", "aic"]
    assert aic == pytest.approx(2 * len(fit.theta) - 2 * after, rel=1e-8)


def test_the_sentence_says_which_steps(chosen):
    assert "(of what follows the first 4 observed steps, which all models are given)" in chosen.sentence


def test_models_with_known_starts_are_given_nothing():
    models = {str(k): fo.models.GaussianHMM(k) for k in (1, 2)}
    found = fo.select(models, NILE[:40], method="none", restarts=1)
    assert found.given == 0
    fit = found.results["1"].fit
    assert found.table.loc["1", "aic"] == pytest.approx(2 * len(fit.theta) - 2 * fit.log_likelihood)


def test_series_are_given_their_own_first_steps():
    """Units of the first states cancel: a series with a gap, and one in which seasons begin later."""
    rng = np.random.default_rng(0)
    series = [np.cumsum(rng.normal(size=30)), np.cumsum(rng.normal(size=20))]
    series[1][1:3] = np.nan
    found = fo.select(LEVELS, series, method="none", restarts=1)
    fit = found.results["trend"].fit
    assert found.given == 2
    begun = [series[0][:2], series[1][:4]]
    first = sum(fo.fit_at(fit.model, one, fit.params).log_likelihood for one in begun)
    aic = 2 * len(fit.theta) - 2 * (fit.log_likelihood - first)
    assert found.table.loc["trend", "aic"] == pytest.approx(aic, rel=1e-8)


def test_data_that_only_determine_first_states_have_no_criteria():
    y = np.random.default_rng(1).normal(size=6)
    local = fo.fit_at(fo.models.Structural(), y, {"noise": 1.0, "level": 1.0})
    seasons = fo.models.Structural("fixed", seasonal=6)
    found = criteria({"local": local, "seasons": fo.fit_at(seasons, y, {"noise": 1.0, "seasonal": 1.0})})
    assert found.given == 6
    assert np.isnan(found.rows["local"]["aic"])
    assert np.isnan(found.rows["seasons"]["bic"])


@pytest.fixture(scope="module")
def whole():
    """Left-out sequences."""
    rng = np.random.default_rng(2)
    series = [np.cumsum(rng.normal(size=20)) for _ in range(6)]
    models = {**LEVELS, "drift": fo.models.Structural("drift")}
    fits = {name: fo.fit(model, series, restarts=1) for name, model in models.items()}
    folds = fo.folds.structures(fits["local"].data)
    return {name: fo.cross_validate(fit, folds, method="none") for name, fit in fits.items()}


def test_whole_sequences_are_compared_only_with_the_same_unknown_states(whole, tmp_path):
    words = "same first states are unknown, got 'level' and 'level, slope'; leave out blocks or points"
    with pytest.raises(ValueError, match=words):
        fo.compare({name: whole[name] for name in ("local", "trend")})
    kept = [fo.load(whole[name].save(tmp_path / f"{name}.json")) for name in ("local", "trend")]
    with pytest.raises(ValueError, match=words):
        fo.compare(kept)
    assert len(fo.compare({name: whole[name] for name in ("trend", "drift")}).table) == 2


def test_blocks_are_compared_whatever_is_unknown():
    folds = fo.folds.kfold(fo.sequences(NILE[:60]), 10)
    results = {name: fo.cross_validate(fo.fit(model, NILE[:60], restarts=1), folds, method="none")
               for name, model in LEVELS.items()}  # fmt: skip
    assert np.isfinite(fo.compare(results).table["nats"]).all()


def test_seasons_of_other_periods_are_other_states():
    two = [fo.models.Structural(seasonal=period, harmonics=1).unknown_starts for period in (4, 12.5)]
    assert two[0] == ("level", "seasons of 4 steps by 1 harmonic")
    assert two[1] == ("level", "seasons of 12.5 steps by 1 harmonic")


@pytest.mark.parametrize("method", ["auto", "exact", "newton", "onestep", "ij", "none"])
def test_a_fold_that_does_not_determine_the_first_state_says_so(method):
    """Warnings are errors here: nothing is said of what is not finite."""
    rng = np.random.default_rng(0)
    data = fo.sequences(np.cumsum(rng.normal(size=30)) + rng.normal(size=30))
    folds = fo.folds.sites([np.arange(29), np.arange(10, 14)], data)
    cv = fo.cross_validate(fo.fit(fo.models.Structural("trend"), data, restarts=2), folds, method=method)
    assert cv.folds["ok"].tolist() == [False, True]
    said = "the data that this fold keeps do not determine the first state"
    assert cv.folds["status"][0] == said
    assert np.isfinite(cv.estimate)
    assert f"fold 0: {said}" in str(cv)


def test_a_damped_cycle_has_an_optimum_where_there_is_none_in_the_data():
    """From a diffuse start the likelihood has no bound as the damping, or a wave of two steps, goes."""
    y = np.cumsum(np.random.default_rng(1).normal(size=80))
    fit = fo.fit(fo.models.Structural(cycle=True), y, restarts=3, optima=0)
    assert fit.ok, fit.status
    assert fit.value < fo.fit(fo.models.Structural(), y, restarts=2).value + 1e-9
    gone = fo.fit_at(fit.model, y, fit.params | {"damping": 1e-9})
    assert gone.log_likelihood < fit.log_likelihood


# Passengers of airlines by months (Box and Jenkins 1976).
PASSENGERS = [
    112, 118, 132, 129, 121, 135, 148, 148, 136, 119, 104, 118, 115, 126, 141, 135, 125, 149, 170,
    170, 158, 133, 114, 140, 145, 150, 178, 163, 172, 178, 199, 199, 184, 162, 146, 166, 171, 180,
    193, 181, 183, 218, 230, 242, 209, 191, 172, 194, 196, 196, 236, 235, 229, 243, 264, 272, 237,
    211, 180, 201, 204, 188, 235, 227, 234, 264, 302, 293, 259, 229, 203, 229, 242, 233, 267, 269,
    270, 315, 364, 347, 312, 274, 237, 278, 284, 277, 317, 313, 318, 374, 413, 405, 355, 306, 271,
    306, 315, 301, 356, 348, 355, 422, 465, 467, 404, 347, 305, 336, 340, 318, 362, 348, 363, 435,
    491, 505, 404, 359, 310, 337, 360, 342, 406, 396, 420, 472, 548, 559, 463, 407, 362, 405, 417,
    391, 419, 461, 472, 535, 622, 606, 508, 461, 390, 432,
]  # fmt: skip


def test_a_trend_is_never_worse_than_one_whose_level_or_slope_is_still():
    """Where level and slope may both move, each has an optimum of its own."""
    values = {
        level: fo.fit(
            fo.models.Structural(level, seasonal=12), np.array(PASSENGERS, float), restarts=3, optima=0
        ).value
        for level in ("trend", "smooth trend", "drift")
    }
    assert values["smooth trend"] == pytest.approx(580.904, abs=1e-3)  # the slope moves
    assert values["drift"] == pytest.approx(582.960, abs=1e-3)
    assert values["trend"] == pytest.approx(580.904, abs=1e-3)


def _level_and_memory(transition=None, **changed):
    """A random walk, about whose start nothing is known, and a stationary autoregression."""

    def build(params):
        ar, drive = params["ar"][0], params["drive"]
        moving = np.diag(np.stack([1.0 + 0.0 * ar, ar]))
        return {
            "design": np.array([[1.0, 1.0]]),
            "transition": moving if transition is None else moving + np.array(transition),
            "state_cov": np.diag(np.stack([params["level"], drive])),
            "diffuse": [True, False],
            "initial_state_cov": "stationary",
        } | changed

    init = {"level": 0.2, "ar": [0.7], "drive": 0.9}
    kinds = {"level": "variance", "ar": "stationary", "drive": "variance"}
    return fo.models.StateSpace(build, init, kinds)


def test_states_beside_diffuse_ones_may_be_stationary():
    y = NILE[:60] / 100.0
    model = _level_and_memory()
    fit = fo.fit_at(model, y, model.init)
    peer = sm.tsa.UnobservedComponents(y, "rwalk", autoregressive=1, use_exact_diffuse=True)
    assert fit.log_likelihood == pytest.approx(peer.loglike([0.2, 0.9, 0.7]), rel=1e-10)
    best = fo.fit(model, y, restarts=1, optima=0)
    assert best.ok
    assert best.log_likelihood == pytest.approx(peer.fit(disp=0).llf, abs=1e-5)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (_level_and_memory(diffuse=[False, False]), "below 1 in size at init, got 1. Mark states"),
        (_level_and_memory([[0, 0], [0.5, 0]]), "no diffuse one moves, got state 1 with a transition"),
    ],
)
def test_what_is_not_stationary_beside_diffuse_states_is_refused(model, said):
    with pytest.raises(ValueError, match=said):
        fo.fit_at(model, NILE[:60], model.init)
