"""Hidden Markov models: a latent chain with any emission."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitonce.core.constraints import Constraint, Simplex
from fitonce.core.deferred import jax, pytree
from fitonce.core.numerics import Array, EitherArray, as_numbers, is_count, safe_log
from fitonce.core.parameters import Params, freeze
from fitonce.core.small_factors import without_lapack
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import (
    Rows,
    constant_of,
    dirichlet_log_prior,
    freeze_value,
    observations,
)
from fitonce.models.emissions.by_name import read_emission
from fitonce.models.potentials import Chain


@pytree
@dataclass(frozen=True)
class Prepared:
    """Rows of observations and the row of each step, `index` (N, T); None: the rows are the steps of
    `grid` = (N, T) in order."""

    rows: Rows
    index: EitherArray | None
    grid: tuple[int, int] = field(metadata={"static": True})

    def take(self, sequences: Any) -> Prepared:
        """The same for some of the sequences."""
        grid = (len(sequences), self.grid[1])
        if self.index is not None:
            return Prepared(self.rows, self.index[sequences], grid)

        def some(array: Array) -> Array:
            width = array.shape[1:]
            return array.reshape(*self.grid, *width)[sequences].reshape(math.prod(grid), *width)

        return Prepared(jax.tree_util.tree_map(some, self.rows), None, grid)


@dataclass(frozen=True)
class HMM:
    """A hidden Markov model with K states and any emission.

    Parameters: `initial` (K,), `transition` (K, K) from row to column, and the emission's.

    Args:
        n_states: K.
        emission: one of `fo.models`, or its name, such as "gamma"; or your own, derived from
            `fo.models.Emission`.
        initial_concentration, transition_concentration: Dirichlet priors, a number or one for each
            entry; 1 is flat. The initial distribution of a single sequence has no maximum
            likelihood estimate inside the simplex, hence defaults just above 1.
        support: (K, K) bools, false for impossible transitions, whose probability is exactly zero.
        initial_support: (K,) bools, false for states in which no sequence begins.
        frozen: a dict of parameter names and the values at which they are fixed.
    """

    n_states: int
    emission: Any
    initial_concentration: Any = 1.1
    transition_concentration: Any = 1.1
    support: Any = None
    frozen: Any = ()
    initial_support: Any = None

    def __post_init__(self) -> None:
        if not is_count(self.n_states):
            raise ValueError(f"n_states must be a positive integer, got {self.n_states!r}")
        for name, shape in (
            ("initial_concentration", (self.n_states,)),
            ("transition_concentration", (self.n_states, self.n_states)),
        ):
            value = as_numbers(getattr(self, name))
            if value is None or value.shape not in ((), shape) or not (value > 0).all():
                raise ValueError(
                    f"{name} must be a positive number or a positive array of shape {shape}, "
                    f"got {getattr(self, name)!r}"
                )
            object.__setattr__(self, name, freeze_value(value))
        if self.support is not None:
            support = np.asarray(self.support, bool)
            if support.shape != (self.n_states, self.n_states) or not support.any(1).all():
                raise ValueError(
                    f"support must be {self.n_states} x {self.n_states} with a possible transition in "
                    f"each row, got {support.tolist()}"
                )
            object.__setattr__(self, "support", tuple(map(tuple, support.tolist())))
        if self.initial_support is not None:
            first = np.asarray(self.initial_support, bool)
            if first.shape != (self.n_states,) or not first.any():
                raise ValueError(
                    f"initial_support must be {self.n_states} bools, one of them true, "
                    f"got {first.tolist()}"
                )
            object.__setattr__(self, "initial_support", tuple(first.tolist()))
        object.__setattr__(self, "emission", read_emission(self.emission))
        if not isinstance(self.frozen, (dict, tuple)):
            raise ValueError(f"frozen must be a dict of names and values, got {self.frozen!r}")
        frozen = dict(self.frozen).items()
        object.__setattr__(self, "frozen", tuple((k, freeze_value(v)) for k, v in frozen))

    def __str__(self) -> str:
        return f"HMM, {counted(self.n_states, 'state')}, {self.emission.name} emission"

    def modelled(self, data: Sequences) -> Sequences:
        """The data with steps that the emission only conditions on marked as such."""
        return self.emission.modelled(data)

    def maximise(self, params: Params, expected: Chain, prepared: Prepared) -> Params:
        """The M step of EM, given the expected count of each potential."""
        shares = np.asarray(expected.emission).reshape(-1, self.n_states)
        if prepared.index is not None:
            steps, shares = shares, np.zeros((len(prepared.rows.counts), self.n_states))
            np.add.at(shares, np.asarray(prepared.index).ravel(), steps)
        return self.maximise_counts(params, expected.initial, expected.transition, shares, prepared.rows)

    def maximise_counts(
        self, params: Params, firsts: Any, pairs: Any, shares: np.ndarray, rows: Rows
    ) -> Params:
        """The M step, given expected first states (K,), transitions (K, K) and states of rows (R, K)."""
        new = {
            "initial": _most_likely(firsts, self.initial_concentration, self.possible("initial")),
            "transition": _most_likely(
                pairs, self.transition_concentration, self.possible("transition")
            ),
            **self.emission.maximise(params, shares, rows),
        }
        return new | {name: np.asarray(value) for name, value in self.frozen}

    def possible(self, name: str) -> np.ndarray:
        """Which entries of the initial or transition probabilities may be positive."""
        given = self.initial_support if name == "initial" else self.support
        shape = (self.n_states,) * (1 if name == "initial" else 2)
        return np.ones(shape, bool) if given is None else np.asarray(given)

    @property
    def starts_with_em(self) -> bool:
        """Whether fits start with EM."""
        frozen = set(dict(self.frozen)) - {"initial", "transition"}
        return self.emission.traits.m_step and self.emission.traits.em_starts and not frozen

    def by_state(self, prepared: Prepared) -> bool:
        """Whether emission parameters are per state, apart from shared ones."""
        return self.emission.traits.by_state and prepared.index is None

    def prepare(self, data: Sequences) -> Prepared:
        x, observed, known = observations(self.emission, data)
        seen, index, grid = observed.any(1), None, data.values.shape[:2]
        counts = seen.astype(float)
        if self.emission.traits.deduplicate:
            keys = np.concatenate([x, observed, known], 1)
            _, first, index = np.unique(keys, axis=0, return_index=True, return_inverse=True)
            counts = np.bincount(index.ravel(), weights=seen)
            x, observed, known = x[first], observed[first], known[first]
            index = index.reshape(grid)
        constant = constant_of(self.emission, x, observed, None)
        # A step with nothing observed has weight zero, so only partly observed steps need the mask.
        mask = observed | ~observed.any(1, keepdims=True)
        partly = None if mask.all() else mask
        largest = int(x.max()) if self.emission.traits.deduplicate else 0
        return Prepared(Rows(x, partly, known, counts, constant=constant, largest=largest), index, grid)

    def parameters(self, prepared: Prepared) -> dict[str, Constraint]:
        k = self.n_states
        constraints: dict[str, Constraint] = {
            "initial": Simplex((k,), self.initial_support),
            "transition": Simplex((k, k), self.support),
            **self.emission.parameters(k, prepared.rows),
        }
        return freeze(constraints, dict(self.frozen))

    def start(self, prepared: Prepared, rng: np.random.Generator | None) -> Params:
        k = self.n_states
        stay = 0.9 if rng is None else rng.uniform(0.5, 0.98)
        moves = np.full((k, k), (1.0 - stay) / max(k - 1, 1))
        np.fill_diagonal(moves, stay)
        moves, first = moves * self.possible("transition"), self.possible("initial").astype(float)
        params = {
            "initial": first / first.sum(),
            "transition": moves / moves.sum(1, keepdims=True),
            **self.emission.start(k, prepared.rows, rng),
        }
        return params | {name: np.asarray(value) for name, value in self.frozen}

    def log_prior_at(self, params: Params, prepared: Prepared) -> Array:
        value = without_lapack(self.emission.log_prior)(params, prepared.rows)
        fixed = dict(self.frozen)
        if "initial" not in fixed:
            possible = self.possible("initial")
            value += dirichlet_log_prior(params["initial"], self.initial_concentration, possible)
        if "transition" not in fixed:
            possible = self.possible("transition")
            value += dirichlet_log_prior(params["transition"], self.transition_concentration, possible)
        return value

    def bytes_per_fold(self, prepared: Prepared) -> int:
        """Memory of ten arrays like the potentials, and of the emission's table over distinct rows."""
        table = 32 * len(prepared.rows.x) * (prepared.rows.largest + 1)
        if prepared.index is None:  # residuals of every channel in every state
            table += 32 * self.n_states * prepared.rows.x.size
        return 80 * self.n_states * math.prod(prepared.grid) + table

    def log_density(self, params: Params, rows: Rows) -> Array:
        """(R, K) of the emission, whose shape is checked."""
        table = without_lapack(self.emission.log_density)(params, rows)
        expected = (len(rows.x), self.n_states)
        if np.shape(table) != expected:
            raise ValueError(
                f"log_density of {self.emission.name} must return one number for each row and state, "
                f"shape {expected}, got {np.shape(table)}"
            )
        return table

    def potentials(self, params: Params, prepared: Prepared) -> Chain:
        table = self.log_density(params, prepared.rows)
        index = prepared.index
        emission = table.reshape(*prepared.grid, self.n_states) if index is None else table[index]
        return Chain(safe_log(params["initial"]), safe_log(params["transition"]), emission)


def _most_likely(counts: Any, concentration: Any, support: Any) -> np.ndarray:
    """Rows of probabilities that maximise the posterior given counts, under a Dirichlet prior."""
    mass = np.asarray(counts) + np.asarray(concentration) - 1.0
    mass = np.where(support, np.maximum(mass, 1e-8), 0.0)
    return mass / mass.sum(-1, keepdims=True)
