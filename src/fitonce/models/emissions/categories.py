"""Categories, one at a time or counted: categorical and multinomial emissions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from fitonce.core.arguments import read_bools, require, require_count, shown
from fitonce.core.constraints import Constraint, Simplex, as_tuples
from fitonce.core.deferred import jnp
from fitonce.core.memory import require_fits
from fitonce.core.numerics import Array, as_numbers, is_count, safe_log
from fitonce.core.parameters import Params
from fitonce.data.sequences import Sequences
from fitonce.models.emissions import closed_counts as closed
from fitonce.models.emissions.base import (
    Emission,
    EmissionTraits,
    Rows,
    dirichlet_log_prior,
    freeze_value,
    require_counts_of,
    sum_channels,
)
from fitonce.models.emissions.closed_forms import ClosedForms, Observations
from fitonce.models.emissions.closed_support import SupportedCategorical, SupportedMultinomial


def n_categories(data: Sequences) -> int:
    """The number of categories that the largest value implies, at least two."""
    return int(np.max(data.values, initial=1.0)) + 1


def read_concentration(given: Any, categories: int | None) -> Any:
    """A Dirichlet prior of probabilities of categories, checked and hashable."""
    value = as_numbers(given)
    shapes = ((),) if categories is None else ((), (categories,))
    if value is None or value.shape not in shapes or not (value > 0).all():
        each = "" if categories is None else f" or {categories} of them"
        raise ValueError(f"concentration must be a positive number{each}, got {shown(given)}")
    return freeze_value(value)


def _read_support(given: Any) -> Any:
    if given is None:
        return None
    wanted = "bools with a row for each state and a possible category in each row"
    support = read_bools("support", given, wanted, 2, 3)
    require(support.size and support.any(-1).all(), "support", wanted, given)
    return None if support.all() else as_tuples(support.tolist())


_COMMON = 50  # columns of `features`: the most common categories


class _Categories(Emission):
    """Probabilities of M categories in every state and group of channels; subclasses have the fields
    `concentration` and `support`."""

    concentration: Any
    support: Any

    traits = EmissionTraits(m_step=True)

    @property
    def has_support(self) -> bool:
        return True

    @abstractmethod
    def _shape(self, rows: Rows) -> tuple[int, ...]:
        """(G, M), or (M,) on a graph."""

    @abstractmethod
    def _counts(self, rows: Rows) -> np.ndarray:
        """(R, G, M), or (R, M): how often each category was observed."""

    @abstractmethod
    def _seen(self, data: Sequences) -> np.ndarray:
        """(G, M): which categories were observed at all."""

    def check_to_fit(self, data: Sequences) -> None:
        if self.support is None:
            return
        seen = self._seen(data)
        support = np.asarray(self.support).any(0)
        if support.shape[-1] == seen.shape[-1] and (impossible := seen & ~support).any():
            category = np.argwhere(impossible)[0][-1]
            raise ValueError(f"category {category} is observed, but support allows it in no state")

    def _possible(self, n_states: int, rows: Rows) -> np.ndarray:
        """Which probabilities may be positive, of their shape."""
        shape = (n_states, *self._shape(rows))
        if self.support is None:
            return np.ones(shape, bool)
        support = np.asarray(self.support)
        support = support[:, None] if support.ndim == 2 and len(shape) == 3 else support
        if support.ndim != len(shape) or (support.shape[0], support.shape[-1]) != (shape[0], shape[-1]):
            raise ValueError(f"support must have shape {shape}, got {np.shape(self.support)}")
        return np.broadcast_to(support, shape)

    def _possible_in(self, groups: int, categories: int) -> np.ndarray:
        """(K, G, M) the same of chains, where there is a support."""
        support = np.asarray(self.support)
        support = support[:, None] if support.ndim == 2 else support
        return np.broadcast_to(support, (len(support), groups, categories))

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        possible = self._possible(n_states, rows)
        support = None if possible.all() else as_tuples(possible.tolist())
        return {"probability": Simplex(possible.shape, support)}

    def features(self, rows: Rows) -> np.ndarray:
        """Roots of shares of each category, or of the most common ones."""
        counts = self._counts(rows).reshape(len(rows.x), -1, self._shape(rows)[-1])
        totals = counts.sum(-1, keepdims=True)
        common = np.argsort(-counts.sum((0, 1)), kind="stable")[:_COMMON]
        shares = np.sqrt(counts[..., np.sort(common)] / np.where(totals > 0, totals, np.nan))
        return shares.reshape(len(rows.x), -1)

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        rng = rng or np.random.default_rng(0)
        counts = self._counts(rows)
        shares = 1.0 + np.tensordot(np.asarray(rows.counts), counts, (0, 0))
        shares = shares / shares.sum(-1, keepdims=True)
        tilted = shares * rng.gamma(2.0, 0.5, (n_states, *shares.shape))
        tilted = np.where(self._possible(n_states, rows), tilted, 0.0)
        return {"probability": tilted / tilted.sum(-1, keepdims=True)}

    def log_prior(self, params: Params, rows: Rows) -> Array:
        # Frozen probabilities may be exactly zero, and those outside the support are; others never are.
        return dirichlet_log_prior(
            params["probability"], np.asarray(self.concentration), params["probability"] > 0
        )

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        counts = np.tensordot(shares, self._counts(rows), (0, 0)) + np.asarray(self.concentration) - 1.0
        possible = self._possible(shares.shape[1], rows)
        counts = np.where(possible, np.maximum(counts, 1e-8), 0.0)
        return {"probability": counts / counts.sum(-1, keepdims=True)}


@dataclass(frozen=True)
class Categorical(_Categories):
    """Integer categories 0 .. n_categories - 1; `probability` is (K, C, M), or (K, M) on a graph.

    Args:
        n_categories: M.
        concentration: Dirichlet prior on the probabilities: a number, or one for each category.
        support: (K, M) or (K, C, M) bools, false for categories that are impossible in a state: their
            probability is exactly zero.
    """

    n_categories: int
    concentration: Any = 1.1
    support: Any = None

    def __post_init__(self) -> None:
        require_count("n_categories", self.n_categories, 2)
        require_fits("n_categories", self.n_categories, lambda n: 8 * n, "the probabilities of a state")
        checked = read_concentration(self.concentration, self.n_categories)
        object.__setattr__(self, "concentration", checked)
        object.__setattr__(self, "support", _read_support(self.support))

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        require_categories(data, self.n_categories, "a categorical emission")

    def _shape(self, rows: Rows) -> tuple[int, ...]:
        return (*rows.x.shape[1:], self.n_categories)

    def _counts(self, rows: Rows) -> np.ndarray:
        return (np.asarray(rows.x)[..., None] == np.arange(self.n_categories)) & rows.mask()[..., None]

    def _seen(self, data: Sequences) -> np.ndarray:
        categories = np.arange(self.n_categories)
        return ((data.values[..., None] == categories) & data.observed[..., None]).any((0, 1))

    def log_density(self, params: Params, rows: Rows) -> Array:
        table = jnp.moveaxis(safe_log(params["probability"]), 0, -1)  # (..., M, K)
        chosen = jnp.take_along_axis(table[None], rows.x.astype(int)[..., None, None], -2)
        return sum_channels(jnp.moveaxis(chosen[..., 0, :], -1, 1), rows)

    def closed_forms(self, rows: Observations) -> ClosedForms | None:
        given = (self.n_categories, self.concentration)
        if self.support is None:
            return closed.ClosedCategorical(*given)
        return SupportedCategorical(*given, self._possible_in(rows.x.shape[1], self.n_categories))

    def draw(self, params: Params, states: np.ndarray, known: np.ndarray, rng: Any) -> np.ndarray:
        return drawn_categories(params["probability"][states], rng)


def drawn_categories(probability: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random categories with probabilities (..., M)."""
    below = np.cumsum(probability, -1)
    return (rng.random(below.shape[:-1])[..., None] > below[..., :-1]).sum(-1).astype(float)


