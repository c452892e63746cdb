"""Against statsmodels on its bundled series: leave-future-out by its own refits, and by `auto`.

Its models have no missing data, so that the past is all that it can refit.
"""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fitonce as fo
from benchmarks import brought_in

ORIGINS, HORIZON = 10, 8


def _cases() -> Iterator[tuple[str, int, Callable[[int], Any]]]:
    """A name, the length of the series, and a model of its first steps, as many as are asked for."""
    from statsmodels.tsa.regime_switching.markov_autoregression import MarkovAutoregression
    from statsmodels.tsa.regime_switching.markov_regression import MarkovRegression
    from statsmodels.tsa.regime_switching.tests.test_markov_autoregression import rgnp
    from statsmodels.tsa.regime_switching.tests.test_markov_regression import areturns, fedfunds

    growth, rate, returns = (np.asarray(series, float) for series in (rgnp, fedfunds, areturns))
    yield (
        "rgnp, Hamilton's",
        len(growth),
        lambda end: MarkovAutoregression(growth[:end], 2, order=4, switching_ar=False),
    )
    yield "fedfunds, mean", len(rate), lambda end: MarkovRegression(rate[:end], 2)
    yield (
        "fedfunds, on its lag",
        len(rate) - 1,
        lambda end: MarkovRegression(rate[1 : end + 1], 2, exog=rate[:end]),
    )
    yield (
        "areturns, variance",
        len(returns),
        lambda end: MarkovRegression(returns[:end], 2, switching_variance=True),
    )


_COLUMNS = (
    f"{'series, what switches':<22}{'statsmodels':>12}{'auto':>9}{'exact':>9}{'control':>9}{'auto off':>10}"
    f"{'tolerance':>10}{'exact off':>10}{'statsmodels s':>14}{'auto s':>8}{'ratio':>7}{'exact s':>8}"
)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def _row(name: str, length: int, make: Callable[[int], Any]) -> None:
    results = make(length).fit(disp=False)
    origins = np.linspace(2 * length // 3, length - HORIZON, ORIGINS).astype(int)

    def refits() -> tuple[list[Any], np.ndarray]:
        """From the parameters of all data; log p(next steps | past) is a difference of two."""
        past = [make(t).fit(results.params, em_iter=0, maxiter=1000, disp=False) for t in origins]
        ahead = [make(t + HORIZON).loglike(one.params) for t, one in zip(origins, past, strict=True)]
        return past, np.array([one.llf - ll for one, ll in zip(past, ahead, strict=True)]) / HORIZON

    (past, losses), peer_seconds = _timed(refits)
    read = fo.from_statsmodels(results)
    fit = read.polish()
    folds = fo.folds.future(fit.data, start=origins, horizon=HORIZON)

    def ours(method: str) -> Any:
        return fo.cross_validate(fit, folds, method=method, loss="joint", optima=0)

    ours("auto")  # load
    auto, seconds = _timed(lambda: ours("auto"))
    exact, exact_seconds = _timed(lambda: ours("exact"))
    near, exact_near = (np.abs(cv.folds["loss"].to_numpy() - losses).max() for cv in (auto, exact))
    above = [
        fo.fit_at(fit.model, fo.from_statsmodels(one).data, exact.params(n)).log_likelihood - one.llf
        for n, one in enumerate(past)
    ]
    print(
        f"{name:<22}{losses.mean():12.4f}{auto.estimate:9.4f}{exact.estimate:9.4f}"
        f"{ours('none').estimate:9.4f}{near:10.1e}{auto.tolerance:10.1e}{exact_near:10.1e}"
        f"{peer_seconds:14.2f}{seconds:8.2f}{peer_seconds / seconds:7.1f}{exact_seconds:8.2f}"
    )
    print(
        f"{brought_in(results.llf, read, fit, auto)}; log-likelihoods of the past, ours less theirs: "
        f"{min(above):.1e} to {max(above):.1e}"
    )


def main() -> None:
    from threadpoolctl import threadpool_limits

    print(
        f"{os.cpu_count()} cores, {platform.machine()}; {HORIZON} steps after each of {ORIGINS} origins in "
        "the last third, later ones left out; losses of a step; off: the largest difference of a fold's "
        "loss from statsmodels'"
    )
    print(_COLUMNS)
    for name, length, make in _cases():
        with warnings.catch_warnings(), threadpool_limits(1):  # for statsmodels: small matrices
            warnings.simplefilter("ignore")
            _row(name, length, make)
