"""Seasonal autoregressive integrated moving averages with regressors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fitonce.core.arguments import require, require_choice, require_flag
from fitonce.core.constraints import Constraint, Free
from fitonce.core.numerics import is_count
from fitonce.core.series_constraints import Stationary, Variance
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences
from fitonce.models.space.learned import (
    Learned,
    Level,
    differences,
    means_of_changes,
    nested,
    units_of_coefficients,
)
from fitonce.models.space.moving_averages import invertible, may_be_turned, unit_roots
from fitonce.models.space.system import (
    Series,
    SpaceModel,
    System,
    Values,
    added_to_diffuse,
    covariate_names,
    folds_of,
    frozen_pairs,
    other_fields,
    stationary_spread,
)

_APART = 11.0  # 10 % of estimates of a unit root are farther below it, times the steps (Dickey, Fuller)


@dataclass(frozen=True)
class SARIMAX(SpaceModel):
    """Seasonal autoregressive integrated moving averages of one channel, with regressors.

    phi(L) Phi(L^s) (1 - L)^d (1 - L^s)^D (y_t - x_t' coefficient) = intercept + theta(L) Theta(L^s) e_t.

    Autoregressions are stationary by construction. Moving averages are free, so that unit roots, where
    short or overdifferenced series often have their optimum, are ordinary optima. Of the moving averages
    that are the same process, a fit has the invertible one, whose theta(z) has no zeros inside the unit
    circle, unless `frozen` holds sigma2, which differs between them. What differences leave open about
    the past has an exactly diffuse prior; that of the parameters is flat.

    Args:
        order: p, d and q.
        seasonal_order: P, D, Q and the number of steps s in a season.
        trend: "n" for none, "c" for an intercept.
        exog: names of covariates of the data, each with a coefficient.
        measurement_error: whether observations have noise of their own besides.
        frozen: parameters by name that are known, such as {"ma": [0.0]}.
    """

    order: tuple[int, int, int] = (1, 0, 0)
    seasonal_order: tuple[int, int, int, int] = (0, 0, 0, 0)
    trend: str = "n"
    exog: Any = ()
    measurement_error: bool = False
    frozen: Any = ()
    averages: ClassVar[tuple[str, ...]] = ("ma", "seasonal_ma")

    def __post_init__(self) -> None:
        for name, count in (("order", 3), ("seasonal_order", 4)):
            value = getattr(self, name)
            fine = isinstance(value, (tuple, list)) and len(value) == count
            fine = fine and all(is_count(one, 0) for one in value)
            require(fine, name, f"{count} integers that are not negative", value)
            object.__setattr__(self, name, tuple(map(int, value)))
        seasonal = self.seasonal_order
        require(
            seasonal[3] >= 2 or not any(seasonal[:3]),
            "seasonal_order",
            "a season of at least 2 steps",
            seasonal,
        )
        require_choice("trend", self.trend, ("n", "c"))
        require_flag("measurement_error", self.measurement_error)
        object.__setattr__(self, "exog", covariate_names("exog", self.exog))
        object.__setattr__(self, "frozen", frozen_pairs(self.frozen))

    @property
    def covariates(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.exog

    def __str__(self) -> str:
        orders = [str(self.order), *[str(self.seasonal_order)] * any(self.seasonal_order)]
        return f"SARIMAX({', '.join(orders + other_fields(self, 'order', 'seasonal_order'))})"

    def count_states(self, width: int) -> int:
        (p, d, q), (seasonal_p, seasonal_d, seasonal_q, season) = self.order, self.seasonal_order
        return d + season * seasonal_d + max(p + season * seasonal_p, q + season * seasonal_q + 1)

    def check(self, steps: Series, data: Sequences) -> None:
        if len(data.channels) != 1:
            got = counted(len(data.channels), "channel")
            raise ValueError(
                f"SARIMAX models one channel, got data of {got}; give several series as several "
                "sequences"
            )

    def leaves(self, steps: Series) -> dict[str, Constraint]:
        (p, _, q), (seasonal_p, _, seasonal_q, _) = self.order, self.seasonal_order
        variance = Variance((), float(steps.unit[0]))
        found: dict[str, Constraint] = {"sigma2": variance}
        for name, count in (("ar", p), ("seasonal_ar", seasonal_p)):
            if count:
                found[name] = Stationary((count,))
        for name, count in (("ma", q), ("seasonal_ma", seasonal_q)):
            if count:
                found[name] = Free((count,))
        if self.trend == "c":
            found["intercept"] = Free(())
        if self.exog:
            found["coefficient"] = Free((len(self.exog),))
        if self.measurement_error:
            found["noise"] = variance
        return found

    def coordinates(self, steps: Series) -> Learned | None:
        """An intercept is learned as that of the series about its mean."""
        return self._learned(steps).without({name for name, _ in self.frozen})

    def _learned(self, steps: Series) -> Learned:
        units: list[tuple[str, Any]] = []
        if self.exog:
            units.append(("coefficient", nested(units_of_coefficients(steps)[0])))
        if self.trend != "c":
            return Learned(tuple(units))
        means, known = means_of_changes(steps, self._differences)
        linear = (("coefficient", nested(-known)),) if self.exog else ()
        level = Level("intercept", float(means[0]), linear, tuple((name,) for name in self._past))
        return Learned((*units, ("intercept", float(steps.unit[0]))), (level,))

    @property
    def _past(self) -> list[str]:
        """Names of the autoregressions that there are."""
        counts = {"ar": self.order[0], "seasonal_ar": self.seasonal_order[0]}
        return [name for name, count in counts.items() if count]

    def remarks(self, params: Values, lengths: np.ndarray) -> dict[str, str]:
        """The mean, unless a root is so near to 1 that data hardly determine it."""
        if self.trend != "c":
            return {}
        left = np.prod([1.0 - np.sum(params[name]) for name in self._past])
        what = "changes" if len(self._differences) else "the series"
        what += " without regressors" if self.exog else ""
        if left < _APART / max(np.max(lengths), 1):
            return {"intercept": f"the mean of {what} is hardly determined, beside a root of 1"}
        return {"intercept": f"mean of {what} {float(params['intercept'] / left):.6g}"}

    @property
    def _differences(self) -> np.ndarray:
        """(m,) the coefficients of the past in y_t = sum_j delta_j y_t-j + u_t."""
        _, seasonal, _, season = self.seasonal_order
        return differences(self.order[1], seasonal, season)

    def _multiplied(
        self, plain: np.ndarray | None, seasonal: np.ndarray | None, folds: int
    ) -> np.ndarray:
        """(m, F) of a polynomial times a seasonal one, without its leading one."""
        season = self.seasonal_order[3]
        first = np.zeros((0, folds)) if plain is None else plain
        second = np.zeros((0, folds)) if seasonal is None else seasonal
        found = np.zeros((1 + len(first) + season * len(second), folds), np.result_type(first, second))
        for lag, factor in [(0, 1.0), *((season * (k + 1), row) for k, row in enumerate(second))]:
            found[lag] += factor
            found[lag + 1 : lag + 1 + len(first)] += factor * first
        return found[1:]

    def mirrors(self, params: Values) -> list[tuple[str, dict[str, np.ndarray]]]:
        return [
            (name, {name: slopes, "sigma2": change * params["sigma2"]})
            for name in self._free_averages(params)
            for slopes, change in unit_roots(np.asarray(params[name], float))
        ]

    def canonical(self, params: Values) -> Values:
        found, averages = dict(params), self._free_averages(params)
        for name in averages:
            found[name], factor = invertible(np.asarray(params[name], float))
            found["sigma2"] = factor * found["sigma2"]
        same = all(np.array_equal(found[name], params[name]) for name in averages)
        return params if same else found

    def not_canonical(self, values: Values) -> np.ndarray:
        found = super().not_canonical(values)
        for name in self._free_averages(values):
            found |= may_be_turned(values[name])
        return found

    def _free_averages(self, params: Values) -> list[str]:
        """Names of moving averages that can be replaced: neither they nor the noise are frozen."""
        known = dict(self.frozen)
        free = [name for name in self.averages if name in params and name not in known]
        return [] if "sigma2" in known else free

    def system(self, values: Values, steps: Series) -> System:
        folds, kind = folds_of(values)
        minus = {name: -values[name] for name in ("ar", "seasonal_ar") if name in values}
        ar = -self._multiplied(minus.get("ar"), minus.get("seasonal_ar"), folds)
        ma = self._multiplied(values.get("ma"), values.get("seasonal_ma"), folds)
        past = self._differences
        size = max(len(ar), len(ma) + 1)
        own, lags = slice(len(past), len(past) + size), slice(0, len(past))
        found = System.zeros(len(past) + size, 1, folds, kind)
        found.loading[0, 0, lags] = past[:, None]
        found.loading[0, 0, own.start] = 1.0
        if len(past):
            found.moving[0, 0, lags] = past[:, None]
            found.moving[0, 0, own.start] = 1.0
            found.moving[0, np.arange(1, len(past)), np.arange(len(past) - 1)] = 1.0
        first = own.start
        found.moving[0, first : first + len(ar), first] = ar
        found.moving[0, np.arange(first, own.stop - 1), np.arange(first + 1, own.stop)] = 1.0
        load = np.zeros((size, folds), kind)
        load[0], load[1 : 1 + len(ma)] = 1.0, ma
        found.shaking[0, own, own] = load[:, None] * load[None] * values["sigma2"]
        found.spread[own, own] = stationary_spread(found.moving[0, own, own], found.shaking[0, own, own])
        if "intercept" in values:
            found.drift[0, first] = values["intercept"]
            # The mean of the companion form: that of its first entry, and what of it is still to come.
            mean = values["intercept"] / (1.0 - ar.sum(0))
            later = np.concatenate([ar, np.zeros((size - len(ar), folds))])
            for k in range(size):
                found.mean[first + k] = mean if k == 0 else mean * later[k:].sum(0)
        if self.measurement_error:
            found.noise[0, 0, 0] = values["noise"]
        marked = np.ones(len(past), bool)
        found.spread[lags, lags] = added_to_diffuse(marked, found.noise, found.shaking)
        offset = found.offset
        if self.exog:
            offset = (steps.covariates @ values["coefficient"])[:, None]
        return found._replace(diffuse=np.eye(len(past) + size)[:, lags], offset=offset)

    def start(self, steps: Series, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        found: dict[str, Any] = {}
        for name, leaf in self.leaves(steps).items():
            if isinstance(leaf, Variance):
                share = 1.0 if rng is None else 10.0 ** rng.uniform(-1.0, 0.5)
                found[name] = share * float(steps.unit[0]) ** 2
            elif name in ("ar", "seasonal_ar", *self.averages):
                free = np.full(leaf.shape, 0.1) if rng is None else rng.normal(0.0, 0.5, leaf.shape)
                sign = -1.0 if name in self.averages else 1.0  # theta is 1 + ..., and phi 1 - ...
                found[name] = sign * Stationary(leaf.shape).values(free[:, None])[..., 0]
            elif name == "intercept":
                found[name] = np.zeros(())  # of the series about its mean
            else:
                found[name] = steps.regressed()
        found = {name: np.asarray(value, float) for name, value in found.items()}
        found = self.with_known(found)
        levels = Learned((), self._learned(steps).levels)
        return self.with_known(levels.reported(found))
