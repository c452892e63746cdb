"""M steps of hidden chains without a closed form: a few steps of Newton's method."""

from __future__ import annotations

from typing import Any

import numpy as np

from fitonce.core.parameters import ParameterSpace, Params

_STEPS, _HALVINGS = 4, 8


def newton(
    chain: Any, space: ParameterSpace, params: Params, firsts: np.ndarray, pairs: np.ndarray
) -> dict[str, np.ndarray]:
    """Better parameters for expected counts; nearly the best ones after a few calls, as EM does."""
    own = {name: np.asarray(params[name]) for name, _, _ in space.leaves()}
    theta = np.asarray(space.to_free(own), float)
    value = _value(chain, space, theta, firsts, pairs)
    for _ in range(_STEPS):
        values = space.values(theta[None])
        alone = {name: array[..., 0] for name, array in values.items()}
        slope = chain.slopes(values, firsts[..., None], pairs[..., None], prior=True)[:, 0]
        spectrum, vectors = np.linalg.eigh(-chain.curvature(alone, firsts, pairs))
        floor = 1e-8 * max(spectrum.max(initial=0.0), 1e-8)
        step = vectors @ ((vectors.T @ slope) / np.maximum(np.abs(spectrum), floor))
        for _ in range(_HALVINGS):
            tried = _value(chain, space, theta + step, firsts, pairs)
            if tried >= value:
                break
            step *= 0.5
        else:
            break
        theta, gain, value = theta + step, tried - value, tried
        if gain < 1e-9 * (1.0 + abs(value)):
            break
    return {name: np.asarray(value) for name, value in space.params_at(theta).items()}


def _value(chain: Any, space: Any, theta: np.ndarray, firsts: np.ndarray, pairs: np.ndarray) -> float:
    values = space.values(theta[None])
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        first, moves = (part[..., 0] for part in chain.logs(values))
        total = np.sum(np.where(firsts > 0, firsts * first, 0.0))
        total += np.sum(np.where(pairs > 0, pairs * moves, 0.0)) + np.sum(chain.log_prior(values))
    return float(total) if np.isfinite(total) else -np.inf
