"""What is independent in standard errors: points of a `Custom`, clusters, regions, time."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from fitonce.data.graph import graph
from fitonce.results.regions import independent_regions
from fitonce.results.standard_errors import Terms, along_time

N, CLUSTERS = 60, 12


def density(params, data, weights):
    """A regression with normal errors."""
    y, x = (data[:, 0], data[:, 1]) if isinstance(data, jnp.ndarray) else (data["y"], data["x"])
    residual = y - params["a"] - params["b"] * x
    return jnp.sum(weights * (-0.5 * residual**2 * jnp.exp(-2 * params["s"]) - params["s"]))


INIT = {"a": 0.0, "b": 0.0, "s": 0.0}
MODEL = fo.models.Custom(density, INIT)


@pytest.fixture(scope="module")
def data():
    """Rows in clusters of five, each with its own intercept, as a table with an index of names."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(CLUSTERS), N // CLUSTERS)
    x = rng.normal(size=N)
    y = 1 + 2 * x + rng.normal(size=CLUSTERS)[group] + rng.normal(size=N)
    names = [f"child {number}" for number in rng.permutation(N)]
    return pd.DataFrame({"y": y, "x": x, "school": group}, index=names)


def crossed(data, folds, model=MODEL, **more):
    return fo.cross_validate(fo.fit(model, data), folds, method="onestep", **more)


def permuted_folds(folds, order):
    place = np.argsort(order)
    return fo.folds.sites([np.sort(place[part]) for part in folds.dropped], N)


@pytest.mark.parametrize("make", [fo.folds.points, lambda n: fo.folds.iid(n, percent=20, n=15)])
def test_the_order_of_exchangeable_rows_does_not_matter(data, make):
    order, folds = np.random.default_rng(1).permutation(N), make(N)
    first = crossed(data, folds)
    again = crossed(data.iloc[order], permuted_folds(folds, order))
    assert again.estimate == pytest.approx(first.estimate, rel=1e-12)
    assert again.se == pytest.approx(first.se, rel=1e-12)
    assert first.units == "points"


def test_single_points_have_the_usual_standard_error(data):
    found = crossed(data, fo.folds.points(N))
    losses = found.pointwise["loss"]
    assert found.se == pytest.approx(losses.std(ddof=1) / np.sqrt(N), rel=1e-12)
    assert found.dof == pytest.approx(N - 1)
    assert f"se from about {N} independent points" in repr(found)


def test_standard_errors_of_clusters_are_those_of_the_formula(data):
    """sqrt(G / (G - 1) sum_g (sum of deviations in g)^2) / n, by hand, of clusters of one size."""
    found = crossed(data, fo.folds.points(N), clusters="school")
    deviations = found.pointwise["loss"] - found.pointwise["loss"].mean()
    sums = deviations.groupby(data["school"].to_numpy()).sum()
    by_hand = np.sqrt(CLUSTERS / (CLUSTERS - 1) * (sums**2).sum()) / N
    assert found.se == pytest.approx(by_hand, rel=1e-12)
    assert found.dof == pytest.approx(CLUSTERS - 1)
    assert f"se from about {CLUSTERS} independent clusters" in repr(found)
    assert found.se > 1.2 * crossed(data, fo.folds.points(N)).se


