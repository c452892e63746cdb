"""Elapsed time, and how much of it was compilation: most of a first call, none of a second."""

from __future__ import annotations

import functools
import time
from typing import Any

from fitonce.core.deferred import after_loading, jax
from fitonce.core.native import seconds_of_compiling

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


def _compiling() -> float:
    """Seconds that JAX and Numba compiled in this process so far."""
    _register_listener()
    return _spent[0] + seconds_of_compiling()


def now() -> float:
    """A clock that stands still while something is compiled."""
    return time.perf_counter() - _compiling()


class Stopwatch:
    """Runs from its creation."""

    def __init__(self) -> None:
        self.started, self.compiled = time.perf_counter(), _compiling()

    def read(self) -> tuple[float, float]:
        """Seconds so far, and those of them spent compiling in this process, without its workers."""
        seconds = time.perf_counter() - self.started
        return seconds, min(_compiling() - self.compiled, seconds)  # other threads may compile, too
