"""Elapsed time, and how much of it was compilation: most of a first call, none of a second."""

from __future__ import annotations

import functools
import time
from typing import Any

from fitonce.core.deferred import after_loading, jax

_PHASE = "/jax/core/compile/"
_STEPS = (f"{_PHASE}jaxpr_to_mlir_module_duration", f"{_PHASE}backend_compile_duration")
_spent = [0.0]


@functools.cache
def _register_listener() -> None:
    """Once, at the first stopwatch rather than at import: only measured runs pay for it."""

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event in _STEPS:
            _spent[0] += duration_secs

    after_loading(lambda: jax.monitoring.register_event_duration_secs_listener(listen))


class Stopwatch:
    """Runs from its creation."""

    def __init__(self) -> None:
        _register_listener()
        self.started, self.compiled = time.perf_counter(), _spent[0]

    def read(self) -> tuple[float, float]:
        """Seconds so far, and those of them spent compiling in this process, without its workers."""
        seconds = time.perf_counter() - self.started
        return seconds, min(_spent[0] - self.compiled, seconds)  # other threads may compile, too
