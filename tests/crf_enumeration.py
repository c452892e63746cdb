"""Brute-force twin of a linear-chain CRF: sums over all label paths that can happen.

A path's score is linear, c + counts . theta, so that a log-sum of paths has the mean of their counts
for a gradient and their covariance for a Hessian: derivatives of the sums, by enumeration alone.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import enumeration


@dataclass(frozen=True, eq=False)
class Twin:
    """Sequences of one CRF.

    Attributes:
        names: of the free parameters, such as "transition[0,1]".
        features: an array (T, Q) for each sequence.
        labels: an array (T,) for each, -1 where not known.
        first, moves: (K,), (K, K) what can happen.
        scale: of the prior.
        scores_given: whether the features are scores of the labels.
    """

    names: list[str]
    features: list[np.ndarray]
    labels: list[np.ndarray]
    first: np.ndarray
    moves: np.ndarray
    scale: float
    scores_given: bool

    @cached_property
    def lengths(self) -> list[int]:
        return [len(x) for x in self.features]

    @cached_property
    def places(self) -> list[tuple[str, tuple[int, ...]]]:
        found = [re.fullmatch(r"(\w+)\[([\d,]+)\]", name) for name in self.names]
        return [(m[1], tuple(map(int, m[2].split(",")))) for m in found]

    @cached_property
    def routes(self) -> list[np.ndarray]:
        """(P, T) the paths of each sequence that can happen."""
        found = []
        for length in self.lengths:
            z = enumeration.paths(length, len(self.first))
            found.append(z[self.first[z[:, 0]] & self.moves[z[:, :-1], z[:, 1:]].all(1)])
        return found

    @cached_property
    def counts(self) -> list[np.ndarray]:
        """(P, D) what multiplies theta in each path's score."""
        made = []
        for z, x in zip(self.routes, self.features, strict=True):
            column = {
                "start": lambda k, z=z: z[:, 0] == k,
                "end": lambda k, z=z: z[:, -1] == k,
                "bias": lambda k, z=z: (z == k).sum(1),
                "weights": lambda q, k, z=z, x=x: (z == k) @ x[:, q],
                "transition": lambda i, j, z=z: ((z[:, :-1] == i) & (z[:, 1:] == j)).sum(1),
            }
            made.append(np.stack([column[leaf](*at) for leaf, at in self.places], 1).astype(float))
        return made

    @cached_property
    def constants(self) -> list[np.ndarray]:
        """(P,) what else is in each path's score."""
        return [
            x[np.arange(len(x)), z].sum(1) if self.scores_given else np.zeros(len(z))
            for z, x in zip(self.routes, self.features, strict=True)
        ]

    def params(self, theta):
        """The parameters that the names say."""
        width, states = self.features[0].shape[1], len(self.first)
        shapes = {"start": (states,), "end": (states,), "transition": (states, states)}
        if not self.scores_given:
            shapes |= {"weights": (width, states), "bias": (states,)}
        made = {name: np.zeros(shape) for name, shape in shapes.items()}
        made["start"][~self.first] = made["transition"][~self.moves] = -np.inf
        for (leaf, at), value in zip(self.places, theta, strict=True):
            made[leaf][at] = value
        return made

    def scores(self, n, theta):
        return self.constants[n] + self.counts[n] @ theta

    def log_sum(self, n, theta, kept=None):
        """log sum over the paths that agree with the labels where `kept` (T,), its gradient and Hessian;
        over all of them when None."""
        agree = np.ones(len(self.routes[n]), bool)
        if kept is not None:
            fixed = np.asarray(kept, bool) & (self.labels[n] >= 0)
            agree = (self.routes[n][:, fixed] == self.labels[n][fixed]).all(1)
        return moments(self.scores(n, theta)[agree], self.counts[n][agree])

    def loss(self, n, theta, kept):
        """-log p(kept labels | x) of a sequence, and derivatives."""
        return minus(self.log_sum(n, theta), self.log_sum(n, theta, kept))

    def mean_loss(self, n, theta, weights):
        """Its mean when each label is kept with a probability (T,), independently: over all subsets."""
        total = [0.0, np.zeros(len(theta)), np.zeros((len(theta), len(theta)))]
        for kept in itertools.product([False, True], repeat=len(weights)):
            chance = np.prod(np.where(kept, weights, 1.0 - weights))
            if chance > 0:
                total = [a + chance * b for a, b in zip(total, self.loss(n, theta, kept), strict=True)]
        return total

    def objective(self, theta, weights=None, by_sequence=None):
        """F, its gradient and its Hessian: weights (sites,) of labels, or (N,) of sequences."""
        total = [
            0.5 * theta @ theta / self.scale**2,
            theta / self.scale**2,
            np.eye(len(theta)) / self.scale**2,
        ]
        weights = np.ones(sum(self.lengths)) if weights is None else np.asarray(weights)
        split = np.split(weights, np.cumsum(self.lengths)[:-1])
        for n, own in enumerate(split):
            by = 1.0 if by_sequence is None else by_sequence[n]
            if ((own == 0) | (own == 1)).all():
                found = self.loss(n, theta, own > 0)
            else:
                found = self.mean_loss(n, theta, own)
            total = [a + by * b for a, b in zip(total, found, strict=True)]
        return total

    def log_conditional(self, n, t, theta, kept):
        """log p(z_t | labels where `kept`, x), and derivatives."""
        with_it, without = np.array(kept, bool), np.array(kept, bool)
        with_it[t], without[t] = True, False
        return minus(self.log_sum(n, theta, with_it), self.log_sum(n, theta, without))

    def marginals(self, n, theta, kept=None):
        """(T, K) p(z_t | labels where `kept`, x)."""
        scores = self.scores(n, theta)
        if kept is not None:
            fixed = np.asarray(kept, bool) & (self.labels[n] >= 0)
            agree = (self.routes[n][:, fixed] == self.labels[n][fixed]).all(1)
            scores = np.where(agree, scores, -np.inf)
        share = np.exp(scores - scores.max())
        share /= share.sum()
        return np.stack(
            [np.bincount(z, share, minlength=len(self.first)) for z in self.routes[n].T]
        )  # fmt: skip

    def best(self, n, theta):
        return self.routes[n][np.argmax(self.scores(n, theta))]


def moments(scores, counts):
    """log sum exp of scores, and the mean and the covariance of counts under them."""
    peak = scores.max()
    share = np.exp(scores - peak)
    value = float(np.log(share.sum()) + peak)
    share /= share.sum()
    mean = share @ counts
    centred = counts - mean
    return value, mean, (centred * share[:, None]).T @ centred


def minus(first, second):
    return [a - b for a, b in zip(first, second, strict=True)]
