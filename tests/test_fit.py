"""fit and fit_at: what they return, what they say when it went wrong, and every refusal."""

from __future__ import annotations

import threading
from itertools import islice

import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from fitonce.core.status import Outcome
from fitonce.core.thread_pool import THREADS
from fitonce.fitting.descent import descend, starting_points
from fitonce.objectives.families import objective_of
from registry import _events

RNG = np.random.default_rng(0)
LEVELS = np.repeat([-2.0, 2.0, -2.0, 2.0], 40)
DATA = np.stack([LEVELS, -LEVELS], 1) + RNG.normal(size=(160, 2))


@pytest.fixture(scope="module")
def fit():
    return fo.fit(fo.models.GaussianHMM(2), DATA)


def test_a_fit_has_what_the_contract_names(fit):
    assert fit.ok
    assert fit.status.outcome is Outcome.STATIONARY
    assert fit.theta.dtype == np.float64
    assert fit.gradient_norm == pytest.approx(np.linalg.norm(fit.gradient))
    assert fit.smallest_eigenvalue == pytest.approx(np.linalg.eigvalsh(fit.H)[0])
    assert fit.objective(fit.theta) == pytest.approx(fit.value, rel=1e-15)
    assert "transition[0,0]" in fit.names
    assert "mean[1,0]" in fit.names
    assert fit.seconds >= fit.refit_seconds > 0
    np.testing.assert_allclose(np.sort(fit.params["mean"][:, 0]), [-2.0, 2.0], atol=0.5)


def test_the_table_of_parameters_has_standard_errors(fit):
    table = fit.to_dataframe().set_index("name")
    assert table.index.tolist() == fit.names
    np.testing.assert_allclose(table["theta_se"] ** 2, np.diag(np.linalg.inv(fit.H)))
    assert table["value"]["transition[0,0]"] == pytest.approx(fit.params["transition"][0, 0])
    np.testing.assert_allclose(table["se"]["mean[0,0]"], table["theta_se"]["mean[0,0]"])
    variance = table.loc["variance[0,0]"]  # d exp(theta) = exp(theta) d theta
    assert variance["se"] == pytest.approx(fit.params["variance"][0, 0] * variance["theta_se"])


def test_printing_shows_status_and_parameters(fit):
    text = repr(fit)
    for part in ("stationary", "standard errors", "transition", "mean"):
        assert part in text


def test_seeds_make_fits_reproducible():
    fits = [fo.fit(fo.models.PoissonHMM(2), np.arange(60) % 7, seed=5) for _ in range(2)]
    np.testing.assert_array_equal(fits[0].theta, fits[1].theta)


def test_restarts_never_end_higher_than_the_first_start(fit):
    many = fo.fit(fo.models.GaussianHMM(2), DATA, restarts=4)
    assert len(many.values_of_starts) == 4
    assert many.value <= many.values_of_starts[0] + 1e-8


def test_a_fit_may_stop_early_and_says_how_far_it_is(fit):
    early = fo.fit(fo.models.GaussianHMM(2), DATA, restarts=1, max_iterations=12)
    assert early.value > fit.value
    assert not early.ok
    assert early.distance > 1e-6 or np.isnan(early.distance)
    with pytest.raises(
        ValueError, match="max_iterations must be an integer of at least 1 or None, got 0"
    ):
        fo.fit(fo.models.GaussianHMM(2), DATA, max_iterations=0)


def test_fit_at_keeps_the_parameters_and_says_how_far_they_are(fit):
    moved = {**fit.params, "mean": fit.params["mean"] + 0.3}
    there = fo.fit_at(fo.models.GaussianHMM(2), DATA, moved)
    np.testing.assert_allclose(there.params["mean"], moved["mean"])
    assert not there.ok
    assert there.status.outcome is Outcome.NOT_STATIONARY
    assert "largest at 'mean[" in str(there.status)
    cv = fo.cross_validate(there, fo.folds.kfold(160, 4))
    assert "not stationary" in repr(cv)


def flat_direction():
    """Only the sum of a and b is in the model."""
    return fo.models.Custom(
        lambda p, x, w: -0.5 * jnp.sum(w * (x - p["a"] - p["b"]) ** 2), {"a": 0.0, "b": 0.0}
    )


