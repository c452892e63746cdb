"""F(theta, w) of linear-Gaussian state-space models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fitonce.core.arguments import require_choice, shown
from fitonce.core.parallel import Parallel
from fitonce.core.parameters import ParameterSpace
from fitonce.core.thread_pool import THREADS
from fitonce.core.wording import counted
from fitonce.data.sequences import sequences, sequences_like
from fitonce.models.space.determined import determined_starts
from fitonce.models.space.system import SpaceModel
from fitonce.objectives.base import Program, ValuesAndSlopes
from fitonce.objectives.prepared import require_same_channels
from fitonce.objectives.schemes import A, Increments, Scheme, Structures
from fitonce.objectives.space.compiled import KERNELS, Compiled, chosen
from fitonce.objectives.space.differences import along_theta
from fitonce.objectives.space.evaluated import Evaluated, evaluated
from fitonce.objectives.space.layout import Layout, Paths
from fitonce.objectives.space.properties import SpaceProperties
from fitonce.objectives.space.splits import Splits

_SAME = 1e-6  # nats
_FAR = 0.02  # of differences, in standard errors of a parameter
_NO_LIKELIHOOD = (
    "the likelihood is no number, for want of a stationary first state or of finite matrices,"
)
_FAR_OF_COUNTS = 0.004  # whose likelihoods are less like parabolas, and vary little by rounding


def space_objective(
    model: SpaceModel, data: Any, kernel: str | None = None, like: SpaceObjective | None = None
) -> SpaceObjective:
    """F of a state-space model on sequences; kernel: "native", one of JAX ("scan", "tree"), or None for
    the best; `like`: that of the fit, where the data are to be predicted for."""
    require_choice("kernel", kernel, KERNELS, optional=True)
    if kernel not in (None, "native") and model.density is not None:
        raise ValueError(f"{model} has one kernel, 'native', got {shown(kernel)}")
    read = sequences(data)
    if like is None:
        read.require_observed()
        steps = model.prepare(read)
        space = ParameterSpace(model.parameters(steps), model.coordinates(steps))
        around = None
    else:  # free coordinates are in units of the data of the fit
        require_same_channels(read, like.data)
        steps, space, around = model.prepare(read), like.space, like.layout.first
    program = Program(model, space, A(), chosen(kernel, Layout(model, space, steps, around)))
    made = SpaceObjective(program, read.weights, read, steps, around=around)
    made.require_determined()
    return made


@dataclass(frozen=True, eq=False, repr=False)
class SpaceObjective(SpaceProperties):
    """See `Objective`; `SpaceProperties` has what describes it, and here is what it computes."""

    @cached_property
    def _compiled(self) -> Compiled | None:
        kernel = self.program.kernel
        return None if kernel == "native" else Compiled(self.layout, kernel)

    @cached_property
    def _splits(self) -> Splits:
        return Splits(self.layout)

    def start(self, rng: np.random.Generator | None) -> np.ndarray:
        return self.space.to_free(self.model.start(self.steps, rng))

    def rival_starts(self) -> list[np.ndarray]:
        here, found = self._by_site, []
        for group in self.model.rival_starts(self.steps):
            thetas = np.stack([self.space.to_free(values) for values in group])
            weights = np.tile(here.base, (len(thetas), 1))
            work = lambda one, _: (one.log_likelihoods,)  # noqa: E731
            values = here._passes(work, thetas, weights, wanted=_no_steps(thetas))[0]
            found.append(thetas[np.argmax(np.where(np.isfinite(values), values, -np.inf))])
        return found

    def not_canonical(self, thetas: np.ndarray) -> np.ndarray:
        return np.flatnonzero(self.model.not_canonical(self.space.values(thetas)))

    def canonical(self, theta: np.ndarray) -> np.ndarray:
        if not np.isfinite(theta).all():
            return theta
        params = self.space.params_at(theta)
        found = self.model.canonical(params)
        if found is params:
            return theta
        there = self.space.to_free(found)
        return there if self(there) <= self(theta) + _SAME else theta  # many roots lose digits

    def require_determined(self) -> None:
        """Raise where a sequence has no steps beyond those that are burnt or does not determine the
        diffuse part of its first state, or where the start has no likelihood."""
        burn, size = self.model.burn, self.n_unknown_starts
        parts = np.split(self.steps.seen, self.steps.starts[1:-1])
        for number, seen in enumerate(parts):
            if burn and len(seen) <= burn:
                raise ValueError(
                    f"likelihoods of {self.model} are given the first {counted(burn, 'step')} of each "
                    f"sequence, which must be longer: got {counted(len(seen), 'step')} in sequence "
                    f"{number}"
                )
            if seen.sum() < size:  # a pass through many states and the data would take long
                raise self._undetermined(number, seen)
        start = (self.layout.first[None], self.base[None])
        values = self._passes(lambda one, _: (one.of_sequences,), *start)[0][0]
        for number, value in enumerate(values):
            if np.isnan(value):
                self.model.check_to_fit(self.data, self.steps)  # which knows more of some reasons
                self.require_value(start[0][0])
                if not size:
                    raise ValueError(f"{self.model}: {_NO_LIKELIHOOD} where the fit starts")
                raise self._undetermined(number, parts[number])

    def _undetermined(self, number: int, seen: np.ndarray) -> ValueError:
        where = "" if self.data.n_sequences == 1 else f" in sequence {number}"
        size, steps = self.n_unknown_starts, counted(int(seen.any(1).sum()), "observed step")
        told = f"which the data must determine: got {steps}{where}"
        if seen.sum() >= size:  # it does not need more steps
            system = self.layout.systems(self.layout.first[None])
            rank = determined_starts(system, self.steps, number)
            what = (
                f"depend on only {counted(rank, 'combination')}"
                if rank < size
                else "do not determine any"
            )
            told = f"but where the fit starts {steps}{where} {what} of these"
        return ValueError(f"{self.model} starts with {counted(size, 'unknown state')}, {told}")

    def _without_matrices(self, theta: np.ndarray) -> str:
        """Why the model has no matrices there; empty: it has."""
        return self.model.fault(self.space.values(theta[None]), self.steps)

    def fault(self, theta: np.ndarray, weights: np.ndarray | None = None) -> str:
        if weights is None:
            return self._without_matrices(theta)
        if not np.isnan(self.log_likelihoods(theta[None], weights[None])[0]):
            return ""
        fault = self._without_matrices(theta)
        if fault:
            return fault
        if not self.n_unknown_starts:
            return f"{_NO_LIKELIHOOD} at these parameters"
        return "the data that this fold keeps do not determine the first state"

    # --- passes ----------------------------------------------------------------------------------------

    @cached_property
    def _counted(self) -> np.ndarray:
        """(T, 1) ones for the steps whose terms are in likelihoods, zeros for those that are burnt."""
        first = np.repeat(self.steps.starts[:-1], np.diff(self.steps.starts))
        return (np.arange(len(first)) >= first + self.model.burn).astype(float)[:, None]

    def _paths(self, weights: np.ndarray, burnt: bool = True) -> Paths:
        """Of weights (F, P). `burnt`: terms of the first steps do not count, as in likelihoods; states
        given data are asked without it, since all steps say what is known of them."""
        folds = len(weights)
        steps, structures = np.ones((len(self.steps.y), folds)), np.ones((self.data.n_sequences, folds))
        shares = steps * self._counted if burnt else steps
        if self._whole:
            return Paths(steps, shares, weights.T)
        if isinstance(self.scheme, Increments):
            return Paths(steps, shares * weights.T, structures)
        return Paths(weights.T, shares, structures)

    def _passes(
        self,
        work: Callable[[Evaluated, np.ndarray], tuple[np.ndarray, ...]],
        thetas: np.ndarray,
        weights: np.ndarray,
        *,
        states: bool = False,
        wanted: np.ndarray | None = None,
        burnt: bool = True,
    ) -> tuple[np.ndarray, ...]:
        """work(pass, folds) of folds in groups: arrays with folds in their first axis, joined.

        `wanted`: (F, m), what each fold wants; see `Pass`. `burnt`: see `_paths`.
        """
        paths = self._paths(weights, burnt)
        groups = self._splits.groups(paths)

        def one(group: tuple[np.ndarray, int | None]) -> tuple[np.ndarray, ...]:
            folds, end = group
            some = None if wanted is None else wanted[folds]
            at = (self.layout, thetas[folds], paths.some(folds), end)
            return work(evaluated(*at, states=states, wanted=some), folds)

        order = np.argsort(np.concatenate([folds for folds, _ in groups]))
        found = THREADS.run(one, groups, self._operations)
        return tuple(np.concatenate(parts)[order] for parts in zip(*found, strict=True))

    def values_and_gradients(self, thetas: np.ndarray, weights: np.ndarray) -> ValuesAndSlopes:
        if self._compiled is not None:
            values, slopes = self._compiled.with_slopes(thetas, self._paths(weights))
            return np.where(np.isnan(values), np.inf, -values), -slopes

        def work(one: Evaluated, folds: np.ndarray) -> ValuesAndSlopes:
            with np.errstate(all="ignore"):
                slopes = one.slopes()
            values = -one.log_likelihoods
            return np.where(np.isnan(values), np.inf, values), -slopes

        values, slopes = self._passes(work, thetas, weights, wanted=_no_steps(thetas))
        return values, slopes

    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        here = self if self._whole else self._by_site
        if self._compiled is not None:
            paths = here._paths(weights)
            return (paths.coefficients.T * self._compiled.of_sequences(thetas, paths)).sum(1)
        work = lambda one, _: (one.log_likelihoods,)  # noqa: E731
        return here._passes(work, thetas, weights, wanted=_no_steps(thetas))[0]

    # --- derivatives by differences --------------------------------------------------------------------

    def _along_theta(
        self,
        work: Callable[[np.ndarray, np.ndarray], np.ndarray],
        thetas: np.ndarray,
        weights: np.ndarray,
    ) -> np.ndarray:
        far = _FAR if self.model.density is None else _FAR_OF_COUNTS
        return along_theta(work, self.gradients, thetas, weights, far)

    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        found = self._along_theta(self.gradients, thetas, weights)
        return 0.5 * (found + np.swapaxes(found, 1, 2))

    def cross(self, theta: np.ndarray) -> np.ndarray:
        def by_weights(thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
            def work(one: Evaluated, folds: np.ndarray) -> tuple[np.ndarray]:
                if self._whole:
                    return (one.of_sequences,)
                if isinstance(self.scheme, Increments):
                    return (one.by_units(True) * self._counted.T,)
                return (one.by_units(False),)

            return self._passes(work, thetas, weights)[0]

        return -self._along_theta(by_weights, theta[None], self.base[None])[0]

    # --- losses ----------------------------------------------------------------------------------------

    @cached_property
    def _by_site(self) -> SpaceObjective:
        """The same with weights of sites."""
        return self if isinstance(self.scheme, A) else self.with_scheme(A())

    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        here = self._by_site

        def values(thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
            work = lambda one, _: (one.left_out(),)  # noqa: E731
            return here._passes(work, thetas, weights, burnt=False)[0]

        at = (theta[None], here.base[None])
        return values(*at)[0], here._along_theta(values, *at)[0]

    def gains_without(
        self, theta: np.ndarray, sites: np.ndarray, values: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        here = self._by_site
        burnt = np.flatnonzero(here._counted[sites, 0] == 0)
        if not burnt.size:
            return values, slopes
        weights = np.tile(here.base, (len(burnt) + 1, 1))
        weights[1 + np.arange(len(burnt)), sites[burnt]] = 0.0
        found, steep = here.values_and_gradients(np.tile(theta, (len(weights), 1)), weights)
        values, slopes = values.copy(), slopes.copy()
        values[burnt], slopes[burnt] = found[1:] - found[0], steep[1:] - steep[0]
        return values, slopes

    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        if self._whole:
            return self._sequence_losses(thetas, scored)

        def work(one: Evaluated, folds: np.ndarray) -> tuple[np.ndarray]:
            wanted, places = np.unique(scored[folds], return_inverse=True)
            found = one.heldout(wanted)
            rows = np.arange(one.folds)[:, None]
            losses = -found[places.reshape(scored[folds].shape), rows]
            return (np.where(np.isnan(one.log_likelihoods)[:, None], np.nan, losses),)

        here = self._by_site
        return here._passes(work, thetas, weights, states=True, wanted=scored, burnt=False)[0]

    def _sequence_losses(self, thetas: np.ndarray, scored: np.ndarray) -> np.ndarray:
        """(F, M): -log p(y_n)."""

        ones = np.ones((len(thetas), len(self.base)))
        (values,) = self._passes(lambda one, _: (one.of_sequences,), thetas, ones)
        return -np.take_along_axis(values, scored, 1)

    # --- other schemes and data ------------------------------------------------------------------------

    def with_scheme(self, scheme: Scheme) -> SpaceObjective:
        if isinstance(scheme, Increments) and self.model.density is not None:
            raise ValueError(
                "a Laplace approximation has no terms of single counts given those before them: "
                "resample whole sequences"
            )
        if not isinstance(scheme, (A, Structures, Increments)):
            raise ValueError(
                f"scheme {scheme.name} would leave out states, which are continuous here: use scheme A, "
                "or folds of whole sequences"
            )
        base = self.data.sequence_weights if scheme.kind == "sequences" else self.data.weights
        return replace(self, program=replace(self.program, scheme=scheme), base=base)

    def for_prediction(self, data: Any = None) -> SpaceObjective:
        if data is None:
            return self
        read = sequences_like(self.data, data)
        return space_objective(self.model, read, self.program.kernel, self)

    def shortened(self, sites: int) -> SpaceObjective:
        data = self.data
        if data.n_sites <= sites:
            return self
        count = max(int(np.searchsorted(np.cumsum(data.lengths), sites)), 1)
        lengths = np.minimum(data.lengths[:count], sites)
        part = (slice(count), slice(int(lengths.max())))
        try:
            part_of = data.part(part, data.observed, lengths)
            other = space_objective(self.model, part_of, self.program.kernel)
        except ValueError:
            return self
        made = replace(other, program=replace(other.program, space=self.space))
        return made.with_scheme(self.scheme)

    def run_on(self, parallel: Parallel) -> SpaceObjective:
        super().run_on(parallel)
        return replace(self, parallel=parallel)


def _no_steps(thetas: np.ndarray) -> np.ndarray:
    """(F, 0) `wanted` of folds that need likelihoods only, and no states at any step."""
    return np.zeros((len(thetas), 0), int)
