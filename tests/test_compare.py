"""compare and select: paired differences, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fitonce as fo
from fitonce.core.status import Outcome, Status


@pytest.fixture(scope="module")
def data():
    return np.random.default_rng(1).poisson(np.tile(np.repeat([2.0, 9.0], 10), 3)).astype(float)


@pytest.fixture(scope="module")
def folds(data):
    return fo.folds.blocks(data, percent=10, n=12)


@pytest.fixture(scope="module")
def selection(data, folds):
    range_ = {f"{k} states": fo.models.PoissonHMM(k) for k in (1, 2)}
    return fo.select(range_, data, folds, loss="pointwise", restarts=1)


def test_the_better_model_is_first_and_its_difference_is_paired(selection):
    found = fo.compare(selection.results)
    assert found.best == "2 states"
    row = found.table.loc["1 states"]
    a, b = (selection.results[name].folds["loss"] for name in ("1 states", "2 states"))
    assert row["difference"] == pytest.approx((a - b).mean(), rel=1e-12)
    assert found.table.loc["2 states", "se"] == pytest.approx(
        selection.results["2 states"].se, rel=1e-12
    )
    assert row["ratio"] == pytest.approx(row["difference"] / row["difference_se"])
    assert found.differences("1 states", "2 states")["difference"].mean() > 0


def test_what_both_lose_cancels(selection):
    """Adding the same to both results changes no difference and none of its standard errors."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0.0, 5.0, len(selection.results["1 states"].pointwise))
    noisy = {}
    for name, result in selection.results.items():
        rows = result.pointwise.assign(loss=result.pointwise["loss"] + noise)
        table = result.folds.assign(loss=rows.groupby("fold")["loss"].mean())
        noisy[name] = replace(result, pointwise=rows, folds=table)
    plain, shaken = fo.compare(selection.results).table, fo.compare(noisy).table
    assert shaken.loc["1 states", "difference"] == pytest.approx(plain.loc["1 states", "difference"])
    assert shaken.loc["1 states", "difference_se"] == pytest.approx(
        plain.loc["1 states", "difference_se"]
    )
    assert shaken.loc["1 states", "se"] > 2 * plain.loc["1 states", "se"]


def test_by_fold_is_the_standard_error_of_fold_differences(selection):
    found = fo.compare(selection.results, by="fold").table.loc["1 states"]
    a, b = (selection.results[name].folds["loss"] for name in ("1 states", "2 states"))
    assert found["difference_se"] == pytest.approx((a - b).std() / np.sqrt(len(a)))


def test_results_on_other_folds_are_refused(data, selection):
    other = fo.cross_validate(
        selection.results["1 states"].fit, fo.folds.blocks(data, percent=10, n=12, seed=9)
    )
    with pytest.raises(ValueError, match="'a' and 'b' cannot be compared: both results must be on"):
        fo.compare({"a": selection.results["1 states"], "b": other})


def test_a_fold_that_failed_in_one_is_left_out_of_all(selection):
    first = selection.results["1 states"]
    broken = replace(first, folds=first.folds.assign(ok=first.folds.index != 3))
    found = fo.compare({"1": broken, "2": selection.results["2 states"]})
    kept = selection.results["2 states"].folds["loss"].drop(index=3).mean()
    assert found.table.loc["2", "estimate"] == pytest.approx(kept)
    assert found.table.loc["1", "failed"] == 1
    assert "unreliable folds in: 1" in found.sentence
    count = len(first.folds)
    of = f"estimates and differences are of {count - 1} of {count} folds, which have a number in every"
    assert of in found.sentence
    assert of in repr(found)
    assert of in replace(selection, comparison=found).sentence
    assert "estimates and differences are of" not in selection.sentence


@pytest.mark.parametrize(
    ("results", "words"),
    [({}, "at least one"), (3, "must be a dict"), ({"a": 3}, "'a' must be a CVResult, got int")],
)
def test_bad_results_are_refused(results, words):
    with pytest.raises(ValueError, match=words):
        fo.compare(results)


def test_joint_losses_on_other_folds_are_refused(data, selection):
    """Their rows are folds, which look alike; what they drop does not."""
    fit = selection.results["1 states"].fit
    a, b = (
        fo.cross_validate(fit, made, loss="joint", method="none", check=False)
        for made in (fo.folds.blocks(data, percent=10, n=4), fo.folds.iid(data, percent=10, n=4))
    )
    with pytest.raises(ValueError, match="must be on the same folds"):
        fo.compare({"a": a, "b": b})


def test_joint_losses_are_compared_in_the_units_of_the_estimate(data, selection):
    folds = fo.folds.kfold(data, 6)
    results = {
        name: fo.cross_validate(result.fit, folds, loss="joint", method="none", check=False)
        for name, result in selection.results.items()
    }
    found = fo.compare(results).table
    for name, result in results.items():
        assert found.loc[name, "se"] == pytest.approx(result.se)


def test_the_same_folds_of_other_data_are_refused(data, folds, selection):
    other = fo.cross_validate(
        fo.fit(fo.models.PoissonHMM(1), data[::-1], restarts=1), folds, method="none", check=False
    )
    with pytest.raises(ValueError, match="of the same data"):
        fo.compare({"a": selection.results["1 states"], "b": other})


