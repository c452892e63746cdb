"""Hidden Markov models: a latent chain with any emission."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fitonce.core.arguments import (
    read_bools,
    read_names,
    refusal,
    require,
    require_flag,
    require_number,
)
from fitonce.core.constraints import Constraint, as_tuples
from fitonce.core.deferred import jax, jnp, pytree
from fitonce.core.memory import require_fits
from fitonce.core.numerics import Array, EitherArray, as_numbers, is_count
from fitonce.core.parameters import Params, freeze
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import (
    Rows,
    constant_of,
    freeze_value,
    is_pair,
    observations,
)
from fitonce.models.emissions.by_name import read_emission
from fitonce.models.hidden.chain import HiddenChain
from fitonce.models.hidden.links import Links
from fitonce.models.hidden.names import CHAIN
from fitonce.models.hidden.zeros import Zeros
from fitonce.models.potentials import Chain
from fitonce.models.starts import ObservedSteps, clustered

_STRONGEST = 1e6  # pseudo-counts: beyond this the data's part of the objective loses its digits


@pytree
@dataclass(frozen=True)
class Prepared:
    """Rows of observations and the row of each step, `index` (N, T); None: the rows are the steps of
    `grid` = (N, T) in order. `links`: what transitions depend on; None: all are alike."""

    rows: Rows
    index: EitherArray | None
    links: Links | None
    grid: tuple[int, int] = field(metadata={"static": True})

    def take(self, sequences: Any) -> Prepared:
        """The same for some of the sequences."""
        grid = (len(sequences), self.grid[1])
        links = None if self.links is None else self.links.take(sequences)
        if self.index is not None:
            return Prepared(self.rows, self.index[sequences], links, grid)

        def some(array: Array) -> Array:
            width = array.shape[1:]
            return array.reshape(*self.grid, *width)[sequences].reshape(math.prod(grid), *width)

        return Prepared(jax.tree_util.tree_map(some, self.rows), None, links, grid)


@dataclass(frozen=True)
class HMM:
    """A hidden Markov model with K states and any emission.

    Parameters: `initial` (K,), `transition` (K, K) from row to column, and the emission's; with
    covariates in transitions, `transition_coefficients` (K, K, Q); with ends, `end` (K,).

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
        stickiness: added to the Dirichlet concentrations of staying in a state.
        transition_covariates: names of covariates of the data (`fo.sequences(..., covariates=)`) on
            which transitions depend, by their values at the step that is entered: odds of moving to
            another state, against staying, are multiplied by exp(coefficient times covariate).
            `transition` is then for covariates of zero.
        transition_scale: prior standard deviation of these coefficients for covariates of unit spread;
            None: flat.
        stationary: sequences begin in the stationary distribution of `transition`, and there is no
            parameter `initial`; with covariates in transitions, in that of the transitions into their
            first step.
        end_prior: sequences end by themselves, with a probability `end` in each state that has this
            Beta prior, such as (1.1, 1.1); None: their lengths are given.
        durations: "negative-binomial" or "poisson", of the steps after the first that a state lasts,
            with mean durations `dwell` (K,) and `dwell_size` (K,); `transition` then says which state
            follows. None: geometric, as those of any Markov chain.
        stages: by how many stages a state's duration is modelled, more than it usually lasts: beyond
            them durations have a geometric tail, and their mean (`fit.states()`) is not `dwell` where
            that matters. Work grows with the square of the stages.
        vanished: which zeros of `support`, `initial_support` and the emission's are estimates, not
            assumptions; set by fits, see `fo.zero_probabilities`.
        given: which of these were exactly zero where a fit began, and so are meant, and no parameters
            (`fit.n_parameters`); set by fits.
    """

    n_states: int
    emission: Any
    initial_concentration: Any = 1.1
    transition_concentration: Any = 1.1
    support: Any = None
    frozen: Any = ()
    initial_support: Any = None
    stickiness: float = 0.0
    transition_covariates: tuple[str, ...] = ()
    transition_scale: float | None = 10.0
    stationary: bool = False
    end_prior: tuple[float, float] | None = None
    durations: str | None = None
    stages: int = 10
    vanished: Any = ()
    given: Any = ()

    def __post_init__(self) -> None:
        require(is_count(self.n_states), "n_states", "a positive integer", self.n_states)
        require_fits("n_states", self.n_states, lambda n: 8 * n * n, "transition probabilities")
        for name, shape in (
            ("initial_concentration", (self.n_states,)),
            ("transition_concentration", (self.n_states, self.n_states)),
        ):
            value = as_numbers(getattr(self, name))
            wanted = f"a positive number or a positive array of shape {shape}, at most {_STRONGEST:g}"
            if value is None or value.shape not in ((), shape):
                raise refusal(name, wanted, getattr(self, name))
            require(0 < value.min() <= value.max() <= _STRONGEST, name, wanted, getattr(self, name))
            object.__setattr__(self, name, freeze_value(value))
        if self.support is not None:
            wanted = f"{self.n_states} x {self.n_states} with a possible transition in each row"
            support = read_bools("support", self.support, wanted, 2)
            fine = support.shape == (self.n_states, self.n_states) and support.any(1).all()
            require(fine, "support", wanted, self.support)
            object.__setattr__(self, "support", tuple(map(tuple, support.tolist())))
        if self.initial_support is not None:
            wanted = f"{self.n_states} bools, one of them true"
            first = read_bools("initial_support", self.initial_support, wanted, 1)
            fine = first.shape == (self.n_states,) and first.any()
            require(fine, "initial_support", wanted, self.initial_support)
            object.__setattr__(self, "initial_support", tuple(first.tolist()))
        object.__setattr__(self, "emission", read_emission(self.emission))
        object.__setattr__(self, "frozen", read_frozen(self.frozen))
        require_number("stickiness", self.stickiness, least=0, most=_STRONGEST)
        names = read_names("transition_covariates", self.transition_covariates, "names of covariates")
        object.__setattr__(self, "transition_covariates", names)
        require_flag("stationary", self.stationary)
        if is_pair(self.end_prior):
            object.__setattr__(self, "end_prior", freeze_value(self.end_prior))
        _ = self.chain  # which checks the others

    @cached_property
    def chain(self) -> HiddenChain:
        """The hidden chain."""
        concentration: Any = self.transition_concentration
        if self.stickiness:
            concentration = freeze_value(concentration + self.stickiness * np.eye(self.n_states))
        return HiddenChain(
            self.n_states,
            self.initial_concentration,
            concentration,
            self.support,
            self.initial_support,
            tuple((name, value) for name, value in self.frozen if name in CHAIN),
            self.transition_covariates,
            self.transition_scale,
            self.stationary,
            self.end_prior,
            self.durations,
            self.stages,
            self.emission.memory,
        )

    @property
    def n_hidden(self) -> int:
        """How many states the engine sees: stages, where states have durations, or states of several
        steps, where emissions depend on these."""
        return self.n_states * self.chain.n_stages

    @property
    def n_emitting(self) -> int:
        """How many of them the emission tells apart: states, or those of several steps."""
        return self.n_hidden if self.chain.memory else self.n_states

    @property
    def stages_alike(self) -> int:
        """How many of the engine's states have the same emission."""
        return self.n_hidden // self.n_emitting

    def by_emission(self, of_stages: Any, axis: int = -1) -> Any:
        """Sums over stages that have the same emission."""
        return of_stages if self.chain.memory else self.by_states(of_stages, axis)

    def by_states(self, of_stages: Any, axis: int = -1) -> Any:
        """Sums over the stages of each state, of an axis (E,) that becomes (K,)."""
        stages = self.chain.n_stages
        if stages == 1:
            return of_stages
        axis %= of_stages.ndim
        shape = (*of_stages.shape[:axis], self.n_states, stages, *of_stages.shape[axis + 1 :])
        return of_stages.reshape(shape).sum(axis + 1)

    def __str__(self) -> str:
        return f"HMM, {counted(self.n_states, 'state')}, {self.emission.name} emission"

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of covariates of the data that emissions or transitions depend on."""
        return tuple(dict.fromkeys((*self.emission.reads, *self.transition_covariates)))

    def modelled(self, data: Sequences) -> Sequences:
        """The data with steps that the emission only conditions on marked as such."""
        return self.emission.modelled(data)

    def maximise(self, params: Params, expected: Chain, prepared: Prepared) -> Params:
        """The M step of EM, given the expected count of each potential."""
        shares = self.by_states(np.asarray(expected.emission).reshape(-1, self.n_hidden))
        if prepared.index is not None:
            steps, shares = shares, np.zeros((len(prepared.rows.counts), self.n_states))
            np.add.at(shares, np.asarray(prepared.index).ravel(), steps)
        firsts, pairs = np.asarray(expected.initial), np.asarray(expected.transition)
        if prepared.links is None:
            return self.maximise_counts(params, firsts[None], pairs[None], shares, prepared)
        kind, given = np.asarray(prepared.links.kind), firsts if firsts.ndim == 2 else firsts[None]
        firsts = np.zeros((len(prepared.links.firsts), given.shape[1]))
        np.add.at(firsts, kind if len(given) == len(kind) else [0], given)
        return self.maximise_counts(params, firsts, prepared.links.tables(pairs), shares, prepared)

    def maximise_counts(
        self, params: Params, firsts: Any, pairs: Any, shares: np.ndarray, prepared: Prepared
    ) -> Params:
        """The M step, given expected first states (S, K) and transitions (M, K, K), see
        `HiddenChain.maximise`, and states of rows (R, K)."""
        new = {
            **self.chain.maximise(params, firsts, pairs, prepared.links),
            **self.emission.maximise(params, shares, prepared.rows),
        }
        return new | {name: np.asarray(value) for name, value in self.frozen}

    def possible(self, name: str) -> np.ndarray:
        """Which entries of the initial or transition probabilities may be positive."""
        return self.chain.possible(name)

    def check_to_fit(self, data: Sequences, prepared: Prepared) -> None:
        """Raise if parameters cannot be learned from these data, which may still be predicted."""
        self.emission.check_to_fit(data)
        self.chain.require_varying(prepared.links)

    @property
    def zeros(self) -> Zeros:
        """Probabilities that are zero or may be."""
        return Zeros(self)

    @property
    def n_numbered(self) -> int:
        """How many states can change places."""
        return self.n_states

    def with_one_more(self) -> HMM:
        """A model with one state more, and nothing said of single ones."""
        plain: dict[str, Any] = dict.fromkeys(("support", "initial_support"))
        plain |= {"frozen": (), "vanished": (), "given": ()}
        plain |= {"initial_concentration": 1.0, "transition_concentration": 1.0}
        if getattr(self.emission, "support", None) is not None:
            plain["emission"] = replace(self.emission, support=None)
        return replace(self, n_states=self.n_states + 1, **plain)

    def renumbered(self, order: np.ndarray, axes: dict[str, tuple[int, ...]]) -> HMM:
        """The model whose state j is the state order[j] of this one."""

        def turned(value: Any, where: tuple[int, ...]) -> Any:
            array = np.asarray(value)
            for axis in where if array.ndim else ():
                array = np.take(array, order, axis)
            return array

        def turned_masks(masks: Any) -> Any:
            return tuple((name, as_tuples(turned(mask, axes[name]).tolist())) for name, mask in masks)

        supports = {"support": (0, 1), "initial_support": (0,)}
        found: dict[str, Any] = {
            "initial_concentration": turned(self.initial_concentration, (0,)),
            "transition_concentration": turned(self.transition_concentration, (0, 1)),
            "frozen": {name: turned(value, axes[name]) for name, value in self.frozen},
            "vanished": turned_masks(self.vanished),
            "given": turned_masks(self.given),
        }
        for name, where in supports.items():
            given = getattr(self, name)
            found[name] = None if given is None else turned(given, where)
        if getattr(self.emission, "support", None) is not None:
            found["emission"] = replace(self.emission, support=turned(self.emission.support, (0,)))
        return replace(self, **found)

    def first_states(self, params: Params, data: Sequences, sequence: int) -> np.ndarray:
        """(K,) the distribution of the first state of a sequence."""
        names = self.chain.regressors
        known = data.covariates_of(names)[sequence, 0] if names else np.zeros(0)
        return np.asarray(self.by_states(self.chain.first(params, known)))

    def mean_moves(self, params: Params, prepared: Prepared) -> np.ndarray:
        """(K, K) transition probabilities, on average over the steps."""
        return self.chain.mean_moves(params, prepared.links)

    @property
    def starts_with_em(self) -> bool:
        """Whether fits start with EM."""
        frozen = set(dict(self.frozen)) - set(CHAIN)
        return self.emission.traits.m_step and self.emission.traits.em_starts and not frozen

    def by_state(self, prepared: Prepared) -> bool:
        """Whether emission parameters are per state, apart from shared ones, and the chain is plain."""
        return self.emission.traits.by_state and prepared.index is None and self.chain.is_plain

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
        rows = Rows(x, partly, known, counts, constant=constant, largest=largest)
        return Prepared(rows, index, self.chain.links(data), grid)

    def parameters(self, prepared: Prepared) -> dict[str, Constraint]:
        constraints = {
            **self.chain.parameters(prepared.links),
            **self.emission.parameters(self.n_states, prepared.rows),
        }
        return freeze(constraints, dict(self.frozen))

    def start(self, prepared: Prepared, rng: np.random.Generator | None) -> Params:
        steps = ObservedSteps.of(prepared.rows, prepared.index, prepared.grid)
        params = {
            **self.chain.start(prepared.links, rng),
            **clustered(self.emission, self.n_states, prepared.rows, steps, rng),
        }
        return params | {name: np.asarray(value) for name, value in self.frozen}

    def log_prior_at(self, params: Params, prepared: Prepared) -> Array:
        value = self.emission.log_prior(params, prepared.rows)
        return value + self.chain.log_prior(params, prepared.links)

    def bytes_per_fold(self, prepared: Prepared) -> int:
        """Memory of ten arrays like the potentials, and of the emission's table over distinct rows."""
        table = 32 * len(prepared.rows.x) * (prepared.rows.largest + 1)
        if prepared.index is None:  # residuals of every channel in every state
            table += 32 * self.n_states * prepared.rows.x.size
        moves = 0 if prepared.links is None else 32 * self.n_hidden**2
        return (80 * self.n_hidden + moves) * math.prod(prepared.grid) + table

    def log_density(self, params: Params, rows: Rows) -> Array:
        """(R, n_emitting) of the emission, whose shape is checked."""
        table = self.emission.log_density(params, rows)
        expected = (len(rows.x), self.n_emitting)
        if np.shape(table) != expected:
            raise ValueError(
                f"log_density of {self.emission.name} must return one number for each row and state, "
                f"shape {expected}, got {np.shape(table)}"
            )
        return table

    def potentials(self, params: Params, prepared: Prepared) -> Chain:
        table = self.log_density(params, prepared.rows)
        index = prepared.index
        emission = table.reshape(*prepared.grid, self.n_emitting) if index is None else table[index]
        if self.stages_alike > 1:
            emission = jnp.repeat(emission, self.stages_alike, -1)
        return Chain(*self.chain.logs(params, prepared.links), emission)


def read_frozen(given: Any) -> tuple[tuple[str, Any], ...]:
    """A dict of parameter names and the values at which they are fixed, hashable."""
    wanted = "a dict of names of parameters and values"
    try:
        require(isinstance(given, (dict, tuple)), "frozen", wanted, given)
        made = dict(given)
    except (TypeError, ValueError):
        raise refusal("frozen", wanted, given) from None
    for name, value in made.items():
        require(isinstance(name, str) and as_numbers(value) is not None, "frozen", wanted, given)
    return tuple((name, freeze_value(value)) for name, value in made.items())
