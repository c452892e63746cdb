"""Losses of what a fold leaves out, at the fold's own parameters, batched over folds.

* pointwise: -log p(x_t | x_-o), each left-out point by its own predictive distribution, from the
  posterior marginals of the states given the kept data (never a decoded state);
* joint: -log p(x_o | x_-o), the left-out points together, a difference of two log-partitions;
* whole sequences: -log p(x_n), one loss per left-out sequence.

Inference always keeps the latent states and treats what is left out as missing, whatever the scheme by
which the parameters were obtained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, cast

import numpy as np

from fitonce.core.arguments import require, shown
from fitonce.core.deferred import jax, jit
from fitonce.core.numerics import Array, EitherArray, in_float64, on_device, one_each
from fitonce.core.parameters import ParameterSpace
from fitonce.core.predictive import Tails
from fitonce.crossval.batches import Batches
from fitonce.crossval.dependence import Dependence, dependence_of, overlap
from fitonce.fitting.carriers import carrying
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.states import memory_by_states
from fitonce.folds import Folds
from fitonce.objectives.abilities import HasContinuousStates, PredictsTails
from fitonce.objectives.base import Objective
from fitonce.results.regions import independent_regions
from fitonce.results.standard_errors import Spread, Terms, spread_of
from fitonce.results.verdicts import loss_errors

Loss = Literal["pointwise", "joint"] | Callable[[Any, Any, Array], Array]
LOSSES = ("pointwise", "joint")
_NARROW = 64  # losses of a fold


def resolve_loss(loss: Any) -> Loss:
    """Check a `loss=` argument."""
    if callable(loss) or (isinstance(loss, str) and loss in LOSSES):
        return loss
    raise ValueError(f"loss must be one of {LOSSES} or a function, got {shown(loss)}")


@in_float64
def heldout_losses(
    objective: Objective,
    loss: Loss,
    thetas: np.ndarray,
    weights: EitherArray,
    scored: np.ndarray,
) -> np.ndarray:
    """(F, M) losses at thetas (F, D) and weights (F, P); (F, 1) for a joint loss. `scored` (F, M) are
    indices, padded by repeating one of the fold."""
    if callable(loss):
        return _user_losses(objective, loss, thetas, weights, scored)
    if loss == "pointwise":
        return objective.pointwise_losses(thetas, weights, scored)
    require(isinstance(loss, str) and loss == "joint", "loss", f"one of {LOSSES} or a function", loss)
    restored = _restored(weights, scored, objective.base)
    kept, everything = (objective.log_likelihoods(thetas, w) for w in (weights, restored))
    with np.errstate(invalid="ignore"):  # nan where both are impossible
        return (kept - everything)[:, None]


def _restored(weights: EitherArray, scored: np.ndarray, base: np.ndarray) -> EitherArray:
    """Weights (F, P) of folds with what they score, (F, M), as in the full fit."""
    if on_device(weights):
        return weights.at[np.arange(len(scored))[:, None], scored].set(base[scored])
    restored = np.array(weights)
    np.put_along_axis(restored, scored, base[scored], 1)
    return restored


@partial(jit, static_argnums=(0, 1))
def _compiled_user_losses(
    space: ParameterSpace, loss: Any, thetas: Array, weights: Array, scored: Array, data: Any
) -> Array:
    def one(theta: Array, weight: Array, indices: Array) -> Array:
        losses = _asked(loss, space.to_params(theta), data, weight)
        return one_each(losses, weight, "loss")[indices]

    return jax.vmap(one)(thetas, weights, scored)


def _asked(loss: Any, *given: Any) -> Any:
    """What the user's function returns; its own errors name it, as refusals name their argument."""
    try:
        return loss(*given)
    except jax.errors.JAXTypeError:  # said below
        raise
    except Exception as error:
        name = getattr(loss, "__name__", type(loss).__name__)
        why = f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}"
        raise ValueError(f"loss, the function '{name}', failed: {why}") from error


@in_float64
def _user_losses(
    objective: Objective, loss: Any, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
) -> np.ndarray:
    arrays = (jax.device_put(thetas), jax.device_put(weights), jax.device_put(scored))
    try:
        return np.asarray(_compiled_user_losses(objective.space, loss, *arrays, objective.loss_data))
    except jax.errors.JAXTypeError as error:
        raise ValueError(
            f"loss must be written with jax.numpy, got {type(error).__name__}: "
            f"{str(error).splitlines()[0]}"
        ) from None


