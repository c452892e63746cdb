"""Forecast: the future of a sequence, as samples of paths, or normal distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from fitonce.core.angles import mean_direction, quantiles_of_angles, shortest_arcs, turns_of, wrapped
from fitonce.core.arguments import require_level, shown
from fitonce.core.numerics import is_number
from fitonce.core.wording import counted, listed
from fitonce.data.places import sequence_words
from fitonce.results.plots import axes_on


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predictive distributions of the steps after a sequence, parameters taken as known.

    Attributes:
        samples: (n, h, C) random paths of observations.
        states: (n, h) their hidden states; None where these are continuous.
        state_probabilities: (h, K), exact; None where states are continuous.
        channels: C names.
        observed: (T, C) the sequence, nan where missing.
        circular: which channels are angles, within (-pi, pi]: their means are directions, and their
            intervals arcs.
        index: of the steps, where data were tables of pandas whose index goes on regularly; else None.
        past: the index of the sequence, where there is one of the steps.
        normal: (2, h, C) means and standard deviations, where these are known and distributions are
            normal: then means and quantiles are exact. None: quantiles are those of the samples.
        moments: (2, h, C) exact means and standard deviations, where distributions are not normal; nan,
            or None: those of the samples.
        level: the probability of intervals that are printed, and the usual one of those asked for.
        sequence: the name or number of the sequence; None: the data have one only.
        last_of: how many sequences the data have, where none was named and this is the last; else 0.
    """

    samples: np.ndarray
    states: np.ndarray | None
    state_probabilities: np.ndarray | None
    channels: tuple[str, ...]
    observed: np.ndarray
    circular: tuple[bool, ...]
    index: pd.Index | None = None
    past: pd.Index | None = None
    normal: np.ndarray | None = None
    moments: np.ndarray | None = None
    level: float = 0.9
    sequence: Any = None
    last_of: int = 0

    @property
    def mean(self) -> np.ndarray:
        """(h, C)."""
        if self.normal is not None:
            return self.normal[0]
        return self._exactly(0, self._with_angles(self.samples.mean(0), mean_direction))

    @property
    def sd(self) -> np.ndarray:
        """(h, C) standard deviations; of angles, of their differences from the mean direction."""
        if self.normal is not None:
            return self.normal[1]
        around = lambda x: np.sqrt((wrapped(x - mean_direction(x)) ** 2).mean(0))  # noqa: E731
        return self._exactly(1, self._with_angles(self.samples.std(0), around))

    def _exactly(self, which: int, of_samples: np.ndarray) -> np.ndarray:
        """(h, C) exact moments where they are known, and otherwise those of the samples."""
        if self.moments is None:
            return of_samples
        known = self.moments[which]
        return np.where(np.isnan(known), of_samples, known)

    @property
    def how(self) -> str:
        """Where the numbers come from, in words."""
        if self.normal is not None:
            return "normal"
        exact = self.moments is not None and np.isfinite(self.moments).all()
        return f"{'means exact, quantiles of ' if exact else ''}{len(self.samples):,} paths"

    @property
    def what(self) -> str:
        """How many steps, and after which sequence, in words."""
        steps = counted(len(self.mean), "step")
        if self.sequence is None:
            return steps
        last = f", the last of {self.last_of:,} (sequence= takes another)" if self.last_of else ""
        return f"{steps} after {sequence_words(self.sequence)}{last}"

    def _with_angles(self, of_numbers: np.ndarray, of_angles: Callable[..., Any]) -> np.ndarray:
        """(h, C) what is computed from samples (n, h, angles) in the channels of angles."""
        if not any(self.circular):
            return of_numbers
        found, angles = np.array(of_numbers), np.flatnonzero(self.circular)
        found[:, angles] = of_angles(self.samples[:, :, angles])
        return found

    def quantile(self, probability: float) -> np.ndarray:
        """(h, C). Of angles: anticlockwise from opposite the circular median, the quantile of 0.5."""
        if not (is_number(probability) and 0 < probability < 1):
            raise ValueError(f"a quantile needs a probability between 0 and 1, got {shown(probability)}")
        if self.normal is not None:
            mean, sd = self.normal
            return mean + sd * float(special.ndtri(probability))
        on_line = np.quantile(self.samples, probability, axis=0)
        return self._with_angles(on_line, lambda angles: quantiles_of_angles(angles, probability))

    def interval(self, level: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(h, C) lower and upper ends of the central interval of this probability, or of `level`. Of
        angles: of the shortest arc that holds it, anticlockwise from lower to upper, through pi where
        lower > upper."""
        level = self.level if level is None else level
        require_level(level)
        tail = 0.5 * (1.0 - level)
        if not any(self.circular):
            return self.quantile(tail), self.quantile(1.0 - tail)
        ends = (np.quantile(self.samples, share, axis=0) for share in (tail, 1.0 - tail))
        lower, upper = (
            self._with_angles(end, lambda angles, side=side: shortest_arcs(angles, level)[side])
            for side, end in enumerate(ends)
        )
        return lower, upper

    def to_dataframe(self, level: float | None = None) -> pd.DataFrame:
        """One row per step and channel: `step` (from 1), `channel`, `mean`, `median`, and the ends of
        the interval, `lower` and `upper`; first `sequence`, where the data have several. With the index
        of the steps, if there is one. Where there are angles, `arc` says which intervals are arcs, see
        `interval`."""
        steps, channels = self.mean.shape
        lower, upper = self.interval(level)
        arcs = {"arc": np.tile(self.circular, steps)} if any(self.circular) else {}
        table = pd.DataFrame(
            {
                "step": np.repeat(np.arange(1, steps + 1), channels),
                "channel": np.tile(self.channels, steps),
                "mean": self.mean.ravel(),
                "median": self.quantile(0.5).ravel(),
                "lower": lower.ravel(),
                "upper": upper.ravel(),
                **arcs,
            },
            index=None if self.index is None else self.index.repeat(channels),
        )
        if self.sequence is not None:
            table.insert(0, "sequence", self.sequence)
        return table

    def plot(self, channel: int = 0, level: float | None = None, last: int = 100, ax: Any = None) -> Any:
        """The end of the sequence, the mean of its future, and the interval; over dates, where the data
        had them."""
        ax = axes_on(ax, 7, 3.2)
        level = self.level if level is None else level
        seen, (lower, upper) = self.observed[-last:, channel], self.interval(level)
        before, ahead = self._places(len(seen))
        band = {"color": "#9ecae1", "alpha": 0.7, "lw": 0}
        label: str | None = f"{100 * level:g} % interval"
        if not self.circular[channel]:
            ax.plot(before, seen, ".-", color="0.3", ms=3, lw=0.7, label="observed")
            ax.fill_between(ahead, lower[:, channel], upper[:, channel], label=label, **band)
            ax.plot(ahead, self.mean[:, channel], color="#1b4f8a", label="mean")
        else:
            ax.plot(before, wrapped(seen), ".", color="0.3", ms=3, label="observed")
            for low, high in turns_of(lower[:, channel], upper[:, channel]):
                ax.fill_between(ahead, low, high, label=label and f"{label} (arc)", **band)
                label = None
            for mean, _ in turns_of(self.mean[:, channel], self.mean[:, channel]):
                ax.plot(ahead, mean, color="#1b4f8a")
            ax.lines[-1].set_label("mean direction")
            ax.set_ylim(-np.pi, np.pi)
        ax.set_xlabel("steps from the last one" if self.index is None else str(self.index.name or ""))
        if isinstance(ahead, pd.DatetimeIndex):
            ax.figure.autofmt_xdate()
        ax.set_ylabel(self.channels[channel])
        if self.sequence is not None:
            ax.set_title(sequence_words(self.sequence))
        ax.legend()
        return ax

    def _places(self, seen: int) -> tuple[Any, Any]:
        """Where the last steps that were seen and those ahead are on an axis."""
        if self.index is None or self.past is None:
            return np.arange(1 - seen, 1), np.arange(1, len(self.mean) + 1)
        before: Any = self.past[len(self.past) - seen :]
        if isinstance(self.index, pd.PeriodIndex):
            return before.to_timestamp(), self.index.to_timestamp()
        return before, self.index

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.scores import of_forecast  # only notebooks need it

        return of_forecast(self)

    def __repr__(self) -> str:
        shown = self.to_dataframe().round(4).head(10).to_string(index=self.index is not None)
        more = "" if len(self.mean) * len(self.channels) <= 10 else "\n..."
        head = f"Forecast of {self.what}, {self.how}, {100 * self.level:g} % interval"
        return "\n".join([head, f"{shown}{more}", *self.about_arcs])

    @property
    def about_arcs(self) -> list[str]:
        """What the intervals of angles are, in a sentence; empty where there are none."""
        angles = [name for name, angle in zip(self.channels, self.circular, strict=True) if angle]
        if not angles:
            return []
        return [
            f"intervals of {listed(angles)} are the shortest arcs, anticlockwise from lower to upper, "
            "through pi where lower > upper"
        ]
