"""What notebooks show: HTML of every result that prints, complete, escaped and true."""

from __future__ import annotations

import dataclasses
import re
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

import fitonce as fo
from fitonce.results.notebook.card import figure
from fitonce.results.notebook.picture import pooled

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
RNG = np.random.default_rng(0)
COUNTS = pd.Series(
    RNG.poisson(np.repeat([2.0, 9.0, 2.0], 20)), index=pd.Index(range(1900, 1960), name="year")
)


@pytest.fixture(scope="module")
def fit():
    return fo.fit(fo.models.PoissonHMM(2), COUNTS, restarts=2)


@pytest.fixture(scope="module")
def cv(fit):
    return fo.cross_validate(fit, fo.folds.blocks(fit.data, percent=10, n=12, seed=0), optima=0)


@pytest.fixture(scope="module")
def selection():
    candidates = {HOSTILE: fo.models.PoissonHMM(1), "two": fo.models.PoissonHMM(2)}
    return fo.select(candidates, COUNTS, fo.folds.kfold(COUNTS, k=6), restarts=1, optima=0)


@pytest.fixture(scope="module")
def on_graph():
    edges = [(k, k + 1) for k in range(19)]
    model = fo.models.PottsMixture(edges, n_classes=2, emission="poisson", beta=0.5)
    return fo.fit(model, RNG.poisson(np.where(np.arange(20) < 10, 2.0, 12.0)), restarts=1)


@pytest.fixture(scope="module")
def labels():
    words = [["Ada", "met", "Bob"], ["She", "lived", HOSTILE]] * 4
    tags = [["B-PER", "O", "B-PER"], ["O", "O", "O"]] * 3 + [
        ["B-PER", "O", "B-PER"],
        ["O", "O", "B-PER"],
    ]
    return fo.fit(fo.models.LinearChainCRF(), fo.labelled(fo.word_features(words), tags, words=words))


@pytest.fixture(scope="module")
def shown(fit, cv, selection, on_graph, labels, tmp_path_factory):
    """One of each."""
    path = tmp_path_factory.mktemp("saved") / "cv.json"
    of_labels = fo.cross_validate(labels, fo.folds.structures(labels.data), method="ij")
    return {
        "fit": fit,
        "fit on a graph": on_graph,
        "fit of labels": labels,
        "stopped": fo.fit(fo.models.PoissonHMM(2), COUNTS, restarts=1, max_iterations=2),
        "optima": fit.optima,
        "cross-validation": cv,
        "read from a file": fo.load(cv.save(path)),
        "not checked": fo.cross_validate(
            fit, fo.folds.kfold(COUNTS, k=4), method="none", check=False, loss="joint"
        ),
        "one fold": fo.cross_validate(fit, fo.folds.kfold(COUNTS, k=4).some([1]), method="ij"),
        "sequences": of_labels,
        "scores": of_labels.label_scores(),
        "confusion": of_labels.confusion(),
        "suspects": of_labels.suspects(),
        "loo": fo.loo(fit, optima=0),
        "comparison": selection.comparison,
        "choice": selection,
        "influence": fo.influence(fit),
        "audit": fo.influence(labels),
        "bootstrap": fo.bootstrap(fit, n=50),
        "forecast": fit.forecast(4, n=50),
        "forecast of angles": fo.fit(fo.models.HMM(1, "von-mises"), COUNTS % 6 - 3.0).forecast(3, n=50),
        "plan": fo.plan(fit),
    }


NAMES = [
    *("fit", "fit on a graph", "fit of labels", "stopped", "optima", "cross-validation"),
    *("read from a file", "not checked", "one fold", "sequences", "loo", "comparison", "choice"),
    *("influence", "audit", "bootstrap", "forecast", "forecast of angles", "plan"),
    *("scores", "confusion", "suspects"),
]
NOT_JUDGED = ("forecast", "forecast of angles", "optima", "scores", "confusion", "suspects")


def parsed(html):
    return ElementTree.fromstring(html)


def words(html):
    tree = parsed(html)
    tree.remove(tree.find("style"))
    return " ".join(" ".join(tree.itertext()).split())


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_well_formed_small_and_loads_nothing(shown, name):
    html = shown[name]._repr_html_()
    tree = parsed(html)
    assert tree.get("class") == "fitonce"
    assert not {"script", "img", "link", "iframe"} & {part.tag for part in tree.iter()}
    assert not any(key.startswith("on") for part in tree.iter() for key in part.attrib)
    assert not re.search(r"https?:|url\(|nan|None|Traceback", html)
    assert len(html) < 30_000
    assert tree.find(".//strong") is not None


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_JUDGED])
def test_a_card_has_the_verdict_first_and_the_printed_text_last(shown, name):
    tree = parsed(shown[name]._repr_html_())
    marks = tree.findall("p/span")
    assert list(tree).index(tree.find("p")) == 1  # behind the style
    assert len(marks) == 1
    assert marks[0].get("class").split()[1] in ("good", "fair", "bad", "unchecked")
    assert list(tree)[-1].find("pre").text == repr(shown[name])


