"""HTML reports: of 50,400 points and 1,000 folds, and of maps of 10,000 and 100,000 sites with a fold each:
how large they are, how long they take to make and to open."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fitonce as fo
from benchmarks.browsing import opened
from fitonce.data.places import Names
from fitonce.results.report import html_report
from fitonce.results.result import CVResult

SITES, FOLDS, SIZE = 50_400, 1_000, 5_040
READY = "return performance.getEntriesByName('ready').length ? performance.getEntriesByName('ready')[0].startTime : -1"


def stretched(small: CVResult, scattered: bool = False) -> CVResult:
    """A result with as many rows as the traffic data has, without the days it would take to be real."""
    rng = np.random.default_rng(0)
    fold = np.repeat(np.arange(FOLDS), SIZE)
    if scattered:
        site = np.concatenate([np.sort(rng.choice(SITES, SIZE, replace=False)) for _ in range(FOLDS)])
    else:
        site = (rng.integers(0, SITES - SIZE, FOLDS)[:, None] + np.arange(SIZE)).ravel()
    control = rng.gamma(2.0, 1.0, SITES)[site]
    loss = control + rng.normal(0.0, 0.02, len(site))
    rows = {"fold": fold, "sequence": 0, "time": site, "site": site, "loss": loss, "control": control}
    folds = pd.concat([small.folds] * (FOLDS // len(small.folds) + 1), ignore_index=True).iloc[:FOLDS]
    values = rng.poisson(4.0 + 3.0 * np.sin(np.arange(SITES) / 300.0)).astype(float)
    values[20_000:20_400] = np.nan
    dates = pd.date_range("2005-04-10", periods=SITES, freq="5min").strftime("%Y-%m-%d %H:%M")
    places = Names(("traffic",), tuple(dates))
    fitted = dataclasses.replace(small.summary, lengths=np.array([SITES]), values=values, places=places)
    return dataclasses.replace(
        small, pointwise=pd.DataFrame(rows), folds=folds, fit=fitted, dropped=None
    )


def influence(result: CVResult) -> pd.DataFrame:
    site = np.arange(SITES)
    moved = np.random.default_rng(1).gamma(0.3, 0.01, SITES)
    values = result.fit.values  # noqa: PD011 - of a summary
    rows = {
        "sequence": 0,
        "time": site,
        "site": site,
        "value": values,
        "loss": moved,
        "displacement": moved,
    }
    return pd.DataFrame(rows)


def on_a_map(sites: int) -> CVResult:
    """Leave-one-out of a square grid with names, rows of numbers as they would be, without the fits."""
    side = round(sites**0.5)
    grid = np.arange(side * (sites // side)).reshape(-1, side)
    pairs = (grid[:, :-1], grid[:, 1:]), (grid[:-1], grid[1:]), (grid[:-1, :-1], grid[1:, 1:])
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in pairs])
    count, rng = grid.size, np.random.default_rng(0)
    model = fo.models.PottsMixture([(0, 1), (1, 2), (2, 3)], n_classes=2, emission="poisson", beta=0.5)
    small = fo.loo(fo.fit(model, np.array([1.0, 2.0, 8.0, 9.0]), restarts=1))
    site = np.arange(count)
    control = rng.gamma(2.0, 1.0, count)
    rows = {"fold": site, "sequence": 0, "time": site, "site": site, "cluster": site, "control": control}
    loss = control + rng.normal(0.0, 0.02, count)
    folds = pd.concat([small.folds] * (count // 4 + 1), ignore_index=True).iloc[:count].assign(loss=loss)
    names = Names(("the map",), tuple(f"tract {number:05d}" for number in site))
    values = rng.poisson(5.0, count).astype(float)
    shape = {"lengths": np.array([count]), "values": values, "edges": edges, "places": names}
    fitted = dataclasses.replace(small.summary, **shape)
    pointwise, dropped = pd.DataFrame(rows).assign(loss=loss), tuple(site[:, None])
    return dataclasses.replace(small, pointwise=pointwise, folds=folds, fit=fitted, dropped=dropped)


def load_seconds(path: Path) -> float:
    """From asking for the page until its charts are drawn, in a headless browser."""
    with opened() as browser:
        browser.get(path.as_uri())
        return browser.execute_script(READY) / 1000.0


def main() -> None:
    x = np.random.default_rng(0).poisson(np.repeat([2.0, 9.0], 100)).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(2), x, restarts=1)
    small = fo.cross_validate(fit, fo.folds.blocks(x, percent=10, n=20, seed=0), method="none")
    for name, scattered in (("blocks", False), ("single points", True)):
        result = stretched(small, scattered)
        say(f"50,400 points, folds of {name}", result, influence=influence(result))
    for sites in (10_000, 100_000):
        result = on_a_map(sites)
        say(f"a map of {len(result.folds):,} sites", result)


def say(name: str, result: CVResult, **more: Any) -> None:
    """Size and times of a report."""
    begun = time.perf_counter()
    page = html_report(result, **more)
    made = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        path.write_text(page, encoding="utf-8")
        size = path.stat().st_size / 1e6
        print(f"{name}: {size:.2f} MB, made in {made:.1f} s, open in {load_seconds(path):.2f} s")


if __name__ == "__main__":
    main()
