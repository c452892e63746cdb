"""Whether data can determine a state-space model: its lags, its variances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fitonce.core.factor_constraints import StationaryVector
from fitonce.core.lanes import LANES
from fitonce.core.memory import require_fits
from fitonce.core.parameters import ParameterSpace
from fitonce.core.series_constraints import Stationary, Variance
from fitonce.core.wording import counted

if TYPE_CHECKING:
    from fitonce.data.sequences import Sequences
    from fitonce.models.space.system import Series, SpaceModel, System

_ROUNDING = 1e-11  # of the data
_FIRST = 50  # steps


def require_room(model: SpaceModel, width: int) -> None:
    """Raise where covariances of the states would not fit in memory, before any is made."""
    room = lambda n: 8 * LANES * 4 * n * n  # noqa: E731
    require_fits(f"the number of states of {model}", model.count_states(width), room, "covariances")


def require_fewer(model: SpaceModel, steps: Series) -> None:
    """Raise where there are as many lags as steps."""
    longest = int(np.diff(steps.starts).max())
    found = {}
    for name, leaf in model.leaves(steps).items():
        if isinstance(leaf, StationaryVector):
            found[name] = leaf.shape[0]
        elif isinstance(leaf, Stationary) or name in model.averages:
            found[name] = leaf.shape[-1]
    lags = sum(found.values())
    if lags and lags >= longest:
        raise ValueError(
            f"{model} has {counted(lags, 'lag')} in {', '.join(map(repr, found))}, which must be fewer "
            f"than the steps of the longest sequence, {longest}"
        )


def unknown_states(model: SpaceModel, steps: Series) -> int:
    """How much of the first state of a sequence nothing is known about."""
    start = {name: np.asarray(v, float)[..., None] for name, v in model.start(steps, None).items()}
    return int(model.system(start, steps).diffuse.shape[1])


def require_enough(model: SpaceModel, steps: Series, size: int = 0) -> None:
    """Raise where parameters and unknown first states, `size` in each sequence, are more than the values
    observed."""
    parameters, states = ParameterSpace(model.parameters(steps)).size, size * (len(steps.starts) - 1)
    seen = int(steps.seen.sum())
    if parameters + states <= seen:
        return
    also = f" and {counted(states, 'unknown first state')}" if states else ""
    raise ValueError(
        f"{model} has {counted(parameters, 'parameter')}{also}, which need at least "
        f"{counted(parameters + states, 'observed value')}, got {seen}"
    )


def starts_of(system: System, steps: Series, number: int, most: int | None = None) -> np.ndarray:
    """(steps, C, q) how the diffuse part of the first state of a sequence shows in its observations, or
    in the first ones."""
    begin, end = steps.starts[number : number + 2]
    now, found = system.diffuse, []
    for step in range(begin, end if most is None else begin + most):
        found.append(system.loading[step if len(system.loading) > 1 else 0, ..., 0] @ now)
        now = system.moving[step if len(system.moving) > 1 else 0, ..., 0] @ now
    return np.array(found)


def determined_starts(system: System, steps: Series, number: int) -> int:
    """How many combinations of the unknown first states of a sequence its observations depend on."""
    begin, end = steps.starts[number : number + 2]
    with np.errstate(over="ignore", invalid="ignore"):  # of explosive models
        design = starts_of(system, steps, number)[steps.seen[begin:end]]
    design = design[np.isfinite(design).all(1)]
    return int(np.linalg.matrix_rank(design / np.maximum(np.linalg.norm(design, axis=0), 1e-300)))


def require_varying(model: SpaceModel, data: Sequences, steps: Series) -> None:
    """Raise where a channel is constant, counts are the smallest or the largest possible ones, or first
    states fit all exactly."""
    if model.density is not None:
        seen = steps.seen[:, 0]
        found = model.density.bounds(steps.counts[seen], steps.sizes[seen]) if seen.any() else ""
        if found:
            raise ValueError(f"data must vary to be fitted by {model}, got {found}")
        return
    for name, values, seen in zip(data.channels, steps.y.T, steps.seen.T, strict=True):
        if seen.any() and np.ptp(values[seen]) == 0:
            only = f"only {values[seen][0]:g} in channel '{name}'"
            raise ValueError(f"data must vary to be fitted by {model}, got {only}")
    require_noise(model, steps)


def require_noise(model: SpaceModel, steps: Series) -> None:
    """Raise where unknown first states fit all data exactly and all variances may be zero: the
    likelihood has no maximum."""
    start = {name: np.asarray(v, float)[..., None] for name, v in model.start(steps, None).items()}
    system = model.system(start, steps)
    size, sequences = system.diffuse.shape[1], range(len(steps.starts) - 1)
    if not size or int(steps.seen.sum()) <= size * len(sequences):
        return
    for number in sequences:
        length = int(np.diff(steps.starts)[number])
        for some in (size + _FIRST, length):  # of most data the first steps show that there is noise
            if not _fits_exactly(system, steps, number, min(some, length)):
                return
    leaves = model.parameters(steps)
    still = {name: v * (not isinstance(leaves[name], Variance)) for name, v in start.items()}
    system = model.system(still, steps)
    if not system.noise.any() and not system.shaking.any():
        known = ", ".join(model.unknown_starts) or counted(size, "state")
        raise ValueError(
            f"data must vary to be fitted by {model}, got what its unknown start ({known}) fits exactly"
        )


def _fits_exactly(system: System, steps: Series, number: int, some: int) -> bool:
    """Whether the unknown start fits so many first steps of a sequence but for rounding."""
    begin = steps.starts[number]
    own = slice(begin, begin + some)
    seen = steps.seen[own]
    offset = np.broadcast_to(system.offset[..., 0], steps.y.shape)[own]
    design, y = starts_of(system, steps, number, some)[seen], (steps.y[own] - offset)[seen]
    lengths = np.linalg.norm(design, axis=0)
    design = design / np.where(lengths > 0, lengths, 1.0)
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return bool(np.abs(left).max(initial=0.0) <= _ROUNDING * np.abs(y).max(initial=0.0))
