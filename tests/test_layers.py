"""The table of layers in docs/design.md is true."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def places():
    """The row and column of each module in the table."""
    cells = re.findall(r"^\| (`[^|]*`) \|", (ROOT / "docs" / "design.md").read_text(), re.M)
    rows = [re.findall(r"`(\w+)/?`", cell) for cell in cells]
    return {name: (row, column) for row, names in enumerate(rows) for column, name in enumerate(names)}


def imports(path):
    """Modules and packages of fitonce that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fitonce":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]


def test_a_module_imports_only_from_rows_above_or_from_its_left():
    place, source = places(), ROOT / "src" / "fitonce"
    for path in source.rglob("*.py"):
        mine = path.relative_to(source).with_suffix("").parts[0]
        if mine in ("__init__", "__main__"):
            continue
        for other in set(imports(path)) - {mine}:
            assert place[other] < place[mine], f"{mine} imports {other}"
