"""log p(z_t | all other labels, x) of single labels whose neighbours are known, in closed form."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy import special

from fitonce.core.numerics import in_float64
from fitonce.data.labelled import UNKNOWN
from fitonce.objectives.base import Program
from fitonce.objectives.labels.layout import Corpus


def is_local(corpus: Corpus, sites: np.ndarray) -> np.ndarray:
    """(n,) whether the labels before and after a site are known, or it is at an end."""
    first, last, before, after = _around(corpus, sites)
    return (first | (before != UNKNOWN)) & (last | (after != UNKNOWN))


@in_float64
def local_scores(program: Program, theta: np.ndarray, corpus: Corpus, sites: np.ndarray) -> np.ndarray:
    """(n, K) of every tag at sites (n,), given their neighbours: own scores and the two transitions."""
    linear = program.model.stack(program.space.to_params(jnp.asarray(theta)))
    weights, transition, possible = map(np.asarray, linear)
    first, last, before, after = _around(corpus, sites)
    scores = corpus.design[sites] @ weights
    if corpus.scores is not None:
        scores = scores + corpus.scores[sites]
    scores += np.where(first[:, None], possible, transition[before])
    scores += np.where(last[:, None], 0.0, transition[:, after].T)
    return scores


def local(
    program: Program, theta: np.ndarray, corpus: Corpus, sites: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values (n,) and slopes (n, D) of sites (n,) with known neighbours.

    Given its neighbours, a label's probabilities are a softmax of the scores; each parameter counts for
    the label and, by its probability, against every tag.
    """
    scores = local_scores(program, theta, corpus, sites)
    first, last, before, after = _around(corpus, sites)
    row, tag = np.arange(len(sites)), corpus.data.labels[sites]
    values = scores[row, tag] - special.logsumexp(scores, axis=1)
    off = -special.softmax(scores, 1)
    off[row, tag] += 1.0
    states = len(corpus.data.tags)
    moves = np.zeros((len(sites), states, states))
    moves[row[~first], before[~first]] += off[~first]
    moves[row[~last], :, after[~last]] += off[~last]
    by_feature = corpus.design[sites][:, :, None] * off[:, None, :]
    width = by_feature.shape[1] * states
    flat = [by_feature.reshape(len(sites), width), moves.reshape(len(sites), states * states)]
    return values, np.concatenate(flat, 1)[:, corpus.order]


def _around(corpus: Corpus, sites: np.ndarray) -> tuple[np.ndarray, ...]:
    """(n,) each: whether a site is first and last, and the labels before and after it."""
    data = corpus.data
    first = corpus.time[sites] == 0
    last = corpus.time[sites] == data.lengths[corpus.sequence[sites]] - 1
    return first, last, data.labels[sites - 1], data.labels[np.minimum(sites + 1, data.n_sites - 1)]
