"""Leave-one-out from one sweep, and influence: against folds of single points, and exact refits."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import canonical
import fitonce as fo
from fitonce.crossval.loo import sweep
from golden_record import saved_fit

COUNTS = canonical.COUNTS.copy()
COUNTS[40] = 30.0


@pytest.fixture(scope="module")
def fit():
    return fo.fit(canonical.POISSON, COUNTS)


@pytest.fixture(scope="module")
def result(fit):
    return fo.loo(fit)


def test_every_observed_point_is_a_fold(result):
    assert len(result.folds) == 59
    assert 7 not in set(result.pointwise["site"])
    assert result.method == "loo"
    assert "59 folds, leave-one-out" in repr(result)


def test_the_control_is_that_of_folds_of_single_points(fit, result):
    alone = fo.cross_validate(fit, fo.folds.points(COUNTS), method="none", check=False)
    np.testing.assert_allclose(result.folds["control"], alone.folds["loss"], rtol=1e-10)
    np.testing.assert_array_equal(result.pointwise["site"], alone.pointwise["site"])


def test_parameters_are_those_of_one_step(fit):
    swept = fo.loo(fit, refine=False)
    one = fo.cross_validate(fit, fo.folds.points(COUNTS), method="onestep", check=False)
    np.testing.assert_allclose(swept.theta, one.theta, rtol=1e-7, atol=1e-9)


def test_losses_are_better_than_the_control_and_errors_cover_them(fit, result):
    exact = fo.cross_validate(fit, fo.folds.points(COUNTS), method="exact")
    swept = fo.loo(fit, refine=False)
    off = (swept.folds["loss"] - exact.folds["loss"]).abs()
    control = (swept.folds["control"] - exact.folds["loss"]).abs()
    assert off.mean() < 0.3 * control.mean()
    assert (off > 3 * swept.folds["error"]).mean() < 0.02
    bad = swept.folds["verdict"] == "bad"
    assert bad.any()
    np.testing.assert_allclose(result.folds["loss"][bad], exact.folds["loss"][bad], atol=1e-8)
    assert (result.folds["verdict"] != "bad").all()
    assert (result.folds.loc[bad, "rung"] != "onestep").all()


def test_errors_know_that_the_fit_is_not_stationary(fit):
    early = fo.fit_at(fit.model, COUNTS, dict(fit.params, rate=1.02 * fit.params["rate"]))
    exact = fo.cross_validate(fit, fo.folds.points(COUNTS), method="exact")
    swept = fo.loo(early, refine=False)
    off = (swept.folds["loss"] - exact.folds["loss"]).abs()
    assert (off > 3 * swept.folds["error"]).mean() < 0.05
    assert "FIT" in repr(swept)


def test_at_most_so_many_points_are_refitted(fit):
    swept = fo.loo(fit, refine=False)
    one = fo.loo(fit, refine=1)
    changed = one.folds["rung"] != "onestep"
    assert changed.sum() == 1
    assert swept.folds["error"].idxmax() == changed.idxmax()


def test_sequences_of_unequal_length_and_partly_missing_channels():
    rng = np.random.default_rng(1)
    level = lambda n: np.where(np.arange(n) < n // 2, -2.0, 2.0)[:, None]  # noqa: E731
    data = [rng.normal(size=(n, 2)) + level(n) for n in (21, 9, 1)]
    data[0][3, 0] = np.nan
    data[1][2] = np.nan
    fit = fo.fit(fo.models.GaussianHMM(2, scale=0.3), data)
    folds, losses, _ = sweep(fit)
    alone = fo.cross_validate(fit, folds, method="none", check=False)
    np.testing.assert_allclose(losses, alone.folds["loss"], rtol=1e-9)


def test_influence_is_the_move_of_each_parameter(fit):
    effect = fo.influence(fit, refine=False)
    swept = fo.loo(fit, refine=False)
    table = fit.to_dataframe().set_index("name")
    place = int(np.flatnonzero(effect.table["site"] == 40)[0])
    names = list(fit.names)
    # The free coordinate of a rate is its logarithm: d rate = rate * d theta.
    k = names.index("rate[1,0]")
    move = (swept.theta[place, k] - fit.theta[k]) * table["value"].iloc[k] / table["se"].iloc[k]
    assert effect.table["rate[1,0]"][place] == pytest.approx(move, rel=1e-6)
    assert effect.top(1)["site"].iloc[0] == 40
    assert effect.top(3, by="rate[1,0]").shape == (3, 8)
    assert effect.top(1, by="rate")["site"].iloc[0] == 40
    assert len(effect.to_dataframe()) == 59
    assert "Influence of 59 points" in repr(effect)
    ax = effect.plot(by="rate[1,0]")
    assert "rate[1,0]" in ax.get_ylabel()
    ax.figure.clear()


def test_displacement_is_what_the_log_posterior_loses(fit):
    effect = fo.influence(fit, refine=False)
    assert (effect.table["how"] == "first order").all()
    swept = fo.loo(fit, refine=False)
    for place in (0, 20):
        lost = 2 * (fit.objective(swept.theta[place]) - fit.value)
        assert effect.table["displacement"][place] == pytest.approx(lost, rel=0.1)


def _log_posterior(params, x):
    """Of a Poisson HMM with the default prior, up to a constant: sums of scaled forward messages."""
    found = 0.1 * (np.log(params["initial"]).sum() + np.log(params["transition"]).sum())
    ahead = params["initial"]
    for value in x:
        seen = 1.0 if np.isnan(value) else stats.poisson.pmf(value, params["rate"][:, 0])
        joint = ahead * seen
        found += np.log(joint.sum())
        ahead = joint / joint.sum() @ params["transition"]
    return found


def test_influence_refits_without_the_points_that_move_the_fit_most(fit):
    """Against fits of the data without the point, by a forward algorithm of the test's own."""
    effect, rough = fo.influence(fit), fo.influence(fit, refine=False)
    assert (effect.table["how"] == "exact").sum() == 20
    top, off = effect.top(4), []
    assert (top["how"] == "exact").all()
    at_fit = _log_posterior(fit.params, COUNTS)
    se = fit.to_dataframe().set_index("name")["se"]["rate[1,0]"]
    for row, site in zip(top.index, top["site"], strict=True):
        without = COUNTS.copy()
        without[site] = np.nan
        refit = fo.fit(fit.model, without, init=fit.params)
        lost = 2.0 * (at_fit - _log_posterior(refit.params, COUNTS))
        assert top["displacement"][row] == pytest.approx(lost, rel=1e-6)
        moved = (refit.params["rate"][1, 0] - fit.params["rate"][1, 0]) / se
        assert top["rate[1,0]"][row] == pytest.approx(moved, rel=1e-6)
        off.append(abs(rough.table["displacement"][row] / lost - 1.0))
    assert max(off) > 0.1  # the control: to first order it would matter
    rest = effect.table["how"] == "first order"
    pd.testing.assert_frame_equal(effect.table[rest], rough.table[rest])
    assert "first order: rough" in repr(effect)
    assert (fo.influence(fit, refine=2).table["how"] == "exact").sum() == 2


