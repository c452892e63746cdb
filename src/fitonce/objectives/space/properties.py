"""What describes an objective of linear-Gaussian state-space models: its data, sizes and states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fitonce.core.lanes import LANES
from fitonce.core.parallel import Parallel
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences
from fitonce.models.space.system import Series
from fitonce.objectives.base import MANY_SEQUENCES, Objective, Program, Traits
from fitonce.objectives.simulation import Simulator
from fitonce.objectives.space.coefficients import Coefficients
from fitonce.objectives.space.importance import laplace_error
from fitonce.objectives.space.layout import Layout
from fitonce.objectives.space.simulation import FittedSpace
from fitonce.objectives.space.smoothing import smoothed_parts, smoothed_states
from fitonce.results.laplace_error import LaplaceError
from fitonce.results.smoothed import Smoothed


@dataclass(frozen=True, eq=False, repr=False)
class SpaceProperties(Objective):
    """See `Objective`. `steps`: the data as the filter reads them; `around`: see `Layout`."""

    program: Program
    base: np.ndarray
    data: Sequences
    steps: Series
    parallel: Parallel = None
    around: np.ndarray | None = None

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.model, self.space, self.steps, self.around)

    @property
    def prepared(self) -> Series:
        """The data as the model checks them before a fit."""
        return self.steps

    @property
    def traits(self) -> Traits:
        return Traits(
            site="time",
            resampling=("structures",) if self.model.density else ("block", "iid", "structures"),
            hidden_states=False,
            linear_in_weights=self._whole,
            cheap_cross=self._whole,
            cheap_rows=True,
            together=LANES,
            sequences=True,
            simulates=True,
            compiles=self.program.kernel != "native",
        )

    @property
    def _whole(self) -> bool:
        return self.scheme.kind == "sequences"

    @property
    def clusters(self) -> np.ndarray:
        """(P,) sequences, one observation each, or steps along time where sequences are few."""
        if self._whole or self.along_time:
            return np.arange(len(self.base))
        return np.repeat(np.arange(self.data.n_sequences), self.data.lengths)

    @property
    def along_time(self) -> bool:
        lengths = np.asarray(self.data.lengths, float)
        alike = lengths.sum() ** 2 / np.sum(lengths**2)
        return not self._whole and bool(alike < MANY_SEQUENCES - 0.5)

    @property
    def n_unknown_starts(self) -> int:
        return self.layout.diffuse.shape[1]

    @property
    def unknown_starts(self) -> str:
        size = self.n_unknown_starts
        if not size:
            return ""
        return ", ".join(self.model.unknown_starts) or f"{counted(size, 'state')} of {self.model}"

    def lost_coefficients(
        self, theta: np.ndarray, dropped: Sequence[np.ndarray], whole: bool
    ) -> np.ndarray:
        steps = np.split(np.arange(len(self.steps.y)), self.steps.starts[1:-1])
        some = [np.concatenate([steps[n] for n in fold]) for fold in dropped] if whole else dropped
        return Coefficients(self.layout, theta).lost(some)

    @property
    def approximation(self) -> str:
        return "" if self.model.density is None else "Laplace approximation"

    def has_components(self) -> bool:
        return bool(self.model.components(self.steps))

    def laplace_error(self, theta: np.ndarray, draws: int, seed: int) -> LaplaceError:
        return laplace_error(self.layout, theta, draws, seed)

    @property
    def content(self) -> list[Any]:
        steps = self.steps
        return [steps.y, steps.seen, steps.starts, steps.covariates, steps.counts, steps.sizes]

    @property
    def bytes_per_fold(self) -> int:
        """What the filter keeps of every step."""
        states, width = self.layout.n_states, self.steps.y.shape[1]
        triangle, columns = states * (states + 1) // 2, 1 + self.layout.diffuse.shape[1]
        of_states = triangle + states * (columns + width)
        return 8 * len(self.steps.y) * (of_states + width * (columns + width + 6) + 6)

    @property
    def _operations(self) -> float:
        states = self.layout.n_states
        columns = 1 + self.layout.diffuse.shape[1]
        moves = len(self.layout.used["moving"]) + 3 * states
        return 6.0 * len(self.steps.y) * LANES * moves * (states + columns)

    def mirrors(self, theta: np.ndarray) -> list[tuple[str, np.ndarray]]:
        return [
            (name, self.space.along(theta, slopes))
            for name, slopes in self.model.mirrors(self.space.params_at(theta))
        ]

    def log_prior(self, theta: np.ndarray) -> float:
        """Flat: fits are of maximum likelihood."""
        return 0.0

    def simulator(self, theta: np.ndarray) -> Simulator:
        return FittedSpace(self.layout, theta, self.data)

    def smoothed(self, theta: np.ndarray) -> Smoothed:
        return smoothed_states(self.layout, theta, self.data)

    def components(self, theta: np.ndarray) -> Smoothed:
        return smoothed_parts(self.layout, theta, self.data)
