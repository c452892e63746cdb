"""How long compiling took: a first call spends most of its time on it, and a second one none."""

from __future__ import annotations

import functools
import time
from typing import Any

from jax import monitoring

_PHASE = "/jax/core/compile/"
_STEPS = (f"{_PHASE}jaxpr_to_mlir_module_duration", f"{_PHASE}backend_compile_duration")


_spent = [0.0]


def _listen(event: str, duration_secs: float, **_: Any) -> None:
    if event in _STEPS:
        _spent[0] += duration_secs


@functools.cache
def _begin_listening() -> None:
    """Not when the package is imported: who never asks is not listened to."""
    monitoring.register_event_duration_secs_listener(_listen)


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        _begin_listening()
        self.started, self.compiled = time.perf_counter(), _spent[0]

    def read(self) -> tuple[float, float]:
        """Seconds so far, and how many of them this process was compiling; workers are not heard."""
        seconds = time.perf_counter() - self.started
        return seconds, min(_spent[0] - self.compiled, seconds)  # other threads compile, too