@pytest.mark.parametrize(
    "name", ["fit", "fit on a graph", "cross-validation", "choice", "influence", "audit", "forecast"]
)
def test_a_card_has_a_picture(shown, name):
    (*_, drawn) = parsed(shown[name]._repr_html_()).iter("svg")
    assert drawn.find("title").text
    numbers = [
        float(value)
        for part in drawn.iter()
        for key in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy")
        if (value := part.get(key)) is not None
    ]
    assert np.isfinite(numbers).all()


def test_cross_validation_is_told_as_it_is(cv):
    text = words(cv._repr_html_())
    assert text.startswith("good Cross-validation : held-out loss")
    low, high = cv.interval()
    assert f"{cv.estimate:.4f} ± {cv.se:.4f}, 95 %: {low:.4f} to {high:.4f}" in text
    by_site = cv.pointwise.groupby("site")["loss"].mean()
    assert f"Largest: year {1900 + by_site.idxmax()} ({figure(by_site.max())})" in text


def test_what_is_wrong_is_said_first(cv):
    bad = dataclasses.replace(cv, folds=cv.folds.assign(verdict="bad"))
    assert words(bad._repr_html_()).startswith(
        "caution Cross-validation : 12 of 12 folds with a bad verdict; "
    )
    fair = dataclasses.replace(cv, folds=cv.folds.assign(verdict=["fair"] + ["good"] * 11))
    assert words(fair._repr_html_()).startswith("fair")
    better = dataclasses.replace(cv, better_theta=cv.theta[0])
    assert "fo.fit(fit.model, fit.data, init=cv.better)" in words(better._repr_html_())
    without = dataclasses.replace(cv, se=np.nan, dof=0.0)
    assert "(no standard error)" in words(without._repr_html_())


def test_fits_that_are_no_minimum_say_so(shown):
    assert words(shown["stopped"]._repr_html_()).startswith(shown["stopped"].status.outcome.value)
    assert shown["fit"].status.ok
    assert words(shown["fit"]._repr_html_()).startswith("stationary Fit of HMM, 2 states")


def test_names_of_users_are_escaped(shown):
    for name in ("choice", "comparison", "audit", "suspects"):
        html = shown[name]._repr_html_()
        assert HOSTILE not in html
        assert HOSTILE in words(html)


def test_an_audit_counts_the_labels_that_it_doubts(shown):
    tokens = shown["audit"].tokens
    other = sum(a != b for a, b in zip(tokens["label"], tokens["rather"], strict=True))
    assert f"for {other} of {len(tokens)} labels another tag" in words(shown["audit"]._repr_html_())


def test_many_values_keep_their_peaks():
    values = RNG.normal(size=1234)
    values[7] = np.nan
    found, size = pooled(values, 100)
    assert size == 13
    assert len(found) == 95
    for k, value in enumerate(found):
        part = values[13 * k : 13 * (k + 1)]
        assert value == part[np.nanargmax(np.abs(part))]
    assert np.isnan(pooled(np.full(5, np.nan))[0]).all()


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0"), (3, "3"), (12345, "12,345"), (8.0, "8"), (0.123456, "0.1235"), (1234.56, "1,235"),
     (1e-9, "1.00e-09"), (np.nan, ""), (np.inf, "∞"), (-2.5, "-2.500")],
)  # fmt: skip
def test_numbers_are_short(value, said):
    assert figure(value) == said


def drawers(shown):
    """Every plot method of what is shown, by name."""
    return {
        f"{name}.{method}": getattr(one, method)
        for name, one in shown.items()
        for method in dir(type(one))
        if method.startswith("plot")
    }


def test_plots_return_axes_and_draw_on_those_given(shown):
    found = drawers(shown)
    assert {name.split(".")[0] for name in found} >= {
        *(
            "fit",
            "cross-validation",
            "comparison",
            "choice",
            "influence",
            "audit",
            "forecast",
            "confusion",
        ),
    }
    for name, draw in found.items():
        if name in ("fit on a graph.plot_transitions", "fit of labels.plot_transitions"):
            continue  # they have no chain, and say so
        given = plt.subplots()[1]
        assert draw(ax=given) is given, name
        made = draw()
        assert isinstance(made, Axes), name
        assert made is not given, name
        plt.close("all")


def test_maps_return_axes_too(on_graph):
    given = plt.subplots()[1]
    assert fo.plot_map(on_graph, show="class", ax=given) is given
    assert isinstance(fo.plot_map(on_graph), Axes)
    plt.close("all")
