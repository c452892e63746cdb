"""Densities of left-out observations, from passes backward."""

from __future__ import annotations

import numpy as np

from fitonce.objectives.space.layout import Layout
from fitonce.objectives.space.passes import LOG_2PI, Back, Pass


def _normal(errors: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """(...,) log densities of errors (..., C) under covariances (..., C, C)."""
    count = errors.shape[-1]
    with np.errstate(all="ignore"):
        if count == 1:
            variance = spreads[..., 0, 0]
            return -0.5 * (LOG_2PI + np.log(variance) + errors[..., 0] ** 2 / variance)
        sign, log_det = np.linalg.slogdet(spreads)
        squares = np.sum(errors * np.linalg.solve(spreads, errors[..., None])[..., 0], -1)
        return np.where(sign > 0, -0.5 * (count * LOG_2PI + log_det + squares), np.nan)


def log_densities_by_precision(seen: np.ndarray, back: Back, folds: int) -> np.ndarray:
    """(F, T) log p(y_t | all other steps), zero where nothing is observed."""
    found = np.zeros((folds, len(seen)))
    counts = seen.sum(1)
    for count in np.unique(counts[counts > 0]):
        at = np.flatnonzero(counts == count)
        pulls = np.moveaxis(back.by_y[at, :count, :folds], -1, 0)
        precisions = np.moveaxis(back.own[at, :count, :count, :folds], -1, 0)
        with np.errstate(all="ignore"):
            if count == 1:
                own = precisions[..., 0, 0]
                squares = pulls[..., 0] ** 2 / own
                log_det = np.log(own)
            else:
                sign, log_det = np.linalg.slogdet(precisions)
                log_det = np.where(sign > 0, log_det, np.nan)
                squares = np.sum(pulls * np.linalg.solve(precisions, pulls[..., None])[..., 0], -1)
        found[:, at] = -0.5 * (count * LOG_2PI - log_det + squares)
    return found


def log_densities(layout: Layout, one: Pass, back: Back, wanted: np.ndarray) -> np.ndarray:
    """(m, F) log p(y_t | kept data) of the observed channels of left-out steps `wanted` (m,)."""
    steps, system = layout.steps, layout.systems(one.thetas)
    errors = steps.y[wanted][..., None] - back.expected[..., : one.folds]
    errors = errors - (system.offset[wanted] if len(system.offset) > 1 else system.offset)
    noise = system.noise[wanted] if len(system.noise) > 1 else system.noise
    spreads = back.spreads[..., : one.folds] + noise
    found = np.zeros((len(wanted), one.folds))
    seen = steps.seen[wanted]
    for pattern in np.unique(seen, axis=0):
        at = np.flatnonzero((seen == pattern).all(1))
        channels = np.flatnonzero(pattern)
        if len(channels):
            part = np.moveaxis(errors[at][:, channels], -1, 1)
            covariance = np.moveaxis(spreads[at][:, channels][:, :, channels], -1, 1)
            found[at] = _normal(part, covariance)
    return found
