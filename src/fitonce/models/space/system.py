"""The matrices of a linear-Gaussian state-space model, and what models of this kind have in common.

    y_t = Z a_t + d + e_t,  e_t ~ N(0, H)        a_t+1 = T a_t + c + n_t,  n_t ~ N(0, W)

Matrices are made for many parameters at once: the last axis of every array is the fold. Models make them
with analytic functions only, so that complex parameters give derivatives, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fitonce.core.arguments import read_names, require
from fitonce.core.constraints import Constraint, as_tuples
from fitonce.core.numerics import as_numbers
from fitonce.core.parameters import Coordinates, freeze
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences
from fitonce.models.space import determined
from fitonce.models.space.counts import CountDensity

Values = Mapping[str, np.ndarray]  # constrained values by name, (*shape, F)
_DOUBLINGS = 60  # of a sum over powers: beyond, a root is within rounding of the unit circle


PEER_MATRICES = {
    "design": 2,
    "obs_intercept": 1,
    "obs_cov": 2,
    "transition": 2,
    "state_intercept": 1,
    "selection": 2,
    "state_cov": 2,
}  # statsmodels' names, and their axes without that of steps


_PEER_NAMES = {
    "loading": "design",
    "offset": "obs_intercept",
    "noise": "obs_cov",
    "moving": "transition",
    "drift": "state_intercept",
    "shaking": "state_cov",
}


class System(NamedTuple):
    """Matrices with a leading axis of one entry, or of one for each step, and a last one of folds.

    Attributes:
        loading: Z (1 or T, C, n, F).
        offset: d (1 or T, C, F).
        noise: H (1 or T, C, C, F).
        moving: T (1 or T, n, n, F); entry t leads from step t to step t + 1.
        drift: c (1 or T, n, F).
        shaking: W (1 or T, n, n, F).
        mean: (n, F) of the first state.
        spread: (n, n, F) of the first state.
        diffuse: (n, q) directions in which nothing is known about the first state.
    """

    loading: np.ndarray
    offset: np.ndarray
    noise: np.ndarray
    moving: np.ndarray
    drift: np.ndarray
    shaking: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    diffuse: np.ndarray

    @classmethod
    def zeros(cls, states: int, channels: int, folds: int, kind: Any) -> System:
        def made(*shape: int) -> np.ndarray:
            return np.zeros((*shape, folds), kind)

        return cls(
            made(1, channels, states),
            made(1, channels),
            made(1, channels, channels),
            made(1, states, states),
            made(1, states),
            made(1, states, states),
            made(states),
            made(states, states),
            np.zeros((states, 0)),
        )


def require_shapes(system: System, steps: Series, model: Any) -> System:
    """The system, whose matrices have the shapes that steps and states ask for: loops that are compiled
    read and write where these say."""
    states, width, count = len(system.mean), steps.y.shape[1], len(steps.y)
    expected = {
        "loading": (width, states),
        "offset": (width,),
        "noise": (width, width),
        "moving": (states, states),
        "drift": (states,),
        "shaking": (states, states),
    }
    for name, shape in expected.items():
        got = getattr(system, name).shape
        if got[1:-1] != shape:
            raise ValueError(
                f"{model}: '{_PEER_NAMES[name]}' must have the shape {shape} for data of "
                f"{counted(width, 'channel')} and {counted(states, 'state')}, got {got[1:-1]}"
            )
        if got[0] not in (1, count):
            raise ValueError(
                f"{model}: '{_PEER_NAMES[name]}' changes with time and is known for "
                f"{counted(got[0], 'step')}, not for {count}"
            )
    if system.spread.shape[:2] != (states, states) or len(system.diffuse) != states:
        got = (*system.spread.shape[:2], len(system.diffuse))
        raise ValueError(f"{model}: the first state must be of {counted(states, 'state')}, got {got}")
    return system


@dataclass(frozen=True, eq=False)
class Series:
    """Data as a state-space model reads them: the steps of all sequences, one after the other.

    Attributes:
        y: (T, C), zero where nothing is observed; of counts, about what they are on the scale of states.
        seen: (T, C) bools.
        starts: (N + 1,) the first steps of sequences, and the number of steps.
        covariates: (T, Q) those that the model uses.
        counts, sizes: (T,) each, counts and their exposures or trials, or both empty.
    """

    y: np.ndarray
    seen: np.ndarray
    starts: np.ndarray
    covariates: np.ndarray
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0))
    sizes: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def unit(self) -> np.ndarray:
        """(C,) about half of the change from one step to the next in each channel, as a power of 4:
        coordinates of slightly different data are the same."""
        found = np.ones(self.y.shape[1])
        number = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        for channel, (values, seen) in enumerate(zip(self.y.T, self.seen.T, strict=True)):
            changes = np.diff(values[seen])[np.diff(number[seen]) == 0]  # not from one to the next
            size = np.sqrt(np.mean(changes**2)) if len(changes) else 0.0
            found[channel] = size if size > 0 else max(np.abs(values[seen]).max(initial=0.0), 1e-8)
        return 4.0 ** np.round(np.log2(found / 2.0) / 2.0)

    def sequence(self, number: int) -> Series:
        """One of the sequences."""
        own = slice(*self.starts[number : number + 2])
        rows = (self.y, self.seen, self.covariates, self.counts, self.sizes)
        y, seen, covariates, counts, sizes = (array[own] for array in rows)
        return Series(y, seen, np.array([0, len(y)]), covariates, counts, sizes)

    def followed_by(self, other: Series) -> Series:
        """One sequence, and another one that goes on from it."""
        names = ("y", "seen", "covariates", "counts", "sizes")
        joined = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names}
        return Series(starts=np.array([0, len(joined["y"])]), **joined)

    @property
    def level(self) -> float:
        """The mean of the first channel."""
        return float(self.y[self.seen[:, 0], 0].mean()) if self.seen[:, 0].any() else 0.0

    def regressed(self) -> np.ndarray:
        """(Q,) coefficients of the covariates in a regression of the first channel."""
        known = self.seen[:, 0]
        design = np.column_stack([np.ones(known.sum()), self.covariates[known]])
        return np.linalg.lstsq(design, self.y[known, 0], rcond=None)[0][1:]


class SpaceModel(ABC):
    """A linear-Gaussian state-space model. Hashable: its fields are plain values."""

    covariates: tuple[str, ...] = ()
    frozen: tuple[tuple[str, Any], ...] = ()
    averages: ClassVar[tuple[str, ...]] = ()  # names of parameters that are moving averages

    @property
    def burn(self) -> int:
        """How many first steps of each sequence likelihoods are given: their own terms do not count."""
        return 0

    @property
    def vague(self) -> bool:
        """Whether first states have a large variance in place of being exactly unknown."""
        return False

    @property
    def density(self) -> CountDensity | None:
        """Of observed counts given Z a_t + d + e_t; None: observations are this itself."""
        return None

    def prepare(self, data: Sequences) -> Series:
        """The steps of all sequences."""
        known = data.covariates_of(self.covariates)[data.valid]
        starts = np.concatenate([data.offsets, [data.n_sites]]).astype(np.int64)
        steps = Series(data.values[data.valid], data.observed[data.valid], starts, known)
        determined.require_room(self, steps.y.shape[1])
        self.check(steps, data)
        return self.read(steps)

    def read(self, steps: Series) -> Series:
        """Steps as the model sees them, given observations and all covariates: counts apart."""
        return steps

    def check_counts(self, data: Sequences) -> None:
        """Raise where lags, parameters or states are too many, before anything is computed with them."""
        steps = self.prepare(data)
        determined.require_fewer(self, steps)
        determined.require_enough(self, steps)
        determined.require_enough(self, steps, determined.unknown_states(self, steps))

    def check_to_fit(self, data: Sequences, steps: Series) -> None:
        """Raise where a channel is constant or first states fit all exactly (without noise the
        likelihood has no maximum), and where there are as many lags as steps."""
        determined.require_fewer(self, steps)
        determined.require_varying(self, data, steps)

    def count_states(self, width: int) -> int:
        """How many there are for so many channels, where this may be large."""
        return 0

    def check(self, steps: Series, data: Sequences) -> None:  # noqa: B027
        """Raise where the model cannot be of these data."""

    def fault(self, values: Values, steps: Series) -> str:
        """What is wrong with the matrices at values (*shape, 1), so that there is no likelihood, in
        words; empty: nothing that is known."""
        return ""

    def parameters(self, steps: Series) -> dict[str, Constraint]:
        return freeze(self.leaves(steps), dict(self.frozen))

    def coordinates(self, steps: Series) -> Coordinates | None:
        """What parameters are learned as, see `models.space.learned`; None: themselves."""
        return None

    @abstractmethod
    def leaves(self, steps: Series) -> dict[str, Constraint]: ...

    @abstractmethod
    def system(self, values: Values, steps: Series) -> System:
        """The matrices at values (*shape, F) of the parameters."""

    @abstractmethod
    def start(self, steps: Series, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        """Values to start a fit from; other ones when `rng` is given."""

    def mirrors(self, params: Values) -> list[tuple[str, dict[str, np.ndarray]]]:
        """Directions in which the likelihood of any data is even at these parameters, other than roots
        of variances of zero: for each the name of the parameter it is about, and slopes by name."""
        return []

    def canonical(self, params: Values) -> Values:
        """The parameters that a fit reports, where several are the same model."""
        return params

    def not_canonical(self, values: Values) -> np.ndarray:
        """(F,) whether values (*shape, F) may be others than `canonical` has."""
        return np.zeros(folds_of(values)[0], bool)

    def with_known(self, values: dict[str, Any]) -> dict[str, np.ndarray]:
        """Values to start from, those of `frozen` parameters as they are known."""
        known = dict(self.frozen)
        return {name: np.asarray(known.get(name, value), float) for name, value in values.items()}

    def rival_starts(self, steps: Series) -> list[list[dict[str, np.ndarray]]]:
        """Groups of further values: fits start from the likeliest of each."""
        return []

    @property
    def state_names(self) -> tuple[str, ...]:
        """Of each state; empty: they are only numbered."""
        return ()

    @property
    def unknown_starts(self) -> tuple[str, ...]:
        """First states that nothing is known about: what identifies them; empty: the whole model."""
        return ()

    def components(self, steps: Series) -> dict[str, np.ndarray]:
        """Names of parts of the state, and their loadings (n,), which add up to Z."""
        return {}


def stationary_spread(moving: np.ndarray, shaking: np.ndarray) -> np.ndarray:
    """(n, n, F) P = T P T' + W, for (n, n, F) each: the sum of T^k W T'^k, doubled until it stays; nan
    where it does not end."""
    power, found = np.moveaxis(moving, -1, 0), np.moveaxis(shaking, -1, 0)
    with np.errstate(over="ignore", invalid="ignore"):  # of roots beyond 1
        for _ in range(_DOUBLINGS):
            more = power @ found @ np.swapaxes(power, -1, -2)
            found = found + more
            grown, sizes = (np.abs(np.einsum("fii->fi", one)) for one in (more, found))
            if not (grown > 1e-17 * sizes).any():  # each state by its own size
                break
            power = power @ power
    found = np.moveaxis(found, 0, -1)
    return np.where(np.isfinite(found).all((0, 1)), found, np.nan)


def stationary_mean(moving: np.ndarray, drift: np.ndarray) -> np.ndarray:
    """(n, F) m = T m + c, for (n, n, F) and (n, F); nan where a root at 1 leaves it open."""
    apart = np.moveaxis(np.eye(len(moving))[..., None] - moving, -1, 0)
    lost = ~(np.abs(np.linalg.slogdet(apart)[0]) > 0)[:, None, None]
    found = np.linalg.solve(np.where(lost, np.eye(len(moving)), apart), drift.T[..., None])
    return np.where(lost, np.nan, found)[..., 0].T


def added_to_diffuse(marked: np.ndarray, noise: np.ndarray, shaking: np.ndarray) -> np.ndarray:
    """(n, n, F) a covariance of the states that are marked, whose start is diffuse, by H and W.

    They may have any finite one beside what is not known; this keeps the variance of the first
    observations from vanishing. It is as large as the variances of the model: digits of these are lost
    beside a larger one, where steps far from all others are smoothed, and what is known of first states
    is lost beside a smaller one.
    """
    size = sum(np.einsum("tiif->tif", array).mean(0).sum(0) for array in (noise, shaking))
    return np.diag(marked.astype(float))[..., None] * size


def covariate_names(name: str, value: Any) -> tuple[str, ...]:
    """A list of names of covariates, or one of them, as a tuple."""
    return read_names(name, (value,) if isinstance(value, str) else value, "names of covariates")


def other_fields(model: Any, *named: str, **defaults: Any) -> list[str]:
    """Those fields of a model that have other values than by default, as they are given: "ar=2"; but for
    those that are `named` already. `defaults`: of fields whose default depends on others."""
    found = {one.name: getattr(model, one.name) for one in fields(model) if one.name not in named}
    usual = {one.name: one.default for one in fields(model)} | defaults
    return [f"{name}={_given(name, value)}" for name, value in found.items() if value != usual[name]]


def _given(name: str, value: Any) -> str:
    """The value of a field as a user gives it."""
    if name == "frozen":
        return repr(dict(value))
    if isinstance(value, tuple):
        return f"[{', '.join(_given('', one) for one in value)}]"
    value = value.item() if isinstance(value, np.generic) else value
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)


def frozen_pairs(frozen: Any) -> tuple[tuple[str, Any], ...]:
    """A dict of names and known values as a tuple, which is hashable."""
    expected = "a dict of names of parameters and finite numbers"
    if isinstance(frozen, tuple) and all(isinstance(one, tuple) and len(one) == 2 for one in frozen):
        frozen = dict(frozen)  # as it is after this
    require(isinstance(frozen, Mapping), "frozen", expected, frozen)
    values = {str(name): as_numbers(value) for name, value in frozen.items()}
    require(all(value is not None for value in values.values()), "frozen", expected, frozen)
    return tuple(sorted((name, as_tuples(value.tolist())) for name, value in values.items()))  # type: ignore[union-attr]


def folds_of(values: Values) -> tuple[int, Any]:
    """The number of folds, and the type of their numbers."""
    arrays = list(values.values())
    return arrays[0].shape[-1] if arrays else 1, np.result_type(float, *arrays)
