"""What will take long says how long before it starts: one line with a range.

The range comes from a gradient that is timed and from counts of work, so that it is wide; where its
middle, on a scale of logarithms, is below `LONG` seconds nothing is said. A notebook has a line of its
own, which says what is left.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from fitonce.core.progress import is_shown
from fitonce.core.progress_lines import told_in_lines
from fitonce.core.progress_notebook import in_notebook
from fitonce.core.wording import duration

LONG = 10.0  # seconds
_WIDE = 20.0  # times the least: the middle of a range from there says nothing


def is_told(progress: bool | None) -> bool:
    """Whether anybody would read it."""
    if progress is None and told_in_lines():
        return True
    return is_shown(progress) and not in_notebook()


def foretell(what: str, least: float, most: float, how_to_stop: str = "") -> None:
    """Say how long work will take, where that is long: between so many seconds."""
    if least * most < LONG**2:
        return
    low, high = duration(least), duration(most)
    time_said = f"about {low}" if low == high else f"{low} to {high}"
    if most > _WIDE * least:
        time_said = f"from {low}, at most {high}"
    hint = f"; {how_to_stop}" if how_to_stop else ""
    print(f"fitonce: {what} will take {time_said}{hint}", file=sys.stderr, flush=True)


def seconds_of(work: Callable[[], Any]) -> float:
    """Of work that was done before, so that nothing is compiled or loaded."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
