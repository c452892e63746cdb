"""Standard errors of dependent losses: against simulation, closed forms, and by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fitonce as fo
from fitonce.results.regions import independent_regions
from fitonce.results.report.page import html_report
from fitonce.results.standard_errors import (
    Spread,
    Terms,
    along_time,
    by_cluster,
    memory_of,
    spread_of,
    waves_for,
)


def points(values):
    """Every value one fold of its own, in order."""
    number = np.arange(len(values))
    return Terms.of(np.asarray(values, float), number, number, np.ones(len(values), bool))


def persistent(rng, count, stay):
    """Losses that are a state of -1 or 1, which stays with this probability, plus noise."""
    states = np.cumsum(rng.random(count) > stay) % 2
    if rng.random() < 0.5:
        states = 1 - states
    return states, 2.0 * states - 1.0 + rng.normal(size=count)


def test_independent_losses_have_the_usual_standard_error():
    values = np.random.default_rng(0).normal(size=4000)
    found = along_time(points(values), 0.0)
    assert found.se == pytest.approx(values.std() / np.sqrt(4000), rel=0.15)
    assert found.dof == pytest.approx(0.4 * 4000 ** (2 / 3))


def test_clusters_are_one_observation_each():
    values, cluster = np.arange(12.0), np.repeat([0, 1, 2], 4)
    means = values.reshape(3, 4).mean(1)
    terms = replace(points(values), places=cluster)
    assert by_cluster(terms).se == pytest.approx(means.std(ddof=1) / np.sqrt(3))
    assert by_cluster(terms).dof == 2
    assert np.isnan(by_cluster(replace(terms, places=0 * cluster)).se)


def test_folds_that_overlap_count_a_place_once():
    """The same folds twice say no more than once."""
    values = np.random.default_rng(1).normal(size=200)
    fold, site, used = np.repeat(np.arange(20), 10), np.arange(200), np.ones(20, bool)
    once = along_time(Terms.of(values, fold, site, used), 3.0)
    doubled = Terms.of(
        np.tile(values, 2), np.append(fold, fold + 20), np.tile(site, 2), np.ones(40, bool)
    )
    assert along_time(doubled, 3.0) == pytest.approx(once)


def test_folds_that_failed_do_not_count():
    values, fold = np.arange(40.0), np.repeat(np.arange(4), 10)
    used = np.array([True, True, False, True])
    kept = used[fold]
    alone = Terms.of(values[kept], np.repeat(np.arange(3), 10), np.arange(40)[kept], np.ones(3, bool))
    everything = Terms.of(values, fold, np.arange(40), used)
    assert along_time(everything, 0.0) == along_time(alone, 0.0)


def test_the_memory_of_a_chain_in_closed_form():
    """Losses that are the state itself: autocorrelations a^h, so that
    sum_h h^2 a^h / (sum of all a^|h|) = 2 a / (1 - a)^2 / 2."""
    rng, stay = np.random.default_rng(2), 0.9
    states, _ = persistent(rng, 200_000, stay)
    a = 2 * stay - 1
    transition = np.array([[stay, 1 - stay], [1 - stay, stay]])
    found = memory_of(points(2.0 * states - 1.0), np.eye(2)[states], transition)
    assert found == pytest.approx(np.sqrt(a) / (1 - a), rel=0.01)
    noise = memory_of(points(rng.normal(size=200_000)), np.eye(2)[states], transition)
    assert noise < 0.2 * found


@pytest.mark.parametrize(("stay", "count"), [(0.5, 200), (0.9, 1000), (0.95, 1000)])
def test_intervals_cover_as_often_as_they_say(stay, count):
    """The mean of 800 simulated series each; three standard errors of a share of 800 are 5 points."""
    rng = np.random.default_rng(3)
    transition = np.array([[stay, 1 - stay], [1 - stay, stay]])
    inside, spreads, means = [], [], []
    for _ in range(800):
        states, values = persistent(rng, count, stay)
        terms = points(values)
        memory = memory_of(terms, np.eye(2)[states], transition)
        found = spread_of(terms, memory)
        inside.append([abs(values.mean()) <= found.half_width(level) for level in (0.68, 0.95)])
        spreads.append(found)
        means.append(values.mean())
    assert np.median([found.dof for found in spreads]) >= 13
    assert np.sqrt(np.mean([s.se**2 for s in spreads])) == pytest.approx(np.std(means), rel=0.1)
    covered = np.mean(inside, 0)
    assert covered[0] == pytest.approx(0.68, abs=0.05)
    assert covered[1] == pytest.approx(0.95, abs=0.03)


def test_series_shorter_than_their_memory_say_so():
    assert waves_for(300, 50.0) < 2
    found = along_time(points(np.random.default_rng(4).normal(size=300)), 50.0)
    assert found.dof < 2
    assert np.isnan(Spread(0.1, 0.5).half_width(0.95))


@pytest.fixture(scope="module")
def regimes():
    rng = np.random.default_rng(5)
    return rng.poisson(np.repeat([2.0, 9.0, 2.0, 12.0], 100)).astype(float)


def test_four_regimes_are_too_few_to_tell(regimes):
    fit = fo.fit(fo.models.PoissonHMM(2), regimes)
    cv = fo.cross_validate(fit, fo.folds.blocks(regimes, percent=10, n=20))
    assert cv.stretches < 1
    assert "too short to tell" in repr(cv)
    box = html_report(cv).split("<nav")[0]
    assert "Caution: too short to tell: " in box
    assert 'class="note caution"' in box


def test_intervals_follow_from_what_is_printed(regimes):
    """By the quantiles of SciPy, at the degrees of freedom that stand beside the interval."""
    fit = fo.fit(fo.models.PoissonHMM(2), np.tile(regimes[::8], 2), restarts=1, optima=0)
    printed = repr(fo.cross_validate(fit, fo.folds.kfold(fit.data, 10), optima=0))
    number = r"(-?[\d.]+)"
    estimate, se = map(float, re.search(rf"estimate +{number} \+- {number}", printed).groups())
    low, high = map(float, re.search(rf"95 %: {number} to {number}", printed).groups())
    dof = float(re.search(rf"; t with {number} degrees of freedom\)", printed)[1])
    half = stats.t(dof).ppf(0.975) * se
    assert [low, high] == pytest.approx([estimate - half, estimate + half], rel=0.01)


def test_results_print_an_interval():
    x = np.random.default_rng(6).poisson(4.0, 300).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(1), x)
    cv = fo.cross_validate(fit, fo.folds.kfold(x, 10))
    low, high = cv.interval()
    assert low < cv.estimate < high
    assert high - cv.estimate == pytest.approx(cv.se * 2.1, rel=0.05)  # t with 18 degrees of freedom
    assert f"95 %: {low:.4f} to {high:.4f}; se from about 9 independent stretches" in repr(cv)
    with pytest.raises(ValueError, match=r"a probability between 0 and 1 \(0.95, not 95\)"):
        cv.interval(95)


def test_standard_errors_of_joint_losses_of_overlapping_blocks_are_those_of_estimates():
    """The spread of estimates of 150 series of independent counts, against their standard errors."""
    estimates, squares = [], []
    for seed in range(150):
        x = np.random.default_rng(seed).poisson(4.0, 400).astype(float)
        fit = fo.fit(fo.models.PoissonHMM(1), x, restarts=1)
        folds = fo.folds.blocks(x, percent=5, n=60, seed=seed)
        joint = fo.cross_validate(fit, folds, loss="joint", method="none", check=False)
        apart = fo.cross_validate(fit, folds, method="none", check=False)
        assert joint.estimate == pytest.approx(apart.estimate, rel=1e-9)  # points are independent
        assert joint.stretches < apart.stretches
        estimates.append(joint.estimate)
        squares.append(joint.se**2)
    # Known to about 6 %.
    assert np.std(estimates) / np.sqrt(np.mean(squares)) == pytest.approx(1.0, abs=0.15)


def test_many_sequences_are_the_observations():
    rng = np.random.default_rng(8)
    data = [rng.poisson(4.0, 30).astype(float) for _ in range(12)]
    fit = fo.fit(fo.models.PoissonHMM(1), data)
    for folds in (fo.folds.structures(fit.data), fo.folds.kfold(fit.data, 5)):
        cv = fo.cross_validate(fit, folds)
        assert cv.dof == pytest.approx(11)
        assert "12 independent parts" in repr(cv)


def test_disjoint_blocks_without_memory_are_independent_observations():
    """All cosines along six places are those of a t test with five degrees of freedom."""
    values = np.array([1.0, 3.0, 2.0, 5.0, 4.0, 6.0])
    found = along_time(points(values), 0.0)
    assert found.dof == 5
    assert found.se == pytest.approx(values.std(ddof=1) / np.sqrt(6))


@pytest.mark.parametrize("memory", [0.0, 5.0])
def test_a_window_of_the_data_is_judged_by_itself(memory):
    """Waves over all data would be nearly constant in it."""
    values = np.random.default_rng(9).normal(size=400)
    early, late = (replace(points(values), places=first + np.arange(400)) for first in (0, 9600))
    assert along_time(late, memory) == along_time(early, memory)


def test_joint_losses_of_scattered_folds_have_a_standard_error_only_if_they_do_not_overlap():
    x = np.random.default_rng(11).poisson(4.0, 200).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(1), x)
    apart = fo.cross_validate(fit, fo.folds.kfold(x, 8, blocks=False), loss="joint")
    assert apart.se == pytest.approx(apart.folds["loss"].std(ddof=1) / np.sqrt(8))
    assert apart.dof == 7
    overlapping = fo.cross_validate(fit, fo.folds.iid(x, 10, 20), loss="joint")
    assert np.isnan(overlapping.se)
    assert "(no se)" in repr(overlapping)


def test_two_equally_good_models_are_rarely_told_apart():
    """Losses of both are noise: a difference is called clear in a twentieth of 400 comparisons."""
    x = np.random.default_rng(12).poisson(4.0, 200).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(1), x)
    cv = fo.cross_validate(fit, fo.folds.kfold(x, 10), method="none", check=False)
    rng, clear = np.random.default_rng(13), 0
    for _ in range(400):
        both = []
        for _ in range(2):
            rows = cv.pointwise.assign(loss=rng.normal(size=len(cv.pointwise)))
            means = cv.folds.assign(loss=rows.groupby("fold")["loss"].mean())
            both.append(replace(cv, pointwise=rows, folds=means))
        clear += len(fo.compare(both).tied) == 1
    assert clear / 400 == pytest.approx(0.05, abs=0.035)  # three standard errors


def test_regions_are_as_large_as_losses_are_alike():
    """Against the share of the variance that pairs of sites in different regions have, pair by pair."""
    grid = fo.graph([(k, k + 1) for k in range(399) if k % 20 < 19] + [(k, k + 20) for k in range(380)])
    rng = np.random.default_rng(0)
    hops = np.abs(np.subtract.outer(np.arange(400) // 20, np.arange(400) // 20))
    hops = hops + np.abs(np.subtract.outer(np.arange(400) % 20, np.arange(400) % 20))
    numbers = []
    for length in (0.1, 1.0, 4.0):
        losses = np.linalg.cholesky(np.exp(-hops / length) + 1e-9 * np.eye(400)) @ rng.normal(size=400)
        losses -= losses.mean()
        labels = independent_regions(grid, losses, None)
        numbers.append(len(np.unique(labels)))
        means = [np.sum((hops == h) * np.outer(losses, losses)) for h in range(39)]
        ends = next(h for h, mean in enumerate(means) if mean <= 1e-3 * means[0])
        near = (hops < ends) * np.outer(losses, losses)
        across = near[labels[:, None] != labels[None]].sum() / near.sum()
        assert across <= 0.1 or numbers[-1] == 4
    assert numbers[0] == 32
    assert numbers[0] > numbers[1] >= numbers[2]


def test_one_long_sequence_among_short_ones_is_not_an_independent_sample():
    """Coverage of 95 % intervals of independent counts, whose losses have a known mean."""
    covered = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        data = [rng.poisson(4.0, n).astype(float) for n in (400, 3, 1, 2, 1, 1, 5, 3, 2)]
        fit = fo.fit(fo.models.PoissonHMM(1), data, restarts=1)
        cv = fo.cross_validate(fit, fo.folds.kfold(data, 20), method="none", check=False)
        low, high = cv.interval()
        counts = np.arange(60)
        expected = -np.sum(stats.poisson.pmf(counts, 4.0) * stats.poisson.logpmf(counts, 4.0))
        covered.append(low <= expected <= high)
    assert np.mean(covered) > 0.85


def test_parts_of_unequal_size_count_for_less():
    sizes = np.array([50, 10, 10, 10])
    places = np.repeat(np.arange(4), sizes)
    values = np.random.default_rng(0).normal(size=80)
    terms = Terms(values, np.full(80, 1 / 80), places)
    count = 80**2 / np.sum(sizes**2)
    found = by_cluster(terms)
    assert found.dof == pytest.approx(count - 1)
    sums = np.bincount(places, (values - values.mean()) / 80)
    assert found.se == pytest.approx(np.sqrt(count / (count - 1) * np.sum(sums**2)))


def test_what_does_not_vary_has_no_chance_and_a_report(tmp_path):
    x = np.full(20, 4.0)
    fits = {str(k): fo.fit(fo.models.PoissonHMM(k), x) for k in (1, 2)}
    folds = fo.folds.kfold(x, 5)
    results = {name: fo.cross_validate(fit, folds) for name, fit in fits.items()}
    assert fo.compare(results).table["p"].iloc[1] == 1.0
    results["1"].to_html(tmp_path / "x.html")
    assert fo.compare([results["1"], results["1"]]).tied == ["A", "B"]


def test_sequences_that_are_left_out_together_are_one_unit():
    """Groups share a shift, so that their sequences are not independent."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 5)
    data = [rng.normal(size=(20, 1)) + shift for shift in rng.normal(size=12)[groups]]
    fit = fo.fit(fo.models.GaussianHMM(1), data, restarts=1)
    cv = fo.cross_validate(fit, fo.folds.structures(data, groups=groups), method="onestep")
    means = cv.pointwise.groupby("fold")["loss"].mean()
    np.testing.assert_allclose(cv.se, means.std(ddof=1) / np.sqrt(12), rtol=1e-6)
    assert cv.dof == pytest.approx(11)
    alone = fo.cross_validate(fit, fo.folds.structures(data), method="onestep")
    assert alone.dof == pytest.approx(59)
    assert cv.se > 1.5 * alone.se


@pytest.mark.parametrize("memory", [0.0, np.nan])
def test_losses_that_differ_by_rounding_have_a_standard_error_of_zero(memory):
    values = 1.7 + 1e-15 * np.random.default_rng(0).normal(size=40)
    terms = Terms(values, np.full(40, 1 / 40), np.arange(40))
    assert spread_of(terms, memory).se == 0.0
    varied = replace(terms, values=values + 1e-6 * np.arange(40))
    assert spread_of(varied, memory).se > 0.0


def test_equal_losses_are_said_to_be_equal():
    same = np.full(30, 4.0)
    fit = fo.fit(fo.models.HMM(1, "poisson"), same, restarts=1)
    cv = fo.cross_validate(fit, fo.folds.kfold(same, 5), method="exact")
    assert cv.se == 0.0
    assert "all losses are equal: the se is 0" in repr(cv)
