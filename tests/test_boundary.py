"""Probabilities that vanish under a flat prior: optima on the boundary, and folds that leave it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fitonce as fo
from fitonce.fitting import boundary
from fitonce.objectives.families import objective_of

FLAT = {"initial_concentration": 1.0, "transition_concentration": 1.0}


def _series(first, then, repeats=5):
    """A state that comes first, then blocks of two states, well apart."""
    z = np.concatenate([np.repeat(first, 5), np.tile(np.repeat(then, [12, 9]), repeats)])
    return np.random.default_rng(0).normal(6.0 * z, 1.0)


def _cycle():
    z = np.tile(np.repeat([0, 1, 2], [10, 12, 9]), 6)
    return np.random.default_rng(0).normal(5.0 * z, 1.0)


def test_transitions_that_vanish_are_an_optimum_on_the_boundary():
    model = fo.models.HMM(3, "gaussian", **FLAT)
    fit = fo.fit(model, _cycle()).ordered("mean")
    assert fit.ok, fit.status
    assert "5 probabilities at zero, an optimum on the boundary" in str(fit.status)
    moves = fit.params["transition"]
    assert moves[0, 2] == moves[1, 0] == moves[2, 1] == 0
    np.testing.assert_array_equal(fit.params["initial"], [1.0, 0.0, 0.0])
    zeros = fo.zero_probabilities(fit)
    assert zeros["optimum"].all()
    assert set(zeros["name"]) == {
        "initial[1]", "initial[2]", "transition[0,2]", "transition[1,0]", "transition[2,1]"
    }  # fmt: skip
    for name, slope in zip(zeros["name"], zeros["slope"], strict=True):
        assert slope == pytest.approx(_difference(model, fit, name), rel=1e-3)


def _difference(model, fit, name, step=1e-6):
    """How -log p(data) changes as a probability grows at the expense of the others of its row."""
    parameter, _, entry = name[:-1].partition("[")
    *row, column = map(int, entry.split(","))
    params = {key: np.array(value) for key, value in fit.params.items()}
    params[parameter][tuple(row)] *= 1.0 - step
    params[parameter][(*row, column)] += step
    return (fit.log_likelihood - fo.fit_at(model, fit.data, params).log_likelihood) / step


def test_categories_that_vanish_are_optima_too():
    rng, z = np.random.default_rng(1), np.tile(np.repeat([0, 1], 15), 6)
    x = np.where(z == 0, rng.integers(2, size=180), 1 + rng.integers(2, size=180)).astype(float)
    model = fo.models.HMM(2, fo.models.Categorical(3, 1.0))
    fit = fo.fit(model, x)
    assert fit.ok, fit.status
    assert "at zero, an optimum on the boundary" in str(fit.status)
    assert (fit.params["probability"] == 0).sum() == 2


def test_a_fold_that_would_leave_zero_does():
    """Without its first steps the series begins in the other state."""
    x, model = _series(1, [0, 1]), fo.models.HMM(2, fo.models.Gaussian(scale=0.5), **FLAT)
    fit = fo.fit(model, x)
    assert fit.ok, fit.status
    first = np.arange(9)
    folds = fo.folds.sites([first, np.arange(40, 49)], fit.data)
    without = x.copy()
    without[first] = np.nan
    refit = fo.fit(model, without)
    assert all(np.diff(one.params["mean"][:, 0]) > 0 for one in (fit, refit))
    assert np.argmax(refit.params["initial"]) != np.argmax(fit.params["initial"])
    whole = fo.fit_at(refit.model, x, refit.params)
    expected = fo.cross_validate(whole, folds, method="none", loss="joint").folds["loss"][0]
    for method in ("auto", "exact"):
        cv = fo.cross_validate(fit, folds, method=method, loss="joint")
        assert cv.folds["loss"][0] == pytest.approx(expected, abs=1e-6)
        assert cv.folds["verdict"].tolist() == ["fair", "good"]  # a single descent led there
        np.testing.assert_allclose(cv.params(0)["initial"], refit.params["initial"])
        assert np.isnan(cv.theta[0]).all()
        assert "left zero at 'initial[" in cv.folds["status"][0]
    kept = fo.cross_validate(fit, folds, method="none", loss="joint").folds["loss"][0]
    assert abs(kept - expected) > 0.05  # the control: it would have mattered


def test_other_starts_are_free_to_leave_the_zeros_of_an_optimum():
    """Zeros belong to one optimum, unless the model is told that they are meant."""
    x = _series(0, [0, 1])
    model = fo.models.HMM(2, fo.models.Gaussian(scale=0.5), **FLAT)
    once = {"initial": [1.0, 0.0], "transition": [[0.9, 0.1], [0.0, 1.0]]}
    poor = fo.fit(model, x, init={**fo.fit(model, x).params, **once})
    assert poor.params["transition"][1, 0] == 0
    free, again = fo.fit(model, x), fo.fit(poor.model, x)
    assert again.value == pytest.approx(free.value, abs=1e-6)
    assert again.value < poor.value - 5
    meant = fo.fit(replace(poor.model, vanished=()), x)
    assert meant.params["transition"][1, 0] == 0
    assert meant.value >= again.value + 5


@pytest.mark.parametrize("flat", [{}, FLAT], ids=["default", "flat"])
def test_zeros_that_the_model_asks_for_stay_zeros(flat):
    support = np.array([[True, True, False], [False, True, True], [True, False, True]])
    model = fo.models.HMM(3, "gaussian", support=support, **flat)
    fit = fo.fit(model, _cycle())
    assert fit.ok, fit.status
    if not flat:
        assert "boundary" not in str(fit.status)
        assert not fo.zero_probabilities(fit)["optimum"].any()  # their prior is above one


def test_folds_do_not_leave_what_the_model_rules_out():
    x = _series(1, [0, 1])
    emission = fo.models.Gaussian(scale=0.5)
    free = fo.fit(fo.models.HMM(2, emission, **FLAT), x)
    support = free.params["initial"] > 0
    fit = fo.fit(fo.models.HMM(2, emission, initial_support=support, **FLAT), x, init=free.params)
    folds = fo.folds.sites([np.arange(9)], fit.data)
    cv = fo.cross_validate(fit, folds, loss="joint")
    assert "left zero" not in cv.folds["status"][0]


def test_slopes_have_the_prior_of_the_others_in_the_row():
    """Stickiness pulls at staying, and so holds what is never gone to at zero."""
    model = fo.models.HMM(3, "gaussian", stickiness=20.0, **FLAT)
    fit = fo.fit(model, _cycle())
    assert fit.ok, fit.status
    zeros = fo.zero_probabilities(fit).set_index("name")["slope"]
    name, step = next(name for name in zeros.index if name.startswith("transition")), 1e-6
    row, column = map(int, name[len("transition[") : -1].split(","))
    params = {key: np.array(value) for key, value in fit.params.items()}
    params["transition"][row] *= 1.0 - step
    params["transition"][row, column] += step
    params["initial"] = np.where(params["initial"] == 0, 0.0, params["initial"])
    moved = fo.fit_at(model, fit.data, params)
    assert zeros[name] == pytest.approx((moved.value - fit.value) / step, rel=1e-3)


def test_a_concentration_below_one_has_no_minimum_and_no_crash():
    model = fo.models.HMM(2, "gaussian", initial_concentration=0.5, transition_concentration=1.0)
    fit = fo.fit_at(model, _series(1, [0, 1]), _at_a_corner())
    folds = fo.folds.sites([np.arange(9), np.arange(40, 49)], fit.data)
    assert np.isfinite(fo.cross_validate(fit.polish(), folds).folds["loss"]).all()


def _at_a_corner():
    return {
        "initial": np.array([0.0, 1.0]),
        "transition": np.array([[0.9, 0.1], [0.1, 0.9]]),
        "mean": np.array([[0.0], [6.0]]),
        "variance": np.ones((2, 1)),
    }


def test_fits_with_zeros_are_saved_and_polished_with_what_is_said_of_them(tmp_path):
    fit = fo.fit(fo.models.HMM(2, "gaussian", **FLAT), _series(1, [0, 1]))
    found = fo.load(fit.save(tmp_path / "fit.json"))
    assert found.model == fit.model
    for one in (fit, found, found.polish(), found.ordered("mean", descending=True)):
        assert str(one.status).count("at zero, an optimum on the boundary") == 1
    assert len(fit.values_of_starts) > 1
    assert "not looked for" not in fit.optima.sentence


def test_zeros_in_given_parameters_stay_zeros_of_categories():
    rng = np.random.default_rng(3)
    x = rng.integers(3, size=40).astype(float)
    params = {"initial": np.array([0.5, 0.5]), "transition": np.full((2, 2), 0.5),
              "probability": np.array([[[0.5, 0.5, 0.0]], [[0.2, 0.3, 0.5]]])}  # fmt: skip
    fit = fo.fit_at(fo.models.HMM(2, fo.models.Categorical(3)), x, params)
    assert fit.params["probability"][0, 0, 2] == 0
    assert fit.model.emission.support is not None
    assert fo.fit(fit.model, x, init=fit.params).params["probability"][0, 0, 2] == 0


def _categories(seed):
    """Three short sequences of a cycle of states, each without one of three categories."""
    rng, found = np.random.default_rng(seed), []
    moves = np.array([[0.9, 0.1, 0.0], [0.0, 0.85, 0.15], [0.2, 0.0, 0.8]])
    shares = np.array([[0.7, 0.3, 0.0], [0.0, 0.3, 0.7], [0.5, 0.0, 0.5]])
    for steps in (25, 15, 20):
        z, x = 0, []
        for _ in range(steps):
            x.append(rng.choice(3, p=shares[z]))
            z = rng.choice(3, p=moves[z])
        found.append(np.array(x, float))
    return found


@pytest.mark.parametrize(("seed", "of_starts"), [(5, 0), (7, 0), (13, 2), (13, 3)])
def test_probabilities_that_went_too_far_come_back(seed, of_starts):
    model = fo.models.HMM(3, fo.models.Categorical(3, 1.0), **FLAT)
    fit = fo.fit(model, _categories(seed), seed=of_starts)
    assert fit.ok, fit.status
    assert fo.zero_probabilities(fit)["optimum"].all()


def test_zeros_that_were_given_stay_where_others_vanish():
    """The series starts in the first state, which was said to be impossible: other probabilities that
    vanish are judged without it."""
    model = fo.models.HMM(3, "gaussian", **FLAT)
    free = fo.fit(model, _cycle()).ordered("mean")
    start = {name: np.array(value) for name, value in free.params.items()}
    start["initial"] = np.array([0.0, 0.5, 0.5])
    start["transition"] = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    fit = fo.fit_at(model, _cycle(), start).polish()
    assert fit.ok, fit.status
    assert fit.params["initial"][0] == 0
    zeros = fo.zero_probabilities(fit).set_index("name")["optimum"]
    assert not zeros["initial[0]"]
    assert zeros.drop("initial[0]").all()
    assert len(zeros) > 3
    assert "held at zero: 1 probability, as 'initial[0]'" in str(fit.status)


def test_a_transition_vanishes_with_its_coefficients():
    rng = np.random.default_rng(0)
    xs = [rng.normal(np.repeat([0.0, 5.0], [a, 40 - a])) for a in (15, 20, 25)]
    data = fo.sequences(xs, covariates=[rng.normal(size=40) for _ in xs])
    model = fo.models.HMM(2, "gaussian", transition_covariates=["u0"], transition_concentration=1)
    fit = fo.fit(model, data)
    assert fit.ok, fit.status
    zero = fit.params["transition"] == 0
    assert zero.sum() == 1
    assert (fit.params["transition_coefficients"][zero] == 0).all()


def _five():
    """Sequences of a cycle, of which only the last begins in its second state."""
    rng, found = np.random.default_rng(0), []
    for first in (0, 0, 0, 0, 1):
        z = [first]
        for _ in range(29):
            z.append(z[-1] if rng.random() > 0.1 else (z[-1] + 1) % 3)
        found.append(rng.normal(4.0 * np.array(z), 0.7))
    return found


def test_folds_reach_zero_and_single_points_leave_it():
    """Against refits from scratch."""
    xs, model = _five(), fo.models.HMM(3, fo.models.Gaussian(scale=0.5), **FLAT)
    fit = fo.fit(model, xs)
    cv = fo.cross_validate(fit, fo.folds.structures(fit.data), method="exact")
    assert cv.folds["ok"].all()
    assert "reached zero at 'initial[" in cv.folds["status"][4]
    refit = fo.fit(model, xs[:4])
    assert cv.folds["loss"][4] == pytest.approx(-refit.score([xs[4]]), abs=1e-5)
    without = [x.copy() for x in xs]
    without[0][3] = np.nan
    refit = fo.fit(model, without)
    whole = fo.fit_at(refit.model, xs, refit.params)
    expected = refit.log_likelihood - whole.log_likelihood
    assert fo.loo(fit).folds["loss"][3] == pytest.approx(expected, abs=1e-5)
    leaves = fo.influence(fit).table.set_index("site").loc[3]
    assert leaves["how"] == "exact"  # first order knows of no zero
    assert leaves["displacement"] == pytest.approx(2.0 * (whole.value - fit.value), abs=1e-5)
    assert leaves["displacement"] > 1.5 * fo.influence(fit, refine=False).table["displacement"][3]


def test_slopes_without_points_are_those_of_their_folds():
    """From one sweep, against a gradient for each point."""
    fit = fo.fit(fo.models.HMM(3, fo.models.Gaussian(scale=0.5), **FLAT), _five(), restarts=1, optima=0)
    observed = np.array([0, 3, 31, 120])
    weights = np.repeat(fit.objective.base[None], len(observed), 0)
    weights[np.arange(len(observed)), observed] = 0.0
    for name in boundary.estimated_zeros(fit):
        relaxed = objective_of(fit.model.zeros.relaxed(name), fit.data)
        expected = boundary.slopes_at(relaxed, name, [fit.params] * len(observed), weights)
        found = boundary.slopes_without(fit, name, observed)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_fold_that_leaves_one_zero_may_leave_those_that_are_held():
    """Given parameters hold at zero what the data ask for; a fold that leaves another zero is an optimum
    of the model in which all of them are possible. Against a fit of the data without the point."""
    xs, model = _five(), fo.models.HMM(3, fo.models.Gaussian(scale=0.5), **FLAT)
    free = fo.fit(model, xs, restarts=1, optima=0).ordered("mean")
    start = {name: np.array(value) for name, value in free.params.items()}
    start["transition"] = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]])
    start["initial"] = np.array([0.5, 0.3, 0.2])
    held = fo.fit(model, xs, init=start)
    assert "held at zero: 1 probability, as 'transition[2,0]'" in str(held.status)
    folds = fo.folds.sites([[3]], held.data)
    cv = fo.cross_validate(held, folds, method="exact", optima=0)
    assert "left zero at 'transition[0,2]'" in cv.folds["status"][0]
    without = [x.copy() for x in xs]
    without[0][3] = np.nan
    start["transition"] = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    refit = fo.fit(model, without, init=start)
    assert refit.ok
    np.testing.assert_allclose(cv.params(0)["transition"], refit.params["transition"], atol=1e-6)
    whole = fo.fit_at(refit.model, xs, refit.params)
    expected = refit.log_likelihood - whole.log_likelihood
    assert cv.folds["loss"][0] == pytest.approx(expected, abs=1e-6)


def test_a_fold_with_a_category_of_its_own_says_that_its_loss_is_infinite():
    x = np.random.default_rng(0).integers(0, 3, 60).astype(float)
    x[30] = 3.0  # once
    fit = fo.fit(fo.models.CategoricalHMM(2, 4, concentration=1.0), x)
    folds = fo.folds.kfold(60, k=10)
    for method in ("auto", "exact"):
        cv = fo.cross_validate(fit, folds, method=method, optima=0)
        assert np.isinf(cv.folds["loss"]).tolist() == [fold == 5 for fold in range(10)]
        assert cv.folds["status"][5].startswith("the loss is not finite: something left out is")
        assert "reached zero at 'probability" in cv.folds["status"][5]
        assert not cv.params(5)["probability"][..., 3].any()
        assert cv.n_failed == 1
        assert "1 of 10 folds without a usable number, left out" in str(cv)


def test_a_support_must_allow_what_is_observed():
    x = np.array([0.0, 1.0, 2.0, 1.0])
    support = np.array([[True, True, False], [True, True, False]])
    with pytest.raises(ValueError, match="category 2 is observed, but support allows it in no state"):
        fo.fit(fo.models.HMM(2, fo.models.Categorical(3, support=support)), x)


def _quiet(kind):
    """Blocks of a state in which nothing ever happens, and of one in which much does."""
    rng, z = np.random.default_rng(0), np.arange(80) // 20 % 2
    if kind == "poisson":
        return z * rng.poisson(5.0, 80), fo.models.PoissonHMM(2)
    trials = 1 if kind == "always" else 6
    x = z * rng.binomial(trials, 0.6, 80)
    return 1 - x if kind == "always" else x, fo.models.HMM(2, fo.models.Binomial(trials=trials))


@pytest.mark.parametrize("kind", ["poisson", "binomial", "always"])
def test_states_in_which_nothing_happens_are_certified_and_so_are_folds(kind):
    x, model = _quiet(kind)
    x = x.astype(float)
    fit = fo.fit(model, x)
    assert fit.ok, fit.status
    folds = fo.folds.kfold(80, k=8)
    cv = fo.cross_validate(fit, folds, loss="joint", method="exact")
    assert cv.folds["ok"].all(), cv.folds["status"].tolist()
    for fold in (0, 3, 5):
        kept = x.copy()
        kept[folds.scored[fold]] = np.nan
        refit = fo.fit(model, kept)
        whole = fo.fit_at(model, x, refit.params)
        expected = (refit.log_likelihood - whole.log_likelihood) / 10
        assert cv.folds["loss"][fold] == pytest.approx(expected, abs=1e-6)
