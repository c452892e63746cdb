"""Code in the documentation runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/index.md", "docs/graphs.md", "CONTRIBUTING.md"])
def test_code_blocks_run(page, monkeypatch, tmp_path):
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
