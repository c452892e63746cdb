"""A CRF of 10^5 attributes on a corpus of named entities: its fit and its folds beside CRFsuite's.

Both minimise -log p(y | X) + c2 |w|^2 over the same weights. Fits are timed to the gradient norm at which
CRFsuite's own criteria stop it. Sentences are left out one by one, and in tenths, by `auto`; CRFsuite is
trained again without them. A weight that occurs in the left-out sentences only is a parameter of ours,
and not of a new training: `exact` folds of a model with all weights differ in nothing.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Any

import numpy as np
from reproduce import ner
from reproduce.cases import machine

import fitonce as fo

_C2 = 0.1
_SENTENCES = 8  # left out one by one
_REFITS = 2  # of them by CRFsuite, which takes minutes for each


def attributes(words: list[str]) -> list[dict[str, Any]]:
    """As in the tutorials of CRFsuite: the word, its ends and shape, its neighbours."""
    low, rows = [word.lower() for word in words], []
    for step, word in enumerate(words):
        shape = re.sub("[a-z]+", "x", re.sub("[A-Z]+", "X", re.sub("[0-9]+", "0", word)))
        row: dict[str, Any] = {
            "bias": 1.0, "word": low[step], "suffix3": low[step][-3:], "suffix2": low[step][-2:],
            "prefix3": low[step][:3], "shape": shape[:8], "title": word.istitle(),
            "upper": word.isupper(), "digit": word.isdigit(),
        }  # fmt: skip
        row |= _beside("-1", words[step - 1]) if step else {"BOS": True}
        row |= _beside("+1", words[step + 1]) if step + 1 < len(words) else {"EOS": True}
        if step:
            row["-1+0"] = f"{low[step - 1]} {low[step]}"
        rows.append(row)
    return rows


def _beside(where: str, word: str) -> dict[str, Any]:
    return {
        f"{where}:word": word.lower(), f"{where}:title": word.istitle(), f"{where}:upper": word.isupper()
    }  # fmt: skip


def _trained(X: list[Any], y: list[Any], **options: Any) -> tuple[Any, float]:
    """A model of CRFsuite, and the seconds of its training without reading the data."""
    from sklearn_crfsuite import CRF

    crf = CRF(c2=_C2, max_iterations=2000, **options)
    crf.fit(X, y)
    return crf, sum(row["time"] for row in crf.training_log_.iterations)


class _Watched:
    """Gradient norms of a fit, and when they were reached."""

    def __init__(self, objective: Any) -> None:
        self.kind, self.plain = type(objective), type(objective).values_and_gradients
        self.rows: list[tuple[float, float]] = []

    def __enter__(self) -> _Watched:
        watched, started = self, time.perf_counter()

        def evaluate(objective: Any, thetas: Any, weights: Any) -> Any:
            found = watched.plain(objective, thetas, weights)
            watched.rows.append((time.perf_counter() - started, np.linalg.norm(found[1][0])))
            return found

        self.kind.values_and_gradients = evaluate
        return self

    def __exit__(self, *_: Any) -> None:
        self.kind.values_and_gradients = self.plain

    def until(self, norm: float) -> float:
        return next((at for at, found in self.rows if found <= norm), float("nan"))


def main() -> None:
    print(machine())
    most = int(os.environ.get("FITONCE_SENTENCES", sys.maxsize))
    train = ner.ewt("train")[:most]
    X, y = [attributes(words) for words in train.words], train.tags
    crf, theirs = _trained(X, y)
    started = time.perf_counter()
    at = fo.from_crfsuite(crf, X, y)
    print(
        f"CRFsuite: {len(at.theta):,} weights of {len(at.data.attributes):,} attributes, "
        f"{at.data.n_sequences:,} sentences; trained in {theirs:.1f} s to a gradient norm of "
        f"{at.gradient_norm:.2g}\n  brought in {time.perf_counter() - started:.1f} s: {at.status}",
        flush=True,
    )
    with _Watched(at.objective) as watched:
        fit = fo.fit(at.model, at.data)
    print(
        f"fitonce: {watched.until(at.gradient_norm):.1f} s to that norm, {fit.seconds:.1f} s to "
        f"{fit.gradient_norm:.1e}: {fit.status}\n  objective {fit.value:.4f}, CRFsuite's {at.value:.4f}",
        flush=True,
    )
    print(fo.plan(fit, folds=fo.folds.structures(fit.data, k=10)), flush=True)
    _folds(fit, X, y)


def _folds(fit: fo.Fit, X: list[Any], y: list[Any]) -> None:
    singles = fo.folds.structures(fit.data, n=_SENTENCES, seed=0)
    for folds in (singles, fo.folds.structures(fit.data, k=10)):
        started = time.perf_counter()
        cv = fo.cross_validate(fit, folds)
        print(cv)
        ours = (time.perf_counter() - started) / len(folds)
        again = [_refitted(X, y, fold) for fold in folds.dropped[:_REFITS]]
        for fold, (loss, seconds) in enumerate(again):
            print(f"  fold {fold}: {cv.folds['loss'][fold]:.5f}, CRFsuite {loss:.5f} in {seconds:.1f} s")
        mean = np.mean([seconds for _, seconds in again])
        print(
            f"  {ours:.1f} s for each fold, CRFsuite {mean:.1f} s: {mean / ours:.1f} times", flush=True
        )


def _refitted(X: list[Any], y: list[Any], left_out: np.ndarray) -> tuple[float, float]:
    """The mean loss of the sentences left out, by a new training, and its seconds."""
    gone = set(left_out.tolist())
    kept = [n for n in range(len(X)) if n not in gone]
    crf, seconds = _trained([X[n] for n in kept], [y[n] for n in kept])
    losses = []
    for n in left_out:
        crf.tagger_.set(X[n])
        losses.append(-np.log(crf.tagger_.probability(y[n])))
    return float(np.mean(losses)), seconds
