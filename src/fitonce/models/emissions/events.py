"""Ihler et al.'s time-varying Poisson process: a daily background, and events that add counts.

    x_t = background + excess,   background ~ Poisson(rate * day[d_t]),   d_t the day of the week
    excess = 0 when z_t = 0,     excess ~ NegativeBinomial(a, b / (1 + b)) when z_t = 1

The excess is summed out, so that the count during an event has the convolution of both distributions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitonce.core.constraints import Constraint, Positive, Simplex
from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array, logsumexp
from fitonce.core.parameters import Params
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import (
    Emission,
    EmissionTraits,
    Rows,
    dirichlet_log_prior,
    gamma_log_prior,
    require_counts_of,
)
from fitonce.models.emissions.closed_events import DAYS, ClosedEvents
from fitonce.models.emissions.closed_forms import ClosedForms, Observations

_LARGEST_COUNT = 2000


@dataclass(frozen=True)
class EventEmission(Emission):
    """Parameters: `rate`, `day_share` (7 shares that sum to 1; day = 7 * share), `a`, `b`."""

    steps_per_day: int
    first_day: int
    rate_prior: tuple[float, ...]
    a_prior: tuple[float, ...]
    b_prior: tuple[float, ...]
    day_concentration: float

    traits = EmissionTraits(deduplicate=True, along_time=True)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        if len(data.channels) != 1:
            raise ValueError(f"event counts need one channel, got {len(data.channels)}")
        require_counts_of(data, "the event-count model")
        largest = int(data.values.max())
        if largest > _LARGEST_COUNT:
            raise ValueError(
                f"the event-count model sums over every possible excess, so counts may be at most "
                f"{_LARGEST_COUNT:,}, got {largest:,}; use coarser units or a PoissonHMM"
            )

    def check_to_fit(self, data: Sequences) -> None:
        """Under a flat prior nothing says what the share of a day without counts is."""
        if self.day_concentration > 1:
            return
        days = self.covariates(data)[..., 0]
        absent = [day for day in range(DAYS) if not (data.observed[..., 0] & (days == day)).any()]
        if absent:
            raise ValueError(
                f"event counts have a share for each day of the week, but on day "
                f"{', '.join(map(str, absent))} (of 0 to 6; the first step is on day {self.first_day}) "
                "nothing was observed; give day_concentration= (--day-concentration) above 1, such as "
                "1.1, or use a Poisson HMM"
            )

    def covariates(self, data: Sequences) -> np.ndarray:
        rows, steps, _ = data.values.shape
        day = (np.arange(steps) // self.steps_per_day + self.first_day) % DAYS
        return np.tile(day[None, :, None], (rows, 1, 1)).astype(float)

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        return {"rate": Positive(), "day_share": Simplex((DAYS,)), "a": Positive(), "b": Positive()}

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        x, counts = np.asarray(rows.x)[:, 0], np.asarray(rows.counts)
        day = np.asarray(rows.covariates)[:, 0]
        level = np.average(x, weights=counts)
        spread = np.average((x - level) ** 2, weights=counts)
        means = np.full(DAYS, level)
        for d in range(DAYS):
            if counts[day == d].sum() > 0:
                means[d] = np.average(x[day == d], weights=counts[day == d])
        share = np.maximum(means, 0.01 * level + 1e-3)
        excess = max(np.sqrt(spread), 1.0) * (1.0 if rng is None else rng.uniform(0.3, 3.0))
        base = max(level, 0.1) * (0.7 if rng is None else rng.uniform(0.4, 1.0))
        return {
            "rate": np.array(base),
            "day_share": share / share.sum(),
            "a": np.array(2.0),
            "b": np.array(2.0 / excess),
        }

    def log_prior(self, params: Params, rows: Rows) -> Array:
        return (
            dirichlet_log_prior(params["day_share"], self.day_concentration, True)
            + gamma_log_prior(params["rate"], *self.rate_prior)
            + gamma_log_prior(params["a"], *self.a_prior)
            + gamma_log_prior(params["b"], *self.b_prior)
        )

    def log_density(self, params: Params, rows: Rows) -> Array:
        """(R, 2), from a table (R, largest + 1) of every excess e and background x - e."""
        rate = params["rate"] * DAYS * params["day_share"][rows.covariates[:, 0].astype(int)]
        excess = np.arange(rows.largest + 1)
        log_excess = _negative_binomial(rows.largest, params["a"], params["b"])
        rest = rows.x[:, 0].astype(int)[:, None] - excess
        possible = rest >= 0
        rest = jnp.where(possible, rest, 0)
        log_factorial = jnp.asarray(np.cumsum(np.log(np.maximum(excess, 1))))
        log_rest = rest * jnp.log(rate)[:, None] - rate[:, None] - log_factorial[rest]
        joint = jnp.where(possible, log_rest + log_excess, -jnp.inf)
        return jnp.stack([log_rest[:, 0], logsumexp(joint, 1)], 1)

    def draw(
        self, params: Params, states: np.ndarray, known: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        rate = params["rate"] * DAYS * params["day_share"][known[:, 0].astype(int)]
        excess = rng.poisson(rng.gamma(params["a"], 1.0 / params["b"], len(states)))
        return (rng.poisson(rate) + np.where(states == 1, excess, 0)).astype(float)[:, None]

    def closed_forms(self, rows: Observations) -> ClosedForms:
        return ClosedEvents(self.rate_prior, self.a_prior, self.b_prior, self.day_concentration)


def _negative_binomial(largest: int, a: Array, b: Array) -> Array:
    """(largest + 1,) log probabilities of NegativeBinomial(a, b / (1 + b)) at 0 .. largest.

    Gamma(n + a) / (Gamma(a) n!) is a cumulative product: exact, and its second derivatives compile
    much faster than those of the log-gamma function.
    """
    terms = jnp.log(a + np.arange(largest)) - np.log(np.arange(1.0, largest + 1)) - jnp.log1p(b)
    first = a * (jnp.log(b) - jnp.log1p(b))
    return first + jnp.concatenate([jnp.zeros(1), jnp.cumsum(terms)])