def test_a_flat_direction_is_named_and_not_solved():
    fit = fo.fit(flat_direction(), np.arange(10.0))
    assert fit.status.outcome is Outcome.NOT_A_MINIMUM
    assert "'a'" in str(fit.status)
    assert "'b'" in str(fit.status)
    folds = fo.folds.kfold(10, 5)
    for method in ("onestep", "exact", "auto"):
        with pytest.raises(fo.IndefiniteError, match=r"H is not positive definite.*'a', 'b'|'b', 'a'"):
            fo.cross_validate(fit, folds, method=method)
    assert np.isfinite(fo.cross_validate(fit, folds, method="none").estimate)
    damped = fo.cross_validate(fit, folds, method="onestep", damping=1e-6)
    assert np.isfinite(damped.estimate)


def test_folds_with_a_flat_direction_are_reported():
    fit = fo.fit(flat_direction(), np.arange(10.0))
    cv = fo.cross_validate(fit, fo.folds.kfold(10, 5), method="newton")
    assert cv.n_failed == 5
    assert np.isnan(cv.estimate)
    assert "smallest eigenvalue of H" in cv.folds["status"][0]


def test_a_newton_step_that_goes_uphill_is_reported():
    """log cosh is nearly flat away from its minimum; a left-out point sends the step far beyond it."""
    model = fo.models.Custom(lambda p, x, w: -jnp.sum(w * jnp.log(jnp.cosh(p["m"] - x))), {"m": 0.0})
    fit = fo.fit(model, np.array([-3.0, 0.0, 3.0]))
    assert fit.ok
    cv = fo.cross_validate(fit, fo.folds.sites([[1, 2]], 3), method="newton")
    assert cv.n_failed == 1
    assert "raised the fold's objective" in cv.folds["status"][0]
    assert "'m'" in cv.folds["status"][0]


def test_units_do_not_change_a_gaussian_fit_but_for_scale(fit):
    small = fo.fit(fo.models.GaussianHMM(2), 1e-3 * DATA)
    np.testing.assert_allclose(small.params["variance"], 1e-6 * fit.params["variance"], rtol=1e-6)


@pytest.mark.slow
def test_day_concentration_makes_a_fit_of_a_few_days_a_minimum():
    flat, held = (fo.models.EventCounts(70, day_concentration=c) for c in (1.0, 2.0))
    with pytest.raises(ValueError, match=r"on day 3, 4, 5, 6 .* nothing was observed; give day_conc"):
        fo.fit(flat, _events(), restarts=1)
    assert fo.fit(held, _events(), restarts=1).ok


def test_an_impossible_observation_is_not_called_stationary():
    table = [[[0.5, 0.5, 0.0]], [[0.3, 0.7, 0.0]]]
    model = fo.models.CategoricalHMM(2, 3, frozen={"probability": table})
    for kernel in ("scan", "tree"):
        fit = fo.fit(model, np.array([0, 1, 0, 1, 1, 2, 0.0]), kernel=kernel, restarts=1)
        assert fit.status.outcome is Outcome.NOT_FINITE
        assert "impossible observations" in str(fit.status)


def test_a_minimum_is_one_in_any_units():
    data = np.concatenate([RNG.normal(size=25), 30 + RNG.normal(size=5)])
    for unit in (1e-8, 1.0, 1e8):
        fit = fo.fit(fo.models.GaussianHMM(2), unit * data, restarts=1)
        assert fit.ok, str(fit.status)


def test_a_saddle_is_not_called_a_minimum():
    model = fo.models.Custom(
        lambda p, x, w: jnp.sum(w) * (p["u"] ** 2 - p["u"] ** 4 - p["v"] ** 2), {"u": 0.0, "v": 0.0}
    )
    there = fo.fit_at(model, np.zeros(3), {"u": 0.0, "v": 0.0})
    assert there.status.outcome is Outcome.NOT_A_MINIMUM
    assert "'u'" in str(there.status)


def test_float32_input_is_fitted_in_float64(fit):
    single = fo.fit(fo.models.GaussianHMM(2), DATA.astype(np.float32))
    assert single.theta.dtype == np.float64
    assert single.ok
    np.testing.assert_allclose(single.theta, fit.theta, atol=1e-4)


def test_pandas_and_lists_fit_like_arrays(fit):
    import pandas as pd

    frame = pd.DataFrame(DATA, columns=["left", "right"])
    assert fo.fit(fo.models.GaussianHMM(2), frame).value == fit.value
    assert fo.fit(fo.models.GaussianHMM(2), [DATA]).value == fit.value


