"""Other optima: the pool of a fit, the search in the folds, and what results say of them."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from reproduce.cases import EARTHQUAKES as COUNTS
from scipy.optimize import minimize

import fitonce as fo
from fitonce.fitting.descent import Run
from fitonce.fitting.optima import distinct
from fitonce.objectives.families import objective_of
from fitonce.results.missed import with_missed

FOLDS = fo.folds.blocks(COUNTS, percent=10, n=100, seed=0)


def runs(*values):
    return [Run(np.array([value]), value, 0.0, 0.0) for value in values]


@pytest.fixture(scope="module")
def two():
    return fo.fit(fo.models.PoissonHMM(2), COUNTS)


@pytest.fixture(scope="module")
def four():
    return fo.fit(fo.models.PoissonHMM(4), COUNTS)


@pytest.fixture(scope="module")
def searched(four):
    return fo.cross_validate(four, FOLDS)


@pytest.fixture(scope="module")
def local(four):
    return fo.cross_validate(four, FOLDS, optima=0)


@pytest.fixture(scope="module")
def five():
    return fo.fit(fo.models.PoissonHMM(5), COUNTS)


def objectives(fit, cv, folds=FOLDS):
    """(F,) at the folds' parameters, at the folds' weights."""
    return fit.objective.values_and_gradients(cv.theta, folds.weights)[0]


def cold(fit, weights, starts, seed):
    """The least objective from random starts, by SciPy: nothing of the search is used."""
    rng, best = np.random.default_rng(seed), np.inf

    def value(theta):
        values, gradients = fit.objective.values_and_gradients(theta[None], weights[None])
        return values[0], gradients[0]

    for _ in range(starts):
        start = fit.objective.start(rng) + 0.3 * rng.normal(size=fit.objective.space.size)
        end = minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-6})
        best = min(best, end.fun)
    return best


# --- the pool of a fit ---------------------------------------------------------------------------


def test_ends_with_one_value_are_one_optimum():
    pool = distinct(runs(3.0, 1.0, 1.0 + 1e-6, np.inf, 2.0, 1.0, np.nan))
    assert pool.values.tolist() == [1.0, 2.0, 3.0]
    assert pool.found.tolist() == [3, 1, 1]
    assert pool.starts == 5
    assert pool.unseen == pytest.approx(2 / 5)


def test_a_fit_starts_more_often_where_starts_disagree(four, two):
    assert two.optima.starts == 8
    assert len(two.optima) == 1
    assert four.optima.starts > 3
    assert len(four.optima) > 2
    np.testing.assert_array_equal(four.optima.thetas[0], four.theta)
    assert (np.diff(four.optima.values) > 0).all()
    assert "other optima" in repr(four)


def test_the_other_optima_are_stationary_points_of_all_data(four):
    weights = np.tile(four.objective.base, (len(four.optima), 1))
    gradients = four.objective.gradients(four.optima.thetas, weights)
    hessians = four.objective.hessians(four.optima.thetas, weights)
    for gradient, hessian in zip(gradients, hessians, strict=True):
        assert np.sqrt(gradient @ np.linalg.solve(hessian, gradient)) < 0.01
        assert np.linalg.eigvalsh(hessian)[0] > 0


def test_five_states_reach_the_better_optimum(five):
    """Three starts end at 335.007 or above; 334.796 exists."""
    assert five.value == pytest.approx(334.7958, abs=1e-4)


def test_without_a_search_there_are_only_the_given_starts():
    fit = fo.fit(fo.models.PoissonHMM(4), COUNTS, optima=0)
    assert len(fit.values_of_starts) == 8
    assert len(fit.optima) == 1


def test_a_given_start_is_the_only_one(four):
    fit = fo.fit(four.model, COUNTS, init=four.params)
    assert len(fit.optima) == 1
    assert fit.optima.sentence == "other optima were not looked for"


# --- the search in the folds ---------------------------------------------------------------------


def test_no_fold_is_above_cold_refits_by_an_independent_minimiser(four, searched, local):
    found, before = objectives(four, searched), objectives(four, local)
    assert (found <= before + 1e-6).all()
    moved = np.flatnonzero(searched.folds["optimum"] != 0)
    assert len(moved) == 15  # as an independent EM from many starts found, too
    for fold in [*moved[:2], 50]:
        assert found[fold] <= cold(four, FOLDS.weights[fold], 15, fold) + 1e-3


def test_the_estimate_is_that_of_the_better_optima(searched):
    assert searched.estimate == pytest.approx(3.3506, abs=1e-4)  # by an independent EM


def test_gains_and_shifts_are_differences_from_the_local_result(four, searched, local):
    gains = objectives(four, local) - objectives(four, searched)
    np.testing.assert_allclose(searched.folds["gain"], gains, atol=1e-6)
    shifts = searched.folds["loss"] - local.folds["loss"]
    np.testing.assert_allclose(searched.folds["shift"], shifts, atol=1e-6)
    assert set(local.folds["optimum"]) == {0}


def test_folds_move_to_optima_that_all_data_do_not_have(two):
    cv = fo.cross_validate(two, FOLDS)
    moved = np.flatnonzero(cv.folds["optimum"] != 0)
    assert moved.tolist() == [4, 65]
    assert (cv.folds.loc[moved, "gain"] > 0.26).all()
    assert (cv.folds.loc[moved, "status"] == "stationary").all()


def test_moved_folds_are_certified_minima(four, searched):
    moved = np.flatnonzero(searched.folds["optimum"] != 0)
    hessians = four.objective.hessians(searched.theta[moved], FOLDS.weights[moved])
    gradients = four.objective.gradients(searched.theta[moved], FOLDS.weights[moved])
    for gradient, hessian in zip(gradients, hessians, strict=True):
        assert np.linalg.eigvalsh(hessian)[0] > 0
        assert np.sqrt(gradient @ np.linalg.solve(hessian, gradient)) < 1e-6


def test_the_order_of_folds_does_not_matter(four, searched):
    order = np.random.default_rng(0).permutation(len(FOLDS))
    other = fo.cross_validate(four, FOLDS.some(order))
    np.testing.assert_allclose(other.folds["loss"], searched.folds["loss"].to_numpy()[order], atol=1e-9)


def test_exact_and_auto_find_the_same_optima(four, searched):
    exact = fo.cross_validate(four, FOLDS, method="exact")
    np.testing.assert_allclose(exact.folds["loss"], searched.folds["loss"], atol=1e-6)


def test_an_optimum_found_once_or_twice_is_not_called_good(searched):
    for ways, words in ((1, "found once only"), (2, "found twice only")):
        these = searched.folds["ways"] == ways
        assert these.any()
        assert set(searched.folds.loc[these, "verdict"]) == {"fair"}
        assert searched.folds.loc[these, "status"].str.contains(words).all()
    assert set(searched.folds.loc[searched.folds["ways"] > 2, "verdict"]) == {"good"}


def test_folds_that_moved_far_are_doubted_like_others(four, searched, monkeypatch):
    some = np.flatnonzero(searched.folds["missed"] == "seldom")[:4]
    near = fo.cross_validate(four, FOLDS.some(some), optima=1)
    monkeypatch.setattr("fitonce.crossval.assemble._AWAY", 0.0)
    far = fo.cross_validate(four, FOLDS.some(some), optima=1)
    away = far.folds["away"]
    assert (away & (far.folds["missed"] != "")).any()
    assert far.folds["missed"].equals(near.folds["missed"])
    assert far.doubts == near.doubts != []
    assert far.about_optima == near.about_optima
    for message in far.folds.loc[away & (far.folds["missed"] != ""), "status"]:
        assert "standard errors from the full fit" in message
        assert message.endswith("there may be a better optimum")


def test_files_without_the_reason_have_it_in_words(searched):
    assert set(searched.folds["missed"]) == {"", "seldom"}
    old = searched.folds.drop(columns="missed")
    assert with_missed(old)["missed"].equals(searched.folds["missed"])
    for words, reason in (
        ("found by one start only: there may be a better optimum", "seldom"),
        ("not searched, and starts of the fit disagree: there may be a better optimum", "unsearched"),
        ("most starts ended in an optimum of their own: there may be a better one", ""),
    ):
        assert set(with_missed(old.assign(status=words))["missed"]) == {reason}


def test_a_worse_fit_is_told_and_the_better_one_offered(four, tmp_path):
    worse = fo.fit(four.model, COUNTS, init=four.objective.space.params_at(four.optima.thetas[1]))
    assert worse.ok
    assert worse.value > four.value + 0.5
    cv = fo.cross_validate(worse, FOLDS)
    assert "not the best optimum" in repr(cv).splitlines()[1]
    doubts = "; ".join(fo.compare({"worse": cv}).doubts)
    assert cv.better_by == pytest.approx(worse.value - four.value, abs=1e-5)
    by = f"a fold led to one that is {worse.value - four.value:.2g} nats better"
    assert by in repr(cv).splitlines()[1]
    assert f"worse, {by}" in doubts
    assert "optima=50" in doubts
    said = "fo.fit(fit.model, fit.data), or `fitonce fit`, has random ones where the model has"
    assert cv.about_optima.endswith(f"; the fit had no other starts: {said}")
    assert "better, fo.fit(fit.model, fit.data); --optima 50" in repr(cv).splitlines()[1]
    assert "at a fit without other starts" in repr(cv)
    with_starts = fo.fit(worse.model, worse.data)  # as is advised
    assert with_starts.value < worse.value - 0.5
    assert "without other starts" not in repr(fo.cross_validate(with_starts, FOLDS.some([0])))
    again = fo.fit(four.model, COUNTS, init=cv.better)
    assert again.value == pytest.approx(four.value, abs=1e-6)
    back = fo.load(cv.save(tmp_path / "cv.json"))
    np.testing.assert_array_equal(back.better_theta, cv.better_theta)
    assert repr(back) == repr(cv)
    assert back.better_by == cv.better_by
    assert "not at its best optimum" in back.to_html(tmp_path / "cv.html").read_text(encoding="utf-8")


# --- what results say ----------------------------------------------------------------------------


def test_the_trust_line_says_what_moved(two, searched):
    assert "other optima: 15 of 100 folds moved, estimate +0.0247, included" in repr(searched)
    assert "none better was found in any fold" in repr(fo.cross_validate(two, FOLDS.some(np.arange(3))))
    for how in ({"optima": 0}, {"method": "onestep"}):
        assert "local: other optima" in repr(fo.cross_validate(two, FOLDS, **how))


def test_convex_models_have_one_optimum():
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(6, 2)) for _ in range(8)]
    tags = [rng.integers(0, 2, 6) for _ in features]
    fit = fo.fit(fo.models.LinearChainCRF(scale=1.0), fo.labelled(features, tags))
    folds = fo.folds.structures(fit.data)
    cv, local = (fo.cross_validate(fit, folds, optima=n) for n in (10, 0))
    assert cv.optima_search == "convex"
    assert "optima" not in repr(cv)
    assert cv.folds["gradients"].equals(local.folds["gradients"])


def test_saved_results_keep_it(searched, tmp_path):
    back = fo.load(searched.save(tmp_path / "cv.json"))
    assert back.optima_search == "searched"
    columns = ["optimum", "gain", "shift", "ways", "missed"]
    assert back.folds[columns].equals(searched.folds[columns])


@pytest.mark.parametrize("optima", [-1, 1.5, "many", None, True])
def test_optima_must_be_a_number_of_starts(two, optima):
    message = "optima must be an integer of at least 0"
    with pytest.raises(ValueError, match=message):
        fo.cross_validate(two, FOLDS, optima=optima)
    with pytest.raises(ValueError, match=message):
        fo.fit(two.model, COUNTS, optima=optima)


def test_long_data_are_searched_in_some_folds_only():
    rng = np.random.default_rng(1)
    states = np.cumsum(rng.random(20_000) < 0.02) % 2
    x = rng.poisson(np.array([2.0, 9.0])[states]).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(2), x, restarts=1)
    folds = fo.folds.blocks(x, percent=2, n=40, seed=0)
    cv = fo.cross_validate(fit, folds, method="exact")
    local = fo.cross_validate(fit, folds, method="exact", optima=0)
    assert cv.optima_search == "partly"
    assert "in some of the folds only" in repr(cv)
    cost = fit.objective.gradients_per_hessian
    work = [c.folds["gradients"].sum() + cost * c.folds["hessians"].sum() for c in (local, cv)]
    cheap = 1e9 / fit.objective.bytes_per_fold  # gradients that are always allowed
    assert 0 < work[1] - work[0] <= 1.5 * max(work[0], cheap)


def test_points_are_compared_with_the_other_optima_of_the_fit(five):
    fit, folds = five, fo.folds.points(five.data)
    found, local = fo.loo(fit), fo.loo(fit, optima=0)
    before, after = (objectives(fit, cv, folds) for cv in (local, found))
    moved = (found.folds["optimum"] != 0).to_numpy()
    assert moved.sum() > 20
    assert (after[moved] < before[moved] - 1e-3).all()
    some = np.flatnonzero(moved)[:10]
    exact = fo.cross_validate(fit, folds.some(some), method="exact")
    assert (after[some] < objectives(fit, exact, folds.some(some)) + 0.01).all()
    assert found.optima_search == "compared"
    assert (found.starts, local.starts) == (10, 0)
    assert fo.loo(fit, refine=3).folds["rung"].eq("other").sum() <= 3


def test_a_fit_with_one_optimum_has_none_to_compare_points_with(two):
    cv = fo.loo(two)
    assert cv.optima_search == "compared"
    assert (cv.folds["optimum"] == 0).all()
    assert fo.loo(fo.fit(two.model, COUNTS, restarts=1)).optima_search == "local"


def test_a_budget_that_is_spent_leaves_no_search(four):
    cv = fo.cross_validate(four, FOLDS, max_gradients=150)
    assert cv.optima_search == "local"
    assert cv.folds["gradients"].sum() < 1000


@pytest.mark.parametrize("kernel", ["native", pytest.param("scan", marks=pytest.mark.slow)])
def test_compiled_chains_find_the_same_optima(kernel, four, searched):
    """From a fit at a worse optimum, to which folds may not stay bound."""
    worse = four.objective.space.params_at(four.optima.thetas[1])
    fit = fo.fit(four.model, COUNTS, init=worse, kernel=kernel)
    some = np.arange(0, 100, 25)
    cv = fo.cross_validate(fit, FOLDS.some(some), method="exact")
    assert cv.optima_search in ("searched", "partly")
    best = objectives(four, searched, FOLDS)[some]
    np.testing.assert_allclose(objectives(four, cv, FOLDS.some(some)), best, atol=1e-6)


def two_ways(model, data, folds, worse):
    """Folds' objectives from a fit at a worse optimum, with the search and without."""
    fit = fo.fit(model, data, init=worse)
    found = [fo.cross_validate(fit, folds, method="exact", optima=n) for n in (10, 0)]
    if folds.kind == "sequences":
        fit = replace(fit, objective=fit.objective.with_scheme(fo.schemes.Structures()))
    return [objectives(fit, cv, folds) for cv in found]


