"""M steps of Gaussian emissions: the best means at current covariances, then the best covariances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.models.emissions.base import Rows, weighted_sums


class NormalPrior(NamedTuple):
    """See `Gaussian`: `mean_scale`, `strength`, and `squares` (C,) or (), or (C, C) of matrices."""

    mean_scale: float | None
    strength: float
    squares: np.ndarray


class Moments(NamedTuple):
    """Weighted rows of one state: their mass, the sum (C,) of rows, the rows themselves (R, C) with
    expected values where channels are missing, and the covariance (C, C) that these leave out."""

    mass: float
    first: np.ndarray
    rows: np.ndarray
    uncertain: np.ndarray


def best_diagonal(
    mean: np.ndarray, variance: np.ndarray, shares: np.ndarray, rows: Rows, prior: NormalPrior
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best means, and the sums of squares around them and masses that their variances are ratios of.

    Args:
        mean, variance: of the shape (K, C) or (K,), the current ones.
        shares: (R, K) weights of the rows in states.
    """
    x, total = np.asarray(rows.x), weighted_sums(1.0, shares, rows)
    shrinkage = 0.0 if prior.mean_scale is None else variance / prior.mean_scale**2
    divisor = total + shrinkage
    sums = weighted_sums(x, shares, rows)
    mean = np.where(divisor > 0, sums / np.where(divisor > 0, divisor, 1.0), mean)
    square = np.stack([
        weighted_sums((x - centre) ** 2, shares[:, k : k + 1], rows)[0] for k, centre in enumerate(mean)
    ])  # fmt: skip
    return mean, square + prior.squares, total + prior.strength


def best_full(
    mean: np.ndarray,
    covariance: np.ndarray,
    shares: np.ndarray,
    rows: Rows,
    prior: NormalPrior,
    tied: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """The best means (K, C) and covariances (K, C, C), or (C, C) if `tied`; the current ones are (K, C)
    and (K, C, C). Where channels are missing this is a step of EM over these, too: it improves."""
    means, squares, masses = [], [], []
    for k, centre in enumerate(mean):
        moments = _completed(centre, covariance[k], shares[:, k], rows)
        means.append(_best_mean(centre, covariance[k], moments, prior.mean_scale))
        residual = moments.rows - means[-1]
        squares.append((shares[:, k, None] * residual).T @ residual + moments.uncertain)
        masses.append(moments.mass)
    square, mass = np.stack(squares), np.array(masses)
    if tied:
        square, mass = square.sum(0), mass.sum()
    square = square + prior.squares
    best = square / (mass + prior.strength)[..., None, None]
    return np.stack(means), 0.5 * (best + np.swapaxes(best, -1, -2))


def _best_mean(
    mean: np.ndarray, covariance: np.ndarray, moments: Moments, mean_scale: float | None
) -> np.ndarray:
    if mean_scale is not None:
        pull = covariance / mean_scale**2
        return np.linalg.solve(moments.mass * np.eye(len(mean)) + pull, moments.first)
    return moments.first / moments.mass if moments.mass > 0 else mean


def _completed(mean: np.ndarray, covariance: np.ndarray, shares: np.ndarray, rows: Rows) -> Moments:
    """Rows with missing channels at their means given the others, pattern by pattern."""
    x, uncertain = np.asarray(rows.x, float), np.zeros_like(covariance)
    if rows.observed is not None:
        x = x.copy()
        patterns, which = np.unique(rows.mask(), axis=0, return_inverse=True)
        for number, seen in enumerate(patterns):
            if seen.all():
                continue
            some, lost = which.ravel() == number, ~seen
            gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, lost)])
            x[np.ix_(some, lost)] = mean[lost] + (x[np.ix_(some, seen)] - mean[seen]) @ gain
            left = covariance[np.ix_(lost, lost)] - covariance[np.ix_(lost, seen)] @ gain
            uncertain[np.ix_(lost, lost)] += shares[some].sum() * left
    return Moments(float(shares.sum()), shares @ x, x, uncertain)
