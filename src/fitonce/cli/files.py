"""Files that a command writes. One that cannot be written costs none of the numbers: it is told after
them, with how to write it again without computing anything again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from fitonce.cli.errors import BAD, complain
from fitonce.core.interrupts import STOPPED
from fitonce.core.writing import UnwrittenError


class Files:
    """What was written, and what could not be."""

    def __init__(self) -> None:
        self.wrote: list[str] = []
        self.failed: list[Exception] = []

    def add(self, write: Callable[[], Any]) -> None:
        """Write a file, whose path `write` returns."""
        try:
            self.wrote.append(str(write()))
        except (UnwrittenError, ValueError) as error:  # or what it would show cannot be drawn
            self.failed.append(error)
        except KeyboardInterrupt:
            complain(
                f"interrupted while files were written; whole are: {', '.join(self.wrote) or 'none'}"
            )
            raise typer.Exit(STOPPED) from None

    def finish(self, save: Callable[[Path], Any] | None = None, again: str = "") -> None:
        """End the command with a sentence for each file that could not be written.

        Args:
            save: writes the result to a path.
            again: a command that makes the files of a saved result, with KEPT in its place.
        """
        if not self.failed:
            return
        for error in self.failed:
            complain(str(error))
        kept = None if save is None else _kept(save)
        if kept is not None:
            complain(f"the result is kept in {kept}; {again.replace('KEPT', str(kept))}")
        raise typer.Exit(BAD)


def _kept(save: Callable[[Path], Any]) -> Path | None:
    """A copy of the result in the system's folder for temporary files; None where that is full, too."""
    try:
        path = Path(tempfile.mkdtemp(prefix="fitonce-")) / "result.json"
        save(path)
    except OSError:
        return None
    return path
