"""Regressions on maps: covariates of the sites, coefficients that classes share, and odd places, against
statsmodels, SciPy and enumeration."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fitonce as fo
from fitonce.cli.request import Request
from fitonce.models.emissions.base import Rows
from fitonce.objectives.families import objective_of
from map_cases import wall
from test_odd_sites import require_enumerated

GLM = pytest.importorskip("statsmodels.api")
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (1, 4)]
BETA = 0.7
SIZE = np.array([40.0, 60.0, 35.0, 80.0, 52.0, 65.0])
HEAT = np.array([0.3, -1.0, 0.8, 1.5, -0.4, -1.2])
COUNTS = np.array([3.0, 5.0, 12.0, 35.0, 2.0, 20.0])
M = fo.models


def counties():
    """A wall of squares whose counts follow a covariate."""
    content, rng = wall(6, 6), np.random.default_rng(4)
    for feature in content["features"]:
        row = feature["properties"]
        row["heat"] = float(rng.normal())
        row["damp"] = float(rng.normal() + 3.0)
        row["n"] = int(rng.poisson(row["births"] * 0.01 * np.exp(0.5 * row["heat"])))
    return content


def column(content, name):
    return np.array([feature["properties"][name] for feature in content["features"]], float)


def test_covariates_of_a_map_are_its_columns():
    content = counties()
    places = fo.read_map(content, "n", exposure="births", covariates=["damp", "heat"], names="name")
    assert places.data.covariate_names == ("damp", "heat")
    known = np.stack([column(content, name) for name in ("damp", "heat")], 1)
    np.testing.assert_array_equal(places.data.covariates[0], known)
    assert "covariates: damp, heat" in str(places)
    assert fo.read_map(content, "n", covariates="heat", names="name").data.covariate_names == ("heat",)
    assert fo.read_map(content, "n").data.covariates is None


@pytest.mark.parametrize(
    ("value", "given", "message"),
    [
        (1.0, ["cold"], "covariates: 'cold' is not a column; columns are"),
        (1.0, ["n"], "covariates: 'n' is what is modelled, and cannot be a covariate of itself"),
        (None, ["heat"], "covariates: 'heat' must have a number for every site, got nan at a1"),
        ("hot", ["heat"], "covariates: 'heat' must hold numbers, got 'hot' at a1"),
        (1.0, ["heat", "heat"], r"covariates must differ, got \['heat', 'heat'\]"),
        (1.0, 3, "covariates must be a list of names, got 3"),
    ],
)
def test_what_is_refused(value, given, message):
    content = counties()
    content["features"][1]["properties"]["heat"] = value
    with pytest.raises(ValueError, match=f"^{message}"):
        fo.read_map(content, "n", covariates=given, names="name")


def test_one_coefficient_cannot_be_both():
    with pytest.raises(ValueError, match="regressors and shared ones must differ, got"):
        M.PoissonRegression(["heat"], shared=["heat"])
    with pytest.raises(ValueError, match="shared must be a list of names of covariates, got 'heat'"):
        M.PoissonRegression(shared="heat")
    data = fo.sequences(COUNTS, covariates=np.ones(6))
    model = M.PottsMixture(EDGES, emission=M.PoissonRegression(shared=["u0"]), beta=0.5)
    with pytest.raises(ValueError, match="covariate 'u0' is constant"):
        fo.fit(model, data)


@pytest.mark.parametrize("name", ["own", "shared", "binomial"])
def test_one_class_is_a_generalised_linear_model(name):
    content = counties()
    trials = name == "binomial"
    places = fo.read_map(
        content, "n", names="name", exposure=None if trials else "births",
        covariates=["births", "heat"] if trials else ["heat"],
    )  # fmt: skip
    emission = {
        "own": M.PoissonRegression(["heat"], coefficient_scale=None),
        "shared": M.PoissonRegression(shared=["heat"], coefficient_scale=None),
        "binomial": M.BinomialRegression(
            trials="births", rate_prior=(1.0, 1.0), shared=["heat"], coefficient_scale=None
        ),
    }[name]
    fit = fo.fit(M.PottsMixture(places, 1, emission, beta=0.0), places.data, restarts=1)
    n, births = column(content, "n"), column(content, "births")
    design = GLM.add_constant(column(content, "heat"))
    if trials:
        answer = np.stack([n, births - n], 1)
        other = GLM.GLM(answer, design, family=GLM.families.Binomial()).fit(tol=1e-14)
        location = np.log(fit.params["rate"] / (1.0 - fit.params["rate"]))
    else:
        other = GLM.GLM(n, design, family=GLM.families.Poisson(), exposure=births).fit(tol=1e-14)
        location = np.log(fit.params["rate"])
    slope = fit.params["coefficients"] if name == "own" else fit.params["shared_coefficients"]
    np.testing.assert_allclose([location[0], np.ravel(slope)[0]], other.params, rtol=1e-7)
    assert fit.log_likelihood == pytest.approx(other.llf, rel=1e-9)
    table = fit.to_dataframe()
    row = table[table["name"].str.contains("coefficients")].iloc[0]
    assert row["se"] == pytest.approx(other.bse[1], rel=1e-5)


CASES = {
    "poisson": M.PoissonRegression(["heat"], exposure="size"),
    "shared": M.PoissonRegression(shared=["heat"], exposure="size"),
    "binomial": M.BinomialRegression(trials="size", shared=["heat"]),
    "exposed binomial": M.BinomialRegression(shared=["heat"]),
    "gaussian": M.GaussianRegression(shared=["heat"]),
}


def distribution(name, params, site, k):
    """SciPy's, of a site in class k."""
    move = params["coefficients"][k, 0] if name == "poisson" else params["shared_coefficients"][0]
    move = move * HEAT[site]
    if "binomial" in name:
        odds = params["rate"][k] / (1.0 - params["rate"][k]) * np.exp(move)
        return stats.binom(SIZE[site], odds / (1.0 + odds))
    if name == "gaussian":
        return stats.norm(params["mean"][k] + move, np.sqrt(params["variance"][k]))
    return stats.poisson(SIZE[site] * params["rate"][k] * np.exp(move))


