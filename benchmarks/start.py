"""From command to printed result: cold (nothing compiled before) and warm (the second run)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reproduce.cases import machine

COMMANDS = {
    "fitonce --help": ["--help"],
    "fitonce demo (50,400 points, 1,000 folds)": ["demo", "--plot", "demo.png", "--force"],
    "fitonce cv (300 counts, 2 states, 100 folds)": [
        "cv", "counts.csv", "--model", "poisson-hmm", "--n", "100", "--quiet",
    ],
}  # fmt: skip


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        _write_counts(Path(folder) / "counts.csv")
        environment = os.environ | {"FITONCE_CACHE": str(Path(folder) / "compiled")}
        for name, words in COMMANDS.items():
            cold, warm = (_timed(words, folder, environment) for _ in range(2))
            print(f"{name}: cold {cold:.1f} s, warm {warm:.1f} s, ratio {cold / warm:.1f}", flush=True)


def _write_counts(path: Path) -> None:
    import numpy as np

    counts = np.random.default_rng(0).poisson(np.tile(np.repeat([2, 9], 50), 3))
    path.write_text("count\n" + "\n".join(map(str, counts)) + "\n")


def _timed(words: list[str], folder: str, environment: dict[str, str]) -> float:
    started = time.perf_counter()
    command = [sys.executable, "-m", "fitonce", *words]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return time.perf_counter() - started
