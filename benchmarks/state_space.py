"""Structural time series against statsmodels: 100 folds of weekly CO2, many short series, a long one.

statsmodels' refits start at the parameters of all data; ten are timed and scaled up. Without refitting
(`apply`) it filters the kept data again at the parameters of all data, which is our control. Losses are of
left-out points, given all kept data. Each of our cross-validations has a process of its own. Its exactly diffuse filter fails on these seasons (it never leaves the
diffuse phase), so that its refits have its usual start, with a variance of a million, as its users have.
"""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

import fitonce as fo

REFITS, FOLDS = 10, 100
PERIOD, HARMONICS = 365.25 / 7, 4
BLOCKS, ORIGINS = "100 blocks of 5 %", "100 origins, 13 weeks"


def main() -> None:
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    _weekly()
    _many()
    _long()


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def _weeks() -> np.ndarray:
    import statsmodels.api as sm

    return sm.datasets.co2.load_pandas().data["co2"].to_numpy()


def _fitted() -> fo.Fit:
    return fo.fit(fo.models.Structural("trend", seasonal=PERIOD, harmonics=HARMONICS), _weeks())


def _folds(kind: str, fit: fo.Fit) -> fo.Folds:
    if kind == BLOCKS:
        return fo.folds.blocks(fit.data, percent=5, n=FOLDS, seed=0)
    count = fit.data.n_sites
    origins = np.linspace(count // 2, count - 14, FOLDS).astype(int)
    return fo.folds.future(fit.data, start=origins, horizon=13)


def _crossed(kind: str, options: dict[str, Any]) -> tuple[float, float, fo.CVResult]:
    """Seconds of the fit and of its cross-validation, and that, in the process that this is called in."""
    fit, first = _timed(_fitted)
    folds = _folds(kind, fit)
    found, seconds = _timed(lambda: fo.cross_validate(fit, folds, progress=False, **options))
    return first, seconds, found


def _in_a_process(kind: str, **options: Any) -> tuple[float, float, fo.CVResult]:
    """The same in a process of its own, which has done nothing before."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_crossed, kind, options).result()


def _weekly() -> None:
    y = _weeks()
    for kind in (BLOCKS, ORIGINS):
        first, whole, auto = _in_a_process(kind)
        _, least, local = _in_a_process(kind, optima=0)
        fit, chosen = auto.fit, np.linspace(0, FOLDS - 1, REFITS).astype(int)
        if kind == BLOCKS:
            parts = f"trend and {HARMONICS} harmonics"
            print(f"CO2, {len(y):,} weeks, {parts}: fit {first:.1f} s; {fit.status}")
        folds = _folds(kind, fit)
        losses, seconds = _by_statsmodels(
            y, fit.params, [(folds.dropped[fold], folds.scored[fold]) for fold in chosen]
        )
        refits, applied = FOLDS / REFITS * seconds
        ours, none = (auto.folds[name].to_numpy()[chosen] for name in ("loss", "control"))
        good = [int((cv.folds["verdict"] == "good").sum()) for cv in (auto, local)]
        print(
            f"{kind}: auto {whole:.1f} s ({good[0]} good), optima=0 {least:.1f} s ({good[1]} good); "
            f"statsmodels refits {refits:.0f} s, without refitting {applied:.1f} s; "
            f"ratios to refits {refits / whole:.0f} and {refits / least:.0f}"
        )
        print(
            f"  losses of {REFITS} folds: mean auto {ours.mean():.4f}, optima=0 "
            f"{local.folds['loss'].to_numpy()[chosen].mean():.4f}, refits {losses[0].mean():.4f}, without "
            f"{losses[1].mean():.4f}, our control {none.mean():.4f}; auto from refits at most "
            f"{np.abs(ours - losses[0]).max():.1e}"
        )


def _by_statsmodels(
    y: np.ndarray, params: Any, folds: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Losses (2, n) of folds and seconds (2,) of all: refitted from params, and at these."""
    import statsmodels.api as sm

    given = np.array([float(params[name]) for name in ("noise", "level", "slope", "seasonal")])
    losses, seconds = np.empty((2, len(folds))), np.zeros(2)
    for place, (dropped, scored) in enumerate(folds):
        kept = y.copy()
        kept[dropped] = np.nan
        seasons = [{"period": PERIOD, "harmonics": HARMONICS}]
        peer = sm.tsa.UnobservedComponents(kept, "lltrend", freq_seasonal=seasons)
        for row, work in enumerate((partial(peer.fit, given, disp=0), partial(peer.smooth, given))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results, taken = _timed(work)
            seconds[row] += taken
            losses[row, place] = _loss(results, y, scored)
    return losses, seconds


def _loss(results: Any, y: np.ndarray, scored: np.ndarray) -> float:
    """The mean of -log p of points that were missing in the smoothed data."""
    scored = scored[np.isfinite(y[scored])]
    design = np.asarray(results.model.ssm["design"])[0]
    mean = design @ results.smoothed_state[:, scored]
    spread = np.einsum("i,ijt,j->t", design, results.smoothed_state_cov[..., scored], design)
    spread = spread + np.asarray(results.params)[0]
    return float(np.mean(0.5 * (np.log(2 * np.pi * spread) + (y[scored] - mean) ** 2 / spread)))


def _many() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(0)
    x = np.cumsum(rng.normal(size=(10_000, 100)), 1) + rng.normal(size=(10_000, 100))
    fit = fo.fit_at(fo.models.Structural(), list(x), {"level": 1.0, "noise": 1.0})
    (_, seconds) = _timed(lambda: fit.objective.gradients(fit.theta[None], fit.objective.base[None]))
    peers = [sm.tsa.UnobservedComponents(row, "llevel") for row in x[:100]]
    for peer in peers:
        peer.loglike([1.0, 1.0])
    (_, theirs) = _timed(lambda: [peer.loglike([1.0, 1.0]) for peer in peers])
    print(
        f"10,000 local levels of 100 steps: likelihood and gradient {seconds:.2f} s; likelihoods of "
        f"statsmodels, one after the other, {100 * theirs:.1f} s: ratio {100 * theirs / seconds:.1f}"
    )


def _long() -> None:
    rng = np.random.default_rng(0)
    for steps in (10_000, 100_000, 1_000_000):
        x = np.cumsum(rng.normal(size=steps)) + rng.normal(size=steps)
        fit = fo.fit_at(fo.models.Structural(), x, {"level": 1.0, "noise": 1.0})
        objective = fit.objective
        (_, seconds) = _timed(lambda o=objective, t=fit.theta: o.gradients(t[None], o.base[None]))
        print(
            f"one local level of {steps:,} steps: likelihood and gradient {seconds:.2f} s, "
            f"{objective.bytes_per_fold / 2**20:.0f} MiB a fold"
        )
