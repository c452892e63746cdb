"""Progress in a notebook: one line for a cell, which ends with what took how long.

The line is replaced in place (a display with an id), so that a stored notebook has its last state only:
no bars, no codes of terminals. Cells that are done at once have no line.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from fitonce.core.wording import duration

PATIENCE = 1.0  # seconds that work may take before it is shown
_EVERY = 0.2  # seconds between two states of a line
_LITTLE = 0.1  # seconds that are not worth a word
MARK = {"fitonce": "progress"}  # metadata of the line, to find it in a stored notebook


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


class Line:
    """The line of one cell.

    Attributes:
        cell: its number.
        done: seconds of what is done, by name.
    """

    def __init__(self, cell: int) -> None:
        self.cell = cell
        self.done: dict[str, float] = {}
        self._handle: Any = None
        self._lock = threading.Lock()

    @property
    def is_shown(self) -> bool:
        return self._handle is not None

    def show(self, now: str, share: float | None = None) -> None:
        """What is done and what goes on now, with a bar where it is known how far."""
        drawn = "" if share is None else f'<progress value="{share:.4f}" max="1"></progress> '
        self._write(f"{self._so_far(';')}{now}", drawn)

    def end(self, what: str, seconds: float, how: str) -> None:
        """The summary, once something that was worth a word is done; `how`: "done" or "stopped"."""
        alone = self.is_shown and not self.done
        if seconds >= _LITTLE or alone or how != "done":
            self.done[what] = self.done.get(what, 0.0) + seconds
        if self.is_shown:
            self._write(f"{how}: {self._so_far()}", "")

    def _so_far(self, end: str = "") -> str:
        said = "; ".join(f"{what} {duration(seconds)}" for what, seconds in self.done.items())
        return f"{said}{end} " if said and end else said

    def _write(self, words: str, drawn: str) -> None:
        from IPython.display import display

        data = {"text/plain": words, "text/html": f"{drawn}<small>{escape(words)}</small>"}
        with self._lock:
            if self._handle is None:
                self._handle = display(data, raw=True, display_id=True, metadata=MARK)
            else:
                self._handle.update(data, raw=True, metadata=MARK)


_line = Line(-1)


def _of_this_cell() -> Line:
    """The line of the cell that is running."""
    global _line
    from IPython import get_ipython

    cell = int(getattr(get_ipython(), "execution_count", 0))
    if _line.cell != cell:
        _line = Line(cell)
    return _line


@contextmanager
def line_of_stage(what: str, wanted: bool | None) -> Iterator[None]:
    """Say what is being done, once it takes its time; `wanted`: at once."""
    line, started = _of_this_cell(), time.perf_counter()
    inside = dict(line.done)
    # A thread has no part in the cell's context, without which its output would go elsewhere.
    here = contextvars.copy_context()
    timer = threading.Timer(0.0 if wanted else PATIENCE, lambda: here.run(line.show, what))
    timer.daemon = True
    timer.start()
    how = "stopped"
    try:
        yield
        how = "done"
    finally:
        timer.cancel()
        timer.join()
        if how != "done" or line.done == inside:  # else the parts have said it
            line.end(what, time.perf_counter() - started, how)


@contextmanager
def line_of_bar(total: int, what: str, wanted: bool | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances the bar by a number of steps."""
    line, started = _of_this_cell(), time.perf_counter()
    patience = 0.0 if wanted or line.is_shown else PATIENCE
    count, shown = 0, started + patience - _EVERY

    def advance(steps: int) -> None:
        nonlocal count, shown
        count, now = count + steps, time.perf_counter()
        if now - shown < _EVERY or count > total:
            return
        shown = now
        left = duration((now - started) * (total - count) / count) if count else ""
        ahead = f", about {left} left" if left else ""
        line.show(f"{what} {count:,} of {total:,}{ahead}", count / max(total, 1))

    how = "stopped"
    try:
        yield advance
        how = "done"
    finally:
        line.end(what, time.perf_counter() - started, how)
