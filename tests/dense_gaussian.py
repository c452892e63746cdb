"""State-space models as one Gaussian of all observations: for short series, to compare with."""

from __future__ import annotations

import numpy as np


def joint(system, steps):
    """Mean (S,), covariance (S, S) and diffuse columns (S, q) of all states of a sequence, in order."""
    n = len(system.mean)
    at = lambda array, t: array[t if len(array) > 1 else 0, ..., 0]  # noqa: E731
    means, columns = [system.mean[:, 0]], [system.diffuse]
    spreads = [system.spread[..., 0]]
    for t in range(steps - 1):
        move = at(system.moving, t)
        means.append(move @ means[-1] + at(system.drift, t))
        columns.append(move @ columns[-1])
        spreads.append(move @ spreads[-1] @ move.T + at(system.shaking, t))
    covariance = np.zeros((steps * n, steps * n))
    for s in range(steps):
        block = spreads[s]
        for t in range(s, steps):
            covariance[t * n : (t + 1) * n, s * n : (s + 1) * n] = block
            covariance[s * n : (s + 1) * n, t * n : (t + 1) * n] = block.T
            block = at(system.moving, t) @ block
    return np.concatenate(means), covariance, np.concatenate(columns)


def observations(system, steps):
    """The same of all observations, channel after channel of step after step, with noise."""
    mean, covariance, columns = joint(system, steps)
    n, width = len(system.mean), system.offset.shape[1]
    loading = np.zeros((steps * width, steps * n))
    noise = np.zeros((steps * width, steps * width))
    offset = np.zeros(steps * width)
    for t in range(steps):
        own = slice(t * width, (t + 1) * width)
        loading[own, t * n : (t + 1) * n] = system.loading[t if len(system.loading) > 1 else 0, ..., 0]
        noise[own, own] = system.noise[t if len(system.noise) > 1 else 0, ..., 0]
        offset[own] = system.offset[t if len(system.offset) > 1 else 0, :, 0]
    return loading @ mean + offset, loading @ covariance @ loading.T + noise, loading @ columns


def log_likelihood(system, y, seen):
    """log p of the observations (T, C) that are seen, diffuse columns integrated over."""
    mean, covariance, columns = observations(system, len(y))
    kept = np.flatnonzero(seen.ravel())
    errors, spread = (y.ravel() - mean)[kept], covariance[np.ix_(kept, kept)]
    found = len(kept) * np.log(2 * np.pi) + np.linalg.slogdet(spread)[1]
    found += errors @ np.linalg.solve(spread, errors)
    if columns.shape[1]:
        columns = columns[kept]
        inside = columns.T @ np.linalg.solve(spread, columns)
        pull = columns.T @ np.linalg.solve(spread, errors)
        found += np.linalg.slogdet(inside)[1] - pull @ np.linalg.solve(inside, pull)
    return -0.5 * found
