"""Continuous states, or parts of what is observed, at each step given all data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from fitonce.core.arguments import require_level
from fitonce.core.wording import counted
from fitonce.data.places import sequence_number, sequence_words
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
        sequences: N names of these sequences, or their numbers where they have no names.
        among: of how many sequences of the data these are all, or one.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    lengths: np.ndarray
    observed: np.ndarray
    channels: tuple[str, ...]
    whole: bool
    index: pd.Index | None
    sequences: tuple[Any, ...]
    among: int

    def to_dataframe(self) -> pd.DataFrame:
        """One row per site: the mean of each state or part, such as `level`, and its standard deviation,
        `level_sd`. With the index of the data, or the numbers of sequences and steps."""
        columns: dict[str, np.ndarray] = {}
        for place, name in enumerate(self.names):
            columns |= {name: self.mean[:, place], f"{name}_sd": self.sd[:, place]}
        return pd.DataFrame(columns, index=self._index)

    def of_sequence(self, sequence: Any) -> Smoothed:
        """The same of one sequence, by its name or number."""
        number = self._number(sequence)
        first = int(self.lengths[:number].sum())
        part = slice(first, first + int(self.lengths[number]))
        index = None if self.index is None else self.index[part]
        if isinstance(index, pd.MultiIndex):
            index = index.droplevel(0)
        return replace(
            self,
            mean=self.mean[part],
            sd=self.sd[part],
            lengths=self.lengths[[number]],
            observed=self.observed[part],
            index=index,
            sequences=(self.sequences[number],),
        )

    def _number(self, sequence: Any) -> int:
        names = tuple(name for name in self.sequences if isinstance(name, str))
        return sequence_number(sequence, names or None, len(self.sequences))

    @property
    def _index(self) -> pd.Index:
        if self.index is not None:
            return self.index
        time = np.concatenate([np.arange(length) for length in self.lengths])
        if len(self.lengths) == 1:
            return pd.Index(time, name="time")
        sequence = pd.Index(self.sequences).repeat(self.lengths)
        return pd.MultiIndex.from_arrays([sequence, time], names=["sequence", "time"])

    def plot(self, level: float = 0.9, sequence: Any = -1) -> Any:
        """A panel for each state or part of one sequence, with its interval of this probability; above,
        the data and what the parts add up to. Returns the figure.

        Args:
            level: the probability.
            sequence: the name or number of the one; by default the last.
        """
        require_level(level)
        wide = float(special.ndtri(0.5 + 0.5 * level))
        return self.of_sequence(sequence)._drawn(wide, f"{100 * level:g} % interval")

    def _drawn(self, wide: float, words: str) -> Any:
        rows = len(self.names) + self.whole
        axes = new_axes(7, 0.6 + 1.5 * rows, rows)
        at = self._places()
        if self.among > 1:
            axes[0].set_title(sequence_words(self.sequences[0]))
        if self.whole:
            axes[0].plot(at, self.observed[:, 0], ".", color="0.3", ms=3, label="observed")
            axes[0].plot(at, self.mean.sum(1), color="#1b4f8a", lw=1, label="all parts")
            axes[0].set_ylabel(self.channels[0])
            axes[0].legend(fontsize=8)
        for ax, name, mean, sd in zip(
            axes[int(self.whole) :], self.names, self.mean.T, self.sd.T, strict=True
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

    def _places(self) -> Any:
        """Where the steps of the one sequence are on an axis."""
        index = self.index
        if isinstance(index, pd.PeriodIndex):
            index = index.to_timestamp()
        drawable = index is not None and index.dtype.kind in "iufM"
        return index if drawable else np.arange(len(self.mean))

    def __repr__(self) -> str:
        table = self.to_dataframe()
        shown = table.head(_SHOWN).to_string(float_format=lambda v: f"{v:.4f}")
        what = counted(len(self.names), "part" if self.whole else "state")
        more = "\n..." if len(table) > _SHOWN else ""
        one = self.among > len(self.sequences)
        steps = counted(len(table), "step") + (f" of {sequence_words(self.sequences[0])}" if one else "")
        head = f"{what} at {steps} given all data, parameters taken as known"
        return f"{head}\n{shown}{more}"
