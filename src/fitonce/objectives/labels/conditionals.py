"""log p(z_t | all other labels, x) of single labels: in closed form where their neighbours are known."""

from __future__ import annotations

import numpy as np
from scipy import special

from fitonce.core.numerics import in_float64
from fitonce.data.labelled import UNKNOWN
from fitonce.objectives.base import ValuesAndSlopes
from fitonce.objectives.labels.changes import evaluate
from fitonce.objectives.labels.entries import linear_at
from fitonce.objectives.labels.layout import LabelLayout


def is_local(layout: LabelLayout, sites: np.ndarray) -> np.ndarray:
    """(n,) whether the labels before and after a site are known, or it is at an end."""
    first, last, before, after = _neighbours(layout, sites)
    return (first | (before != UNKNOWN)) & (last | (after != UNKNOWN))


def local_scores(layout: LabelLayout, theta: np.ndarray, sites: np.ndarray) -> np.ndarray:
    """(n, K) of every tag at sites (n,), given their neighbours: own scores and the two transitions."""
    weights, transition, possible = linear_at(layout.chains.program, theta)
    first, last, before, after = _neighbours(layout, sites)
    scores = layout.design.some(sites).scores(weights)
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
    each = np.arange(len(sites) + 1)
    return values, layout.slopes(layout.design.some(sites).sums_by_chain(each, off), moves)


@in_float64
def given_others(layout: LabelLayout, theta: np.ndarray, sites: np.ndarray) -> ValuesAndSlopes:
    """Values (n,) and slopes (n, D) of any labelled sites (n,)."""
    near = is_local(layout, sites)
    if near.all():
        return local(layout, theta, sites)
    values, slopes = np.empty(len(sites)), np.empty((len(sites), len(theta)))
    values[near], slopes[near] = local(layout, theta, sites[near])
    sequence, without = _without(layout, sites[~near])
    rows = (layout, np.broadcast_to(theta, (len(sequence), len(theta))), sequence)
    known, unknown = (evaluate(*rows, each) for each in (layout.labels[sequence], without))
    values[~near], slopes[~near] = known[0] - unknown[0], known[1] - unknown[1]
    return values, slopes


@in_float64
def alternatives(layout: LabelLayout, theta: np.ndarray, sites: np.ndarray) -> np.ndarray:
    """(n, K) p(z_t = k | all other labels, x) of labelled sites (n,)."""
    near = is_local(layout, sites)
    found = np.empty((len(sites), len(layout.data.tags)))
    found[near] = special.softmax(local_scores(layout, theta, sites[near]), 1)
    others = np.flatnonzero(~near)
    sequence, without = _without(layout, sites[others])
    thetas = np.broadcast_to(theta, (len(others), len(theta)))
    for some, logs in layout.chains.log_marginals(thetas, sequence, without):
        time = layout.time[sites[others[some]]]
        found[others[some]] = np.exp(logs[np.arange(len(some)), time])
    return found


def _without(layout: LabelLayout, sites: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sequences of sites (n,), and their labels (n, longest) without those of the sites."""
    sequence = layout.sequence[sites]
    labels = layout.labels[sequence]
    labels[np.arange(len(sites)), layout.time[sites]] = UNKNOWN
    return sequence, labels


def _neighbours(layout: LabelLayout, sites: np.ndarray) -> tuple[np.ndarray, ...]:
    """(n,) each: whether a site is first and last, and the labels before and after it."""
    data = layout.data
    first = layout.time[sites] == 0
    last = layout.time[sites] == data.lengths[layout.sequence[sites]] - 1
    return first, last, data.labels[sites - 1], data.labels[np.minimum(sites + 1, data.n_sites - 1)]
