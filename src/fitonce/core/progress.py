"""Progress bars, shown on a terminal unless asked otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(total: int, what: str, progress: bool | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances a progress bar by a number of steps. The bar is shown if `progress`
    is true, or None on a terminal, and is removed at the end."""
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
    shown = Progress(*columns, console=Console(stderr=True), transient=True)
    task = shown.add_task(what, total=total)
    try:
        shown.start()
    except LiveError:  # another thread of this process shows one
        yield lambda steps: None
        return
    try:
        yield lambda steps: shown.advance(task, steps)
    finally:
        shown.stop()
