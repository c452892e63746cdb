"""Autoregressive emissions: each step is a regression on the p steps before it, one for each state.

    x_t | z_t = k  ~  Normal(f_k(x_t-1, ..., x_t-p), noise I)

f_k is linear (`LinearAutoregression`) or a small network (`NeuralAutoregression`). The first p steps
of a sequence are conditioned on: they are regressors, and nothing is said of how they came about. The
same goes for the p steps after a missing one, whose regressors are not all known: summing a missing
regressor out would mix the states of p + 1 steps, so such steps are given and not scored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from fitonce.core.constraints import Constraint, Free
from fitonce.core.numerics import Array, is_count, is_number
from fitonce.core.parameters import Params
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import Emission, EmissionTraits, Rows
from fitonce.models.emissions.gauss_newton import Layers, Problem, improved
from fitonce.models.emissions.regression import (
    NoiseModel,
    kmeans_labels,
    regression_information,
    ridge,
    segment_labels,
    spread_of,
)


@dataclass(frozen=True)
class Autoregression(Emission):
    """What every autoregression of some order makes of the data; a subclass says how steps depend on the
    `order` steps before them."""

    order: int
    noise: NoiseModel

    def modelled(self, data: Sequences) -> Sequences:
        """The data with the steps that are only conditioned on marked as such."""
        order = self.order
        short = np.flatnonzero(data.lengths <= order)
        if short.size:
            raise ValueError(
                f"an autoregression of order {order} needs sequences of at least {order + 1} steps, but "
                f"sequence {short[0]} has {data.lengths[short[0]]}"
            )
        known: np.ndarray = data.observed
        if data.conditioned is not None:
            known = known | data.conditioned
        whole = np.asarray(known.all(-1))
        explained = data.valid.copy()
        for lag in range(1, order + 1):
            explained[:, lag:] &= whole[:, :-lag]
            explained[:, :lag] = False
        observed = known & explained[..., None]
        if not observed.any():
            raise ValueError(
                f"an autoregression of order {order} needs a step with {order} complete steps "
                "before it, found none"
            )
        return replace(data, observed=observed, conditioned=known & ~observed)

    def covariates(self, data: Sequences) -> np.ndarray | None:
        """(N, T, order * C) the steps before each, the latest first; zeros before the beginning."""
        count, steps, channels = data.values.shape
        lags = np.zeros((count, steps, self.order, channels))
        for lag in range(1, self.order + 1):
            lags[:, lag:, lag - 1] = data.values[:, :-lag]
        return lags.reshape(count, steps, self.order * channels)


@dataclass(frozen=True)
class LinearAutoregression(Autoregression):
    """`weight` (K, C, p C), columns of the latest step first, `bias` (K, C), and `variance`.

    Prior: a matrix normal with identity covariances times `weight_scale`^2 around a mean that is the
    identity for the latest step (x_t is x_t-1, as the paper has it) and zero for the others; a normal
    with `bias_scale` around zero for the bias. None: flat.
    """

    weight_scale: float | None = 1.0
    bias_scale: float | None = 1.0

    @property
    def traits(self) -> EmissionTraits:
        return EmissionTraits(
            along_time=True, by_state=True, m_step=True, em_starts=True, information=True
        )

    def __post_init__(self) -> None:
        _check_order(self.order)
        for name in ("weight_scale", "bias_scale"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and value > 0):
                raise ValueError(f"{name} must be a positive number or None, got {value!r}")

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        channels = rows.x.shape[1]
        names: dict[str, Constraint] = {"bias": Free((n_states, channels))}
        if self.order:
            names["weight"] = Free((n_states, channels, self.order * channels))
        return names | self.noise.parameters(n_states)

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        labels = kmeans_labels(rows, n_states) if rng is None else segment_labels(rows, n_states, rng)
        shares = (labels[:, None] == np.arange(n_states)).astype(float)
        begin = {"variance": np.asarray(float(spread_of(rows)) / n_states)}
        return self.maximise(begin, shares, rows)

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """An M step: the best regressions when row r is of state k with probability shares[r, k], at the
        variance at hand, and then the best variance."""
        n_states, channels = shares.shape[1], rows.x.shape[1]
        mean = np.zeros((channels, self.order * channels + 1))
        mean[:, :channels] = np.eye(channels) if self.order else 0.0
        widths = np.append(
            np.full(self.order * channels, _flat(self.weight_scale)), _flat(self.bias_scale)
        )
        variance = np.broadcast_to(np.asarray(self.noise.value(params), float), (n_states,))
        found, squares, counts = ridge(rows, shares, variance, mean, 1.0 / widths**2)
        out = {"bias": found[:, :, -1], "weight": found[:, :, :-1]} | self.noise.best(
            squares, counts, rows
        )
        return {name: out[name] for name in self.parameters(n_states, rows)}

    def information(
        self, params: Params, shares: np.ndarray, rows: Rows
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Minus the second derivatives of sum_rk shares[r, k] log p(row r | k), sums of squares of
        regressors: (K, P, P) by the parameters of each state (bias, variance where it has its own,
        weight), (K, P, S) with a shared variance, and (S, S)."""
        return regression_information(
            rows, shares, np.asarray(self.noise.value(params)), params, self.noise.kind
        )

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
        if self.order:  # rows last: what is multiplied is contiguous
            weight = params["weight"].reshape(states * channels, -1)
            mean = mean + (weight @ rows.covariates.T).reshape(states, channels, -1)
        return self.noise.log_density(rows.x.T - mean, params, rows)


