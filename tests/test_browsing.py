"""One place decides whether pages can be tested in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.browsing import BROWSERS, browser_on, opened

pytest.importorskip("selenium", reason="needs selenium")


def folder_of(path, **programs):
    """A folder with programs of these names, which do what they are given."""
    for name, does in programs.items():
        program = path / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ([], "needs Chromium or Chrome and chromedriver"),
        (["chromium"], "needs chromedriver"),
        (["google_chrome"], "needs chromedriver"),
        (["chromedriver"], "needs Chromium or Chrome"),
        *([[name.replace("-", "_"), "chromedriver"], ""] for name in BROWSERS),
    ],
)
def test_a_browser_needs_its_driver_and_may_have_other_names(tmp_path, names, missing):
    folder = folder_of(tmp_path, **dict.fromkeys(names, "exit 1"))
    found = browser_on(folder)
    assert found.missing == missing
    expected = [str(tmp_path / name.replace("_", "-")) for name in names if name != "chromedriver"]
    assert found.program == next(iter(expected), None)
    assert (found.driver is not None) == ("chromedriver" in names)
    if missing:
        with pytest.raises(RuntimeError, match=f"in a browser, which {missing}$"), opened(folder):
            pass


@pytest.mark.parametrize("names", [[], ["chromium"], ["google_chrome"]])
def test_pages_are_skipped_without_a_browser_and_its_driver(tmp_path, names):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "tests/test_pages.py",
    ]
    command += ["-k", "test_what_is_wrong_is_found"]
    path = folder_of(tmp_path, **dict.fromkeys(names, "exit 1"))
    root = Path(__file__).parents[1]
    environment = os.environ | {"PATH": path}
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert browser_on(path).missing in done.stdout
    assert "1 skipped" in done.stdout


def test_a_browser_of_another_name_opens_pages(tmp_path):
    real = browser_on()
    if real.missing:
        pytest.skip(real.missing)
    programs = {"google_chrome": real.program, "chromedriver": real.driver}
    folder = folder_of(tmp_path, **{name: f'exec "{path}" "$@"' for name, path in programs.items()})
    (tmp_path / "page.html").write_text("<title>There</title><script>console.warn('said')</script>")
    with opened(folder) as browser:
        browser.get((tmp_path / "page.html").as_uri())
        assert browser.title == "There"
        assert "said" in browser.get_log("browser")[0]["message"]
