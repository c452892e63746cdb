"""Log-likelihoods of state-space models and their gradients by JAX: on accelerators, or where asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fitonce.core.deferred import jax
from fitonce.core.devices import on_cpu
from fitonce.core.numerics import in_float64
from fitonce.engines import kalman_jax as engine
from fitonce.objectives.space.layout import Layout, Paths
from fitonce.objectives.space.passes import contracted

KERNELS = ("native", "scan", "tree")
_SHORT = 64  # steps: at 100, rounds were the faster on an H200, in more memory
_BYTES = 2**30  # of a group of folds, on a CPU and
_BYTES_DEVICE = 2**34  # elsewhere


@dataclass(frozen=True, eq=False)
class Compiled:
    """A model on data, for one of the kernels of JAX."""

    layout: Layout
    kernel: str

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.diff(self.layout.steps.starts)

    @cached_property
    def _places(self) -> np.ndarray:
        """(L, N) of each step among the steps of all sequences, the last one repeated."""
        steps = np.arange(self._lengths.max())[:, None]
        return self.layout.steps.starts[:-1] + np.minimum(steps, self._lengths - 1)

    @cached_property
    def _used(self) -> tuple[Any, ...]:
        return tuple(
            (name, tuple(map(tuple, entries.tolist()))) for name, entries in self.layout.used.items()
        )

    @cached_property
    def _data(self) -> tuple[Any, ...]:
        """y, seen and places, where JAX works."""
        steps, places = self.layout.steps, self._places
        inside = np.arange(len(places))[:, None] < self._lengths
        seen = np.moveaxis(steps.seen[places] & inside[..., None], 1, 2).astype(float)
        return tuple(map(jax.device_put, (np.moveaxis(steps.y[places], 1, 2), seen, places)))

    def _given(self, spread: np.ndarray) -> engine.Padded:
        diffuse = self.layout.diffuse
        unit = np.einsum("ij,ikf,kj->jf", diffuse, spread, diffuse)
        y, seen, places = self._data
        return engine.Padded(y, seen, places, self.layout.floor, np.sqrt(np.maximum(unit, 0.0)))

    def _groups(self, folds: int) -> list[np.ndarray]:
        """Folds that go together, padded to a power of two, so that few shapes are compiled."""
        states, columns = self.layout.n_states, 1 + self.layout.diffuse.shape[1]
        width = self.layout.steps.y.shape[1]
        numbers = 3 * states**2 + 2 * states * columns + width * (width + columns + states + 4)
        each = 8 * 8 * self._places.size * numbers  # what derivatives keep is some times as much
        most = max(int((_BYTES if on_cpu() else _BYTES_DEVICE) // each), 1)
        most = 1 << (most.bit_length() - 1)
        return [np.arange(at, min(at + most, folds)) for at in range(0, folds, most)]

    def _arguments(self, thetas: np.ndarray, paths: Paths, folds: np.ndarray) -> tuple[Any, ...]:
        count = 1 << int(len(folds) - 1).bit_length()
        some = folds[np.minimum(np.arange(count), len(folds) - 1)]
        with np.errstate(all="ignore"):
            arrays = self.layout.arrays(self.layout.systems(thetas[some]))
        weights, shares, coefficients = paths.some(some)
        inside = self._places
        laid = (weights[inside], shares[inside])
        return (self._given(arrays["spread"]), arrays, *laid), coefficients

    def _by_kernel(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What `work` returns, log-likelihoods alone or first; by steps where these are not finite."""
        found = work(self.kernel, self._used, *arguments)
        values = found[0] if isinstance(found, tuple) else found
        if self.kernel == "tree" and not np.isfinite(np.asarray(values)).all():
            # Where a step has no noise of its own, elements do not exist.
            found = work("scan", self._used, *arguments)
        return found

    @in_float64
    def of_sequences(self, thetas: np.ndarray, paths: Paths) -> np.ndarray:
        """(F, N) log-likelihoods."""
        found = []
        for folds in self._groups(len(thetas)):
            arguments, _ = self._arguments(thetas, paths, folds)
            values = np.asarray(self._by_kernel(engine.log_likelihoods, *arguments))
            found.append(values[:, : len(folds)].T)
        return np.concatenate(found)

    @in_float64
    def with_slopes(self, thetas: np.ndarray, paths: Paths) -> tuple[np.ndarray, np.ndarray]:
        """(F,) log-likelihoods and (F, D) their gradients."""
        values, slopes = [], []
        for folds in self._groups(len(thetas)):
            arguments, coefficients = self._arguments(thetas, paths, folds)
            one, bars = self._by_kernel(engine.with_slopes, *arguments, coefficients)
            own = {name: np.asarray(bar)[..., : len(folds)] for name, bar in bars.items()}
            values.append((coefficients * np.asarray(one)).sum(0)[: len(folds)])
            with np.errstate(all="ignore"):
                slopes.append(contracted(self.layout, thetas[folds], own))
        return np.concatenate(values), np.concatenate(slopes)


def chosen(kernel: str | None, layout: Layout) -> str:
    """The kernel: native on a CPU, by the shape of the data elsewhere."""
    if kernel is not None:
        return kernel
    if on_cpu() or layout.model.density is not None:
        return "native"
    return "scan" if np.diff(layout.steps.starts).max() <= _SHORT else "tree"
