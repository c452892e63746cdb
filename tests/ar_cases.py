"""Small data from two autoregressions that are clearly different, and objectives without a fit."""

from __future__ import annotations

from functools import cache

import numpy as np

import fitonce as fo
from fitonce.objectives.families import objective_of

TURN = np.array([[0.6, -0.7], [0.7, 0.6]])


def walk(steps, seed=0, stay=0.9, noise=0.3):
    """(T, 2): turning around one point, or decaying towards another."""
    rng = np.random.default_rng(seed)
    x, z = np.zeros((steps, 2)), rng.integers(2)
    x[0] = rng.normal(size=2)
    for t in range(1, steps):
        z = z if rng.random() < stay else 1 - z
        mean = TURN @ x[t - 1] if z == 0 else 0.3 * x[t - 1] + [1.5, -1.0]
        x[t] = mean + noise * (1.0 + z) * rng.normal(size=2)
    return x


def walks(lengths, seed=0):
    return [walk(steps, seed + n) for n, steps in enumerate(lengths)]


def gaps(lengths, seed=0):
    """The same with a missing step, and a step of which one channel is missing, in each sequence."""
    data = walks(lengths, seed)
    for x in data:
        x[len(x) // 2] = np.nan
        x[-2, 1] = np.nan
    return data


@cache
def fitted(order=1, noise="state", seed=0):
    """One fit that tests share, by JAX: eight sequences of unequal length."""
    model = fo.models.ARHMM(2, order, noise=noise)
    return fo.fit(model, walks(LENGTHS, seed), restarts=1, kernel="scan")


LENGTHS = (14, 20, 9, 17, 20, 11, 15, 20)


def at_random(model, data, seed=0, size=0.5):
    """F of a model as one program of JAX, and a point near its start: (objective, theta)."""
    objective = objective_of(model, data, "scan")
    rng = np.random.default_rng(seed)
    start = objective.start(None)
    return objective, start + size * rng.normal(size=len(start))


@cache
def wide(sequences=6, seed=3):
    """A fit of more than 100 parameters, by JAX: 5 channels, from a mixture of rotations."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    data = []
    for n in range(sequences):
        x = np.zeros((30 + 2 * n, 5))
        for t in range(1, len(x)):
            fast = (t // 9 + n) % 2
            x[t] = (0.8 * turn @ x[t - 1] if fast else 0.5 * x[t - 1] + 1.0) + 0.4 * rng.normal(size=5)
        data.append(x)
    return fo.fit(fo.models.ARHMM(2, 2, noise="shared"), data, restarts=1, kernel="scan")
