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

import pandas as pd
from reproduce.cases import machine
from reproduce.traffic import FOLDER

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
_IN_PYTHON = """
import time
began = time.perf_counter()
import fitonce as fo
times = [time.perf_counter()]
fit = fo.fit(fo.models.PoissonHMM(3), counts)
times.append(time.perf_counter())
fo.cross_validate(fit, fo.folds.blocks(fit.data, percent=10, n=100))
times.append(time.perf_counter())
fo.loo(fit)
times.append(time.perf_counter())
print(*np.diff([began, *times]))
"""
_SEQUENCES = """
import numpy as np
rng = np.random.default_rng({seed})
means = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])
data = []
for _ in range(40):
    length = rng.integers({shortest}, {longest} + 1)
    z = np.cumsum(rng.random(length) < 0.1) % 3
    data.append(means[z] + rng.normal(size=(length, 2)))
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
times = [time.perf_counter()]
fit = fo.fit(model, data, restarts=1)
times.append(time.perf_counter())
H = fit.objective.hessians(fit.theta[None], fit.objective.base[None])
times.append(time.perf_counter())
J = fit.objective.with_scheme(fo.schemes.Structures()).cross(fit.theta)
times.append(time.perf_counter())
ok = [fit.ok]
for folds in (fo.folds.structures(fit.data, k=10), fo.folds.structures(fit.data)):
    cv = fo.cross_validate(fit, folds, optima=0)
    times.append(time.perf_counter())
    ok.append(int(cv.folds["ok"].sum()))
print(*np.diff(times), *ok, len(fit.theta))
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
    steps = map(float, _said(_COUNTS.format(seed=2) + _IN_PYTHON).split())
    names = ("import", "fit", "cv of 100 folds", "loo")
    print(
        "in Python: " + ", ".join(f"{n} {t:.2f} s" for n, t in zip(names, steps, strict=True)),
        flush=True,
    )
    _motion(folder)


def _sequences() -> None:
    for name, shortest, longest in (("200", 200, 200), ("137 to 185", 137, 185)):
        data = _SEQUENCES.format(seed=0, shortest=shortest, longest=longest)
        ours, theirs = _python(data + _OURS), _python(data + _HMMLEARN)
        _row(
            f"40 sequences of {name} steps, leave one out",
            ours,
            f"hmmlearn's loop {theirs:.1f} s",
            theirs,
        )


def _motion(folder: Path) -> None:
    """Six sequences of motion capture with full covariances, from a file."""
    data = fitonce.datasets.load("mocap6", FOLDER)
    frames = [
        pd.DataFrame(x[:length]).add_prefix("channel").assign(trial=n)
        for n, (x, length) in enumerate(zip(data.values, data.lengths, strict=True))
    ]
    pd.concat(frames).to_csv(folder / "motion.csv", index=False)
    words = ["cv", "motion.csv", "--model", "gaussian-hmm-full", "--states", "3"]
    seconds = _command([*words, "--group", "trial", "--n", "20", "--quiet"], folder)
    _row("fitonce cv, motion capture, 6 sequences, full covariances, 3 states, 20 folds", seconds)


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
    *times, fit_ok, of_ten, of_all, size = _said(data + _OUR_TEXTBOOK.format(**how)).split()
    theirs = float(_said(data + _HMMLEARN_TEXTBOOK.format(**how)))
    name = f"{what}, {covariance}, {states} states, D = {size}, certified: {fit_ok}, fit"
    fit, hessian, cross, ten, every = map(float, times)
    _row(name, fit, f"hmmlearn {theirs:.2f} s", theirs)
    print(
        f"    H {hessian:.3f} s, J {cross:.3f} s; 10-fold {ten:.2f} s, {of_ten} of 10 certified; leave one "
        f"sequence out {every:.2f} s, {of_all} certified",
        flush=True,
    )


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
