"""Forecast: the future of a sequence, as samples of paths, or normal distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from fitonce.core.arguments import require_level, shown
from fitonce.core.numerics import is_number
from fitonce.core.wording import counted
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
        circular: which channels are angles: their means are directions, and quantiles are around these.
        index: of the steps, where data were tables of pandas whose index goes on regularly; else None.
        past: the index of the sequence, where there is one of the steps.
        normal: (2, h, C) means and standard deviations, where these are known and distributions are
            normal: then means and quantiles are exact. None: quantiles are those of the samples.
        moments: (2, h, C) exact means and standard deviations, where distributions are not normal; nan,
            or None: those of the samples.
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

    @property
    def mean(self) -> np.ndarray:
        """(h, C)."""
        if self.normal is not None:
            return self.normal[0]
        return self._exactly(0, np.where(self.circular, self._directions, self.samples.mean(0)))

    @property
    def sd(self) -> np.ndarray:
        """(h, C) standard deviations; of angles, of their differences from the mean direction."""
        if self.normal is not None:
            return self.normal[1]
        apart = np.angle(np.exp(1j * (self.samples - self._directions)))
        around = np.where(self.circular, np.sqrt((apart**2).mean(0)), self.samples.std(0))
        return self._exactly(1, around)

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
    def _directions(self) -> np.ndarray:
        """(h, C) mean directions, if samples are angles."""
        return np.angle(np.exp(1j * self.samples).mean(0))

    def quantile(self, probability: float) -> np.ndarray:
        """(h, C)."""
        if not (is_number(probability) and 0 < probability < 1):
            raise ValueError(f"a quantile needs a probability between 0 and 1, got {shown(probability)}")
        if self.normal is not None:
            mean, sd = self.normal
            return mean + sd * float(special.ndtri(probability))
        middle = self._directions
        around = middle + np.angle(np.exp(1j * (self.samples - middle)))
        turned = np.where(self.circular, around, self.samples)
        return np.quantile(turned, probability, axis=0)

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """(h, C) lower and upper ends of the central interval of this probability."""
        require_level(level)
        tail = 0.5 * (1.0 - level)
        return self.quantile(tail), self.quantile(1.0 - tail)

    def to_dataframe(self, level: float = 0.9) -> pd.DataFrame:
        """One row per step and channel: `step` (from 1), `channel`, `mean`, `median`, and the ends of
        the interval, `lower` and `upper`. With the index of the steps, if there is one."""
        steps, channels = self.mean.shape
        lower, upper = self.interval(level)
        return pd.DataFrame(
            {
                "step": np.repeat(np.arange(1, steps + 1), channels),
                "channel": np.tile(self.channels, steps),
                "mean": self.mean.ravel(),
                "median": self.quantile(0.5).ravel(),
                "lower": lower.ravel(),
                "upper": upper.ravel(),
            },
            index=None if self.index is None else self.index.repeat(channels),
        )

    def plot(self, channel: int = 0, level: float = 0.9, last: int = 100, ax: Any = None) -> Any:
        """The end of the sequence, the mean of its future, and the interval; over dates, where the data
        had them."""
        ax = axes_on(ax, 7, 3.2)
        seen, (lower, upper) = self.observed[-last:, channel], self.interval(level)
        before, ahead = self._places(len(seen))
        ax.plot(before, seen, ".-", color="0.3", ms=3, lw=0.7, label="observed")
        band = {"color": "#9ecae1", "alpha": 0.7, "lw": 0}
        label = f"{100 * level:g} % interval"
        ax.fill_between(ahead, lower[:, channel], upper[:, channel], label=label, **band)
        ax.plot(ahead, self.mean[:, channel], color="#1b4f8a", label="mean")
        ax.set_xlabel("steps from the last one" if self.index is None else str(self.index.name or ""))
        if isinstance(ahead, pd.DatetimeIndex):
            ax.figure.autofmt_xdate()
        ax.set_ylabel(self.channels[channel])
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
        head = f"Forecast of {counted(len(self.mean), 'step')}, {self.how}, 90 % interval"
        return f"{head}\n{shown}{more}"
