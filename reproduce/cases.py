"""Real and simulated series that several tables share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import fitonce as fo
from reproduce import record, traffic

OUT = Path("out")
# Major earthquakes in the world, 1900 to 2006: Zucchini and MacDonald, Hidden Markov Models for Time Series.
EARTHQUAKES = np.array([
    13, 14, 8, 10, 16, 26, 32, 27, 18, 32, 36, 24, 22, 23, 22, 18, 25, 21, 21, 14,
    8, 11, 14, 23, 18, 17, 19, 20, 22, 19, 13, 26, 13, 14, 22, 24, 21, 22, 26, 21,
    23, 24, 27, 41, 31, 27, 35, 26, 28, 36, 39, 21, 17, 22, 17, 19, 15, 34, 10, 15,
    22, 18, 15, 20, 15, 22, 19, 16, 30, 27, 29, 23, 20, 16, 21, 21, 25, 16, 18, 15,
    18, 14, 10, 15, 8, 15, 6, 11, 8, 7, 18, 16, 13, 12, 13, 20, 15, 16, 12, 18,
    15, 16, 13, 15, 16, 11, 11,
])  # fmt: skip


def machine() -> str:
    """What the figures below were measured on."""
    return record.hardware()


def two_states(separation: float, steps: int, seed: int = 0) -> np.ndarray:
    """A two-state chain that stays with probability 0.9; unit normal around +-separation / 2."""
    rng = np.random.default_rng(seed)
    state = np.cumsum(rng.random(steps) < 0.1) % 2
    return (state - 0.5) * separation + rng.normal(size=steps)


def simulated(separation: float, steps: int, seed: int = 0) -> fo.Fit:
    """A fit of the model that made the data."""
    model = fo.models.GaussianHMM(2, covariance="fixed", mean_scale=3.0)
    return fo.fit(model, two_states(separation, steps, seed), restarts=3)


def mocap(states: int = 5) -> fo.Fit:
    """Six motion-capture sequences of 12 channels, Gaussian emissions with diagonal covariances."""
    data = fo.datasets.load("mocap6", traffic.FOLDER)
    return fo.fit(fo.models.GaussianHMM(states), data, restarts=3)


def vowels() -> list[np.ndarray]:
    """Utterances of one speaker (61 of 1,096 steps in all, 12 channels), standardised."""
    held = np.load(traffic.FOLDER / "japanese_vowels" / "japanese_vowels.npz")
    x = held["X"].astype(float)
    whole = np.split(x, np.cumsum(held["lengths"])[:-1])
    chosen = [one for one, speaker in zip(whole, held["speaker"], strict=True) if speaker == 1]
    together = np.concatenate(chosen)
    return [(one - together.mean(0)) / together.std(0) for one in chosen]


def percent_folds(data: Any, percents: tuple[float, ...], n: int) -> dict[str, fo.Folds]:
    """i.i.d. and contiguous folds of each size."""
    made = {}
    for percent in percents:
        made[f"i.i.d. {percent:g} %"] = fo.folds.iid(data, percent=percent, n=n, seed=0)
        made[f"block {percent:g} %"] = fo.folds.blocks(data, percent=percent, n=n, seed=0)
    return made


def certified(fit: fo.Fit, folds: fo.Folds, **options: Any) -> fo.CVResult:
    """Exact refits from the full fit, the optima that steps from it approximate; folds without a certificate
    are printed."""
    exact = fo.cross_validate(fit, folds, method="exact", optima=0, **options)
    if exact.n_failed:
        print(exact, file=sys.stderr)
    return exact