def enumerated(name, params, site, left_out):
    """Mean, mid-tails and loss of a site, from a sum over all configurations of classes."""
    discrete = name != "gaussian"
    each = [[distribution(name, params, v, k) for k in range(2)] for v in range(6)]
    log = lambda one, x: one.logpmf(x) if discrete else one.logpdf(x)  # noqa: E731
    weights = np.zeros(2)
    for z in itertools.product(range(2), repeat=6):
        total = BETA * sum(z[a] == z[b] for a, b in EDGES)
        total += sum(log(each[v][z[v]], COUNTS[v]) for v in range(6) if v not in left_out)
        weights[z[site]] += np.exp(total)
    weights /= weights.sum()
    x = COUNTS[site]
    at = np.array([np.exp(log(one, x)) for one in each[site]])
    half = 0.5 * at if discrete else 0.0
    below = np.array([one.cdf(x) for one in each[site]]) - half
    above = np.array([one.sf(x) for one in each[site]]) + half
    mean = np.array([one.mean() for one in each[site]])
    return np.array([weights @ mean, weights @ below, weights @ above, -np.log(weights @ at)])


@pytest.mark.parametrize(
    "name",
    [
        "poisson",
        "shared",
        "binomial",
        "exposed binomial",
        pytest.param("gaussian", marks=pytest.mark.slow),
    ],
)
def test_odd_places_of_regressions_are_those_of_enumeration(name):
    data = fo.sequences(COUNTS, covariates={"heat": HEAT, "size": SIZE})
    sizes = SIZE if name == "exposed binomial" else None
    fit = fo.fit(M.PottsMixture(EDGES, 2, CASES[name], beta=BETA, exposure=sizes), data, restarts=2)
    require_enumerated(fit, COUNTS, lambda params, site, part: enumerated(name, params, site, part))


def test_the_exposure_of_a_map_is_the_trials_of_a_binomial_regression():
    content = counties()
    places = fo.read_map(content, "n", exposure="births", covariates=["heat", "births"], names="name")
    models = [
        M.PottsMixture(places, 2, M.BinomialRegression(["heat"], trials=trials), beta=0.5)
        for trials in (None, "births")
    ]
    assert models[0].exposure == tuple(column(content, "births"))
    assert models[1].exposure is None
    one, two = (objective_of(model, places.data) for model in models)
    for seed in range(3):
        at = two.start(np.random.default_rng(seed))
        np.testing.assert_allclose(one.start(np.random.default_rng(seed)), at, rtol=1e-12)
        assert one(at) == pytest.approx(two(at), rel=1e-12)
    for feature in content["features"]:
        feature["properties"]["n"] = 1000
    places = fo.read_map(content, "n", exposure="births", covariates=["heat"], names="name")
    model = M.PottsMixture(places, 2, M.BinomialRegression(["heat"]), beta=0.5)
    with pytest.raises(ValueError, match="a binomial count cannot exceed its exposure, but site 0 has"):
        fo.fit(model, places.data)


