"""Parameters: a pytree of constrained values to and from one free vector, with names that survive.

A constraint describes one leaf: its shape, how many free coordinates it has, the map both ways and
what each coordinate is called. A `ParameterSpace` is a pytree of constraints.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.numerics import Array

Params = Any  # a pytree of arrays


class Constraint(Protocol):
    """One leaf of a parameter pytree. `to_value(to_free(value)) == value`."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def coordinates(self) -> list[tuple[int, ...]]:
        """The index, within the constrained value, that names each free coordinate."""
        ...

    def to_free(self, value: np.ndarray) -> np.ndarray: ...
    def to_value(self, free: Array) -> Array: ...
    def violation(self, value: np.ndarray) -> str | None:
        """None, or what a valid value would have been."""
        ...


def _indices(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, shape)))


@dataclass(frozen=True)
class Free:
    """Any real numbers."""

    shape: tuple[int, ...] = ()

    def coordinates(self) -> list[tuple[int, ...]]:
        return _indices(self.shape)

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.ravel(value)

    def to_value(self, free: Array) -> Array:
        return free.reshape(self.shape)

    def violation(self, value: np.ndarray) -> str | None:
        return None


@dataclass(frozen=True)
class Positive:
    """Positive numbers; free coordinates are their logarithms."""

    shape: tuple[int, ...] = ()

    def coordinates(self) -> list[tuple[int, ...]]:
        return _indices(self.shape)

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.log(np.ravel(value))

    def to_value(self, free: Array) -> Array:
        return jnp.exp(free).reshape(self.shape)

    def violation(self, value: np.ndarray) -> str | None:
        return None if np.all(value > 0) else "positive numbers"


@dataclass(frozen=True)
class Simplex:
    """Rows (along the last axis) of probabilities; free coordinates are log-ratios to the last one.

    `support`, a nested tuple of bools of the same shape, marks entries that may be positive; the
    others are exact zeros, and the reference of a row is its last supported entry.
    """

    shape: tuple[int, ...]
    support: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.shape) == 0 or self.shape[-1] == 0:
            raise ValueError(f"a simplex needs entries along a last axis, got shape {self.shape}")
        if self.support is None:
            return
        support = np.asarray(self.support, bool)
        if support.shape != self.shape or not support.any(-1).all():
            raise ValueError(
                f"support must have shape {self.shape} and something possible in each row, "
                f"got {support.tolist()}"
            )
        object.__setattr__(self, "support", _as_tuples(support.tolist()))

    def _mask(self) -> np.ndarray:
        if self.support is None:
            return np.ones(self.shape, bool)
        return np.asarray(self.support, bool)

    def _reference(self) -> np.ndarray:
        mask = self._mask()
        return mask.shape[-1] - 1 - np.argmax(mask[..., ::-1], -1)

    def coordinates(self) -> list[tuple[int, ...]]:
        mask, reference = self._mask(), self._reference()
        return [i for i in _indices(self.shape) if mask[i] and i[-1] != reference[i[:-1]]]

    def to_free(self, value: np.ndarray) -> np.ndarray:
        reference = self._reference()
        return np.array(
            [np.log(value[i] / value[(*i[:-1], reference[i[:-1]])]) for i in self.coordinates()]
        )

    def to_value(self, free: Array) -> Array:
        logits = jnp.where(self._mask(), 0.0, -jnp.inf)
        places = self.coordinates()
        if places:
            logits = logits.at[tuple(np.array(places).T)].set(free)
        return jax.nn.softmax(logits, -1)

    def violation(self, value: np.ndarray) -> str | None:
        mask = self._mask()
        sums = np.allclose(value.sum(-1), 1.0, rtol=0.0, atol=1e-8)
        if sums and np.all(value[mask] > 0) and np.all(value[~mask] == 0):
            return None
        zeros = "" if mask.all() else ", zero outside its support"
        return f"positive probabilities that sum to one along the last axis{zeros}"