def test_sequences_are_searched():
    rng = np.random.default_rng(0)
    data = [rng.poisson(rng.choice([3.0, 9.0, 20.0], 12)).astype(float) for _ in range(9)]
    fit = fo.fit(fo.models.PoissonHMM(4), data, restarts=20)
    assert len(fit.optima) > 1
    worse = fit.params_at(fit.optima.thetas[-1])
    with_search, without = two_ways(fit.model, data, fo.folds.structures(fit.data), worse)
    assert (without - with_search > 0.01).all()


def test_maps_are_searched():
    rng = np.random.default_rng(1)
    edges = [(k, k + 1) for k in range(29)]
    model = fo.models.PottsMixture(edges, n_classes=3, emission="poisson", beta=0.2)
    counts = rng.poisson(rng.choice([3.0, 8.0, 20.0], 30))
    fit = fo.fit(model, counts, restarts=10)
    assert len(fit.optima) > 1
    folds = fo.folds.regions(model, percent=10, n=4)
    with_search, without = two_ways(model, counts, folds, fit.params_at(fit.optima.thetas[-1]))
    best = objectives(fit, fo.cross_validate(fit, folds, method="exact"), folds)
    np.testing.assert_allclose(with_search, best, atol=1e-6)
    assert (without - best > 1.0).sum() == 2