@pytest.mark.parametrize("chain", [False, True])
def test_binomial_regressions_of_rare_events_start_at_rare_events(chain):
    """From 0.5 all starts ended in one class, tens of nats above the best."""
    rng, rates, size = np.random.default_rng(2), np.array([0.001, 0.004]), 14
    side = np.arange(size**2).reshape(size, size)
    edges = np.concatenate([np.stack([side[1:], side[:-1]], -1).reshape(-1, 2),
                            np.stack([side[:, 1:], side[:, :-1]], -1).reshape(-1, 2)])  # fmt: skip
    truth = (side // size >= size // 2).ravel().astype(int)
    heat, births = rng.normal(size=size**2), 100.0 * rng.integers(10, 80, size**2)
    deaths = rng.binomial(births.astype(int), rates[truth] * np.exp(0.3 * heat)).astype(float)
    data = fo.sequences(deaths, covariates={"heat": heat, "births": births})
    emission = M.BinomialRegression(["heat"], trials="births")
    model = M.HMM(2, emission) if chain else M.PottsMixture(edges, 2, emission, beta=0.5)
    first = objective_of(model, data)
    for seed in (None, 0, 1, 2):
        rng = None if seed is None else np.random.default_rng(seed)
        start = first.space.params_at(first.start(rng))["rate"].ravel()
        assert 0 < start[0] < start[1] < (deaths / births).max()
    fit = fo.fit(model, data, restarts=1)
    shape = fit.params["coefficients"].shape
    known = {"rate": rates.reshape(fit.params["rate"].shape), "coefficients": np.full(shape, 0.3)}
    if chain:
        known |= {"initial": np.full(2, 0.5), "transition": np.array([[0.95, 0.05], [0.05, 0.95]])}
    assert fit.value == pytest.approx(fo.fit(model, data, init=known, restarts=1).value)


X = np.array([0.0, 1.0, 4.0, 30.0])
POSITIVE = np.array([0.01, 0.4, 2.0, 9.0])
ONE = {"mean": np.array([3.0]), "size": np.array([1.7])}
TAILED = {
    "negative-binomial": (
        M.NegativeBinomial(), X, ONE, stats.nbinom(1.7, 1.7 / 4.7), True),
    "exponential": (M.Exponential(), POSITIVE, {"mean": np.array([2.5])}, stats.expon(0, 2.5), False),
    "gamma": (M.Gamma(), POSITIVE, {"mean": np.array([2.5]), "shape": np.array([1.4])},
              stats.gamma(1.4, scale=2.5 / 1.4), False),
    "log-normal": (M.LogNormal(), POSITIVE, {"mean": np.array([0.3]), "variance": np.array([0.8])},
                   stats.lognorm(np.sqrt(0.8), scale=np.exp(0.3)), False),
    "beta": (M.Beta(), POSITIVE / 10, {"mean": np.array([0.3]), "precision": np.array([4.0])},
             stats.beta(1.2, 2.8), False),
    "student-t": (M.StudentT(), X, {name: np.array([value]) for name, value in
                  (("location", 1.0), ("scale", 2.0), ("df", 3.5))}, stats.t(3.5, 1.0, 2.0), False),
}  # fmt: skip


@pytest.mark.parametrize("name", list(TAILED))
def test_tails_of_other_emissions_are_those_of_scipy(name):
    emission, x, params, known, discrete = TAILED[name]
    found = emission.tails(params, Rows(x, None, np.zeros((4, 0)), np.ones(4)))
    half = 0.5 * known.pmf(x) if discrete else 0.0
    np.testing.assert_allclose(found.below[:, 0], known.cdf(x) - half, rtol=1e-9)
    np.testing.assert_allclose(found.above[:, 0], known.sf(x) + half, rtol=1e-9)
    np.testing.assert_allclose(np.broadcast_to(found.expected, (4, 1))[:, 0], known.mean(), rtol=1e-12)


def test_tails_of_zero_inflated_counts():
    params = {"rate": np.array([3.0]), "zeros": np.array([0.2])}
    found = M.ZeroInflatedPoisson().tails(params, Rows(X, None, np.zeros((4, 0)), np.ones(4)))
    counts = np.arange(200)
    mass = 0.8 * stats.poisson(3.0).pmf(counts) + 0.2 * (counts == 0)
    for place, x in enumerate(X):
        half = 0.5 * mass[counts == x].sum()
        assert found.below[place, 0] == pytest.approx(mass[counts < x].sum() + half, rel=1e-9)
        assert found.above[place, 0] == pytest.approx(mass[counts > x].sum() + half, rel=1e-6)
    assert found.expected[0, 0] == pytest.approx(2.4)


def test_tails_of_positive_numbers_with_zeros():
    params = {name: np.array([value]) for name, value in (("mean", 2.5), ("shape", 1.4), ("zeros", 0.2))}
    x = np.array([0.0, 0.01, 2.0, 9.0])
    found = M.ZeroInflatedGamma().tails(params, Rows(x, None, np.zeros((4, 0)), np.ones(4)))
    positive = stats.gamma(1.4, scale=2.5 / 1.4)
    np.testing.assert_allclose(found.below[:, 0], [0.1, *(0.2 + 0.8 * positive.cdf(x[1:]))], rtol=1e-9)
    np.testing.assert_allclose(found.above[:, 0], [0.9, *(0.8 * positive.sf(x[1:]))], rtol=1e-9)
    np.testing.assert_allclose(np.broadcast_to(found.expected, (4, 1)), 2.0)


def test_angles_have_no_tails():
    assert not M.VonMises().traits.tails
    assert M.PoissonRegression().traits.tails
    assert M.PoissonRegression().traits.exposure


def test_odd_places_of_a_regression_are_printed_and_reported(tmp_path):
    content = counties()
    content["features"][7]["properties"]["n"] = 60
    places = fo.read_map(content, "n", exposure="births", covariates=["heat"], names="name")
    model = M.PottsMixture(places, 1, M.PoissonRegression(shared=["heat"]), beta=0.0)
    cv = fo.loo(fo.fit(model, places.data, restarts=1))
    assert cv.site_losses().sort_values("p")["place"].iloc[0] == "b1"
    assert "  odd       b1 (60, " in str(cv)
    assert "Furthest from what was expected" in cv.to_html(tmp_path / "cv.html").read_text()


OF_COMMANDS = {
    "potts-poisson": ("births", M.PoissonRegression(["heat"]), True),
    "potts-binomial": ("births", M.BinomialRegression(["heat"], trials="births"), False),
    "potts-gaussian": (None, M.GaussianRegression(["heat"]), False),
    "potts-categorical": (None, M.CategoricalRegression(3, ["heat"]), False),
}


@pytest.mark.parametrize("as_table", [False, True])
@pytest.mark.parametrize("name", OF_COMMANDS)
def test_the_command_reads_covariates_of_a_map(tmp_path, name, as_table):
    exposure, emission, exposed = OF_COMMANDS[name]
    content = counties()
    for feature in content["features"]:
        row = feature["properties"]
        row["n"] = row["n"] % 3 if name == "potts-categorical" else row["n"]
    places = fo.read_map(content, "n", exposure=exposure, covariates=["heat"], names="name")
    file, options = tmp_path / "map.geojson", {}
    file.write_text(json.dumps(content))
    if as_table:
        rows = [feature["properties"] for feature in content["features"]]
        file = tmp_path / "table.csv"
        pd.DataFrame(rows).to_csv(file, index=False)
        ends = pd.DataFrame([[rows[at]["name"] for at in pair] for pair in places.graph.edges])
        ends.to_csv(tmp_path / "edges.csv", index=False)
        options = {"edges": tmp_path / "edges.csv"}
    options |= {"beta": "0.5"} | ({} if exposure is None else {"exposure": exposure})
    asked = Request(file, name, columns="n", covariates="heat", quiet=True, options=options)
    loaded, model = asked.loaded()
    sizes = places.exposure if exposed else None
    other = M.PottsMixture(places.graph, 2, emission=emission, beta=0.5, exposure=sizes)
    known = {"heat": column(content, "heat"), "births": column(content, "births")}
    data = fo.sequences(column(content, "n"), covariates=known)
    one, two = objective_of(model, loaded.data), objective_of(other, data)
    at = one.start(np.random.default_rng(0))
    assert one.space == two.space
    assert one(at) == pytest.approx(two(at), rel=1e-12)
    with pytest.raises(ValueError, match="'cold' is not a column"):
        Request(file, name, columns="n", covariates="cold", quiet=True, options=options).loaded()
