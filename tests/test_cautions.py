"""Comparisons as users of loo and ArviZ know them: p_worse, notes, stacking, the best of many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fitonce as fo
from fitonce.results.cautions import Lead, lead_by_chance, notes
from fitonce.results.stacking import gains, stacking_weights
from fitonce.results.standard_errors import Spread
from fuzzing.strategies import seeds


@pytest.fixture(scope="module")
def plain():
    """Every point of a short series, with losses that are independent of each other."""
    x = np.random.default_rng(0).poisson(np.tile(np.repeat([2.0, 9.0], 10), 15)).astype(float)
    cv = fo.loo(fo.fit(fo.models.PoissonHMM(1), x, restarts=1), refine=False)
    return replace(cv, fit=cv.summary, memory=0.0)


def shifted(plain, losses, memory=0.0):
    """The result of a model whose losses are larger by `losses` (n,)."""
    made = plain.pointwise["loss"].to_numpy() + losses
    pointwise, folds = plain.pointwise.assign(loss=made), plain.folds.assign(loss=made)
    return replace(plain, pointwise=pointwise, folds=folds, memory=memory)


def noise(rng, models, n, memory=0.0):
    """(models, n) with autocorrelations a^h, a = 1 - 1 / memory."""
    a = 1.0 - 1.0 / memory if memory else 0.0
    made = rng.normal(size=(models, n + 50))
    for t in range(1, n + 50):
        made[:, t] = a * made[:, t - 1] + np.sqrt(1.0 - a**2) * made[:, t]
    return made[:, 50:]


def test_p_worse_is_that_of_students_t(plain):
    losses = 0.1 + noise(np.random.default_rng(1), 1, len(plain.pointwise))[0]
    found = fo.compare({"a": plain, "b": shifted(plain, losses)}).table
    row = found.loc["b"] if found.index[0] == "a" else found.loc["a"]
    expected = stats.t.cdf(row["difference"] / row["difference_se"], row["dof"])
    assert row["p_worse"] == pytest.approx(expected, rel=1e-12)
    assert 0.5 < row["p_worse"] < 1.0
    assert np.isnan(found["p_worse"].iloc[0])
    same = fo.compare({"a": plain, "b": plain})
    assert same.table["p_worse"].iloc[1] == 0.5


def test_notes_are_those_of_loo_and_of_dependence():
    assert notes(nats=5.0, n_scored=100, stretches=8) == ""
    assert notes(5.0, 99, 8) == "N < 100"
    assert notes(3.9, 100, 8) == notes(-3.9, 100, np.nan) == "|nats| < 4"
    assert notes(np.nan, 100, 7.9) == "few stretches"
    assert notes(0.0, 20, 2.0) == "N < 100, few stretches, |nats| < 4"


def test_notes_stand_beside_the_difference_and_are_explained(plain):
    losses = 0.01 + 0.001 * noise(np.random.default_rng(2), 1, len(plain.pointwise))[0]
    found = fo.compare({"a": plain, "b": shifted(plain, losses)})
    assert found.table["note"].tolist() == ["", "|nats| < 4"]
    (caution,) = found.cautions
    assert caution.startswith("|nats| < 4: too small a difference to choose by")
    assert caution in str(found)
    clear = fo.compare({"a": plain, "b": shifted(plain, 100 * losses)})
    assert clear.cautions == []
    assert "note" not in str(clear)


def test_the_printed_table_leaves_out_what_the_sentence_says(plain):
    shown = str(fo.compare({"a": plain, "b": shifted(plain, np.ones(len(plain.pointwise)))}))
    assert max(map(len, shown.splitlines()[1:3])) < 105
    assert "unfinished" not in shown
    assert "p_worse" in shown


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(2, 6), st.floats(0.1, 30.0))
def test_stacking_weights_are_the_best(seed, models, spread):
    """At the best mixture of a concave score no slope is above that of the score itself, which is 1."""
    rng = np.random.default_rng(seed)
    losses, shares = rng.normal(0.0, spread, (40, models)), rng.random(40)
    weights = stacking_weights(losses + 2000.0, shares)  # densities that would underflow
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1.0, abs=1e-6)
    densities = np.exp(losses.min(1, keepdims=True) - losses)
    assert gains(weights, densities, shares / shares.sum()).max() <= 1.0 + 1e-6


def test_stacking_finds_a_mixture_that_is_true():
    """Data from 0.3 N(-2, 1) + 0.7 N(2, 1), predicted by either part: weights are near the shares."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(4000) < 0.3, -2.0, 2.0) + rng.normal(size=4000)
    losses = -np.stack([stats.norm.logpdf(x, -2.0), stats.norm.logpdf(x, 2.0)], 1)
    np.testing.assert_allclose(stacking_weights(losses, np.ones(4000)), [0.3, 0.7], atol=0.03)


