"""Smoothed states, and the parts that add up to what is observed."""

from __future__ import annotations

import numpy as np

from fitonce.core.chunks import pieces
from fitonce.core.lanes import LANES
from fitonce.data.indices import site_index
from fitonce.data.sequences import Sequences
from fitonce.objectives.space.evaluated import Evaluated, evaluated
from fitonce.objectives.space.layout import Layout, Paths
from fitonce.results.smoothed import Smoothed

BYTES = 2**28  # of covariances of states at a time: each further part takes a pass backward


def whole_pass(layout: Layout, theta: np.ndarray) -> Evaluated:
    """The filter on all data, at one theta (D,)."""
    ones = np.ones((len(layout.steps.y), 1))
    paths = Paths(ones, ones, np.ones((len(layout.steps.starts) - 1, 1)))
    return evaluated(layout, theta[None], paths)


def _moments(layout: Layout, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(T, K) means and standard deviations of rows (K, n) times states given all data."""
    one, count = whole_pass(layout, theta), len(layout.steps.y)
    means, variances = np.empty((count, len(rows))), np.empty((count, len(rows)))
    for some in pieces(np.arange(count), 8 * LANES * layout.n_states**2, BYTES):
        back = one.back(some, whole=True)
        means[some] = back.expected[..., 0] @ rows.T
        variances[some] = np.einsum("ki,tij,kj->tk", rows, back.spreads[..., 0], rows)
    return means, np.sqrt(np.maximum(variances, 0.0))


def _made(
    names: tuple[str, ...], mean: np.ndarray, sd: np.ndarray, layout: Layout, data: Sequences, add: bool
) -> Smoothed:
    observed = np.where(layout.steps.seen, layout.steps.y, np.nan)
    density, channels = layout.model.density, data.channels
    if density is not None:  # what is observed, on the scale of the states
        channels = tuple(f"{density.scale} of {name}" for name in channels)
    called, index = tuple(map(data.called, range(data.n_sequences))), site_index(data)
    return Smoothed(
        names, mean, sd, data.lengths, observed, channels, add, index, called, data.n_sequences
    )


def smoothed_states(layout: Layout, theta: np.ndarray, data: Sequences) -> Smoothed:
    """Each state given all data."""
    size = layout.n_states
    named = layout.model.state_names
    names = named + tuple(f"state[{number}]" for number in range(len(named), size))
    return _made(names, *_moments(layout, theta, np.eye(size)), layout, data, False)


def smoothed_parts(layout: Layout, theta: np.ndarray, data: Sequences) -> Smoothed:
    """Parts that add up to what is expected of the one channel."""
    loadings = layout.model.components(layout.steps)
    if not loadings:
        raise ValueError(f"{layout.model} has no parts that add up; its states are fit.smoothed()")
    mean, sd = _moments(layout, theta, np.stack(list(loadings.values())))
    names = tuple(loadings)
    offset = layout.systems(theta[None]).offset[:, 0, 0]
    if offset.any():  # known, given the parameters
        beside = np.broadcast_to(offset[:, None], (len(mean), 1))
        mean, sd = np.hstack([mean, beside]), np.hstack([sd, np.zeros_like(beside)])
        names = (*names, "regression" if layout.model.covariates else "mean")
    return _made(names, mean, sd, layout, data, True)
