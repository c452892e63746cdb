"""Second derivatives of chains by Louis' identity, against tangents pushed through the gradient."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from ar_cases import at_random, gaps, walk, walks
from fitonce.engines import score_covariance as scores
from fitonce.objectives import priors
from fitonce.objectives.chain import observed_information as louis
from fitonce.objectives.chain.complete_information import preconditioner
from fitonce.objectives.chain.posteriors import pieces_of
from fitonce.objectives.derivatives import AutodiffObjective
from fitonce.objectives.schemes import Structures

pytestmark = pytest.mark.xdist_group("louis")  # one worker compiles once
ARHMM, NeuralARHMM = fo.models.ARHMM, fo.models.NeuralARHMM
LENGTHS = [6, 9, 7]
ONE_WAY = [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
STICKY = [[0.9, 0.1], [0.2, 0.8]]


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def tangents(objective, theta, weights):
    return AutodiffObjective.hessians(objective, theta[None], weights[None])[0]


def by_scores(objective, theta, weights, **options):
    """H by Louis' identity, and the slopes of sequences."""
    hessian, slopes = louis.likelihood_hessian(objective.sample(weights), theta, **options)
    with jax.enable_x64(True):
        hessian -= priors.hessian(objective.program, theta, objective.prepared)
    return hessian, slopes


def check(objective, theta, weights):
    assert objective.traits.blocks
    expected = tangents(objective, theta, weights)
    found, _ = by_scores(objective, theta, weights)
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_allclose(found, found.T, atol=1e-11 * np.abs(expected).max())


def fractions(objective, seed=0):
    """Weights between 0 and 1, some of them 0."""
    weights = np.random.default_rng(seed).random(len(objective.base)) * objective.base
    weights[::4] = 0.0
    return weights


@cache
def usual():
    """One case that several tests share: a variance for each state, steps and channels missing, at a
    point where states are hard to tell apart."""
    objective, theta = at_random(ARHMM(2, 2, noise="state"), gaps(LENGTHS), size=0.2)
    return objective, theta + 3.0 * np.array(["variance" in n for n in objective.space.names])


@pytest.mark.parametrize(
    ("model", "data"),
    [
        slow(ARHMM(2, 0, noise="fixed", variance=0.7), walks(LENGTHS)),
        slow(ARHMM(2, 0, noise="shared"), walks(LENGTHS)),
        slow(ARHMM(2, 0, noise="state"), walks(LENGTHS)),
        slow(ARHMM(2, 2, noise="fixed", variance=0.7), walks(LENGTHS)),
        slow(ARHMM(2, 2, noise="shared"), walks(LENGTHS)),
        slow(ARHMM(2, 1, noise="shared", frozen={"transition": STICKY}), gaps(LENGTHS)),
        slow(ARHMM(2, 1, noise="state", frozen={"bias": np.zeros((2, 2))}), gaps(LENGTHS)),
        slow(ARHMM(2, 1, noise="shared", frozen={"variance": 0.5}), walks(LENGTHS)),
        slow(ARHMM(3, 1, noise="state", support=ONE_WAY), walks(LENGTHS)),
        slow(ARHMM(1, 1, noise="shared"), walk(9)),
        slow(NeuralARHMM(2, 1, hidden=2, noise="shared"), gaps(LENGTHS)),
        slow(NeuralARHMM(2, 2, hidden=2, noise="fixed"), walks(LENGTHS)),
    ],
)
def test_hessian_matches_tangents(model, data):
    objective, theta = at_random(model, data)
    check(objective, theta, objective.base)


def test_hessian_matches_tangents_with_missing_steps_and_channels():
    objective, theta = usual()
    check(objective, theta, objective.base)


def test_hessian_matches_tangents_at_weights_of_steps():
    objective, theta = usual()
    check(objective, theta, fractions(objective))


def test_hessian_matches_tangents_at_weights_of_sequences():
    objective, theta = usual()
    along = objective.with_scheme(Structures())
    check(along, theta, np.array([0.4, 1.0, 0.0]))


def test_sequences_in_chunks_are_the_same_as_together(monkeypatch):
    objective, theta = usual()
    whole, slopes = by_scores(objective, theta, objective.base)
    monkeypatch.setattr("fitonce.objectives.chain.posteriors._CHUNK", 1)
    parts, rows = by_scores(objective, theta, objective.base)
    np.testing.assert_allclose(parts, whole, atol=1e-12 * np.abs(whole).max())
    np.testing.assert_allclose(rows, slopes, atol=1e-12 * np.abs(slopes).max())


def test_rows_that_wait_are_the_same_however_few(monkeypatch):
    objective, theta = usual()
    whole, _ = by_scores(objective, theta, objective.base)
    monkeypatch.setattr(scores, "_BUFFER", 1)
    few, _ = by_scores(objective, theta, objective.base)
    np.testing.assert_allclose(few, whole, atol=1e-12 * np.abs(whole).max())


