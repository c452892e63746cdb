"""From a cold process to a cross-validated result, for the example of every model of the command line; and whether
JAX was needed. Loops are compiled before, as after the first use on a machine; programs of JAX are not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reproduce.cases import machine

from fitonce.cli.choices import named_models
from fitonce.cli.examples import example_of

_CODE = """
import sys
from fitonce.cli import app
try:
    app(sys.argv[1:], standalone_mode=False)
finally:
    print("jax" in sys.modules, file=sys.stderr)
"""


def main() -> None:
    print(machine())
    _run("poisson-hmm", Path(tempfile.mkdtemp()))
    for name in named_models():
        with tempfile.TemporaryDirectory() as folder:
            seconds, compiled = _run(name, Path(folder))
        print(f"{name:32} {seconds:5.1f} s{', with JAX' if compiled else ''}", flush=True)


def _run(name: str, folder: Path) -> tuple[float, bool]:
    example = example_of(name)
    example.write(folder, force=True)
    options = [word for key, value in example.options.items() for word in (f"--{key}", value)]
    words = ["cv", next(iter(example.files)), "--model", name, *options, "--n", "20", "--quiet"]
    environment = os.environ | {"FITONCE_CACHE": str(folder / "compiled")}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _CODE, *words],
        cwd=folder, env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    said = done.stderr.split()
    if done.returncode or not said:
        sys.exit(f"{name}: {done.stdout} {done.stderr}")
    return seconds, said[-1] == "True"