@dataclass(frozen=True)
class NeuralAutoregression(Autoregression):
    """x_t from a network of one hidden layer of tanh units for each state: `weight_in` (K, H, p C),
    `bias_in` (K, H), `weight_out` (K, C, H), `bias_out` (K, C), and `variance`.

    Prior: a normal with standard deviation `weight_scale` around zero for every weight and bias.
    """

    hidden: int = 12
    weight_scale: float = 1.0

    @property
    def traits(self) -> EmissionTraits:
        return EmissionTraits(
            along_time=True, by_state=True, m_step=True, em_starts=True, metric=True,
            strongly_nonquadratic=True,
        )  # fmt: skip

    def __post_init__(self) -> None:
        _check_order(self.order, 1)
        if not is_count(self.hidden):
            raise ValueError(f"hidden must be an integer of at least 1, got {self.hidden!r}")
        if not (is_number(self.weight_scale) and self.weight_scale > 0):
            raise ValueError(f"weight_scale must be a positive number, got {self.weight_scale!r}")

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        channels, hidden = rows.x.shape[1], self.hidden
        names: dict[str, Constraint] = {
            "weight_in": Free((n_states, hidden, self.order * channels)),
            "bias_in": Free((n_states, hidden)),
            "weight_out": Free((n_states, channels, hidden)),
            "bias_out": Free((n_states, channels)),
        }
        return names | self.noise.parameters(n_states)

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        """Random small features, and for each state the best output layer on them."""
        random = rng or np.random.default_rng(0)
        channels, inputs = rows.x.shape[1], rows.covariates.shape[1]
        labels = kmeans_labels(rows, n_states) if rng is None else segment_labels(rows, n_states, rng)
        reach = 1.0 / np.sqrt(inputs * max(float(spread_of(rows)), np.finfo(float).tiny))
        weight_in = random.normal(0.0, reach, (self.hidden, inputs))
        bias_in = random.normal(0.0, 0.1, self.hidden)
        features = replace(rows, covariates=jnp.tanh(rows.covariates @ weight_in.T + bias_in))
        shares = (labels[:, None] == np.arange(n_states)).astype(float)
        variance = np.full(n_states, float(spread_of(rows)) / n_states)
        mean, widths = np.zeros((channels, self.hidden + 1)), np.full(self.hidden + 1, self.weight_scale)
        found, squares, counts = ridge(features, shares, variance, mean, 1.0 / widths**2)
        return {
            "weight_in": np.tile(weight_in, (n_states, 1, 1)),
            "bias_in": np.tile(bias_in, (n_states, 1)),
            "weight_out": found[:, :, :-1],
            "bias_out": found[:, :, -1],
        } | self.noise.best(squares, counts, rows)

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """An M step that goes down, not to the bottom: a few steps of each state's network when row r is
        of state k with probability shares[r, k], and then the best variance."""
        variance = np.broadcast_to(np.asarray(self.noise.value(params), float), (shares.shape[1],))
        precision = 1.0 / self.weight_scale**2
        found, squares, counts = [], [], []
        for state, layers in enumerate(self._layers(params)):
            problem = Problem.of(rows, shares[:, state])
            layers = improved(problem, layers, float(variance[state]), precision)
            found.append(layers)
            squares.append(problem.squares(layers))
            counts.append(float(problem.shares @ problem.observed.sum(1)))
        stacked = {name: np.stack([getattr(one, name) for one in found]) for name in Layers._fields}
        return stacked | self.noise.best(np.array(squares), np.array(counts), rows)

    def metric(
        self, params: Params, shares: np.ndarray, rows: Rows
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What `LinearAutoregression.information` gives, without second derivatives of the networks: a
        positive definite stand-in."""
        states = shares.shape[1]
        variance = np.broadcast_to(np.asarray(self.noise.value(params), float), (states,))
        blocks, squares = [], []
        for state, layers in enumerate(self._layers(params)):
            problem = Problem.of(rows, shares[:, state])
            block, half = problem.gauss_newton(layers), 0.5 * problem.squares(layers) / variance[state]
            block /= variance[state]
            if self.noise.kind == "state":  # its coordinate follows the biases
                after = layers.bias_in.size + layers.bias_out.size
                block = np.insert(np.insert(block, after, 0.0, 0), after, 0.0, 1)
                block[after, after] = half
            blocks.append(block)
            squares.append(half)
        shared = int(self.noise.kind == "shared")
        total = np.full((shared, shared), sum(squares))
        return np.stack(blocks), np.zeros((states, blocks[0].shape[0], shared)), total

    def _layers(self, params: Params) -> list[Layers]:
        parts = [np.asarray(params[name], float) for name in Layers._fields]
        return [Layers(*(part[state] for part in parts)) for state in range(len(parts[0]))]

    def log_prior(self, params: Params, rows: Rows) -> Array:
        squares = sum(
            jnp.sum(params[name] ** 2) for name in ("weight_in", "bias_in", "weight_out", "bias_out")
        )
        return self.noise.log_prior(params, rows) - 0.5 * squares / self.weight_scale**2

    def log_density(self, params: Params, rows: Rows) -> Array:
        states, units = params["bias_in"].shape
        weight = params["weight_in"].reshape(states * units, -1)
        inner = (weight @ rows.covariates.T).reshape(states, units, -1) + params["bias_in"][..., None]
        mean = params["weight_out"] @ jnp.tanh(inner) + params["bias_out"][..., None]
        return self.noise.log_density(rows.x.T - mean, params, rows)


def _check_order(order: Any, least: int = 0) -> None:
    if not is_count(order, least):
        raise ValueError(f"order must be an integer of at least {least}, got {order!r}")


def _flat(scale: float | None) -> float:
    return np.inf if scale is None else scale
