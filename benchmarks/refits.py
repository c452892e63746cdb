"""How long refits would take, as a result says, beside how long they take: some folds fitted anew, one
start each, in this process and with everything compiled."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from reproduce.cases import machine

import fitonce as fo
from fitonce.core.wording import duration
from fitonce.results.printed import refits_in_words

_REFITTED = 8  # folds, of which the times are scaled to all


def _cases() -> Iterator[tuple[str, Any, Any]]:
    rng = np.random.default_rng(0)

    def paths(states: int, length: int) -> np.ndarray:
        return np.cumsum(rng.random(length) < 0.05) % states

    z = paths(4, 3000)
    wide = rng.normal(size=(4, 8))[z] * 2.0 + rng.normal(size=(3000, 8))
    yield "Gaussian, 4 states, 8 channels, 3,000 steps", fo.models.GaussianHMM(4), wide
    z = paths(5, 20000)
    wide = rng.normal(size=(5, 6))[z] * 2.0 + rng.normal(size=(20000, 6))
    yield "Gaussian, 5 states, 6 channels, 20,000 steps", fo.models.GaussianHMM(5), wide
    z = paths(2, 300)
    yield "Gaussian, 2 states, 300 steps", fo.models.GaussianHMM(2), z * 2.0 + rng.normal(size=300)
    z = paths(3, 500)
    yield "Poisson, 3 states, 500 steps", fo.models.PoissonHMM(3), rng.poisson(np.array([2, 8, 15])[z])
    z, x = paths(2, 2000), np.zeros((2000, 2))
    for t in range(1, 2000):
        x[t] = (0.9 if z[t] else -0.5) * x[t - 1] + rng.normal(size=2)
    yield "AR(1), 2 states, 2 channels, 2,000 steps", fo.models.ARHMM(2), x


def _refit(model: Any, data: np.ndarray, left_out: np.ndarray) -> float:
    kept = np.array(data, float)
    kept[left_out] = np.nan
    started = time.perf_counter()
    fo.fit(model, kept, restarts=1, optima=0, progress=False)
    return time.perf_counter() - started


def main() -> None:
    """Print what was said and what was real, for every case."""
    print(machine())
    print(f"{'':46}{'D':>4}{'refits':>8}{'said':>18}{'real':>10}")
    for name, model, data in _cases():
        fit = fo.fit(model, data, progress=False)
        folds = fo.folds.kfold(data, 20)
        cv = fo.cross_validate(fit, folds, optima=0, progress=False)
        chosen = np.linspace(0, len(folds) - 1, _REFITTED).astype(int)
        _refit(model, data, folds.dropped[0])  # what is compiled or loaded for missing steps
        each = [_refit(model, data, folds.dropped[fold]) for fold in chosen]
        real = duration(float(np.mean(each)) * len(folds))
        print(
            f"{name:46}{len(fit.theta):4}{len(folds):8}{refits_in_words(cv):>18}{real:>10}", flush=True
        )


if __name__ == "__main__":
    main()
