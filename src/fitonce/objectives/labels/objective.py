"""F(theta, w) of models of labels: log Z of every sequence, less the score of its labels.

    F = sum_n [ log Z_n - log N_n ] - log p(theta)

log N is log Z with the known labels fixed: it sums over labels that are not kept. Where all labels of a
sequence are kept, it is linear in theta. The sum over all sequences is the same for every fold; a fold
changes the terms of a few sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitonce.core.arguments import shown
from fitonce.core.chunks import pieces
from fitonce.core.deferred import jax
from fitonce.core.devices import on_cpu
from fitonce.core.numerics import in_float64
from fitonce.core.parameters import ParameterSpace
from fitonce.data.labelled import UNKNOWN, Labelled, labelled
from fitonce.models.base import LabelModel
from fitonce.models.crf import LinearChainCRF
from fitonce.objectives import priors
from fitonce.objectives.base import (
    CLUSTERS,
    LinearMap,
    Objective,
    Program,
    Traits,
    ValuesAndSlopes,
)
from fitonce.objectives.label_records import HeldoutTags, LabelEvidence
from fitonce.objectives.labels import changes, conditionals, heldout, losses, predictions
from fitonce.objectives.labels.changes import Changes, evaluate, summed
from fitonce.objectives.labels.layout import LabelLayout, label_layout
from fitonce.objectives.labels.native import NativeChains
from fitonce.objectives.labels.second_derivatives import FORMED, SecondDerivatives, prior_precision
from fitonce.objectives.schemes import C, Scheme, Structures

KERNELS = ("native", "scan")
_PIECE_BYTES = 2**26  # of slopes of single labels or sequences at a time


@in_float64
def label_objective(model: LabelModel, data: Any, kernel: str | None = None) -> LabelObjective:
    """F of a model of labels on labelled data, or a pair of features and labels, at scheme C.

    Args:
        model, data: what to fit.
        kernel: "native", "scan" (of JAX), or None for the best: native loops on a CPU.
    """
    if kernel not in (None, *KERNELS):
        raise ValueError(
            f"kernel of a model of labels must be 'native', 'scan' or None, got {shown(kernel)}"
        )
    has_native = isinstance(model, LinearChainCRF)
    if kernel == "native" and not has_native:
        raise ValueError(f"kernel='native' needs a LinearChainCRF, got {model}")
    read = labelled(*data) if isinstance(data, tuple) and len(data) == 2 else data
    prepared = model.prepare(read)
    native = has_native and (kernel or _best_kernel(prepared)) == "native"
    return _on(model, prepared, native)


def _best_kernel(data: Labelled) -> str:
    return "native" if on_cpu() or data.is_sparse else "scan"


def _on(
    model: LabelModel, data: Labelled, native: bool, space: ParameterSpace | None = None
) -> LabelObjective:
    """`space`: that of the data of a fit, which may say what has a parameter."""
    program = Program(model, space or ParameterSpace(model.parameters(data)), C())
    return LabelObjective(program, data.weights, data, label_layout(program, data, native))


@dataclass(frozen=True, eq=False, repr=False)
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
        native = self._is_native
        return Traits(
            resampling=("structures",),
            normalised=False,
            # A log-partition is convex, a score is linear; the prior makes it strict.
            convex=self._whole and self._is_complete,
            linear_in_weights=self._whole,
            closed_form_hessian=True,
            cheap_cross=not self._is_large,
            formed=not self._is_large,
            products=native,
            blocks=native,
            compiles=not native,
        )

    @property
    def _is_native(self) -> bool:
        return isinstance(self.layout.chains, NativeChains)

    @property
    def _is_large(self) -> bool:
        """Whether there are so many sparse features that matrices of them are not formed."""
        places = self.layout.design.width * len(self.data.tags)
        return self._is_native and self.layout.design.is_sparse and places > FORMED

    @property
    def least_curvature(self) -> float | None:
        """The prior's, where all labels are known: the rest of F is convex at the full fit's weights."""
        return prior_precision(self.model) if self._is_complete else None

    @property
    def _is_complete(self) -> bool:
        return bool(self.layout.is_complete[self.data.sequence_weights > 0].all())

    def start(self, rng: np.random.Generator | None) -> np.ndarray:
        if isinstance(self.model, LinearChainCRF) and self.layout.is_complete.all():
            return np.zeros(self.space.size)  # as the model has it, at once
        return self.space.to_free(self.model.start(self.data, rng))

    def log_prior(self, theta: np.ndarray) -> float:
        return float(self._priors(np.asarray(theta)[None])[0][0])

    @in_float64
    def _priors(self, thetas: np.ndarray) -> ValuesAndSlopes:
        """Log priors (F,) and slopes (F, D)."""
        precision = prior_precision(self.model)
        if precision is not None:
            return -0.5 * precision * np.einsum("fd,fd->f", thetas, thetas), -precision * thetas
        found = priors.values_and_slopes(self.layout.chains.program, jax.device_put(thetas), None)
        return np.asarray(found[0]), np.asarray(found[1])

    @property
    def bytes_per_fold(self) -> int:
        """Each partly labelled sequence adds a term to every fold."""
        partly = int((~self.layout.is_complete).sum())
        term = 8 * (self.layout.chains.longest + self.space.size)
        return int(self.model.bytes_per_fold(self.data)) + partly * term

    def bytes_per_loss(self, touched: int) -> int:
        """For the sequences that a fold touches, each as long as the longest."""
        sequences = min(touched, self.data.n_sequences)
        return 8 * sequences * self.layout.chains.longest * (len(self.data.tags) + 4)

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
        values, slopes = layout.complete_losses(thetas)
        prior, prior_slopes = self._priors(thetas)
        values, slopes = values - prior, slopes - prior_slopes
        more, steeper = summed(layout, thetas, self._terms(weights))
        return values + more, slopes + steeper

    @in_float64
    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """From covariances of counts."""
        terms = self._curved_terms(weights)
        own = [terms.some(terms.fold == fold) for fold in range(len(thetas))]
        if len(thetas) == 1:  # without a copy: H may be large
            return self._second.hessian(np.asarray(thetas[0]), own[0])[None]
        return np.stack([self._second.hessian(*fold) for fold in zip(thetas, own, strict=True)])

    @in_float64
    def products(self, thetas: np.ndarray, directions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        terms, found = self._curved_terms(weights), np.empty(thetas.shape)
        for fold, theta in enumerate(thetas):
            own = terms.some(terms.fold == fold)
            found[fold] = self._second.products(theta, directions[fold][None], own)[0]
        return found

    @in_float64
    def products_at(self, theta: np.ndarray, directions: np.ndarray) -> np.ndarray:
        return self._second.products(theta, directions, self._curved_terms(self.base[None]))

    @in_float64
    def slopes_along(self, theta: np.ndarray, changes: np.ndarray) -> np.ndarray:
        if self._whole:  # F is linear in them
            thetas = np.broadcast_to(theta, (len(changes), len(theta)))
            return summed(self.layout, thetas, self._changes(self.base + changes))[1]
        found = np.zeros((len(changes), len(theta)))
        for some, slopes in self._cross_pieces(theta, np.flatnonzero(np.any(changes, 0))):
            found += changes[:, some] @ slopes
        return found

    def preconditioner(self, theta: np.ndarray, weights: np.ndarray | None = None) -> LinearMap:
        return self._second.preconditioner(theta)

    @property
    def _second(self) -> SecondDerivatives:
        return SecondDerivatives(self.layout)

    def _curved_terms(self, weights: np.ndarray) -> Changes:
        """Those terms of folds that are not linear in theta."""
        terms = self._terms(weights)
        return terms.some(~changes.is_linear(self.layout, *terms[2:]))

    @in_float64
    def cross(self, theta: np.ndarray) -> np.ndarray:
        found = np.zeros((len(theta), len(self.base)))
        for some, slopes in self._cross_pieces(theta, np.flatnonzero(self.base)):
            found[:, some] = slopes.T
        return found

    def _cross_pieces(
        self, theta: np.ndarray, units: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Some of the weights (n,) and their columns of J as rows (n, D), of memory that is limited."""
        for some in pieces(units, 8 * len(theta), _PIECE_BYTES):
            if self._whole:
                yield some, self.sequence_evidence(theta, some)[1]
            else:
                yield some, -conditionals.given_others(self.layout, theta, some)[1]

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
        thetas = np.broadcast_to(theta, (len(sequences), len(theta)))
        return losses.of_sequences(self.layout, thetas, sequences)

    @in_float64
    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(z_t | all other labels, x) (sites,) and its derivatives by theta (D, sites)."""
        values = np.zeros(self.data.n_sites)
        slopes = np.zeros((len(theta), self.data.n_sites))
        for some, found, steep in self.leave_one_out_in_pieces(theta, np.flatnonzero(self.data.weights)):
            values[some], slopes[:, some] = found, steep.T
        return values, slopes

    def leave_one_out_in_pieces(
        self, theta: np.ndarray, sites: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for some in pieces(sites, 8 * len(theta), _PIECE_BYTES):
            yield some, *conditionals.given_others(self.layout, theta, some)

    @in_float64
    def label_evidence(self, theta: np.ndarray, sites: np.ndarray) -> LabelEvidence:
        values, slopes = conditionals.given_others(self.layout, theta, sites)
        return LabelEvidence(values, slopes, conditionals.alternatives(self.layout, theta, sites))

    @in_float64
    def state_probabilities(self, theta: np.ndarray) -> np.ndarray:
        """(sites, K) probabilities of the tags given the features and the known labels."""
        return predictions.state_probabilities(self.layout, theta)

    @in_float64
    def decode(self, theta: np.ndarray) -> list[list[str]]:
        """The jointly most probable tags of each sequence; known labels are not used."""
        return predictions.decode(self.layout, theta)

    @in_float64
    def heldout_tags(
        self,
        theta_of: Callable[[int], np.ndarray],
        dropped: Sequence[np.ndarray],
        scored: Sequence[np.ndarray],
    ) -> HeldoutTags:
        if self._whole:
            return heldout.of_sequences(self.layout, theta_of, scored)
        return heldout.of_labels(self.layout, theta_of, dropped, scored)

    # --- prediction and losses ---------------------------------------------------------------------

    def for_prediction(self, data: Any = None) -> LabelObjective:
        """On features alone: known labels are not used."""
        read = self.data if data is None else predictions.read_more(self.data, data)
        return self.on(replace(read, labels=np.full(read.n_sites, UNKNOWN)))

    def on(self, data: Labelled) -> LabelObjective:  # the same model and parameters
        return _on(self.model, data, isinstance(self.layout.chains, NativeChains), self.space)

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
        thetas = np.asarray(thetas)
        if self._whole:
            return losses.values_of_sequences(self.layout, thetas, scored)
        return losses.of_labels(self.layout, thetas, np.asarray(weights), scored)

    @property
    def loss_data(self) -> Labelled:
        if self.data.is_sparse:
            raise ValueError("a loss of one's own needs features in arrays, got sparse features")
        return self.data

    @property
    def content(self) -> list[Any]:
        rows = self.data.features
        parts = [rows.data, rows.indices, rows.indptr] if self.data.is_sparse else [rows]
        return [*parts, self.data.labels, self.data.lengths]

    def shortened(self, sites: int) -> LabelObjective:
        """Of whole sequences."""
        data = self.data
        count = max(int(np.searchsorted(np.cumsum(data.lengths), sites)), 1)
        end = int(data.lengths[:count].sum())
        features, labels = data.features[:end], data.labels[:end]
        part = replace(data, features=features, labels=labels, lengths=data.lengths[:count], words=None)
        if data.n_sites <= sites:
            return self
        return _on(self.model, part, self._is_native, self.space).with_scheme(self.scheme)

    @property
    def clusters(self) -> np.ndarray:
        """(P,) each sequence is one observation; long ones are cut into stretches."""
        if self._whole:
            return np.arange(len(self.base))
        stretch = self.layout.time // -(-self.data.n_sites // CLUSTERS)
        return np.unique(np.stack([self.layout.sequence, stretch]), axis=1, return_inverse=True)[1]
