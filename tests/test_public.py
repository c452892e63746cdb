"""Public names: imported when needed, and the same for people and for type checkers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fitonce as fo


def test_names_for_type_checkers_are_the_names_there_are():
    tree = ast.parse(Path(fo.__file__).read_text())
    (checked,) = [node for node in tree.body if isinstance(node, ast.If)]
    found = {}
    for line in checked.body:
        for alias in line.names:
            inside = f"{line.module}.{alias.name}"
            found[alias.name] = inside if alias.name in fo._MODULES else line.module
    assert found == fo._WHERE
    assert sorted(found) == sorted(fo.__all__)


def test_every_name_is_there():
    for name in fo.__all__:
        assert getattr(fo, name) is not None
    assert set(fo.__all__) <= set(dir(fo))
    with pytest.raises(AttributeError, match="has no attribute 'fitt'"):
        fo.fitt


def test_importing_loads_nothing_large():
    large = ("jax", "pandas", "matplotlib", "networkx", "numba", "scipy")
    code = f"import sys, fitonce; print([m for m in {large} if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == "[]"
