"""User-defined models: a weighted log density and a pytree of parameters."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitonce.core.arguments import refusal, require, require_count, require_flag, require_function
from fitonce.core.constraints import (
    Constraint,
    Covariance,
    Free,
    Frozen,
    Ordered,
    Positive,
    Proportion,
    Simplex,
)
from fitonce.core.deferred import jax, jnp
from fitonce.core.numerics import Array, as_numbers, one_each
from fitonce.core.parameters import Params, leaf_name

LogDensity = Callable[[Params, Any, Array], Array]
_CONSTRAINTS: dict[str, Callable[[tuple[int, ...]], Constraint]] = {
    "free": Free,
    "positive": Positive,
    "simplex": Simplex,
    "ordered": Ordered,
    "covariance": Covariance,
    "proportion": Proportion,
}


@dataclass(frozen=True, eq=False)
class Custom:
    """Any model with a weighted log density, written with `jax.numpy`.

    Args:
        log_density: `log_density(params, data, weights)`, a scalar. `weights` has one entry per
            unit: 1 keeps it, 0 must leave it out exactly. `ij` differentiates along the
            path of weights in between.
        init: pytree of starting values, which gives the parameters their shapes and names.
        log_prior: `log_prior(params)`, or None for maximum likelihood.
        heldout: `heldout(params, data, weights)`, the loss of every unit, (n,), given a
            fold's weights; only left-out entries are read. None: each left-out thing is put back
            alone, and its loss is -(log_density with it - log_density without), at one evaluation per
            point. That is right if log_density at 0/1 weights is the log-likelihood of the kept points,
            but not if a kept point loses its term because a neighbour is left out (an autoregression
            written with products of weights): give `heldout` then.
        constraints: leaf name to "positive", "proportion", "simplex", "ordered", "covariance", "free"
            or "frozen".
        size: number of units; None: the length of the data's first array.
        along_time: whether the units follow each other in time, for standard errors. Tables with an
            index of dates do. Other units are exchangeable, unless folds are stretches of time or made
            on a graph.
    """

    log_density: LogDensity
    init: Params
    log_prior: Callable[[Params], Array] | None = None
    heldout: LogDensity | None = None
    constraints: dict[str, str] = field(default_factory=dict, kw_only=True)
    size: int | None = field(default=None, kw_only=True)
    along_time: bool = field(default=False, kw_only=True)

    def __str__(self) -> str:
        return f"Custom ({getattr(self.log_density, '__name__', 'own density')})"

    def __post_init__(self) -> None:
        for name in ("log_prior", "heldout"):
            require_function(name, getattr(self, name), optional=True)
        require_function("log_density", self.log_density, "params, data and weights")
        for name in ("log_density", "heldout"):
            _require_arguments(name, getattr(self, name), "params, data and weights", 3)
        _require_arguments("log_prior", self.log_prior, "params", 1)
        object.__setattr__(self, "init", arrays_of(self.init))
        require_count("size", self.size, optional=True)
        require_flag("along_time", self.along_time)
        require_constraints(self.constraints)

    def space(self) -> Any:
        """The pytree of constraints of the parameters."""
        return constrained(self.init, self.constraints)

    def log_prior_at(self, params: Params, data: Any) -> Array:
        """The log prior, zero for maximum likelihood."""
        return jnp.zeros(()) if self.log_prior is None else self.log_prior(params)

    def bytes_per_fold(self, data: Any) -> int:
        """A rough estimate: ten numbers for each unit."""
        return 80 * self.count(data)

    def count(self, data: Any) -> int:
        """The number of units in `data`."""
        if self.size is not None:
            return self.size
        leaves = [leaf for leaf in jax.tree_util.tree_leaves(data) if np.ndim(leaf) > 0]
        if not leaves:
            raise ValueError("Custom cannot tell how many things can be left out; pass size=")
        return len(leaves[0])

    def density(self, params: Params, data: Any, weights: Array) -> Array:
        """`log_density`, with sentences for what is read in another way than it was given."""
        with _reading(data):
            return self.log_density(params, data, weights)

    def losses(self, params: Params, data: Any, weights: Array, scored: Array) -> Array:
        """Losses of the left-out things at indices `scored` (m,): (m,)."""
        if self.heldout is not None:
            with _reading(data):
                found = self.heldout(params, data, weights)
            return one_each(found, weights, "heldout")[scored]
        without = self.log_density(params, data, weights)

        def put_back(index: Array) -> Array:
            return without - self.log_density(params, data, weights.at[index].set(1.0))

        return jax.lax.map(put_back, scored, batch_size=32)


def _require_arguments(name: str, function: Any, wanted: str, count: int) -> None:
    """Raise unless a function can be called with so many arguments."""
    try:
        signature = inspect.signature(function) if function is not None else None
    except (TypeError, ValueError):  # of a builtin: not known
        return
    try:
        if signature is not None:
            signature.bind(*range(count))
    except TypeError:
        raise ValueError(f"{name} must be a function of {wanted}, got one of {signature}") from None


@contextmanager
def _reading(data: Any) -> Iterator[None]:
    """Say what to do where a function reads one array by names of columns."""
    try:
        yield
    except TypeError as error:
        if isinstance(data, Mapping) or "string ind" not in str(error):
            raise
        raise ValueError(
            "log_density and heldout get a table as one array, (rows, columns), and cannot read it "
            "by names of columns; fit dict(table), or a dict of the columns that they read"
        ) from error


def arrays_of(init: Params) -> Params:
    """`init` with leaves as float arrays; a list of numbers is one array, not a pytree."""
    wanted = "a pytree of finite numbers, such as a dict of names and arrays"
    numbers = lambda node: isinstance(node, list) and all(np.isscalar(item) for item in node)  # noqa: E731

    def numeric(leaf: Any) -> np.ndarray:
        found = as_numbers(leaf)
        if found is None:
            raise refusal("init", wanted, leaf)
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of JAX, that a generator is no pytree
        made = jax.tree_util.tree_map(numeric, init, is_leaf=numbers)
    require(jax.tree_util.tree_leaves(made), "init", wanted, init)
    return made


def require_constraints(given: Any) -> None:
    """Raise unless it is a dict of names and kinds."""
    fine = isinstance(given, Mapping) and all(isinstance(kind, str) for kind in given.values())
    require(fine, "constraints", "a dict of names of parameters and kinds of constraints", given)


def constrained(init: Params, kinds: dict[str, str]) -> Any:
    """A pytree of constraints for values shaped like `init`; "free" where `kinds` has no entry."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(init)
    names = [leaf_name(path) for path, _ in leaves]
    unknown = sorted(set(kinds) - set(names))
    if unknown:
        raise ValueError(f"constraints name {unknown}, but the parameters are {sorted(names)}")
    known = sorted([*_CONSTRAINTS, "frozen"])
    chosen = []
    for name, (_, value) in zip(names, leaves, strict=True):
        kind = kinds.get(name, "free")
        if kind not in known:
            raise ValueError(f"the constraint of '{name}' must be one of {known}, got '{kind}'")
        chosen.append(Frozen.at(value) if kind == "frozen" else _CONSTRAINTS[kind](np.shape(value)))
    return jax.tree_util.tree_unflatten(tree, chosen)
