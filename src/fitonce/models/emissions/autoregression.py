"""Autoregressive emissions: each step is a regression on the p steps before it, one for each state.

    x_t | z_t = k  ~  Normal(f_k(x_t-1, ..., x_t-p), noise I)

f_k is linear (`LinearAutoregression`) or a small network (`NeuralAutoregression`). The first p steps
of a sequence are only conditioned on: they are regressors, not modelled. The same holds for the p steps
after a missing one, whose regressors are incomplete: summing out a missing regressor would mix the
states of p + 1 steps, so such steps are conditioned on and not scored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitonce.core.arguments import require_count, require_number
from fitonce.core.constraints import Constraint, Free
from fitonce.core.deferred import jnp
from fitonce.core.memory import require_fits
from fitonce.core.numerics import Array
from fitonce.core.parameters import Params
from fitonce.core.units import in_units
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import Blocks, Emission, EmissionTraits, Rows
from fitonce.models.emissions.closed_forms import ClosedForms, Observations, Values
from fitonce.models.emissions.closed_network import ClosedNetwork
from fitonce.models.emissions.closed_regression import ClosedLinearRegression, ClosedRegression
from fitonce.models.emissions.gauss_newton import Layers, Problem, improved
from fitonce.models.emissions.regression import (
    NoiseModel,
    mean_variance,
    ridge,
    spread_of,
    starting_shares,
    unit_of,
)


@dataclass(frozen=True)
class Lagged(Emission):
    """Lags of the data; a subclass models how a step depends on the `order` steps before it."""

    order: int
    noise: NoiseModel

    traits = EmissionTraits(along_time=True)

    def modelled(self, data: Sequences) -> Sequences:
        """The data with steps that are only conditioned on marked as such."""
        order = self.order
        short = np.flatnonzero(data.lengths <= order)
        if short.size:
            raise ValueError(
                f"an autoregression of order {order} needs sequences of at least "
                f"{counted(order + 1, 'step')}, but sequence {short[0]} has {data.lengths[short[0]]}"
            )
        known = data.observed if data.conditioned is None else data.observed | data.conditioned
        complete = np.asarray(known.all(-1))
        explained = data.valid.copy()
        for lag in range(1, order + 1):
            explained[:, lag:] &= complete[:, :-lag]
            explained[:, :lag] = False
        observed = known & explained[..., None]
        if known.any() and not observed.any():
            raise ValueError(
                f"an autoregression of order {order} needs a step with "
                f"{counted(order, 'complete step')} before it, found none"
            )
        return replace(data, observed=observed, conditioned=known & ~observed)

    def check_to_fit(self, data: Sequences) -> None:
        if self.noise.kind == "fixed" or self.noise.scale is not None:
            return
        parts = [data.values[..., c][data.observed[..., c]] for c in range(len(data.channels))]
        if all(np.ptp(values) == 0 for values in parts if values.size):
            raise ValueError(
                "the data are constant, so the variance of the noise has no estimate; fix it, or set "
                "its prior spread with scale="
            )

    def covariates(self, data: Sequences) -> np.ndarray | None:
        """(N, T, order * C) lagged values, the latest first; zeros before the start of a sequence."""
        count, steps, channels = data.values.shape
        lags = np.zeros((count, steps, self.order, channels))
        for lag in range(1, self.order + 1):
            lags[:, lag:, lag - 1] = data.values[:, :-lag]
        return lags.reshape(count, steps, self.order * channels)

    @property
    def lags(self) -> int:
        return self.order

    @abstractmethod
    def means(self, params: Params, known: np.ndarray) -> np.ndarray:
        """(m, K, C) of the next step, given lagged values (m, order * C)."""

    def draw(
        self, params: Params, states: np.ndarray, known: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        means = self.means(params, known)[np.arange(len(states)), states]
        spread = np.sqrt(self.noise.per_state(params, len(params["transition"])))
        return means + spread[states][:, None] * rng.normal(size=means.shape)


@dataclass(frozen=True)
class Autoregression(Lagged):
    """With regressions of each state, and closed forms."""

    traits = EmissionTraits(along_time=True, by_state=True, m_step=True, em_starts=True)

    @abstractmethod
    def _closed(self, spread: float) -> ClosedRegression:
        """Closed forms for data of variance `spread`, which only the prior needs."""

    def _with_prior(self, rows: Observations) -> ClosedRegression:
        return self._closed(float(mean_variance(rows.x, rows.seen * rows.counts[:, None])))

    def _blocks(
        self, second: Callable[..., np.ndarray], params: Params, shares: np.ndarray, rows: Rows
    ) -> Blocks:
        """As for `Emission.information`, from second derivatives of closed forms."""
        arrays = rows.arrays()
        values = Values.at(np.empty(0), {name: np.asarray(value) for name, value in params.items()})
        found = second(values, shares * (arrays.counts > 0)[:, None], arrays)
        return self.noise.split(-found, self._closed(np.nan).variance_place(values))


@dataclass(frozen=True)
class LinearAutoregression(Autoregression):
    """`weight` (K, C, p C), columns of the latest step first, `bias` (K, C), and `variance`.

    Priors: entries of the weight are normal with standard deviation `weight_scale`, around the identity
    for the latest step (x_t is x_t-1, as in the paper) and around zero for earlier ones; those of the
    bias are normal with standard deviation `bias_scale` around zero. None: flat.
    """

    weight_scale: float | None = 1.0
    bias_scale: float | None = 1.0

    traits = replace(Autoregression.traits, information=True)

    def __post_init__(self) -> None:
        check_order(self.order)
        for name in ("weight_scale", "bias_scale"):
            value = getattr(self, name)
            require_number(name, value, above=0, optional=True)

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        channels = rows.x.shape[1]
        names: dict[str, Constraint] = {"bias": in_units(Free((n_states, channels)), unit_of(rows))}
        if self.order:
            names["weight"] = Free((n_states, channels, self.order * channels))
        return names | self.noise.parameters(n_states, rows)

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        begin = {"variance": np.asarray(float(spread_of(rows)) / n_states)}
        return self.maximise(begin, starting_shares(rows, n_states, rng), rows)

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """The M step: the best regressions at the current variance, then the best variance, when row r
        is in state k with probability shares[r, k]."""
        n_states, channels = shares.shape[1], rows.x.shape[1]
        mean = np.zeros((channels, self.order * channels + 1))
        mean[:, :channels] = np.eye(channels) if self.order else 0.0
        weight_scale, bias_scale = (
            np.inf if scale is None else scale for scale in (self.weight_scale, self.bias_scale)
        )
        scales = np.append(np.full(self.order * channels, weight_scale), bias_scale)
        variance = self.noise.per_state(params, n_states)
        coefficients, squares, counts = ridge(rows, shares, variance, mean, 1.0 / scales**2)
        best = {"bias": coefficients[:, :, -1]} | self.noise.best(squares, counts, rows)
        return best | {"weight": coefficients[:, :, :-1]} if self.order else best

    def means(self, params: Params, known: np.ndarray) -> np.ndarray:
        if not self.order:
            return np.broadcast_to(params["bias"], (len(known), *params["bias"].shape))
        return params["bias"] + np.einsum("kcl,ml->mkc", params["weight"], known)

    def information(self, params: Params, shares: np.ndarray, rows: Rows) -> Blocks:
        return self._blocks(self._closed(np.nan).curvature, params, shares, rows)

    def closed_forms(self, rows: Observations) -> ClosedForms:
        return self._with_prior(rows)

    def _closed(self, spread: float) -> ClosedRegression:
        return ClosedLinearRegression(*self.noise.closed(spread), self.weight_scale, self.bias_scale)

    def log_prior(self, params: Params, rows: Rows) -> Array:
        value = self.noise.log_prior(params, rows)
        if self.bias_scale is not None:
            value -= 0.5 * jnp.sum(params["bias"] ** 2) / self.bias_scale**2
        if self.order and self.weight_scale is not None:
            mean = np.eye(*params["weight"].shape[1:])
            value -= 0.5 * jnp.sum((params["weight"] - mean) ** 2) / self.weight_scale**2
        return value

    def log_density(self, params: Params, rows: Rows) -> Array:
        states, channels = params["bias"].shape
        mean = params["bias"][..., None]
        if self.order:  # rows last, so that the factors of the product are contiguous
            weight = params["weight"].reshape(states * channels, -1)
            mean = mean + (weight @ rows.covariates.T).reshape(states, channels, -1)
        return self.noise.log_density(rows.x.T - mean, params, rows)


@dataclass(frozen=True)
class NeuralAutoregression(Autoregression):
    """A network with one hidden layer of tanh units for each state: `weight_in` (K, H, p C),
    `bias_in` (K, H), `weight_out` (K, C, H), `bias_out` (K, C), and `variance`.

    Prior: every weight and bias is normal with mean zero and standard deviation `weight_scale`.
    """

    hidden: int = 12
    weight_scale: float = 1.0

    traits = replace(Autoregression.traits, metric=True, strongly_nonquadratic=True)

    def __post_init__(self) -> None:
        check_order(self.order, 1)
        require_count("hidden", self.hidden)
        require_fits("hidden", self.hidden, lambda n: 24 * n, "the weights of one state")
        both, what = int(self.hidden), "the weights of one state"
        require_fits("order", self.order, lambda n: 8 * n * both, what)
        require_number("weight_scale", self.weight_scale, above=0)

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        channels, hidden, unit = rows.x.shape[1], self.hidden, unit_of(rows)
        names: dict[str, Constraint] = {
            "weight_in": in_units(Free((n_states, hidden, self.order * channels)), 1.0 / unit),
            "bias_in": Free((n_states, hidden)),
            "weight_out": in_units(Free((n_states, channels, hidden)), unit),
            "bias_out": in_units(Free((n_states, channels)), unit),
        }
        return names | self.noise.parameters(n_states, rows)

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        """Small random hidden layers, and for each state the best output layer given them."""
        random = rng or np.random.default_rng(0)
        channels, inputs = rows.x.shape[1], rows.covariates.shape[1]
        shares, spread = starting_shares(rows, n_states, rng), float(spread_of(rows))
        scale = 1.0 / np.sqrt(inputs * max(spread, np.finfo(float).tiny))
        weight_in = random.normal(0.0, scale, (self.hidden, inputs))
        bias_in = random.normal(0.0, 0.1, self.hidden)
        features = replace(rows, covariates=np.tanh(rows.covariates @ weight_in.T + bias_in))
        variance, mean = np.full(n_states, spread / n_states), np.zeros((channels, self.hidden + 1))
        precision = 1.0 / np.full(self.hidden + 1, self.weight_scale) ** 2
        coefficients, squares, counts = ridge(features, shares, variance, mean, precision)
        return {
            "weight_in": np.tile(weight_in, (n_states, 1, 1)),
            "bias_in": np.tile(bias_in, (n_states, 1)),
            "weight_out": coefficients[:, :, :-1],
            "bias_out": coefficients[:, :, -1],
        } | self.noise.best(squares, counts, rows)

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """A generalised M step, which improves but need not maximise: a few Gauss-Newton steps for each
        state's network, then the best variance, when row r is in state k with weight shares[r, k]."""
        variance = self.noise.per_state(params, shares.shape[1])
        precision = 1.0 / self.weight_scale**2
        networks, squares, counts = [], [], []
        for state, layers in enumerate(self._layers(params)):
            problem = Problem.of(rows, shares[:, state])
            layers = improved(problem, layers, float(variance[state]), precision)
            networks.append(layers)
            squares.append(problem.squares(layers))
            counts.append(float(problem.shares @ problem.observed.sum(1)))
        stacked = {name: np.stack([getattr(net, name) for net in networks]) for name in Layers._fields}
        return stacked | self.noise.best(np.array(squares), np.array(counts), rows)

    def means(self, params: Params, known: np.ndarray) -> np.ndarray:
        inner = np.einsum("khl,ml->mkh", params["weight_in"], known) + params["bias_in"]
        return np.einsum("kch,mkh->mkc", params["weight_out"], np.tanh(inner)) + params["bias_out"]

    def metric(self, params: Params, shares: np.ndarray, rows: Rows) -> Blocks:
        return self._blocks(self._closed(np.nan).metric, params, shares, rows)

    def closed_forms(self, rows: Observations) -> ClosedForms:
        return self._with_prior(rows)

    def _closed(self, spread: float) -> ClosedRegression:
        return ClosedNetwork(*self.noise.closed(spread), self.hidden, self.weight_scale)

    def _layers(self, params: Params) -> list[Layers]:
        parts = [np.asarray(params[name], float) for name in Layers._fields]
        return [Layers(*(part[state] for part in parts)) for state in range(len(parts[0]))]

    def log_prior(self, params: Params, rows: Rows) -> Array:
        weights = ("weight_in", "bias_in", "weight_out", "bias_out")
        squares = sum(jnp.sum(params[name] ** 2) for name in weights)
        return self.noise.log_prior(params, rows) - 0.5 * squares / self.weight_scale**2

    def log_density(self, params: Params, rows: Rows) -> Array:
        states, units = params["bias_in"].shape
        weight = params["weight_in"].reshape(states * units, -1)
        inner = (weight @ rows.covariates.T).reshape(states, units, -1) + params["bias_in"][..., None]
        mean = params["weight_out"] @ jnp.tanh(inner) + params["bias_out"][..., None]
        return self.noise.log_density(rows.x.T - mean, params, rows)


def check_order(order: Any, least: int = 0) -> None:
    """Raise unless it is an integer of at least `least`."""
    require_count("order", order, least)
    require_fits("order", order, lambda n: 8 * n, "the weights of one state and channel")
