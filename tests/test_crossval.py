"""cross_validate: losses against enumeration, results, chunks, traces, and every refusal."""

from __future__ import annotations

import time

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import poisson
from sklearn.model_selection import KFold

import enumeration
import fitonce as fo
from canonical import COUNTS, POISSON, SEQUENCES, STEPS, padded, poisson_fit, sequences_fit
from fitonce.core import stopwatch

pytestmark = pytest.mark.xdist_group("canonical")  # one worker makes the fits that they share


@pytest.fixture(scope="module")
def fit():
    return poisson_fit()


@pytest.fixture(scope="module")
def folds():
    return fo.folds.blocks(COUNTS, percent=10, n=7, seed=1)


@pytest.fixture(scope="module")
def cv(fit, folds):
    return fo.cross_validate(fit, folds)


def small_case(left_out):
    """Nine steps, so that all paths can be enumerated, at parameters that were not fitted."""
    x = np.array([1.0, 0.0, 7.0, np.nan, 9.0, 2.0, 1.0, 8.0, 6.0])
    params = {
        "initial": np.array([0.3, 0.7]),
        "transition": np.array([[0.8, 0.2], [0.4, 0.6]]),
        "rate": np.array([[1.5], [7.0]]),
    }
    emission = np.array([
        [v * np.log(r) - r - np.sum(np.log(np.arange(1, v + 1))) if v == v else 0.0 for r in (1.5, 7.0)]
        for v in x
    ])  # fmt: skip
    kept = emission.copy()
    kept[left_out] = 0.0
    kept[0] += np.log(params["initial"])
    return fo.fit_at(POISSON, padded(x), params), emission, kept, np.log(params["transition"])


def test_pointwise_loss_matches_enumeration():
    fit, emission, kept, moves = small_case([2, 4, 5])
    cv = fo.cross_validate(fit, fo.folds.sites([[2, 4, 5]], STEPS), method="none")
    states = enumeration.marginals(kept, moves)
    expected = [-np.log(np.sum(states[t] * np.exp(emission[t]))) for t in (2, 4, 5)]
    np.testing.assert_allclose(cv.pointwise["loss"], expected, rtol=1e-12)
    assert cv.pointwise["site"].tolist() == [2, 4, 5]
    assert cv.estimate == pytest.approx(np.mean(expected), rel=1e-12)


def test_joint_loss_matches_enumeration():
    fit, emission, kept, moves = small_case([2, 4, 5])
    cv = fo.cross_validate(fit, fo.folds.sites([[2, 4, 5]], STEPS), method="none", loss="joint")
    full = emission.copy()
    full[0] = kept[0]
    joint = enumeration.log_partition(kept, moves) - enumeration.log_partition(full, moves)
    assert cv.pointwise["loss"].iloc[0] == pytest.approx(joint, rel=1e-12)
    assert cv.folds["loss"].iloc[0] == pytest.approx(joint / 3, rel=1e-12)


def test_loss_of_whole_sequences_is_their_log_likelihood():
    fit = sequences_fit()
    cv = fo.cross_validate(fit, fo.folds.structures(SEQUENCES), method="none")
    np.testing.assert_allclose(cv.pointwise["loss"], -fit.log_likelihood_of(SEQUENCES), rtol=1e-12)
    unary = poisson.logpmf(SEQUENCES[1][:, None], fit.params["rate"].T)
    unary[0] += np.log(fit.params["initial"])
    alone = enumeration.log_partition(unary, np.log(fit.params["transition"]))
    assert cv.pointwise["loss"][1] == pytest.approx(-alone, rel=1e-12)
    assert cv.pointwise["sequence"].tolist() == list(range(9))
    assert cv.scheme == "structures"


def test_a_horizon_scores_only_the_next_steps_and_hides_the_rest(fit):
    some = fo.cross_validate(fit, fo.folds.future(60, start=[40], horizon=2), method="onestep")
    alls = fo.cross_validate(fit, fo.folds.future(60, start=[40]), method="onestep")
    assert some.pointwise["site"].tolist() == [40, 41]
    np.testing.assert_allclose(some.theta, alls.theta)
    np.testing.assert_allclose(some.pointwise["loss"], alls.pointwise["loss"][:2])


