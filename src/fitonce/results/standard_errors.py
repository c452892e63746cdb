"""Standard errors of means over folds, when what folds score depends on its neighbours."""

from __future__ import annotations

import numpy as np


def clustered_error(
    values: np.ndarray, fold: np.ndarray, sizes: np.ndarray, cluster: np.ndarray, used: np.ndarray
) -> float:
    """The same for rows: their values, folds, the sizes of these, their clusters; (F,) folds `used`."""
    kept = used[fold]
    share = 1.0 / (max(used.sum(), 1) * sizes[kept])
    mass = np.bincount(cluster[kept], share)
    total = np.bincount(cluster[kept], share * values[kept])
    count = int((mass > 0).sum())
    if count < 2:
        return float("nan")
    residual = total - mass * total.sum() / mass.sum()
    return float(np.sqrt(count / (count - 1) * np.sum(residual**2)))
