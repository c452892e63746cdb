"""Headless Chromium for tests that look at pages."""

from __future__ import annotations

from contextlib import contextmanager
from shutil import which

import pytest

needs_browser = pytest.mark.skipif(
    not (which("chromium") and which("chromedriver")), reason="needs chromium and chromedriver"
)


@contextmanager
def opened():
    """A browser that keeps what pages log."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(which("chromedriver")))
    try:
        yield browser
    finally:
        browser.quit()