def require_categories(data: Sequences, categories: int, what: str) -> None:
    """Raise unless all observed values are integers below the number of categories."""
    require_counts_of(data, what)
    highest = int(data.values[data.observed].max())
    if highest >= categories:
        raise ValueError(f"n_categories={categories} allows 0 to {categories - 1}, got {highest}")


@dataclass(frozen=True)
class Multinomial(_Categories):
    """Counts of M categories in a number of trials: every channel has the count of one category.
    `probability` is (K, G, M), G the number of groups of M channels that follow each other; usually one.

    Args:
        concentration: Dirichlet prior on the probabilities: a number, or one for each category.
        trials: their number, or the name of a covariate that has it; None: what the counts of each step
            add up to, with which data cannot be drawn.
        n_categories: M, where there are several groups; None: the number of channels.
        support: (K, M) or (K, G, M) bools, false for categories that are impossible in a state.
    """

    concentration: Any = 1.1
    trials: int | str | None = None
    n_categories: int | None = None
    support: Any = None

    def __post_init__(self) -> None:
        require_count("n_categories", self.n_categories, 2, optional=True)
        require(
            self.trials is None or isinstance(self.trials, str) or is_count(self.trials),
            "trials",
            "an integer of at least 1, the name of a covariate or None",
            self.trials,
        )
        given = as_numbers(self.concentration)
        categories = self.n_categories or (len(given) if given is not None and given.ndim else None)
        checked = read_concentration(self.concentration, categories)
        object.__setattr__(self, "concentration", checked)
        object.__setattr__(self, "support", _read_support(self.support))

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.trials,) if isinstance(self.trials, str) else ()

    def covariates(self, data: Sequences) -> np.ndarray | None:
        return data.covariates_of(self.reads) if self.reads else None

    def _width(self, channels: int) -> int:
        return channels if self.n_categories is None else self.n_categories

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        require_counts_of(data, "a multinomial emission")
        channels = len(data.channels)
        width = self._width(channels)
        if channels < 2 or channels % width:
            several = "two or more channels, one for each category"
            wanted = several if self.n_categories is None else f"a multiple of {width} channels"
            raise ValueError(f"a multinomial emission needs {wanted}, got {channels}")
        if np.ndim(self.concentration) and len(self.concentration) != width:
            raise ValueError(
                f"concentration must be a number or {width} of them, got {len(self.concentration)}"
            )
        seen = data.observed.reshape(*data.observed.shape[:2], -1, width)
        if (seen.any(-1) != seen.all(-1)).any():
            raise ValueError(
                "a multinomial emission needs the counts of all categories of a step, or of none"
            )
        if self.trials is None:
            return
        totals = np.where(seen, data.values.reshape(seen.shape), 0.0).sum(-1)
        known = data.covariates_of(self.reads) if self.reads else np.full((1, 1, 1), float(self.trials))
        off = seen.all(-1) & (totals != known)
        if off.any():
            wanted = np.broadcast_to(known, totals.shape)[off][0]
            raise ValueError(
                f"the counts of a step must add up to its trials, {wanted:g}, got {totals[off][0]:g}"
            )

    def _shape(self, rows: Rows) -> tuple[int, ...]:
        width = self._width(rows.x.shape[1])
        return (rows.x.shape[1] // width, width)

    def _counts(self, rows: Rows) -> np.ndarray:
        return (np.asarray(rows.x) * rows.mask()).reshape(len(rows.x), *self._shape(rows))

    def _seen(self, data: Sequences) -> np.ndarray:
        seen = ((data.values > 0) & data.observed).any((0, 1))
        return seen.reshape(-1, self._width(len(seen)))

    def constant(self, x: np.ndarray, exposure: np.ndarray | None) -> np.ndarray:
        width = self._width(x.shape[1])
        totals = x.reshape(len(x), -1, width).sum(-1)
        return np.repeat(gammaln(totals + 1.0) / width, width, 1) - gammaln(x + 1.0)

    def log_density(self, params: Params, rows: Rows) -> Array:
        logs = safe_log(params["probability"]).reshape(len(params["probability"]), -1)
        counts = rows.x[:, None]
        return sum_channels(jnp.where(counts == 0, 0.0, counts * logs), rows)

    def closed_forms(self, rows: Observations) -> ClosedForms | None:
        width, channels = self._width(rows.x.shape[1]), rows.x.shape[1]
        if self.support is None:
            return closed.ClosedMultinomial(width, self.concentration)
        possible = self._possible_in(channels // width, width)
        return SupportedMultinomial(width, self.concentration, possible)

    def draw(self, params: Params, states: np.ndarray, known: np.ndarray, rng: Any) -> np.ndarray:
        if self.trials is None:
            raise ValueError("drawing from a multinomial emission needs trials=, their number")
        trials = known[:, -1] if self.reads else np.full(len(states), float(self.trials))
        probability = params["probability"][states]
        drawn = rng.multinomial(trials.astype(int)[:, None], probability)
        return drawn.reshape(len(states), -1).astype(float)
