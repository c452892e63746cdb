"""Whether there is a browser that pages can be tested in, and how it is started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from shutil import which
from typing import Any, NamedTuple

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


class Browser(NamedTuple):
    """Paths of a browser and of the program that drives it, and what is missing, in words, or ""."""

    program: str | None
    driver: str | None
    missing: str


def browser_on(path: str | None = None) -> Browser:
    """The first browser in the folders of `path`, by default those of PATH."""
    program = next(filter(None, (which(name, path=path) for name in BROWSERS)), None)
    driver = which("chromedriver", path=path)
    needed = {
        "Chromium or Chrome": program,
        "chromedriver": driver,
        "selenium": find_spec("selenium"),
    }
    missing = [name for name, found in needed.items() if found is None]
    return Browser(program, driver, f"needs {' and '.join(missing)}" if missing else "")


@contextmanager
def opened(path: str | None = None) -> Iterator[Any]:
    """A headless browser that keeps what pages log."""
    found = browser_on(path)
    if found.missing:
        raise RuntimeError(f"a page is opened in a browser, which {found.missing}")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = found.program or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(found.driver))
    try:
        yield browser
    finally:
        browser.quit()
