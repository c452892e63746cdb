"""log p(z_t | all other labels, x) of single labels whose neighbours are known, in closed form."""

from __future__ import annotations

import numpy as np
from scipy import special

from fitonce.core.deferred import jax
from fitonce.core.numerics import in_float64
from fitonce.data.labelled import UNKNOWN
from fitonce.objectives.base import ValuesAndSlopes
from fitonce.objectives.labels.layout import LabelLayout


def is_local(layout: LabelLayout, sites: np.ndarray) -> np.ndarray:
    """(n,) whether the labels before and after a site are known, or it is at an end."""
    first, last, before, after = _neighbours(layout, sites)
    return (first | (before != UNKNOWN)) & (last | (after != UNKNOWN))


@in_float64
def local_scores(layout: LabelLayout, theta: np.ndarray, sites: np.ndarray) -> np.ndarray:
    """(n, K) of every tag at sites (n,), given their neighbours: own scores and the two transitions."""
    program = layout.buckets.program
    linear = program.model.stack(program.space.to_params(jax.device_put(theta)))
    weights, transition, possible = map(np.asarray, linear)
    first, last, before, after = _neighbours(layout, sites)
    scores = layout.design[sites] @ weights
    if layout.scores is not None:
        scores = scores + layout.scores[sites]
    scores += np.where(first[:, None], possible, transition[before])
    scores += np.where(last[:, None], 0.0, transition[:, after].T)
    return scores


def local(layout: LabelLayout, theta: np.ndarray, sites: np.ndarray) -> ValuesAndSlopes:
    """Values (n,) and slopes (n, D) of sites (n,) with known neighbours.

    Given its neighbours, the probabilities of a label are a softmax of scores; slopes are observed less
    expected counts.
    """
    scores = local_scores(layout, theta, sites)
    first, last, before, after = _neighbours(layout, sites)
    row, tag = np.arange(len(sites)), layout.data.labels[sites]
    values = scores[row, tag] - special.logsumexp(scores, axis=1)
    off = -special.softmax(scores, 1)
    off[row, tag] += 1.0
    states = len(layout.data.tags)
    moves = np.zeros((len(sites), states, states))
    moves[row[~first], before[~first]] += off[~first]
    moves[row[~last], :, after[~last]] += off[~last]
    return values, layout.slopes(layout.design[sites][:, :, None] * off[:, None, :], moves)


def _neighbours(layout: LabelLayout, sites: np.ndarray) -> tuple[np.ndarray, ...]:
    """(n,) each: whether a site is first and last, and the labels before and after it."""
    data = layout.data
    first = layout.time[sites] == 0
    last = layout.time[sites] == data.lengths[layout.sequence[sites]] - 1
    return first, last, data.labels[sites - 1], data.labels[np.minimum(sites + 1, data.n_sites - 1)]
