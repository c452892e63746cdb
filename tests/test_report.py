"""The HTML report: what is in it, that nothing escapes into it, and that a browser is content."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from reproduce.cases import EARTHQUAKES

import fitonce as fo
from canonical import POISSON, STEPS
from fitonce.crossval.valleys import valleys
from fitonce.results.dropped import to_dropped
from fitonce.results.report import comparison_report, html_report
from fitonce.results.report.along import along
from fitonce.results.report.choice import choice_section
from fitonce.results.report.largest import Shares, shares_of
from fitonce.results.report.layout import packed as where_packed
from fitonce.results.report.layout import positions
from fitonce.results.report.markup import number
from fitonce.results.report.points import MOST_POINTS, integers, packed, pairs

SECTIONS = [
    *("estimate", "largest", "along", "verdicts", "scatter", "influence"),
    *("model", "asked", "timings", "reproduce", "glossary"),
]
RNG = np.random.default_rng(0)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\"'&"


def counts(length):
    return RNG.poisson(np.repeat([2.0, 9.0], length // 2)).astype(float)


@pytest.fixture(scope="module")
def chain_fit():
    x = counts(STEPS)
    x[15:18] = np.nan
    return fo.fit(POISSON, x, restarts=1)


@pytest.fixture(scope="module")
def chain(chain_fit):
    folds = fo.folds.blocks(chain_fit.data, percent=10, n=12, seed=3)
    return fo.cross_validate(chain_fit, folds, method="none", check=False)


@pytest.fixture(scope="module")
def joint(chain_fit):
    folds = fo.folds.blocks(chain_fit.data, percent=10, n=12, seed=3)
    return fo.cross_validate(chain_fit, folds, method="none", check=False, loss="joint")


@pytest.fixture(scope="module")
def several(chain):
    """The same points as if they came from three sequences; a second fit would take as long again."""
    lengths = np.array([18, 27, 15])
    sequence = np.repeat(np.arange(3), lengths)
    time = np.concatenate([np.arange(length) for length in lengths])
    site = chain.pointwise["site"].to_numpy()
    rows = chain.pointwise.assign(sequence=sequence[site], time=time[site])
    fitted = dataclasses.replace(chain.summary, lengths=lengths)
    return dataclasses.replace(chain, pointwise=rows, fit=fitted)


@pytest.fixture(scope="module")
def structures(several):
    """Whole sequences left out."""
    rows = pd.DataFrame({"fold": range(3), "sequence": range(3), "time": -1, "site": -1})
    rows = rows.assign(loss=[100.0, 250.0, 90.0], control=[99.0, 240.0, 90.0])
    given = {"scheme": "structures", "folds": several.folds.iloc[:3], "pointwise": rows}
    return dataclasses.replace(several, **given)


@pytest.fixture(scope="module")
def graph():
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5))
    model = fo.models.PottsMixture(grid, n_classes=2, emission="poisson", beta=0.7)
    x = counts(20)
    x[3] = np.nan
    folds = fo.folds.regions(model, percent=10, n=8, seed=0)
    return fo.cross_validate(fo.fit(model, x), folds, method="none", check=False)


@pytest.fixture(scope="module")
def failed(chain):
    """One fold without a number, one with a bad verdict, one with an impossible point."""
    folds, points = chain.folds.copy(), chain.pointwise.copy()
    folds.loc[3, ["loss", "error"]] = np.nan
    folds.loc[3, "ok"] = False
    folds.loc[3, "status"] = f"not a minimum: {HOSTILE}"
    folds.loc[5, "verdict"] = "bad"
    points.loc[points["fold"] == 3, "loss"] = np.nan
    points.loc[0, "loss"] = np.inf
    broken = {"se": np.nan, "error": np.nan, "refits_seconds": np.inf}
    return dataclasses.replace(chain, folds=folds, pointwise=points, **broken)


@pytest.fixture(scope="module")
def large(chain):
    """50,400 points, 1,000 folds of 5,040 of them, five million rows."""
    rng = np.random.default_rng(0)
    site = (rng.integers(0, 45_360, 1000)[:, None] + np.arange(5040)).ravel()
    control = rng.gamma(2.0, 1.0, len(site))
    loss = control + rng.normal(0.0, 0.01, len(site))
    loss[1234] = 99.0
    fold = np.repeat(np.arange(1000), 5040)
    rows = {"fold": fold, "sequence": 0, "time": site, "site": site, "loss": loss, "control": control}
    folds = pd.concat([chain.folds] * 84, ignore_index=True).iloc[:1000]
    values = rng.poisson(5.0, 50_400).astype(float)
    fitted = dataclasses.replace(chain.summary, lengths=np.array([50_400]), values=values)
    many = {"pointwise": pd.DataFrame(rows), "folds": folds, "fit": fitted, "dropped": None}
    return dataclasses.replace(chain, **many)


def against(result):
    """A made-up comparison with exact refits."""
    table = result.pointwise.rename(columns={"loss": "approximate"})
    return table.assign(exact=table["approximate"] + 0.01 * np.sin(np.arange(len(table))))


def moved(result):
    """A made-up table of influence."""
    sites = np.flatnonzero(np.isfinite(result.summary.values))
    one = {"sequence": 0, "time": sites, "site": sites, "value": 1.0, "loss": 2.0}
    return pd.DataFrame(one).assign(displacement=1.0 / (1 + sites), **{"rate<0>": 0.1})


def embedded(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(found.group(1))


@pytest.mark.parametrize("name", ["chain", "joint", "several", "structures", "graph", "failed"])
def test_every_section_is_there_and_the_page_is_alone(name, request):
    page = html_report(request.getfixturevalue(name))
    for section in SECTIONS:
        assert page.count(f'<section id="{section}"') == 1
    assert '<html lang="en">' in page
    assert not re.search(r"https?://|(src|href)=\"(?!#|data:)|@import|url\(", page)
    assert not re.search(r"\bnan\b|\binf\b", re.sub(r"<script.*?</script>", "", page, flags=re.S))
    embedded(page)


def test_the_same_input_gives_the_same_page(chain, graph):
    assert html_report(chain) == html_report(chain)
    assert html_report(graph) == html_report(graph)


def test_text_of_others_is_escaped(failed):
    asked = {"file": HOSTILE, HOSTILE: "key"}
    page = html_report(failed, asked=asked, command=HOSTILE, title=HOSTILE, times={HOSTILE: 1.0})
    labelled = html_report(failed, scatter=against(failed), scatter_labels=(HOSTILE, HOSTILE))
    for text in (page, labelled):
        assert "<img" not in text
        assert "<script>alert" not in text
        assert text.count("<script") == 2
    assert embedded(labelled)["scatter"]["xlabel"] == HOSTILE


def test_what_is_not_a_number_is_said_in_words(failed):
    page = html_report(failed)
    assert "standard error not available" in page
    assert "no error could be estimated" in page
    assert "1 without a usable number" in page
    assert [number(value) for value in (np.nan, -np.inf, None)] == ["not available"] * 3
    assert [number(value) for value in (0.0, 1234.567, 2.5e-9)] == ["0", "1,235", "2.500e-09"]


def test_what_was_not_asked_for_is_said(chain):
    page = html_report(chain)
    assert "No exact refits were requested" in page
    assert "influence=fo.influence(fit))" in page
    assert "No exact refits" not in html_report(chain, scatter=against(chain))


def test_means_leave_out_failed_folds(chain, failed):
    found = along(failed, failed.summary)
    used = failed.pointwise["loss"].map(np.isfinite) & (failed.pointwise["fold"] != 3)
    means = failed.pointwise[used].groupby("site")["loss"].mean()
    np.testing.assert_allclose(found.loss[means.index], means)
    assert np.isnan(np.delete(found.loss, means.index)).all()
    assert found.skipped == (~used).sum()


def test_a_block_with_missing_points_is_one_stretch(chain):
    found = along(chain, chain.summary)
    runs = found.runs
    assert found.scored is None  # all that is left out and observed is scored
    assert len(runs.start) == len(chain.folds)
    np.testing.assert_array_equal(runs.start, [sites.min() for sites in chain.dropped])
    np.testing.assert_array_equal(runs.stop, [sites.max() + 1 for sites in chain.dropped])
    earlier = along(dataclasses.replace(chain, dropped=None), chain.summary).runs
    first = chain.pointwise.groupby("fold")["site"].agg(["min", "max"])
    np.testing.assert_array_equal(earlier.start, first["min"])
    np.testing.assert_array_equal(earlier.stop, first["max"] + 1)


def test_blocks_of_different_sequences_stay_apart(several):
    found = along(several, several.summary)
    assert len(found.runs.start) > len(several.folds)
    sequence = np.repeat(np.arange(3), found.lengths)
    np.testing.assert_array_equal(sequence[found.runs.start], sequence[found.runs.stop - 1])


def test_a_scatter_of_many_points_keeps_the_extremes(large):
    shown = pairs(large, None, ("a", "b"))
    drawn = np.frombuffer(base64.b64decode(packed(shown)["y"]["f"]), "<f4")
    assert len(drawn) == MOST_POINTS
    assert drawn.max() == 99.0


def test_a_large_report_is_small(large):
    page = html_report(large)
    assert 0.5e6 < len(page.encode()) < 1.5e6


def unpacked(found):
    """What the page unpacks, by another route."""
    ((kind, content),) = found.items()
    if kind == "r":
        return content[0] + content[1] * np.arange(content[2])
    types = {"f": "<f4", "i": "<i4", "h": "<u2", "b": "u1"}
    return np.frombuffer(base64.b64decode(content), types[kind])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, 5, 7, 9], "r"), ([4, 4, 4], "r"), ([0, 255, 3], "b"), ([0, 256, 1], "h"),
        ([0, 70_000, 1], "i"), ([-1, 2, 3], "i"), ([], "b"), ([7], "b"), ([9, 2], "b"),
    ],
)  # fmt: skip
def test_integers_take_little_space_and_stay_the_same(values, kind):
    found = integers(np.array(values, int))
    assert list(found) == [kind]
    np.testing.assert_array_equal(unpacked(found), values)


def test_outlines_are_as_fine_as_the_file_may_be_large():
    """Circles of 400 corners for 1,000 sites: fewer corners, and none further off than the grid."""
    turn = np.linspace(0.0, 2.0 * np.pi, 400)
    ring = np.stack([np.cos(turn), np.sin(turn)], 1)
    rings = [0.45 * ring + [k % 40, k // 40] for k in range(1000)]
    found = where_packed(1000, np.array([[0, 1]]), {"type": "FeatureCollection", "features": [
        {"geometry": {"type": "Polygon", "coordinates": [one.tolist()]}} for one in rings
    ]})  # fmt: skip
    starts, x = unpacked(found["rings"]), unpacked(found["x"]).astype(float)
    assert len(starts) == 1001
    assert 1000 * 8 < len(x) <= 60_000
    wide = [np.ptp(x[a:b]) for a, b in pairwise(starts)]
    whole = np.concatenate(rings)
    scale = x.max() / np.ptp(whole[:, 0])
    np.testing.assert_allclose(wide, 0.9 * scale, atol=1.01)


def test_points_of_a_file_are_drawn_where_they_are():
    places = [[0.0, 0.0], [10.0, 0.0], [10.0, 5.0]]
    features = [{"geometry": {"type": "Point", "coordinates": place}} for place in places]
    found = where_packed(3, np.array([[0, 1], [1, 2]]), {"features": features})
    x, y = unpacked(found["x"]).astype(float), unpacked(found["y"]).astype(float)
    assert x[1] == x[2] == x.max()
    assert y[2] / x[2] == pytest.approx(0.5, rel=0.01)
    with pytest.raises(ValueError, match="the map has 3 features, but 4 values are to be shown"):
        where_packed(4, np.array([[0, 1]]), {"features": features})


def test_what_folds_leave_out_is_saved(graph, tmp_path):
    graph.save(tmp_path / "graph.json")
    again = fo.load(tmp_path / "graph.json")
    assert len(again.dropped) == len(graph.dropped)
    for one, other in zip(graph.dropped, again.dropped, strict=True):
        np.testing.assert_array_equal(one, other)
    for damaged in (([1, 0], [0, 1], [1, 2]), ([0], [2], [2]), ([9], [0], [1]), ([0], [-1], [1])):
        with pytest.raises(ValueError, match="stretches that folds leave out"):
            to_dropped(*map(np.array, damaged), 3)
    with pytest.raises(ValueError, match="three columns of integers"):
        to_dropped(np.array([0]), np.array([0.5]), np.array([1]), 3)


def test_small_rates_of_exposure_are_read_per_thousand(graph):
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5))
    births = np.linspace(500.0, 4000.0, 20)
    deaths = np.random.default_rng(0).poisson(births * np.repeat([0.001, 0.004], 10)).astype(float)
    model = fo.models.PottsMixture(grid, n_classes=2, emission="poisson", beta=0.5, exposure=births)
    fit = fo.fit(model, deaths, restarts=1)
    shown, raw = fit.summary.parameters, fit.to_dataframe()
    assert shown["name"].tolist() == [f"{name} per 1,000 of exposure" for name in raw["name"]]
    np.testing.assert_allclose(shown[["value", "se"]], 1000 * raw[["value", "se"]])
    assert "rate per 1,000 of exposure" in str(fit)


def test_sums_of_shares_and_estimates_without_a_place(chain):
    found = along(chain, chain.summary)
    shares = shares_of(found.loss)
    assert np.nansum(shares) == pytest.approx(1.0)
    assert shares_of(np.array([1.0, -0.5, 2.0])) is None
    place = int(np.nanargmax(found.loss))
    rows = chain.pointwise.assign(weight=1.0 / chain.pointwise.groupby("fold")["site"].transform("size"))
    rest = rows[rows["site"] != place]
    expected = (rest["loss"] * rest["weight"]).sum() / rest["weight"].sum()
    assert Shares(chain, found.place, len(found.loss)).without(place) == pytest.approx(expected)


def test_a_comparison_page_names_where_models_differ(chain):
    other = dataclasses.replace(chain, pointwise=chain.pointwise.copy(), folds=chain.folds.copy())
    other.pointwise.loc[other.pointwise["site"] == 40, "loss"] += 9.0
    mean = other.pointwise.groupby("fold")["loss"].mean()
    other = dataclasses.replace(other, folds=other.folds.assign(loss=mean))
    found = fo.compare({"plain": chain, "worse": other})
    page = comparison_report(found)
    assert page.count('<section id="apart"') == 1
    first = re.search(r'<section id="apart".*?<tbody><tr>(.*?)</tr>', page, re.DOTALL).group(1)
    cells = re.sub(r"<[^>]+>", " ", first).split()
    assert cells[:5] == ["time", "40", "9.000", "plain", cells[4]]
    with pytest.raises(ValueError, match="found must be a Comparison, got dict"):
        comparison_report({})


def test_graphs_in_parts_and_tiny_ones_are_drawn():
    pieces = np.array([[0, 1], [1, 2], [3, 4]])
    assert np.isfinite(positions(6, pieces)).all()
    assert np.isfinite(positions(2, pieces[:1])).all()
    path = np.column_stack([np.arange(1999), np.arange(1, 2000)])
    np.testing.assert_array_equal(positions(2000, path), positions(2000, path))


def test_tables_with_other_columns_are_refused(chain):
    with pytest.raises(ValueError, match=r"scatter must have the columns .* lacking: exact"):
        html_report(chain, scatter=chain.pointwise.assign(approximate=0.0))
    with pytest.raises(ValueError, match=r"influence must have the columns .* lacking: displacement"):
        html_report(chain, influence=moved(chain).drop(columns="displacement"))
    with pytest.raises(ValueError, match="result must be a CVResult, got dict"):
        html_report({})


# In a browser

SHOWN = "return document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent"
SCROLL = """
const [canvas, done] = arguments;
canvas.scrollIntoView({block: 'center'}); // and wait: what is told is hidden while a page scrolls
requestAnimationFrame(() => requestAnimationFrame(() => done()));
"""
TOO_WIDE = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
DARK_PIXELS = """
const [canvas] = arguments;
const found = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
return found.filter((value, i) => i % 4 === 3 && value > 0).length
"""


def open_page(browser, folder, page, width=1280):
    shape = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    (folder / "report.html").write_text(page, encoding="utf-8")
    browser.get((folder / "report.html").as_uri())


def canvas(browser, name):
    found = browser.find_element("css selector", f"#chart-{name} canvas")
    browser.execute_async_script(SCROLL, found)
    return found


def press(browser, where, *keys):
    from selenium.webdriver import ActionChains

    browser.execute_script("arguments[0].focus()", where)
    ActionChains(browser).send_keys(*keys).perform()
    return browser.execute_script(SHOWN)


def hover(browser, where, x, y=0, touch=False):
    """What is told when one points so far from the middle."""
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.pointer_input import PointerInput

    kind = "touch" if touch else "mouse"
    actions = ActionChains(browser, duration=0, devices=[PointerInput(kind, kind)])
    actions.w3c_actions.pointer_action.move_to(where, x, y)
    if touch:
        actions.w3c_actions.pointer_action.pointer_down().pointer_up()
    actions.perform()
    return browser.execute_script(SHOWN)


@pytest.mark.parametrize("name", ["chain", "joint", "several", "structures", "graph", "failed"])
def test_a_browser_shows_every_section_without_complaint(browser, tmp_path, name, request):
    result = request.getfixturevalue(name)
    for width in (1280, 360):
        open_page(browser, tmp_path, html_report(result, title=HOSTILE + "x" * 200), width)
        for section in SECTIONS:
            assert browser.find_element("id", section).is_displayed()
        for drawn in browser.find_elements("tag name", "canvas"):
            assert browser.execute_script(DARK_PIXELS, drawn) > 1000
        assert browser.execute_script(TOO_WIDE) <= 0
    assert browser.get_log("browser") == []


def test_keys_go_through_the_points_of_the_scatter(browser, tmp_path, chain):
    from selenium.webdriver import Keys

    table = against(chain)
    open_page(browser, tmp_path, html_report(chain, scatter=table))
    said = press(browser, canvas(browser, "scatter"), Keys.ARROW_RIGHT)
    worst = table.loc[(table["approximate"] - table["exact"]).abs().idxmax()]
    assert f"fold {worst['fold']:.0f}, time {worst['time']:.0f}" in said
    assert "exact: " in said
    assert press(browser, canvas(browser, "scatter"), Keys.ESCAPE) == ""
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("touch", [False, True])
def test_pointing_tells_fold_and_point(browser, tmp_path, chain, touch):
    rows = chain.pointwise.iloc[:3].assign(approximate=[1.0, 2.0, 3.0], exact=[1.0, 2.0, 3.0])
    browser.set_window_size(1280, 1000)  # whatever an earlier test has left
    open_page(browser, tmp_path, html_report(chain, scatter=rows, influence=moved(chain)))
    dot = canvas(browser, "scatter")
    found = [hover(browser, dot, x, 0, touch) for x in range(-200, 201, 10)]
    assert any(f"fold 0, time {rows['time'].iloc[1]}" in said for said in found)
    assert "data: " in hover(browser, canvas(browser, "along"), 50, 0, touch)
    assert "displacement: " in hover(browser, canvas(browser, "influence"), 50, 0, touch)
    assert browser.get_log("browser") == []


def test_the_chosen_fold_is_shaded_and_told(browser, tmp_path, chain):
    from selenium.webdriver import Keys

    open_page(browser, tmp_path, html_report(chain))
    slider = browser.find_element("css selector", "#chart-along input[type=range]")
    press(browser, slider, Keys.ARROW_RIGHT)
    told = browser.find_element("css selector", "#chart-along output").text
    assert told.startswith("1 (time 13 to time 18): loss ")
    shown = canvas(browser, "along")
    first = int(chain.pointwise.loc[chain.pointwise["fold"] == 1, "site"].iloc[0])
    said = press(browser, shown, *[Keys.ARROW_RIGHT] * (first + 1))
    assert f"time {first}" in said
    assert "left out by fold 1" in said


def test_sequences_can_be_chosen_and_zoomed(browser, tmp_path, several):
    from selenium.webdriver import Keys
    from selenium.webdriver.support.select import Select

    open_page(browser, tmp_path, html_report(several))
    Select(browser.find_element("name", "sequence")).select_by_value("1")
    assert "sequence 1, time 0" in press(browser, canvas(browser, "along"), Keys.ARROW_RIGHT)
    browser.find_element("css selector", "#chart-along [data-zoom=right]").click()
    browser.find_element("css selector", "#chart-along [data-zoom=in]").click()
    assert "sequence 1, time" in press(browser, canvas(browser, "along"), Keys.ARROW_RIGHT)
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("drawn", ["graph", "polygons"])
def test_a_map_tells_its_sites(browser, tmp_path, graph, drawn):
    from selenium.webdriver import Keys

    squares = [
        {
            "properties": {"name": f"tract {k}"},
            "geometry": {"type": "Polygon", "coordinates": [square(k % 5, k // 5)]},
        }
        for k in range(20)
    ]
    outlines = {"type": "FeatureCollection", "features": squares} if drawn == "polygons" else None
    open_page(browser, tmp_path, html_report(graph, polygons=outlines, influence=moved(graph)))
    shown = canvas(browser, "map")
    said = press(browser, shown, *[Keys.ARROW_RIGHT] * 4)
    assert said.startswith("tract 3" if outlines else "site 3")
    assert "data: missing" in said
    places = [(x, y) for x in range(-240, 241, 60) for y in range(-120, 121, 40)]
    pointed = [hover(browser, shown, *place) for place in places]
    assert any(text.startswith("tract " if outlines else "site ") for text in pointed)
    assert browser.get_log("browser") == []


def square(x, y):
    return [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]


def test_a_large_report_opens(browser, tmp_path, large):
    open_page(browser, tmp_path, html_report(large), 360)
    assert "loss: " in hover(browser, canvas(browser, "along"), 50)
    assert browser.get_log("browser") == []


def tried(**changed):
    columns = {
        "parameters": [1, 5, 11], "estimate": [2.4, 2.24, 2.2], "se": [0.1, 0.07, 0.06],
        "difference": [0.2, 0.04, 0.0], "difference_se": [0.05, 0.06, np.nan],
        "nats": [30.0, 6.0, 0.0], "p": [0.001, 0.51, np.nan],
        "control": [2.39, 2.22, 2.1], "aic": [616.0, 572.0, 580.0], "bic": [618.0, 586.0, np.nan],
        "worst": ["good", "good", "bad"], "fit": ["stationary", "stationary", "not stationary"],
    }  # fmt: skip
    return pd.DataFrame(columns | changed, index=["1 state", "2 states", "3 states"])


def marks(page, kind):
    """Where the marks of a kind are, in percent of the width; with their own width, if they have one."""
    found = re.findall(rf'class="{kind}" style="left:([-\d.]+)%(?:;width:([\d.]+)%)?"', page)
    return [tuple(float(x) for x in one if x) for one in found]


def test_the_choice_is_drawn_to_scale():
    page = choice_section(tried(), "least held-out loss: 3 states")
    dots = [x for (x,) in marks(page, "estimate")]
    assert {best for (best,) in marks(page, "best")} == {dots[2]}
    assert (dots[0] - dots[2]) / (dots[1] - dots[2]) == pytest.approx(0.2 / 0.04, rel=0.02)
    thick = marks(page, "se")
    assert len(thick) == 2  # the best has no difference from itself
    assert thick[0][0] > dots[2]  # one state is worse by more than its paired standard error
    assert thick[1][0] < dots[2]  # two states are not
    for words in ("Least held-out loss: 3 states.", "not stationary", "bad"):
        assert words in page


def test_two_optima_of_a_fold_are_drawn():
    """Of the earthquakes with four states, of which some folds are better off in another optimum."""
    fit = fo.fit(fo.models.PoissonHMM(4), EARTHQUAKES)
    folds = fo.folds.blocks(fit.data, percent=10, n=30, seed=0)
    cv = fo.cross_validate(fit, folds)
    moved = cv.folds["gain"].idxmax()
    found = valleys(fit, folds, cv)
    assert set(found["fold"]) == {moved}
    at = found.set_index("position")["objective"]
    assert at[1.0] == pytest.approx(0.0, abs=1e-9)
    assert at[0.0] == pytest.approx(cv.folds["gain"][moved], abs=1e-6)
    assert at[(at.index > 0) & (at.index < 1)].max() > 10 * at[0.0]  # a ridge between them
    page = html_report(cv, valley=found)
    assert 'id="optima"' in page
    assert f"The objective of fold {moved} along the line" in page
    assert page.count("<polyline") == 1
    still = fo.cross_validate(fit, folds, optima=0)
    assert valleys(fit, folds, still) is None
    assert 'id="optima"' not in html_report(still)


def test_a_choice_without_standard_errors_or_with_an_infinite_control_is_drawn():
    odd = tried(se=np.nan, difference_se=np.nan, control=[np.inf, 2.2, np.nan])
    page = choice_section(odd, "least held-out loss: 3 states")
    assert len(marks(page, "estimate")) == 3
    assert len(marks(page, "control")) == 1
    assert "nan" not in re.sub(r"not available", "", page)
    alone = choice_section(tried().iloc[:1].assign(se=0.0, control=2.4, difference_se=np.nan), "one")
    assert "nan" not in alone


def test_of_several_channels_the_one_that_is_drawn_is_named(chain):
    fitted = dataclasses.replace(chain.summary, channels=("heat, °C", "rain"))
    shown = along(chain, fitted)
    assert (shown.channel, shown.shown) == ("heat, °C", "heat, °C, the first of 2 channels")
    assert along(chain, chain.summary).channel == "data"