REFUSALS = [
    ({"restarts": 0}, "restarts must be an integer of at least 1 or None, got 0"),
    ({"tolerance": 0.0}, "tolerance must be a positive number, got 0"),
    ({"tolerance": "tight"}, "tolerance must be a positive number, got 'tight'"),
    ({"max_iterations": True}, "max_iterations must be an integer of at least 1 or None, got True"),
    ({"kernel": "spiral"}, r"kernel must be 'native', 'scan', 'tree' or None, got 'spiral'"),
    ({"init": {"mean": 0}}, "params must be a pytree of initial, mean, transition, variance"),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSALS)
def test_refusals_of_fit(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.fit(fo.models.GaussianHMM(2), DATA, **arguments)


def test_only_chains_have_kernels():
    model = fo.models.Custom(lambda p, x, w: -jnp.sum(w * (x - p["m"]) ** 2), {"m": 0.0})
    with pytest.raises(ValueError, match=r"Custom model has one kernel: .* got 'tree'"):
        fo.fit(model, np.zeros(3), kernel="tree")


MODELS = [
    (lambda: fo.models.GaussianHMM(0), "n_states must be a positive integer, got 0"),
    (lambda: fo.models.GaussianHMM(2, covariance="round"), r"covariance must be one of .*, got 'round'"),
    (
        lambda: fo.models.GaussianHMM(2, variance=-1.0),
        "variance must be a positive number or one per channel, got -1",
    ),
    (lambda: fo.models.GaussianHMM(2, strength=-1.0), "strength must be a non-negative number, got -1"),
    (lambda: fo.models.GaussianHMM(2, scale=0.0), "scale must be a positive number or None, got 0"),
    (lambda: fo.models.GaussianHMM(2, strength="a"), "strength must be a non-negative number, got 'a'"),
    (lambda: fo.models.PoissonHMM(2, shape="a"), "shape must be a positive number"),
    (lambda: fo.models.PoissonHMM(True), "n_states must be a positive integer, got True"),
    (lambda: fo.models.EventCounts(288, a_prior=5), "a_prior must be a positive shape"),
    (lambda: fo.models.EventCounts(288, stay_quiet_prior=3), "stay_quiet_prior must be two positive"),
    (lambda: fo.models.EventCounts(288, day_concentration="a"), "must be a positive number, got 'a'"),
    (lambda: fo.models.GaussianHMM(2, strength=-(10**30)), "strength must be a non-negative number"),
    (lambda: fo.models.GaussianHMM(2, scale=10**400), "scale must be a positive number or None"),
    (
        lambda: fo.models.GaussianHMM(2, frozen=np.ones(2)),
        "frozen must be a dict of names of parameters and values",
    ),
    (lambda: fo.models.EventCounts(288, first_day=9), "first_day must be an integer from 0 to 6, got 9"),
    (lambda: fo.models.GaussianHMM(2, transition_concentration=np.inf), r"at most 1e\+06, got inf"),
    (
        lambda: fo.models.GaussianHMM(2, covariance="fixed", variance="a"),
        "must be a positive number or one per channel, got 'a'",
    ),
    (lambda: fo.models.CategoricalHMM(2, 1), "n_categories must be an integer of at least 2, got 1"),
    (
        lambda: fo.models.PoissonHMM(2, transition_concentration=[1.0]),
        "transition_concentration must be",
    ),
    (lambda: fo.models.PoissonHMM(2, support=[[True, False], [False, False]]), "support must be 2 x 2"),
    (
        lambda: fo.models.EventCounts(steps_per_day=0),
        "steps_per_day must be an integer of at least 1",
    ),
    (lambda: fo.models.HMM(2, fo.models.Poisson), r"emission must be an instance, such as Poisson\(\)"),
    (
        lambda: fo.models.PoissonHMM(2, frozen=["initial"]),
        "frozen must be a dict of names of parameters and values",
    ),
    (lambda: fo.models.PoissonHMM(2, shape=-1.0), "shape must be a positive number"),
    (
        lambda: fo.models.CategoricalHMM(2, 3, concentration=0.0),
        "concentration must be a positive number or 3 of them, got 0",
    ),
    (lambda: fo.models.EventCounts(288, a_prior=(0.0, 1.0)), "a_prior must be a positive shape"),
    (lambda: fo.models.EventCounts(288, first_day=0.5), "first_day must be an integer from 0 to 6"),
    (lambda: fo.models.Custom(abs, {}, log_prior=3), "log_prior must be a function or None, got 3"),
    (
        lambda: fo.models.Custom(3, {}),
        "log_density must be a function of params, data and weights, got 3",
    ),
]


@pytest.mark.parametrize(("make", "sentence"), MODELS)
def test_refusals_of_models(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def vector_density():
    return fo.models.Custom(lambda p, x, w: -0.5 * w * (x - p["m"]) ** 2, {"m": 0.0})


CONSTANT = np.column_stack([DATA[:, 0], np.ones(160)])
UNSUITABLE = [
    (fo.models.PoissonHMM(2), [1.0, -1.0, 2.0], r"non-negative integer counts, got -1; .*missing=-1"),
    (
        fo.models.PoissonHMM(2),
        [1.5, 2.0],
        "a Poisson emission needs non-negative integer counts, got 1.5",
    ),
    (fo.models.CategoricalHMM(2, 3), [0.0, 3.0], "n_categories=3 allows 0 to 2, got 3"),
    (fo.models.GaussianHMM(2), CONSTANT, "channel 'x1' is constant"),
    (fo.models.GaussianHMM(2, strength=0.0), CONSTANT, r"channel 'x1' is constant \(1\)"),
    (
        fo.models.GaussianHMM(2, covariance="fixed", variance=[1.0, 2.0, 3.0]),
        DATA,
        r"one per channel, shape \(2,\), got shape",
    ),
    (fo.models.EventCounts(288), DATA, "event counts need one channel, got 2"),
    (fo.models.EventCounts(288), np.array([1.0, 5000.0]), "counts may be at most 2,000, got 5,000"),
    (fo.models.PoissonHMM(2, frozen={"speed": 1}), [1.0, 2.0], r"frozen names \['speed'\]"),
    (
        fo.models.GaussianHMM(2),
        np.array([[1.0, np.nan], [2.0, np.nan]]),
        "channel 'x1' has no observed value",
    ),
    (vector_density(), np.arange(3.0), r"log_density must return a scalar, got shape \(3,\)"),
    ("hmm", [1.0], "model must be one of fo.models or have the same methods, got str"),
    (flat_direction(), fo.sequences([1.0, 2.0]), "Custom takes plain arrays, got Sequences"),
    (flat_direction(), 3.0, "Custom cannot tell how many things can be left out; pass size="),
]


@pytest.mark.parametrize(("model", "data", "sentence"), UNSUITABLE)
def test_data_that_a_model_cannot_describe(model, data, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.fit(model, data)


def test_everything_frozen():
    model = fo.models.PoissonHMM(
        1, frozen={"rate": [[1.0]], "initial": [1.0], "transition": [[1.0]]}
    )  # fmt: skip
    with pytest.raises(ValueError, match="the model has no free parameters"):
        fo.fit(model, [1.0, 2.0])


def test_custom_constraints_by_name():
    def density(params, x, w):
        return jnp.sum(w * (-0.5 * ((x - params["m"]) / params["s"]) ** 2 - jnp.log(params["s"])))

    init = {"m": 0.0, "s": 1.0}
    data = np.arange(9.0)
    fit = fo.fit(fo.models.Custom(density, init, constraints={"s": "positive"}), data)
    assert fit.params["s"] == pytest.approx(data.std())
    held = fo.fit(fo.models.Custom(density, init, constraints={"s": "frozen"}), data)
    assert held.names == ["m"]
    with pytest.raises(
        ValueError, match=r"constraints name \['x'\], but the parameters are \['m', 's'\]"
    ):
        fo.fit(fo.models.Custom(density, init, constraints={"x": "positive"}), data)
    with pytest.raises(ValueError, match="the constraint of 's' must be one of"):
        fo.fit(fo.models.Custom(density, init, constraints={"s": "round"}), data)


def test_names_of_other_libraries_get_a_hint():
    with pytest.raises(TypeError, match="unknown argument 'covariance_type': use covariance="):
        fo.models.GaussianHMM(2, covariance_type="full")
    with pytest.raises(
        TypeError, match=r"unknown argument 'colour'; an HMM has \['initial_concentration'"
    ):
        fo.models.GaussianHMM(2, colour="red")


def test_wrong_shapes_of_theta_and_weights(fit):
    with pytest.raises(ValueError, match=r"theta must have shape \(11,\), got \(3,\)"):
        fit.objective(np.zeros(3))
    with pytest.raises(ValueError, match=r"weights must have shape \(160,\), got \(2,\)"):
        fit.objective(fit.theta, np.ones(2))
    with pytest.raises(ValueError, match="rhs must have 11 rows"):
        fo.curvature(fit).solve(np.zeros(3))


@pytest.mark.parametrize("model", [fo.models.PoissonHMM(3), fo.models.GaussianHMM(2)])
def test_starts_side_by_side_end_where_each_does_alone(model):
    rng = np.random.default_rng(0)
    x = rng.poisson(np.repeat([2.0, 9.0, 20.0, 2.0], 30)).astype(float)
    objective = objective_of(model, x)
    starts = list(islice(starting_points(objective, None, 0), 5))
    together = descend(objective, starts)
    for run, start in zip(together, starts, strict=True):
        alone = descend(objective, [start])[0]
        assert run.value == pytest.approx(alone.value, abs=1e-6)
        np.testing.assert_allclose(run.x, alone.x, atol=1e-5)


def test_small_work_stays_in_this_thread():
    here = threading.get_ident()
    numbers = THREADS.run(lambda part: threading.get_ident(), range(8), operations=10)
    assert set(numbers) == {here}
    assert here not in THREADS.run(lambda part: threading.get_ident(), range(8))


def test_starts_far_below_large_counts_arrive():
    """Rates of 1 and a million: metric steps from a rate near one lead beyond what numbers hold."""
    rng = np.random.default_rng(0)
    x = np.r_[rng.poisson(1, 30), rng.poisson(1e6, 30)].astype(float)
    fit = fo.fit(fo.models.PoissonHMM(2), x)
    assert fit.ok
    np.testing.assert_allclose(fit.values_of_starts, fit.value, atol=1e-4)


@pytest.mark.parametrize("model", [fo.models.GaussianHMM(2), fo.models.ARHMM(2, 1)], ids=str)
def test_the_beginning_of_the_data_may_be_constant_or_missing(model):
    """Neither a fit nor a plan works on the beginning alone, if that has no variance or no value."""
    x = np.random.default_rng(0).normal(size=(5_000, 2))
    for start in (0.0, np.nan):
        data = x.copy()
        data[:4_000, 1] = start
        assert np.isfinite(fo.fit(model, data, restarts=1, max_iterations=2).value)
        assert fo.plan(model, data).parameters == objective_of(model, data).space.size


def test_a_fit_leaves_a_saddle():
    """States that start alike have no gradient that would part them."""
    x = np.random.default_rng(0).poisson(np.repeat([2, 9, 2], 20))
    alike = {"rate": [[3.0], [3.0]], "initial": [0.5, 0.5], "transition": [[0.5, 0.5], [0.5, 0.5]]}
    fit = fo.fit(fo.models.PoissonHMM(2), x, init=alike)
    assert fit.ok
    assert fit.value == pytest.approx(fo.fit(fo.models.PoissonHMM(2), x).value, abs=1e-8)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("model", "data", "sentence"),
    [
        (
            fo.models.GaussianHMM(2),
            1e160 * DATA,
            "between 1e-100 and 1e100 in size, got .*e.160 in channel",
        ),
        (fo.models.GaussianHMM(2), 1e-160 * DATA, "between 1e-100 and 1e100 in size, got .*e-160"),
        (fo.models.ARHMM(2, 1), np.ones((50, 1)), "the data are constant"),
    ],
)
def test_data_that_no_variance_can_be_taken_of_are_refused(model, data, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.fit(model, data)


def test_labels_whose_features_lose_the_digits_of_h_say_so():
    rng = np.random.default_rng(0)
    times = [1.7e9 + 1e5 * rng.normal(size=8) for _ in range(12)]
    features = [np.column_stack([t, rng.normal(size=8)]) for t in times]
    labels = [list((t > 1.7e9).astype(int)) for t in times]
    fit = fo.fit(fo.models.LinearChainCRF(), fo.labelled(features, labels))
    assert not fit.ok
    assert "centre and scale the features" in str(fit.status)


@pytest.mark.parametrize("seed", ["a", -1, 1.5, True])
def test_seeds_are_integers(seed):
    for call in (
        lambda: fo.fit(fo.models.GaussianHMM(2), DATA, seed=seed),
        lambda: fo.folds.blocks(DATA, 10, 3, seed=seed),
    ):
        with pytest.raises(
            ValueError, match=r"seed must be a non-negative integer below .* or None, got"
        ):
            call()
