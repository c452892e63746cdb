"""Models as estimators of scikit-learn: cloned, searched over, in pipelines, cross-validated."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneGroupOut,
    TimeSeriesSplit,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import fitonce as fo

Estimator = fo.sklearn.Estimator


@pytest.fixture(scope="module")
def sequences():
    """Eight sequences with two states that are easy to tell apart."""
    rng = np.random.default_rng(0)
    states = [np.cumsum(rng.random(30) < 0.1) % 2 for _ in range(8)]
    return [rng.normal(3.0 * z[:, None], 1.0, (30, 2)) for z in states]


@pytest.fixture(scope="module")
def table(sequences):
    days = pd.date_range("2024-01-01", periods=120, name="day")
    return pd.DataFrame(np.concatenate(sequences[:4]), index=days, columns=["east", "west"])


@pytest.fixture(scope="module")
def fitted(sequences):
    return Estimator(fo.models.GaussianHMM(2), restarts=1).fit(sequences)


def test_a_score_is_the_mean_log_likelihood_of_a_sequence_or_of_a_step(fitted, sequences, table):
    assert fitted.score(sequences) == pytest.approx(fitted.fit_.log_likelihood / 8, rel=1e-10)
    one = clone(fitted).fit(table)
    assert one.score(table) == pytest.approx(one.fit_.log_likelihood / 120, rel=1e-10)
    assert one.feature_names_in_.tolist() == ["east", "west"]
    assert fitted.n_features_in_ == one.n_features_in_ == 2


def test_a_step_that_is_not_observed_has_no_score(fitted, table):
    one = clone(fitted).fit(table)
    assert one.predict(table * np.nan).shape == (120,)
    with pytest.raises(ValueError, match="must have an observed value, got only missing ones"):
        one.score(table * np.nan)


def test_predictions_have_the_form_of_the_data(fitted, sequences, table):
    states, shares = fitted.predict(sequences), fitted.predict_proba(sequences)
    assert [len(part) for part in states] == [len(part) for part in shares] == [30] * 8
    np.testing.assert_array_equal(states[0], fo.predict(fitted.fit_)[0])
    np.testing.assert_allclose(shares[1], fo.marginals(fitted.fit_)[1])
    whole = fitted.predict(table.to_numpy())
    assert whole.shape == (120,)
    assert fitted.predict_proba(table.to_numpy()).shape == (120, 2)


def test_pandas_in_and_out_keeps_index_and_names(table):
    estimator = Estimator(fo.models.GaussianHMM(2), restarts=1).set_output(transform="pandas")
    shares = estimator.fit_transform(table)
    assert shares.index.equals(table.index)
    assert shares.columns.tolist() == ["state0", "state1"]
    cv = estimator.cross_validate(table, cv=KFold(4), method="none", check=False)
    assert cv.to_dataframe("pointwise")["place"][:2].tolist() == ["2024-01-01", "2024-01-02"]
    assert estimator.fit_.data.channels == ("east", "west")


def test_fields_of_the_model_are_parameters():
    estimator = Estimator(fo.models.GaussianHMM(2))
    known = estimator.get_params()
    assert known["model__n_states"] == 2
    assert known["model__emission__strength"] == estimator.model.emission.strength
    estimator.set_params(model__n_states=3, model__emission__strength=2.0, seed=4)
    assert estimator.model == fo.models.GaussianHMM(3, strength=2.0)
    assert estimator.seed == 4
    # Neither is valid without the other.
    estimator.set_params(model__n_states=2, model__initial_concentration=[2.0, 3.0])
    assert estimator.model.n_states == 2
    other = clone(estimator)
    assert other.model == estimator.model
    assert other.model is not estimator.model


def test_a_grid_search_finds_the_number_of_states(sequences):
    grid, splitter = {"model__n_states": [1, 2]}, KFold(2)
    search = GridSearchCV(Estimator(fo.models.GaussianHMM(1), restarts=1), grid, cv=splitter)
    search.fit(sequences)
    assert search.best_params_ == {"model__n_states": 2}
    models = {str(k): fo.models.GaussianHMM(k) for k in (1, 2)}
    folds = fo.folds.from_splitter(splitter, fo.sequences(sequences), over="sequences")
    found = fo.select(models, sequences, folds, restarts=1, optima=0)
    assert found.best == "2"
    # The scores are minus our losses, but for priors that take their scale from the kept sequences.
    ours = -found.table["estimate"].to_numpy()
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], ours, rtol=2e-3)


def test_pipelines_end_or_begin_with_an_estimator(table, sequences):
    estimator = Estimator(fo.models.GaussianHMM(2), restarts=1)
    scaled = make_pipeline(StandardScaler(), estimator).fit(table)
    # Densities of scaled values are larger by the scales.
    scales = np.log(scaled[0].scale_).sum()
    assert scaled.score(table) - scales == pytest.approx(
        clone(estimator).fit(table).score(table), abs=0.05
    )
    first = FunctionTransformer(lambda parts: [part[:, :1] for part in parts])
    assert len(make_pipeline(first, clone(estimator)).fit(sequences).predict(sequences)) == 8


def test_cross_validation_is_ours_and_agrees_with_refits(fitted, sequences):
    cv = fitted.cross_validate(sequences, cv=KFold(4), method="exact")
    assert cv.fit is fitted.fit_
    refits = cross_val_score(fitted, sequences, cv=KFold(4))
    # Priors of refits take their scale from the kept sequences.
    np.testing.assert_allclose(cv.to_sklearn()["test_score"], refits, rtol=2e-3)
    assert clone(fitted).cross_validate(sequences, cv=KFold(4), method="none", check=False).se > 0


def test_cross_validation_takes_folds_numbers_and_pairs(fitted, sequences, table):
    quick = {"method": "none", "check": False}
    folds = fo.folds.structures(fo.sequences(sequences))
    assert len(fitted.cross_validate(sequences, cv=folds, **quick).folds) == 8
    assert len(fitted.cross_validate(sequences, cv=3, **quick).folds) == 3
    pairs = [(np.arange(100), np.arange(100, 120))]
    one = clone(fitted).cross_validate(table, cv=pairs, **quick)
    assert one.pointwise["site"].tolist() == list(range(100, 120))
    groups = [0, 0, 1, 1, 2, 2, 3, 3]

    assert (
        len(fitted.cross_validate(sequences, cv=LeaveOneGroupOut(), groups=groups, **quick).folds) == 4
    )


def test_missing_values_and_covariates_are_read(table):
    holes = table.copy()
    holes.iloc[10:15] = np.nan
    estimator = Estimator(fo.models.GaussianHMM(2), restarts=1).fit(holes)
    assert estimator.fit_.data.weights.sum() == 115
    assert estimator.predict(holes).shape == (120,)
    emission = fo.models.GaussianRegression(regressors=["west"])
    beside = Estimator(fo.models.HMM(1, emission), restarts=1, covariates=["west"]).fit(table)
    assert beside.fit_.data.channels == ("east",)
    assert beside.score(table) == pytest.approx(beside.fit_.log_likelihood / 120, rel=1e-10)
    listed = clone(beside).fit([table[:60], table[60:]])
    assert listed.n_features_in_ == 2


def test_labels_are_y():
    rng = np.random.default_rng(1)
    tags = [rng.choice(["a", "b"], 6) for _ in range(10)]
    X = [np.stack([np.where(part == "a", 1.0, -1.0), rng.normal(size=6)], 1) for part in tags]
    estimator = Estimator(fo.models.LinearChainCRF()).fit(X, tags)
    assert estimator.predict(X)[0] == tags[0].tolist()
    assert estimator.score(X, tags) == pytest.approx(estimator.fit_.log_likelihood / 10, rel=1e-9)
    assert len(estimator.cross_validate(X, tags, cv=5, method="none", check=False).folds) == 5
    assert estimator.__sklearn_tags__().target_tags.required
    search = GridSearchCV(estimator, {"model__scale": [0.1, 3.0]}, cv=KFold(2)).fit(X, tags)
    assert search.best_params_ == {"model__scale": 3.0}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e, x: e.fit(x[0][:, 0]), "Expected 2D array"),
        (lambda e, x: e.fit(x[0][:1]), "1 sample"),
        (lambda e, x: e.set_params(states=3), "invalid parameter 'states'"),
        (lambda e, x: e.set_params(model__states=3), "HMM has no field 'states'"),
        (lambda e, x: e.set_params(model__n_states__x=3), "int has no field 'x'"),
        (lambda e, x: e.fit(x).predict([part[:, :1] for part in x]), "X has 1 features, but the"),
        (lambda e, x: Estimator(fo.models.LinearChainCRF()).fit(x), "requires y, the labels"),
        (lambda e, x: Estimator(3).fit(x), "model must be one of fo.models"),
        (
            lambda e, x: Estimator(fo.models.PottsMixture([(0, 1)], 2, "gaussian")).fit(x[0]),
            r"takes a model of sequences or of labels, got PottsMixture, .*; use fo.fit and",
        ),
    ],
)
def test_what_cannot_be_is_said(sequences, call, words):
    with pytest.raises(ValueError, match=words):
        call(Estimator(fo.models.GaussianHMM(1), restarts=1), sequences)


def test_an_array_of_three_dimensions_holds_sequences(fitted, sequences):
    stacked = np.stack(sequences)  # (8, 30, 2)
    estimator = clone(fitted).fit(stacked)
    assert estimator.fit_.log_likelihood == pytest.approx(fitted.fit_.log_likelihood, rel=1e-12)
    assert estimator.fit_.data.lengths.tolist() == [30] * 8
    assert estimator.n_features_in_ == 2
    assert estimator.score(stacked[:3]) == pytest.approx(fitted.score(sequences[:3]), rel=1e-8)
    np.testing.assert_array_equal(estimator.predict(stacked), fitted.predict(sequences))
    np.testing.assert_allclose(
        estimator.predict_proba(stacked), fitted.predict_proba(sequences), atol=1e-7
    )
    cv = estimator.cross_validate(stacked, cv=KFold(4), method="none", check=False)
    ours = fitted.cross_validate(sequences, cv=KFold(4), method="none", check=False)
    assert cv.fit is estimator.fit_
    assert cv.estimate == pytest.approx(ours.estimate, rel=1e-8)
    search = GridSearchCV(estimator, {"model__n_states": [1, 2]}, cv=KFold(2)).fit(stacked)
    assert search.best_params_ == {"model__n_states": 2}
    with pytest.raises(ValueError, match="X has 1 features, but the Estimator is expecting 2"):
        estimator.score(stacked[..., :1])


def test_a_state_space_model_is_fitted_scored_and_cross_validated(table):
    walk = table[["east"]].cumsum()
    estimator = Estimator(fo.models.Structural(), restarts=1).fit(walk)
    fit = fo.fit(fo.models.Structural(), walk, restarts=1)
    assert estimator.score(walk) == pytest.approx(fit.log_likelihood / 120, rel=1e-10)
    level = estimator.set_output(transform="pandas").transform(walk)
    np.testing.assert_allclose(level["level"], fit.smoothed().to_dataframe()["level"], atol=1e-8)
    assert level.index.equals(walk.index)
    ours = fo.cross_validate(fit, fo.folds.from_splitter(TimeSeriesSplit(3), walk))
    cv = estimator.cross_validate(walk, cv=TimeSeriesSplit(3))
    assert cv.estimate == pytest.approx(ours.estimate, abs=1e-6)
    for verb in ("predict", "predict_proba"):
        with pytest.raises(ValueError, match=rf"{verb} needs a model with classes.*Use transform"):
            getattr(estimator, verb)(walk)
    parts = [walk[:60], walk[60:]]
    kinds = {"model": [fo.models.Structural(), fo.models.SARIMAX((1, 0, 0))]}
    search = GridSearchCV(clone(estimator), kinds, cv=KFold(2)).fit(parts)
    best = search.best_estimator_.set_output(transform="default")
    assert [len(part) for part in best.transform(parts)] == [60, 60]


def test_an_estimator_that_is_not_fitted_says_so(sequences):
    for method in ("predict", "predict_proba", "transform", "score"):
        with pytest.raises(NotFittedError):
            getattr(Estimator(fo.models.GaussianHMM(1)), method)(sequences)


@pytest.mark.slow
def test_scikit_learns_own_checks_pass_where_they_apply():
    from benchmarks import estimator_checks

    found = estimator_checks.results()
    failed = {name for name, (status, _) in found.items() if status == "failed"}
    assert failed == set(estimator_checks.NOT_APPLICABLE)
    assert sum(status == "passed" for status, _ in found.values()) >= 40
    page = (Path(__file__).parents[1] / "docs" / "peers.md").read_text()
    shown = re.findall(r"scikit-learn (\d+\.\d+\.\d+)\)", page)
    if shown == [sklearn.__version__]:  # others may have other checks
        assert "\n".join(estimator_checks.rows(found)) in page


def test_other_data_and_settings_need_another_fit():
    rng = np.random.default_rng(0)
    words = [[{"a": 1.0}, {"b": 1.0}], [{"b": 1.0}, {"a": 1.0}]] * 4
    others = [[{"a": 1.0}, {"c": 1.0}], [{"c": 1.0}, {"b": 1.0}]] * 4
    tags = [["x", "y"], ["y", "x"]] * 4
    estimator = fo.sklearn.Estimator(fo.models.LinearChainCRF()).fit(words, tags)
    assert np.isfinite(estimator.score(others[:2], tags[:2]))  # attributes that were never seen
    again = estimator.cross_validate(others, tags, cv=2)
    fresh = fo.sklearn.Estimator(fo.models.LinearChainCRF()).cross_validate(others, tags, cv=2)
    assert again.estimate == fresh.estimate
    heat = rng.normal(size=80)
    table = pd.DataFrame({"x": rng.poisson(np.exp(1 + heat)), "heat": heat})
    model = fo.models.HMM(1, fo.models.PoissonRegression(["heat"]))
    known = fo.sklearn.Estimator(model, covariates="heat").fit(table)
    moved = known.cross_validate(table.assign(heat=heat[::-1]), cv=2)
    assert moved.estimate > known.cross_validate(table, cv=2).estimate + 0.1
