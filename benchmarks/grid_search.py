"""The number of states by scikit-learn's GridSearchCV, which refits every fold, and by `fo.select`, which
fits each model once: the same folds, the same fits (starts), who wins, and how long it takes.
"""

from __future__ import annotations

import numpy as np

import fitonce as fo
from benchmarks.large import timed
from fitonce.fitting.optima import DEFAULT_OPTIMA

STATES, FOLDS, RESTARTS = range(1, 5), 10, 3


def _parts(rng: np.random.Generator, count: int, steps: int) -> list[np.ndarray]:
    """Sequences with three states that are clearly apart."""
    parts = []
    for _ in range(count):
        z = np.zeros(steps, int)
        for t in range(1, steps):
            z[t] = z[t - 1] if rng.random() < 0.9 else rng.integers(3)
        parts.append(np.array([-3.0, 0.0, 3.0])[z][:, None] + rng.normal(size=(steps, 2)))
    return parts


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"1 to {STATES[-1]} states, {FOLDS} folds, {RESTARTS} starts of each fit; 3 states are true")
    fo.fit(fo.models.GaussianHMM(2), _parts(rng, 2, 50))  # load what is compiled
    _compare("20 sequences of 60 steps, whole sequences left out", _parts(rng, 20, 60))
    _compare("one series of 1,000 steps, stretches left out", _parts(rng, 1, 1000)[0])


def _compare(title: str, X: list[np.ndarray] | np.ndarray) -> None:
    from sklearn.model_selection import GridSearchCV, KFold

    data, splitter, grid = fo.sequences(X), KFold(FOLDS), {"model__n_states": list(STATES)}
    folds = fo.folds.from_splitter(splitter, data, over="sequences" if isinstance(X, list) else "sites")
    models = {str(k): fo.models.GaussianHMM(k) for k in STATES}
    print(title)
    for optima, words in (
        (DEFAULT_OPTIMA, "looking for other optima"),
        (0, "not looking for any (optima=0)"),
    ):
        estimator = fo.sklearn.Estimator(fo.models.GaussianHMM(1), restarts=RESTARTS, optima=optima)
        search = GridSearchCV(estimator, grid, cv=splitter, refit=False)
        _, theirs = timed(lambda search=search: search.fit(X))
        found, ours = timed(
            lambda optima=optima: fo.select(models, data, folds, restarts=RESTARTS, optima=optima)
        )
        print(
            f"  {words}: GridSearchCV {search.best_params_['model__n_states']} states, {theirs:.1f} s; fo.select "
            f"{found.simplest} states (best {found.best}), {ours:.1f} s; ratio {theirs / ours:.1f}; worst verdicts: "
            f"{', '.join(found.table['worst'])}"
        )