@dataclass(frozen=True)
class Ordered:
    """Increasing numbers along the last axis: the first one, then logarithms of the gaps."""

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.shape) == 0:
            raise ValueError("ordered numbers need a last axis, got shape ()")

    def coordinates(self) -> list[tuple[int, ...]]:
        return _indices(self.shape)

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.concatenate([value[..., :1], np.log(np.diff(value, axis=-1))], -1).ravel()

    def to_value(self, free: Array) -> Array:
        parts = free.reshape(self.shape)
        return jnp.cumsum(jnp.concatenate([parts[..., :1], jnp.exp(parts[..., 1:])], -1), -1)

    def violation(self, value: np.ndarray) -> str | None:
        return None if np.all(np.diff(value, axis=-1) > 0) else "increasing numbers"


@dataclass(frozen=True)
class Covariance:
    """Symmetric positive definite matrices (last two axes), by Cholesky factor with log diagonal."""

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.shape) < 2 or self.shape[-1] != self.shape[-2]:
            raise ValueError(f"covariances must be square in the last two axes, got shape {self.shape}")

    def coordinates(self) -> list[tuple[int, ...]]:
        return [i for i in _indices(self.shape) if i[-1] <= i[-2]]

    def to_free(self, value: np.ndarray) -> np.ndarray:
        factor = np.linalg.cholesky(value)
        return np.array([np.log(factor[i]) if i[-1] == i[-2] else factor[i] for i in self.coordinates()])

    def to_value(self, free: Array) -> Array:
        places = tuple(np.array(self.coordinates()).T)
        diagonal = places[-1] == places[-2]
        entries = jnp.where(diagonal, jnp.exp(jnp.where(diagonal, free, 0.0)), free)
        factor = jnp.zeros(self.shape, entries.dtype).at[places].set(entries)
        return factor @ jnp.swapaxes(factor, -1, -2)

    def violation(self, value: np.ndarray) -> str | None:
        symmetric = np.allclose(value, np.swapaxes(value, -1, -2))
        if symmetric and np.all(np.linalg.eigvalsh(value) > 0):
            return None
        return "symmetric positive definite matrices"


@dataclass(frozen=True)
class Frozen:
    """A value that is known: it takes part in the model and has no free coordinates."""

    value: Any  # nested tuples of floats, so that a space stays hashable

    @classmethod
    def at(cls, value: Any) -> Frozen:
        return cls(_as_tuples(np.asarray(value, float).tolist()))

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value)

    def coordinates(self) -> list[tuple[int, ...]]:
        return []

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def to_value(self, free: Array) -> Array:
        return jnp.asarray(np.asarray(self.value, float))

    def violation(self, value: np.ndarray) -> str | None:
        same = np.array_equal(value, np.asarray(self.value, float))
        return None if same else f"the frozen value {np.asarray(self.value).tolist()}"


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def freeze(constraints: dict[str, Constraint], frozen: dict[str, Any]) -> dict[str, Constraint]:
    """`constraints` with the named leaves fixed at the given values."""
    unknown = sorted(set(frozen) - set(constraints))
    if unknown:
        raise ValueError(f"frozen names {unknown} but the model's parameters are {sorted(constraints)}")
    fixed: dict[str, Constraint] = {}
    for name, value in frozen.items():
        value = _as_floats(name, value)
        constraint = constraints[name]
        if isinstance(constraint, Simplex) and value.shape == constraint.shape:
            # A known probability may be zero: without free coordinates it needs no logarithm.
            possible = constraint._mask() & (value != 0)
            if possible.any(-1).all():
                constraint = Simplex(constraint.shape, _as_tuples(possible.tolist()))
        _check_leaf(name, constraint, value)
        fixed[name] = Frozen.at(value)
    return {**constraints, **fixed}


