"""Hard cases of state-space models: large levels, matrices of wrong shapes, sequences far apart."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

import fitonce as fo
from fitonce.models.space.system import stationary_mean, stationary_spread
from fitonce.objectives.families import objective_of
from fitonce.objectives.space.coefficients import Coefficients

Y = np.cumsum(np.random.default_rng(1).normal(size=40)) + np.random.default_rng(2).normal(size=40)


@pytest.mark.parametrize("parts", [{}, {"level": "trend", "seasonal": 4}], ids=["level", "seasons"])
def test_a_level_that_is_large_beside_its_changes_costs_no_digits(parts):
    model = fo.models.Structural(**parts)
    values = dict.fromkeys(objective_of(model, Y).space.values(np.zeros((1, len(parts) + 2))), 0.5)
    near, far = (fo.fit_at(model, Y + offset, values) for offset in (0.0, 2.0**30))
    np.testing.assert_allclose(far.log_likelihood, near.log_likelihood, rtol=1e-7)
    slopes = [one.objective.gradients(one.theta[None], one.objective.base[None]) for one in (near, far)]
    np.testing.assert_allclose(slopes[1], slopes[0], atol=1e-5)


@pytest.mark.parametrize("size", [1e-4, 0.01, 0.1])
def test_what_comes_before_all_kept_data_is_as_exact_beside_large_steps(size):
    """A straight line with noise is a regression, whose predictions are known."""
    time = np.arange(60.0)
    around = size * np.random.default_rng(0).normal(size=60)
    fit = fo.fit_at(
        fo.models.Structural("fixed trend"), 1000.0 + 5.0 * time + around, {"noise": size**2}
    )
    folds = fo.folds.sites([range(30), [0, 1, 2]], fit.data)
    losses = fo.cross_validate(fit, folds, method="none").folds["loss"]
    for fold, loss in enumerate(losses):
        left = folds.dropped[fold]
        mean, variance = _line(np.delete(np.arange(60), left), left, around, size)
        expected = np.log(2.0 * np.pi * variance) + (around[left] - mean) ** 2 / variance
        assert loss == pytest.approx(0.5 * expected.mean(), abs=1e-7)
    later = np.where(time < 20, np.nan, fit.data.values[0, :, 0])
    found = fo.fit_at(fit.model, later, fit.params).smoothed()
    wanted = np.array([10, 19])
    variance = _line(np.arange(20, 60), wanted, around, size)[1] - size**2
    np.testing.assert_allclose(found.sd[wanted, 0], np.sqrt(variance), rtol=1e-7)


def _line(kept, wanted, y, size):
    """Means and variances of observations at `wanted` steps by a regression on time at those kept."""
    columns = np.column_stack([np.ones(60), np.arange(60.0)])
    spread = np.linalg.inv(columns[kept].T @ columns[kept])
    mean = columns[wanted] @ spread @ (columns[kept].T @ y[kept])
    beyond = np.einsum("ti,ij,tj->t", columns[wanted], spread, columns[wanted])
    return mean, size**2 * (1.0 + beyond)


def test_folds_that_lose_a_coefficient_are_never_good():
    """Nothing but step 20 says how large its peak is."""
    peak = np.arange(40) == 20
    data = fo.sequences(Y + 20.0 * peak, covariates={"peak": peak * 1.0})
    fit = fo.fit(fo.models.Structural(exog="peak"), data, restarts=1)
    folds = fo.folds.sites([[20], range(18, 23), [3, 4]], data)
    for method in ("ij", "onestep", "auto", "exact"):
        cv = fo.cross_validate(fit, folds, method=method, optima=0)
        assert cv.folds["verdict"][:2].tolist() == ["bad", "bad"]
        assert cv.folds["ok"][:2].tolist() == [method in ("ij", "onestep")] * 2
        assert cv.folds["ok"][2]
        told = cv.folds["status"][0]
        assert ("determines some coefficient" in told) or ("flat or downhill along 'coeff" in told)
    found = fo.loo(fit, optima=0).folds
    assert found["verdict"][20] == "bad"
    assert not found["ok"][20]
    assert (found["verdict"].drop(20) == "good").mean() > 0.8


def test_lost_coefficients_are_those_whose_rows_depend_on_the_others():
    """Against ranks of all columns together: two sequences, each with a line of its own."""
    rng, steps = np.random.default_rng(3), np.arange(12.0)
    columns = np.zeros((24, 3))
    columns[:12, 0], columns[12:, 0] = steps >= 6, steps >= 3
    columns[5, 1], columns[14:17, 2] = 1.0, rng.normal(size=3)
    parts = [np.cumsum(rng.normal(size=12)) for _ in range(2)]
    data = fo.sequences(parts, covariates=np.split(columns, 2))
    names = ["u0", "u1", "u2"]
    layout = objective_of(fo.models.Structural("drift", exog=names), data).layout
    dropped = [np.flatnonzero(rng.random(24) < share) for share in (0.1, 0.3, 0.5) for _ in range(60)]
    dropped += [np.array([5]), np.arange(3, 9), np.arange(12, 24), np.array([14, 15, 16]), np.arange(6)]
    line = np.kron(np.eye(2), np.column_stack([np.ones(12), steps]))
    rank = np.linalg.matrix_rank
    kept = [np.setdiff1d(np.arange(24), fold) for fold in dropped]
    expected = [rank(np.hstack([line, columns])[k]) < rank(line[k]) + 3 for k in kept]
    assert 5 < sum(expected) < len(expected) - 5
    found = Coefficients(layout, np.zeros(layout.space.size)).lost(dropped)
    assert found.tolist() == expected


def test_a_wave_of_two_steps_has_one_state():
    fit = fo.fit_at(
        fo.models.Structural(seasonal=4, harmonics=2), Y, {"level": 1.0, "noise": 1.0, "seasonal": 0.0}
    )
    dummies = fo.fit_at(
        fo.models.Structural(seasonal=4), Y, {"level": 1.0, "noise": 1.0, "seasonal": 0.0}
    )
    # Fixed seasons are any three numbers in both; likelihoods differ by the unit of these.
    more = [one.objective.leave_one_out(one.theta)[0] for one in (fit, dummies)]
    np.testing.assert_allclose(more[0], more[1], atol=1e-8)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"transition": np.eye(3)}, r"'transition' must have the shape \(2, 2\)"),
        ({"obs_cov": np.eye(2)}, r"'obs_cov' must have the shape \(1, 1\)"),
        ({"state_intercept": np.zeros(1)}, r"'state_intercept' must have the shape \(2,\)"),
    ],
)
def test_matrices_of_other_shapes_are_refused_by_name(changed, message):
    def build(p):
        given = {"design": np.eye(2)[:1], "transition": np.eye(2), "obs_cov": p["noise"] * np.eye(1)}
        return given | {"state_cov": np.eye(2)} | changed

    model = fo.models.StateSpace(build, {"noise": 1.0}, constraints={"noise": "positive"})
    with pytest.raises(ValueError, match=message):
        fo.fit_at(model, Y, {"noise": 1.0})


def test_states_may_be_marked_as_diffuse():
    def build(p):
        given = {
            "design": np.ones((1, 1)),
            "transition": np.ones((1, 1)),
            "obs_cov": p["noise"] * np.eye(1),
        }
        return given | {"state_cov": np.eye(1), "diffuse": np.array([True])}

    model = fo.models.StateSpace(build, {"noise": 1.0}, constraints={"noise": "positive"})
    own = fo.fit_at(model, Y, {"noise": 2.0})
    level = fo.fit_at(fo.models.Structural(), Y, {"level": 1.0, "noise": 2.0})
    np.testing.assert_allclose(own.log_likelihood, level.log_likelihood, rtol=1e-10)


def test_builders_that_cannot_take_complex_parameters_are_refused_in_words():
    def build(p):
        size = float(p["noise"])
        return {"design": np.eye(1), "transition": np.eye(1), "state_cov": size * np.eye(1)}

    with pytest.raises(ValueError, match="analytic functions of NumPy only"):
        fo.fit(fo.models.StateSpace(build, {"noise": 1.0}, constraints={"noise": "positive"}), Y)


def test_matrices_that_change_with_time_are_not_read_beyond_their_end():
    def build(p):
        given = {"design": np.ones((len(Y), 1, 1)), "transition": np.eye(1), "state_cov": np.eye(1)}
        return given | {"obs_cov": p["noise"] * np.eye(1)}

    model = fo.models.StateSpace(build, {"noise": 1.0}, constraints={"noise": "variance"})
    fit = fo.fit_at(model, Y, {"noise": 2.0})
    with pytest.raises(ValueError, match="one entry for each of 45 steps, got 40"):
        fit.forecast(5)
    with pytest.raises(ValueError, match="one entry for each of 20 steps, got 40"):
        fit.score(Y[:20])


def test_models_of_other_channels_are_refused():
    peer = sm.tsa.VARMAX(np.column_stack([Y, Y[::-1]]), order=(1, 0))
    fit = fo.from_statsmodels(peer.smooth(peer.start_params))
    with pytest.raises(ValueError, match="must have the 2 channels of the fit's data, got 1 channel"):
        fit.score(Y)


def test_sequences_at_other_levels_have_the_unit_of_their_changes():
    model = fo.models.Structural()
    apart = objective_of(model, [Y + 1e6 * number for number in range(5)])
    np.testing.assert_array_equal(apart.steps.unit, objective_of(model, Y).steps.unit)


def test_stationary_variances_of_any_size_are_summed_to_their_end():
    moving, shaking = np.diag([0.0, 0.9])[..., None], np.diag([1e12, 1e-6])[..., None]
    found = stationary_spread(moving, shaking)[..., 0]
    np.testing.assert_allclose(np.diag(found), [1e12, 1e-6 / 0.19], rtol=1e-12)


def _level(p):
    given = {"design": np.eye(1), "transition": np.eye(1), "obs_cov": p["noise"] * np.eye(1)}
    return given | {"selection": np.sqrt(p["level"]) * np.eye(1), "state_cov": np.eye(1)}


@pytest.mark.parametrize("level", [1.0, 1e-5, 1e-9])
def test_functions_of_small_parameters_are_analytic_too(level):
    kinds = {"level": "positive", "noise": "variance"}
    model = fo.models.StateSpace(_level, {"level": level, "noise": 1.0}, constraints=kinds)
    at = {"level": level, "noise": 0.7}
    expected = fo.fit_at(fo.models.Structural(), Y, at).log_likelihood
    assert fo.fit_at(model, Y, at).log_likelihood == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("size", [1.0, 1e-9])
def test_functions_that_are_not_analytic_are_refused_at_any_size(size):
    def build(p):
        return _level({"level": 1.0, "noise": 1.0}) | {"obs_cov": np.abs(p["noise"]) * np.eye(1)}

    with pytest.raises(ValueError, match="the derivative of 'obs_cov' by 'noise' is lost"):
        fo.fit_at(fo.models.StateSpace(build, {"noise": size}), Y, {"noise": size})


def test_variances_have_the_unit_of_their_start():
    """Errors of data in other units are those of the same data, in these units."""

    def build(p):
        given = {"design": np.eye(1), "transition": np.eye(1), "obs_cov": p["noise"] * np.eye(1)}
        return given | {"state_cov": p["level"] * np.eye(1)}

    kinds, tables = dict.fromkeys(("level", "noise"), "variance"), []
    for scale in (1.0, 1e-8):
        start = dict.fromkeys(kinds, scale**2)
        fit = fo.fit(fo.models.StateSpace(build, start, constraints=kinds), Y * scale, restarts=1)
        tables.append(fit.to_dataframe()[["value", "se"]] / scale**2)
    np.testing.assert_allclose(tables[1], tables[0], rtol=1e-4)


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ({"state_cov": np.array([[1.0, 0.5], [0.0, 1.0]])}, "an asymmetric one"),
        ({"initial_state_cov": np.array([[1.0, 2.0], [2.0, 1.0]])}, "eigenvalue -1"),
        ({"obs_cov": np.full((1, 1), -0.5)}, "eigenvalue -0.5"),
    ],
)
def test_covariances_must_be_covariances(given, got):
    def build(p):
        plain = {"design": p["load"] * np.ones((1, 2)), "transition": 0.5 * np.eye(2)}
        return plain | {"state_cov": np.eye(2), "obs_cov": np.eye(1)} | given

    (name,) = given
    with pytest.raises(ValueError, match=f"'{name}' must be symmetric .* at init, got {got}"):
        fo.fit(fo.models.StateSpace(build, {"load": 1.0}), Y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_covariances_must_be_finite(bad):
    def build(p):
        plain = {"design": p["load"] * np.eye(1), "transition": 0.5 * np.eye(1)}
        return plain | {"state_cov": np.full((1, 1), bad), "obs_cov": np.eye(1)}

    with pytest.raises(ValueError, match=f"'state_cov' must be finite at init, got {bad}"):
        fo.fit(fo.models.StateSpace(build, {"load": 1.0}), Y)


def _autoregression(p):
    given = {"design": np.eye(1), "transition": p["phi"] * np.eye(1), "state_cov": np.eye(1)}
    return given | {"state_intercept": np.ones(1), "initial_state_cov": "stationary"}


@pytest.mark.parametrize("phi", [1.0, 1.2])
def test_only_stationary_transitions_have_stationary_starts(phi):
    with pytest.raises(ValueError, match=f"eigenvalues are all below 1 in size at init, got {phi:g}"):
        fo.fit(fo.models.StateSpace(_autoregression, {"phi": phi}), Y)
    objective = objective_of(fo.models.StateSpace(_autoregression, {"phi": 0.5}), Y)
    assert np.isnan(objective.log_likelihoods(np.array([[phi]]), objective.base[None])[0])
    words = "for want of a stationary first state"
    assert words in objective.fault(np.array([phi]), objective.base)


def test_stationary_means_are_where_iterations_end():
    moving, drift = np.array([[0.5, 0.2], [-0.3, 0.8]]), np.array([1.0, -2.0])
    mean = np.zeros(2)
    for _ in range(500):
        mean = moving @ mean + drift
    both = np.stack([moving, np.eye(2)], -1), np.stack([drift, drift], -1)
    found = stationary_mean(*both)
    np.testing.assert_allclose(found[:, 0], mean, rtol=1e-10)
    assert np.isnan(found[:, 1]).all()


def test_one_covariate_may_be_given_by_its_name():
    def build(p, x):
        given = {"design": np.eye(1), "transition": np.eye(1), "state_cov": np.eye(1)}
        return given | {"obs_intercept": p["slope"] * x, "obs_cov": np.eye(1)}

    model = fo.models.StateSpace(build, {"slope": 0.5}, covariates="x")
    data = fo.sequences(Y, covariates={"x": np.arange(40.0)})
    without = fo.fit_at(fo.models.Structural(), Y - 0.5 * np.arange(40.0), {"level": 1.0, "noise": 1.0})
    found = fo.fit_at(model, data, {"slope": 0.5})
    assert found.log_likelihood == pytest.approx(without.log_likelihood, rel=1e-8)


def test_a_mean_beside_a_stationary_start_is_refused():
    def build(p):
        return _autoregression(p) | {"initial_state": np.zeros(1)}

    with pytest.raises(ValueError, match="'initial_state' must be left out beside"):
        fo.fit(fo.models.StateSpace(build, {"phi": 0.5}), Y)
