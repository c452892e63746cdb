"""Units and levels of data: the same models, verdicts and losses, up to the logarithm of the unit."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

import fitonce as fo
from fitonce.results.saving import write_document

sm = pytest.importorskip("statsmodels.api")

CHANGES = [(1e-6, 0.0), (1e6, 0.0), (1.0, 1000.0), (1.0, -1e5)]


def draws(seed, count=90):
    e = np.random.default_rng(seed).normal(size=count + 50)
    return 2.0 + lfilter([1.0, 0.3], [1.0, -0.6], e)[50:]


def noisy_pair(seed, count=90):
    rng = np.random.default_rng(seed)
    factor = draws(seed, count)
    return np.column_stack([factor, 3.0 - factor]) + rng.normal(size=(count, 2))


def plain(fit):
    """The objective in the coordinates that leaves have themselves."""
    program = replace(fit.objective.program, space=fit.objective.space.plain)
    return replace(fit.objective, program=program)


def crossed(fit):
    return fo.cross_validate(fit, fo.folds.kfold(fit.data, 6), method="onestep")


def require_same(one, other, a, channels=1, rtol=1e-6):
    """Cross-validation of the same data in another unit and at another level."""
    assert other.fit.status.outcome.value == one.fit.status.outcome.value == "stationary"
    assert list(other.folds["verdict"]) == list(one.folds["verdict"])
    losses = other.pointwise["loss"] - channels * np.log(a)
    assert losses.to_numpy() == pytest.approx(one.pointwise["loss"].to_numpy(), rel=rtol, abs=rtol)


@pytest.fixture(scope="module")
def reference():
    model = fo.models.SARIMAX((1, 0, 1), trend="c")
    fit = fo.fit(model, draws(0))
    return fit, crossed(fit)


@pytest.mark.parametrize(("a", "b"), CHANGES)
def test_an_intercept_goes_with_unit_and_level(reference, a, b):
    fit, cv = reference
    moved = fo.fit(fit.model, a * draws(0) + b)
    require_same(cv, crossed(moved), a)
    here, there = fit.params, moved.params
    assert there["ar"] == pytest.approx(here["ar"], rel=1e-6)
    assert there["ma"] == pytest.approx(here["ma"], rel=1e-6)
    assert there["sigma2"] == pytest.approx(a**2 * here["sigma2"], rel=1e-6)
    left = 1.0 - here["ar"][0]
    assert there["intercept"] == pytest.approx(a * here["intercept"] + b * left, rel=1e-5)
    means = [float(p["intercept"] / (1.0 - p["ar"][0])) for p in (here, there)]
    assert means[1] == pytest.approx(a * means[0] + b, rel=1e-8)


def test_a_season_differences_and_regressors_go_with_unit_and_level():
    rng = np.random.default_rng(2)
    x = rng.normal(size=90)
    y = 3.0 * x + np.cumsum(0.2 + lfilter([1.0], [1.0, -0.5], rng.normal(size=90)))
    model = fo.models.SARIMAX((1, 1, 0), (1, 0, 0, 4), trend="c", exog="x")
    one = fo.fit(model, fo.sequences(y, covariates={"x": x}))
    a, b = 1e-6, 1000.0
    other = fo.fit(model, fo.sequences(a * (y + b), covariates={"x": 2000.0 + 10.0 * x}))
    require_same(crossed(one), crossed(other), a)
    assert other.params["coefficient"] == pytest.approx(a * one.params["coefficient"] / 10.0, rel=1e-5)
    assert other.params["intercept"] == pytest.approx(a * one.params["intercept"], rel=1e-5)


def test_standard_errors_are_those_of_the_information_about_the_intercept_itself(reference):
    """H where the intercept and the others are coordinates, by differences of the same objective."""
    fit, _ = reference
    own = plain(fit)
    theta = own.space.to_free(fit.params)
    assert own(theta) == pytest.approx(fit.value, rel=1e-12)
    covariance = np.linalg.inv(own.hessians(theta[None], own.base[None])[0])
    slopes = own.space.named_slopes(theta).toarray()
    expected = np.sqrt(np.diag(slopes @ covariance @ slopes.T))
    assert fit.to_dataframe()["se"].to_numpy() == pytest.approx(expected, rel=1e-5)


def test_the_estimates_are_those_of_statsmodels(reference):
    fit, _ = reference
    theirs = sm.tsa.SARIMAX(draws(0), order=(1, 0, 1), trend="c").fit(disp=False, method="bfgs")
    found = dict(zip(theirs.model.param_names, theirs.params, strict=True))
    assert fit.log_likelihood == pytest.approx(theirs.llf, rel=1e-8)
    assert fit.params["intercept"] == pytest.approx(found["intercept"], rel=1e-3)


def test_a_printed_intercept_has_its_mean(reference):
    fit, _ = reference
    mean = fit.params["intercept"] / (1.0 - fit.params["ar"][0])
    assert f"(mean of the series {float(mean):.6g})" in repr(fit)


def test_beside_a_unit_root_the_mean_is_said_to_be_open_and_the_fit_has_an_optimum():
    drifting = 1e5 + np.cumsum(0.5 + np.random.default_rng(3).normal(size=120))
    model = fo.models.SARIMAX((1, 0, 0), trend="c")
    fit = fo.fit(model, drifting)
    assert fit.ok
    assert "the mean of the series is hardly determined, beside a root of 1" in repr(fit)
    require_same(crossed(fit), crossed(fo.fit(model, drifting - 1e5)), 1.0)


def test_a_known_intercept_is_held():
    fit = fo.fit(fo.models.SARIMAX((1, 0, 0), trend="c", frozen={"intercept": 0.5}), draws(4))
    assert fit.params["intercept"] == 0.5
    assert "intercept" not in fit.names


def test_files_of_earlier_versions_are_read_as_they_were(reference, tmp_path):
    """Which had the intercept itself as a coordinate, of theta, its gradient and H."""
    fit, cv = reference
    new = fit.save(tmp_path / "new.json")
    document = json.loads(new.read_text())
    own = plain(fit)
    theta = own.space.to_free(fit.params)
    older = fo.fit_at(fit.model, fit.data, fit.params)
    older = replace(
        older,
        theta=theta,
        gradient=own.gradients(theta[None], own.base[None])[0],
        hessian_operator=type(fit.hessian_operator)(
            own.hessians(theta[None], own.base[None])[0], fit.names
        ),
        optima=replace(fit.optima, thetas=np.tile(theta, (len(fit.optima.thetas), 1))),
    )
    document = json.loads(older.save(tmp_path / "older.json").read_text())
    del document["coordinates"], document["digest"]
    path = write_document(document, tmp_path / "old.json", False)
    found = fo.load(path)
    assert found.params["intercept"] == pytest.approx(fit.params["intercept"], rel=1e-12)
    assert found.theta == pytest.approx(fit.theta, abs=1e-10)
    expected = fit.to_dataframe()["se"].to_numpy()
    assert found.to_dataframe()["se"].to_numpy() == pytest.approx(expected, rel=1e-5)
    require_same(cv, crossed(found), 1.0)
    assert np.array_equal(fo.load(new).theta, fit.theta)


@pytest.mark.parametrize(("a", "b"), [CHANGES[0], CHANGES[3]])
def test_factors_go_with_unit_and_level(a, b):
    model = fo.models.DynamicFactor(1)
    one, other = (fo.fit(model, z) for z in (noisy_pair(1), a * noisy_pair(1) + b))
    require_same(crossed(one), crossed(other), a, channels=2, rtol=1e-5)
    assert other.params["mean"] == pytest.approx(a * one.params["mean"] + b, rel=1e-6)


def imported_sarimax(a, b):
    peer = sm.tsa.SARIMAX(draws(5), order=(1, 0, 1), trend="c")
    c, ar, ma, sigma2 = peer.fit(disp=False).params
    moved = sm.tsa.SARIMAX(a * draws(5) + b, order=(1, 0, 1), trend="c")
    return moved.smooth([a * c + b * (1.0 - ar), ar, ma, a**2 * sigma2])


def imported_arima(a, b):
    const, ar, sigma2 = sm.tsa.ARIMA(draws(5), order=(1, 0, 0)).fit().params
    return sm.tsa.ARIMA(a * draws(5) + b, order=(1, 0, 0)).smooth([a * const + b, ar, a**2 * sigma2])


def imported_varmax(a, b):
    params = sm.tsa.VARMAX(noisy_pair(6), order=(1, 0)).fit(disp=False, maxiter=200).params.copy()
    moved = sm.tsa.VARMAX(a * noisy_pair(6) + b, order=(1, 0))
    names = moved.param_names
    lags = np.array(params[2:6]).reshape(2, 2)
    assert names[2:6] == ["L1.y1.y1", "L1.y2.y1", "L1.y1.y2", "L1.y2.y2"]
    params[:2] = a * params[:2] + b * (1.0 - lags.sum(1))
    params[6:] = a * params[6:]
    return moved.smooth(params)


def imported_factors(a, b):
    z = noisy_pair(7) - noisy_pair(7).mean(0)
    how = {"k_factors": 1, "factor_order": 1}
    params = sm.tsa.DynamicFactor(z, **how).fit(disp=False, maxiter=200).params
    moved = sm.tsa.DynamicFactor(a * z, **how)
    units = [a**2 if "sigma2" in n else a if "loading" in n else 1.0 for n in moved.param_names]
    return moved.smooth(params * units)


def imported_components(a, b):
    params = sm.tsa.UnobservedComponents(draws(5), "local level").fit(disp=False).params
    return sm.tsa.UnobservedComponents(a * draws(5) + b, "local level").smooth(a**2 * params)


@pytest.mark.parametrize(
    ("make", "channels"),
    [
        (imported_sarimax, 1),
        (imported_arima, 1),
        (imported_varmax, 2),
        (imported_factors, 2),
        (imported_components, 1),
    ],
)
@pytest.mark.parametrize(("a", "b"), [(1e-3, 0.0), CHANGES[1], CHANGES[2]])
def test_imported_models_go_with_unit_and_level(make, channels, a, b):
    one, other = (fo.from_statsmodels(make(*change)) for change in ((1.0, 0.0), (a, b)))
    results = [fo.cross_validate(fit, fo.folds.kfold(fit.data, 6)) for fit in (one, other)]
    assert list(results[0].folds["verdict"]) == list(results[1].folds["verdict"])
    assert results[1].estimate - channels * np.log(a) == pytest.approx(results[0].estimate, abs=1e-6)


def test_an_intercept_that_statsmodels_held_stays():
    peer = sm.tsa.SARIMAX(draws(5), order=(1, 0, 0), trend="c")
    with peer.fix_params({"intercept": 0.7}):
        theirs = peer.fit(disp=False)
    fit = fo.from_statsmodels(theirs)
    assert fit.params["intercept"] == pytest.approx(0.7)
    assert "intercept" not in fit.names


def test_a_unit_in_which_statsmodels_loses_variances_is_refused():
    with pytest.raises(
        ValueError, match="statsmodels takes variances of predictions below 1e-12 for zero"
    ):
        fo.from_statsmodels(imported_sarimax(1e-6, 0.0))
