"""F(theta, w) of models of labels: log Z of every sequence, less the score of its labels.

    F = sum_n [ log Z_n - log N_n ] - log p(theta)

log N is log Z with the known labels fixed: it sums over labels that are not kept. Where all labels of a
sequence are kept, it is linear in theta. The sum over all sequences is the same for every fold; a fold
changes the terms of a few sequences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from fitonce.core.deferred import jax
from fitonce.core.numerics import in_float64
from fitonce.core.parameters import ParameterSpace
from fitonce.core.wording import counted
from fitonce.data.labelled import UNKNOWN, Labelled, labelled
from fitonce.models.base import LabelModel
from fitonce.objectives import priors
from fitonce.objectives.base import CLUSTERS, LabelEvidence, Objective, Program, Traits, ValuesAndSlopes
from fitonce.objectives.labels import changes, conditionals
from fitonce.objectives.labels.changes import Changes, evaluate
from fitonce.objectives.labels.layout import LabelLayout, label_layout
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
    return LabelObjective(program, data.weights, data, label_layout(program, data))


@dataclass(frozen=True, eq=False)
class LabelObjective(Objective):
    """F of a model of labels; see `Objective`.

    Attributes:
        layout: the data as programs read it. Its own program has scheme C, so that all schemes share
            what is compiled.
    """

    program: Program
    base: np.ndarray
    data: Labelled
    layout: LabelLayout

    @property
    def traits(self) -> Traits:
        complete = bool(self.layout.is_complete[self.data.sequence_weights > 0].all())
        return Traits(
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
        return float(priors.log_prior(self.program, jax.device_put(theta), None))

    @property
    def bytes_per_fold(self) -> int:
        """Each partly labelled sequence adds a term to every fold."""
        partly = int((~self.layout.is_complete).sum())
        term = 8 * (self.layout.buckets.longest + self.space.size)
        return int(self.model.bytes_per_fold(self.data)) + partly * term

    def bytes_per_loss(self, touched: int) -> int:
        """For the sequences that a fold touches, each as long as the longest."""
        sequences = min(touched, self.data.n_sequences)
        return 8 * sequences * self.layout.buckets.longest * (len(self.data.tags) + 4)

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

    # --- values and derivatives --------------------------------------------------------------------

    @in_float64
    def values_and_gradients(self, thetas: np.ndarray, weights: np.ndarray) -> ValuesAndSlopes:
        thetas, layout = np.asarray(thetas), self.layout
        totals, expected = layout.buckets.totals(thetas, self.data.sequence_weights)
        found = priors.values_and_slopes(layout.buckets.program, jax.device_put(thetas), None)
        prior, prior_slopes = map(np.asarray, found)
        constant, observed = layout.complete_scores
        values = totals - thetas @ observed - constant - prior
        slopes = expected - observed - prior_slopes
        terms = self._terms(weights)
        more, steeper = evaluate(layout, thetas[terms.fold], *terms[2:])
        np.add.at(values, terms.fold, terms.coefficient * more)
        np.add.at(slopes, terms.fold, terms.coefficient[:, None] * steeper)
        return values, slopes

    @in_float64
    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """From covariances of counts."""
        thetas, buckets = np.asarray(thetas), self.layout.buckets
        terms = self._terms(weights)
        terms = terms.some(~changes.is_linear(self.layout, *terms[2:]))
        unknown = np.broadcast_to(np.int32(UNKNOWN), self.layout.labels.shape)
        everyone = (self.data.sequence_weights, np.arange(self.data.n_sequences), unknown)
        found = np.empty((len(thetas), thetas.shape[1], thetas.shape[1]))
        for fold, theta in enumerate(thetas):
            own = terms.some(terms.fold == fold)
            found[fold] = buckets.covariance(theta, *everyone)
            found[fold] += buckets.covariance(theta, *own[1:])
            found[fold] -= priors.hessian(buckets.program, theta, None)
        return 0.5 * (found + np.swapaxes(found, 1, 2))

    @in_float64
    def cross(self, theta: np.ndarray) -> np.ndarray:
        if not self._whole:
            return -self.leave_one_out(theta)[1]
        return self.sequence_evidence(theta, np.arange(self.data.n_sequences))[1].T

    def _changes(self, weights: np.ndarray) -> Changes:
        """What the weights (F, P) of folds change."""
        made = changes.of_sequences if self._whole else changes.of_labels
        return made(self.layout, self.base, np.asarray(weights))

    def _terms(self, weights: np.ndarray) -> Changes:
        """The changes, and for every fold log N of the partly labelled sequences."""
        changed = self._changes(weights)
        partly = np.flatnonzero(~self.layout.is_complete & (self.data.sequence_weights > 0))
        if partly.size == 0:
            return changed
        fold = np.repeat(np.arange(len(weights)), len(partly))
        sequence = np.tile(partly, len(weights))
        always = Changes(fold, -np.ones(len(fold)), sequence, self.layout.labels[sequence])
        return changes.joined(changed, always)

    # --- labels given other labels -----------------------------------------------------------------

    @in_float64
    def sequence_evidence(self, theta: np.ndarray, sequences: np.ndarray) -> ValuesAndSlopes:
        return self._sequence_losses(np.broadcast_to(theta, (len(sequences), len(theta))), sequences)

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
    def _conditionals(self, theta: np.ndarray, sites: np.ndarray) -> ValuesAndSlopes:
        """log p(z_t | all other labels, x) of labelled sites (n,), (n,), and slopes (n, D)."""
        layout, local = self.layout, conditionals.is_local(self.layout, sites)
        values, slopes = np.empty(len(sites)), np.empty((len(sites), len(theta)))
        values[local], slopes[local] = conditionals.local(layout, theta, sites[local])
        if not local.all():
            sequence, without = self._without(sites[~local])
            rows = (layout, np.broadcast_to(theta, (len(sequence), len(theta))), sequence)
            known, unknown = (evaluate(*rows, each) for each in (layout.labels[sequence], without))
            values[~local], slopes[~local] = known[0] - unknown[0], known[1] - unknown[1]
        return values, slopes

    @in_float64
    def _alternatives(self, theta: np.ndarray, sites: np.ndarray) -> np.ndarray:
        """(n, K) p(z_t = k | all other labels, x) of labelled sites (n,)."""
        layout, local = self.layout, conditionals.is_local(self.layout, sites)
        found = np.empty((len(sites), len(self.data.tags)))
        found[local] = special.softmax(conditionals.local_scores(layout, theta, sites[local]), 1)
        others = np.flatnonzero(~local)
        sequence, without = self._without(sites[others])
        thetas = np.tile(theta, (len(others), 1))
        for some, logs in layout.buckets.log_marginals(thetas, sequence, without):
            time = layout.time[sites[others[some]]]
            found[others[some]] = np.exp(logs[np.arange(len(some)), time])
        return found

    def _without(self, sites: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sequences of sites (n,), and their labels (n, longest) without those of the sites."""
        sequence = self.layout.sequence[sites]
        labels = self.layout.labels[sequence]
        labels[np.arange(len(sites)), self.layout.time[sites]] = UNKNOWN
        return sequence, labels

    @in_float64
    def state_probabilities(self, theta: np.ndarray) -> np.ndarray:
        """(sites, K) probabilities of the tags given the features and the known labels."""
        data, layout = self.data, self.layout
        found = np.zeros((data.n_sites, len(data.tags)))
        known = np.flatnonzero(data.weights > 0)
        found[known, data.labels[known]] = 1.0
        sequences = np.unique(layout.sequence[data.weights <= 0])
        rows = (np.tile(theta, (len(sequences), 1)), sequences, layout.labels[sequences])
        for some, logs in layout.buckets.log_marginals(*rows):
            for sequence, log_shares in zip(sequences[some], logs, strict=True):
                start, length = data.offsets[sequence], data.lengths[sequence]
                found[start : start + length] = np.exp(log_shares[:length])
                if not found[start].sum() > 0:
                    raise self._impossible(int(sequence))
        return found

    @in_float64
    def decode(self, theta: np.ndarray) -> list[list[str]]:
        """The jointly most probable tags of each sequence; known labels are not used."""
        tags, found = np.array(self.data.tags), []
        for number, path in enumerate(self.layout.buckets.best_paths(theta)):
            if path is None:
                raise self._impossible(number)
            found.append(tags[path].tolist())
        return found

    def _impossible(self, sequence: int) -> ValueError:
        length = counted(int(self.data.lengths[sequence]), "token")
        return ValueError(f"sequence {sequence} ({length}) has no tags that support= allows")

    # --- prediction and losses ---------------------------------------------------------------------

    def for_prediction(self, data: Any = None) -> LabelObjective:
        """On features alone: known labels are not used."""
        read = self.data if data is None else self._read_more(data)
        return _on(self.model, replace(read, labels=np.full(read.n_sites, UNKNOWN)))

    def _read_more(self, given: Any) -> Labelled:
        """Other features, with the columns and the tags of the fit's data."""
        known, read = self.data, given
        if not isinstance(given, Labelled):
            # Any labels will do. What is not a list of arrays is refused before they are read.
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
        """(F,) log p(kept labels | x), up to a constant that does not depend on the weights."""
        changed = self._changes(weights)
        values, _ = evaluate(self.layout, np.asarray(thetas)[changed.fold], *changed[2:])
        return -np.bincount(changed.fold, changed.coefficient * values, len(thetas))

    @in_float64
    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        """(F, M): -log p(z_t | kept labels, x), or -log p(z_n | x_n) of whole sequences."""
        thetas, layout = np.asarray(thetas), self.layout
        fold, index = np.repeat(np.arange(len(scored)), scored.shape[1]), scored.ravel()
        if self._whole:
            return self._sequence_losses(thetas[fold], index)[0].reshape(scored.shape)
        pairs, row = np.unique(np.stack([fold, layout.sequence[index]]), axis=1, return_inverse=True)
        kept = changes.weights_in_grid(layout, np.asarray(weights), *pairs)
        labels = np.where(kept > 0, layout.labels[pairs[1]], UNKNOWN)
        losses = np.empty(len(index))
        order = np.argsort(row, kind="stable")
        starts = np.searchsorted(row[order], np.arange(pairs.shape[1] + 1))
        for some, logs in layout.buckets.log_marginals(thetas[pairs[0]], pairs[1], labels):
            for place, pair in enumerate(some):
                here = order[starts[pair] : starts[pair + 1]]
                sites = index[here]
                losses[here] = -logs[place, layout.time[sites], self.data.labels[sites]]
        return losses.reshape(scored.shape)

    def _sequence_losses(self, thetas: np.ndarray, sequences: np.ndarray) -> ValuesAndSlopes:
        """log Z - log N (n,) of sequences (n,) at thetas (n, D), and slopes (n, D)."""
        rows, known = (self.layout, thetas, sequences), self.layout.labels[sequences]
        partition, expected = evaluate(*rows, np.full_like(known, UNKNOWN))
        numerator, observed = evaluate(*rows, known)
        return partition - numerator, expected - observed

    def shortened(self, sites: int) -> LabelObjective:
        """Of whole sequences."""
        data = self.data
        count = max(int(np.searchsorted(np.cumsum(data.lengths), sites)), 1)
        end = int(data.lengths[:count].sum())
        features, labels = data.features[:end], data.labels[:end]
        part = replace(data, features=features, labels=labels, lengths=data.lengths[:count], words=None)
        return self if data.n_sites <= sites else _on(self.model, part).with_scheme(self.scheme)

    @property
    def clusters(self) -> np.ndarray:
        """(P,) each sequence is one observation; long ones are cut into stretches."""
        if self._whole:
            return np.arange(len(self.base))
        stretch = self.layout.time // -(-self.data.n_sites // CLUSTERS)
        return np.unique(np.stack([self.layout.sequence, stretch]), axis=1, return_inverse=True)[1]
