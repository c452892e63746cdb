"""Results in the forms of ArviZ (whichever is installed) and of scikit-learn."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
import sklearn.model_selection

import fitonce as fo

az = pytest.importorskip("arviz")
OLD = az.__version__.startswith("0.")  # on Python 3.11


@pytest.fixture(scope="module")
def data():
    counts = np.random.default_rng(0).poisson(np.tile(np.repeat([2.0, 9.0], 10), 6)).astype(float)
    return pd.Series(counts, pd.date_range("2024-01-01", periods=120), name="calls")


@pytest.fixture(scope="module")
def fits(data):
    return {str(k): fo.fit(fo.models.PoissonHMM(k), data, restarts=1) for k in (1, 2)}


@pytest.fixture(scope="module")
def results(fits, data):
    """Every point once, in blocks of equal size."""
    folds = fo.folds.kfold(data, 6)
    return {name: fo.cross_validate(fit, folds, optima=0) for name, fit in fits.items()}


def pointwise(elpd):
    return elpd["loo_i"] if isinstance(elpd, pd.Series) else elpd.elpd_i


def total(elpd):
    return elpd["elpd_loo"] if isinstance(elpd, pd.Series) else elpd.elpd


def effective(elpd):
    return elpd["p_loo"] if isinstance(elpd, pd.Series) else elpd.p


def test_arviz_gets_its_own_class(results):
    owner = az.stats if OLD else pytest.importorskip("arviz_stats")
    found = results["2"].to_arviz()
    assert isinstance(found, owner.ELPDData)
    cv = results["2"]
    assert total(found) == pytest.approx(-120 * cv.estimate, rel=1e-12)
    assert found["se"] == pytest.approx(120 * cv.se, rel=1e-12)
    assert effective(found) == pytest.approx(120 * (cv.estimate - cv.control), rel=1e-9)
    assert found["n_data_points"] == 120
    assert found["n_samples"] == 1
    assert found["scale"] == "log"
    assert "-" in str(found)


def test_arviz_is_told_names_and_that_points_depend_on_each_other(results):
    found = results["2"].to_arviz()
    assert pointwise(found).dims == ("site",)
    assert pointwise(found)["site"].to_numpy()[:2].tolist() == ["2024-01-01", "2024-01-02"]
    assert found["warning"] is True
    assert "warning" in str(found)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of ArviZ 0.23, by pandas 3.1
def test_az_compare_runs_and_agrees(results):
    theirs = az.compare({name: cv.to_arviz() for name, cv in results.items()})
    ours = fo.compare(results).table
    assert theirs.index.tolist() == ours.index.tolist() == ["2", "1"]
    digits = 1e-4 if OLD else 0.06  # the newer shows two digits
    np.testing.assert_allclose(np.abs(theirs["elpd_diff"]), ours["nats"], rtol=digits, atol=1e-9)
    np.testing.assert_allclose(theirs["weight"], ours["weight"], atol=0.01)
    differences = results["1"].pointwise["loss"] - results["2"].pointwise["loss"]
    independent = np.sqrt(120) * differences.std(ddof=0)
    assert theirs["dse"].iloc[1] == pytest.approx(independent, rel=digits)


def test_single_points_are_loo_and_other_folds_are_not(fits, results):
    single = fo.loo(fits["2"], refine=False).to_arviz()
    if isinstance(single, pd.Series):
        assert single.index[0] == "elpd_loo"
    else:
        assert single.kind == "loo"
        assert results["2"].to_arviz().kind == "loo_kfold"
        assert results["2"].to_arviz().n_folds == 6


def test_an_early_release_of_the_new_arviz_is_refused(results, monkeypatch):
    if OLD:  # ArviZ 0.x has one class for all
        assert type(results["2"].to_arviz()).__name__ == "ELPDData"
        return
    import arviz_stats

    monkeypatch.delattr(arviz_stats, "ELPDDataLOOKFold")
    with pytest.raises(ImportError, match=r"to_arviz needs arviz-stats 1.3.3 or newer"):
        results["2"].to_arviz()


def test_without_arviz_it_says_what_to_install(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match="to_arviz needs ArviZ: pip install arviz"):
        results["2"].to_arviz()


def test_a_point_in_several_folds_is_averaged(fits, data):
    cv = fo.cross_validate(fits["2"], fo.folds.blocks(data, 20, 12), method="none", check=False)
    found = pointwise(cv.to_arviz())
    means = cv.pointwise.groupby("site")["loss"].mean()
    np.testing.assert_allclose(found.values, -means)
    assert total(cv.to_arviz()) == pytest.approx(-means.sum())


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_sequences_are_independent_points():
    rng = np.random.default_rng(1)
    parts = {f"patient {n}": pd.DataFrame({"x": rng.poisson(4.0, 12)}) for n in range(9)}
    fit = fo.fit(fo.models.PoissonHMM(1), parts, restarts=1)
    cv = fo.cross_validate(fit, fo.folds.structures(fo.sequences(parts)))
    found = cv.to_arviz()
    assert found["warning"] is False
    assert pointwise(found)["sequence"].to_numpy().tolist() == list(parts)
    losses = cv.pointwise["loss"]
    assert found["se"] == pytest.approx(3 * losses.std(), rel=1e-9)


def test_joint_losses_are_one_for_each_fold(fits, data):
    cv = fo.cross_validate(fits["2"], fo.folds.kfold(data, 6), loss="joint", method="none", check=False)
    found = cv.to_arviz()
    assert pointwise(found).dims == ("fold",)
    assert total(found) == pytest.approx(-120 * cv.estimate)


def test_arviz_refuses_what_it_cannot_pair(fits, data, results):
    cv = results["2"]
    with pytest.raises(ValueError, match=r"needs log-densities, .* got the loss 'absolute'"):
        replace(cv, loss="absolute").to_arviz()
    with pytest.raises(ValueError, match="needs a number in every fold, but 1 fold of 6 has none"):
        replace(cv, folds=cv.folds.assign(ok=cv.folds.index > 0)).to_arviz()
    overlapping = fo.folds.blocks(data, 20, 12)
    joint = fo.cross_validate(fits["2"], overlapping, loss="joint", method="none", check=False)
    with pytest.raises(ValueError, match="needs folds that do not overlap"):
        joint.to_arviz()


def test_bad_folds_and_bad_fits_warn_too():
    rng = np.random.default_rng(1)
    parts = [rng.poisson(4.0, 12) for _ in range(9)]
    fit = fo.fit(fo.models.PoissonHMM(1), parts, restarts=1)
    cv = fo.cross_validate(fit, fo.folds.structures(fo.sequences(parts)))
    assert replace(cv, folds=cv.folds.assign(verdict="bad")).to_arviz()["warning"] is True


def test_scores_are_those_of_scikit_learn(results, data):
    cv = results["2"]
    found = cv.to_sklearn()
    theirs = sklearn.model_selection.cross_validate(
        sklearn.linear_model.LinearRegression(), np.ones((9, 1)), np.ones(9), cv=3, return_indices=True
    )
    folds = fo.folds.kfold(data, 6)
    assert list(cv.to_sklearn(folds)) == sorted(theirs, key=list(cv.to_sklearn(folds)).index)
    np.testing.assert_array_equal(found["test_score"], -cv.folds["loss"])
    assert found["fit_time"].sum() + found["score_time"].sum() == pytest.approx(cv.seconds)
    assert {len(column) for column in found.values()} == {6}
    failed = replace(cv, folds=cv.folds.assign(ok=cv.folds.index > 0)).to_sklearn()
    assert np.isnan(failed["test_score"][0])


def test_indices_are_what_a_fold_kept_and_scored(fits, data):
    folds = fo.folds.future(data, steps=[20, 40], horizon=5)
    cv = fo.cross_validate(fits["1"], folds, method="none", check=False)
    indices = cv.to_sklearn(folds)["indices"]
    assert indices["train"][0].tolist() == list(range(100))
    assert indices["test"][1].tolist() == list(range(80, 85))
    for other in (fo.folds.kfold(data, 6), "x"):
        with pytest.raises(ValueError, match="folds must be those of the result"):
            cv.to_sklearn(other)