def test_a_difference_without_a_standard_error_is_called_that(data, selection):
    results = {
        name: fo.cross_validate(
            result.fit, fo.folds.blocks(data, percent=30, n=2), loss="joint", method="none", check=False
        )
        for name, result in selection.results.items()
    }
    found = fo.compare(results)
    assert found.table["difference_se"].isna().all()
    assert "too little was scored to tell it from" in found.sentence
    assert "not clearly worse" not in found.sentence


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: fo.compare(s.results, by="x"), "by must be one of"),
        (lambda s: fo.compare(s.results).differences("1 states", "x"), "expected one of"),
        (lambda s: fo.select({}, [1.0], None), "candidates must be a dict"),
        (
            lambda s: fo.compare(
                {"a": s.results["1 states"], "b": replace(s.results["2 states"], loss="own")}
            ),
            "both must have the same loss",
        ),
    ],
)
def test_bad_arguments_are_refused(selection, call, words):
    with pytest.raises(ValueError, match=words):
        call(selection)


def test_a_selection_names_the_winner_beside_aic_and_bic(selection):
    assert selection.best == selection.simplest == "2 states"
    assert selection.table["bic"].idxmin() == "2 states"
    assert selection.sentence.startswith(
        "chosen: 2 states, which predicts best; worse, by more than the margin of "
    )
    one = selection.results["1 states"].fit  # one rate: the likelihood is that of a Poisson sample
    from scipy import stats

    rate = float(np.ravel(one.params["rate"])[0])
    likelihood = stats.poisson.logpmf(one.data.values[0, :, 0], rate).sum()
    assert selection.table.loc["1 states", "aic"] == pytest.approx(2 * 1 - 2 * likelihood)
    assert "best: 2 states" in selection.plot().get_legend_handles_labels()[1]


def test_a_model_that_cannot_be_fitted_does_not_take_the_others_with_it(data, folds):
    range_ = {"counts": fo.models.PoissonHMM(1), "categories": fo.models.CategoricalHMM(1, 2)}
    found = fo.select(range_, data, folds, restarts=1)
    assert list(found.skipped) == ["categories"]
    assert found.best == "counts"


def test_what_is_not_to_be_trusted_is_said(selection):
    """A fit that is no minimum and folds that nobody finished stand beside the numbers."""
    assert fo.compare(selection.results).doubts == []
    first, second = selection.results.values()
    off = Status(Outcome.NOT_STATIONARY, "stopped")
    unfinished = first.folds.assign(status="approximate: the budget ended 0.1 standard errors from it")
    doubtful = fo.compare(
        {
            "one": replace(first, fit=replace(first.summary, status=off)),
            "two": replace(second, folds=second.folds.assign(status=unfinished["status"])),
        }
    )
    assert doubtful.table.loc["two", "unfinished"] == len(second.folds)
    assert doubtful.table.loc["one", "fit"] == "not stationary"
    for words in ("unfinished folds in: two", "fit not at a certified minimum: one"):
        assert words in doubtful.sentence
        assert words in replace(selection, comparison=doubtful).sentence


def test_missing_and_zero_are_other_data(data):
    pair = np.stack([data, data], 1)
    zero, gone = pair.copy(), pair.copy()
    zero[10:20, 1], gone[10:20, 1] = 0.0, np.nan
    assert fo.sequences(zero).fingerprint != fo.sequences(gone).fingerprint
    assert fo.sequences(gone).fingerprint == fo.sequences(gone.copy()).fingerprint


def test_a_model_is_worse_only_where_that_is_clear(selection):
    table = fo.compare(selection.results).table
    worse = table.iloc[1]
    assert worse["p"] == pytest.approx(2 * stats.t.sf(worse["ratio"], worse["dof"]))
    found = fo.compare(selection.results)
    for p, tied in (
        (0.04, ["2 states"]),
        (0.06, ["2 states", "1 states"]),
        (np.nan, ["2 states"]),
    ):
        changed = table.assign(p=[np.nan, p])
        assert replace(found, table=changed).tied == tied


def test_three_models_share_the_chance_of_a_mistake(selection):
    found = fo.compare({**selection.results, "copy": selection.results["1 states"]})
    changed = found.table.assign(p=[np.nan, 0.03, 0.02])
    assert replace(found, table=changed).tied == list(found.table.index[:2])


def test_data_with_rows_for_gaps_and_without_are_refused_with_what_to_do():
    """The same twelve days are scored, of fifteen rows and of twelve."""
    whole = np.random.default_rng(0).poisson(4.0, 15).astype(float)
    whole[[3, 7, 11]] = np.nan
    results = {}
    for name, x in (("gaps", whole), ("none", whole[np.isfinite(whole)])):
        fit = fo.fit(fo.models.PoissonHMM(1), x)
        results[name] = fo.cross_validate(fit, fo.folds.points(fit.data))
    with pytest.raises(ValueError, match=r"15 and 12 steps: .* \(both with --no-gaps, or none\)"):
        fo.compare(results)
