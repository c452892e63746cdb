"""Densities and derivatives of any emission by JAX, in place of closed forms.

All states share all P = E coordinates of the emission. Programs see no chain, so they are small; rows
are padded to a few numbers, so that new data seldom mean new programs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from fitonce.core.deferred import jax, jit, jnp
from fitonce.core.lanes import LANES
from fitonce.core.numerics import Array, in_float64
from fitonce.models.emissions.closed_forms import ClosedForms, Observations, Values
from fitonce.objectives.base import Program

_FEWEST = 64


def _table(program: Program, theta: Array, rows: Any) -> Array:
    return program.model.log_density(program.space.to_params(theta), rows)


def _weighted(program: Program, theta: Array, shares: Array, rows: Any) -> Array:
    """sum_rk shares[r, k] log p(row r | k)."""
    return jnp.sum(jnp.where(shares != 0, shares * _table(program, theta, rows), 0.0))


def _prior(program: Program, theta: Array, rows: Any) -> Array:
    return program.model.emission.log_prior(program.space.to_params(theta), rows)


@partial(jit, static_argnums=0)
def _tables(program: Program, thetas: Array, rows: Any) -> Array:
    """(R, K, F)."""
    return jax.vmap(lambda theta: _table(program, theta, rows), out_axes=-1)(thetas)


@partial(jit, static_argnums=0)
def _slopes(program: Program, thetas: Array, shares: Array, rows: Any) -> Array:
    """(F, D)."""
    slope = jax.grad(lambda theta, share: _weighted(program, theta, share, rows))
    return jax.vmap(slope, (0, -1))(thetas, shares)


@partial(jit, static_argnums=0)
def _scores(program: Program, theta: Array, rows: Any) -> Array:
    """(R, K, D)."""
    return jax.jacfwd(lambda t: _table(program, t, rows))(theta)


@partial(jit, static_argnums=0)
def _curvature(program: Program, theta: Array, shares: Array, rows: Any) -> Array:
    """(D, D)."""
    return jax.hessian(lambda t: _weighted(program, t, shares, rows))(theta)


@partial(jit, static_argnums=0)
def _prior_slopes(program: Program, thetas: Array, rows: Any) -> tuple[Array, Array]:
    """(F,) and (F, D)."""
    return jax.vmap(jax.value_and_grad(lambda theta: _prior(program, theta, rows)))(thetas)


@partial(jit, static_argnums=0)
def _prior_curvature(program: Program, theta: Array, rows: Any) -> Array:
    """(D, D)."""
    return jax.hessian(lambda t: _prior(program, t, rows))(theta)


@dataclass(frozen=True, eq=False)
class DerivedForms(ClosedForms):
    """Of one emission on the rows of one data set.

    Args:
        program: the model and its parameters.
        rows: padded, as the emission reads them.
        count: R, the number of rows that are not padding.
        places: (E,) the emission's coordinates in theta.
        last: the table that was made last, after the parameters it is for.
    """

    program: Program
    rows: Any
    count: int
    places: np.ndarray
    last: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    @classmethod
    @in_float64
    def of(
        cls, program: Program, rows: Any, chosen: np.ndarray, counts: np.ndarray, places: np.ndarray
    ) -> DerivedForms:
        """`chosen`, `counts`: (R,) which of the rows, and how often each of them occurs."""
        free = jax.ShapeDtypeStruct((program.space.size,), float)
        jax.eval_shape(
            lambda theta: _table(program, theta, rows), free
        )  # raise now, with its own shapes
        size = max(_FEWEST, 2 ** int(np.ceil(np.log2(max(len(chosen), 1)))))
        index = np.append(chosen, np.full(size - len(chosen), chosen[-1]))
        padded = jax.tree_util.tree_map(lambda array: jax.device_put(np.asarray(array)[index]), rows)
        padded = replace(padded, counts=jax.device_put(np.pad(counts, (0, size - len(chosen)))))
        # Scheme and kernel make no difference here, so that programs are shared.
        return cls(replace(program, scheme=None, kernel=None), padded, len(chosen), places)  # type: ignore[arg-type]

    @property
    def _states(self) -> int:
        return self.program.model.n_emitting

    @in_float64
    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        thetas, folds = _filled(values.thetas, 0)
        for known, table in self.last:  # folds of the control all have the same parameters
            if np.array_equal(known, thetas):
                return table[: self.count, :, :folds]
        table = np.asarray(_tables(self.program, thetas, self.rows))
        self.last[:] = [(np.array(thetas), table)]
        return table[: self.count, :, :folds]

    @in_float64
    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        thetas, folds = _filled(values.thetas, 0)
        padded = np.zeros((len(self.rows.counts), *shares.shape[1:]))
        padded[: self.count] = shares
        found = np.asarray(_slopes(self.program, thetas, _filled(padded, -1)[0], self.rows))
        return self._in_first(found[:folds, self.places].T)

    def _in_first(self, found: np.ndarray) -> np.ndarray:
        """(K, E, ...): sums over all states, as those of the first one."""
        out = np.zeros((self._states, *found.shape))
        out[0] = found
        return out

    @in_float64
    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        found = np.asarray(_scores(self.program, values.thetas, self.rows))
        return found[: self.count][..., self.places]

    @in_float64
    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        padded = np.zeros((len(self.rows.counts), self._states))
        padded[: self.count] = shares
        found = np.asarray(_curvature(self.program, values.thetas, padded, self.rows))
        return self._in_first(found[np.ix_(self.places, self.places)])

    @in_float64
    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        thetas, folds = _filled(values.thetas, 0)
        return np.asarray(_prior_slopes(self.program, thetas, self.rows)[0])[:folds]

    @in_float64
    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        thetas, folds = _filled(values.thetas, 0)
        found = np.asarray(_prior_slopes(self.program, thetas, self.rows)[1])
        return self._in_first(found[:folds, self.places].T)

    @in_float64
    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        found = np.asarray(_prior_curvature(self.program, values.thetas, self.rows))
        return self._in_first(found[np.ix_(self.places, self.places)])


def _filled(array: np.ndarray, axis: int) -> tuple[np.ndarray, int]:
    """One fold, or as many as fill the lanes once, twice, four times and so on, the last one repeated;
    and how many are real."""
    folds = array.shape[axis]
    size = 1 if folds == 1 else LANES * 2 ** max(int(np.ceil(np.log2(folds / LANES))), 0)
    if size == folds:
        return array, folds
    return np.take(array, np.minimum(np.arange(size), folds - 1), axis), folds