def test_places_where_em_slows_down_are_no_optima():
    rng = np.random.default_rng(0)
    edges = [(k, k + 1) for k in range(29)]
    model = fo.models.PottsMixture(edges, n_classes=3, emission="poisson", beta=0.5)
    fit = fo.fit(model, rng.poisson(np.repeat([3.0, 8.0, 15.0], 10)), restarts=20, optima=0)
    assert fit.optima.found.tolist() == [20]
    again = fo.fit(model, fit.data, restarts=1, seed=7)
    assert again.value == pytest.approx(fit.value, abs=1e-6)


def test_frozen_parameters_stay_where_they_are():
    frozen = fo.models.PoissonHMM(2, frozen={"transition": [[0.9, 0.1], [0.1, 0.9]]})
    cv = fo.cross_validate(fo.fit(frozen, COUNTS), FOLDS.some(np.arange(5)))
    assert cv.optima_search == "searched"
    np.testing.assert_array_equal(cv.params(3)["transition"], [[0.9, 0.1], [0.1, 0.9]])


def test_scheme_b_is_searched(four):
    some = FOLDS.some(np.arange(0, 100, 10))
    cv, local = (fo.cross_validate(four, some, scheme="B", optima=n) for n in (10, 0))
    objective = four.objective.with_scheme(fo.schemes.B())
    values = [[objective(t, w) for t, w in zip(r.theta, some.weights, strict=True)] for r in (cv, local)]
    moved = (cv.folds["optimum"] != 0).to_numpy()
    assert moved.any()
    assert (np.subtract(*values)[moved] < -1e-3).all()
    np.testing.assert_allclose(np.subtract(*values)[~moved], 0.0, atol=1e-6)


