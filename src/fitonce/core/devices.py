"""Whether there is an accelerator, asked without importing JAX where the answer is known to be no."""

from __future__ import annotations

import functools
import os
from importlib import metadata
from importlib.util import find_spec

from fitonce.core.deferred import jax, loaded

_USUAL_BYTES = 2**34


def on_cpu() -> bool:
    """Whether JAX works on a CPU in this process."""
    if not loaded() and not _may_have_accelerator():
        return True
    return jax.default_backend() == "cpu"


@functools.cache
def _may_have_accelerator() -> bool:
    """JAX finds accelerators by plugins, which are packages, or is told of them."""
    if os.environ.get("JAX_PLATFORMS", "cpu") not in ("", "cpu"):
        return True
    plugins = any(find_spec(name) for name in ("jax_plugins", "libtpu"))
    return plugins or bool(metadata.entry_points(group="jax_plugins"))


@functools.cache
def device_bytes() -> int:
    """Memory that JAX may take on its first device, or a usual size where it does not say."""
    said = jax.devices()[0].memory_stats() or {}
    return int(said.get("bytes_limit", _USUAL_BYTES))
