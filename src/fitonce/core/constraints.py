"""Constraints: the values that one leaf of the parameters may take, and its free coordinates.

A constraint gives a leaf's shape, its free coordinates and their names, and the map both ways.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from fitonce.core.deferred import jax, jnp
from fitonce.core.numerics import Array


class Constraint(Protocol):
    """One leaf of a parameter pytree. `to_value(to_free(value)) == value`."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def coordinates(self) -> list[tuple[int, ...]]:
        """For each free coordinate, the index of the entry of the value that it is named after."""
        ...

    def to_free(self, value: np.ndarray) -> np.ndarray: ...
    def to_value(self, free: Array) -> Array: ...
    def values(self, free: np.ndarray) -> np.ndarray:
        """`to_value` of many at once in NumPy: coordinates (n, F) to values (*shape, F). Analytic, so
        that it also takes complex numbers."""
        ...

    def violation(self, value: np.ndarray) -> str | None:
        """None, or a description of valid values."""
        ...


def _indices(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, shape)))


@dataclass(frozen=True)
class EachEntry:
    """One free coordinate per entry."""

    shape: tuple[int, ...] = ()

    def coordinates(self) -> list[tuple[int, ...]]:
        return _indices(self.shape)


@dataclass(frozen=True)
class _Supported:
    """`support`, a nested tuple of bools, marks the entries that may have positive probability;
    None: all of them."""

    shape: tuple[int, ...]
    support: tuple[Any, ...] | None = None

    def mask(self) -> np.ndarray:
        return np.ones(self.shape, bool) if self.support is None else np.asarray(self.support, bool)


class Free(EachEntry):
    """Any real numbers."""

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.ravel(value)

    def to_value(self, free: Array) -> Array:
        return free.reshape(self.shape)

    def values(self, free: np.ndarray) -> np.ndarray:
        return free.reshape(*self.shape, -1)

    def violation(self, value: np.ndarray) -> str | None:
        return None


class Scores(_Supported):
    """Real numbers on the support; minus infinity, the logarithm of zero, elsewhere."""

    def coordinates(self) -> list[tuple[int, ...]]:
        mask = self.mask()
        return [index for index in _indices(self.shape) if mask[index]]

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return value[self.mask()]

    def to_value(self, free: Array) -> Array:
        return jnp.full(self.shape, -jnp.inf, free.dtype).at[np.nonzero(self.mask())].set(free)

    def values(self, free: np.ndarray) -> np.ndarray:
        found = np.full((*self.shape, free.shape[-1]), -np.inf, free.dtype)
        found[self.mask()] = free
        return found

    def violation(self, value: np.ndarray) -> str | None:
        mask = self.mask()
        if np.isfinite(value[mask]).all() and np.all(value[~mask] == -np.inf):
            return None
        return "finite on its support and minus infinity elsewhere"


@dataclass(frozen=True)
class Mask:
    """Which entries of a large array are there: bools that are hashable, and compared at once."""

    shape: tuple[int, ...]
    packed: bytes

    @classmethod
    def of(cls, bools: np.ndarray) -> Mask:
        return cls(bools.shape, np.packbits(bools, axis=None).tobytes())

    @cached_property
    def array(self) -> np.ndarray:
        """Bools of this shape."""
        count = int(np.prod(self.shape))
        flat = np.unpackbits(np.frombuffer(self.packed, np.uint8), count=count)
        return flat.reshape(self.shape).astype(bool)


@dataclass(frozen=True)
class Sparse:
    """Real numbers where the mask is true; exact zeros, which are not parameters, elsewhere."""

    mask: Mask

    @property
    def shape(self) -> tuple[int, ...]:
        return self.mask.shape

    def coordinates(self) -> list[tuple[int, ...]]:
        return list(map(tuple, np.argwhere(self.mask.array).tolist()))

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return value[self.mask.array]

    def to_value(self, free: Array) -> Array:
        return jnp.zeros(self.shape, free.dtype).at[np.nonzero(self.mask.array)].set(free)

    def values(self, free: np.ndarray) -> np.ndarray:
        found = np.zeros((*self.shape, free.shape[-1]), free.dtype)
        found[self.mask.array] = free
        return found

    def violation(self, value: np.ndarray) -> str | None:
        inside = not np.any(value[~self.mask.array])
        return None if inside else "zero where the model has no parameter"


class Positive(EachEntry):
    """Positive numbers; free coordinates are their logarithms."""

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.log(np.ravel(value))

    def to_value(self, free: Array) -> Array:
        return jnp.exp(free).reshape(self.shape)

    def values(self, free: np.ndarray) -> np.ndarray:
        return np.exp(free).reshape(*self.shape, -1)

    def violation(self, value: np.ndarray) -> str | None:
        return None if np.all(value > 0) else "positive numbers"


class Proportion(EachEntry):
    """Numbers between 0 and 1; free coordinates are their log-odds."""

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.log(np.ravel(value)) - np.log1p(-np.ravel(value))

    def to_value(self, free: Array) -> Array:
        return jax.nn.sigmoid(free).reshape(self.shape)

    def values(self, free: np.ndarray) -> np.ndarray:
        within: np.ndarray = np.clip(free.real, -708.0, 36.7)  # no value is 0 or 1, which have no odds
        odds = within + 1j * free.imag if np.iscomplexobj(free) else within
        return (1.0 / (1.0 + np.exp(-odds))).reshape(*self.shape, -1)

    def violation(self, value: np.ndarray) -> str | None:
        return None if np.all((value > 0) & (value < 1)) else "numbers between 0 and 1"


