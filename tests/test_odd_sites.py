"""How far out sites lie in what was predicted for them, against enumeration and SciPy."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fitonce as fo
from fitonce.crossval import heldout_values
from fitonce.models.emissions.tails import binomial_tails, normal_tails, poisson_tails

EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (1, 4)]
BETA = 0.7
EXPOSURE = np.array([10.0, 20.0, 15.0, 30.0, 12.0, 25.0])
COUNTS = np.array([3.0, 5.0, 12.0, 25.0, 2.0, 30.0])


def distribution(name, params, site, k):
    """SciPy's, of a site in class k."""
    if name == "poisson":
        return stats.poisson(EXPOSURE[site] * params["rate"][k])
    if name == "binomial":
        return stats.binom(EXPOSURE[site] + 20, params["rate"][k])
    return stats.norm(params["mean"][k], np.sqrt(params["variance"][k]))


def enumerated(name, params, x, site, left_out):
    """Mean, mid-tails and loss of a site, from a sum over all configurations of classes."""
    density = lambda one: one.logpdf if name == "gaussian" else one.logpmf  # noqa: E731
    kept = [v for v in range(6) if v not in left_out]
    logs = {v: [density(distribution(name, params, v, k))(x[v]) for k in range(2)] for v in kept}
    weights = np.zeros(2)
    for z in itertools.product(range(2), repeat=6):
        log = BETA * sum(z[a] == z[b] for a, b in EDGES) + sum(logs[v][z[v]] for v in kept)
        weights[z[site]] += np.exp(log)
    weights /= weights.sum()
    each = [distribution(name, params, site, k) for k in range(2)]
    at = np.array([np.exp(density(one)(x[site])) for one in each])
    mass = at if name != "gaussian" else np.zeros(2)
    below = np.array([one.cdf(x[site]) for one in each]) - 0.5 * mass
    above = np.array([one.sf(x[site]) for one in each]) + 0.5 * mass
    mean = np.array([one.mean() for one in each])
    return np.array([weights @ mean, weights @ below, weights @ above, -np.log(weights @ at)])


def require_enumerated(fit, x, enumerated):
    """The table of sites has what an enumeration finds at the parameters of each fold."""
    folds = fo.folds.sites([[0, 1], [1, 2], [3], [4, 5]], fit.data)  # site 1 is scored twice
    cv = fo.cross_validate(fit, folds, method="onestep", optima=0)
    table = cv.site_losses().set_index("site")
    wanted = {site: [] for site in range(6)}
    for fold, part in enumerate(folds.dropped):
        params = {key: np.asarray(value) for key, value in cv.params(fold).items()}
        for site in part:
            wanted[site].append(enumerated(params, site, part))
    for site, rows in wanted.items():
        mean, below, above, loss = np.mean(rows, axis=0)
        row = table.loc[site]
        assert row["expected"] == pytest.approx(mean, rel=1e-8)
        assert row["p"] == pytest.approx(min(1.0, 2.0 * min(below, above)), rel=1e-7)
        assert row["loss"] == pytest.approx(loss, rel=1e-7)  # the enumeration is that of the losses
        assert row["direction"] == ("more" if x[site] > mean else "less")


def fitted(name):
    exposure = {"poisson": EXPOSURE, "binomial": EXPOSURE + 20}.get(name)
    x = COUNTS if name != "gaussian" else np.array([0.1, -0.3, 1.4, 4.2, 0.2, 9.0])
    model = fo.models.PottsMixture(EDGES, emission=name, beta=BETA, exposure=exposure)
    return fo.fit(model, x, restarts=1), x


@pytest.mark.parametrize(
    "name", ["poisson", pytest.param("binomial", marks=pytest.mark.slow), "gaussian"]
)
def test_sites_are_as_far_out_as_by_enumeration(name):
    fit, x = fitted(name)
    require_enumerated(fit, x, lambda params, site, part: enumerated(name, params, x, site, part))


