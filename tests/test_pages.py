"""Every kind of page in a browser, from a phone to a large screen: nothing overflows, overlaps or is
cut, links lead somewhere, names are found, and advice is code that runs."""

from __future__ import annotations

import base64
import dataclasses
import html
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import fitonce as fo
import fitonce.results.report  # which fo imports when it is first used

KINDS = ["chain", "sequences", "map", "labels", "comparison", "choice"]
WIDTHS = (360, 768, 1280, 1920)
WRONG = Path(__file__).with_name("pages.js").read_text(encoding="utf-8")
LONG = "fitonce cv counts-of-a-long-name.csv --model poisson-hmm " + "--columns " + "a_long_column," * 12
COUNTIES = [
    *("Anson", "Ashe", "Bertie", "Bladen", "Brunswick", "Buncombe"),
    *("Burke", "Cabarrus", "Caldwell", "Camden", "Carteret", "Caswell"),
]


def counts(length, rng, index="day"):
    values = rng.poisson(np.repeat([3.0, 11.0], length // 2)).astype(float)
    days = pd.Index(pd.date_range("2024-01-01", periods=length), name=index)
    return pd.Series(values, days, name="calls per day")


def chain():
    x = counts(80, np.random.default_rng(0))
    x.iloc[20:23] = np.nan
    x.iloc[50] = 60.0
    fit = fo.fit(fo.models.PoissonHMM(2), x, restarts=1)
    folds = fo.folds.blocks(fit.data, percent=10, n=10, seed=0)
    return fit, folds, fo.cross_validate(fit, folds, optima=0)


def sequences():
    rng = np.random.default_rng(1)
    columns = ["pulse, beats per minute", "pressure, mmHg"]
    data = {
        f"patient {name} of the northern ward": pd.DataFrame(
            rng.normal([70.0, 120.0], 4.0, (30, 2)), columns=columns
        )
        for name in "ABCDEFGHIJ"
    }
    fit = fo.fit(fo.models.GaussianHMM(2), data, restarts=1)
    folds = fo.folds.structures(fit.data)
    return fit, folds, fo.cross_validate(fit, folds, method="onestep")


def on_map():
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4))
    model = fo.models.PottsMixture(grid, n_classes=1, emission="poisson", beta=0.0)
    deaths = np.random.default_rng(2).poisson(np.repeat([3.0, 9.0], 6)).astype(float)
    deaths[0] = 90.0  # Anson
    data = pd.Series(deaths, pd.Index(COUNTIES, name="county"), name="deaths")
    fit = fo.fit(model, data, restarts=1)
    folds = fo.folds.buffered(fit.model, hops=1)
    return fit, folds, fo.cross_validate(fit, folds, method="onestep", check="all")


def labels():
    rng = np.random.default_rng(3)
    words = [[f"word{k}" for k in rng.integers(0, 6, 7)] for _ in range(24)]
    tags = [["B-PER" if word in ("word0", "word1") else "O" for word in sentence] for sentence in words]
    tags[5][2] = "B-LOC"
    tags[9][3] = "B-LOC"
    features = [np.eye(6)[[int(word[4:]) for word in sentence]] for sentence in words]
    fit = fo.fit(fo.models.LinearChainCRF(), fo.labelled(features, tags, words=words))
    folds = fo.folds.structures(fit.data, k=6)
    return fit, folds, fo.cross_validate(fit, folds, method="onestep")


