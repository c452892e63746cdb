"""H, J and folds of a CRF layer on 12,543 sentences; H also as differences of gradients would cost it.

The scores are drawn around the labels of Universal NER on English EWT: times depend on lengths and
tags alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from reproduce import cases, ner

import fitonce as fo


def data() -> fo.Labelled:
    train, rng = ner.ewt("train"), np.random.default_rng(0)
    number = {tag: k for k, tag in enumerate(train.tag_names)}
    scores = []
    for tags in train.tags:
        row = 2.0 * rng.normal(size=(len(tags), len(number)))
        row[np.arange(len(tags)), [number[tag] for tag in tags]] += 3.0
        scores.append(row)
    return fo.labelled(scores, train.tags, tags=train.tag_names)


def main() -> None:
    print(f"{cases.machine()}, {jax.default_backend()}")
    labelled = data()
    for support in (None, "iob2"):
        row(labelled, support)


def row(labelled: fo.Labelled, support: str | None) -> None:
    """Times of one layer, printed."""
    started = time.perf_counter()
    fit = fo.fit(fo.models.LinearChainCRF("scores", support=support), labelled)
    cold = time.perf_counter() - started
    curve = fo.curvature(fit, "structures")
    objective, theta, base = curve.objective, fit.theta, curve.objective.base
    print(f"support {support}: D = {len(theta)}, fit {fit.refit_seconds:.1f} s ({cold:.1f} s cold)")
    folds = fo.folds.structures(labelled, n=500, seed=0)
    gradient = warm(objective.gradients, theta[None], base[None])
    hessian = warm(objective.hessians, theta[None], base[None])
    cross = warm(objective.cross, theta)
    losses = warm(_expansion, fit, folds) - cross
    differences = 2 * len(theta) * gradient
    print(
        f"  gradient {gradient:.3f} s, H {hessian:.3f} s, J {cross:.3f} s, H and J {hessian + cross:.3f} s, "
        f"500 folds after that {losses:.2f} s; H by differences of gradients would take "
        f"{differences:.1f} s, ratio {differences / hessian:.0f}"
    )


def _expansion(fit: fo.Fit, folds: fo.Folds) -> fo.CVResult:
    return fo.cross_validate(fit, folds, method="ij", check=False)


def warm(work: Callable[..., Any], *args: Any) -> float:
    """The best of three, compiled."""
    work(*args)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        work(*args)
        times.append(time.perf_counter() - started)
    return min(times)
