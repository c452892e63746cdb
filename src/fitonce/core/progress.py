"""Progress bars, shown on a terminal unless asked otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(total: int, what: str, progress: bool | None) -> Iterator[Callable[[int], None]]:
    """A bar, and what moves it by so many steps; shown when `progress` is true, or None on a terminal. It
    is gone when the work is done."""
    if not (sys.stderr.isatty() if progress is None else progress):
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.errors import LiveError
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    drawn = Progress(*columns, console=Console(stderr=True), transient=True)
    task = drawn.add_task(what, total=total)
    try:
        drawn.start()
    except LiveError:  # another thread of this process shows one
        yield lambda steps: None
        return
    try:
        yield lambda steps: drawn.advance(task, steps)
    finally:
        drawn.stop()