def test_one_model_has_all_the_weight_and_own_losses_have_none(plain):
    assert fo.compare([plain]).table["weight"].tolist() == [1.0]
    own = [replace(one, loss="absolute") for one in (plain, shifted(plain, np.ones(300)))]
    assert fo.compare(own).table["weight"].isna().all()
    assert "weight" not in str(fo.compare(own))


def test_joint_losses_are_stacked_fold_by_fold():
    x = np.random.default_rng(3).poisson(np.tile(np.repeat([2.0, 9.0], 10), 4)).astype(float)
    folds = fo.folds.kfold(x, 8)
    fits = [fo.fit(fo.models.PoissonHMM(k), x, restarts=1) for k in (1, 2)]
    results = [fo.cross_validate(f, folds, loss="joint", method="none", check=False) for f in fits]
    losses = np.stack([cv.pointwise["loss"] for cv in results], 1)
    expected = stacking_weights(losses, np.ones(8))
    table = fo.compare(results).table
    np.testing.assert_allclose(table["weight"][["A", "B"]], expected, atol=1e-4)


@pytest.mark.parametrize("memory", [0.0, 3.0])
def test_the_best_of_many_equal_models_is_called_chance(plain, memory):
    """Nine of ten times or more, for independent and for dependent losses; 19 of 20 are aimed at."""
    rng, called = np.random.default_rng(4), []
    for _ in range(20):
        made = noise(rng, 12, len(plain.pointwise), memory)
        found = fo.compare([shifted(plain, 0.3 * one, memory) for one in made])
        called.append(any("may be best by chance" in doubt for doubt in found.doubts))
    assert np.mean(called) >= 0.85


def test_the_best_of_many_that_differ_is_not_called_chance(plain):
    made = noise(np.random.default_rng(5), 12, len(plain.pointwise), 3.0)
    found = fo.compare([shifted(plain, 0.3 * one + 0.2 * k, 3.0) for k, one in enumerate(made)])
    assert found.lead.over == found.table.index[6]
    estimates = found.table["estimate"]
    assert found.lead.size == pytest.approx(estimates.iloc[6] - estimates.iloc[0])
    assert found.lead.size > found.lead.by_chance
    assert found.doubts == []


def test_up_to_eleven_models_are_not_checked(plain):
    made = noise(np.random.default_rng(6), 11, len(plain.pointwise))
    assert fo.compare([shifted(plain, one) for one in made]).lead is None


def test_a_lead_without_standard_errors_is_unknown():
    assert np.isnan(lead_by_chance([Spread(0.1, 5.0), Spread(np.nan, 0.0)], 12))


def test_a_selection_says_so_too():
    x = np.random.default_rng(7).poisson(np.tile(np.repeat([2.0, 9.0], 10), 3)).astype(float)
    models = {str(k): fo.models.PoissonHMM(k) for k in (1, 2)}
    found = fo.select(models, x, restarts=1, optima=0)
    lucky = replace(found.comparison, lead=Lead("middle", 0.1, 0.2))
    assert "may be best by chance" in replace(found, comparison=lucky).sentence
    assert not {"p_worse", "weight", "note"} & set(found.table.columns)


def test_an_error_that_is_not_known_is_said_to_be(plain):
    known = plain.folds["error"].sum() - plain.folds["error"][0]
    folds = plain.folds.assign(error=plain.folds["error"].where(plain.folds.index > 0))
    text = str(replace(plain, error=float("nan"), folds=folds))
    said = f"error of the estimate at least {known / len(folds):.1e} (unknown in 1 fold); verdicts"
    assert said in text
    assert "nan" not in text
    text = str(replace(plain, error=float("inf"), folds=folds.assign(error=np.inf)))
    assert "error of the estimate unknown; verdicts" in text
