"""How much of the package one call enters: files and functions, traced in a fresh process each.

Fits and folds are made once before, so that imports and what is read once do not count. What is printed is
printed for the first time: printing should compute nothing.
"""

from __future__ import annotations

import subprocess
import sys

_BEFORE = """
import sys, threading
from pathlib import Path
import numpy as np
import fitonce as fo

rng = np.random.default_rng(0)
x = rng.poisson(np.array([2.0, 9.0])[(np.arange(200) // 20) % 2])
fit = fo.fit(fo.models.PoissonHMM(2), x, progress=False)
folds = fo.folds.blocks(fit.data, percent=10, n=20)
cv = fo.cross_validate(fit, folds, progress=False)
home, entered = str(Path(fo.__file__).parent), set()


def trace(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(home) and code.co_name[0] != "<":
        entered.add((code.co_filename, code.co_qualname))


sys.setprofile(trace)
threading.setprofile(trace)
"""
_AFTER = """
sys.setprofile(None)
print(len({file for file, _ in entered}), len(entered))
"""
CALLS = {
    "fo.fit(PoissonHMM(2), x)": "fo.fit(fo.models.PoissonHMM(2), x, progress=False)",
    "fo.cross_validate(fit, folds)": "fo.cross_validate(fit, folds, progress=False)",
    "print(fit)": "str(fit)",
    "print(cv)": "str(cv)",
}


def main() -> None:
    for name, call in CALLS.items():
        code = f"{_BEFORE}{call}{_AFTER}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        files, functions = done.stdout.split()
        print(f"{name:>30}: {files} files, {functions} functions")
