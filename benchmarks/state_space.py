"""Structural time series against statsmodels: 100 folds of weekly CO2, many short series, a long one.

statsmodels' refits start at the parameters of all data; ten are timed and scaled up. Without refitting
(`apply`) it filters the kept data again at the parameters of all data, which is our control. Losses are of
left-out points, given all kept data. Its exactly diffuse filter fails on these seasons (it never leaves the
diffuse phase), so that its refits have its usual start, with a variance of a million, as its users have.
"""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import fitonce as fo

REFITS, FOLDS = 10, 100
PERIOD, HARMONICS = 365.25 / 7, 4


def main() -> None:
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    _weekly()
    _many()
    _long()


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def _weekly() -> None:
    import statsmodels.api as sm

    y = sm.datasets.co2.load_pandas().data["co2"].to_numpy()

    def peer(values: np.ndarray) -> Any:
        seasons = [{"period": PERIOD, "harmonics": HARMONICS}]
        return sm.tsa.UnobservedComponents(values, "lltrend", freq_seasonal=seasons)

    fit, seconds = _timed(
        lambda: fo.fit(fo.models.Structural("trend", seasonal=PERIOD, harmonics=HARMONICS), y)
    )
    print(f"CO2, {len(y):,} weeks, trend and {HARMONICS} harmonics; fit {seconds:.1f} s: {fit.status}")
    given = np.array([float(fit.params[name]) for name in ("noise", "level", "slope", "seasonal")])
    origins = np.linspace(len(y) // 2, len(y) - 14, FOLDS).astype(int)
    kinds = {
        "100 blocks of 5 %": fo.folds.blocks(fit.data, percent=5, n=FOLDS, seed=0),
        "100 origins, 13 weeks": fo.folds.future(fit.data, start=origins, horizon=13),
    }
    for name, folds in kinds.items():
        auto, whole = _timed(lambda folds=folds: fo.cross_validate(fit, folds, progress=False))
        local, least = _timed(
            lambda folds=folds: fo.cross_validate(fit, folds, optima=0, progress=False)
        )
        chosen = np.linspace(0, FOLDS - 1, REFITS).astype(int)
        losses = np.empty((2, REFITS))
        refitted = applied = 0.0
        for place, fold in enumerate(chosen):
            kept = y.copy()
            kept[folds.dropped[fold]] = np.nan
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results, taken = _timed(lambda kept=kept: peer(kept).fit(given, disp=0))
                refitted += taken
                again, taken = _timed(lambda kept=kept: peer(kept).smooth(given))
                applied += taken
            losses[0, place] = _loss(results, y, folds.scored[fold])
            losses[1, place] = _loss(again, y, folds.scored[fold])
        ours = auto.folds["loss"].to_numpy()[chosen]
        none = (
            auto.folds["control"].to_numpy()[chosen]
            if "control" in auto.folds
            else np.full(REFITS, np.nan)
        )
        scale = FOLDS / REFITS
        good = int((auto.folds["verdict"] == "good").sum())
        print(
            f"{name}: auto {whole:.1f} s ({good} good), optima=0 {least:.1f} s; statsmodels refits "
            f"{scale * refitted:.0f} s, without refitting {scale * applied:.1f} s; ratios to refits "
            f"{scale * refitted / whole:.0f} and {scale * refitted / least:.0f}"
        )
        print(
            f"  losses of {REFITS} folds: mean auto {ours.mean():.4f}, optima=0 "
            f"{local.folds['loss'].to_numpy()[chosen].mean():.4f}, refits {losses[0].mean():.4f}, without "
            f"{losses[1].mean():.4f}, our control {none.mean():.4f}; auto from refits at most "
            f"{np.abs(ours - losses[0]).max():.1e}"
        )


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
