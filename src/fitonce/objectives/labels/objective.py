"""F(theta, w) of models of labels: log Z of every sequence, less the score of its labels.

    F = sum_n [ log Z_n - log N_n ] - log p(theta)

log N is log Z with the known labels fixed: it sums over those that are not kept, and where all of a
sequence are, it is linear in theta. The sum over all sequences is the same for every fold; what a fold
changes is a few sequences, its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import special

from fitonce.core.numerics import in_float64
from fitonce.core.parameters import ParameterSpace
from fitonce.core.wording import counted
from fitonce.data.labelled import UNKNOWN, Labelled, labelled
from fitonce.data.sequences import Collection
from fitonce.models.base import LabelModel
from fitonce.objectives import priors
from fitonce.objectives.base import CLUSTERS, LabelEvidence, Objective, Program, Traits
from fitonce.objectives.labels import conditionals
from fitonce.objectives.labels.changes import (
    Changes,
    changes_of,
    evaluate,
    is_linear,
    joined,
    kept,
    of_labels,
    of_sequences,
)
from fitonce.objectives.labels.layout import Corpus, corpus_of
from fitonce.objectives.schemes import C, Scheme, Structures


@in_float64
def label_objective(model: LabelModel, data: Any, kernel: None = None) -> LabelObjective:
    """F of a model of labels on labelled data, or a pair of features and labels, at scheme C."""
    if kernel is not None:
        raise ValueError(f"a model of labels has one kernel: kernel must be None, got '{kernel}'")
    read = labelled(*data) if isinstance(data, tuple) and len(data) == 2 else data
    return _on(model, model.prepare(read))


def _on(model: LabelModel, data: Labelled) -> LabelObjective:
    program = Program(model, ParameterSpace(model.parameters(data)), C())
    return LabelObjective(program, data.weights, data, corpus_of(program, data))


@dataclass(frozen=True, eq=False)
class LabelObjective(Objective):
    """F of a model of labels; see `Objective`. `layout`: the data as the programs read it."""

    program: Program
    base: np.ndarray
    data: Labelled
    layout: Corpus

    @property
    def collection(self) -> Collection:
        return self.data

    @property
    def traits(self) -> Traits:
        complete = bool(self.layout.is_complete[self.data.sequence_weights > 0].all())
        return Traits(
            site="token",
            resampling=("structures",),
            labels=True,
            # A log-partition is convex, a score is linear; the prior makes it strict.
            convex=self._whole and complete,
            linear_in_weights=self._whole,
            closed_form_hessian=True,
            cheap_cross=True,
        )

    def start(self, rng: np.random.Generator | None) -> np.ndarray:
        return self.space.to_free(self.model.start(self.data, rng))

    @in_float64
    def log_prior(self, theta: np.ndarray) -> float:
        return float(priors.log_prior(self.program, jnp.asarray(theta), None))

    @property
    def bytes_per_fold(self) -> int:
        """About how much memory one fold needs; each sequence that is labelled in part is a row."""
        partly = int((~self.layout.is_complete).sum())
        row = 8 * (self.layout.shelves.longest + self.space.size)
        return int(self.model.bytes_per_fold(self.data)) + partly * row

    def bytes_per_loss(self, touched: int) -> int:
        """Of the sequences that a fold touches, each as long as the longest."""
        sequences = min(touched, self.data.n_sequences)
        return 8 * sequences * self.layout.shelves.longest * (len(self.data.tags) + 4)

    @property
    def _program(self) -> Program:
        """What rows are compiled by: the same whichever way they are put together."""
        return replace(self.program, scheme=C())

    @property
    def _whole(self) -> bool:
        return self.scheme.kind == "sequences"

    def with_scheme(self, scheme: Scheme) -> LabelObjective:
        if not isinstance(scheme, (C, Structures)):
            raise ValueError(
                "labels are left out by scheme C, whole sequences by scheme structures, "
                f"got scheme {scheme.name}"
            )
        whole = isinstance(scheme, Structures)
        base = self.data.sequence_weights if whole else self.data.weights
        return replace(self, program=replace(self.program, scheme=scheme), base=base)

    @in_float64
    def values_and_gradients(
        self, thetas: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(F,), (F, D)."""
        thetas, corpus = np.asarray(thetas), self.layout
        everyone = (self.data.sequence_weights, corpus.order)
        values, slopes = corpus.shelves.totals(self._program, thetas, *everyone)
        found = priors.values_and_slopes(self._program, jnp.asarray(thetas), None)
        prior, pull = map(np.asarray, found)
        constant, counts = corpus.complete_scores
        values, slopes = values - thetas @ counts - constant - prior, slopes - counts - pull
        changed = self._rows(weights)
        more, steeper = evaluate(self._program, corpus, thetas, changed)
        np.add.at(values, changed.fold, changed.coefficient * more)
        np.add.at(slopes, changed.fold, changed.coefficient[:, None] * steeper)
        return values, slopes

    @in_float64
    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D, D), from covariances of counts."""
        corpus, thetas = self.layout, np.asarray(thetas)
        changed = self._rows(weights)
        changed = changed.some(~is_linear(corpus, changed))
        everyone = (np.arange(self.data.n_sequences), self.data.sequence_weights, corpus.order)
        found = np.empty((len(thetas), thetas.shape[1], thetas.shape[1]))
        for fold, theta in enumerate(thetas):
            found[fold] = corpus.shelves.covariance(self._program, theta, *everyone)
            mine = changed.some(changed.fold == fold)
            at = (mine.sequence, mine.coefficient, corpus.order, mine.labels, mine.weights)
            found[fold] += corpus.shelves.covariance(self._program, theta, *at)
            found[fold] -= priors.hessian(self._program, theta, None)
        return 0.5 * (found + np.swapaxes(found, 1, 2))

    @in_float64
    def cross(self, theta: np.ndarray) -> np.ndarray:
        """J (D, path coordinates) at the full fit's weights."""
        if not self._whole:
            return -self.leave_one_out(theta)[1]
        return self.sequence_evidence(theta, np.arange(self.data.n_sequences))[1].T

    @in_float64
    def sequence_evidence(
        self, theta: np.ndarray, sequences: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """-log p(z_n | x_n) of sequences (n,), (n,), and slopes (n, D)."""
        partition, numerator = self._both(theta[None], sequences)
        return partition[0] - numerator[0], partition[1] - numerator[1]

    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(z_t | all other labels, x) (sites,) and its derivatives by theta (D, sites)."""
        values = np.zeros(self.data.n_sites)
        slopes = np.zeros((len(theta), self.data.n_sites))
        known = np.flatnonzero(self.data.weights)
        values[known], found = self._conditionals(theta, known)
        slopes[:, known] = found.T
        return values, slopes

    def label_evidence(self, theta: np.ndarray, sites: np.ndarray) -> LabelEvidence:
        values, slopes = self._conditionals(theta, sites)
        return LabelEvidence(values, slopes, self._alternatives(theta, sites))

    @in_float64
    def _conditionals(self, theta: np.ndarray, sites: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(z_t | all other labels, x) of labelled sites (n,), (n,), and slopes (n, D)."""
        corpus = self.layout
        local = conditionals.is_local(corpus, sites)
        values, slopes = np.empty(len(sites)), np.empty((len(sites), len(theta)))
        found = conditionals.local(self._program, theta, corpus, sites[local])
        values[local], slopes[local] = found
        if not local.all():
            others = sites[~local]
            sequence = corpus.sequence[others]
            known, without = corpus.labels[sequence], corpus.labels[sequence]
            without[np.arange(len(others)), corpus.time[others]] = UNKNOWN
            with_it, less = (
                evaluate(self._program, corpus, theta[None], changes_of(sequence, labels))
                for labels in (known, without)
            )
            values[~local], slopes[~local] = with_it[0] - less[0], with_it[1] - less[1]
        return values, slopes

    @in_float64
    def _alternatives(self, theta: np.ndarray, sites: np.ndarray) -> np.ndarray:
        """(n, K) p(z_t = k | all other labels, x) of labelled sites (n,)."""
        corpus = self.layout
        found = np.empty((len(sites), len(self.data.tags)))
        local = conditionals.is_local(corpus, sites)
        scores = conditionals.local_scores(self._program, theta, corpus, sites[local])
        found[local] = special.softmax(scores, 1)
        others = sites[~local]
        labels = corpus.labels[corpus.sequence[others]]
        labels[np.arange(len(others)), corpus.time[others]] = UNKNOWN
        arrays = (np.tile(theta, (len(others), 1)), corpus.sequence[others], labels)
        rest = np.empty((len(others), found.shape[1]))
        for some, logs in corpus.shelves.log_marginals(self._program, *arrays):
            rest[some] = np.exp(logs[np.arange(len(some)), corpus.time[others[some]]])
        found[~local] = rest
        return found

    @in_float64
    def state_probabilities(self, theta: np.ndarray) -> np.ndarray:
        """(sites, K) probabilities of the tags given the features and the known labels."""
        data, corpus = self.data, self.layout
        shares = np.zeros((data.n_sites, len(data.tags)))
        known, unknown = (np.flatnonzero((data.weights > 0) == which) for which in (True, False))
        shares[known, data.labels[known]] = 1.0
        sequences = np.unique(corpus.sequence[unknown])
        thetas = np.tile(theta, (len(sequences), 1))
        labels = corpus.labels[sequences]
        for some, logs in corpus.shelves.log_marginals(self._program, thetas, sequences, labels):
            for row, found in zip(sequences[some], logs, strict=True):
                start, length = data.offsets[row], data.lengths[row]
                shares[start : start + length] = np.exp(found[:length])
                if not shares[start].sum() > 0:
                    raise self._impossible(int(row))
        return shares

    @in_float64
    def decode(self, theta: np.ndarray) -> list[list[str]]:
        """The most probable tags of each sequence, together; labels are not used."""
        tags, found = np.array(self.data.tags), []
        for number, path in enumerate(self.layout.shelves.best_paths(self._program, theta)):
            if path is None:
                raise self._impossible(number)
            found.append(tags[path].tolist())
        return found

    def _impossible(self, sequence: int) -> ValueError:
        length = counted(int(self.data.lengths[sequence]), "token")
        return ValueError(f"sequence {sequence} of {length} has no tags that support= allows")

    def for_prediction(self, data: Any = None) -> LabelObjective:
        """On features alone: labels are not used."""
        read = self.data if data is None else self._read_more(data)
        unknown = np.full(read.n_sites, UNKNOWN)
        return _on(self.model, replace(read, labels=unknown))

    def _read_more(self, given: Any) -> Labelled:
        """Other features, with the columns and the tags of the fit's."""
        known, read = self.data, given
        if not isinstance(given, Labelled):
            # Any labels will do. What is no list of arrays is refused before they are read.
            parts = given if hasattr(given, "__len__") else []
            lengths = [len(part) if hasattr(part, "__len__") else 0 for part in parts]
            read = labelled(given, [[known.tags[0]] * length for length in lengths], tags=known.tags)
        if read.features.shape[1] != known.features.shape[1]:
            raise ValueError(
                f"the model was fitted with {counted(known.features.shape[1], 'feature')}, "
                f"got {read.features.shape[1]}"
            )
        if read.tags != known.tags:
            raise ValueError(
                f"the model was fitted with tags {', '.join(known.tags)}, got {', '.join(read.tags)}; "
                "read the data with fo.labelled(..., tags=) of the training data"
            )
        return read

    @in_float64
    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F,) log p(kept labels | x), up to what does not depend on the weights."""
        changed = self._changes(np.asarray(weights))
        values, _ = evaluate(self._program, self.layout, np.asarray(thetas), changed)
        return -np.bincount(changed.fold, changed.coefficient * values, len(thetas))

    @in_float64
    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        """(F, M): -log p(z_t | kept labels, x), or -log p(z_n | x_n) of whole sequences."""
        thetas, corpus = np.asarray(thetas), self.layout
        fold, index = np.repeat(np.arange(len(scored)), scored.shape[1]), scored.ravel()
        if self._whole:
            partition, numerator = self._both(thetas, index, fold)
            return (partition[0] - numerator[0]).reshape(scored.shape)
        pairs, row = np.unique(np.stack([fold, corpus.sequence[index]]), axis=1, return_inverse=True)
        chances = kept(corpus, np.asarray(weights), *pairs)
        labels = np.where(chances > 0, corpus.labels[pairs[1]], UNKNOWN)
        losses = np.empty(len(index))
        order = np.argsort(row, kind="stable")
        starts = np.searchsorted(row[order], np.arange(pairs.shape[1] + 1))
        arrays = (thetas[pairs[0]], pairs[1], labels)
        for some, logs in corpus.shelves.log_marginals(self._program, *arrays):
            for place, pair in enumerate(some):
                here = order[starts[pair] : starts[pair + 1]]
                tag = self.data.labels[index[here]]
                losses[here] = -logs[place, corpus.time[index[here]], tag]
        return losses.reshape(scored.shape)

    @property
    def clusters(self) -> np.ndarray:
        """(P,) sequences count as one observation each, of long ones stretches."""
        if self._whole:
            return np.arange(len(self.base))
        stretch = self.layout.time // -(-self.data.n_sites // CLUSTERS)
        return np.unique(np.stack([self.layout.sequence, stretch]), axis=1, return_inverse=True)[1]

    def _changes(self, weights: np.ndarray) -> Changes:
        """What the weights (F, P) of folds change."""
        made = of_sequences if self._whole else of_labels
        return made(self.layout, self.base, weights)

    def _rows(self, weights: np.ndarray) -> Changes:
        """Changes, and the sequences of which every fold sums over some labels."""
        changed = self._changes(np.asarray(weights))
        partly = np.flatnonzero(~self.layout.is_complete & (self.data.sequence_weights > 0))
        if partly.size == 0:
            return changed
        fold = np.repeat(np.arange(len(weights)), len(partly))
        sequence = np.tile(partly, len(weights))
        always = Changes(fold, sequence, -np.ones(len(fold)), self.layout.labels[sequence])
        return joined(changed, always)

    def _both(
        self, thetas: np.ndarray, sequences: np.ndarray, fold: np.ndarray | None = None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """log Z and log N of sequences, with slopes."""
        known = self.layout.labels[sequences]
        return [
            evaluate(self._program, self.layout, thetas, changes_of(sequences, labels, fold))
            for labels in (np.full_like(known, UNKNOWN), known)
        ]
