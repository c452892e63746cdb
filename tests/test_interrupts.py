"""Ctrl-C at each stage of a command: exit code 130, one sentence, no traceback, no half file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

pytestmark = [pytest.mark.xdist_group("interrupts"), pytest.mark.late]
# A command that says when it is at a stage, and would go on for long.
STAGES = {
    "import": """
import sys, time
import fitonce.__main__ as entry
import fitonce.core.interrupts
class Slow:
    def find_spec(self, name, *rest):
        if name == "fitonce.cli":
            print("ready", flush=True)
            time.sleep(30)
sys.meta_path.insert(0, Slow())
entry.main()
""",
    "fit": """
import sys, time
import fitonce.__main__ as entry
from fitonce.cli import steps
def slow(*_, **__):
    print("ready", flush=True)
    time.sleep(30)
steps.fit = slow
entry.main()
""",
    "folds": """
import sys, time
import fitonce.__main__ as entry
from fitonce.cli import steps
real = steps.cross_validate
def slow(*given, stop, **how):
    print("ready", flush=True)
    while not stop():
        time.sleep(0.01)
    if WAIT:
        time.sleep(30)
    return real(*given, stop=stop, **how)
steps.cross_validate = slow
entry.main()
""",
    "swallowed": """
import time
import fitonce.__main__ as entry
from fitonce.cli import steps
from fitonce.core import interrupts
interrupts._GRACE = 0.3
def slow(*_, **__):
    print("ready", flush=True)
    try:
        time.sleep(30)
    except KeyboardInterrupt:
        time.sleep(30)
steps.fit = slow
entry.main()
""",
}


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame({"y": rng.poisson(np.repeat([2, 9, 2], 20))}).to_csv(tmp_path / "y.csv", index=False)
    return tmp_path / "y.csv"


def interrupted(stage, file, times, wait=False):
    """Exit code, output and errors of a command that gets this many signals within milliseconds."""
    code = f"WAIT = {wait}\n{STAGES[stage]}"
    words = ["cv", file.name, "--model", "poisson-hmm", "--save", "out.json"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=file.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"FITONCE_DEBUG": ""},
    )  # fmt: skip
    said = ""
    while "ready" not in said:
        line = process.stdout.readline()
        assert line, process.communicate()
        said += line
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.005)
    out, errors = process.communicate(timeout=60)
    return process.returncode, out, errors


@pytest.mark.parametrize("stage", ["import", "fit", "swallowed"])
@pytest.mark.parametrize("times", [1, 3])
def test_before_there_are_results_it_stops(file, stage, times):
    code, _, errors = interrupted(stage, file, times)
    assert code == 130, errors
    assert "fitonce: interrupted" in errors
    assert "Traceback" not in errors
    assert "Fatal" not in errors
    assert os.listdir(file.parent) == ["y.csv"]


def test_between_folds_the_first_gives_the_results_so_far(file):
    code, out, errors = interrupted("folds", file, 1)
    assert code == 130, errors
    assert "stopping after this round with the results so far" in errors
    assert "estimate" in out
    assert sorted(os.listdir(file.parent)) == ["out.json", "y.csv"]


@pytest.mark.parametrize("times", [2, 3, 5])
def test_more_stop_without_them(file, times):
    code, _, errors = interrupted("folds", file, times, wait=True)
    assert code == 130, errors
    assert "Traceback" not in errors
    assert "Fatal" not in errors
    assert os.listdir(file.parent) == ["y.csv"]
