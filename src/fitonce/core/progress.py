"""Progress: bars on a terminal, one line in a notebook, lines where a command writes to a pipe."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from fitonce.core.progress_lines import stage_in_lines, told_in_lines
from fitonce.core.progress_notebook import in_notebook, line_of_bar, line_of_stage

_PATIENCE = 1.0  # seconds that a stage may take before it is shown


def is_shown(progress: bool | None) -> bool:
    """Whether there are bars: None: on a terminal."""
    return sys.stderr.isatty() if progress is None else bool(progress)


@contextmanager
def stage(what: str, progress: bool | None) -> Iterator[None]:
    """Show what is being done, and for how long, while work of unknown length takes its time."""
    if progress is None and told_in_lines():
        with stage_in_lines(what):
            yield
        return
    if progress is not False and in_notebook():
        with line_of_stage(what, progress):
            yield
        return
    if not is_shown(progress):
        yield
        return
    from rich.console import Console
    from rich.errors import LiveError
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    shown = Progress(*columns, console=Console(stderr=True), transient=True)
    shown.add_task(what, total=None)

    def start() -> None:
        with suppress(LiveError):  # another thread of this process shows one
            shown.start()

    timer = threading.Timer(_PATIENCE, start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if shown.live.is_started:
            shown.stop()


@contextmanager
def bar(total: int, what: str, progress: bool | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances a progress bar by a number of steps. The bar is shown if `progress`
    is true, or None on a terminal or in a notebook, and is removed at the end."""
    if progress is None and told_in_lines():
        with stage_in_lines(what, total) as advance:
            yield advance
        return
    if progress is not False and in_notebook():
        with line_of_bar(total, what, progress) as advance:
            yield advance
        return
    if not is_shown(progress):
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
    alone = True
    try:
        shown.start()
    except LiveError:  # another thread of this process shows one
        alone = False
    if not alone:
        yield lambda steps: None
        return
    try:
        yield lambda steps: shown.advance(task, steps)
    finally:
        shown.stop()