def test_influence_names_every_channel():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        rng.normal(np.repeat([0.0, 4.0], 15)[:, None], size=(30, 2)), columns=["u", "v"]
    )
    fit = fo.fit(fo.models.GaussianHMM(2, scale=0.5), table, restarts=1)
    header, first = repr(fo.influence(fit, refine=0)).splitlines()[1:3]
    assert header.split()[:5] == ["time", "u", "v", "loss", "displacement"]
    row = table.iloc[int(first.split()[0])]
    assert [float(word) for word in first.split()[1:3]] == pytest.approx(row.tolist(), rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tolerance": 0.0}, "tolerance must be a positive number, got 0.0"),
        ({"refine": -1}, "refine must be True, False or a number of points, got -1"),
        ({"refine": "yes"}, "refine must be True, False or a number of points, got 'yes'"),
        ({"damping": -1.0}, "damping must be a non-negative number, got -1.0"),
    ],
)
def test_refusals(fit, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.loo(fit, **arguments)


def test_what_has_no_chain_is_refused(fit):
    model = fo.models.Custom(lambda p, x, w: -0.5 * jnp.sum(w * (x - p["m"]) ** 2), {"m": 0.0})
    own = fo.fit(model, np.arange(5.0))
    with pytest.raises(ValueError, match="loo and influence sweep a chain or a graph, which a Custom"):
        fo.loo(own)
    with pytest.raises(ValueError, match="which a Custom does not have; leave out each point"):
        fo.influence(own)
    with pytest.raises(ValueError, match=r"fit must be a Fit from fo\.fit, got int"):
        fo.loo(3)
    with pytest.raises(ValueError, match=r"fit must be a Fit from fo\.fit, got int"):
        fo.influence(3)
    with pytest.raises(ValueError, match=r"by must be one of .*, got 'size'"):
        fo.influence(fit).top(by="size")
    with pytest.raises(ValueError, match="n must be an integer of at least 1, got 0"):
        fo.influence(fit).top(0)
    with pytest.raises(ValueError, match="refine must be True, False or a number of points, got -1"):
        fo.influence(fit, refine=-1)
    with pytest.raises(ValueError, match="leaving one out needs at least 2 observed sites, got 1"):
        fo.folds.points([1.0, np.nan])


def test_influence_of_many_channels_prints_the_first_few():
    x = np.random.default_rng(0).poisson(3.0, (40, 6)).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(1), fo.sequences(pd.DataFrame(x, columns=list("abcdef"))))
    columns = str(fo.influence(fit, refine=False)).splitlines()[1].split()
    assert columns == ["time", "a", "b", "c", "d", "loss", "displacement", "how", "moves_most"]


@pytest.mark.parametrize("name", ["categorical-support", "face-categories"])
def test_steps_that_a_state_rules_out_have_the_slopes_of_folds(name):
    """Slopes of the sweep were off by up to one where a category is impossible in a state."""
    fit = saved_fit(name)
    _, _, slopes = sweep(fit)
    points = fo.folds.points(fit.data)
    gradients = fit.objective.gradients(np.tile(fit.theta, (len(points), 1)), points.weights)
    np.testing.assert_allclose(gradients, fit.gradient - slopes, atol=1e-8)
