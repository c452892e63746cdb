"""Against hmmlearn, class by class: leave-one-sequence-out by its own refits, and by `auto`."""

from __future__ import annotations

import copy
import functools
import logging
import os
import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import fitonce as fo
from benchmarks import brought_in

SEQUENCES, STEPS, STATES = 12, 100, 3
LENGTHS = [STEPS] * SEQUENCES
STARTS, TIGHT = 10, 1e-8


def _states(rng: np.random.Generator) -> np.ndarray:
    """(SEQUENCES * STEPS,) that stay with probability 0.9; as many sequences begin in one as in another,
    so that no fold has an initial probability of zero."""
    z = np.zeros((SEQUENCES, STEPS), int)
    z[:, 0] = np.arange(SEQUENCES) % STATES
    for t in range(1, STEPS):
        moves = rng.random(SEQUENCES) >= 0.9
        z[:, t] = np.where(
            moves, (z[:, t - 1] + rng.integers(1, STATES, SEQUENCES)) % STATES, z[:, t - 1]
        )
    return z.ravel()


def _gaussian(rng: np.random.Generator, z: np.ndarray) -> np.ndarray:
    centres = np.array([[-3.0, 0.0], [0.0, 2.5], [3.0, 0.0]])
    return centres[z] + rng.normal(size=(len(z), 2)) @ np.array([[0.9, 0.4], [0.0, 0.7]])


def _poisson(rng: np.random.Generator, z: np.ndarray) -> np.ndarray:
    return rng.poisson(np.array([[1.0, 9.0], [6.0, 4.0], [16.0, 1.0]])[z])


_SHARES = np.array([[0.75, 0.15, 0.05, 0.05], [0.1, 0.1, 0.75, 0.05], [0.05, 0.1, 0.1, 0.75]])


def _categorical(rng: np.random.Generator, z: np.ndarray) -> np.ndarray:
    return np.array([rng.choice(4, p=_SHARES[k]) for k in z])[:, None]


def _multinomial(rng: np.random.Generator, z: np.ndarray) -> np.ndarray:
    return rng.multinomial(5, _SHARES[z])


def _mixture(rng: np.random.Generator, z: np.ndarray) -> np.ndarray:
    centres = np.array([[[-8.0, 0.0], [-5.0, 4.0]], [[0.0, 0.0], [3.0, 4.0]], [[8.0, 0.0], [11.0, 4.0]]])
    return centres[z, (rng.random(len(z)) < 0.4).astype(int)] + 0.8 * rng.normal(size=(len(z), 2))


CASES: list[tuple[str, str, dict[str, Any], Callable[..., np.ndarray], int]] = [
    *(
        (f"GaussianHMM {shape}", "GaussianHMM", {"covariance_type": shape}, _gaussian, STARTS)
        for shape in ("spherical", "diag", "tied", "full")
    ),
    ("PoissonHMM", "PoissonHMM", {}, _poisson, STARTS),
    ("CategoricalHMM", "CategoricalHMM", {}, _categorical, STARTS),
    ("MultinomialHMM", "MultinomialHMM", {"n_trials": 5}, _multinomial, STARTS),
    ("GMMHMM diag", "GMMHMM", {"n_mix": 2, "covariance_type": "diag"}, _mixture, STARTS),
    ("the first, one start", "GaussianHMM", {"covariance_type": "spherical"}, _gaussian, 1),
]

_COLUMNS = (
    f"{'class':<22}{'hmmlearn':>10}{'auto':>10}{'exact':>10}{'control':>10}{'auto off':>10}"
    f"{'tolerance':>10}{'exact off':>10}{'hmmlearn s':>11}{'auto s':>8}{'ratio':>7}{'local s':>8}{'ratio':>7}"
    f"{'exact s':>8}"
)


def _full(make: Callable[..., Any], X: np.ndarray, starts: int) -> Any:
    """The best of several starts of hmmlearn, continued until a step gains less than `TIGHT` nats."""
    found = [make(n_iter=200, tol=1e-3, random_state=seed).fit(X, LENGTHS) for seed in range(starts)]
    best = max(found, key=lambda model: model.score(X, LENGTHS))
    return _from(best, X, LENGTHS)


def _from(model: Any, X: np.ndarray, lengths: list[int]) -> Any:
    again = copy.deepcopy(model)
    again.set_params(init_params="", n_iter=10_000, tol=TIGHT)
    again.monitor_.n_iter, again.monitor_.tol = again.n_iter, again.tol
    return again.fit(X, lengths)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def _row(name: str, make: Callable[..., Any], X: np.ndarray, starts: int) -> None:
    model, parts = _full(make, X, starts), np.split(X, SEQUENCES)

    def refits() -> np.ndarray:
        rest = [np.concatenate(parts[:n] + parts[n + 1 :]) for n in range(SEQUENCES)]
        fits = [_from(model, train, LENGTHS[1:]) for train in rest]
        return np.array([-one.score(part) for one, part in zip(fits, parts, strict=True)])

    losses, peer_seconds = _timed(refits)
    read = fo.from_hmmlearn(model, X, LENGTHS)
    fit = read.polish()
    folds = fo.folds.structures(fit.data)
    fo.cross_validate(fit, folds)  # load
    auto, seconds = _timed(lambda: fo.cross_validate(fit, folds))
    local, local_seconds = _timed(lambda: fo.cross_validate(fit, folds, optima=0))
    exact, exact_seconds = _timed(lambda: fo.cross_validate(fit, folds, method="exact"))
    off = [np.abs(cv.folds["loss"].to_numpy() - losses).max() for cv in (auto, local, exact)]
    control = fo.cross_validate(fit, folds, method="none").estimate
    print(
        f"{name:<22}{losses.mean():10.4f}{auto.estimate:10.4f}{exact.estimate:10.4f}{control:10.4f}"
        f"{max(off[:2]):10.1e}{auto.tolerance:10.1e}{off[2]:10.1e}{peer_seconds:11.2f}{seconds:8.2f}"
        f"{peer_seconds / seconds:7.1f}{local_seconds:8.2f}{peer_seconds / local_seconds:7.1f}"
        f"{exact_seconds:8.2f}"
    )
    moved = int((auto.folds["gain"] > 0).sum())
    said = brought_in(model.score(X, LENGTHS), read, fit, auto)
    print(f"{said}, {moved} moved to a better optimum")


def main() -> None:
    from hmmlearn import hmm
    from threadpoolctl import threadpool_limits

    logging.getLogger("hmmlearn").setLevel(logging.CRITICAL)
    print(
        f"{os.cpu_count()} cores, {platform.machine()}; leave-one-sequence-out on {SEQUENCES} x {STEPS}, "
        f"{STATES} states; losses of a sequence; off: the largest difference of a fold's loss from hmmlearn's; "
        "local: auto with optima=0, which like hmmlearn's refits looks for no other optima"
    )
    print(_COLUMNS)
    for name, kind, how, draw, starts in CASES:
        rng = np.random.default_rng(0)
        X = draw(rng, _states(rng))
        with warnings.catch_warnings(), threadpool_limits(1):  # for hmmlearn: small matrices
            warnings.simplefilter("ignore")
            _row(name, functools.partial(getattr(hmm, kind), STATES, **how), X, starts)
