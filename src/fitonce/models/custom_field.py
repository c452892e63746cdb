"""User-defined factor graphs: emissions, factors and a pytree of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fitonce.core.arguments import (
    refusal,
    require,
    require_count,
    require_function,
    require_number,
    shown,
)
from fitonce.core.deferred import jax, jnp
from fitonce.core.memory import require_fits
from fitonce.core.numerics import Array, as_numbers
from fitonce.core.parameters import Params
from fitonce.core.predictive import Tails
from fitonce.core.wording import counted
from fitonce.data.graph import Graph, of_pairs, read_order
from fitonce.data.sequences import Sequences
from fitonce.models.base import MEMORY_LIMIT
from fitonce.models.custom import arrays_of, constrained, require_constraints
from fitonce.models.potentials import Field

EmissionFunction = Callable[[Params, Array], Array]
Factors = Callable[[Params], Sequence[Array]] | Sequence[Any]


@dataclass(frozen=True, eq=False)
class CustomField:
    """Discrete latent sites with any factors and any emission, written with `jax.numpy`.

    Args:
        scopes: the sites of each factor, such as [(0, 1), (1, 2, 3)].
        factors: one table of log-potentials for each scope, its axes in the scope's order; -inf where
            impossible. Or `factors(params)`, a function that returns them: then they are learned, and
            their normalising constant Z(theta) is part of the likelihood.
        emission: `emission(params, x)`, log p(x_v | z_v = k) as (sites, states), for x (sites,) or
            (sites, channels) with zeros where missing. Entries beyond a site's number of states must be
            numbers, and are not used.
        init: pytree of starting values, which gives the parameters their shapes and names.
        n_states: one number for all sites, or one for each.
        log_prior: `log_prior(params)`, or None for maximum likelihood.
        n_sites: needed if the last sites are in no factor.
        constraints: leaf name to "positive", "proportion", "simplex", "ordered", "covariance", "free" or
            "frozen".
        memory_limit: bytes that exact inference may take for one fold.
        order: in which sites are summed out, the numbers of all, for an order of your own; None: the
            cheapest that is found. It changes time and memory (`fo.plan`), not results.
    """

    scopes: Any
    factors: Factors
    emission: EmissionFunction
    init: Params
    n_states: int | Sequence[int] = 2
    log_prior: Callable[[Params], Array] | None = None
    n_sites: int | None = field(default=None, kw_only=True)
    constraints: dict[str, str] = field(default_factory=dict, kw_only=True)
    memory_limit: float = field(default=MEMORY_LIMIT, kw_only=True)
    order: Any = field(default=None, kw_only=True, repr=False)

    starts_with_em = False
    has_tails = False

    def __post_init__(self) -> None:
        require_function("emission", self.emission, "params and x")
        require_function("log_prior", self.log_prior, optional=True)
        require_constraints(self.constraints)
        scopes = _read_scopes(self.scopes)
        require_number("memory_limit", self.memory_limit, above=0)
        object.__setattr__(self, "scopes", scopes)
        object.__setattr__(self, "init", arrays_of(self.init))
        object.__setattr__(self, "n_states", self._read_states())
        object.__setattr__(self, "order", read_order(self.order, len(self.states)))
        for number, scope in enumerate(scopes):
            outside = [site for site in scope if not 0 <= site < len(self.states)]
            if outside:
                sites = counted(len(self.states), "site")
                raise ValueError(
                    f"scopes: number {number} has site {outside[0]}, outside the {sites} of n_states"
                )
        if callable(self.factors):
            return
        object.__setattr__(self, "factors", self._checked(self.factors))
        for number, table in enumerate(self.factors):
            values = as_numbers(table, finite=False)
            bad = None if values is None else values[np.isnan(values) | (values == np.inf)]
            if bad is None or bad.size:
                got = shown(table) if bad is None else bad[0]
                raise ValueError(
                    f"factors must hold numbers or -inf (impossible), but number {number} has {got}"
                )

    def _read_states(self) -> tuple[int, ...]:
        wanted = "an integer of at least 1 or one for each site"
        given = np.zeros(0) if as_numbers(self.n_states) is None else np.asarray(self.n_states)
        fine = given.dtype.kind in "iu" and given.ndim < 2 and given.size and given.min() >= 1
        require(fine, "n_states", wanted, self.n_states)
        require_fits("n_states", int(given.max()), lambda n: 8 * n * n, "a table of two sites")
        if given.ndim == 0:
            highest = max((site for scope in self.scopes for site in scope), default=-1)
            require_count("n_sites", self.n_sites, max(highest + 1, 1), optional=True)
            count = highest + 1 if self.n_sites is None else self.n_sites
            name = "scopes" if self.n_sites is None else "n_sites"
            require_fits(name, count, lambda n: 64 * n, "their states")
            states = (int(given),) * int(count)
        else:
            states = tuple(map(int, given))
            if self.n_sites not in (None, len(states)):
                entries = counted(len(states), "entry", "entries")
                raise ValueError(f"n_sites={self.n_sites}, but n_states has {entries}")
        if not states or min(states) < 1:
            raise ValueError("scopes must have one or more sites, got none; or give n_sites=")
        return states

    def _checked(self, tables: Sequence[Any]) -> list[Any]:
        listed = hasattr(tables, "__len__") and not isinstance(tables, (str, bytes, dict, set))
        require(listed, "factors", "a function or a list of tables", tables)
        if len(tables) != len(self.scopes):
            raise ValueError(
                f"factors must have one table per scope, {len(self.scopes)} in all, got {len(tables)}"
            )
        for number, (scope, table) in enumerate(zip(self.scopes, tables, strict=True)):
            expected = tuple(self.states[site] for site in scope)
            try:
                came = np.shape(table)
            except ValueError:  # ragged
                came = ()
            if came != expected:
                raise ValueError(f"factors: number {number} must have shape {expected}, got {came}")
        return list(tables)

    @property
    def states(self) -> tuple[int, ...]:
        return self.n_states  # type: ignore[return-value]

    @cached_property
    def graph(self) -> Graph:
        """The graph in which sites that share a factor are neighbours."""
        pairs = [(a, b) for scope in self.scopes for i, a in enumerate(scope) for b in scope[:i]]
        return of_pairs(np.array(pairs, int), len(self.states))

    @property
    def learns_factors(self) -> bool:
        return callable(self.factors)

    def __str__(self) -> str:
        return f"CustomField, {counted(len(self.states), 'site')}, {counted(len(self.scopes), 'factor')}"

    def prepare(self, data: Sequences) -> Array:
        if data.n_sequences != 1 or data.n_sites != len(self.states):
            raise ValueError(
                f"data must be one sequence with the graph's {counted(len(self.states), 'site')}, "
                f"got {counted(data.n_sequences, 'sequence')} with {counted(data.n_sites, 'site')}"
            )
        x = data.values[0]
        return jax.device_put(x[:, 0] if x.shape[1] == 1 else x)

    def parameters(self, prepared: Array) -> Any:
        return constrained(self.init, self.constraints)

    def start(self, prepared: Array, rng: np.random.Generator | None) -> Params:
        return self.init

    def log_prior_at(self, params: Params, prepared: Array) -> Array:
        return jnp.zeros(()) if self.log_prior is None else self.log_prior(params)

    def maximise(self, params: Params, shares: np.ndarray, prepared: Array) -> Params:
        """Not available: the emission is an arbitrary function."""
        raise NotImplementedError

    def tails(self, params: Params, prepared: Array, sites: np.ndarray) -> Tails:
        """Not available: the emission is an arbitrary function."""
        raise NotImplementedError

    def bytes_per_fold(self, prepared: Array) -> int:
        """Memory of the potentials, without the tables of the junction tree."""
        entries = sum(math.prod(self.states[site] for site in scope) for scope in self.scopes)
        return 80 * (len(self.states) * max(self.states) + entries)

    def potentials(self, params: Params, prepared: Array) -> Field:
        emission = jnp.asarray(self.emission(params, prepared))
        expected = (len(self.states), max(self.states))
        if emission.shape != expected:
            raise ValueError(f"emission must return shape {expected}, got {emission.shape}")
        real = np.arange(expected[1]) < np.array(self.states)[:, None]
        emission = jnp.where(real, emission, 0.0)
        tables = self._checked(self.factors(params)) if callable(self.factors) else self.factors
        flat = [jnp.ravel(jnp.asarray(table, float)) for table in tables]
        return Field(emission, jnp.concatenate(flat) if flat else jnp.zeros(0))


def _read_scopes(given: Any) -> tuple[tuple[int, ...], ...]:
    try:
        scopes = tuple(tuple(scope) for scope in given)
    except TypeError:
        raise refusal("scopes", "a list of sets of sites", given) from None
    for number, scope in enumerate(scopes):
        for site in scope:
            if not isinstance(site, (int, np.integer)):
                raise ValueError(f"scopes must hold integers, but number {number} has {shown(site)}")
    scopes = tuple(tuple(int(site) for site in scope) for scope in scopes)
    for number, scope in enumerate(scopes):
        if not scope or len(set(scope)) < len(scope):
            raise ValueError(
                f"scopes must name each of their sites once, but number {number} is {shown(scope)}"
            )
    return scopes