def test_labels_by_name_by_index_and_in_order_are_the_same(data):
    folds, labels = fo.folds.points(N), [f"s{number}" for number in data["school"]]
    series = pd.Series(labels, data.index)
    results = [
        crossed(data, folds, clusters=one)
        for one in ("school", labels, np.array(labels), series, series.sample(frac=1, random_state=0))
    ]
    assert len({result.se for result in results}) == 1
    arrays = {name: data[name].to_numpy() for name in data}
    assert crossed(arrays, folds, clusters="school").se == pytest.approx(results[0].se, rel=1e-12)
    plain = series.reset_index(drop=True)
    assert crossed(arrays, folds, clusters=plain).se == pytest.approx(results[0].se, rel=1e-12)
    with pytest.raises(ValueError, match="clusters must have rows in order, as the data have no index"):
        crossed(arrays, folds, clusters=plain.sample(frac=1, random_state=0))


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        ("region", "clusters must be one of ['y', 'x', 'school'], got 'region'"),
        ([1, 2], f"clusters must have one label for each point, shape ({N},), got (2,)"),
        ([1.0] * (N - 1) + [np.nan], f"clusters must label every point, but point {N - 1} has none"),
        (np.ones(N), "clusters must tell at least two clusters apart"),
        (pd.DataFrame({"a": np.ones(N)}), "clusters must be one label for each point"),
    ],
)
def test_labels_that_are_not(data, clusters, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        crossed(data, fo.folds.points(N), clusters=clusters)


def test_labels_of_other_rows(data):
    other = pd.Series(np.arange(N), [f"pupil {number}" for number in range(N)])
    with pytest.raises(ValueError, match=r"clusters must have rows for all of the .* without child"):
        crossed(data, fo.folds.points(N), clusters=other)
    twice = pd.Series(np.arange(N), ["child 0"] * N)
    with pytest.raises(ValueError, match="child 0 occurs twice in clusters"):
        crossed(data, fo.folds.points(N), clusters=twice)
    with pytest.raises(ValueError, match="labels, as the data have no columns, got 'school'"):
        crossed(data[["y", "x"]].to_numpy(), fo.folds.points(N), clusters="school")


def test_joint_losses_are_of_their_clusters(data):
    within = fo.folds.sites([np.arange(first, first + 2) for first in range(0, N - 1)][::5], N)
    found = crossed(data, within, loss="joint", clusters="school")
    assert found.dof == pytest.approx(CLUSTERS - 1)
    across = fo.folds.sites([[4, 5], [20, 21]], N)
    with pytest.raises(ValueError, match="clusters with loss='joint' need folds that each lie within"):
        crossed(data, across, loss="joint", clusters="school")


def test_folds_of_a_graph_have_its_regions(data):
    cells = fo.graph([(k, k + 1) for k in range(N - 1)] + [(k, k + 10) for k in range(N - 10)])
    found = crossed(data, fo.folds.spatial_kfold(cells, 6))
    rows = found.pointwise.sort_values("site")
    shares = (1 / found.folds["size"] / len(found.folds)).loc[rows["fold"]].to_numpy()
    added = shares * (rows["loss"].to_numpy() - found.estimate)
    regions = independent_regions(graph(cells), added, None)
    assert np.array_equal(regions, rows["cluster"])
    sums, sizes = (np.bincount(regions, values) for values in (added, shares))
    count = 1 / (sizes**2).sum()
    assert found.se == pytest.approx(np.sqrt(count / (count - 1) * (sums**2).sum()), rel=1e-10)
    assert "independent regions" in repr(found)


def test_time_is_told_by_folds_by_dates_or_by_the_model(data):
    points = fo.folds.points(N)
    told = crossed(data, points, fo.models.Custom(density, INIT, along_time=True))
    number = np.arange(N)
    terms = Terms.of(told.pointwise["loss"].to_numpy(), number, number, np.ones(N, bool))
    assert (told.se, told.dof) == along_time(terms, 0.0)
    assert "independent stretch" in repr(told)
    dated = data.set_index(pd.date_range("2024-01-01", periods=N))
    assert crossed(dated, points).se == pytest.approx(told.se, rel=1e-12)
    twice = [dated.index[np.arange(N) // 2], np.arange(N) % 2]  # two places on each day: no series
    assert crossed(data.set_index(twice), points).units == "points"
    for folds in (fo.folds.blocks(N, percent=10, n=8), fo.folds.kfold(N, 10), fo.folds.future(N, 50)):
        assert np.isfinite(crossed(data, folds).memory)
    assert np.isnan(crossed(data, fo.folds.kfold(N, 10, blocks=False)).memory)


def test_clusters_of_steps_and_of_sequences():
    rng = np.random.default_rng(4)
    x = rng.poisson(3.0, 80).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(1), x)
    labels = np.arange(80) // 20
    found = fo.cross_validate(fit, fo.folds.kfold(x, 8), clusters=labels, method="onestep")
    assert (found.units, found.dof) == ("clusters", pytest.approx(3))
    several = [rng.poisson(3.0, 10).astype(float) for _ in range(6)]
    folds = fo.folds.structures(several)
    whole = fo.cross_validate(
        fo.fit(fo.models.PoissonHMM(1), several), folds, clusters=list("aabbcc"), method="onestep"
    )
    assert whole.dof == pytest.approx(2)


def test_files_and_comparisons_keep_what_is_independent(data, tmp_path):
    x = data["y"].to_numpy()
    found = crossed(data, fo.folds.points(N), clusters="school")
    loaded = fo.load(found.save(tmp_path / "cv.json"))
    assert (loaded.units, loaded.about_se) == (found.units, found.about_se)
    points = fo.cross_validate(fo.fit(fo.models.Custom(level, {"m": 0.0}), x), fo.folds.points(x))
    timed = fo.models.Custom(level, {"m": 0.0, "s": 0.0}, along_time=True)
    steps = fo.cross_validate(fo.fit(timed, x), fo.folds.points(x))
    table = fo.compare({"points": points, "steps": steps}).table
    differences = points.pointwise["loss"] - steps.pointwise["loss"]
    number = np.arange(N)
    terms = Terms.of(differences.to_numpy(), number, number, np.ones(N, bool))
    assert table["difference_se"].iloc[1] == pytest.approx(along_time(terms, 0.0).se, rel=1e-9)


def level(params, data, weights):
    scale = params.get("s", 0.0)
    return jnp.sum(weights * (-0.5 * (data - params["m"]) ** 2 * jnp.exp(-2 * scale) - scale))


@pytest.mark.slow
def test_intervals_of_clusters_cover_and_those_of_their_points_do_not():
    """200 draws of 20 clusters of five; three standard errors of a share of 200 are 5 points."""
    rng, model = np.random.default_rng(5), fo.models.Custom(level, {"m": 0.0})
    labels, folds, intervals = np.repeat(np.arange(20), 5), fo.folds.points(100), {"by": [], "not": []}
    estimates = []
    for _ in range(200):
        fit = fo.fit(model, rng.normal(size=20)[labels] + rng.normal(size=100))
        results = [
            fo.cross_validate(fit, folds, method="onestep", check=False, clusters=one)
            for one in (labels, None)
        ]
        estimates.append(results[0].estimate)
        for kind, one in zip(intervals, results, strict=True):
            intervals[kind].append(one.interval())
    expected = np.mean(estimates)
    covered = {
        kind: np.mean([low <= expected <= high for low, high in found])
        for kind, found in intervals.items()
    }
    assert covered["by"] == pytest.approx(0.95, abs=0.05)
    assert covered["not"] < 0.85
