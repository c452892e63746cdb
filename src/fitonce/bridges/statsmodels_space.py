"""Fits of statsmodels' state-space models: the same matrices, by their own functions of the parameters.

statsmodels need not be installed: what is read are the attributes of its results.
"""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from fitonce.bridges.statsmodels_coordinates import coordinates_of
from fitonce.bridges.statsmodels_matrices import (
    channel_names,
    matrices,
    parameter_names,
    regressors,
)
from fitonce.core.constraints import Constraint, Free, Frozen
from fitonce.core.parameters import Coordinates
from fitonce.core.series_constraints import Interval, Variance
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences, sequences
from fitonce.fitting.fit import Fit, fit_at
from fitonce.fitting.summarise import unknown_starts
from fitonce.models.space.moving_averages import invertible, may_be_turned, unit_roots
from fitonce.models.space.system import (
    Series,
    SpaceModel,
    System,
    Values,
    added_to_diffuse,
    folds_of,
    stationary_mean,
    stationary_spread,
)

_ONE_AT_A_TIME = Lock()  # their models keep the matrices of the last parameters in themselves
_ROUNDING = 1e-9  # of how states are observed
_APART = 1e-6  # nats for each of the log-likelihood's: how far ours may be from theirs
_THEIR_ZERO = 1e-10  # of changes: with a smaller variance, predictions may have one below 1e-12
_VARIANCES = ("sigma2", "var.", "measurement_variance.")  # how names of variances begin
_LAG = re.compile(r"(ar|ma)\.|L\d+\.")  # how names of coefficients of lags begin


