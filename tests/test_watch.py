"""Programs that never end: a call ends with a sentence, and so does its process."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from fitonce.core import watch
from fitonce.core.lapack import waits
from fitonce.core.watch import StuckError, wait_for

HERE = Path(__file__).parent


class Late:
    """An array that is there after some questions."""

    def __init__(self, questions):
        self.questions = questions

    def is_ready(self):
        self.questions -= 1
        return self.questions < 0


class Until(Late):
    """An array that is there after some seconds."""

    def __init__(self, seconds):
        self.end = time.perf_counter() + seconds

    def is_ready(self):
        return time.perf_counter() > self.end


@pytest.fixture
def patience(monkeypatch):
    monkeypatch.setattr(watch, "PATIENCE", 0.5)
    monkeypatch.setattr(watch, "_leave_at_exit", lambda: None)  # of this process


def test_what_comes_late_is_waited_for(patience):
    found = [Late(3), Late(5)]
    assert wait_for(found) is found
    assert all(one.questions < 0 for one in found)


def test_what_never_comes_ends_with_a_sentence(patience):
    words = "no progress for 0 s and used no processor.*method='onestep', one core"
    with pytest.raises(StuckError, match=words):
        wait_for([Late(np.inf)])


def test_a_processor_in_use_is_progress(patience):
    """By another thread: what asking takes is none."""
    late = Until(2.0)  # four times the patience

    def work():
        while not late.is_ready():
            pass

    worker = threading.Thread(target=work)
    worker.start()
    wait_for(late)
    worker.join()


def test_asking_is_no_progress(patience):
    class Busy(Until):
        def is_ready(self):
            ended = time.thread_time() + 0.01
            while time.thread_time() < ended:
                pass
            return super().is_ready()

    with pytest.raises(StuckError):
        wait_for(Busy(60.0))


@pytest.mark.parametrize("after", [0, 20])  # calls: in the fit, in the folds
def test_a_call_whose_program_never_ends_ends(patience, monkeypatch, after):
    real, calls = wait_for, []

    def of_late_ones(found):
        calls.append(1)
        return real([Late(np.inf)] if len(calls) > after else found)

    monkeypatch.setattr(watch, "wait_for", of_late_ones)

    def log_density(params, data, weights):
        return jnp.sum(-0.5 * weights * (data - params["mean"]) ** 2)

    data = np.random.default_rng(0).normal(size=20)

    def work():
        fit = fo.fit(fo.models.Custom(log_density, {"mean": 0.1}), data)
        for _ in range(20):
            fo.cross_validate(fit, fo.folds.points(20), method="exact")

    with pytest.raises(StuckError, match="waits for its own threads"):
        work()


def test_time_asleep_does_not_count(patience, monkeypatch):
    """Of a process that was stopped, or a laptop that was closed: an hour in one of the waits."""
    clock, sleeps = [0.0], iter([3600.0])

    def sleep(seconds):
        clock[0] += next(sleeps, seconds)

    times = SimpleNamespace(
        perf_counter=lambda: clock[0], sleep=sleep, process_time=lambda: 0.0, thread_time=lambda: 0.0
    )
    monkeypatch.setattr(watch, "time", times)
    wait_for([Late(8)])  # 0.4 s of 0.5
    assert clock[0] > 3600.0


@pytest.fixture
def callback(patience, monkeypatch):
    """Starts a callback of a model in a thread of its own, which waits until the test has ended."""
    monkeypatch.setattr(watch, "_DELAY", 1.0)
    ended, threads = threading.Event(), []

    def begin(waiting=ended.wait):
        begun = threading.Event()

        def called(x):
            begun.set()
            waiting()
            return x

        def work():
            jax.pure_callback(called, jax.ShapeDtypeStruct((), "float32"), np.float32(1.0))

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        assert begun.wait(60)
        return ended

    yield begin
    ended.set()
    for thread in threads:
        thread.join()


def test_a_callback_may_wait_for_a_network(callback):
    callback()
    wait_for([Until(2.0)])  # four times the patience


def test_a_callback_may_not_wait_for_ever(callback, monkeypatch):
    monkeypatch.setattr(watch, "_PATIENCE_WITH_CALLBACKS", 2)
    callback()
    with pytest.raises(StuckError, match="or for a callback of your model"):
        wait_for([Until(60.0)])


def test_a_callback_that_waits_for_jax_is_no_progress(callback):
    of_jax = {"__name__": "jax._src.array", "sleep": time.sleep}
    exec("def wait():\n    while not ended:\n        sleep(0.01)", of_jax)
    of_jax["ended"] = []
    callback(of_jax["wait"])
    with pytest.raises(StuckError):
        wait_for([Until(60.0)])
    of_jax["ended"].append(True)


ENDS = """
import sys
from fitonce.core import watch
watch._leave_at_exit()
{end}
"""


@pytest.mark.parametrize(
    "end",
    ["", "sys.exit(3)", "sys.exit()", "raise ValueError", "sys.stdout = None; sys.stderr.close()"],
)
def test_the_process_of_a_deadlock_fails(end):
    done = subprocess.run([sys.executable, "-c", ENDS.format(end=end)], check=False, timeout=60)
    assert done.returncode == 1


COMMAND = """
import atexit, time
from fitonce.cli.errors import reporting_errors
from fitonce.core.watch import StuckError

def stuck():
    print("begun", end="")
    raise StuckError("no progress")

atexit.register(time.sleep, 600)  # as JAX, which waits for its program
reporting_errors(stuck)()
"""


def test_a_command_ends_at_once_with_its_code_for_errors():
    words = [sys.executable, "-c", COMMAND]
    done = subprocess.run(words, check=False, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "begun", "fitonce: no progress\n")


CODE = """
import sys
sys.path.insert(0, {tests!r})
import fitonce as fo
from fitonce.core import lapack, watch
from lapack_densities import car
watch.PATIENCE = 3.0
lapack.waits = lambda: False
model, data = car()
fit = fo.fit(model, data)
for _ in range(5):
    fo.cross_validate(fit, fo.folds.points(49))
print("all done")
"""


@pytest.mark.slow
def test_a_process_with_a_real_deadlock_ends():
    """With jaxlib 0.10 on several cores this waits for itself in most runs, and never else. It succeeds
    only where all was done."""
    words = [sys.executable, "-c", CODE.format(tests=str(HERE))]
    done = subprocess.run(words, timeout=900, check=False, capture_output=True, text=True)
    assert done.stdout == ("" if done.returncode else "all done\n")
    if done.returncode:
        assert waits(), done.stderr
        assert "StuckError: a JAX program made no progress" in done.stderr
