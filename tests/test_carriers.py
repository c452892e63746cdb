"""States that rest on one point: found by their posterior, and said wherever it matters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from fitonce.fitting.carriers import about_carriers, carrying, single_carriers

COUNTS = np.random.default_rng(0).poisson(3.0, 60).astype(float)
OUTLIER = 40
MODELS = {"1": fo.models.PoissonHMM(1), "2": fo.models.PoissonHMM(2)}


@pytest.fixture(scope="module")
def fit():
    counts = COUNTS.copy()
    counts[OUTLIER] = 80.0
    return fo.fit(MODELS["2"], counts, restarts=2)


def test_a_state_of_one_point_is_found_by_the_posterior(fit):
    posterior = fit.posterior()
    high = int(np.argmax(posterior[OUTLIER]))
    share = posterior[OUTLIER, high] / posterior[:, high].sum()
    (found,) = single_carriers(fit)
    assert (found.state, found.site) == (high, OUTLIER)
    assert found.share == pytest.approx(share)
    gone = [np.arange(5), np.array([OUTLIER]), np.arange(30, 50)]
    assert carrying(fit.objective, fit.theta, gone).tolist() == [False, True, True]


def test_influence_and_select_say_so_as_cross_validation_does(fit):
    said = about_carriers(fit)
    assert said.startswith("a state rests on one point: state ")
    assert f"on time {OUTLIER} (" in said
    found = fo.influence(fit)
    assert f"{said}; without it the fit moves farther than shown" in repr(found)
    assert said in found._repr_html_().replace("&gt;", ">")
    alone = fo.loo(fit).folds.loc[OUTLIER]  # what first order does not show
    assert alone["move"] > 2 * np.sqrt(found.table["displacement"].max())
    models = {"1": MODELS["1"], "2": fit}
    chosen = fo.select(models, fit.data, fo.folds.kfold(fit.data, 6), restarts=1, optima=0)
    assert f"in 2 {said}" in chosen.doubts
    assert f"in 2 {said}" in chosen.sentence
    assert f"in 2 {said}" in repr(chosen).splitlines()
    assert said not in chosen.choice


def test_states_of_many_points_are_not_mentioned():
    levels = np.random.default_rng(1).poisson(np.repeat([2, 9, 2, 9], 15)).astype(float)
    plain = fo.fit(MODELS["2"], levels, restarts=1)
    assert about_carriers(plain) == ""
    assert "rests on" not in repr(fo.influence(plain))
    single = fo.fit(MODELS["1"], levels[:10], restarts=1)  # all points are of the one state
    assert single_carriers(single) == []


def test_a_class_of_one_site_is_named(tmp_path):
    names = ["Anson", *(f"place {k}" for k in range(1, 12))]
    counts = np.full(12, 4.0)
    counts[0] = 90.0
    grid = np.array([[i, i + 1] for i in range(11)])
    model = fo.models.PottsMixture(grid, n_classes=2, emission="poisson", beta=0.1)
    fit = fo.fit(model, pd.Series(counts, pd.Index(names, name="county")), restarts=2)
    high = int(fit.posterior()[0].argmax())
    said = f"class {high} rests on 1.0 (Anson) of 12 sites only"
    assert said in str(fit)
    cv = fo.loo(fit)
    again = fo.load(cv.save(tmp_path / "cv.json"))
    assert said == again.summary.about_few == cv.summary.about_few
