"""The hidden chain of an HMM: which options it has, what its parameters are, and its log-potentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.core.constraints import Constraint, Proportion, Simplex
from fitonce.core.deferred import jax, jnp
from fitonce.core.numerics import Array, is_number, safe_log
from fitonce.core.parameters import ParameterSpace, Params, freeze
from fitonce.core.units import Contrasts, Units, stretch_of
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import channel_moments, dirichlet_log_prior, is_pair
from fitonce.models.hidden.closed_chain import (
    ClosedChain,
    CoefficientPrior,
    DirichletPrior,
    ProportionPrior,
)
from fitonce.models.hidden.closed_terms import ChainTerm, EndTerm, SoftmaxTerm, StationaryTerm
from fitonce.models.hidden.links import Links
from fitonce.models.hidden.maximise import newton
from fitonce.models.hidden.stationary import is_unichain, stationary

COEFFICIENTS = "transition_coefficients"
CHAIN = ("initial", "transition", COEFFICIENTS, "end")  # parameters of a hidden chain


@dataclass(frozen=True)
class HiddenChain:
    """See `HMM`, whose arguments these are."""

    n_states: int
    initial_concentration: Any
    transition_concentration: Any
    support: Any
    initial_support: Any
    frozen: Any
    regressors: tuple[str, ...] = ()
    coefficient_scale: float | None = 10.0
    stationary: bool = False
    end_prior: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name in self.regressors:
            if not isinstance(name, str):
                raise ValueError(f"transition_covariates must be names of covariates, got {name!r}")
        if len(set(self.regressors)) < len(self.regressors):
            raise ValueError(f"transition_covariates must differ, got {list(self.regressors)}")
        scale = self.coefficient_scale
        if scale is not None and not (is_number(scale) and scale > 0):
            raise ValueError(f"transition_scale must be a positive number or None, got {scale!r}")
        if self.end_prior is not None and not (is_pair(self.end_prior) and min(self.end_prior) > 0):
            raise ValueError(f"end_prior must be two positive numbers or None, got {self.end_prior!r}")
        if not self.stationary:
            return
        if self.regressors or self.end_prior is not None:
            raise ValueError(
                "stationary=True needs transitions that are the same at every step, without "
                "transition_covariates or end_prior"
            )
        if "initial" in self.fixed or self.initial_support is not None:
            raise ValueError(
                "stationary=True derives the initial distribution from the transitions, so it can have "
                "neither a support nor a frozen value"
            )
        if not is_unichain(self.possible("transition")):
            raise ValueError("stationary=True needs a support by which all states reach each other")

    @property
    def fixed(self) -> dict[str, Any]:
        """Frozen values by name."""
        return dict(self.frozen)

    @property
    def is_plain(self) -> bool:
        """Whether the parameters are initial and transition probabilities, the same at every step."""
        return not (self.regressors or self.stationary or self.end_prior is not None)

    @property
    def varies(self) -> bool:
        """Whether transitions are not the same at every step."""
        return bool(self.regressors) or self.end_prior is not None

    def possible(self, name: str) -> np.ndarray:
        """Which entries of the initial or transition probabilities may be positive."""
        given = self.initial_support if name == "initial" else self.support
        shape = (self.n_states,) * (1 if name == "initial" else 2)
        return np.ones(shape, bool) if given is None else np.asarray(given)

    def links(self, data: Sequences) -> Links | None:
        """None where transitions are the same at every step."""
        if not self.varies:
            return None
        known = np.zeros((*data.valid.shape, 0))
        if self.regressors:
            known = data.covariates_of(self.regressors)
            for name, values in zip(self.regressors, np.moveaxis(known, -1, 0), strict=True):
                if np.ptp(values[data.valid]) == 0:
                    raise ValueError(
                        f"covariate '{name}' is constant ({values[0, 0]:g}); leave it out, for the "
                        "transition probabilities are those already"
                    )
        return Links.of(data, known, self.end_prior is not None)

    # --- parameters and prior --------------------------------------------------------------------------

    def contrasts(self) -> np.ndarray:
        """(K, K) which transitions have coefficients: all possible ones, but for staying in a state, to
        which they are compared; where that is impossible, but for the first."""
        found = self.possible("transition").copy()
        reference = np.where(np.diag(found), np.arange(self.n_states), found.argmax(1))
        found[np.arange(self.n_states), reference] = False
        return found

    def parameters(self, links: Links | None) -> dict[str, Constraint]:
        k = self.n_states
        found: dict[str, Constraint] = {"transition": Simplex((k, k), self.support)}
        if not self.stationary:
            found["initial"] = Simplex((k,), self.initial_support)
        if self.regressors and links is not None:
            free = np.repeat(self.contrasts()[..., None], len(self.regressors), -1)
            units = Units.of(*map(np.asarray, self._moments(links))).unit
            found[COEFFICIENTS] = Contrasts.on(free, 1.0 / units)
        if self.end_prior is not None:
            found["end"] = Proportion((k,))
        return freeze(found, {name: value for name, value in self.fixed.items() if name in found})

    def _moments(self, links: Links) -> tuple[Any, Any]:
        """(Q,) means and variances of the covariates, in NumPy or JAX."""
        return channel_moments(links.known, links.counts[:, None])

    def start(self, links: Links | None, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        k = self.n_states
        stay = 0.9 if rng is None else rng.uniform(0.5, 0.98)
        moves = np.full((k, k), (1.0 - stay) / max(k - 1, 1))
        np.fill_diagonal(moves, stay)
        moves, first = moves * self.possible("transition"), self.possible("initial").astype(float)
        found = {"initial": first / first.sum(), "transition": moves / moves.sum(1, keepdims=True)}
        if self.stationary:
            del found["initial"]
        if self.regressors:
            found[COEFFICIENTS] = np.zeros((k, k, len(self.regressors)))
        if self.end_prior is not None and links is not None:
            sequences, moves_in_all = len(links.alone), float(np.sum(links.counts))
            found["end"] = np.full(k, sequences / (sequences + max(moves_in_all, 1.0)))
        return found | {n: np.asarray(value) for n, value in self.fixed.items() if n in found}

    def precision(self, links: Links) -> Any:
        """(Q,) of the prior of coefficients."""
        if self.coefficient_scale is None:
            return np.zeros(len(self.regressors))
        return self._moments(links)[1] / self.coefficient_scale**2

    def log_prior(self, params: Params, links: Links | None) -> Array:
        value = jnp.zeros(())
        for name in ("initial", "transition"):
            if name in params and name not in self.fixed:
                concentration = getattr(self, f"{name}_concentration")
                value += dirichlet_log_prior(params[name], concentration, self.possible(name))
        if self.regressors and COEFFICIENTS not in self.fixed and links is not None:
            value -= 0.5 * jnp.sum(self.precision(links) * params[COEFFICIENTS] ** 2)
        if self.end_prior is not None and "end" not in self.fixed:
            a, b = self.end_prior
            value += jnp.sum((a - 1.0) * jnp.log(params["end"]) + (b - 1.0) * jnp.log1p(-params["end"]))
        return value

    # --- log-potentials --------------------------------------------------------------------------------

    def logs(self, params: Params, links: Links | None) -> tuple[Array, Array]:
        """Of first states, (K,) or (N, K), and of transitions, (K, K) or (N, T - 1, K, K)."""
        moves = params["transition"]
        first = safe_log(stationary(moves, jnp) if self.stationary else params["initial"])
        moves = safe_log(moves)
        if links is None:
            return first, moves
        moves = jnp.broadcast_to(moves, (len(links.known), *moves.shape))
        if self.regressors:
            added = jnp.tensordot(links.known, params[COEFFICIENTS], (1, 2))
            moves = jax.nn.log_softmax(moves + added, -1)
        if self.end_prior is not None:
            end = jnp.log(params["end"])
            moves += jnp.log1p(-params["end"])[:, None] + links.ends[:, None, None] * end
            first = first + links.alone[:, None] * end
        return first, moves[links.index]

    def moves_at(self, params: Params, known: np.ndarray) -> np.ndarray:
        """(h, K, K) probabilities of transitions into steps with covariates (h, Q), in NumPy."""
        base = np.asarray(params["transition"])
        if not self.regressors:
            return np.broadcast_to(base, (len(known), *base.shape))
        design = np.concatenate([np.ones((len(known), 1)), known], 1)
        values = {"transition": base, COEFFICIENTS: np.asarray(params[COEFFICIENTS])}
        none = np.zeros((3, 0), int)
        return SoftmaxTerm(none[0], none, "transition", COEFFICIENTS, design).probabilities(values)

    def first(self, params: Params) -> np.ndarray:
        """(K,) the initial distribution, in NumPy."""
        if self.stationary:
            return np.asarray(stationary(np.asarray(params["transition"]), np))
        return np.asarray(params["initial"])

    def mean_moves(self, params: Params, links: Links | None) -> np.ndarray:
        """(K, K) transition probabilities, on average over the steps."""
        if links is None or not self.regressors:
            return np.asarray(params["transition"])
        moves = self.moves_at(params, np.asarray(links.known))
        return np.tensordot(np.asarray(links.counts) / np.sum(links.counts), moves, (0, 0))

    # --- in NumPy, and M steps -------------------------------------------------------------------------

    def closed(self, links: Links | None, space: ParameterSpace) -> ClosedChain:
        """Derivatives by the coordinates of a space, which has these parameters and may have others."""
        places = {name: place for name, _, place in space.leaves()}
        entries = {
            name: np.array(leaf.coordinates(), int).reshape(len(places[name]), len(leaf.shape)).T
            for name, leaf, _ in space.leaves()
            if name in CHAIN
        }
        one = np.ones((1, 1))
        terms: list[ChainTerm] = []
        if self.stationary:
            terms.append(StationaryTerm(places["transition"], entries["transition"]))
        else:
            column = entries["initial"]
            of_first = np.concatenate([np.zeros_like(column), column, np.zeros_like(column)])
            terms.append(SoftmaxTerm(places["initial"], of_first, "initial", None, one, initial=True))
        moves = entries["transition"]
        moves = np.concatenate([moves, np.zeros_like(moves[:1])])
        design, where = one, places["transition"]
        if self.regressors and links is not None:
            row, column, number = entries[COEFFICIENTS]
            moves = np.concatenate([moves, np.stack([row, column, number + 1])], 1)
            where = np.concatenate([where, places[COEFFICIENTS]])
            known = np.asarray(links.known)
            design = np.concatenate([np.ones((len(known), 1)), known], 1)
        terms.append(
            SoftmaxTerm(where, moves, "transition", COEFFICIENTS if self.regressors else None, design)
        )
        if self.end_prior is not None and links is not None:
            terms.append(EndTerm(places["end"], links))
        return ClosedChain(tuple(terms), self._priors(links, places, entries), stretch_of(space))

    def _priors(self, links: Links | None, places: Any, entries: Any) -> tuple[Any, ...]:
        found: list[Any] = []
        for name in ("initial", "transition"):
            if name in places and len(places[name]):
                concentration = np.asarray(getattr(self, f"{name}_concentration"), float)
                possible = self.possible(name)
                excess = np.where(possible, np.broadcast_to(concentration - 1.0, possible.shape), 0.0)
                found.append(DirichletPrior(name, places[name], tuple(entries[name]), excess))
        if self.regressors and links is not None and len(places[COEFFICIENTS]):
            here = tuple(entries[COEFFICIENTS])
            precision = np.asarray(self.precision(links))[here[2]]
            found.append(CoefficientPrior(COEFFICIENTS, places[COEFFICIENTS], here, precision))
        if self.end_prior is not None and "end" in places and len(places["end"]):
            found.append(ProportionPrior("end", places["end"], *self.end_prior))
        return tuple(found)

    def maximise(
        self, params: Params, firsts: np.ndarray, pairs: np.ndarray, links: Links | None
    ) -> dict[str, np.ndarray]:
        """The best parameters (or better ones) given expected first states (S, K) and transitions (M, K,
        K), where S is 2, of longer sequences and of those of one step, if these end."""
        if self.is_plain:
            tables = {"initial": firsts.sum(0), "transition": pairs.sum(0)}
            new = {
                name: _most_likely(counts, getattr(self, f"{name}_concentration"), self.possible(name))
                for name, counts in tables.items()
            }
            return new | {name: np.asarray(value) for name, value in self.fixed.items() if name in new}
        space = ParameterSpace(self.parameters(links))
        return newton(self.closed(links, space), space, params, firsts, pairs)


def _most_likely(counts: Any, concentration: Any, support: Any) -> np.ndarray:
    """Rows of probabilities that maximise the posterior given counts, under a Dirichlet prior."""
    mass = np.asarray(counts) + np.asarray(concentration) - 1.0
    mass = np.where(support, np.maximum(mass, 1e-8), 0.0)
    return mass / mass.sum(-1, keepdims=True)
