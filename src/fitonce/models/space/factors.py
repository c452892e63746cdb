"""Several series that follow a few common factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.core.arguments import require, require_choice, require_count, require_flag
from fitonce.core.constraints import Constraint, Covariance, Free
from fitonce.core.factor_constraints import Loadings, StationaryVector, anchored
from fitonce.core.numerics import is_count
from fitonce.core.series_constraints import Stationary, Variance
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences
from fitonce.models.space.learned import (
    Learned,
    Level,
    means_of_changes,
    nested,
    units_of_coefficients,
)
from fitonce.models.space.system import (
    Series,
    SpaceModel,
    System,
    Values,
    covariate_names,
    folds_of,
    frozen_pairs,
    other_fields,
    stationary_spread,
)

NOISES = ("diag", "full")
_MOST = 10_000  # factors and orders
_APART = 11.0  # 10 % of estimates of a unit root are farther below it, times the steps (Dickey, Fuller)


@dataclass(frozen=True)
class DynamicFactor(SpaceModel):
    """Channels that follow k common factors: y_t = mean + loading f_t + coefficient x_t + u_t.

    Factors are a stationary vector autoregression, f_t = ar_1 f_t-1 + ... + N(0, I), and start in its
    stationary distribution, as do errors u_t. Parameters are of maximum likelihood: the prior is flat.

    The noise of the factors is the unit of loadings. The loadings of k channels, the anchors, are lower
    triangular with a positive diagonal: the first anchor follows the first factor alone, the second the
    first two, and so on. No other rotation or sign of factors gives this form. A channel that hardly
    follows the factors is no good anchor.

    Args:
        n_factors: k, at most the number of channels.
        factor_order: steps that factors look back.
        error_order: steps that the error of a channel looks back, each at its own channel; 0: errors are
            white.
        noise: "diag" for errors whose noise is independent between channels, each with a variance that
            may be zero; "full" for any covariance.
        mean: whether channels have means; otherwise these are zero.
        exog: names of covariates of the data, each with a coefficient in every channel.
        anchors: places of k channels, counted from 0; by default the first ones.
        frozen: parameters by name that are known.
    """

    n_factors: int = 1
    factor_order: int = 1
    error_order: int = 0
    noise: str = "diag"
    mean: bool = True
    exog: Any = ()
    anchors: Any = ()
    frozen: Any = ()

    def __post_init__(self) -> None:
        require_count("n_factors", self.n_factors, 1, _MOST)
        require_count("factor_order", self.factor_order, 1, _MOST)
        require_count("error_order", self.error_order, 0, _MOST)
        require_choice("noise", self.noise, NOISES)
        require_flag("mean", self.mean)
        object.__setattr__(self, "exog", covariate_names("exog", self.exog))
        anchors = self.anchors
        fine = isinstance(anchors, (tuple, list)) and all(is_count(one, 0) for one in anchors)
        fine = fine and len(anchors) in (0, self.n_factors) and len(set(anchors)) == len(anchors)
        expected = f"the places of {counted(self.n_factors, 'channel')}, one for each factor"
        require(fine, "anchors", expected, anchors)
        object.__setattr__(self, "anchors", tuple(map(int, anchors)))
        object.__setattr__(self, "frozen", frozen_pairs(self.frozen))

    @property
    def covariates(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.exog

    def __str__(self) -> str:
        return f"DynamicFactor({', '.join([str(self.n_factors), *other_fields(self, 'n_factors')])})"

    def count_states(self, width: int) -> int:
        return self.n_factors * self.factor_order + width * self.error_order

    def check(self, steps: Series, data: Sequences) -> None:
        width = steps.y.shape[1]
        if max(*self._anchors, self.n_factors - 1) >= width:
            raise ValueError(
                f"{self} needs a channel for each factor and each of the anchors {list(self._anchors)}, "
                f"got {counted(width, 'channel')}"
            )

    @property
    def _anchors(self) -> tuple[int, ...]:
        return self.anchors or tuple(range(self.n_factors))

    def leaves(self, steps: Series) -> dict[str, Constraint]:
        width, factors = steps.y.shape[1], self.n_factors
        unit = tuple(steps.unit.tolist())
        found: dict[str, Constraint] = {
            "loading": Loadings((width, factors), self._anchors, unit),
            "ar": StationaryVector((self.factor_order, factors, factors)),
        }
        full = self.noise == "full"
        found["noise"] = Covariance((width, width)) if full else Variance((width,), unit)
        if self.error_order:
            found["error_ar"] = Stationary((width, self.error_order))
        if self.mean:
            found["mean"] = Free((width,))
        if self.exog:
            found["coefficient"] = Free((width, len(self.exog)))
        return found

    def coordinates(self, steps: Series) -> Learned | None:
        """Means are learned about those of the data, and all in units of the channels."""
        units: list[tuple[str, Any]] = []
        levels: tuple[Level, ...] = ()
        if self.exog:
            units.append(("coefficient", nested(units_of_coefficients(steps))))
        if self.mean:
            means, known = means_of_changes(steps, np.zeros(0))
            linear = (("coefficient", nested(-known)),) if self.exog else ()
            units.append(("mean", nested(steps.unit)))
            levels = (Level("mean", nested(means), linear),)
        return Learned(tuple(units), levels).without({name for name, _ in self.frozen})

    def system(self, values: Values, steps: Series) -> System:
        folds, kind = folds_of(values)
        width, factors = steps.y.shape[1], self.n_factors
        first = self.factor_order * factors
        size = first + self.error_order * width
        found = System.zeros(size, width, folds, kind)
        channels, own, errors = np.arange(width), slice(0, first), slice(first, size)
        found.loading[0, :, :factors] = values["loading"]
        for lag in range(self.factor_order):
            found.moving[0, :factors, lag * factors : (lag + 1) * factors] = values["ar"][lag]
        found.moving[0, np.arange(factors, first), np.arange(first - factors)] = 1.0
        found.shaking[0, np.arange(factors), np.arange(factors)] = 1.0
        noise = values["noise"] if self.noise == "full" else np.zeros((width, width, folds), kind)
        if self.noise != "full":
            noise[channels, channels] = values["noise"]
        if self.error_order:
            found.loading[0, channels, first + channels] = 1.0
            for lag in range(self.error_order):
                at = first + lag * width + channels
                found.moving[0, first + channels, at] = values["error_ar"][:, lag]
            found.moving[0, np.arange(first + width, size), np.arange(first, size - width)] = 1.0
            found.shaking[0, first : first + width, first : first + width] = noise
        else:
            found.noise[0] = noise
        for part in (own, errors):
            spread = stationary_spread(found.moving[0, part, part], found.shaking[0, part, part])
            found.spread[part, part] = spread
        offset = found.offset + (values["mean"] if self.mean else 0.0)
        if self.exog:
            offset = offset + np.einsum("tq,cqf->tcf", steps.covariates, values["coefficient"])
        return found._replace(offset=offset)

    def start(self, steps: Series, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        """From principal components, as if nothing were missing."""
        seen, count = steps.seen, np.maximum(steps.seen.sum(0), 1)
        mean = (steps.y * seen).sum(0) / count
        apart = np.where(seen, steps.y - mean, 0.0)
        scale = np.sqrt(np.maximum((apart**2).sum(0) / count, 1e-12 * steps.unit**2))
        scores, loading = self._components(apart / scale, rng)
        loading, turn = anchored(loading, self._anchors)
        scores = scores @ turn
        slopes = np.sum(scores[1:] * scores[:-1], 0) / np.sum(scores**2, 0)
        slopes = np.clip(np.nan_to_num(slopes), -0.8, 0.8)
        if rng is not None:
            slopes = rng.uniform(-0.4, 0.9, self.n_factors)
        rest = np.clip(1.0 - np.sum(loading**2, 1), 0.1, 1.0) * scale**2
        loading = loading * np.sqrt(1.0 - slopes**2) * scale[:, None]
        at = (list(self._anchors), range(self.n_factors))
        loading[at] = np.maximum(loading[at], 0.05 * scale[list(self._anchors)])
        ar = np.zeros((self.factor_order, self.n_factors, self.n_factors))
        ar[0] = np.diag(slopes)
        found: dict[str, Any] = {"loading": loading, "ar": ar}
        rest = rest if rng is None else rest * 10.0 ** rng.uniform(-0.7, 0.3, len(rest))
        found["noise"] = np.diag(rest) if self.noise == "full" else rest
        if self.error_order:
            found["error_ar"] = np.zeros((len(mean), self.error_order))
        if self.mean:
            found["mean"] = mean
        if self.exog:
            known = np.column_stack([np.ones(len(apart)), steps.covariates])
            found["coefficient"] = np.linalg.lstsq(known, apart, rcond=None)[0][1:].T
        return self.with_known(found)

    def _components(
        self, standard: np.ndarray, rng: np.random.Generator | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores (T, k) of variance one and loadings (C, k) of standardised channels (T, C); other ones
        when `rng` is given."""
        length, width = standard.shape
        mixed = standard if rng is None else standard * rng.uniform(0.3, 1.7, width)
        axes = np.linalg.svd(mixed, full_matrices=False)[2]
        axes = np.pad(axes, ((0, max(self.n_factors - len(axes), 0)), (0, 0)))[: self.n_factors]
        scores = standard @ axes.T
        scores = scores / np.maximum(np.sqrt(np.mean(scores**2, 0)), 1e-8)
        return scores, 0.9 * standard.T @ scores / length

    def remarks(self, params: Values, lengths: np.ndarray) -> dict[str, str]:
        """What a printed fit says of its parameters, given how long its sequences are: factors of levels
        wander, which makes slow fits and poor ones."""
        size = self.n_factors * self.factor_order
        companion = np.eye(size, k=-self.n_factors)
        companion[: self.n_factors] = np.hstack(list(np.asarray(params["ar"], float)))
        root = np.abs(np.linalg.eigvals(companion)).max()
        if root < 1.0 - _APART / max(np.max(lengths), 1):
            return {}
        return {
            "ar": f"a root of {root:.4f}, beside 1: where channels are levels, fit their changes, "
            "np.diff(y, axis=0)"
        }

    @property
    def state_names(self) -> tuple[str, ...]:
        now = [f"factor[{number}]" for number in range(self.n_factors)]
        back = [f"{name} lag {lag}" for lag in range(1, self.factor_order) for name in now]
        return tuple(now + back)
