"""Error messages and exit codes: one sentence on stderr, exit code 2."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import typer

from fitonce.core import interrupts, watch
from fitonce.core.interrupts import STOPPED

_DEBUG = "FITONCE_DEBUG"
BAD = 2


def reporting_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, with errors printed as one sentence; FITONCE_DEBUG=1 shows the traceback instead."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        interrupts.working()
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return command(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            complain("interrupted before there was a result; nothing was written")
            raise typer.Exit(STOPPED) from None
        except MemoryError:
            complain("out of memory")
        except Exception as error:
            if os.environ.get(_DEBUG):
                raise
            complain(sentence_of(error))
            if isinstance(error, watch.StuckError):
                watch.leave(BAD)  # the usual end of a process waits for the program
        raise typer.Exit(BAD) from None

    return wrapper


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Warnings for users are sentences; others, of libraries, are shown as Python does."""
    if issubclass(category, UserWarning):
        complain(" ".join(str(message).split()))
    else:
        sys.stderr.write(warnings.formatwarning(message, category, where[0], where[1]))


def sentence_of(error: Exception) -> str:
    """The error in one line; an error that fitonce did not raise on purpose is called unexpected."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, PermissionError):
        return f"{error.filename} cannot be opened: {error.strerror}"
    if isinstance(error, (ValueError, OSError)):
        return text[:600]
    return f"unexpected error ({type(error).__name__}: {text[:300]}); {_DEBUG}=1 shows the traceback"


def complain(text: str) -> None:
    """Print a message to stderr."""
    typer.echo(f"fitonce: {text}", err=True)