def test_tails_keep_their_digits_far_out():
    x = np.array([0.0, 3.0, 40.0, 180.0])
    found, known = poisson_tails(x, 5.0), stats.poisson(5.0)
    np.testing.assert_allclose(found.above, known.sf(x) + 0.5 * known.pmf(x), rtol=1e-10)
    np.testing.assert_allclose(found.below, known.cdf(x - 1) + 0.5 * known.pmf(x), rtol=1e-10)
    assert 0 < found.above[3] < 1e-200
    x = np.array([0.0, 4.0, 90.0, 100.0])
    found, known = binomial_tails(x, 100.0, 0.03), stats.binom(100, 0.03)
    np.testing.assert_allclose(found.above, known.sf(x) + 0.5 * known.pmf(x), rtol=1e-9)
    np.testing.assert_allclose(found.below, known.cdf(x - 1) + 0.5 * known.pmf(x), rtol=1e-9)
    found = normal_tails(np.array([-30.0, 1.0]), 1.0, 4.0)
    np.testing.assert_allclose(found.below, stats.norm(1, 2).cdf([-30.0, 1.0]), rtol=1e-12)


def test_many_points_from_one_sweep_agree_with_passes_of_their_own(monkeypatch):
    rng = np.random.default_rng(3)
    side = 6
    sites = np.arange(side * side).reshape(side, side)
    edges = np.concatenate(
        [
            np.stack([sites[:-1].ravel(), sites[1:].ravel()], 1),
            np.stack([sites[:, :-1].ravel(), sites[:, 1:].ravel()], 1),
        ]
    )
    x = rng.poisson(np.where(np.arange(side * side) < 18, 4.0, 15.0)).astype(float)
    fit = fo.fit(fo.models.PottsMixture(edges, beta=BETA), x, restarts=1)
    cv = fo.loo(fit, refine=False)
    own = cv.predicted.rows
    monkeypatch.setattr(heldout_values, "_FEW", 0)
    swept = fo.loo(fit, refine=False).predicted.rows
    assert not np.array_equal(own, swept)
    np.testing.assert_allclose(swept["expected"], own["expected"], rtol=0.02)
    for tail in ("below", "above"):
        np.testing.assert_allclose(swept[tail], own[tail], rtol=0.1, atol=1e-4)


def test_a_planted_site_is_the_oddest_and_survives_a_file(tmp_path):
    """A small count that is five times too large has a smaller loss than a large one, but is odder."""
    rng = np.random.default_rng(0)
    exposure = np.repeat([20.0, 20000.0], [30, 10])
    x = rng.poisson(0.1 * exposure).astype(float)
    x[5] = 12
    edges = np.stack([np.arange(39), np.arange(1, 40)], 1)
    data = fo.sequences(x)
    fit = fo.fit(fo.models.PottsMixture(edges, 1, beta=0.0, exposure=exposure), data, restarts=1)
    cv = fo.loo(fit)
    table = cv.site_losses()
    assert table.loc[table["p"].idxmin(), "site"] == 5
    path = cv.save(tmp_path / "cv.json")
    pd.testing.assert_frame_equal(fo.load(path).site_losses(), table)
    page = cv.to_html(tmp_path / "cv.html").read_text()
    assert "Furthest from what was expected" in page
    assert "1 of 40 sites is beyond chance" in page


def test_damaged_predictions_are_refused(tmp_path):
    fit, _ = fitted("poisson")
    cv = fo.loo(fit)
    two = cv.predicted.rows.head(2)
    wrong = replace(cv, predicted=type(cv.predicted)(lambda: two))
    with pytest.raises(ValueError, match="it has 2 predictions for 6 held-out values"):
        fo.load(wrong.save(tmp_path / "cv.json"))


def test_categories_and_joint_losses_have_no_tails():
    values = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0])
    model = fo.models.PottsMixture(EDGES, emission=fo.models.Categorical(3), beta=BETA)
    cv = fo.loo(fo.fit(model, values, restarts=1), refine=False)
    assert cv.predicted is None
    assert "p" not in cv.site_losses()
    fit, _ = fitted("poisson")
    joint = fo.cross_validate(fit, fo.folds.points(fit.data), method="none", loss="joint")
    assert joint.predicted is None