def test_slopes_are_gradients_of_sequences():
    objective, theta = usual()
    along = objective.with_scheme(Structures())
    alone = np.concatenate([np.eye(3), np.zeros((1, 3))])
    gradients = along.gradients(np.tile(theta, (4, 1)), alone)
    expected = gradients[3] - gradients[:3]
    _, slopes = by_scores(objective, theta, objective.base)
    np.testing.assert_allclose(slopes, expected, atol=1e-11 * np.abs(expected).max())


def test_slopes_do_not_depend_on_coefficients():
    objective, theta = usual()
    along = objective.with_scheme(Structures())
    _, slopes = by_scores(objective, theta, objective.base)
    _, weighted = by_scores(along, theta, np.array([0.4, 1.0, 0.0]))
    np.testing.assert_allclose(weighted, slopes, atol=1e-12 * np.abs(slopes).max())


def test_sparse_and_dense_covariances_agree():
    objective, theta = usual()
    sample = objective.sample(fractions(objective))
    coefficients = np.array([0.4, 1.0, 2.0])
    size = len(theta)
    with jax.enable_x64(True):
        (chunk,) = sample.chunks()
        pieces, _ = pieces_of(objective.program, jnp.asarray(theta), *chunk.arrays)
        total = np.zeros((size, size))
        means = scores.sparse(pieces, coefficients, total)
        found = scores.symmetrised(total)
        expected = scores.dense(pieces, jnp.asarray(coefficients))
    np.testing.assert_allclose(found, expected.covariance, atol=1e-11 * np.abs(found).max())
    np.testing.assert_allclose(means, expected.means, atol=1e-11 * np.abs(means).max())
    assert np.linalg.eigvalsh(found)[0] > -1e-10 * np.abs(found).max()


def test_dense_arrays_of_a_device_give_the_same_hessian():
    objective, theta = usual()
    sample = objective.sample(fractions(objective))
    host, host_slopes = louis.likelihood_hessian(sample, theta)
    device, device_slopes = louis.device_hessian(sample, theta)
    np.testing.assert_allclose(np.asarray(device), host, atol=1e-12 * np.abs(host).max())
    np.testing.assert_allclose(device_slopes, host_slopes, atol=1e-12 * np.abs(host_slopes).max())


def inverse_of(objective, theta):
    return preconditioner(objective.sample(objective.base), theta)(np.eye(len(theta)))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_preconditioner_is_symmetric_and_positive_definite(seed):
    """Also far from a minimum."""
    objective, theta = usual()
    theta = theta + np.random.default_rng(seed).normal(size=len(theta))
    found = inverse_of(objective, theta)
    np.testing.assert_allclose(found, found.T, atol=1e-10 * np.abs(found).max())
    assert np.linalg.eigvalsh(0.5 * (found + found.T))[0] > 0


def test_with_one_state_nothing_is_hidden_and_the_preconditioner_is_the_inverse():
    objective, theta = at_random(ARHMM(1, 1, noise="fixed"), walk(15))
    hessian = tangents(objective, theta, objective.base)
    np.testing.assert_allclose(inverse_of(objective, theta) @ hessian, np.eye(len(theta)), atol=1e-10)


def test_models_that_share_rows_of_data_have_no_such_hessian():
    counts = np.random.default_rng(0).poisson(3.0, 20)
    objective, _ = at_random(fo.models.PoissonHMM(2), counts)
    assert not objective.traits.blocks
    assert not objective.traits.closed_form_hessian


DEVICES = """
import jax, numpy as np
import fitonce as fo
from ar_cases import at_random, walks
from fitonce.objectives.chain import observed_information as louis

assert len(jax.devices()) == 2
model, data = fo.models.ARHMM(2, 1, noise="shared"), walks([6, 9, 7, 8, 5])
objective, theta = at_random(model, data)
sample = objective.sample(objective.base)
one, two = (louis.likelihood_hessian(sample, theta, devices=n) for n in (1, 2))
for a, b in zip(one, two):
    assert np.abs(a - b).max() <= 1e-12 * np.abs(a).max(), np.abs(a - b).max() / np.abs(a).max()

if not METHODS:
    raise SystemExit
fit = fo.fit(model, data, restarts=1)
for folds in (fo.folds.kfold(fit.data, 4), fo.folds.structures(fit.data)):
    for method in METHODS:
        here, there = (
            fo.cross_validate(fit, folds, method=method, parallel=p, check=False)
            for p in (None, "devices")
        )
        np.testing.assert_allclose(there.theta, here.theta, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(there.folds["loss"], here.folds["loss"], rtol=1e-8)
"""


@pytest.mark.slow
@pytest.mark.parametrize("methods", [(), ("ij", "onestep", "exact")])
def test_two_devices_give_what_one_does(methods):
    """H by itself, and cross-validation by these methods."""
    code = DEVICES.replace("METHODS", repr(methods))
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-3000:]
