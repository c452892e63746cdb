"""From a public map file to the places that a model does not predict: one command, checked by tensor
contractions that share no code with the junction tree."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from typer.testing import CliRunner

import fitonce as fo
from conftest import shared
from fitonce.cli import app

contracting = pytest.importorskip("opt_einsum")
BETA = 0.5


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


class Contracted:
    """log p(counts) of a Potts mixture of binomials, by contraction of one tensor per site and edge."""

    def __init__(self, edges, counts, trials):
        self.counts, self.trials, self.edges = counts, trials, np.asarray(edges)
        sites = [(site,) for site in range(len(counts))]
        letters = [*sites, *map(tuple, self.edges.tolist())]
        words = ",".join("".join(contracting.get_symbol(i) for i in one) for one in letters) + "->"
        shapes = [(2,)] * len(sites) + [(2, 2)] * len(self.edges)
        self.contract = contracting.contract_expression(words, *shapes, optimize="auto")
        self.link = np.exp(BETA * np.eye(2))

    def log_likelihood(self, rates, without=()):
        logs = stats.binom.logpmf(self.counts[:, None], self.trials[:, None], rates)
        logs[list(without)] = 0.0
        return self.log_sum(logs)

    def log_sum(self, logs):
        """Over all configurations, of what sites (V, 2) and edges add."""
        most = logs.max(1)
        tensors = [*np.exp(logs - most[:, None]), *[self.link / 2.0] * len(self.edges)]
        return float(np.log(self.contract(*tensors)) + most.sum())

    def refitted(self, without, start):
        """Rates at the maximum without some sites; flat priors on rates, as the model has."""
        found = optimize.minimize(
            lambda free: -self.log_likelihood(np.exp(free), without), np.log(start),
            method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-10, "maxiter": 2000},
        )  # fmt: skip
        return np.exp(found.x)

    def loss(self, site, rates):
        return self.log_likelihood(rates, [site]) - self.log_likelihood(rates)


@pytest.fixture(scope="module")
def sids(tmp_path_factory):
    """The shapefile that comes with libpysal, by one command to a report, a picture and a file."""
    pytest.importorskip("pyogrio")
    examples = pytest.importorskip("libpysal.examples")
    out = tmp_path_factory.mktemp("sids")
    printed = run(
        "cv", examples.get_path("sids2.shp"), "--model", "potts-binomial", "--columns", "SID74",
        "--exposure", "BIR74", "--names", "NAME", "--beta", BETA, "--folds", "points",
        "--method", "exact", "--optima", "0", "--restarts", "1",
        "--report", out / "sids.html", "--plot", out / "sids.png", "--show", "p",
        "--save", out / "sids.json",
    )  # fmt: skip
    return printed, out


def test_the_counties_that_are_not_predicted_are_named(sids):
    printed, out = sids
    table = pd.read_csv(shared("data", "sids2", "sids2.csv"))
    edges = pd.read_csv(shared("data", "sids2", "sids2_queen_edges.csv"))
    cv = fo.load(out / "sids.json")
    losses = cv.site_losses()
    assert set(losses["place"]) == set(table["NAME"])
    deaths, births = table["SID74"].to_numpy(), table["BIR74"].to_numpy()
    other = Contracted(edges, deaths, births)
    rates = other.refitted((), [0.0015, 0.004])
    # Every county at the rates of its fold, and those of the worst two found anew.
    expected = {}
    for place, site in zip(losses["place"][:2], losses["site"][:2], strict=True):
        expected[place] = other.loss(site, other.refitted([site], rates))
    np.testing.assert_allclose(losses["loss"][:2], list(expected.values()), rtol=1e-5)
    controls = [other.loss(site, rates) for site in range(100)]
    np.testing.assert_allclose(losses.sort_values("site")["control"], controls, rtol=1e-5)
    assert losses["place"][0] == "Anson"  # 15 of 1,570 births
    said = re.search(r"largest losses: (\w+) \(([\d.]+)\), (\w+)", printed)
    assert (said[1], said[3]) == tuple(losses["place"][:2])
    assert float(said[2]) == pytest.approx(expected["Anson"], rel=5e-3)


def test_the_report_and_the_picture_have_the_map(sids):
    _, out = sids
    page = (out / "sids.html").read_text()
    assert "Anson" in page
    assert "A layout, not a map" not in page
    assert len(page) < 1_000_000
    assert (out / "sids.png").stat().st_size > 20_000


def test_the_disease_map_of_the_docs():
    """Rates of two classes and one coefficient, and what they expect of a county, by contraction."""
    geopandas = pytest.importorskip("geopandas")
    examples = pytest.importorskip("libpysal.examples")
    counties = geopandas.read_file(examples.get_path("sids2.shp"))
    counties["nonwhite"] = counties["NWBIR74"] / counties["BIR74"]
    places = fo.read_map(counties, "SID74", exposure="BIR74", covariates=["nonwhite"], names="NAME")
    emission = fo.models.PoissonRegression(shared=["nonwhite"])
    fit = fo.fit(fo.models.PottsMixture(places, 2, emission, beta=BETA), places.data, restarts=1)
    deaths, births, share = (counties[c].to_numpy(float) for c in ("SID74", "BIR74", "nonwhite"))

    def logs_at(params):
        return stats.poisson.logpmf(deaths[:, None], means_at(params))

    def means_at(params):
        return births[:, None] * np.exp(params[:2] + params[2] * share[:, None])

    other = Contracted(places.graph.edges, deaths, births)

    def objective(params):
        prior = -0.5 * (params[2] * share.std() / 10.0) ** 2
        return -other.log_sum(logs_at(params)) - prior

    start = [*np.log(fit.params["rate"]), fit.params["shared_coefficients"][0]]
    found = optimize.minimize(
        objective, np.array(start) + 0.02, method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-10, "maxiter": 2000},
    )  # fmt: skip
    np.testing.assert_allclose(found.x, start, rtol=1e-5)
    cv = fo.cross_validate(fit, fo.folds.sites([[84]], places.data), method="exact", optima=0)
    params = cv.params(0)
    at = np.array([*np.log(params["rate"]), params["shared_coefficients"][0]])
    without = logs_at(at)
    without[84] = 0.0
    chances = np.empty(2)
    for k in range(2):
        one = without.copy()
        one[84, 1 - k] = -np.inf
        chances[k] = other.log_sum(one)
    chances = np.exp(chances - np.logaddexp.reduce(chances))
    row = cv.site_losses().iloc[0]
    assert row["place"] == "Anson"
    mean = means_at(at)[84]
    assert row["expected"] == pytest.approx(chances @ mean, rel=1e-7)
    above = stats.poisson.sf(15, mean) + 0.5 * stats.poisson.pmf(15, mean)
    assert row["p"] == pytest.approx(2.0 * chances @ above, rel=1e-6)
    assert 5e-4 < row["p"] < 0.01  # not beyond chance among 100, as without the covariate


def labels_of_bar(ax):
    bar = next(one for one in ax.figure.axes if one is not ax)
    return [text.get_text() for text in bar.get_xticklabels()], bar.get_xlabel()


def test_colours_say_which_counties_are_odd(sids):
    """By p and by observed / expected: colours of single counties, and what the bar says of them."""
    cv = fo.load(sids[1] / "sids.json")
    table = cv.site_losses().set_index("place").sort_values("site")
    ax = fo.plot_map(cv, show="p")
    colours = dict(zip(table.index, ax.collections[0].get_facecolors(), strict=True))
    red, _, blue = colours["Anson"][:3]
    np.testing.assert_allclose(colours["Anson"][:3], np.array([0xB0, 0x42, 0x00]) / 255, atol=1e-6)
    less = table[(table["direction"] == "less") & (table["p"] < 0.2)].index
    more = table[(table["direction"] == "more") & (table["p"] < 0.2)].index
    assert len(less) > 3
    assert len(more) > 3
    assert all(colours[place][2] > colours[place][0] for place in less)
    assert all(colours[place][0] > colours[place][2] for place in more)
    assert red > blue
    marks, said = labels_of_bar(ax)
    assert marks == ["0.0005, less", "0.05", "1", "0.05", "0.0005, more"]
    assert "1 of 100 sites is beyond chance (p below 0.0005)" in said
    assert "Anson" in [text.get_text() for text in ax.texts]
    ratio = table["value"] / table["expected"]
    ax = fo.plot_map(cv, show="ratio")
    colours = ax.collections[0].get_facecolors()
    order = np.argsort(ratio.to_numpy())
    warmth = (colours[:, 0] - colours[:, 2])[order]
    assert (np.diff(warmth) > -1e-9).all()  # the larger, the warmer
    marks, said = labels_of_bar(ax)
    end = float(marks[-1])
    beyond = int(((ratio > end) | (ratio < 1 / end)).sum())
    assert f"{beyond} sites beyond; all: 0 to {ratio.max():.3g}" in said
    with pytest.raises(ValueError, match=r"show='p' has a scale of its own"):
        fo.plot_map(cv, show="p", scale="ranks")
    with pytest.raises(ValueError, match=r"limits and scale must be None, .*got array\(\[0, 1\]\)"):
        fo.plot_map(cv, show="p", limits=np.array([0, 1]))


def row_of_places(path):
    """A map of three squares in a row."""
    content = {"type": "FeatureCollection", "features": []}
    for k in range(3):
        corners = [[k, 0], [k + 1, 0], [k + 1, 1], [k, 1], [k, 0]]
        shape = {"type": "Polygon", "coordinates": [corners]}
        properties = {"name": f"place {k}", "deaths": k, "births": 10 + k, "share": k / 7}
        feature = {"type": "Feature", "properties": properties, "geometry": shape}
        content["features"].append(feature)
    path.write_text(json.dumps(content))
    return str(path)


def test_a_picture_that_cannot_be_drawn_costs_nothing_else(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ValueError("a map without an end")

    monkeypatch.setattr("fitonce.cli.steps.plot_map", refuse)
    places = row_of_places(tmp_path / "counties.geojson")
    words = ["loo", places, "--model", "potts-poisson", "--columns", "births", "--beta", "0.5"]
    outs = {name: str(tmp_path / name) for name in ("a.png", "a.html")}
    done = CliRunner().invoke(app, [*words, "--plot", outs["a.png"], "--report", outs["a.html"]])
    assert done.exit_code == 2
    assert "a map without an end" in done.output
    assert "the result is kept in" in done.output
    assert "<html" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_what_cannot_be_shown_is_refused_before_the_fit(tmp_path, monkeypatch):
    monkeypatch.setattr("fitonce.cli.steps.fit", None)
    counties = ["counties.geojson", "--model", "potts-binomial", "--columns", "deaths"]
    row_of_places(tmp_path / counties[0])
    (tmp_path / "series.csv").write_text("x\n" + "1\n2\n3\n" * 9)
    counties[0] = str(tmp_path / counties[0])
    plot, p, ratio = ["--plot", str(tmp_path / "a.png")], ["--show", "p"], ["--show", "ratio"]
    for words, said in (
        (["cv", *counties, "--exposure", "births", "--show", "p"], "--show says what --plot colours"),
        (["cv", *counties, "--exposure", "births", *plot, "--show", "q"], "--show must be one of"),
        (
            ["cv", *counties, "--exposure", "births", *plot, "--show", "p", "--loss", "joint"],
            "--show p is for single sites, got --loss joint",
        ),
        (
            ["loo", counties[0], "--model", "potts-categorical", "--columns", "deaths", *plot, *p],
            "--show p needs a model that says how far out a value is, got PottsMixture",
        ),
        (
            ["cv", counties[0], "--model", "potts-gaussian", "--columns", "share", *plot, *ratio],
            "--show ratio is for maps of counts, got values that are no counts",
        ),
        (
            ["loo", str(tmp_path / "series.csv"), "--model", "poisson-hmm", *plot, "--show", "p"],
            "--show is for maps with shapes or coordinates",
        ),
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2
        assert said in done.output


def test_philadelphia_with_its_counts_joined(tmp_path):
    tracts = shared("data", "philly", "philly_tracts_2010.geojson")
    counts = shared("data", "philly", "philly_crime_counts_tract_year.csv")
    printed = run(
        "cv", tracts, "--join", counts, "--where", "year = 2018", "--model", "potts-poisson",
        "--columns", "violent", "--beta", "0.7", "--folds", "regions", "--n", "4", "--buffer", "1",
        "--method", "none",
        "--optima", "0", "--restarts", "1", "--save", tmp_path / "philly.json",
    )  # fmt: skip
    assert "384 sites, 1,153 edges, connected" in printed
    table = pd.read_csv(counts).query("year == 2018").set_index("GEOID10")["violent"]
    content = json.loads(tracts.read_text())
    named = {
        feature["properties"]["NAMELSAD10"]: table[int(feature["properties"]["GEOID10"])]
        for feature in content["features"]
    }
    losses = fo.load(tmp_path / "philly.json").site_losses()
    assert losses["value"].tolist() == [named[place] for place in losses["place"]]
    assert losses["place"][0] in printed
    assert "without the rim of 1 hop" in printed.replace("\n", " ")
