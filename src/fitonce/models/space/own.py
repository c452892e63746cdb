"""A user's own state-space model: a function from parameters to matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitonce.core.arguments import require, require_function, shown
from fitonce.core.constraints import (
    Constraint,
    Covariance,
    Free,
    Frozen,
    Positive,
    Proportion,
)
from fitonce.core.numerics import as_numbers
from fitonce.core.series_constraints import Stationary, Variance
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences
from fitonce.models.space.covariances import are_covariances, fault_of
from fitonce.models.space.system import (
    PEER_MATRICES,
    Series,
    SpaceModel,
    System,
    Values,
    added_to_diffuse,
    covariate_names,
    folds_of,
    stationary_mean,
    stationary_spread,
)

_KINDS: dict[str, Callable[[tuple[int, ...]], Constraint]] = {
    "free": Free,
    "positive": Positive,
    "variance": Variance,
    "proportion": Proportion,
    "covariance": Covariance,
    "stationary": Stationary,
}
_MATRICES = PEER_MATRICES | {"initial_state": 1, "initial_state_cov": 2, "diffuse": 1}
_COVARIANCES = ("initial_state_cov", "obs_cov", "state_cov")
_NEEDED = ("design", "transition", "state_cov")
_TRIES = 50  # of random starts
_PROBE = 1e-6  # steps of differences, relative to free coordinates
_ROUNDED = 1e-8  # rounding, and much more: of differences, relative to the matrix


def _fault(made: dict[str, np.ndarray], where: str) -> str:
    """Why a matrix of one fold leaves no likelihood; empty: none does so alone."""
    for name in sorted(made):
        wrong = made[name][~np.isfinite(made[name])]
        if wrong.size:
            return f"build: '{name}' must be finite {where}, got {wrong[0]}"
    for name in _COVARIANCES:  # the filter reads one half of them only
        got = fault_of(made[name]) if name in made else ""
        if got:
            return f"build: '{name}' must be symmetric without negative eigenvalues {where}, got {got}"
    if not any(made[name].any() for name in ("obs_cov", "state_cov") if name in made):
        return f"build: 'obs_cov' or 'state_cov' must have a variance above zero {where}, got zeros only"
    return ""


def _are_sound(made: dict[str, np.ndarray]) -> bool:
    """Whether all covariances of one fold are covariances."""
    return all(bool(are_covariances(made[name]).all()) for name in _COVARIANCES if name in made)


def _unit(variance: np.ndarray, other: float) -> tuple[float, ...]:
    """About the roots of variances, as powers of 4; `other` where they are zero."""
    roots = np.sqrt(np.ravel(variance))
    rounded = 4.0 ** np.round(np.log2(np.where(roots > 0, roots, 1.0)) / 2.0)
    return tuple(np.where(roots > 0, rounded, other).tolist())


class _MissingParameterError(KeyError, ValueError):
    """A sentence, which a KeyError would print in quotes; `build` may catch it as either."""

    __str__ = Exception.__str__


class _Params(dict[str, Any]):
    """Parameters by name, which knows the names that were read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def __missing__(self, name: str) -> Any:
        raise _MissingParameterError(
            f"build reads the parameter {name!r}, which init must have, got {list(self)}"
        )


def _marked(made: Mapping[str, np.ndarray]) -> np.ndarray:
    """(n,) bools: the entries of the first state about which nothing is known, by default all."""
    known = {"stationary", "initial_state", "initial_state_cov"} & set(made)
    default = np.full((1, made["design"].shape[2]), not known)
    return made.get("diffuse", default)[0].astype(bool)


def _require_steady(transition: np.ndarray, marked: np.ndarray) -> None:
    """Raise where entries of the first state that are not marked as diffuse cannot be stationary."""
    own = transition[np.ix_(~marked, ~marked)]
    largest = float(np.abs(np.linalg.eigvals(own)).max(initial=0.0))
    if not largest < 1.0:
        raise ValueError(
            "build: initial_state_cov='stationary' needs a transition whose eigenvalues are all "
            f"below 1 in size at init, got {largest:g}. Mark states that are not as diffuse"
        )
    moved = np.flatnonzero(transition[np.ix_(~marked, marked)].any(1))
    if moved.size:
        state = int(np.flatnonzero(~marked)[moved[0]])
        raise ValueError(
            "build: initial_state_cov='stationary' needs states that no diffuse one moves, got state "
            f"{state} with a transition from one. Mark it as diffuse, too"
        )


