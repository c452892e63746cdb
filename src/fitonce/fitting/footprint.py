"""Bytes that calls take, counted from sizes: what `memory_limit` is compared with and `fo.plan` says.

A call holds arrays of the length of its result, whatever the limit. Beside them it works in pieces.
"""

from __future__ import annotations

from typing import NamedTuple

from fitonce.core import memory
from fitonce.core.wording import counted
from fitonce.fitting.hessian import PRODUCTS_PAY
from fitonce.folds import Folds
from fitonce.objectives.abilities import HasLabels
from fitonce.objectives.base import Objective

MATRICES = 2**30  # bytes that the folds' own matrices may take, where products would do
# Vectors (F, D) that a method holds for its folds: parameters, gradients, steps and their copies.
_VECTORS = {"none": 2, "ij": 4, "onestep": 5, "newton": 6, "exact": 9, "auto": 10}
_MATRICES = 4  # (F, D, D): inverses, and what an update of them makes
_WITH_MATRICES = ("newton", "exact", "auto")
_LOSSES = {"auto": 5}  # matrices (F, W) of losses; other methods have three
_ROW = 80  # bytes of a held-out loss in the table of results, with what it is made from
_SWEPT = 3  # slopes, parameters, and a copy of either
_INFLUENCE = 6  # slopes, moves, effects, and the table that is made of them
_POINT = 400  # bytes of a fold of one point: its indices, evidence, status and row of the table
_PIECES = 2**28  # of slopes of labels, which are made in pieces


class Asked(NamedTuple):
    """Folds: how many, losses of the largest, losses of all."""

    folds: int
    width: int
    losses: int


def matrix_bytes(size: int) -> float:
    """To form H of this size: the matrix, a copy while it is reordered, and a block of rows."""
    return 8.0 * size**2 * 2.2


def with_matrices(objective: Objective, n_folds: int) -> bool:
    """Whether each fold has a matrix of its own, where a method needs its Hessian."""
    size = objective.space.size
    many = 8 * n_folds * size**2 > MATRICES
    return not (objective.traits.products and (size > PRODUCTS_PAY or many))


def bytes_per_refined(objective: Objective, n_folds: int, method: str) -> float:
    """Of each fold while a method works on it, without losses."""
    size = objective.space.size
    matrices = method in _WITH_MATRICES and with_matrices(objective, n_folds)
    return 8.0 * size * (_VECTORS[method] + (_MATRICES * size if matrices else 0))


def bytes_of_losses(asked: Asked, method: str) -> float:
    """Losses of all folds and the table that is made of them."""
    return (8.0 * _LOSSES.get(method, 3) + 9.0) * asked.folds * asked.width + _ROW * asked.losses


def bytes_of_cross(objective: Objective, n_folds: int) -> float:
    """J where "ij" forms it; with fewer folds than parameters, products with J are cheaper."""
    few = n_folds < objective.space.size and objective.traits.products
    formed = not few or objective.traits.cheap_cross
    return 8.0 * objective.space.size * len(objective.base) * (2 if formed else 0)


def bytes_of_sweep(objective: Objective, points: int) -> float:
    """Leave-one-out: slopes and parameters of every point; of labels, some at a time."""
    if isinstance(objective, HasLabels):
        return points * _POINT + min(8.0 * points * objective.space.size, _PIECES) * _SWEPT
    return points * (8.0 * objective.space.size * _SWEPT + _POINT)


def bytes_of_influence(objective: Objective, points: int) -> float:
    """The effect of every point on every parameter; of labels, one number for each."""
    if isinstance(objective, HasLabels):
        return points * _POINT
    return points * (8.0 * objective.space.size * _INFLUENCE + _POINT)


def bytes_of_draws(objective: Objective, draws: int) -> float:
    """A bootstrap's weights, as small integers, and parameters."""
    return draws * (2.0 * len(objective.base) + 8.0 * objective.space.size * _VECTORS["ij"])


def asked_of(folds: Folds, joint: bool = False) -> Asked:
    """What folds ask for; a joint loss is one number for each."""
    sizes = [1] * len(folds) if joint else [len(indices) for indices in folds.scored]
    return Asked(len(folds), max(sizes), sum(sizes))


def hold_folds(objective: Objective, asked: Asked, method: str) -> None:
    """Declare what a method holds for all folds: parameters, losses, and J."""
    hold_point(objective)
    losses = f"the losses of {counted(asked.folds, 'fold')}"
    memory.hold(bytes_of_losses(asked, method) + 8.0 * asked.folds * objective.space.size, losses)
    if method == "ij":
        sizes = f"{objective.space.size:,} x {len(objective.base):,}"
        memory.hold(bytes_of_cross(objective, asked.folds), f"J, {sizes}")


def hold_point(objective: Objective) -> None:
    """Declare what second derivatives at one point take, and the programs that compute them."""
    if objective.traits.compiles:
        memory.hold_programs()
    memory.hold(objective.bytes_per_point, "one pass over the data")


def hold_sweep(objective: Objective, points: int) -> None:
    """Declare the results of a leave-one-out sweep."""
    what = f"{counted(points, 'point')} x {counted(objective.space.size, 'parameter')}"
    memory.hold(bytes_of_sweep(objective, points), what)
