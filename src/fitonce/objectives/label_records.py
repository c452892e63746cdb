"""What is known about single labels, at parameters of the full fit or of folds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class LabelEvidence(NamedTuple):
    """Each label given all others.

    Attributes:
        log_probabilities: (n,) log p(z_t | all other labels, x).
        slopes: (n, D) their derivatives by theta.
        alternatives: (n, K) p(z_t = k | all other labels, x).
    """

    log_probabilities: np.ndarray
    slopes: np.ndarray
    alternatives: np.ndarray


class HeldoutTags(NamedTuple):
    """What folds predict for tokens that they leave out, one row per token.

    Attributes:
        fold, site: (n,) of the token.
        tag: (n,) the index of the predicted tag.
        chance: (n,) its probability given the kept labels and x.
        loss: (n,) -log p(z_t | kept labels, x) of the given label; nan where it is not known.
    """

    fold: np.ndarray
    site: np.ndarray
    tag: np.ndarray
    chance: np.ndarray
    loss: np.ndarray
