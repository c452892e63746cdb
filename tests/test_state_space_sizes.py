"""State-space models that are too large for their data, and own ones whose names do not match."""

from __future__ import annotations

import numpy as np
import pytest

import fitonce as fo
from fitonce.objectives.space.objective import SpaceObjective

Y = np.random.default_rng(0).normal(size=40)
M = fo.models


@pytest.mark.parametrize(
    ("model", "steps", "words"),
    [
        (M.Structural("trend"), 4, "3 parameters and 2 unknown first states, .* 5 observed .* got 4"),
        (M.Structural(ar=19), 20, "22 parameters, which need at least 22 observed values, got 20"),
        (M.Structural(seasonal=12), 14, "3 parameters and 12 unknown first states, .* 15 .* got 14"),
        (M.Structural(observations="poisson"), 1, "1 parameter and 1 unknown first state, .* got 1"),
        (M.SARIMAX((1, 1, 1)), 3, "3 parameters and 1 unknown first state, .* 4 .* got 3"),
        (M.Structural(ar=2000), 40, "2,000 lags in 'ar', which must be fewer than .*, 40"),
        (M.Structural(seasonal=500), 40, "500 unknown first states, .* 503 .* got 40"),
    ],
    ids=str,
)
def test_more_unknowns_than_values_are_refused_before_a_filter_runs(model, steps, words, monkeypatch):
    monkeypatch.setattr(SpaceObjective, "_passes", None)  # with 2,000 states it takes minutes
    with pytest.raises(ValueError, match=words):
        fo.fit(model, np.abs(np.round(Y[:steps] * 5)) if model.density is not None else Y[:steps])


def test_each_sequence_has_unknown_first_states():
    model = M.Structural("trend")
    with pytest.raises(ValueError, match=r"3 parameters and 4 unknown first states, .* 7 .*, got 6"):
        fo.fit(model, [Y[:3], Y[3:6]])
    assert np.isfinite(fo.fit(model, [Y[:4], Y[4:8]], restarts=1, optima=0).value)


def test_channels_count_and_missing_values_do_not():
    few = np.random.default_rng(1).normal(size=(4, 5))
    few[0] = np.nan
    with pytest.raises(ValueError, match=r"DynamicFactor\(1\) has 16 parameters, .* 16 .*, got 15"):
        fo.fit(M.DynamicFactor(1), few)


def test_data_that_are_too_short_to_fit_have_a_likelihood():
    fit = fo.fit_at(M.SARIMAX((3, 0, 0)), Y, {"ar": [0.1, 0.1, 0.1], "sigma2": 1.0})
    assert np.isfinite(fit.log_likelihood_of(Y[:2])).all()
    level = fo.fit_at(M.Structural("trend"), Y[:2], {"level": 1.0, "slope": 0.1, "noise": 1.0})
    assert np.isfinite(level.value)


def test_counts_that_are_all_zero_are_refused_for_what_they_are():
    with pytest.raises(ValueError, match=r"data must vary to be fitted by Structural.*got only zeros"):
        fo.fit(M.Structural(observations="poisson"), np.zeros(30))


def moving_level(params):
    return {
        "design": [[1.0]],
        "transition": [[1.0]],
        "state_cov": [[params["level"]]],
        "obs_cov": [[params["noise"]]],
    }


BOTH = {"level": "variance", "noise": "variance"}


def test_names_that_an_own_model_lacks_or_does_not_read_are_said():
    with pytest.raises(ValueError, match=r"build reads the parameter 'noise', which init must have"):
        fo.fit(M.StateSpace(moving_level, {"level": 1.0}), Y)
    init = {"level": 1.0, "noise": 1.0, "drift": 0.0}
    with pytest.raises(ValueError, match=r"init has the parameter 'drift', which build does not read"):
        fo.fit(M.StateSpace(moving_level, init, BOTH), Y)


@pytest.mark.parametrize(
    "read",
    [lambda p: dict(p), lambda p: {**p}, lambda p: p | {}, lambda p: {k: p.get(k) for k in p}],
    ids=["dict", "stars", "or", "get"],
)
def test_parameters_may_be_read_in_any_way(read):
    init = {"level": 1.0, "noise": 1.0}
    fit = fo.fit_at(M.StateSpace(lambda p: moving_level(read(p)), init, BOTH), Y, init)
    assert fit.value == pytest.approx(fo.fit_at(M.StateSpace(moving_level, init, BOTH), Y, init).value)


def test_errors_inside_build_are_its_own():
    def wrong(params):
        return moving_level(params) | {"obs_cov": [[{}["other"]]]}

    with pytest.raises(KeyError, match="other"):
        fo.fit(M.StateSpace(wrong, {"level": 1.0, "noise": 1.0}), Y)
