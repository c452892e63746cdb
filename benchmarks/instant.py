"""How long ordinary data wait: every row is a fresh process, with imports, on data never seen before.

A first run on a machine also compiles the native loops, once: the first row. For the others they are
compiled before.
"""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reproduce.cases import machine

import fitonce

# As many years, and about as many a year, as the earthquakes of docs/tutorial.md.
_COUNTS = """
import numpy as np
rng = np.random.default_rng({seed})
states = np.repeat([0, 1, 2, 1, 0, 1], [20, 15, 17, 20, 18, 17])
counts = rng.poisson(np.array([12.0, 19.0, 29.0])[states])
"""
_EVERY_LOOP = """
import fitonce as fo
fit = fo.fit(fo.models.PoissonHMM(2), counts)
fo.cross_validate(fit, fo.folds.kfold(fit.data, 5))
fo.loo(fit)
"""
_SEQUENCES = """
import numpy as np
rng = np.random.default_rng({seed})
means = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])
data = []
for _ in range(40):
    z = np.cumsum(rng.random(200) < 0.1) % 3
    data.append(means[z] + rng.normal(size=(200, 2)))
"""
_OURS = """
import fitonce as fo
fit = fo.fit(fo.models.GaussianHMM(3), data, restarts=1)
cv = fo.cross_validate(fit, fo.folds.structures(fit.data))
print(cv.estimate, int(cv.folds["ok"].sum()))
"""
_HMMLEARN = """
from hmmlearn.hmm import GaussianHMM
losses = []
for left in range(len(data)):
    kept = [x for n, x in enumerate(data) if n != left]
    model = GaussianHMM(3, n_iter=100, tol=1e-2, random_state=0)
    model.fit(np.concatenate(kept), [len(x) for x in kept])
    losses.append(-model.score(data[left]))
print(np.mean(losses))
"""
_TEXTBOOK = """
import sys
import numpy as np
sys.path.insert(0, {root!r})
from reproduce.cases import vowels
data = vowels()
"""
# Twenty sequences of 100 steps, whose states are as far apart whatever the number of channels.
_SIMULATED = """
import numpy as np
rng = np.random.default_rng({seed})
means = rng.normal(size=({states}, {channels})) * 3.0 / np.sqrt({channels})
data = []
for _ in range(20):
    z = np.cumsum(rng.random(100) < 0.1) % {states}
    data.append(means[z] + rng.normal(size=(100, {channels})))
"""
_OUR_TEXTBOOK = """
import time
import fitonce as fo
model = fo.models.GaussianHMM({states}, covariance="{covariance}")
fo.fit(model, data[:5], restarts=1, max_iterations=2)  # imports, and loops read from disk
started = time.perf_counter()
fit = fo.fit(model, data, restarts=1)
print(time.perf_counter() - started, fit.ok, len(fit.theta))
"""
_HMMLEARN_TEXTBOOK = """
import time
from hmmlearn.hmm import GaussianHMM
model = GaussianHMM({states}, covariance_type="{covariance}", n_iter=100, random_state=0)
GaussianHMM(2, n_iter=2).fit(np.concatenate(data))
started = time.perf_counter()
model.fit(np.concatenate(data), [len(x) for x in data])
print(time.perf_counter() - started)
"""


def main() -> None:
    print(machine())
    compileall.compile_dir(Path(fitonce.__file__).parent, quiet=1)  # as pip does
    with tempfile.TemporaryDirectory() as folder:
        everything = _COUNTS.format(seed=0) + _EVERY_LOOP
        fresh = os.environ | {"NUMBA_CACHE_DIR": folder}  # a machine on which nothing was compiled
        _row("first use on a machine: fit, folds, loo", _python(everything, fresh))
        _row("the same again", _python(everything, fresh))
        _python(everything)
        _commands(Path(folder))
    _sequences()
    _textbook()


def _commands(folder: Path) -> None:
    _row("import fitonce", _python("import fitonce"))
    _row("fitonce --help", _command(["--help"], folder))
    _write(folder / "counts.csv", 0)
    cv = ["--model", "poisson-hmm", "--states", "3", "--n", "100", "--quiet"]
    _row("fitonce cv, 107 counts, 3 states, 100 folds", _command(["cv", "counts.csv", *cv], folder))
    _write(folder / "counts.csv", 1)
    select = ["select", "counts.csv", "--model", "poisson-hmm", "--states", "1..5", "--quiet"]
    _row("fitonce select, 1 to 5 states", _command(select, folder))


def _sequences() -> None:
    data = _SEQUENCES.format(seed=0)
    ours, theirs = _python(data + _OURS), _python(data + _HMMLEARN)
    _row("40 sequences x 200, leave one out", ours, f"hmmlearn's loop {theirs:.1f} s", theirs)


def _textbook() -> None:
    vowels = _TEXTBOOK.format(root=str(Path(__file__).parents[1]))
    for covariance in ("full", "tied", "diag"):
        for states in (2, 4, 8):
            _beside_hmmlearn("vowels", vowels, covariance, states)
        for channels in (2, 24):
            for states in (2, 8):
                data = _SIMULATED.format(seed=0, states=states, channels=channels)
                _beside_hmmlearn(f"{channels} channels", data, covariance, states)


def _beside_hmmlearn(what: str, data: str, covariance: str, states: int) -> None:
    how = {"states": states, "covariance": covariance}
    ours = _said(data + _OUR_TEXTBOOK.format(**how)).split()
    theirs = float(_said(data + _HMMLEARN_TEXTBOOK.format(**how)))
    name = f"{what}, {covariance}, {states} states, D = {ours[2]}, certified: {ours[1]}, fit"
    _row(name, float(ours[0]), f"hmmlearn {theirs:.2f} s", theirs)


def _row(name: str, seconds: float, peer: str = "", theirs: float | None = None) -> None:
    beside = "" if theirs is None else f"; {peer}, {theirs / seconds:.2f} times ours"
    print(f"{name}: {seconds:.2f} s{beside}", flush=True)


def _write(path: Path, seed: int) -> None:
    names: dict[str, list[int]] = {}
    exec(_COUNTS.format(seed=seed), names)
    lines = [f"{1900 + year},{count}" for year, count in enumerate(names["counts"])]
    path.write_text("year,count\n" + "\n".join(lines) + "\n")


def _command(words: list[str], folder: Path) -> float:
    return _timed([sys.executable, "-m", "fitonce", *words], folder)


def _python(source: str, environment: dict[str, str] | None = None) -> float:
    return _timed([sys.executable, "-c", source], Path.cwd(), environment)


def _said(source: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", source], check=True, capture_output=True, text=True, env=os.environ
    ).stdout


def _timed(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return time.perf_counter() - started
