"""Continuous states, or parts of what is observed, at each step given all data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from fitonce.core.arguments import require, require_level
from fitonce.core.numerics import is_count
from fitonce.core.wording import counted
from fitonce.results.plots import new_axes

_SHOWN = 10  # rows


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Normal distributions given all data, parameters taken as known.

    Attributes:
        names: K names of states, or of parts.
        mean, sd: (sites, K) means and standard deviations.
        lengths: (N,) of the sequences.
        observed: (sites, C) the data, nan where missing.
        channels: C names.
        whole: whether the columns add up to what is expected of the one channel.
        index: of the sites, where data were tables of pandas; else None.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    lengths: np.ndarray
    observed: np.ndarray
    channels: tuple[str, ...]
    whole: bool
    index: pd.Index | None = None

    def to_dataframe(self) -> pd.DataFrame:
        """One row per site: the mean of each state or part, such as `level`, and its standard deviation,
        `level_sd`. With the index of the data, or the numbers of sequences and steps."""
        columns: dict[str, np.ndarray] = {}
        for place, name in enumerate(self.names):
            columns |= {name: self.mean[:, place], f"{name}_sd": self.sd[:, place]}
        return pd.DataFrame(columns, index=self._index)

    @property
    def _index(self) -> pd.Index:
        if self.index is not None:
            return self.index
        time = np.concatenate([np.arange(length) for length in self.lengths])
        if len(self.lengths) == 1:
            return pd.Index(time, name="time")
        sequence = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return pd.MultiIndex.from_arrays([sequence, time], names=["sequence", "time"])

    def plot(self, level: float = 0.9, sequence: int = -1) -> Any:
        """A panel for each state or part of one sequence, with its interval of this probability; above,
        the data and what the parts add up to. Returns the figure."""
        require_level(level)
        count = len(self.lengths)
        expected = f"the number of one of {count}"
        require(is_count(sequence, -count, count - 1), "sequence", expected, sequence)
        ends = np.cumsum(self.lengths)
        number = int(sequence) % count
        part = slice(int(ends[number] - self.lengths[number]), int(ends[number]))
        return self._drawn(part, float(special.ndtri(0.5 + 0.5 * level)), f"{100 * level:g} % interval")

    def _drawn(self, part: slice, wide: float, words: str) -> Any:
        rows = len(self.names) + self.whole
        axes = new_axes(7, 0.6 + 1.5 * rows, rows)
        at = self._places(part)
        if self.whole:
            axes[0].plot(at, self.observed[part, 0], ".", color="0.3", ms=3, label="observed")
            axes[0].plot(at, self.mean[part].sum(1), color="#1b4f8a", lw=1, label="all parts")
            axes[0].set_ylabel(self.channels[0])
            axes[0].legend(fontsize=8)
        for ax, name, mean, sd in zip(
            axes[int(self.whole) :], self.names, self.mean[part].T, self.sd[part].T, strict=True
        ):
            band = {"color": "#9ecae1", "alpha": 0.7, "lw": 0, "label": words}
            ax.fill_between(at, mean - wide * sd, mean + wide * sd, **band)
            ax.plot(at, mean, color="#1b4f8a", lw=1)
            ax.set_ylabel(name)
        axes[int(self.whole)].legend(fontsize=8)
        for ax in axes[:-1]:
            ax.tick_params(labelbottom=False)
            ax.sharex(axes[-1])
        axes[-1].set_xlabel("step" if isinstance(at, np.ndarray) else str(at.name or ""))
        return axes[-1].figure

    def _places(self, part: slice) -> Any:
        """Where the steps of a sequence are on an axis."""
        index = None if self.index is None else self.index[part]
        if isinstance(index, pd.MultiIndex):
            index = index.get_level_values(-1)
        if isinstance(index, pd.PeriodIndex):
            index = index.to_timestamp()
        drawable = index is not None and index.dtype.kind in "iufM"
        return index if drawable else np.arange(part.stop - part.start)

    def __repr__(self) -> str:
        table = self.to_dataframe()
        shown = table.head(_SHOWN).to_string(float_format=lambda v: f"{v:.4f}")
        what = counted(len(self.names), "part" if self.whole else "state")
        more = "\n..." if len(table) > _SHOWN else ""
        head = f"{what} at {counted(len(table), 'step')} given all data, parameters taken as known"
        return f"{head}\n{shown}{more}"
