"""The hidden chain of an HMM: which options it has, what its parameters are, and its log-potentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.core.arguments import refusal, require, require_number, require_pair
from fitonce.core.constraints import Constraint, Positive, Proportion, Simplex, as_tuples
from fitonce.core.deferred import jax, jnp
from fitonce.core.memory import require_fits
from fitonce.core.numerics import Array, is_count, safe_log
from fitonce.core.parameters import ParameterSpace, Params, freeze
from fitonce.core.units import Contrasts, Units, in_units
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import channel_moments, dirichlet_log_prior, gamma_log_prior
from fitonce.models.hidden.closed_memory import tuples_of, with_memory
from fitonce.models.hidden.closed_terms import SoftmaxTerm
from fitonce.models.hidden.closing import closed_chain
from fitonce.models.hidden.durations import DURATIONS, log_hazards, mean_durations
from fitonce.models.hidden.links import Links
from fitonce.models.hidden.maximise import newton
from fitonce.models.hidden.names import COEFFICIENTS, SIZE_PRIOR
from fitonce.models.hidden.stationary import is_irreducible, stationary


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
    durations: str | None = None
    stages: int = 10
    memory: int = 0

    def __post_init__(self) -> None:
        for name in self.regressors:
            require(isinstance(name, str), "transition_covariates", "names of covariates", name)
        if len(set(self.regressors)) < len(self.regressors):
            raise ValueError(f"transition_covariates must differ, got {list(self.regressors)}")
        scale = self.coefficient_scale
        require_number("transition_scale", scale, above=0, optional=True)
        if self.end_prior is not None:
            require_pair("end_prior", self.end_prior, "two positive numbers or None")
        self._check_durations()
        if not self.stationary:
            return
        if self.end_prior is not None:
            raise ValueError(
                "stationary=True cannot be combined with end_prior: chains that end are not"
            )
        if "initial" in self.fixed or self.initial_support is not None:
            raise ValueError(
                "stationary=True derives the initial distribution from the transitions, so it can have "
                "neither a support nor a frozen value"
            )
        if not is_irreducible(self.possible("transition")):
            raise ValueError("stationary=True needs a support by which all states reach each other")

    def _check_durations(self) -> None:
        require(is_count(self.stages), "stages", "a positive integer", self.stages)
        states = self.n_states
        require_fits("stages", self.stages, lambda n: 8 * (n * states) ** 2, "transitions of stages")
        if self.durations is None:
            return
        if not (isinstance(self.durations, str) and self.durations in DURATIONS):
            raise refusal("durations", f"one of {', '.join(DURATIONS)} or None", self.durations)
        if self.n_states < 2:
            raise ValueError("durations need two states or more: a single one is never left")
        if self.regressors or self.stationary or self.end_prior is not None or self.memory:
            raise ValueError(
                "durations cannot be combined with transition_covariates, stationary, end_prior or an "
                "emission that depends on earlier states"
            )
        if not self.possible("transition").any(1).all():
            raise ValueError("durations need a state to go to from each state, besides itself")

    @property
    def n_stages(self) -> int:
        """Of each state; the hidden states of the engine are stages. Where emissions depend on earlier
        states, these are the stages."""
        return self.n_states**self.memory if self.durations is None else self.stages

    @property
    def fixed(self) -> dict[str, Any]:
        """Frozen values by name."""
        return dict(self.frozen)

    @property
    def is_plain(self) -> bool:
        """Whether the parameters are initial and transition probabilities, the same at every step."""
        others = self.stationary or self.end_prior is not None or self.durations is not None
        return not (self.regressors or others or self.memory)

    @property
    def varies(self) -> bool:
        """Whether transitions are not the same at every step."""
        return bool(self.regressors) or self.end_prior is not None

    def possible(self, name: str) -> np.ndarray:
        """Which entries of the initial or transition probabilities may be positive."""
        given = self.initial_support if name == "initial" else self.support
        shape = (self.n_states,) * (1 if name == "initial" else 2)
        found = np.ones(shape, bool) if given is None else np.asarray(given)
        if name == "transition" and self.durations is not None:  # a state is left for another
            return found & ~np.eye(self.n_states, dtype=bool)
        return found

    def links(self, data: Sequences) -> Links | None:
        """None where transitions are the same at every step."""
        if not self.varies:
            return None
        known = np.zeros((*data.valid.shape, 0))
        if self.regressors:
            known = data.covariates_of(self.regressors)
        return Links.of(data, known, ends=self.end_prior is not None, begins=self.stationary)

    def require_varying(self, links: Links | None) -> None:
        """Raise if a covariate is constant, and so cannot be told from the transition probabilities."""
        known = (
            np.zeros((1, 0)) if links is None else np.asarray(links.known)[np.asarray(links.counts) > 0]
        )
        for name, values in zip(self.regressors, known.T, strict=True):
            if not len(values) or np.ptp(values) == 0:
                raise ValueError(
                    f"covariate '{name}' is constant ({values[0] if len(values) else 0:g}); leave it "
                    "out, for the transition probabilities are those already"
                )

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
        moves = as_tuples(self.possible("transition").tolist()) if self.durations else self.support
        found: dict[str, Constraint] = {"transition": Simplex((k, k), moves)}
        if not self.stationary:
            found["initial"] = Simplex((k,), self.initial_support)
        if self.regressors and links is not None:
            free = np.repeat(self.contrasts()[..., None], len(self.regressors), -1)
            units = Units.of(*map(np.asarray, self._moments(links))).unit
            found[COEFFICIENTS] = Contrasts.on(free, 1.0 / units)
        if self.end_prior is not None:
            found["end"] = Proportion((k,))
        if self.durations is not None:
            found["dwell"] = in_units(Positive((k,)), np.ones(k), np.ones(k))  # above one
        if self.durations == "negative-binomial":
            found["dwell_size"] = Positive((k,))
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
            sequences, moves_in_all = len(links.kind), float(np.sum(links.counts))
            found["end"] = np.full(k, sequences / (sequences + max(moves_in_all, 1.0)))
        if self.durations is not None:
            found["dwell"] = np.full(k, 1.0 / (1.0 - stay))
        if self.durations == "negative-binomial":
            found["dwell_size"] = np.full(k, 2.0)
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
        if self.durations == "negative-binomial" and "dwell_size" not in self.fixed:
            value += gamma_log_prior(params["dwell_size"], *SIZE_PRIOR)
        return value

    # --- log-potentials --------------------------------------------------------------------------------

    def logs(self, params: Params, links: Links | None) -> tuple[Array, Array]:
        """Of first states, (K,) or (N, K), and of transitions, (K, K) or (N, T - 1, K, K)."""
        if links is None:
            moves = params["transition"]
            first = safe_log(stationary(moves, jnp) if self.stationary else params["initial"])
            moves = safe_log(moves)
        else:
            first, moves = self._varying(params, links)
        if self.durations is not None:
            return self._of_stages(params, first, moves)
        return with_memory(first, moves, self.memory, jnp) if self.memory else (first, moves)

    def _varying(self, params: Params, links: Links) -> tuple[Array, Array]:
        """(K,) or (N, K), and (N, T - 1, K, K)."""
        moves = self._logs_at(params, links.known)
        if self.stationary:
            begins = jnp.exp(self._logs_at(params, links.firsts))
            first = safe_log(stationary(jnp.moveaxis(begins, 0, -1), jnp)).T[links.kind]
        else:
            first = safe_log(params["initial"])
        if self.end_prior is not None:
            end = jnp.log(params["end"])
            moves += jnp.log1p(-params["end"])[:, None] + links.ends[:, None, None] * end
            first = first + links.kind[:, None] * end
        return first, moves[links.index]

    def _logs_at(self, params: Params, known: Array) -> Array:
        """(M, K, K) of transitions into steps with covariates (M, Q)."""
        base = jnp.broadcast_to(
            safe_log(params["transition"]), (len(known), self.n_states, self.n_states)
        )
        if not self.regressors:
            return base
        return jax.nn.log_softmax(base + jnp.tensordot(known, params[COEFFICIENTS], (1, 2)), -1)

    def _of_stages(self, params: Params, first: Array, moves: Array) -> tuple[Array, Array]:
        """(E,) and (E, E), from those of states."""
        m, k = self.stages, self.n_states
        kind, size = str(self.durations), params.get("dwell_size")
        leave, stay = log_hazards(kind, params["dwell"], size, m, jnp)
        firsts = jnp.full((k, m), -jnp.inf).at[:, 0].set(first)
        pairs = jnp.full((k, m, k, m), -jnp.inf)
        pairs = pairs.at[:, :, :, 0].set(moves[:, None] + leave[:, :, None])
        state, stage = np.divmod(np.arange(k * m), m)
        onward = np.minimum(stage + 1, m - 1)
        pairs = pairs.at[state, stage, state, 0].set(-jnp.inf)
        pairs = pairs.at[state, stage, state, onward].set(stay.ravel())
        return firsts.ravel(), pairs.reshape(k * m, k * m)

    def moves_at(self, params: Params, known: np.ndarray) -> np.ndarray:
        """(h, K, K) probabilities of transitions into steps with covariates (h, Q), in NumPy; of stages,
        (h, E, E)."""
        base = np.asarray(params["transition"])
        if self.durations is not None:
            base = np.exp(self._stages_of(params)[1])
        if not self.regressors:
            found = np.broadcast_to(base, (len(known), *base.shape))
        else:
            found = self._between(params, known)
        return tuples_of(found[:1, 0], found, self.memory, 0.0)[1] if self.memory else found

    def _between(self, params: Params, known: np.ndarray) -> np.ndarray:
        """(h, K, K) transitions of states that depend on covariates (h, Q)."""
        design = np.concatenate([np.ones((len(known), 1)), known], 1)
        values = {name: np.asarray(params[name]) for name in ("transition", COEFFICIENTS)}
        none = np.zeros((3, 0), int)
        return SoftmaxTerm(none[0], none, "transition", COEFFICIENTS, design).probabilities(values)

    def _stages_of(self, params: Params) -> tuple[np.ndarray, np.ndarray]:
        """Log-potentials of stages (E,) and (E, E), in NumPy."""
        space = ParameterSpace(self.parameters(None))
        values = {name: np.asarray(params[name])[..., None] for name, _, _ in space.leaves()}
        first, moves = closed_chain(self, None, space).logs(values)
        return first[0, :, 0], moves[0, ..., 0]

    def first(self, params: Params, known: np.ndarray) -> np.ndarray:
        """(K,) the initial distribution where the first step has covariates (Q,), in NumPy; of stages,
        (E,)."""
        if self.durations is not None:
            return np.exp(self._stages_of(params)[0])
        if self.stationary:
            moves = np.asarray(params["transition"])
            moves = self._between(params, known[None])[0] if self.regressors else moves
            found = np.asarray(stationary(moves, np))
        else:
            found = np.asarray(params["initial"])
        if not self.memory:
            return found
        return np.asarray(tuples_of(found[None], np.eye(len(found))[None], self.memory, 0.0)[0][0])

    def mean_moves(self, params: Params, links: Links | None) -> np.ndarray:
        """(K, K) transition probabilities, on average over the steps."""
        if self.durations is not None:
            given = (np.asarray(params["dwell"]), params.get("dwell_size"))
            change = 1.0 / mean_durations(*log_hazards(self.durations, *given, self.stages, np))
            return np.diag(1.0 - change) + change[:, None] * np.asarray(params["transition"])
        if links is None or not self.regressors:
            return np.asarray(params["transition"])
        moves = self._between(params, np.asarray(links.known))
        counts = np.asarray(links.counts)
        return np.tensordot(counts / counts.sum(), moves, (0, 0))

    # --- M steps ---------------------------------------------------------------------------------------

    def maximise(
        self, params: Params, firsts: np.ndarray, pairs: np.ndarray, links: Links | None
    ) -> dict[str, np.ndarray]:
        """The best parameters (or better ones) given expected first states (S, K) and transitions (M, K,
        K), where S are the kinds of beginnings, see `Links`."""
        if self.is_plain:
            tables = {"initial": firsts.sum(0), "transition": pairs.sum(0)}
            new = {
                name: _most_likely(counts, getattr(self, f"{name}_concentration"), self.possible(name))
                for name, counts in tables.items()
            }
            return new | {name: np.asarray(value) for name, value in self.fixed.items() if name in new}
        space = ParameterSpace(self.parameters(links))
        return newton(closed_chain(self, links, space), space, params, firsts, pairs)


def _most_likely(counts: Any, concentration: Any, support: Any) -> np.ndarray:
    """Rows of probabilities that maximise the posterior given counts, under a Dirichlet prior."""
    mass = np.asarray(counts) + np.asarray(concentration) - 1.0
    mass = np.where(support, np.maximum(mass, 1e-8), 0.0)
    return mass / mass.sum(-1, keepdims=True)