def _as_floats(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise ValueError(f"parameter '{name}' must be numeric, got {value!r:.80}") from None


def _check_leaf(name: str, constraint: Constraint, value: np.ndarray) -> None:
    if value.shape != constraint.shape:
        raise ValueError(f"parameter '{name}' must have shape {constraint.shape}, got {value.shape}")
    if not np.all(np.isfinite(value)):
        raise ValueError(f"parameter '{name}' must be finite, got {value.tolist()}")
    expected = constraint.violation(value)
    if expected is not None:
        raise ValueError(f"parameter '{name}' must be {expected}, got {value.tolist()}")


class ParameterSpace:
    """A pytree of constraints, seen as R^D.

    Attributes:
        names: D names such as `transition[0,1]`, one per free coordinate.
        size: D.
    """

    def __init__(self, constraints: Any) -> None:
        paths, tree = jax.tree_util.tree_flatten_with_path(constraints)
        self._tree: Any = tree
        self._leaf_names = [leaf_name(path) for path, _ in paths]
        self._leaves: list[Constraint] = [leaf for _, leaf in paths]
        for name, leaf in zip(self._leaf_names, self._leaves, strict=True):
            if not hasattr(leaf, "coordinates"):
                raise ValueError(f"parameter '{name}' must be a constraint, got {type(leaf).__name__}")
        self.names = [
            name + (f"[{','.join(map(str, index))}]" if index else "")
            for name, leaf in zip(self._leaf_names, self._leaves, strict=True)
            for index in leaf.coordinates()
        ]
        self.size = len(self.names)
        sizes = [len(leaf.coordinates()) for leaf in self._leaves]
        self._stops = np.cumsum([0, *sizes])

    def __hash__(self) -> int:
        return hash((self._tree, tuple(self._leaves)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ParameterSpace)
            and self._tree == other._tree
            and self._leaves == other._leaves
        )

    def _named(self, params: Params) -> Iterator[tuple[str, Constraint, np.ndarray]]:
        try:
            values = self._tree.flatten_up_to(params)  # a plain list is a fine value of a leaf
        except ValueError:
            found = [leaf_name(path) for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
            raise ValueError(
                f"parameters must be a pytree of {', '.join(self._leaf_names)}; "
                f"got {', '.join(found) or 'none'}"
            ) from None
        for name, leaf, value in zip(self._leaf_names, self._leaves, values, strict=True):
            yield name, leaf, _as_floats(name, value)

    def to_free(self, params: Params) -> np.ndarray:
        """The free vector (D,) of a pytree of constrained values, which is checked."""
        parts = [np.zeros(0)]
        for name, leaf, value in self._named(params):
            _check_leaf(name, leaf, value)
            parts.append(leaf.to_free(value))
        return np.concatenate(parts)

    def named_values(self, theta: Array) -> Array:
        """(D,): the entry of the constrained values that each of `names` names."""
        values = jax.tree_util.tree_leaves(self.to_params(theta))
        parts = [
            value[tuple(np.array(leaf.coordinates()).T)] if leaf.shape else value[None]
            for leaf, value in zip(self._leaves, values, strict=True)
            if leaf.coordinates()
        ]
        return jnp.concatenate(parts)

    def to_params(self, theta: Array) -> Params:
        """The pytree of constrained values at a free vector (D,). Differentiable."""
        if np.shape(theta) != (self.size,):
            raise ValueError(f"theta must have shape ({self.size},), got {np.shape(theta)}")
        values = [
            leaf.to_value(theta[start:stop])
            for leaf, start, stop in zip(self._leaves, self._stops[:-1], self._stops[1:], strict=True)
        ]
        return jax.tree_util.tree_unflatten(self._tree, values)


def leaf_name(path: tuple[Any, ...]) -> str:
    """`layer.weight` for the leaf at that path of a pytree; `theta` when the pytree is one array."""
    keys = [getattr(p, "key", getattr(p, "name", getattr(p, "idx", p))) for p in path]
    return ".".join(map(str, keys)) or "theta"