def test_own_loss_is_given_parameters_data_and_weights(fit, folds):
    def absolute_error(params, data, weights):
        return jnp.abs(data.values[0, :, 0] - jnp.sum(params["rate"]) / 2) + 0.0 * weights

    cv = fo.cross_validate(fit, folds, method="none", loss=absolute_error)
    expected = np.abs(COUNTS[cv.pointwise["site"]] - fit.params["rate"].sum() / 2)
    np.testing.assert_allclose(cv.pointwise["loss"], expected)
    assert cv.loss == "absolute_error"


def test_table_of_folds(cv, folds):
    assert list(cv.folds.columns) == [
        "loss", "control", "error", "distance", "rate", "move", "away", "optimum", "gain", "shift",
        "ways", "missed", "verdict", "rung", "gradients", "hessians", "size", "ok", "status",
    ]  # fmt: skip
    assert len(cv.folds) == len(folds) == 7
    by_hand = cv.pointwise.groupby("fold")["loss"].mean()
    np.testing.assert_allclose(cv.folds["loss"], by_hand)
    assert cv.folds["size"].tolist() == [len(s) for s in folds.scored]
    assert cv.estimate == pytest.approx(cv.folds["loss"].mean())
    assert cv.theta.shape == (7, len(cv.fit.theta))
    assert set(cv.params(2)) == {"initial", "transition", "rate"}


@pytest.mark.parametrize("method", ["ij", "auto"])
def test_folds_that_repeat_are_worked_on_once(fit, folds, method):
    repeated = folds.some([3, 0, 3, 1, 0, 3])
    alone = fo.cross_validate(fit, folds.some([3, 0, 1]), method=method, tolerance=0.01)
    cv = fo.cross_validate(fit, repeated, method=method, tolerance=0.01)
    first, which = repeated.distinct()
    assert first.tolist() == [0, 1, 3]
    assert which.tolist() == [0, 1, 0, 2, 1, 0]
    told = ["loss", "control", "verdict", "rung", "status"]
    expected = alone.folds[told].iloc[which]
    assert cv.folds[told].to_dict("list") == expected.to_dict("list")
    np.testing.assert_array_equal(cv.theta, alone.theta[which])
    assert cv.folds["gradients"].sum() == alone.folds["gradients"].sum()
    assert (cv.folds["gradients"][[2, 4, 5]] == 0).all()
    assert cv.estimate == pytest.approx(cv.folds["loss"].mean(), rel=1e-12)


def test_folds_that_score_differently_do_not_repeat():
    folds = fo.folds.future(10, start=[6, 6, 6], horizon=1)
    longer = fo.folds.future(10, start=[6], horizon=2)
    both = fo.folds.Folds(
        "sites", folds.dropped + longer.dropped, folds.scored + longer.scored, folds.base, "own"
    )
    assert both.distinct()[1].tolist() == [0, 0, 0, 1]


def test_control_is_the_result_of_none(fit, folds, cv):
    none = fo.cross_validate(fit, folds, method="none")
    np.testing.assert_array_equal(cv.pointwise["control"], none.pointwise["loss"])
    assert cv.control == none.estimate
    assert np.abs(cv.pointwise["loss"] - cv.pointwise["control"]).max() > 1e-6


@pytest.mark.parametrize("chunk", [1, 3, 7, 50])
def test_the_size_of_a_chunk_changes_nothing(fit, folds, cv, chunk):
    other = fo.cross_validate(fit, folds, chunk=chunk)
    np.testing.assert_allclose(other.pointwise["loss"], cv.pointwise["loss"], rtol=1e-12)


@pytest.mark.parametrize("method", ["ij", "onestep", "newton", "exact", "auto"])
def test_a_thousand_folds_trace_once(method):
    """The density is traced while compiling only; its count must not depend on the number of folds."""
    traces = []

    def log_density(params, data, weights):
        traces.append(1)
        return jnp.sum(weights * (-0.5 * (data - params["m"]) ** 2))

    data = np.random.default_rng(0).normal(size=40)
    fit = fo.fit(fo.models.Custom(log_density, {"m": 0.0}), data)

    def count(n):
        before = len(traces)
        fo.cross_validate(fit, fo.folds.iid(40, 10, n), method=method, chunk=8)
        return len(traces) - before

    assert count(16) > 0
    assert count(1000) == 0


