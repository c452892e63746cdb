"""Standard output and error of a command whose reader, such as head or less, may leave before the end:
what is printed then goes nowhere, and the command goes on, writes its files and ends as usual."""

from __future__ import annotations

import io
import os
import stat
import sys
from typing import Any


class _Pipe(io.FileIO):
    """Drops what nobody reads."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content) or 0
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(content).nbytes


def outlive_readers() -> None:
    """From now on a reader that leaves is no error."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            number = stream.fileno()
            piped = not stat.S_ISREG(os.fstat(number).st_mode) and not os.isatty(number)
        except (AttributeError, OSError, ValueError):  # none, or one that a test has put there
            continue
        if piped:
            stream.flush()
            binary = io.BufferedWriter(_Pipe(number, "wb", closefd=False))
            how = {"encoding": stream.encoding, "errors": stream.errors}
            setattr(sys, name, io.TextIOWrapper(binary, **how, line_buffering=name == "stderr"))
