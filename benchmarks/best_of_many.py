"""How often the best of twelve models is called best by chance: by paired standard errors, as `fo.compare`
does, and by the spread of the models, as loo and ArviZ do. Losses are made up: models that differ by
noise alone, independent from point to point or not, and models that really differ.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import stats

import fitonce as fo

MODELS, STEPS, REPEATS, NOISE = 12, 400, 60, 0.3


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.poisson(np.resize(np.repeat([2.0, 9.0], 10), STEPS)).astype(float)
    found = fo.loo(fo.fit(fo.models.PoissonHMM(2), x))
    # A summary has no states, so that the memory is the one given here.
    plain = replace(found, fit=found.summary)
    print(
        f"{MODELS} models, {STEPS} points, noise of {NOISE} nats, {REPEATS} repeats: called best by chance"
    )
    for memory, effect in ((0.0, 0.0), (3.0, 0.0), (0.0, 0.3), (3.0, 0.3)):
        called = np.mean([_called(plain, rng, memory, effect) for _ in range(REPEATS)], axis=0)
        truth = f"losses rise by {effect / MODELS:.3f} a model" if effect else "equally good"
        print(
            f"  {truth:<30} memory {memory:.0f} steps: paired se {called[0]:4.0%}, "
            f"spread of the models {called[1]:4.0%}"
        )


def _called(
    plain: fo.CVResult, rng: np.random.Generator, memory: float, effect: float
) -> tuple[bool, bool]:
    a = 1.0 - 1.0 / memory if memory else 0.0
    noise = rng.normal(size=(MODELS, STEPS + 100))
    for t in range(1, STEPS + 100):
        noise[:, t] = a * noise[:, t - 1] + np.sqrt(1.0 - a**2) * noise[:, t]
    losses = plain.pointwise["loss"].to_numpy() + NOISE * noise[:, 100:]
    losses += effect * np.arange(MODELS)[:, None] / MODELS
    results = [
        replace(
            plain,
            memory=memory,
            pointwise=plain.pointwise.assign(loss=row),
            folds=plain.folds.assign(loss=row),
        )
        for row in losses
    ]
    lead = fo.compare(results).lead
    means = np.sort(losses.mean(1))
    below = means[MODELS // 2] - means
    spread = np.sqrt(np.mean(below[below >= np.median(below)] ** 2))
    return lead.size <= lead.by_chance, below.max() <= spread * stats.norm.ppf(1 - 0.5 / (MODELS - 1))
