"""Weakly separated states, where `ij` is worse than no adjustment: the oracle's series of 300 steps, and
longer ones drawn at the parameters fitted to it. 10 % left out, against certified exact refits."""

from __future__ import annotations

import sys

import numpy as np

import fitonce as fo
from reproduce import cases, traffic

MODEL = fo.models.GaussianHMM(2, covariance="fixed", mean_scale=1.0)
RUNS = (
    ("none", {"method": "none"}),
    ("ij", {"method": "ij", "check": "all"}),
    ("onestep", {"method": "onestep"}),
    ("auto", {"method": "auto"}),
    ("auto, tolerance 1e-6", {"method": "auto", "tolerance": 1e-6}),
)


def oracle_series() -> np.ndarray:
    """(300, 2), as stored with the reference numbers."""
    path = traffic.FOLDER.parent / "oracles" / "hmm_T300_tight.npz"
    if not path.is_file():
        sys.exit(f"reproduce: expected {path.name} in a folder 'oracles' beside the data, found none")
    with np.load(path) as stored:
        return stored["X"][0]


def longer(fit: fo.Fit, steps: int, seed: int = 0) -> np.ndarray:
    """A series drawn from a fitted model."""
    rng = np.random.default_rng(seed)
    moves, means = fit.params["transition"], fit.params["mean"]
    state, out = rng.choice(2, p=fit.params["initial"]), np.empty((steps, 2))
    for row in out:
        row[:] = means[state] + rng.normal(size=2)
        state = rng.choice(2, p=moves[state])
    return out


def main() -> None:
    base = fo.fit(MODEL, oracle_series())
    means = base.params["mean"]
    print(f"means {np.linalg.norm(means[0] - means[1]):.2f} sd apart; 64 folds of 10 %")
    print(
        f"{'steps':>6} {'folds':>7} {'method':>21} {'relative error':>15} {'largest abs.':>13} "
        f"{'good':>5} {'fair':>5} {'bad':>5}  folds by rung"
    )
    for steps in (300, 1500, 5000):
        fit = base if steps == 300 else fo.fit(MODEL, longer(base, steps))
        if not fit.ok:
            print(f"{steps}: {fit.status}")
        for kind in ("iid", "blocks"):
            folds = getattr(fo.folds, kind)(fit.data, percent=10, n=64, seed=0)
            exact = cases.certified(fit, folds)
            for label, options in RUNS:
                _row(steps, kind, label, fo.cross_validate(fit, folds, **options), exact)


def _row(steps: int, kind: str, label: str, cv: fo.CVResult, exact: fo.CVResult) -> None:
    both = exact.folds["ok"] & cv.folds["ok"]
    error = (cv.folds["loss"] - exact.folds["loss"])[both].abs()
    relative = (error / exact.folds["loss"][both]).mean()
    counts = cv.folds["verdict"].value_counts()
    rungs = ", ".join(f"{n} {rung}" for rung, n in cv.folds["rung"].value_counts().items())
    print(
        f"{steps:>6} {kind:>7} {label:>21} {relative:>15.1e} {error.max():>13.1e} "
        + " ".join(f"{counts.get(v, 0):>5}" for v in ("good", "fair", "bad"))
        + (f"  {rungs}" if cv.method == "auto" else "")
    )
