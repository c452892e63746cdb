"""Losses of forecasts by how many steps ahead they are."""

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit

import fitonce as fo

STARTS, HORIZON = list(range(30, 57, 2)), 4


def walk(steps, seed=0):
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.normal(size=steps)) + 0.3 * rng.normal(size=steps)


Y = walk(60)


@pytest.fixture(scope="module")
def fit():
    return fo.fit(fo.models.Structural("local"), Y)


def test_each_row_is_the_mean_over_folds_of_one_step_ahead(fit):
    cv = fo.cross_validate(fit, fo.folds.future(Y, start=STARTS, horizon=HORIZON), method="onestep")
    table = cv.by_steps_ahead()
    assert table.index.tolist() == [1, 2, 3, 4]
    assert (table["folds"] == len(STARTS)).all()
    rows = cv.pointwise.assign(ahead=cv.pointwise["time"] - np.take(STARTS, cv.pointwise["fold"]) + 1)
    for name in ("loss", "control"):
        np.testing.assert_allclose(table[name], rows.groupby("ahead")[name].mean(), rtol=1e-12)
    assert table["loss"].mean() == pytest.approx(cv.estimate, rel=1e-12)
    assert table["loss"].iloc[-1] > table["loss"].iloc[0]  # a random walk
    assert (table["se"] > 0).all()


def test_standard_errors_of_single_steps_are_about_those_of_independent_losses():
    """Of white noise, whose losses are independent: against the spread over 20 series."""
    model, means, errors = fo.models.GaussianHMM(1), [], []
    for seed in range(20):
        y = np.random.default_rng(seed).normal(size=120)
        folds = fo.folds.future(y, start=range(40, 118, 3), horizon=2)
        table = fo.cross_validate(fo.fit(model, y), folds, method="none").by_steps_ahead()
        means.append(table["loss"].to_numpy())
        errors.append(table["se"].to_numpy())
    spread, stated = np.std(means, axis=0), np.sqrt(np.mean(np.square(errors), axis=0))
    np.testing.assert_allclose(stated / spread, 1.0, atol=0.5)  # three standard errors of the spread


def test_folds_without_a_number_and_missing_steps_do_not_count(fit):
    gaps = np.r_[Y[:50], np.nan, Y[51:]]
    fit = fo.fit_at(fit.model, gaps, fit.params)
    cv = fo.cross_validate(fit, fo.folds.future(gaps, start=[46, 48, 50], horizon=3), method="none")
    assert cv.by_steps_ahead()["folds"].tolist() == [2, 3, 2]
    cv.folds.loc[1, "ok"] = False
    table = cv.by_steps_ahead()
    assert table["folds"].tolist() == [1, 2, 2]
    kept = cv.pointwise[(cv.pointwise["fold"] != 1) & (cv.pointwise["time"].isin([47, 51]))]
    assert table["loss"][2] == pytest.approx(kept["loss"].mean(), rel=1e-12)


def test_steps_are_counted_within_each_sequence_and_by_splitters(tmp_path):
    data = [walk(30, 1), walk(20, 2)]
    fit = fo.fit(fo.models.Structural("local"), data)
    cv = fo.cross_validate(fit, fo.folds.future(data, start=[14, 19], horizon=3), method="none")
    table = cv.by_steps_ahead()
    assert table["folds"].tolist() == [2, 2, 2]
    first = cv.pointwise[cv.pointwise["time"].isin([14]) | (cv.pointwise["time"] == 19)]
    by_fold = first[first["time"] == np.take([14, 19], first["fold"])].groupby("fold")["loss"].mean()
    assert table["loss"][1] == pytest.approx(by_fold.mean(), rel=1e-12)
    split = fo.folds.from_splitter(TimeSeriesSplit(4, test_size=2), data[0])
    alone = fo.fit(fo.models.Structural("local"), data[0])
    cv = fo.cross_validate(alone, split, method="none")
    assert cv.by_steps_ahead()["folds"].tolist() == [4, 4]
    again = fo.load(cv.save(tmp_path / "cv.json"))
    np.testing.assert_allclose(again.by_steps_ahead(), cv.by_steps_ahead(), rtol=1e-12)


def test_sequences_that_are_left_out_whole_do_not_count():
    """Their steps are not ahead of one that is kept."""
    data = [walk(30, 1), walk(20, 2), walk(3, 3)]
    fit = fo.fit(fo.models.GaussianHMM(1), data)
    cv = fo.cross_validate(fit, fo.folds.future(data, steps=[4], horizon=3), method="none")
    table = cv.by_steps_ahead()
    for step in (1, 2, 3):
        rows = cv.pointwise["site"].isin([25 + step, 45 + step])
        assert table["loss"][step] == pytest.approx(cv.pointwise["loss"][rows].mean(), rel=1e-12)
    whole = fo.folds.sites([np.arange(50, 53)], data)
    with pytest.raises(ValueError, match="by_steps_ahead needs folds that leave out the ends"):
        fo.cross_validate(fit, whole, method="none").by_steps_ahead()


@pytest.mark.parametrize(
    ("folds", "loss", "sentence"),
    [
        (fo.folds.blocks(Y, 10, 3), "pointwise", "folds that leave out the ends of sequences, such as"),
        (fo.folds.future(Y, [50], horizon=2), "joint", "a loss of each step, got loss='joint'"),
    ],
)
def test_other_folds_and_losses_are_refused(fit, folds, loss, sentence):
    cv = fo.cross_validate(fit, folds, method="none", loss=loss)
    with pytest.raises(ValueError, match=f"by_steps_ahead needs .*{sentence}"):
        cv.by_steps_ahead()
