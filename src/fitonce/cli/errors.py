"""What a command says, and how it ends: one sentence for what is wrong, and exit code 2."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

_DEBUG = "FITONCE_DEBUG"
BAD, STOPPED = 2, 130


def spoken(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose faults are sentences. FITONCE_DEBUG=1 shows where they came from."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            complain("interrupted before there was a result; nothing was written")
            raise typer.Exit(STOPPED) from None
        except MemoryError:
            complain("this needs more memory than there is")
        except BrokenPipeError:  # head, less: whoever read has gone
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            raise typer.Exit(0) from None
        except Exception as error:
            if os.environ.get(_DEBUG):
                raise
            complain(sentence_of(error))
        raise typer.Exit(BAD) from None

    return wrapper


def sentence_of(error: Exception) -> str:
    """One line. What is not one of our sentences says so, and how to see more."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, PermissionError):
        return f"{error.filename} may not be opened: {error.strerror}"
    if isinstance(error, (ValueError, OSError)):
        return text[:600]
    return f"something went wrong ({type(error).__name__}: {text[:300]}); {_DEBUG}=1 shows where"


def complain(text: str) -> None:
    """A sentence to the terminal, not to a pipe."""
    typer.echo(f"fitonce: {text}", err=True)


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Ctrl-C once: end with what there is. Twice: end at once."""
    asked: list[int] = []

    def stop(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        complain("stopping after this round with what there is; Ctrl-C again stops at once")

    try:
        before = signal.signal(signal.SIGINT, stop)
    except ValueError:  # not in the main thread, as when called by a test
        yield lambda: False
        return
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)
