"""Random data at the parameters of a fit, and the future: what families that can make them implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fitonce.core.arguments import generator, require, require_count, require_level
from fitonce.core.memory import require_fits
from fitonce.core.numerics import is_count
from fitonce.core.wording import counted
from fitonce.data.alignment import require_after
from fitonce.data.covariates import padded_tables, split_covariates
from fitonce.data.indices import continued, dated
from fitonce.data.parts import from_arrow
from fitonce.data.sequences import Sequences
from fitonce.results.forecast import Forecast


class Drawn(NamedTuple):
    """Random paths: hidden states (..., h), or (..., h, n) where they are continuous, and observations
    (..., h, C)."""

    states: np.ndarray
    values: np.ndarray


class Simulator(ABC):
    """A model with the values of its parameters, on its data."""

    data: Sequences

    @property
    @abstractmethod
    def bytes_per_step(self) -> int: ...

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """Names of the covariates that the model depends on."""

    @abstractmethod
    def drawn(self, n: int, sequence: int, seed: int, covariates: Any) -> Drawn:
        """See `Fit.sample`; `sequence` from 0."""

    @abstractmethod
    def simulated(self, seed: int) -> Sequences:
        """See `Fit.simulate`."""

    @abstractmethod
    def ahead(self, steps: int, sequence: int, n: int, seed: int, covariates: Any) -> Forecast:
        """See `Fit.forecast`; `sequence` from 0."""

    def sample(self, n: int, sequence: Any, seed: int, covariates: Any) -> Drawn:
        require_count("n", n)
        require_seed(seed)
        self._require_fits("n", n)
        number = 0 if sequence is None else self.data.sequence_number(sequence)
        return self.drawn(n, number, seed, covariates)

    def simulate(self, seed: int) -> Sequences:
        require_seed(seed)
        return self.simulated(seed)

    def forecast(
        self, steps: int, sequence: Any, n: int, seed: int, covariates: Any, level: float
    ) -> Forecast:
        require_count("steps", steps)
        require_count("n", n)
        require_seed(seed)
        require_level(level)
        self._require_fits("steps", steps)
        paths, count = int(steps), self.data.n_sequences
        require_fits("n", n, lambda number: 24 * number * paths, "the paths")
        number = count - 1 if sequence is None else self.data.sequence_number(sequence)
        found = replace(self.ahead(steps, number, n, seed, covariates), level=level)
        if count == 1:
            return found
        others = 0 if sequence is not None else count
        return replace(found, sequence=self.data.called(number), last_of=others)

    def _require_fits(self, name: str, steps: int) -> None:
        """Refuse more steps than memory has room for."""
        each = self.bytes_per_step
        require_fits(name, steps, lambda count: each * count, "the steps")

    def indices_ahead(self, sequence: int, steps: int) -> tuple[pd.Index | None, pd.Index | None]:
        """The index of the steps after a sequence, and that of the sequence; None: there is none."""
        if self.data.indices is None:
            return None, None
        past = self.data.indices[sequence]
        index = continued(past, steps)
        return index, None if index is None else past

    def covariates_ahead(
        self, given: Any, steps: int, sequence: int | None = None
    ) -> tuple[np.ndarray, tuple[str, ...]]:
        """(steps, Q) covariates and their names, as `fo.sequences` reads them, of further steps of a
        sequence, whose dates they may have; None: of steps that are nowhere in time."""
        if given is not None and not self.reads:
            raise ValueError("covariates were given, but the model depends on none")
        if self.reads and given is None:
            raise ValueError(f"the model depends on {list(self.reads)}: give covariates= for each step")
        if given is None:
            return np.zeros((steps, 0)), ()
        given = from_arrow(given)
        part: Any = np.zeros(steps)
        index = past = None
        if sequence is not None and self.data.indices is not None:
            past = dated(self.data.indices[sequence])
            index = continued(past, steps)
        if index is not None:
            part = pd.Series(part, index)
        elif past is not None:
            each = given if isinstance(given, Mapping) else {"covariates": given}
            for name, one in each.items():
                require_after(one, past, str(name))
        whose = counted(steps, "step") + (" of the forecast" if sequence is not None else "")
        tables = split_covariates([part], given, f"the {whose}")[1] or []
        known, names = padded_tables(tables, np.array([steps]))
        if names == tuple(f"u{number}" for number in range(len(self.data.covariate_names))):
            names = self.data.covariate_names  # an array has no names: they are in the order of the data
        return known[0], names


def require_seed(seed: Any) -> None:
    """Raise where it is no seed of random numbers."""
    require(is_count(seed, 0), "seed", "a non-negative integer", seed)
    generator(seed)  # which has a largest