def test_custom_losses_put_back_one_point_at_a_time():
    def log_density(params, data, weights):
        return jnp.sum(weights * (-0.5 * (data - params["m"]) ** 2))

    data = np.arange(10.0)
    fit = fo.fit(fo.models.Custom(log_density, {"m": 0.0}), data)
    cv = fo.cross_validate(fit, fo.folds.sites([[0, 9]], 10), method="exact")
    mean = data[1:9].mean()
    np.testing.assert_allclose(cv.pointwise["loss"], 0.5 * (data[[0, 9]] - mean) ** 2, rtol=1e-9)


def test_custom_models_keep_data_of_their_own_which_results_know():
    model = fo.models.Custom(lambda p, x, w: -0.5 * jnp.sum(w * (x - p["m"]) ** 2), {"m": 0.0})
    data = np.arange(12.0)
    fits = [fo.fit(model, data), fo.fit(model, 2.0 * data)]
    before = fits[0].objective(fits[0].theta)
    data[:] = 0.0
    assert fits[0].objective(fits[0].theta) == before
    results = [fo.cross_validate(f, fo.folds.points(12), method="none", check=False) for f in fits]
    with pytest.raises(ValueError, match="same folds of the same data"):
        fo.compare({"one": results[0], "other": results[1]})


def test_custom_heldout_function_is_used():
    model = fo.models.Custom(
        lambda p, x, w: -0.5 * jnp.sum(w * (x - p["m"]) ** 2), {"m": 0.0},
        heldout=lambda p, x, w: jnp.abs(x - p["m"]),
    )  # fmt: skip
    fit = fo.fit(model, np.arange(5.0))
    cv = fo.cross_validate(fit, fo.folds.sites([[4]], 5), method="exact")
    assert cv.estimate == pytest.approx(4.0 - 1.5)


def test_standard_error_of_disjoint_sequences_is_the_usual_one():
    cv = fo.cross_validate(sequences_fit(), fo.folds.structures(SEQUENCES), method="none")
    losses = cv.folds["loss"]
    assert cv.se == pytest.approx(losses.std(ddof=1) / 3.0)


def test_more_overlapping_folds_do_not_shrink_the_standard_error():
    rng = np.random.default_rng(0)  # long enough for a standard error that is more than a guess
    x = rng.poisson(np.where(np.cumsum(rng.random(1500) < 0.2) % 2, 9.0, 3.0)).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(2), x)
    few, many = (fo.cross_validate(fit, fo.folds.iid(x, 10, n), method="none") for n in (100, 1000))
    assert min(few.dof, many.dof) > 20
    assert many.se > 0.7 * few.se


def test_joint_losses_have_a_standard_error_where_they_have_a_place(fit):
    disjoint = fo.cross_validate(fit, fo.folds.kfold(COUNTS, 6), method="none", loss="joint")
    usual = disjoint.folds["loss"].std(ddof=1) / np.sqrt(6)
    assert disjoint.se == pytest.approx(usual, rel=0.7)  # from fewer waves, where states last
    scattered = fo.cross_validate(fit, fo.folds.iid(COUNTS, 50, 6), method="none", loss="joint")
    assert np.isnan(scattered.se)
    assert "(no se)" in repr(scattered)


def test_an_impossible_point_is_reported_and_not_averaged(fit):
    def loss(params, data, weights):
        return jnp.where(jnp.arange(STEPS) == 3, jnp.inf, 1.0)

    cv = fo.cross_validate(fit, fo.folds.sites([[3], [5]], STEPS), loss=loss, method="none")
    assert cv.n_failed == 1
    assert cv.estimate == 1.0
    assert "1 of 2 folds without a usable number, left out" in repr(cv)
    assert "impossible" in cv.folds["status"][0]


@pytest.mark.parametrize("loss", ["joint", "own"])
def test_a_loss_that_is_nan_is_reported_and_not_averaged(fit, loss):
    def own(params, data, weights):
        return jnp.where(jnp.arange(60) == 3, jnp.nan, 1.0)

    table = [[[0.5, 0.5, 0.0]], [[0.3, 0.7, 0.0]]]
    model = fo.models.CategoricalHMM(2, 3, frozen={"probability": table})
    there = fit
    if loss == "joint":
        x = np.array([0, 1, 0, 2, 1, 1, 0.0])
        params = {"initial": [0.5, 0.5], "transition": [[0.5, 0.5], [0.5, 0.5]], "probability": table}
        there = fo.fit_at(model, x, params)
    folds = fo.folds.sites([[2, 3], [5]], len(there.objective.base))
    cv = fo.cross_validate(there, folds, method="none", loss=own if loss == "own" else loss)
    assert not cv.folds["ok"][0]
    assert "not finite" in cv.folds["status"][0]


