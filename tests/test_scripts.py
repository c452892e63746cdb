"""Benchmarks and reproductions: what they import is there, and bad words get one sentence."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    f"{folder}.{path.stem}"
    for folder in ("benchmarks", "reproduce")
    for path in sorted((ROOT / folder).glob("*.py"))
    if not path.stem.startswith("__")
]


@pytest.mark.parametrize("name", MODULES)
def test_what_a_script_imports_is_there(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    importlib.import_module(name)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["reproduce", "nothing"], "reproduce: expected names from traffic-accuracy,"),
        (["reproduce", "weak", "--part", "x"], "reproduce: weak has no parts"),
        (["reproduce", "calibration", "--part", "x"], "expected parts from traffic, 1 sd,"),
    ],
)
def test_bad_words_get_one_sentence(words, sentence):
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