@dataclass(frozen=True)
class Simplex(_Supported):
    """Probabilities along the last axis, zero outside the support. Free coordinates are log-ratios to
    each row's last entry in the support."""

    def __post_init__(self) -> None:
        if len(self.shape) == 0 or self.shape[-1] == 0:
            raise ValueError(f"a simplex needs entries along a last axis, got shape {self.shape}")
        if self.support is None:
            return
        support = np.asarray(self.support, bool)
        if support.shape != self.shape or not support.any(-1).all():
            raise ValueError(
                f"support must have shape {self.shape} and a true entry in each row, "
                f"got {support.tolist()}"
            )
        object.__setattr__(self, "support", as_tuples(support.tolist()))

    def reference(self) -> np.ndarray:
        """For each row, its last entry in the support, to which log-ratios are."""
        mask = self.mask()
        return mask.shape[-1] - 1 - np.argmax(mask[..., ::-1], -1)

    def coordinates(self) -> list[tuple[int, ...]]:
        mask, last = self.mask(), self.reference()
        return [i for i in _indices(self.shape) if mask[i] and i[-1] != last[i[:-1]]]

    def to_free(self, value: np.ndarray) -> np.ndarray:
        last = self.reference()
        return np.array([np.log(value[i] / value[*i[:-1], last[i[:-1]]]) for i in self.coordinates()])

    def to_value(self, free: Array) -> Array:
        logits = jnp.where(self.mask(), 0.0, -jnp.inf)
        places = self.coordinates()
        if places:
            logits = logits.at[tuple(np.array(places).T)].set(free)
        return jax.nn.softmax(logits, -1)

    @cached_property
    def _entries(self) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Logits of the references, and the entries of the coordinates."""
        places = np.array(self.coordinates(), int).reshape(-1, len(self.shape))
        return np.where(self.mask(), 0.0, -np.inf), tuple(places.T)

    def values(self, free: np.ndarray) -> np.ndarray:
        outside, places = self._entries
        logits = np.repeat(outside[..., None].astype(free.dtype), free.shape[-1], -1)
        logits[places] = free
        shares = np.exp(logits - logits.real.max(-2, keepdims=True))
        return shares / shares.sum(-2, keepdims=True)

    def violation(self, value: np.ndarray) -> str | None:
        mask = self.mask()
        sums = np.allclose(value.sum(-1), 1.0, rtol=0.0, atol=1e-8)
        if sums and np.all(value[mask] > 0) and np.all(value[~mask] == 0):
            return None
        zeros = "" if mask.all() else ", zero outside its support"
        return f"positive probabilities that sum to one along the last axis{zeros}"


@dataclass(frozen=True)
class Ordered(EachEntry):
    """Increasing numbers along the last axis; free coordinates are the first one and the logarithms of
    the gaps."""

    def __post_init__(self) -> None:
        if len(self.shape) == 0:
            raise ValueError("ordered numbers need a last axis, got shape ()")

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.concatenate([value[..., :1], np.log(np.diff(value, axis=-1))], -1).ravel()

    def to_value(self, free: Array) -> Array:
        parts = free.reshape(self.shape)
        return jnp.cumsum(jnp.concatenate([parts[..., :1], jnp.exp(parts[..., 1:])], -1), -1)

    def values(self, free: np.ndarray) -> np.ndarray:
        parts = free.reshape(*self.shape, -1)
        return np.cumsum(np.concatenate([parts[..., :1, :], np.exp(parts[..., 1:, :])], -2), -2)

    def violation(self, value: np.ndarray) -> str | None:
        return None if np.all(np.diff(value, axis=-1) > 0) else "increasing numbers"


@dataclass(frozen=True)
class Covariance:
    """Symmetric positive definite matrices (last two axes); free coordinates are the Cholesky factor,
    with the logarithm of its diagonal."""

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

    def values(self, free: np.ndarray) -> np.ndarray:
        places = tuple(np.array(self.coordinates()).T)
        factor = np.zeros((*self.shape, free.shape[-1]), free.dtype)
        diagonal = (places[-1] == places[-2])[:, None]
        factor[places] = np.where(diagonal, np.exp(np.where(diagonal, free, 0.0)), free)
        return np.einsum("...ijf,...kjf->...ikf", factor, factor)

    def violation(self, value: np.ndarray) -> str | None:
        symmetric = np.allclose(value, np.swapaxes(value, -1, -2))
        if symmetric and np.all(np.linalg.eigvalsh(value) > 0):
            return None
        return "symmetric positive definite matrices"


@dataclass(frozen=True)
class Frozen:
    """A known value, without free coordinates."""

    value: Any  # nested tuples of floats, so that a space stays hashable

    @classmethod
    def at(cls, value: Any) -> Frozen:
        return cls(as_tuples(np.asarray(value, float).tolist()))

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value)

    def coordinates(self) -> list[tuple[int, ...]]:
        return []

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def to_value(self, free: Array) -> Array:
        return jnp.asarray(np.asarray(self.value, float))

    def values(self, free: np.ndarray) -> np.ndarray:
        value = np.asarray(self.value, float)[..., None]
        return np.broadcast_to(value, (*self.shape, free.shape[-1]))

    def violation(self, value: np.ndarray) -> str | None:
        same = np.array_equal(value, np.asarray(self.value, float))
        return None if same else f"the frozen value {np.asarray(self.value).tolist()}"


def as_tuples(value: Any) -> Any:
    """Nested lists as nested tuples, which are hashable."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value