@dataclass(frozen=True, eq=False)
class StatsmodelsSpace(SpaceModel):
    """A state-space model of statsmodels, whose `update` makes the matrices.

    Attributes:
        peer: their model.
        names: of its parameters.
        values: of its parameters, where a fit starts.
        covariates: names of its regressors.
        fixed: names of parameters that were held at their values (`fix_params`), and so they are here.
        exact: whether first states that theirs start with a large variance are exactly unknown here.
    """

    peer: Any
    names: tuple[str, ...]
    values: tuple[float, ...]
    covariates: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    exact: bool = True

    @property
    def burn(self) -> int:
        """Theirs; none where first states are exactly unknown, since likelihoods are integrated over
        these."""
        kinds = _kinds(self.peer.ssm.initialization)
        unknown = {"diffuse", "approximate_diffuse"} if self.exact else {"diffuse"}
        return 0 if kinds & unknown else int(self.peer.loglikelihood_burn)

    @property
    def vague(self) -> bool:
        return not self.exact and "approximate_diffuse" in _kinds(self.peer.ssm.initialization)

    def __str__(self) -> str:
        return f"{type(self.peer).__name__} of statsmodels"

    def check(self, steps: Series, data: Sequences) -> None:
        width, got = (counted(n, "channel") for n in (int(self.peer.k_endog), steps.y.shape[1]))
        if got != width:
            raise ValueError(f"{self} must have data of {width}, got {got}")
        with _ONE_AT_A_TIME:
            made = matrices(self.peer, np.array(self.values), steps)
        firsts = steps.starts[:-1]
        if "stationary" in _kinds(self.peer.ssm.initialization):
            moving = (made["transition"], made["state_intercept"], made["selection"], made["state_cov"])
            if any(len(array) > 1 and (array[firsts] != array[0]).any() for array in moving):
                raise ValueError(
                    f"the stationary start of {self} depends on the regressors of the first step, which "
                    f"differ between sequences: data must be one sequence, got {len(firsts)}"
                )

    def leaves(self, steps: Series) -> dict[str, Constraint]:
        unit = float(steps.unit.min())
        given = zip(self.names, self.values, strict=True)
        return {name: self._leaf(name, value, unit) for name, value in given}

    def coordinates(self, steps: Series) -> Coordinates | None:
        return coordinates_of(self.peer, self.names, self.covariates, self.fixed, steps)

    def _leaf(self, name: str, value: float, unit: float) -> Constraint:
        """Of a parameter as their `transform_params` has it, where its optimum may be at a bound."""
        if name in self.fixed:
            return Frozen.at(np.asarray(value))
        if name.startswith(_VARIANCES):
            return Variance((), unit)
        bounds = {"damping.cycle": (0.0, 1.0)}
        bounds["frequency.cycle"] = getattr(self.peer, "cycle_frequency_bound", (0.0, np.pi))
        if name not in bounds:
            return Free(())
        found = Interval((), *map(float, bounds[name]))
        return found if found.violation(np.asarray(value)) is None else Frozen.at(np.asarray(value))

    def start(self, steps: Series, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        found = {name: np.asarray(value) for name, value in zip(self.names, self.values, strict=True)}
        if rng is None:
            return found
        return (
            found
            | {
                name: value * 10.0 ** rng.uniform(-1.0, 1.0)
                for name, value in found.items()
                if name.startswith(_VARIANCES) and name not in self.fixed
            }
            | self._lags_at_random(rng)
        )

    def _lags_at_random(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Random coefficients of lags by name, as stationary or invertible as `transform_params` keeps
        them."""
        lags = [place for place, name in enumerate(self.names) if _LAG.match(name)]
        if not lags or any(_LAG.match(name) for name in self.fixed):  # all move together
            return {}
        try:
            with np.errstate(all="ignore"):  # parameters at a bound have no free coordinate
                free = np.array(self.peer.untransform_params(np.array(self.values)), float)
        except np.linalg.LinAlgError:  # nor has a covariance there, as a whole: only variances vary
            return {}
        free[lags] = rng.normal(0.0, 0.5, len(lags))
        values = np.asarray(self.peer.transform_params(free), float)
        if not np.isfinite(values).all():
            return {}
        return {self.names[place]: values[place] for place in lags}

    def _averages(self) -> list[list[str]]:
        """Names of the coefficients, in order, of each moving average of a SARIMAX; without those that
        leave out lags or cannot all move together with the variance."""
        free = set(self.names) - set(self.fixed)
        if not hasattr(self.peer, "seasonal_periods") or "sigma2" not in free:
            return []
        period, found = self.peer.seasonal_periods, []
        for kind, step in (("ma", 1), ("ma.S", period)):
            own = [name for name in self.names if name.startswith(f"{kind}.L")]
            all_lags = [f"{kind}.L{step * (k + 1)}" for k in range(len(own))]
            if own and own == all_lags and free.issuperset(own):
                found.append(own)
        return found

    def mirrors(self, params: Values) -> list[tuple[str, dict[str, np.ndarray]]]:
        return [
            (own[0], dict(zip(own, slopes, strict=True)) | {"sigma2": change * params["sigma2"]})
            for own in self._averages()
            for slopes, change in unit_roots(np.array([params[name] for name in own]))
        ]

    def not_canonical(self, values: Values) -> np.ndarray:
        found = super().not_canonical(values)
        for own in self._averages():
            found |= may_be_turned(np.stack([values[name] for name in own]))
        return found

    def canonical(self, params: Values) -> Values:
        found, changed = dict(params), False
        for own in self._averages():
            slopes, factor = invertible(here := np.array([params[name] for name in own], float))
            found |= dict(zip(own, slopes, strict=True)) | {"sigma2": factor * found["sigma2"]}
            changed |= not np.array_equal(slopes, here)
        return found if changed else params

    def system(self, values: Values, steps: Series) -> System:
        folds, _ = folds_of(values)
        table = np.stack([values[name] for name in self.names])
        with _ONE_AT_A_TIME:
            made = [matrices(self.peer, table[:, fold], steps) for fold in range(folds)]

        def stacked(name: str) -> np.ndarray:
            return np.stack([one[name] for one in made], -1)

        selection = stacked("selection")
        shaking = np.einsum("tijf,tjkf,tlkf->tilf", selection, stacked("state_cov"), selection)
        moving, drift = stacked("transition"), stacked("state_intercept")
        mean, spread, marked = _first_state(
            self.peer.ssm.initialization, moving[0], drift[0], shaking[0], self.exact
        )
        observed = (stacked("design"), stacked("obs_intercept"), stacked("obs_cov"))
        if len(observed[0]) == len(moving) == 1:
            marked &= _is_ever_seen(observed[0][0].real, moving[0].real)
        spread = spread + added_to_diffuse(marked, observed[2], shaking)
        start = (mean, spread, np.eye(len(marked))[:, marked])
        return System(*observed, moving, drift, shaking, *start)


def _kinds(initial: Any) -> set[str]:
    """All ways in which states start: "diffuse", "approximate_diffuse", "stationary" or "known"."""
    if initial.initialization_type is not None:
        return {initial.initialization_type}
    return set().union(*(_kinds(block) for block in initial.blocks.values()))


def _first_state(
    initial: Any, moving: np.ndarray, drift: np.ndarray, shaking: np.ndarray, exact: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean (n, F), covariance (n, n, F) and which entries are diffuse (n,), from their description."""
    size = len(moving)
    kind = np.result_type(moving, drift, shaking)
    mean, spread, marked = (
        np.zeros(drift.shape, kind),
        np.zeros(moving.shape, kind),
        np.zeros(size, bool),
    )
    composed = initial.initialization_type is None
    blocks = initial.blocks if composed else {(0, size - 1): initial}
    for place, block in blocks.items():
        own = slice(place[0], place[-1] + 1)
        if block.initialization_type is None:
            parts = _first_state(block, moving[own, own], drift[own], shaking[own, own], exact)
            mean[own], spread[own, own], marked[own] = parts
        elif block.initialization_type == "diffuse":
            marked[own] = True
        elif block.initialization_type == "approximate_diffuse":
            marked[own] = exact
            if not exact:
                mean[own] = np.asarray(block.constant)[:, None]
                large = block.approximate_diffuse_variance * np.eye(own.stop - own.start)
                spread[own, own] = large[..., None]
        elif block.initialization_type == "stationary":
            spread[own, own] = stationary_spread(moving[own, own], shaking[own, own])
            mean[own] = stationary_mean(moving[own, own], drift[own])
        else:
            mean[own] = np.asarray(block.constant)[:, None]
            spread[own, own] = np.asarray(
                block.stationary_cov if block.stationary_cov is not None else 0.0
            )[..., None]
    return mean, spread, marked


def _is_ever_seen(loading: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """(n,) whether states reach an observation, by (C, n, F) and (n, n, F). The second state of a wave
    of two steps does not but for rounding: no data determine where it starts, and it makes no
    difference."""
    reach, found = np.moveaxis(loading, -1, 0), np.zeros(len(moving), bool)
    least = _ROUNDING * np.abs(reach).max()
    for _ in range(len(moving)):
        found |= (np.abs(reach) > least).any((0, 1))
        reach = reach @ np.moveaxis(moving, -1, 0)
    return found


def from_state_space(results: Any) -> Fit:
    """See `from_statsmodels`."""
    peer = results.model
    if getattr(peer.ssm, "filter_concentrated", False):
        raise ValueError(
            "from_statsmodels needs every variance as a parameter: fit the model without "
            "concentrate_scale"
        )
    peer, values = deepcopy(peer), np.asarray(results.params, float)  # theirs stays as it is
    peer._has_fixed_params = False  # within `fix_params` updates would expect the others alone
    known = regressors(peer)
    # Beside unknown starts of differences, data do not determine that of an autoregression that need
    # not be stationary, or only by coefficients other than zero: with both exactly unknown, the
    # likelihood would have no bound. Given the first steps it has one.
    exact = bool(getattr(peer, "enforce_stationarity", True))
    names, theirs = parameter_names(peer), list(peer.param_names)
    fixed = tuple(names[theirs.index(name)] for name in getattr(results, "fixed_params", ()))
    made = StatsmodelsSpace(peer, names, tuple(values.tolist()), tuple(known), fixed, exact)
    if set(names) == set(fixed):
        held = "all of them held" if fixed else "none"
        raise ValueError(
            f"from_statsmodels needs a model with a free parameter, got {made} with {held}. The results "
            "of statsmodels forecast and smooth as they are"
        )
    data = _data(peer, known)
    try:
        found = fit_at(made, data, dict(zip(names, map(np.asarray, values), strict=True)))
    except ValueError as error:
        if exact or "diffuse" not in _kinds(peer.ssm.initialization):
            raise
        raise ValueError(f"{error}; fit the model without use_exact_diffuse") from error
    proper = not unknown_starts(found.objective)
    apart = abs(found.log_likelihood - results.llf) > _APART * (1.0 + abs(results.llf))
    if proper and apart:
        if np.nanmin(np.nanvar(np.diff(peer.endog, axis=0), axis=0)) < _THEIR_ZERO:
            raise ValueError(
                "statsmodels takes variances of predictions below 1e-12 for zero, as in these data: its "
                f"log-likelihood is {results.llf:.6f} for {found.log_likelihood:.6f}. Fit it there to "
                "data in other units, such as 1,000 times as large"
            )
        raise ValueError(
            f"the log-likelihood of these parameters is {found.log_likelihood:.6f} here and "
            f"{results.llf:.6f} in statsmodels. So the model was not read as it is meant: please "
            "report it"
        )
    return found


def _data(peer: Any, known: dict[str, np.ndarray]) -> Sequences:
    """One sequence of all channels, with the index of the user's table, if it was one."""
    table = pd.DataFrame(np.asarray(peer.endog, float), columns=channel_names(peer))
    index = getattr(getattr(peer, "data", None), "row_labels", None)
    if isinstance(index, pd.Index) and len(index) == len(table):
        table.index = index
    return sequences(table, covariates=known or None)
