"""Labels left out of a CRF (the paper's scheme C): single tokens, and tenths of batches of sentences.

A linear CRF of emerging entities (WNUT 2017): shapes of words and of their neighbours, and word
vectors. Errors of each fold's mean loss against its certified refit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fitonce as fo
from reproduce import cases, ner

METHODS = ("none", "ij", "onestep", "auto")
N, BATCH, SHARE = 200, 31, 0.1
AXES = 16  # of the word vectors


def fitted(scale: float = 1.0) -> fo.Fit:
    """A linear CRF of the training data."""
    train = ner.wnut("train")
    data = ner.linear(train, ner.glove().reduced(AXES), train.tag_names)
    return fo.fit(fo.models.LinearChainCRF(support="iob2", scale=scale), data)


def singles() -> None:
    _compare("single tokens, half of them of entities", _single_tokens)


def tenths() -> None:
    _compare(f"times {SHARE:.0%} of the tokens of {BATCH} sentences", _tenths)


def _compare(name: str, make: Callable[[fo.Labelled], fo.Folds]) -> None:
    print(cases.machine())
    fit = fitted()
    print(f"{fit.data}\nD = {len(fit.theta)}, fit {fit.seconds:.0f} s: {fit.status}")
    test = ner.wnut("test")
    features = fo.word_features(test.words, ner.glove().reduced(AXES))
    print(f"test F1 of entities (seqeval): {ner.f1(fo.predict(fit, features), test.tags):.4f}\n")
    folds = make(fit.data)
    exact = fo.cross_validate(fit, folds, method="exact")
    truth = exact.folds["loss"].to_numpy()
    print(
        f"{N} {name}: exact {exact.estimate:.4f}, {exact.seconds:.0f} s, {exact.n_failed} without a "
        "certificate"
    )
    for method in METHODS:
        options: dict[str, Any] = {} if method == "auto" else {"check": False}
        cv = fo.cross_validate(fit, folds, method=method, **options)
        off = np.abs(cv.folds["loss"].to_numpy() - truth)
        print(
            f"  {method:>8}: estimate {cv.estimate:.4f}, mean error {np.nanmean(off):.1e}, largest "
            f"{np.nanmax(off):.1e}, {cv.seconds:.1f} s"
        )


def _single_tokens(data: fo.Labelled) -> fo.Folds:
    rng = np.random.default_rng(0)
    entities = np.flatnonzero(data.labels != data.tags.index("O"))
    chosen = [
        *rng.choice(data.n_sites, N // 2, replace=False),
        *rng.choice(entities, N // 2, replace=False),
    ]
    return fo.folds.sites([[site] for site in chosen], data)


def _tenths(data: fo.Labelled) -> fo.Folds:
    rng = np.random.default_rng(1)
    sets = []
    for _ in range(N):
        batch = rng.choice(data.n_sequences, BATCH, replace=False)
        sites = np.flatnonzero(np.isin(data.sites["sequence"], batch))
        sets.append(rng.choice(sites, max(int(SHARE * len(sites)), 1), replace=False))
    return fo.folds.sites(sets, data)
