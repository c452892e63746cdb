"""log p(z_t | all other labels, x) of single labels whose neighbours are known, in closed form."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy import special

from fitonce.corpus import Corpus
from fitonce.labelled import UNKNOWN
from fitonce.numerics import in_float64
from fitonce.objective import Program


def is_local(corpus: Corpus, sites: np.ndarray) -> np.ndarray:
    """(n,) whether the labels before and after a site are known, or it is at an end."""
    data = corpus.data
    labels = np.concatenate([[UNKNOWN], data.labels, [UNKNOWN]])
    first = corpus.time[sites] == 0
    last = corpus.time[sites] == data.lengths[corpus.sequence[sites]] - 1
    return (first | (labels[sites] != UNKNOWN)) & (last | (labels[sites + 2] != UNKNOWN))


@in_float64
def local(
    program: Program, theta: np.ndarray, corpus: Corpus, sites: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values (n,) and slopes (n, D) of sites (n,) with known neighbours.

    Given its neighbours, a label's probabilities are a softmax of its own scores and of the two
    transitions; each parameter counts for the label and, by its probability, against every tag.
    """
    linear = program.model.stack(program.space.to_params(jnp.asarray(theta)))
    weights, transition, possible = map(np.asarray, linear)
    data, tag = corpus.data, corpus.data.labels[sites]
    first = corpus.time[sites] == 0
    last = corpus.time[sites] == data.lengths[corpus.sequence[sites]] - 1
    before, after = data.labels[sites - 1], data.labels[np.minimum(sites + 1, data.n_sites - 1)]
    scores = corpus.design[sites] @ weights
    if corpus.scores is not None:
        scores = scores + corpus.scores[sites]
    scores += np.where(first[:, None], possible, transition[before])
    scores += np.where(last[:, None], 0.0, transition[:, after].T)
    row = np.arange(len(sites))
    shares = special.softmax(scores, 1)
    values = scores[row, tag] - special.logsumexp(scores, axis=1)
    off = -shares
    off[row, tag] += 1.0
    states, width = len(data.tags), weights.shape[0]
    moves = np.zeros((len(sites), states, states))
    moves[row[~first], before[~first]] += off[~first]
    moves[row[~last], :, after[~last]] += off[~last]
    by_feature = corpus.design[sites][:, :, None] * off[:, None, :]
    shape = (len(sites), -1)
    flat = np.concatenate([by_feature.reshape(len(sites), width * states), moves.reshape(shape)], 1)
    return values, flat[:, corpus.order]