def test_printing_says_what_a_person_needs(cv):
    text = repr(cv)
    for part in (
        "7 folds",
        "contiguous blocks of 10 %",
        "estimate",
        "+-",
        "control",
        "auto, scheme A; folds by rung: ",
        "error of the estimate about",
        "good",
        "refits",
    ):
        assert part in text


def test_to_dataframe(cv):
    assert len(cv.to_dataframe()) == 7
    assert len(cv.to_dataframe("pointwise")) == len(cv.pointwise)
    with pytest.raises(ValueError, match=r"level must be one of .*, got 'x'"):
        cv.to_dataframe("x")


def test_plot_refuses_other_folds(fit, cv):
    other = fo.cross_validate(fit, fo.folds.kfold(60, 6), method="none")
    with pytest.raises(ValueError, match="both results must be on the same folds"):
        cv.plot(against=other)


def test_plot_draws_every_point(fit, folds, cv):
    exact = fo.cross_validate(fit, folds, method="exact")
    ax = cv.plot(against=exact)
    assert len(ax.lines[0].get_xdata()) == len(cv.pointwise)
    assert "exact" in ax.get_xlabel()
    ax.figure.clear()


def test_a_loss_of_the_wrong_shape(fit, folds):
    with pytest.raises(
        ValueError, match=r"loss must return one loss for each of 60 .*, got shape \(3,\)"
    ):
        fo.cross_validate(fit, folds, loss=lambda params, data, weights: jnp.zeros(3))


def test_custom_models_have_no_scheme_and_check_heldout():
    model = fo.models.Custom(
        lambda p, x, w: -0.5 * jnp.sum(w * (x - p["m"]) ** 2), {"m": 0.0}, heldout=lambda p, x, w: x[:2]
    )
    fit = fo.fit(model, np.arange(5.0))
    with pytest.raises(ValueError, match=r"scheme must be None, got A"):
        fo.cross_validate(fit, fo.folds.kfold(5, 5), scheme="A")
    with pytest.raises(ValueError, match="heldout must return one loss for each of 5 units"):
        fo.cross_validate(fit, fo.folds.kfold(5, 5))


def test_a_loss_that_is_not_for_jax(fit, folds):
    with pytest.raises(ValueError, match=r"loss must be written with jax\.numpy, got Tracer"):
        fo.cross_validate(fit, folds, loss=lambda params, data, weights: np.asarray(params["rate"]))
    counts = fo.cross_validate(fit, folds, loss=lambda params, data, weights: weights > 2, method="none")
    assert counts.estimate == 0.0


REFUSALS = [
    ({"loss": np.ones(3)}, "loss must be one of"),
    ({"method": "magic"}, r"method must be 'auto' or one of .*, got 'magic'"),
    ({"loss": "square"}, r"loss must be one of \('pointwise', 'joint'\) or a function, got 'square'"),
    ({"chunk": 0}, "chunk must be an integer of at least 1, got 0"),
    ({"chunk": 1.9}, "chunk must be an integer of at least 1, got 1.9"),
    ({"damping": -1.0}, "damping must be a non-negative number, got -1.0"),
    ({"damping": float("nan")}, "damping must be a non-negative number, got nan"),
    ({"scheme": fo.schemes.B}, r"or a scheme such as B\(\), got <class"),
    ({"method": ["ij"]}, r"method must be 'auto' or one of"),
    ({"tolerance": 0.0}, "tolerance must be a positive number or None, got 0.0"),
    ({"tolerance": "tight"}, "tolerance must be a positive number or None, got 'tight'"),
    ({"check": "all"}, "method='auto' checks every fold, so check must be None, got 'all'"),
    (
        {"method": "ij", "check": "some"},
        "check must be 'all', a number of folds, False or None, got 'some'",
    ),
    ({"method": "ij", "check": 0}, "check must be 'all', a number of folds, False or None, got 0"),
    (
        {"scheme": fo.schemes.Increments()},
        "scheme increments leaves out increments, but the folds leave",
    ),
    ({"max_gradients": -3}, "max_gradients must be a positive number or None, got -3"),
    ({"max_seconds": True}, "max_seconds must be a positive number or None, got True"),
    ({"method": "ij", "max_seconds": 1}, "max_seconds is for method='auto' or 'exact', got method='ij'"),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSALS)