@dataclass(frozen=True, eq=False)
class Scoring:
    """The folds' losses as matrices (F, W): row o holds one loss for everything that fold o scores.

    Attributes:
        curve: H at the full fit.
        folds: what is scored.
        batches: the same folds as batches of an objective.
        loss: "pointwise", "joint" (one column) or the user's function.
        least_width: columns W at least, so that some of the folds have those of all.
        clusters: (P,) numbers of the parts that the user takes as independent; None: not told.
    """

    curve: Curvature
    folds: Folds
    batches: Batches
    loss: Loss
    least_width: int = 0
    clusters: np.ndarray | None = None

    def some(self, folds: np.ndarray) -> Scoring:
        """Of the folds with these numbers (n,); their work is counted apart, see `Batches.add_work`."""
        if len(folds) == len(self.folds):
            return self
        width = self._scored[0].shape[1]
        batches = self.batches.some(folds)
        return replace(self, folds=self.folds.some(folds), batches=batches, least_width=width)

    @cached_property
    def sizes(self) -> np.ndarray:
        """(F,) how many losses each fold has."""
        return np.array([len(indices) for indices in self.folds.scored])

    @cached_property
    def _scored(self) -> tuple[np.ndarray, np.ndarray]:
        """(F, W) indices, padded with the fold's first, and which are not padding."""
        width = max(int(self.sizes.max()), self.least_width)
        if width <= _NARROW:  # a few common widths: other folds of the data run the same program
            width = 2 ** (width - 1).bit_length()
        counted = np.arange(width)[None] < self.sizes[:, None]
        scored = np.empty((len(self.folds), width), int)
        for row, indices in zip(scored, self.folds.scored, strict=True):
            row[: len(indices)], row[len(indices) :] = indices, indices[0]
        return scored, counted

    @cached_property
    def _full(self) -> bool:
        """Whether nothing is padding, as usual where losses are millions."""
        return bool(self.counted.all())

    @cached_property
    def counted(self) -> np.ndarray:
        """(F, W) which entries of a matrix of losses are not padding."""
        return np.ones((len(self.folds), 1), bool) if self.loss == "joint" else self._scored[1]

    def losses(self, thetas: np.ndarray, which: np.ndarray) -> np.ndarray:
        """(n, W) losses of the folds `which` (n,) at thetas (n, D), zero for padding."""
        loss, (scored, counted) = self.loss, self._scored
        objective = self.batches.objective

        def work(weights: np.ndarray, folds: np.ndarray, t: np.ndarray) -> tuple[np.ndarray]:
            values = heldout_losses(objective, loss, t, weights, scored[folds])
            return (np.asarray(values, float),)

        longest = max(len(indices) for indices in self.folds.dropped)
        need = objective.bytes_per_loss(longest) / objective.bytes_per_fold
        depends_on = (loss, scored, counted)
        (found,) = self.batches.map(
            work, "held-out losses", which, thetas, per_fold=need, depends_on=depends_on
        )
        if not self._full:
            np.copyto(found, 0.0, where=~self.counted[which])
        return found

    def tails(self, thetas: np.ndarray, which: np.ndarray) -> Tails:
        """(n, W) how far out what the folds `which` (n,) score lies, at thetas (n, D)."""
        scored = self._scored[0]

        def work(weights: np.ndarray, folds: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, ...]:
            objective = cast(PredictsTails, self.batches.objective)
            return tuple(objective.heldout_tails(t, np.asarray(weights), scored[folds]))

        return Tails(*self.batches.map(work, "held-out predictions", which, thetas))

    def errors(
        self, losses: np.ndarray, ahead: np.ndarray, which: np.ndarray, rates: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """(n,) `loss_errors` of the folds `which` (n,), from losses (n, W) here and one step ahead."""
        return loss_errors(losses, ahead, self.sizes[which], rates)

    def carriers(self, which: np.ndarray) -> np.ndarray:
        """(n,) whether each of the folds `which` (n,) leaves out nearly all observations of some latent
        state at the full fit, or all that determines some coefficient.

        These parameters depend on the fold. Where they fit it well its gradients are small, and no check
        by gradients shows that they would be lost.
        """
        objective = self.batches.objective
        if not objective.traits.hidden_states or self.folds.kind != "sites":
            return self.lost_coefficients[which]
        dropped = [self.folds.dropped[fold] for fold in which]
        return carrying(objective, self.curve.theta, dropped) | self.lost_coefficients[which]

    @cached_property
    def lost_coefficients(self) -> np.ndarray:
        """(F,) whether what a fold keeps does not determine some coefficient."""
        folds, objective = self.folds, self.batches.objective
        if not isinstance(objective, HasContinuousStates):
            return np.zeros(len(folds), bool)
        return objective.lost_coefficients(self.curve.theta, folds.dropped, folds.kind != "sites")

    def means(self, losses: np.ndarray) -> np.ndarray:
        """(F,) the mean loss of each fold; nan where one of its losses is."""
        return losses.sum(1) / self.sizes

    def rows(self, losses: np.ndarray) -> np.ndarray:
        """(rows,) the losses of a matrix (F, W) that are not padding, fold by fold."""
        return losses.ravel() if self._full else losses[self.counted]

    def spread(
        self, losses: np.ndarray, used: np.ndarray, places: np.ndarray | None = None
    ) -> tuple[Spread, float]:
        """The standard error of the mean over the `used` (F,) folds of fold means, with its degrees of
        freedom, and the memory of the losses in steps; nan where places are independent. `places`
        (rows,) are those of `placed`, if they are known."""
        places = self.placed(losses, used) if places is None else places
        terms = self._terms(losses, used, places)
        memory = self._memory(terms)
        known = self.loss != "joint" or self.dependence.joint != "none"
        return (spread_of(terms, memory) if known else Spread(float("nan"), 0.0)), memory

    def _terms(self, losses: np.ndarray, used: np.ndarray, places: np.ndarray) -> Terms:
        number = np.arange(len(self.folds))
        if self.loss == "joint":
            return Terms.of(self.means(losses), number, places, used)
        return Terms.of(self.rows(losses), np.repeat(number, self.sizes), places, used)

    def placed(self, losses: np.ndarray, used: np.ndarray) -> np.ndarray:
        """(rows,) the place of each loss: its site along time, its sequence, or its region, as large as
        the correlation of the losses of the `used` (F,) folds demands."""
        objective, graph = self.batches.objective, self.dependence.graph
        if self.loss == "joint" or graph is None:
            return self._usual_places
        sites = self.folds.all_scored
        terms = self._terms(losses, used, sites)
        if not terms.are_finite:
            return self._usual_places
        added = np.bincount(terms.places, terms.residuals, minlength=len(objective.base))
        hidden = objective.traits.hidden_states
        states = objective.state_probabilities(self.curve.theta) if hidden else None
        return independent_regions(graph, added, states)[sites]

    def _memory(self, terms: Terms) -> float:
        """Blocks that overlap and are scored together remember for the length of a block, too."""
        objective, dependence = self.batches.objective, self.dependence
        along = dependence.joint == "middle" if self.loss == "joint" else dependence.along_time
        if not along:
            return float("nan")
        known = memory_by_states(terms, objective, self.curve.theta)
        block = float(np.mean(self.sizes)) if self.loss == "joint" and overlap(self.folds) else 0.0
        return float(np.hypot(known, block / np.sqrt(12.0)))

    @cached_property
    def dependence(self) -> Dependence:
        """Which losses are independent."""
        return dependence_of(self.batches.objective, self.folds, self.clusters)

    @cached_property
    def _usual_places(self) -> np.ndarray:
        folds, parts = self.folds, self.dependence.parts
        if self.loss == "joint":
            if self.clusters is not None:
                return parts[[part[0] for part in folds.scored]]
            if self.dependence.joint != "middle":
                return np.arange(len(folds))
            return np.array([int(np.median(part)) for part in folds.scored])
        if folds.together and self.clusters is None:
            return np.repeat(np.arange(len(folds)), [len(part) for part in folds.scored])
        return parts[folds.all_scored]
