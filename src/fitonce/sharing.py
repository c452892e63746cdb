"""The Hessian of many sequences, split over them: H is a sum, so that any split gives the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fitonce import louis
from fitonce.objective import Program
from fitonce.parallel import Parallel, Workers, groups
from fitonce.potentials import Layout


def split_hessian(
    parallel: Parallel,
    program: Program,
    theta: np.ndarray,
    grid: np.ndarray,
    coefficients: np.ndarray,
    prepared: Any,
    layout: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """- sum_n coefficient_n d2 log p(x_n) (D, D) and slopes (N, D), wherever `parallel` says."""
    if parallel == "devices":
        return louis.likelihood_hessian(
            program, theta, grid, coefficients, prepared, layout, devices=len(jax.devices())
        )
    if not isinstance(parallel, Workers):
        return louis.likelihood_hessian(program, theta, grid, coefficients, prepared, layout)
    steps = np.full(len(grid), grid.shape[1]) if layout.lengths is None else np.asarray(layout.lengths)
    members = groups(steps, parallel.n)
    tasks = [
        (theta, grid[group], coefficients[group], *_local(prepared, layout, group)) for group in members
    ]
    hessian, slopes = np.zeros((len(theta), len(theta))), np.empty((len(grid), len(theta)))
    for group, (part, rows) in zip(
        members, parallel.run(partial(louis.likelihood_hessian, program), tasks), strict=True
    ):
        hessian += part
        slopes[group] = rows
    return hessian, slopes


def _local(prepared: Any, layout: Layout, group: np.ndarray) -> tuple[Any, Any]:
    """The data of some sequences, as arrays of the host: that is what travels."""
    part = (prepared.take(jnp.asarray(group)), layout.take(jnp.asarray(group)))
    return jax.tree_util.tree_map(np.asarray, part)
