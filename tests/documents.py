"""Code blocks of the documents: run, and what they print compared with what the page shows.

A block of `text` after a block of `python` or `sh` is what that one prints. `python tests/documents.py
PAGE ...` writes what it printed here into the pages.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROUNDING = 1e-6  # numbers below are at rounding level, or close: only that they are small is compared

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
_TIME = re.compile(r"\b\d[\d,]*(\.\d+)?(e-?\d+)? (s|ms|min|h)\b")
_SPAN = re.compile(r"(about|[\d.,]+ to|<time> to) <time>")  # what refits would take
_COMPILING = re.compile(r", including <time> compiling")  # only shown where it is much of the time
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?(?![\w])")

_RUNNER = """
import contextlib, io, json, sys
blocks, space, printed = json.load(open(sys.argv[1])), {"__name__": "__main__"}, []
for number, block in enumerate(blocks):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block, f"block {number}", "exec"), space)
    printed.append(out.getvalue())
json.dump(printed, open(sys.argv[2], "w"))
"""


@dataclass(frozen=True)
class Example:
    """A block of code, and the block after it that shows its output, by its place in the page."""

    code: str
    shown: str | None
    place: tuple[int, int] | None
    language: str = "python"


def examples(text: str) -> list[Example]:
    """The examples of a page, in order: all code, and the commands whose output is shown."""
    found: list[Example] = []
    for match in _BLOCK.finditer(text):
        if match[1] == "text" and found and found[-1].shown is None:
            found[-1] = replace(found[-1], shown=match[2], place=match.span(2))
        else:
            found.append(Example(match[2], None, None, match[1]))
    commands = [example for example in found if example.language == "sh" and example.shown is not None]
    return [example for example in found if example.language == "python" or example in commands]


# What dynamax and TensorFlow Probability do that JAX warns about.
_OF_PEERS = ("ignore:jax.core:DeprecationWarning", "ignore:shape requires ndarray:DeprecationWarning")


def run(found: list[Example], folder: Path) -> list[str]:
    """What each example prints: code in one process, where warnings are errors, then commands."""
    asked, answered = folder / "asked.json", folder / "answered.json"
    asked.write_text(json.dumps([e.code if e.language == "python" else "" for e in found]))
    filters = [part for text in ("error", *_OF_PEERS) for part in ("-W", text)]
    _printed([sys.executable, *filters, "-c", _RUNNER, str(asked), str(answered)], folder)
    printed = json.loads(answered.read_text())
    for number, example in enumerate(found):
        if example.language == "sh":
            printed[number] = _printed(["bash", "-e", "-c", example.code], folder)
    return printed


def _printed(command: list[str], folder: Path) -> str:
    here = {
        "MPLBACKEND": "Agg",
        "COLUMNS": "80",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        command, cwd=folder, env=os.environ | here, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(done.stderr[-3000:])
    return done.stdout


def differences(shown: str, printed: str) -> list[str]:
    """Lines that differ: words must be the same, numbers to the digits shown, times may be any."""
    mine, theirs = (_normalised(text) for text in (shown, printed))
    if len(mine) != len(theirs):
        return [f"{len(mine)} lines are shown, {len(theirs)} were printed: {theirs[:3]}"]
    return [f"shown  {a}\n  printed {b}" for a, b in zip(mine, theirs, strict=True) if not _same(a, b)]


def masked(text: str) -> str:
    """Without the times in it."""
    return _SPAN.sub("<time>", _COMPILING.sub("", _TIME.sub("<time>", text)))


def _normalised(text: str) -> list[str]:
    return [" ".join(line.split()) for line in masked(text).strip().splitlines()]


def _same(shown: str, printed: str) -> bool:
    if _NUMBER.sub("#", shown) != _NUMBER.sub("#", printed):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(_same_number(a, b) for a, b in pairs)


def _same_number(shown: str, printed: str) -> bool:
    """To one unit of the last digit shown; whole numbers exactly."""
    a, b = (float(text.replace(",", "")) for text in (shown, printed))
    if re.fullmatch(r"-?[\d,]+", shown):
        return a == b
    if abs(a) < ROUNDING and abs(b) < ROUNDING:
        return True
    digits, _, exponent = shown.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(a - b) <= 1.001 * unit


def updated(text: str, found: list[Example], printed: list[str]) -> str:
    """The page with what was printed in place of what differs from it."""
    for example, output in reversed(list(zip(found, printed, strict=True))):
        if example.place is not None and differences(example.shown or "", output):
            start, end = example.place
            text = text[:start] + output.rstrip() + "\n" + text[end:]
    return text


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        made = examples(page.read_text())
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(updated(page.read_text(), made, run(made, Path(folder))))
        print(f"{name}: {len(made)} examples")
