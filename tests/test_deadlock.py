"""A textbook model that waited for itself: jaxlib 0.10 runs batched triangular solves on a pool of
threads, from a program that already holds all of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import numpy as np, fitonce as fo
rng = np.random.default_rng(0)
x = [rng.normal(size=(20, 12)) + 3.0 * np.repeat([0, 1], 10)[:, None] for _ in range(5)]
fit = fo.fit(fo.models.GaussianHMM(2, covariance="full"), x, restarts=1)
assert fit.ok, fit.status
"""


@pytest.mark.parametrize(
    "run", [0, *(pytest.param(run, marks=pytest.mark.slow) for run in range(1, 10))]
)
def test_full_covariances_of_many_channels_are_fitted(run):
    subprocess.run([sys.executable, "-c", CODE], check=True, timeout=300)