def squares():
    corners = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
    shapes = [[[x + k % 4, y + k // 4] for x, y in corners] for k in range(12)]
    geometries = [{"type": "Polygon", "coordinates": [shape]} for shape in shapes]
    return {"type": "FeatureCollection", "features": [{"geometry": one} for one in geometries]}


@pytest.fixture(scope="module")
def results():
    return {"chain": chain(), "sequences": sequences(), "map": on_map(), "labels": labels()}


@pytest.fixture(scope="module")
def pages(results, tmp_path_factory):
    """The files, by kind."""
    folder = tmp_path_factory.mktemp("pages")
    more = {
        "chain": {"influence": fo.influence(results["chain"][0]), "command": LONG},
        "map": {"influence": fo.influence(results["map"][0]), "polygons": squares()},
        "labels": {"influence": fo.influence(results["labels"][0])},
    }
    doubted = results["chain"][2].folds.copy()
    doubted.loc[3, ["verdict", "status"]] = ["bad", " ".join(["not stationary: a long reason,"] * 9)]
    shown = {kind: found[2] for kind, found in results.items()}
    shown["chain"] = dataclasses.replace(shown["chain"], folds=doubted)
    files = {
        kind: cv.to_html(folder / f"{kind}.html", **more.get(kind, {})) for kind, cv in shown.items()
    }
    cv = results["chain"][2]
    x, folds = results["chain"][0].data, results["chain"][1]
    named = {"one rate for all days and all seasons": fo.models.PoissonHMM(1), "two states": None}
    tried = {
        name: cv if model is None else fo.cross_validate(fo.fit(model, x, restarts=1), folds, optima=0)
        for name, model in named.items()
    }
    found = fo.compare(tried)
    files["comparison"] = found.to_html(folder / "comparison.html", command=LONG)
    table = found.table.assign(parameters=[5, 1], aic=[300.0, 420.0], bic=[310.0, 424.0])
    chosen = {"models": table.iloc[::-1], "choice": found.sentence}
    files["choice"] = cv.to_html(folder / "choice.html", **chosen)
    return files


def open_at(browser, path, width, scheme="light"):
    shape = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    chosen = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": chosen})
    browser.get(path.as_uri())


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_overflows_overlaps_or_leads_nowhere(browser, pages, kind):
    for width in WIDTHS:
        open_at(browser, pages[kind], width)
        opened = "document.querySelectorAll('details').forEach((one) => { one.open = true; });"
        found = browser.execute_script(opened + WRONG)
        assert found == [], f"at {width} px: {found}"
    assert browser.get_log("browser") == []


def test_what_is_wrong_is_found(browser, pages):
    """The check itself: a page with faults does not pass it."""
    open_at(browser, pages["chain"], 768)
    spoil = """
    document.querySelector('nav ul').style.cssText = 'flex-wrap: nowrap; overflow-x: auto';
    document.querySelector('pre').style.whiteSpace = 'pre';
    document.querySelector('section p').style.marginBottom = '-30px';
    document.querySelector('tbody tr').style.height = '300px';
    document.querySelector('nav a').setAttribute('href', '#nowhere');
    CHARTS[0].text('a label beyond the edge', 0, 5);
    """
    found = " ".join(browser.execute_script(spoil + WRONG))
    for fault in (
        "cut: ul",
        "beyond the edge: code",
        "overlap",
        "a row of 3",
        "nowhere: #nowhere",
        "cuts",
    ):
        assert fault in found, fault


@pytest.mark.parametrize("kind", KINDS)
def test_links_scroll_to_their_headings(browser, pages, kind):
    open_at(browser, pages[kind], 1280)
    place = """
    const [key, done] = arguments;
    document.querySelector(`nav a[href="#${key}"]`).click();
    requestAnimationFrame(() => {
      const heading = document.getElementById(`${key}-heading`).getBoundingClientRect();
      const under = document.querySelector("nav").getBoundingClientRect().bottom;
      done([heading.top - under, heading.bottom - innerHeight]);
    });
    """
    keys = browser.execute_script(
        "return [...document.querySelectorAll('main > section')].map((s) => s.id)"
    )
    assert len(keys) >= 6
    for key in keys:
        above, below = browser.execute_async_script(place, key)
        assert above > -2, f"{key} is under the navigation"
        assert below < 0, f"{key} is not on the screen"


LUMINANCE = """
const part = (rgb) => rgb.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255)
  .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
const bright = (rgb) => { const [r, g, b] = part(rgb); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const back = (e) => getComputedStyle(e).backgroundColor;
const clear = (e) => back(e) === 'rgba(0, 0, 0, 0)';
const below = (e) => (!e ? 'rgb(255, 255, 255)' : clear(e) ? below(e.parentElement) : back(e));
const contrast = (e) => {
  const [x, y] = [bright(getComputedStyle(e).color), bright(below(e))].sort((a, b) => b - a);
  return (x + 0.05) / (y + 0.05);
};
const texts = [...document.querySelectorAll('p, td, th, a, dt, dd, summary, h1, h2, label')];
return Math.min(...texts.filter((e) => e.checkVisibility()).map(contrast));
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_in_both_schemes(browser, pages, scheme):
    for kind in ("chain", "comparison"):
        open_at(browser, pages[kind], 1280, scheme)
        assert browser.execute_script(LUMINANCE) >= 4.5  # WCAG, level AA
        dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (dark == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.parametrize("kind", ["chain", "map"])
def test_pages_print_in_light_colours_and_within_the_sheet(browser, pages, kind):
    open_at(browser, pages[kind], 718, "dark")  # A4 without its margins
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 718
    assert browser.execute_script(f"{{ {WRONG} }}") == []
    for part in ("nav", ".controls", ".readout"):
        assert not browser.find_element("css selector", part).is_displayed()
    back = "return getComputedStyle(document.body).backgroundColor"
    assert browser.execute_script(back) == "rgb(255, 255, 255)"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    made = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert made.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", made)) >= 2


def told(browser, name):
    return browser.find_element("css selector", f"#chart-{name} .readout").text


def find(browser, name, text):
    field = browser.find_element("css selector", f"#chart-{name} [name=find]")
    field.clear()
    field.send_keys(text)
    return browser.find_element("css selector", f"#chart-{name} .found").text


def test_places_are_found_by_name(browser, pages):
    open_at(browser, pages["map"], 1280)
    assert find(browser, "map", "bert") == "1 of 1: Bertie"
    assert told(browser, "map").startswith("Bertie; loss: ")
    assert find(browser, "map", "b").startswith("1 of 6: Bertie")  # those that begin so come first
    assert find(browser, "map", "zzz") == "none"
    open_at(browser, pages["chain"], 1280)
    assert find(browser, "along", "2024-02-20") == "1 of 1: 2024-02-20"
    assert "calls per day: 60" in told(browser, "along")
    open_at(browser, pages["sequences"], 1280)
    assert find(browser, "along", "patient f") == "1 of 1: patient F of the northern ward"
    assert browser.get_log("browser") == []


def test_a_map_says_what_its_colours_mean(browser, pages, results):
    cv = results["map"][2]
    worst = cv.pointwise.groupby("site")["loss"].mean()
    open_at(browser, pages["map"], 1280)
    said = browser.find_element("css selector", "#chart-map .scale").text
    assert said.startswith("Colours by rank, not by value: half of the sites are below ")
    assert said.endswith(f"({COUNTIES[worst.idxmax()]}).")
    ends = browser.execute_script(
        "return scaleOf(CHARTS.at(-2).layers[CHARTS.at(-2).layer], 'rank', false).marks"
    )
    np.testing.assert_allclose([ends[0][1], ends[-1][1]], [worst.min(), worst.max()], rtol=1e-6)
    shares = browser.execute_script(
        "return Array.from(scaleOf(new Float32Array([5, 1, NaN, 1, 900]), 'rank', false).share)"
    )
    np.testing.assert_allclose(
        [x for x in shares if x is not None], [2 / 3, 1 / 6, 1 / 6, 1.0], rtol=1e-6
    )
    from selenium.webdriver.support.select import Select

    Select(browser.find_element("css selector", "#chart-map [name=scale]")).select_by_value("value")
    said = browser.find_element("css selector", "#chart-map .scale").text
    assert said.startswith("Colours by value, over the full range; the largest: ")


@pytest.mark.parametrize("width", [360, 1280])
def test_a_map_shows_which_places_are_odd(browser, pages, results, width):
    from selenium.webdriver.support.select import Select

    table = results["map"][2].site_losses().set_index("place")
    open_at(browser, pages["map"], width, "dark" if width == 360 else "light")
    show = Select(browser.find_element("css selector", "#chart-map [name=show]"))
    show.select_by_visible_text("p, how odd")
    said = browser.find_element("css selector", "#chart-map .scale").text
    assert f"p below {0.05 / 12:.2g}, beyond chance among 12 sites; " in said
    beyond = int((table["p"] < 0.05 / 12).sum())
    assert f"{beyond} {'is' if beyond == 1 else 'are'}." in said
    assert said.endswith(f"{table['p'].min():.2g} ({table['p'].idxmin()}).")
    chart = "CHARTS.find((c) => c.where)"
    marks = browser.execute_script(f"return {chart}.odd.scale('p, how odd').marks")
    assert [words for _, words in marks] == ["0.0042", "0.05", "1", "0.05", "0.0042"]
    np.testing.assert_allclose(marks[1][0], 0.5 - 0.5 * np.log(0.05) / np.log(0.05 / 12), rtol=1e-6)
    shares = browser.execute_script(f"return Array.from({chart}.odd.scale('p, how odd').share)")
    site = table["site"]["Ashe"]
    sign = 1 if table["direction"]["Ashe"] == "more" else -1
    size = min(np.log(table["p"]["Ashe"]) / np.log(0.05 / 12), 1.0)
    assert shares[site] == pytest.approx(0.5 + 0.5 * sign * size, abs=1e-6)
    assert not browser.find_element("css selector", "#chart-map [name=scale]").is_displayed()
    assert browser.execute_script(f"{{ {WRONG} }}") == []
    find(browser, "map", "ashe")
    row = table.loc["Ashe"]
    side = f"p {row['p']:.2g}, {row['direction']} than expected"
    assert side in told(browser, "map")
    show.select_by_visible_text("observed / expected")
    ratio = table["value"] / table["expected"]
    said = browser.find_element("css selector", "#chart-map .scale").text
    assert f"({ratio.idxmax()}); the smallest: " in said
    assert f"({ratio.idxmin()}). Where little is expected" in said
    ratios = browser.execute_script(f"return Array.from({chart}.layers['observed / expected'])")
    np.testing.assert_allclose(ratios, ratio.iloc[np.argsort(table["site"].to_numpy())], rtol=1e-5)
    assert browser.execute_script(f"{{ {WRONG} }}") == []


def test_a_buffer_is_outlined_with_its_fold(browser, pages, results):
    _, folds, cv = results["map"]
    open_at(browser, pages["map"], 1280)
    sites = browser.execute_script(
        "return Array.from(CHARTS.find((c) => c.where).chosen.sites).sort((a, b) => a - b)"
    )
    scored = browser.execute_script("return Array.from(CHARTS.find((c) => c.where).chosen.scored)")
    assert sites == folds.dropped[0].tolist() == cv.dropped[0].tolist()
    assert scored == folds.scored[0].tolist() == [0]


def text_of(page):
    body = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


def test_the_largest_losses_are_named_with_their_shares(pages, results):
    cv = results["map"][2]
    loss = cv.pointwise.set_index("site")["loss"]  # one point in each fold
    share = 100 * loss.max() / loss.sum()
    said = text_of(pages["map"].read_text(encoding="utf-8"))
    assert loss.idxmax() == 0
    assert f"One site carries {share:.0f} % of the total loss: Anson." in said
    assert "site 0" not in said
    assert "step" not in said.split("Settings")[1].split("Times")[0]


def test_only_what_is_not_trusted_is_called_so(results):
    cv = results["chain"][2]
    folds = cv.folds.assign(verdict="good", away=False, ok=True)
    folds.loc[2, ["verdict", "away", "error"]] = ["fair", True, 1e-9]
    folds.loc[4, "verdict"] = "bad"
    page = fo.results.report.html_report(dataclasses.replace(cv, folds=folds))
    listed = page.split("Folds not to be trusted</h3>")[1].split("<h3>Fair folds")[0]
    assert re.findall(r'<th scope="row"[^>]*>(\d+)</th>', listed) == ["4"]
    assert "moved far: a parameter depends mainly on what was left out" in page


@pytest.mark.parametrize("kind", ["chain", "sequences", "map", "labels"])
def test_advice_is_code_that_runs(results, kind, tmp_path, monkeypatch):
    fit, folds, cv = results[kind]
    monkeypatch.chdir(tmp_path)
    doubted = cv.folds.assign(verdict="bad")
    better = None if kind == "labels" else fit.theta
    unsure = dataclasses.replace(cv, folds=doubted, better_theta=better)
    unchecked = dataclasses.replace(cv, folds=cv.folds.assign(verdict="unchecked"))
    pages = [fo.results.report.html_report(one) for one in (unsure, unchecked)]
    advice = {
        html.unescape(code)
        for page in pages
        for code in re.findall(r'<code class="advice">(.*?)</code>', page)
    }
    assert len(advice) >= 4
    known = {"fo": fo, "fit": fit, "folds": folds, "cv": unsure, "model": fit.model, "data": fit.data}
    for code in sorted(advice):
        exec(code, dict(known))
    assert (tmp_path / "report.html").is_file()


def test_a_report_of_ten_thousand_sites_is_below_a_megabyte(results):
    from benchmarks.report import on_a_map

    page = fo.results.report.html_report(on_a_map(10_000))
    assert len(page.encode()) < 1e6