def test_refusals(fit, folds, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.cross_validate(fit, folds, **arguments)


def test_folds_made_for_other_sequences_of_the_same_total():
    with pytest.raises(ValueError, match=r"folds were made for sequences of 6, 10, .* data has 8, 5"):
        fo.cross_validate(sequences_fit(), fo.folds.future(SEQUENCES[::-1], steps=2))


def test_a_density_that_ignores_its_weights():
    fit = fo.fit(
        fo.models.Custom(lambda p, x, w: -0.5 * jnp.sum((x - p["m"]) ** 2), {"m": 0.0}), np.arange(5.0)
    )
    with pytest.raises(ValueError, match="log_density must depend on weights"):
        fo.cross_validate(fit, fo.folds.kfold(5, 5))


def test_folds_of_another_length(fit):
    with pytest.raises(ValueError, match="folds have 90 sites, data has 60"):
        fo.cross_validate(fit, fo.folds.kfold(90, 3))


def test_folds_that_score_only_missing_points_of_this_data(fit):
    with pytest.raises(ValueError, match="fold 1 has nothing to score"):
        fo.cross_validate(fit, fo.folds.sites([[3], [7]], 60))


def test_things_that_are_not_fits_or_folds(fit, folds):
    with pytest.raises(ValueError, match=r"fit must be a Fit from fo\.fit, got str"):
        fo.cross_validate("fit", folds)
    with pytest.raises(ValueError, match=r"folds must come from fo\.folds, got list"):
        fo.cross_validate(fit, [[1]])
    with pytest.raises(ValueError, match=r"wrap a scikit-learn splitter in fo\.folds\.from_splitter"):
        fo.cross_validate(fit, KFold(3))
    with pytest.raises(ValueError, match="against must be a CVResult, got str"):
        fo.cross_validate(fit, folds).plot(against="exact")
    with pytest.raises(ValueError, match="fold must be an integer between 0 and 6, got 7"):
        fo.cross_validate(fit, folds).params(7)


def test_compiled_loops_count_as_compiling(monkeypatch):
    spent = [0.0]
    monkeypatch.setattr(stopwatch, "seconds_of_compiling", lambda: spent[0])
    watch, started = stopwatch.Stopwatch(), time.perf_counter()
    before = stopwatch.now()
    time.sleep(0.02)
    spent[0] = 0.01
    seconds, compiling = watch.read()
    assert compiling == pytest.approx(0.01)
    assert compiling < seconds
    assert stopwatch.now() - before <= time.perf_counter() - started - 0.01


def test_compiling_is_told_apart_and_not_needed_twice(fit):
    folds = fo.folds.blocks(60, percent=15, n=3)
    again = [fo.cross_validate(fit, folds, method="onestep") for _ in range(2)]
    assert again[1].compiling == 0.0  # nothing of the second call is new
    own = lambda params, data, weights: data.values[0, :, 0] * weights  # noqa: E731
    new = fo.cross_validate(fit, folds, method="onestep", loss=own)
    assert 0.0 < new.compiling < new.seconds


def test_folds_at_an_edge_blame_no_budget_that_nobody_set():
    fit = fo.fit(POISSON, np.zeros(STEPS), restarts=1)
    cv = fo.cross_validate(fit, fo.folds.blocks(fit.data, percent=20, n=4))
    assert not cv.folds["status"].str.contains("budget").any()
    assert cv.n_unfinished == 0


def test_stop_ends_with_what_there_is(fit):
    folds = fo.folds.blocks(fit.data, percent=10, n=8)
    asked = []
    found = fo.cross_validate(fit, folds, method="exact", stop=lambda: bool(asked.append(1)) or True)
    assert asked
    assert len(found.folds) == 8
    assert found.folds["status"].str.contains("the budget ended").any()
    whole = fo.cross_validate(fit, folds, method="exact", stop=lambda: False)
    assert not whole.folds["status"].str.contains("budget").any()
