"""Programs that never end: a call ends with a sentence, and so does its process."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from fitonce.core import watch
from fitonce.core.lapack import waits
from fitonce.core.watch import StuckError, settled

HERE = Path(__file__).parent


class Late:
    """An array that is there after some questions."""

    def __init__(self, questions):
        self.questions = questions

    def is_ready(self):
        self.questions -= 1
        return self.questions < 0


@pytest.fixture
def patience(monkeypatch):
    monkeypatch.setattr(watch, "PATIENCE", 0.5)
    monkeypatch.setattr(watch, "_leave_without_waiting", lambda: None)  # of this process


def test_what_comes_late_is_waited_for(patience):
    found = [Late(3), Late(5)]
    assert settled(found) is found
    assert all(one.questions < 0 for one in found)


def test_what_never_comes_ends_with_a_sentence(patience):
    words = "no progress for 0 s and does not use the processor.*method='onestep', one core"
    with pytest.raises(StuckError, match=words):
        settled([Late(np.inf)])


def test_a_processor_in_use_is_progress(patience):
    class Busy(Late):
        def is_ready(self):
            ended = time.process_time() + 0.01
            while time.process_time() < ended:
                pass
            return super().is_ready()

    slow = Busy(40)
    started = time.process_time()
    settled(slow)
    assert slow.questions < 0
    assert time.process_time() - started > 0.3


@pytest.mark.parametrize("after", [0, 20])  # calls: in the fit, in the folds
def test_a_call_whose_program_never_ends_ends(patience, monkeypatch, after):
    real, calls = jax.jit, []

    def stuck(function, **options):
        program = real(function, **options)

        def call(*args, **kwargs):
            calls.append(1)
            return Late(np.inf) if len(calls) > after else program(*args, **kwargs)

        call._cache_size = program._cache_size
        return call

    monkeypatch.setattr(jax, "jit", stuck)

    def log_density(params, data, weights):
        return jnp.sum(-0.5 * weights * (data - params["mean"]) ** 2)

    data = np.random.default_rng(0).normal(size=20)

    def work():
        fit = fo.fit(fo.models.Custom(log_density, {"mean": 0.1}), data)
        for _ in range(20):
            fo.cross_validate(fit, fo.folds.points(20), method="exact")

    with pytest.raises(StuckError, match="waits for threads of its own"):
        work()


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
"""


@pytest.mark.slow
def test_a_process_with_a_real_deadlock_ends():
    """With jaxlib 0.10 on several cores this waits for itself in most runs, and never else."""
    words = [sys.executable, "-c", CODE.format(tests=str(HERE))]
    done = subprocess.run(words, timeout=900, check=False, capture_output=True, text=True)
    if done.returncode:
        assert waits(), done.stderr
        assert "StuckError: a program of JAX has made no progress" in done.stderr
