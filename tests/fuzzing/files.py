"""Files with random damage, and odd options, through the command line in this process."""

from __future__ import annotations

import json
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from fitonce.cli import app
from fuzzing.outcomes import Refused


def judge(recipe: dict[str, Any]) -> None:
    """Raise unless a command ends with numbers and 0, or with one sentence and 2."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name, content in recipe["files"].items():
            Path(name).write_bytes(content)
        done = CliRunner().invoke(app, recipe["words"])
        left = sorted(path.name for path in Path().iterdir())
    code, told = done.exit_code, done.stderr
    assert left == sorted(recipe["files"]), f"files: {left} are left"
    assert code in (0, 2), f"exit code {code}: {done.exception!r} {told[:300]}"
    assert "Traceback" not in done.output, f"a traceback: {told[:300]}"
    if code == 0:
        _check_numbers(done.stdout)
        return
    ours = [line for line in told.split("\n") if line.startswith("fitonce: ")]
    usage = "Usage:" in told or "Error \u2500" in told  # what typer refuses itself
    assert usage or len(ours) == 1, f"no sentence: {told[:300]}"
    assert usage or "unexpected error" not in ours[0], f"unexpected error {_named(ours[0])}: {ours[0]}"
    assert usage or 20 < len(ours[0]) < 700, f"sentence of {len(ours[0])} characters: {ours[0][:300]}"
    assert not recipe["plain"], f"refused what is right: {told[:300]}"
    raise Refused("usage" if usage else ours[0])


def _named(sentence: str) -> str:
    return sentence.partition("(")[2].partition(":")[0]


def _check_numbers(printed: str) -> None:
    def refuse(word: str) -> Any:
        raise AssertionError(f"printed JSON: holds {word}")

    found = json.loads(printed, parse_constant=refuse)
    assert isinstance(found, dict), "printed JSON: no object"
