"""Ihler et al.'s time-varying Poisson process: daily background, and events that add counts.

    x_t = background + excess,   background ~ Poisson(rate * day[d_t]),   d_t the day of the week
    excess = 0 when z_t = 0,     excess ~ NegativeBinomial(a, b / (1 + b)) when z_t = 1

The excess is summed out, so an event's count is a convolution of the two distributions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from fitonce.constraints import Constraint, Positive, Simplex
from fitonce.data import Sequences
from fitonce.models.base import Rows
from fitonce.models.emissions import (
    dirichlet_log_prior,
    gamma_log_prior,
    require_counts_of,
    require_gamma,
)
from fitonce.models.hmm import HMM
from fitonce.numerics import Array, logsumexp
from fitonce.params import Params

DAYS = 7
_LARGEST_COUNT = 2000


@dataclass(frozen=True)
class EventEmission:
    """Parameters: `rate`, `day_share` (7 shares that sum to one; day = 7 * share), `a`, `b`."""

    steps_per_day: int
    first_day: int
    rate_prior: tuple[float, ...]
    a_prior: tuple[float, ...]
    b_prior: tuple[float, ...]
    day_concentration: float
    deduplicate: ClassVar[bool] = True

    def check(self, data: Sequences) -> None:
        if len(data.channels) != 1:
            raise ValueError(f"event counts need one channel, got {len(data.channels)}")
        require_counts_of(data, "the event-count model")
        largest = int(data.values.max())
        if largest > _LARGEST_COUNT:
            raise ValueError(
                f"the event-count model sums over every possible excess, so counts may be at most "
                f"{_LARGEST_COUNT:,}, got {largest:,}; use coarser units or a PoissonHMM"
            )

    def covariates(self, data: Sequences) -> np.ndarray | None:
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
        """One (rows, largest + 1) table: excess e and background count - e, for every distinct row."""
        count = rows.x[:, 0].astype(int)
        rate = params["rate"] * DAYS * params["day_share"][rows.covariates[:, 0].astype(int)]
        excess = np.arange(rows.largest + 1)
        log_excess = _negative_binomial(rows.largest, params["a"], params["b"])
        rest = count[:, None] - excess
        possible = rest >= 0
        rest = jnp.where(possible, rest, 0)
        log_factorial = jnp.asarray(np.cumsum(np.log(np.maximum(excess, 1))))
        log_rest = rest * jnp.log(rate)[:, None] - rate[:, None] - log_factorial[rest]
        joint = jnp.where(possible, log_rest + log_excess, -jnp.inf)
        return jnp.stack([log_rest[:, 0], logsumexp(joint, 1)], 1)


def _negative_binomial(largest: int, a: Array, b: Array) -> Array:
    """(largest + 1,) log probabilities of NegativeBinomial(a, b / (1 + b)) at 0 .. largest.

    Gamma(n + a) / (Gamma(a) n!) as a cumulative product: exact, and its second derivatives compile
    in a moment where those of the log-gamma function take seconds.
    """
    terms = jnp.log(a + np.arange(largest)) - np.log(np.arange(1.0, largest + 1)) - jnp.log1p(b)
    first = a * (jnp.log(b) - jnp.log1p(b))
    return first + jnp.concatenate([jnp.zeros(1), jnp.cumsum(terms)])


def EventCounts(  # noqa: N802 - reads as the model it makes
    steps_per_day: int,
    *,
    first_day: int = 0,
    rate_prior: tuple[float, float] = (1.0, 0.05),
    a_prior: tuple[float, float] = (5.0, 1.0),
    b_prior: tuple[float, float] = (1.0, 3.0),
    day_concentration: float = 1.0,
    stay_quiet_prior: tuple[float, float] = (99.0, 1.0),
    stay_in_event_prior: tuple[float, float] = (9.0, 1.0),
    frozen: Any = (),
) -> HMM:
    """The paper's time-varying Poisson process for counts with a weekly rhythm and events.

    State 0 is quiet, state 1 an event; the first state is uniform and not learned, which leaves 11
    free parameters.

    Args:
        steps_per_day: how many time steps make a day (288 for five minutes).
        first_day: day of the week (0 to 6) of the first step; only names the shares.
        rate_prior, a_prior, b_prior: shape and rate of Gamma priors. The paper gives no numbers; these
            are weak: means 20, 5 and 1/3 (a / b is the mean excess of an event).
        day_concentration: Dirichlet prior of the seven day shares; the paper's 1 is flat, more is needed
            when a day of the week never occurs in the data.
        stay_quiet_prior, stay_in_event_prior: Beta priors on transition[0,0] and transition[1,1].
        frozen: parameter names and the values at which to hold them.
    """
    for name, value, least in (("steps_per_day", steps_per_day, 1), ("first_day", first_day, 0)):
        if not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {value}")
    for name, prior in (("rate_prior", rate_prior), ("a_prior", a_prior), ("b_prior", b_prior)):
        require_gamma(name, prior)
    if not day_concentration > 0:
        raise ValueError(f"day_concentration must be positive, got {day_concentration}")
    priors = (tuple(rate_prior), tuple(a_prior), tuple(b_prior))  # hashable, whatever was given
    emission = EventEmission(steps_per_day, first_day, *priors, day_concentration)
    stay_quiet, leave_quiet = stay_quiet_prior
    stay_event, leave_event = stay_in_event_prior
    return HMM(
        2,
        emission,
        transition_concentration=((stay_quiet, leave_quiet), (leave_event, stay_event)),
        frozen={"initial": (0.5, 0.5), **dict(frozen)},
    )
