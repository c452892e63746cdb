"""Shared fixtures: where the reference data is, and how skips are reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Compiling is most of the time of these tests; JAX has a switch for programs that run only briefly.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

SHARED = Path(os.environ.get("FITONCE_SHARED", Path(__file__).parents[2] / "shared"))


def shared(*parts: str) -> Path:
    """A file of the shared folder, or a skip that says what is missing."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs {'/'.join(parts)} in the shared folder beside the repository")
    return path
