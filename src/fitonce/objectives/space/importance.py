"""How far a Laplace approximation is off: the same log-likelihood by importance sampling.

Random signals come from the Gaussian of the approximation, in pairs that mirror each other at its mean
(Durbin and Koopman's simulation smoother). The integral is that of the parabolas times the mean of what
is integrated over what the parabolas make of it.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from fitonce.core.lanes import LANES
from fitonce.objectives.space.laplace import LaplacePass, StandIns
from fitonce.objectives.space.layout import Layout
from fitonce.objectives.space.simulation import drawn_normal, paths
from fitonce.objectives.space.smoothing import whole_pass
from fitonce.results.laplace_error import LaplaceError


def laplace_error(layout: Layout, theta: np.ndarray, draws: int, seed: int) -> LaplaceError:
    """Of all data at theta (D,), by an even number of draws."""
    one = whole_pass(layout, theta)
    assert isinstance(one, LaplacePass)
    rng, half = np.random.default_rng(seed), -(-draws // 2)
    logs = np.concatenate([one.excess(some) for some in _mirrored(layout, theta, one, half, rng)], 1)
    pairs = np.logaddexp(logs[:, :half], logs[:, half:]) - np.log(2.0)  # (N, half)
    sums = special.logsumexp(pairs, 1)
    means = sums - np.log(half)
    apart = np.exp(pairs - means[:, None])  # of mean 1
    errors = apart.std(1, ddof=1) / np.sqrt(half)
    total = special.logsumexp(logs, 1)
    effective = np.exp(2.0 * total - special.logsumexp(2.0 * logs, 1))
    return LaplaceError(
        laplace=float(one.of_sequences.sum()),
        sampled=float((one.of_parabolas + means).sum()),
        monte_carlo=float(np.sqrt(np.sum(errors**2))),
        effective=float(effective.min()),
        draws=2 * half,
    )


def _mirrored(
    layout: Layout, theta: np.ndarray, one: LaplacePass, half: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(T, half) random signals given the parabolas, and the same mirrored at their mean."""
    random = _random(layout, theta, half, rng)
    z, spread = one.touching.z, one.touching.spread
    errors = np.sqrt(spread) * rng.normal(size=random.shape)
    found = np.empty(random.shape)
    for start in range(0, half, LANES):
        some = slice(start, start + LANES)
        thetas = np.repeat(theta[None], random[:, some].shape[1], 0)
        made = StandIns(layout, thetas, np.repeat(one.kept, len(thetas), 1))
        rest = z - random[:, some] - errors[:, some]
        back = made.filtered(rest, spread).back(made.every)
        found[:, some] = random[:, some] + made.signals(back, rest, spread).mean
    return found, 2.0 * one.signals.mean - found


def _random(layout: Layout, theta: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """(T, count) random signals of mean zero; diffuse directions are not random."""
    system, steps = layout.systems(theta[None]), layout.steps
    still = system._replace(
        offset=np.zeros((1, 1, 1)), drift=np.zeros((1, *system.mean.shape)), mean=0.0 * system.mean
    )
    found = np.empty((len(steps.y), count))
    for begin, end in zip(steps.starts[:-1], steps.starts[1:], strict=True):
        firsts = drawn_normal(still.mean[:, 0], still.spread[..., 0], count, rng)
        values = [value[:, 0] for _, value in paths(still, firsts, int(end - begin), int(begin), rng)]
        found[begin:end] = np.stack(values)
    return found