@pytest.mark.slow
def test_little_memory_finds_the_same(four, searched):
    cv = fo.cross_validate(four, FOLDS, memory_limit="70MB")
    np.testing.assert_allclose(cv.folds["loss"], searched.folds["loss"], atol=1e-6)


def test_starts_that_equal_the_first_are_passed_over():
    """k-means may give the first start again, by chance."""
    edges = [(k, k + 1) for k in range(29)]
    model = fo.models.PottsMixture(edges, n_classes=3, emission="gaussian", beta=0.3)
    y = np.random.default_rng(0).normal(np.repeat([0, 4.0], 15))
    for seed in range(3):
        assert len(fo.fit(model, y, restarts=6, seed=seed, optima=0).values_of_starts) == 6


def test_a_model_with_one_start_says_so(tmp_path):
    only = fo.models.Custom(lambda p, x, w: -jnp.sum(w * (x - p) ** 2), 0.0)
    fit = fo.fit(only, np.arange(4.0), restarts=6)
    assert len(fit.values_of_starts) == 1
    said = "the model has no random starts; fo.fit(..., init=) begins elsewhere"
    assert f"Optima: other optima were not looked for: {said}\n" in repr(fit.optima)
    cv = fo.cross_validate(fit, fo.folds.points(4))
    assert cv.about_optima.endswith(f"which had no other starts: {said}")
    assert fo.load(cv.save(tmp_path / "cv.json")).about_optima == cv.about_optima
    assert not fo.fit(only, np.arange(4.0), restarts=1).optima.single


