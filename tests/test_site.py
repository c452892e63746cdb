"""The documents build to a site: no warning, every picture there, and a search that finds things."""

from __future__ import annotations

import http.server
import re
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMALL = 100_000  # bytes


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="needs mkdocs")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.fixture(scope="module")
def address(site):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_the_search_of_the_site_finds_what_is_typed(address, browser):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(f"{address}/search.html?q=stationary")
    wait = WebDriverWait(browser, 30)
    links = wait.until(lambda b: b.find_elements("css selector", "#mkdocs-search-results article a"))
    found = {link.get_attribute("href").removeprefix(address).split("#")[0] for link in links}
    assert "/tutorial/" in found
    browser.get(f"{address}/search.html?q=qqqzzz")
    wait.until(lambda b: "No results" in b.find_element("id", "mkdocs-search-results").text)


@pytest.mark.slow
def test_the_page_of_examples_has_its_pictures(address, browser):
    browser.get(f"{address}/examples/")
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('[role=main] img')].map(i => i.complete * i.naturalWidth)"
    )
    assert len(sizes) == 7
    assert min(sizes) > 300


def test_pictures_of_the_examples_are_small_and_all_shown():
    shown = re.findall(r"\(examples/(\w+\.png)\)", (ROOT / "docs/examples.md").read_text())
    kept = {path.name: path.stat().st_size for path in (ROOT / "docs/examples").glob("*.png")}
    assert sorted(shown) == sorted(kept)
    assert max(kept.values()) < SMALL
    drawn = re.findall(r'folder, "(\w+)"\)', (ROOT / "examples/pictures.py").read_text())
    assert {f"{name}.png" for name in drawn} == kept.keys()