@dataclass(frozen=True, eq=False)
class StateSpace(SpaceModel):
    """A linear-Gaussian state-space model of your own.

    y_t = design a_t + obs_intercept + N(0, obs_cov),
    a_t+1 = transition a_t + state_intercept + selection N(0, state_cov).

    Args:
        build: `build(params)`, or `build(params, covariates)` where `covariates` are named, a dict of
            these matrices under these names (those of statsmodels); `design`, `transition` and
            `state_cov` are needed. Each has its plain shape, or a first axis of one entry for each step.
            `initial_state` and `initial_state_cov` are of the first state; `diffuse`, bools, marks the
            entries of it about which nothing is known. Without all three everything is diffuse;
            `initial_state_cov="stationary"` takes the distribution that the transition leaves as it is,
            of the entries that are not marked, on which marked ones must have no influence.
            Where a covariance has negative eigenvalues or is not symmetric, there is no likelihood.
            Written with NumPy and analytic functions only: it is called with complex numbers, too.
        init: starting values by name of all parameters that `build` reads, which give them their shapes.
        constraints: kinds by name: "free" (where none is given), "variance" (may be zero), "positive",
            "proportion", "covariance", "stationary" (coefficients of an autoregression) or "frozen".
        covariates: names of covariates of the data that `build` reads, as (T, Q) of all steps.
    """

    build: Callable[..., Mapping[str, Any]]
    init: Mapping[str, Any]
    constraints: Mapping[str, str] = field(default_factory=dict)
    covariates: Any = ()

    def __post_init__(self) -> None:
        require_function("build", self.build, "parameters")
        wanted = "a dict of names and finite numbers"
        require(isinstance(self.init, Mapping) and self.init, "init", wanted, self.init)
        values = {str(name): as_numbers(value) for name, value in self.init.items()}
        require(all(value is not None for value in values.values()), "init", wanted, self.init)
        object.__setattr__(self, "init", values)
        kinds = (*_KINDS, "frozen")
        given = self.constraints
        fine = isinstance(given, Mapping) and set(given) <= set(values)
        fine = fine and all(isinstance(kind, str) and kind in kinds for kind in given.values())
        expected = f"a dict of names in init and kinds among {kinds}"
        require(fine, "constraints", expected, given)
        object.__setattr__(self, "covariates", covariate_names("covariates", self.covariates))

    def __str__(self) -> str:
        return f"StateSpace ({getattr(self.build, '__name__', 'own matrices')})"

    def check(self, steps: Series, data: Sequences) -> None:
        made = self._matrices(self._started, 0, steps)
        width = made["design"].shape[1]
        if width != steps.y.shape[1]:
            raise ValueError(
                f"build: design must have a row for each of the {steps.y.shape[1]} channels of the "
                f"data, got {width}"
            )
        self._require_shapes(made)
        fault = _fault(made, "at init")
        if fault:
            raise ValueError(fault)
        if "stationary" in made:
            _require_steady(made["transition"][0], _marked(made))
        self._require_analytic(steps)

    def _require_shapes(self, made: dict[str, np.ndarray]) -> None:
        """Raise where matrices have not the shapes that those of others ask for."""
        width, size = made["design"].shape[1:]
        shocks = made["selection"].shape[2] if "selection" in made else size
        sizes = {"obs_intercept": width, "obs_cov": width, "state_cov": shocks}
        for name in sorted(set(made) - {"design", "stationary"}):
            rows = sizes.get(name, size)
            expected = (size, shocks) if name == "selection" else (rows,) * _MATRICES[name]
            got = made[name].shape[1:]
            if got != expected:
                raise ValueError(
                    f"build: '{name}' must have the shape {expected} for data of "
                    f"{counted(width, 'channel')} and {counted(size, 'state')}, got {got}"
                )

    def fault(self, values: Values, steps: Series) -> str:
        return _fault(self._matrices(values, 0, steps), "at these parameters")

    def _require_analytic(self, steps: Series) -> None:
        """Raise where derivatives along the imaginary axis are not those of differences, or where a
        parameter changes nothing."""
        params = self._built(self.init, steps)[0]
        for name, leaf in self.leaves(steps).items():
            value = self.init[name]
            if isinstance(leaf, Frozen) or leaf.violation(value) is not None:  # refused by the fit
                continue
            free = np.asarray(leaf.to_free(value), float)
            if isinstance(leaf, Variance):  # whose slope by its root is zero at zero
                free = np.where(free == 0, 1.0, free)
            sizes = np.abs(free)
            along = np.where(sizes > 0, sizes, sizes.max() or 1.0)
            moved = [free + far * along for far in (_PROBE, -_PROBE, 1e-20j)]
            at = [self._started | {name: leaf.values(one[:, None])} for one in moved]
            ahead, behind, aside = (self._matrices(one, 0, steps) for one in at)
            same = all(np.array_equal(value, behind[key]) for key, value in ahead.items())
            if same and name not in params.read:
                raise ValueError(
                    f"init has the parameter {name!r}, which build does not read: it reads "
                    f"{sorted(params.read)}"
                )
            for key in set(ahead) - {"diffuse"}:  # marks, which are no numbers
                slope = (ahead[key] - behind[key]) / (2.0 * _PROBE)
                off = np.abs(slope - np.imag(aside[key]) / 1e-20).max()
                if off > 1e-4 * np.abs(slope).max() + _ROUNDED * np.abs(ahead[key]).max():
                    raise ValueError(
                        f"build must use analytic functions only (no abs, no comparisons, no .real): "
                        f"the derivative of '{key}' by '{name}' is lost for complex parameters"
                    )

    @property
    def _started(self) -> dict[str, np.ndarray]:
        """Values (*shape, 1) of one fold, at the start."""
        return {name: value[..., None] for name, value in self.init.items()}

    def leaves(self, steps: Series) -> dict[str, Constraint]:
        found: dict[str, Constraint] = {}
        for name, value in self.init.items():
            kind = self.constraints.get(name, "free")
            if kind == "variance":
                found[name] = Variance(value.shape, _unit(value, float(steps.unit.min())))
            else:
                found[name] = Frozen.at(value) if kind == "frozen" else _KINDS[kind](value.shape)
        return found

    def _built(self, values: Mapping[str, Any], steps: Series) -> tuple[_Params, Any]:
        """Parameters as `build` was given them, and what it returned."""
        params = _Params(values)
        try:
            known = (steps.covariates,) if self.covariates else ()
            return params, self.build(params, *known)
        except TypeError as error:
            if "complex" not in str(error):
                raise
            raise ValueError(
                "build must use analytic functions of NumPy only, which take complex parameters (no "
                f"float(), no math.exp): {error}"
            ) from error

    def _matrices(self, values: Values, fold: int, steps: Series) -> dict[str, np.ndarray]:
        """By name, each with a leading axis of steps."""
        given = self._built({name: value[..., fold] for name, value in values.items()}, steps)[1]
        if not isinstance(given, Mapping) or not set(_NEEDED) <= set(given):
            raise ValueError(f"build must return a dict with {', '.join(_NEEDED)}, got {shown(given)}")
        unknown = sorted(set(given) - set(_MATRICES))
        if unknown:
            raise ValueError(f"build may return {', '.join(_MATRICES)}, got {unknown}")
        found = {}
        for name, value in given.items():
            if isinstance(value, str) and name == "initial_state_cov" and value == "stationary":
                continue
            array, axes = np.asarray(value), _MATRICES[name]
            if array.dtype.kind not in "biufc" or array.ndim not in (axes, axes + 1):
                raise ValueError(
                    f"build: '{name}' must be numbers with {axes} axes, or one more for steps, got "
                    f"shape {array.shape}"
                )
            array = array.astype(float) if array.dtype.kind in "biu" else array
            found[name] = array if array.ndim == axes + 1 else array[None]
            if found[name].shape[0] not in (1, len(steps.y)):
                raise ValueError(
                    f"build: '{name}' must have one entry for each of {len(steps.y)} steps, got "
                    f"{found[name].shape[0]}"
                )
        if given.get("initial_state_cov") is not None and "initial_state_cov" not in found:
            if "initial_state" in found:
                raise ValueError(
                    "build: 'initial_state' must be left out beside initial_state_cov='stationary', "
                    "which has a mean of its own"
                )
            found["stationary"] = np.ones((1, 1))
        return found

    def system(self, values: Values, steps: Series) -> System:
        folds, kind = folds_of(values)
        made = [self._matrices(values, fold, steps) for fold in range(folds)]
        width, size = made[0]["design"].shape[1:]
        empty = System.zeros(size, width, 1, kind)

        def stacked(name: str, default: np.ndarray) -> np.ndarray:
            return np.stack([one.get(name, default[..., 0]) for one in made], -1)

        shaking = stacked("state_cov", empty.shaking)
        if "selection" in made[0]:
            selection = stacked("selection", empty.shaking)
            shaking = np.einsum("tijf,tjkf,tlkf->tilf", selection, shaking, selection)
        moving, drift = stacked("transition", empty.moving), stacked("state_intercept", empty.drift)
        mean = stacked("initial_state", empty.mean[None])[0]
        spread, marked = stacked("initial_state_cov", empty.spread[None])[0], _marked(made[0])
        if "stationary" in made[0]:
            block = np.ix_(~marked, ~marked)
            mean, spread = np.zeros_like(mean), np.zeros_like(spread)
            spread[block] = stationary_spread(moving[0][block], shaking[0][block])
            mean[~marked] = stationary_mean(moving[0][block], drift[0][~marked])
        noise, offset = stacked("obs_cov", empty.noise), stacked("obs_intercept", empty.offset)
        if kind.kind == "f":  # complex ones are for slopes at places that are known
            sound = np.array([_are_sound(one) for one in made])
            offset = np.where(sound, offset, np.nan)  # so that there is no likelihood
        spread = spread + added_to_diffuse(marked, noise, shaking)
        return System(
            stacked("design", empty.loading),
            offset,
            noise,
            moving,
            drift,
            shaking,
            mean,
            spread,
            np.eye(size)[:, marked],
        )

    def start(self, steps: Series, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        given = {name: np.array(value) for name, value in self.init.items()}
        if rng is None:
            return given
        leaves = self.leaves(steps)
        for _ in range(_TRIES):  # random values may not make covariances
            found = {}
            for name, leaf in leaves.items():
                value = self.init[name]
                free = leaf.to_free(value)
                moved = free + rng.normal(0.0, 0.3, free.shape) * np.maximum(np.abs(free), 0.3)
                found[name] = leaf.values(moved[:, None])[..., 0] if len(free) else np.array(value)
            if not self.fault({name: value[..., None] for name, value in found.items()}, steps):
                return found
        return given