@pytest.mark.parametrize("emission", ["gaussian", "student-t", fo.models.GaussianRegression(["u0"])])
def test_maps_of_numbers_have_random_starts(emission):
    """In one channel k-means ends where it always does."""
    rng, edges = np.random.default_rng(0), [(k, k + 1) for k in range(39)]
    data = fo.sequences(rng.normal(np.repeat([0, 4.0], 20)), covariates=rng.normal(size=(40, 1)))
    model = fo.models.PottsMixture(edges, 2, emission, beta=0.3)
    objective = objective_of(model, data)
    name = "location" if emission == "student-t" else "mean"
    starts = [objective.start(np.random.default_rng(seed)) for seed in range(6)]
    found = [objective.space.params_at(start)[name] for start in starts]
    assert len(np.unique(np.round(found, 9), axis=0)) == 6
    assert (np.diff(found, axis=1) > 0).all()  # classes in increasing order
    if emission == "gaussian":
        assert fo.fit(model, data, restarts=6).optima.starts >= 6
        with pytest.raises(ValueError, match=r"^score of other data needs a model of sequences"):
            fo.fit(model, data, restarts=1).score(data)


def test_a_fold_whose_optimum_needs_starts_that_have_not_seen_it():
    rng = np.random.default_rng(4)
    z = np.cumsum(rng.random(80) < 0.1) % 2
    chances = [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]
    x = np.array([rng.choice(3, p=chances[k]) for k in z]).astype(float)
    model, folds = fo.models.CategoricalHMM(2, 3), fo.folds.kfold(x, 5)
    fit = fo.fit(model, x)
    cv = fo.cross_validate(fit, folds)
    without = x.copy()
    without[folds.dropped[0]] = np.nan
    assert objectives(fit, cv, folds)[0] == pytest.approx(fo.fit(model, without).value, abs=1e-6)


def test_good_needs_a_search_where_starts_of_the_fit_disagree(four, two):
    local = fo.cross_validate(four, FOLDS.some(np.arange(5)), optima=0)
    assert set(local.folds["verdict"]) == {"fair"}
    points = fo.loo(four).folds
    unsearched = points["status"].str.contains("other starts or folds disagree")
    assert unsearched.sum() > 80
    assert "good" not in set(points.loc[unsearched, "verdict"])
    assert set(fo.cross_validate(two, FOLDS, optima=0).folds["verdict"]) == {"good"}
