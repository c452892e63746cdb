"""Parameters: a pytree of constrained values to and from one free vector, with names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from fitonce.core.arguments import naming, read_array, shown
from fitonce.core.chunks import unit_rows
from fitonce.core.constraints import Constraint, Frozen, Scores, Simplex, as_tuples
from fitonce.core.deferred import jax, jit
from fitonce.core.numerics import Array, in_float64, is_nan

Params = Any  # a pytree of arrays
_STEPS = 256  # directions of derivatives at a time
_ZERO = 1e-4  # standard errors: a root of a variance that is closer to zero is zero


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
            # A known probability may be zero: it has no free coordinate that would be its logarithm.
            possible = constraint.mask() & (value != 0)
            if possible.any(-1).all():
                constraint = Simplex(constraint.shape, as_tuples(possible.tolist()))
        _check_leaf(name, constraint, value)
        fixed[name] = Frozen.at(value)
    return {**constraints, **fixed}


def _as_floats(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise ValueError(f"parameter '{name}' must be numeric, got {shown(value)}") from None


def _check_leaf(name: str, constraint: Constraint, value: np.ndarray) -> None:
    if value.shape != constraint.shape:
        raise ValueError(f"parameter '{name}' must have shape {constraint.shape}, got {value.shape}")
    if not isinstance(constraint, Scores) and not np.all(np.isfinite(value)):
        raise ValueError(f"parameter '{name}' must be finite, got {shown(value.tolist())}")
    expected = constraint.violation(value)
    if expected is not None:
        raise ValueError(f"parameter '{name}' must be {expected}, got {shown(value.tolist())}")


@in_float64
def _values_of(leaf: Constraint, free: np.ndarray) -> np.ndarray:
    """`leaf.values(free)`; of a user's constraint that has only `to_value`, by JAX, with the derivative
    along the imaginary part where there is one."""
    if hasattr(leaf, "values"):
        return leaf.values(free)
    many = jax.vmap(leaf.to_value, -1, -1)
    if not np.iscomplexobj(free):
        return np.asarray(many(jax.device_put(free)))
    step = np.abs(free.imag).max(initial=np.finfo(float).tiny)
    value, slope = jax.jvp(many, (free.real,), (free.imag / step,))
    return np.asarray(value) + 1j * step * np.asarray(slope)


class Coordinates(Protocol):
    """What leaves are learned as, where that is not themselves: `learned(reported(values)) == values`,
    of values (*shape, F) or (*shape,) by name. Hashable, and analytic."""

    @property
    def names(self) -> set[str]: ...
    def reported(self, values: Mapping[str, Any]) -> dict[str, Any]: ...
    def learned(self, values: Mapping[str, Any]) -> dict[str, Any]: ...


class ParameterSpace:
    """A pytree of constraints, seen as R^D.

    Attributes:
        coordinates: what leaves are learned as; None: themselves.
        names: D names such as `transition[0,1]`, one per free coordinate.
        size: D.
    """

    def __init__(self, constraints: Any, coordinates: Coordinates | None = None) -> None:
        self.coordinates = coordinates
        self._tree, self._leaf_names, self._leaves = _flattened(constraints)
        for name, leaf in zip(self._leaf_names, self._leaves, strict=True):
            if not hasattr(leaf, "coordinates"):
                raise ValueError(f"parameter '{name}' must be a constraint, got {type(leaf).__name__}")
        places = [leaf.coordinates() for leaf in self._leaves]  # once: there may be many
        self.names = [
            name + (f"[{','.join(map(str, index))}]" if index else "")
            for name, indices in zip(self._leaf_names, places, strict=True)
            for index in indices
        ]
        self.size = len(self.names)
        stops = np.cumsum([0, *map(len, places)])
        self._spans = list(pairwise(stops))

    def _key(self) -> tuple[Any, ...]:
        return (self._tree, self.coordinates, *self._leaves)

    @property
    def plain(self) -> ParameterSpace:
        """The same leaves, learned as they are."""
        return ParameterSpace(self._tree.unflatten(self._leaves))

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParameterSpace) and self._key() == other._key()

    def leaves(self) -> list[tuple[str, Constraint, np.ndarray]]:
        """Name, constraint and positions in theta of each leaf."""
        places = [np.arange(*span) for span in self._spans]
        return list(zip(self._leaf_names, self._leaves, places, strict=True))

    @property
    def even(self) -> np.ndarray:
        """(D,) coordinates in which every objective is even: roots of variances."""
        parts = [np.full(len(places), getattr(leaf, "even", False)) for _, leaf, places in self.leaves()]
        return np.concatenate([np.zeros(0, bool), *parts])

    def at_zero(self, thetas: np.ndarray, errors: np.ndarray) -> np.ndarray:
        """(..., D) variances that are zero at free vectors (..., D), given the standard errors (D,) of
        their roots."""
        return self.even & (np.abs(thetas) < _ZERO * errors)  # False for nan

    def to_free(self, params: Params) -> np.ndarray:
        """The free vector (D,) of a pytree of constrained values, which is checked."""
        try:
            values = self._tree.flatten_up_to(params)  # not tree_flatten: a leaf may be a plain list
        except ValueError:
            found = _flattened(params)[1]
            raise ValueError(
                f"init or params must be a pytree of {', '.join(self._leaf_names)}; "
                f"got {', '.join(found) or 'none'}"
            ) from None
        known = {}
        for name, leaf, given in zip(self._leaf_names, self._leaves, values, strict=True):
            with naming("init or params"):
                known[name] = _as_floats(name, given)
                _check_leaf(name, leaf, known[name])
        if self.coordinates is not None:
            known = self.coordinates.learned(known)
        parts = [leaf.to_free(known[name]) for name, leaf in zip(known, self._leaves, strict=True)]
        return np.concatenate([np.zeros(0), *parts])

    def named_leaves(self, params: Params) -> list[tuple[str, np.ndarray]]:
        """Name and value of each leaf of a pytree of constrained values."""
        values = self._tree.flatten_up_to(params)
        return [(name, np.asarray(v)) for name, v in zip(self._leaf_names, values, strict=True)]

    def values(self, thetas: np.ndarray) -> dict[str, np.ndarray]:
        """Name and constrained value (*shape, F) of each leaf, for thetas (F, D), in NumPy."""
        spans = zip(self._leaf_names, self._leaves, self._spans, strict=True)
        found = {
            name: _values_of(leaf, np.ascontiguousarray(thetas[:, start:stop].T))
            for name, leaf, (start, stop) in spans
        }
        return found if self.coordinates is None else self.coordinates.reported(found)

    def params_at(self, theta: np.ndarray) -> Params:
        """The pytree of constrained values at a free vector (D,), in NumPy; all nan at one that is, like
        that of a fold without parameters."""
        if self.size and is_nan(theta, (self.size,)):
            return self._tree.unflatten([np.full(leaf.shape, np.nan) for leaf in self._leaves])
        theta = read_array("theta", theta, f"{self.size} finite numbers")
        if theta.shape != (self.size,):
            raise ValueError(f"theta must have shape ({self.size},), got {theta.shape}")
        return self._tree.unflatten([value[..., 0] for value in self.values(theta[None]).values()])

    def named_values(self, thetas: np.ndarray) -> np.ndarray:
        """(F, D): the constrained values that `names` refers to, at thetas (F, D)."""
        parts = [np.zeros((0, len(thetas)))]
        for leaf, value in zip(self._leaves, self.values(thetas).values(), strict=True):
            if leaf.coordinates():
                parts.append(value[tuple(np.array(leaf.coordinates()).T)] if leaf.shape else value[None])
        return np.concatenate(parts).T

    def named_slopes(self, theta: np.ndarray) -> sparse.csr_array:
        """(D, D) derivatives of the named values by theta. A tiny imaginary step has the derivative in
        the imaginary part, without rounding: the maps are analytic."""
        columns = []
        for _, unit in unit_rows(self.size, _STEPS):
            found = self.named_values(theta + 1e-200j * unit).imag / 1e-200
            columns.append(sparse.csc_array(found.T))
        return sparse.csr_array(sparse.hstack(columns)[:, : self.size])

    def along(self, theta: np.ndarray, slopes: dict[str, np.ndarray]) -> np.ndarray:
        """(D,) the direction in which some named values change with the given slopes, and no others."""
        found, matrix = np.zeros(self.size), self.named_slopes(theta)
        for name, _, places in self.leaves():
            if name in slopes:
                own = matrix[places][:, places].toarray()
                # least squares: nothing moves a variance of zero, whose root has no slope
                found[places] = np.linalg.lstsq(own, np.ravel(slopes[name]), rcond=None)[0]
        return found

    @partial(jit, static_argnums=0)
    def to_params(self, theta: Array) -> Params:
        """The pytree of constrained values at a free vector (D,). Differentiable. Compiled as a whole:
        its operations one by one would take longer to compile."""
        if np.shape(theta) != (self.size,):
            raise ValueError(f"theta must have shape ({self.size},), got {np.shape(theta)}")
        parts = [theta[start:stop] for start, stop in self._spans]
        values = [leaf.to_value(part) for leaf, part in zip(self._leaves, parts, strict=True)]
        if self.coordinates is not None:
            values = list(
                self.coordinates.reported(dict(zip(self._leaf_names, values, strict=True))).values()
            )
        return self._tree.unflatten(values)


@dataclass(frozen=True)
class _Flat:
    """The structure of a plain dict, as JAX has one for every pytree."""

    names: tuple[str, ...]

    def flatten_up_to(self, params: Any) -> list[Any]:
        if not isinstance(params, dict) or set(params) != set(self.names):
            raise ValueError
        return [params[name] for name in self.names]

    def unflatten(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.names, values, strict=True))


def _flattened(tree: Any) -> tuple[Any, list[str], list[Any]]:
    """The structure of a pytree, and names and values of its leaves; of a plain dict without JAX."""
    if (
        type(tree) is dict
        and all(map(_is_leaf, tree.values()))
        and all(isinstance(k, str) for k in tree)
    ):
        names = sorted(tree)
        return _Flat(tuple(names)), names, [tree[name] for name in names]
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    return structure, [leaf_name(path) for path, _ in paths], [leaf for _, leaf in paths]


def _is_leaf(value: Any) -> bool:
    return hasattr(value, "coordinates") or isinstance(value, (np.ndarray, float, int))


def leaf_name(path: tuple[Any, ...]) -> str:
    """`layer.weight` for the leaf at that path of a pytree; `theta` if the pytree is one array."""
    keys = [getattr(p, "key", getattr(p, "name", getattr(p, "idx", p))) for p in path]
    return ".".join(map(str, keys)) or "theta"
