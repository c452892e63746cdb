"""M steps of Gaussian emissions: the best means at current covariances, then the best covariances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.models.emissions.base import Rows, weighted_sums
from fitonce.models.emissions.closed_gaussian import NormalPrior


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
    pull = prior.mean_weight + (0.0 if prior.mean_scale is None else variance / prior.mean_scale**2)
    divisor = total + pull
    sums = weighted_sums(x, shares, rows) + pull * prior.centre
    mean = np.where(divisor > 0, sums / np.where(divisor > 0, divisor, 1.0), mean)
    square = np.stack([
        weighted_sums((x - centre) ** 2, shares[:, k : k + 1], rows)[0] for k, centre in enumerate(mean)
    ])  # fmt: skip
    square = square + prior.squares + prior.mean_weight * (mean - prior.centre) ** 2
    return mean, square, total + prior.strength


def best_variance(squares: np.ndarray, mass: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """The v with the largest -(mass log v + squares / v) / 2 - rate v."""
    half = 0.5 * mass
    return squares / (half + np.sqrt(half**2 + 2.0 * rate * squares))


def best_full(
    mean: np.ndarray,
    covariance: np.ndarray,
    shares: np.ndarray,
    rows: Rows,
    prior: NormalPrior,
    together: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """The best means (K, C) and covariances (K / together, C, C), each shared by so many means that
    follow each other; the current ones are (K, C) and (K, C, C). Where channels are missing this is a
    step of EM over these, too: it improves."""
    means, squares, masses = [], [], []
    for k, centre in enumerate(mean):
        moments = _completed(centre, covariance[k], shares[:, k], rows)
        means.append(_best_mean(centre, covariance[k], moments, prior))
        residual, away = moments.rows - means[-1], means[-1] - prior.centre
        squares.append(
            (shares[:, k, None] * residual).T @ residual
            + moments.uncertain
            + prior.mean_weight * np.outer(away, away)
        )
        masses.append(moments.mass)
    square = np.stack(squares).reshape(-1, together, *covariance.shape[1:]).sum(1) + prior.squares
    mass = np.array(masses).reshape(-1, together).sum(1) + prior.strength
    best = square / mass[:, None, None]
    return np.stack(means), 0.5 * (best + np.swapaxes(best, -1, -2))


def _best_mean(
    mean: np.ndarray, covariance: np.ndarray, moments: Moments, prior: NormalPrior
) -> np.ndarray:
    mass = moments.mass + prior.mean_weight
    first = moments.first + prior.mean_weight * prior.centre
    if prior.mean_scale is not None:
        pull = covariance / prior.mean_scale**2
        return np.linalg.solve(mass * np.eye(len(mean)) + pull, first + pull @ prior.centre)
    return first / mass if mass > 0 else mean


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
