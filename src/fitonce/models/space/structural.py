"""Structural time series: level, trend, seasons, cycle, autoregression and regressors that add up."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np

from fitonce.core.arguments import (
    require,
    require_choice,
    require_count,
    require_flag,
    require_number,
    require_text,
)
from fitonce.core.constraints import Constraint, Free
from fitonce.core.numerics import is_number
from fitonce.core.series_constraints import Interval, Stationary, Variance
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences
from fitonce.models.space import parts
from fitonce.models.space.counts import DENSITIES, CountDensity
from fitonce.models.space.learned import Learned, nested, units_of_coefficients
from fitonce.models.space.parts import Component
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

LEVELS = ("fixed", "local", "drift", "trend", "smooth trend", "fixed trend")
_SLOPES = ("drift", "trend", "smooth trend", "fixed trend")
_LONGEST = 0.9999  # damping: a cycle of one size is the limit of ever less noise and ever less damping
_SHARES = {"slope": 0.01, "seasonal": 0.01}  # of a unit's square, at the start of fits; others 0.4
_STILL = 0.004  # the share of a part that hardly moves
_SMALLEST = {"slope": -5.0, "seasonal": -4.0}  # logarithms of shares at random starts; others -3


def _drawn(names: list[str], rng: np.random.Generator) -> dict[str, float]:
    """Shares of variances at random, of which one at least is as large as the changes of the data: any
    part may be the one that makes them, unless it is the only one."""
    drawn = {name: rng.uniform(_SMALLEST.get(name, -3.0), 0.0) for name in names}
    largest = max(drawn.values()) if len(drawn) > 1 else 0.0
    return {name: 0.4 * 10.0 ** (value - largest) for name, value in drawn.items()}


@dataclass(frozen=True)
class Structural(SpaceModel):
    """A structural time series of one channel: y_t = level + seasons + cycle + regression + noise.

    Parameters are variances, which may be zero, coefficients, and the frequency and damping of a cycle,
    by maximum likelihood (the prior is flat). Nothing is known about the first state: its prior is
    diffuse, exactly. Autoregressions, and cycles that are damped and renewed, are stationary.

    Args:
        level: "local" (a random walk), "trend" (a random walk whose slope is one, too), "smooth trend"
            (only the slope moves), "drift" (a random walk with a fixed slope), "fixed" (a constant),
            "fixed trend" (a straight line); None: no level.
        seasonal: the period of seasons, in steps; with `harmonics` it need not be a whole number.
        harmonics: the number of waves that seasons are made of; None: one free effect for each season.
        cycle: whether there is a wave of a period that is estimated.
        damped: whether the cycle fades, so that it is renewed by its noise.
        ar: the order of a stationary autoregression.
        noise: whether observations have noise of their own; None: unless they are counts, which vary by
            themselves. Of counts, it is on the scale of the states: they vary more than others would.
        exog: names of covariates of the data, each with a coefficient.
        moving_seasonal, moving_cycle: whether seasons and the cycle change with time.
        periods: the shortest and longest period of the cycle, in steps.
        frozen: parameters by name that are known, such as {"slope": 0.0}.
        observations: "gaussian", "poisson" counts, whose mean has the sum of the parts as its logarithm,
            or "binomial" counts, whose probability has it as its log-odds. Likelihoods of counts are
            Laplace approximations.
        exposure: the name of a covariate, the exposure: means of Poisson counts are per unit of it.
        trials: of binomial counts: their number, or the name of a covariate that has it.
    """

    level: str | None = "local"
    seasonal: float | None = None
    harmonics: int | None = None
    cycle: bool = False
    damped: bool = True
    ar: int = 0
    noise: bool | None = None
    exog: Any = ()
    moving_seasonal: bool = True
    moving_cycle: bool = True
    periods: tuple[float, float] = (2.5, 100.0)
    frozen: Any = ()
    observations: str = "gaussian"
    exposure: str | None = None
    trials: int | str = 1

    def __post_init__(self) -> None:
        self._check_observations()
        require_choice("level", self.level, LEVELS, optional=True)
        for name in ("cycle", "damped", "noise", "moving_seasonal", "moving_cycle"):
            require_flag(name, getattr(self, name))
        require_count("ar", self.ar, least=0)
        require_count("harmonics", self.harmonics, least=1, optional=True)
        object.__setattr__(self, "periods", self._read_periods())
        if self.seasonal is None:
            self._refuse_unused("a period in seasonal", "harmonics", "moving_seasonal")
        if not self.cycle:
            self._refuse_unused("cycle=True", "damped", "moving_cycle", "periods")
        if self.seasonal is not None:
            self._check_seasons(self.seasonal)
        object.__setattr__(self, "exog", covariate_names("exog", self.exog))
        object.__setattr__(self, "frozen", frozen_pairs(self.frozen))
        if not (self.level or self.seasonal or self.cycle or self.ar or self.noise):
            raise ValueError(
                "a Structural model needs a part: level, seasonal, cycle, ar or noise, got none"
            )

    def _refuse_unused(self, needed: str, *names: str) -> None:
        """Raise where arguments that say something about an absent part are not as by default."""
        usual = {one.name: one.default for one in fields(self)}
        for name in names:
            value = getattr(self, name)
            require(value == usual[name], name, f"{usual[name]} without {needed}", value)

    def _read_periods(self) -> tuple[float, float]:
        given: Any = self.periods
        pair = isinstance(given, (tuple, list, np.ndarray)) and len(given) == 2
        fine = pair and all(map(is_number, given)) and 2 <= given[0] < given[1]
        expected = "two numbers from 2, the shortest and then the longest period"
        require(fine, "periods", expected, given)
        return float(given[0]), float(given[1])

    def _check_seasons(self, period: float) -> None:
        if self.harmonics is None:
            expected = "a whole number of steps from 2 (any period with harmonics)"
            require(
                is_number(period) and period >= 2 and period == int(period), "seasonal", expected, period
            )
            return
        require_number("seasonal", period, above=1.0)
        most = int(period // 2)
        require(
            self.harmonics <= most, "harmonics", f"at most {most}, half of the period", self.harmonics
        )

    def _check_observations(self) -> None:
        require_choice("observations", self.observations, ("gaussian", *DENSITIES))
        if self.noise is None:
            object.__setattr__(self, "noise", self.observations == "gaussian")
        require_text("exposure", self.exposure, optional=True)
        poisson, binomial = self.observations == "poisson", self.observations == "binomial"
        expected = "None unless observations are 'poisson'"
        require(self.exposure is None or poisson, "exposure", expected, self.exposure)
        trials: Any = self.trials
        fine = isinstance(trials, str) or (is_number(trials) and trials >= 1 and trials == int(trials))
        require(fine, "trials", "an integer of at least 1 or the name of a covariate", trials)
        require(trials == 1 or binomial, "trials", "1 unless observations are 'binomial'", trials)

    @property
    def density(self) -> CountDensity | None:
        return DENSITIES.get(self.observations)

    @property
    def _size(self) -> str | None:
        """The covariate that has exposures or trials."""
        return self.trials if isinstance(self.trials, str) else self.exposure

    @property
    def covariates(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.exog if self._size is None else (*self.exog, self._size)

    def read(self, steps: Series) -> Series:
        if self.density is None:
            return steps
        counts, exog = steps.y[:, 0], steps.covariates[:, : len(self.exog)]
        sizes = self._sizes(steps.covariates)
        near = np.where(steps.seen, self.density.nearest(counts, sizes)[:, None], 0.0)
        return Series(near, steps.seen, steps.starts, exog, counts, sizes)

    def _sizes(self, covariates: np.ndarray) -> np.ndarray:
        """(...,) exposures or trials, the last of covariates (..., Q)."""
        if self._size is not None:
            return covariates[..., -1]
        return np.full(covariates.shape[:-1], float(self.trials))

    def __str__(self) -> str:
        usual = self.observations == "gaussian"
        others = other_fields(self, "level", noise=usual)
        return f"Structural({', '.join([f'level={self.level!r}', *others])})"

    def count_states(self, width: int) -> int:
        waves = 0 if self.seasonal is None else 2 * (self.harmonics or 0) or int(self.seasonal) - 1
        return waves + self.ar

    def check(self, steps: Series, data: Sequences) -> None:
        if len(data.channels) != 1:
            raise ValueError(
                f"Structural models one channel, got data of {counted(len(data.channels), 'channel')}; "
                "give several series as several sequences"
            )
        if self.density is not None:
            sizes = self._sizes(data.covariates_of(self.covariates))
            self.density.check(data, sizes[..., None], self._size)

    def leaves(self, steps: Series) -> dict[str, Constraint]:
        unit = float(steps.unit[0])
        variance = Variance((), unit)
        found: dict[str, Constraint] = {}
        if self.noise:
            found["noise"] = variance
        if self.level in ("local", "drift", "trend"):
            found["level"] = variance
        if self.level in ("trend", "smooth trend"):
            found["slope"] = Variance((), unit / 16.0)
        if self.seasonal is not None and self.moving_seasonal:
            found["seasonal"] = Variance((), unit / 4.0)
        if self.cycle:
            low, high = self.periods
            found["frequency"] = Interval((), 2.0 * np.pi / high, 2.0 * np.pi / low)
            if self.damped:
                found["damping"] = Interval((), 0.0, _LONGEST if self._renewed else 1.0)
            if self.moving_cycle:
                found["cycle"] = variance
        if self.ar:
            found["ar"] = Stationary((self.ar,))
            found["ar_noise"] = variance
        if self.exog:
            found["coefficient"] = Free((len(self.exog),))
        return found

    @property
    def _renewed(self) -> bool:
        """Whether the cycle is stationary. From a diffuse start a cycle that is gone after a step would
        have an unbounded likelihood: nothing would say where it began."""
        known = dict(self.frozen)
        return (
            self.damped
            and self.moving_cycle
            and known.get("damping", 0) < 1
            and known.get("cycle", 1) > 0
        )

    def _parts(self, values: Values, folds: int) -> dict[str, Component]:
        still = np.zeros(folds)
        found: dict[str, Component] = {}
        if self.level is not None:
            found["level"] = parts.level(values, self.level in _SLOPES, folds)
        if self.seasonal is not None:
            variance = values.get("seasonal", still)
            if self.harmonics is None:
                found["seasonal"] = parts.dummies(int(self.seasonal), variance)
            else:
                found["seasonal"] = parts.harmonics(float(self.seasonal), self.harmonics, variance)
        if self.cycle:
            damping = values.get("damping", np.ones(folds))
            part = parts.cycle(values["frequency"], damping, values.get("cycle", still))
            found["cycle"] = part._replace(diffuse=not self._renewed)
        if self.ar:
            found["ar"] = parts.autoregression(values["ar"], values["ar_noise"])
        return found or {
            "level": Component(np.zeros(1), np.zeros((1, 1, folds)), np.zeros((1, 1, folds)), False)
        }

    def coordinates(self, steps: Series) -> Learned | None:
        if not self.exog:
            return None
        units = nested(units_of_coefficients(steps)[0, : len(self.exog)])
        return Learned((("coefficient", units),)).without({name for name, _ in self.frozen})

    def system(self, values: Values, steps: Series) -> System:
        folds, kind = folds_of(values)
        made = self._parts(values, folds)
        size = sum(len(part.loading) for part in made.values())
        places = [part.diffuse for part in made.values() for _ in part.loading]
        found = System.zeros(size, 1, folds, kind)
        first = 0
        for part in made.values():
            own = slice(first, first + len(part.loading))
            found.loading[0, 0, own] = part.loading[:, None]
            found.moving[0, own, own] = part.moving
            found.shaking[0, own, own] = part.shaking
            if not part.diffuse:
                found.spread[own, own] = stationary_spread(part.moving, part.shaking)
            first = own.stop
        if self.noise:
            found.noise[0, 0, 0] = values["noise"]
        counted_noise = 0.0 if self.density is None else float(steps.unit[0]) ** 2
        found.spread[...] += added_to_diffuse(
            np.array(places), found.noise + counted_noise, found.shaking
        )
        offset = found.offset
        if self.exog:
            offset = (steps.covariates @ values["coefficient"])[:, None]
        return found._replace(diffuse=np.eye(size)[:, np.array(places, bool)], offset=offset)

    def start(self, steps: Series, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        found: dict[str, Any] = {}
        leaves = self.leaves(steps)
        variances = [name for name, leaf in leaves.items() if isinstance(leaf, Variance)]
        shares = dict.fromkeys(variances, 0.4) | _SHARES if rng is None else _drawn(variances, rng)
        for name, leaf in leaves.items():
            if isinstance(leaf, Variance):
                unit = leaf.unit if rng is None else steps.unit[0]
                found[name] = shares[name] * float(unit) ** 2  # type: ignore[arg-type]
            elif name == "frequency":
                found[name] = self._frequency(steps, leaf, rng)  # type: ignore[arg-type]
            elif name == "damping":
                found[name] = 0.9 if rng is None else rng.uniform(0.6, 0.99)
            else:
                size = leaf.shape[0]
                found[name] = np.zeros(size) if rng is None else rng.uniform(-0.3, 0.3, size) / size
        if self.exog:
            found["coefficient"] = steps.regressed()
        return self.with_known(found)

    def rival_starts(self, steps: Series) -> list[list[dict[str, np.ndarray]]]:
        """Each variance large or small. Where level and slope may both move, optima disagree on which
        does: a group for each."""
        names = [name for name, leaf in self.leaves(steps).items() if isinstance(leaf, Variance)]
        free = [name for name in names if name not in dict(self.frozen)]
        if not {"level", "slope"} <= set(free) or self.density is not None:
            return []
        first, unit = self.start(steps, None), float(steps.unit[0]) ** 2
        groups: dict[bool, list[dict[str, np.ndarray]]] = {True: [], False: []}
        for sizes in product((_STILL * unit, 0.4 * unit), repeat=len(free)):
            values = first | dict(zip(free, map(np.asarray, sizes), strict=True))
            groups[bool(values["level"] < values["slope"])].append(values)
        return list(groups.values())

    def _frequency(self, steps: Series, leaf: Interval, rng: np.random.Generator | None) -> float:
        """Where the periodogram of the observations is largest, or anywhere."""
        inside = 1e-3 * (leaf.high - leaf.low)
        if rng is not None:
            return rng.uniform(leaf.low + inside, leaf.high - inside)
        values = np.where(steps.seen[:, 0], steps.y[:, 0], steps.y[steps.seen[:, 0], 0].mean())
        time = np.arange(len(values))
        level = np.polyval(np.polyfit(time, values, 1), time)
        power = np.abs(np.fft.rfft(values - level)) ** 2
        frequencies = 2.0 * np.pi * np.fft.rfftfreq(len(values))
        possible = (frequencies > leaf.low) & (frequencies < leaf.high)
        if not possible.any():
            return 0.5 * (leaf.low + leaf.high)
        best = frequencies[possible][np.argmax(power[possible])]
        return float(np.clip(best, leaf.low + inside, leaf.high - inside))

    @property
    def state_names(self) -> tuple[str, ...]:
        found: list[str] = []
        for name, part in self._example().items():
            size = len(part.loading)
            numbered = [name] if size == 1 else [f"{name}[{number}]" for number in range(size)]
            found += ["level", "slope"][:size] if name == "level" else numbered
        return tuple(found)

    @property
    def unknown_starts(self) -> tuple[str, ...]:
        found = ["level"] if self.level is not None else []
        found += ["slope"] if self.level in _SLOPES else []
        if self.seasonal is not None:
            waves = "" if self.harmonics is None else f" by {counted(self.harmonics, 'harmonic')}"
            found.append(f"seasons of {self.seasonal:g} steps{waves}")
        found += ["cycle"] if self.cycle and not self._renewed else []
        return tuple(f"{one} of the {self.density.scale}" if self.density else one for one in found)

    def components(self, steps: Series) -> dict[str, np.ndarray]:
        size = {name: len(part.loading) for name, part in self._example().items()}
        found, first = {}, 0
        for name, part in self._example().items():
            row = np.zeros(sum(size.values()))
            row[first : first + size[name]] = part.loading
            found[name], first = row, first + size[name]
        return found

    def _example(self) -> dict[str, Component]:
        """The parts at some values: their states and loadings are the same at all."""
        ones = {"frequency": np.ones(1), "ar": np.zeros((self.ar, 1)), "ar_noise": np.ones(1)}
        return self._parts(ones, 1)
