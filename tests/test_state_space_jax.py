"""The Kalman filter in JAX, step by step and in rounds, against the native one."""

from __future__ import annotations

import numpy as np
import pytest

import fitonce as fo
from fitonce import schemes
from fitonce.objectives.families import objective_of
from registry import entries

ENTRIES = {entry.name: entry for entry in entries()}
KERNELS = ("scan", "tree")


def series(channels=1, seed=0):
    """Two short sequences with gaps."""
    rng = np.random.default_rng(seed)
    parts = [np.cumsum(rng.normal(size=(steps, channels)), 0) for steps in (9, 6)]
    parts[0][3], parts[1][4, -1] = np.nan, np.nan
    return fo.sequences(parts, covariates=[rng.normal(size=(len(part), 1)) for part in parts])


MODELS = {
    "level": (fo.models.Structural(exog=["u0"]), 1),
    "trend": (fo.models.Structural("trend"), 1),
    "factor": (fo.models.DynamicFactor(1), 2),
}


def compared(model, data, kernel, scheme=None):
    """At several parameters and weights, some of them zero."""
    native, other = objective_of(model, data), objective_of(model, data, kernel)
    if scheme is not None:
        native, other = native.with_scheme(scheme), other.with_scheme(scheme)
    rng = np.random.default_rng(1)
    thetas = np.stack([native.start(None), native.start(rng), native.start(None)])
    weights = np.tile(native.base, (3, 1))
    weights[1] *= rng.random(weights.shape[1])
    weights[1, 1::5] = 0.0  # not every fourth, which are all there is of a season
    weights[2, -2:] = 0.0
    values, slopes = native.values_and_gradients(thetas, weights)
    assert np.isfinite(values).all()
    found, gradients = other.values_and_gradients(thetas, weights)
    np.testing.assert_allclose(found, values, rtol=1e-10)
    np.testing.assert_allclose(gradients, slopes, rtol=1e-8, atol=1e-8 * np.abs(slopes).max())


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("level", "scan"),
        ("level", "tree"),
        ("factor", "scan"),
        pytest.param("trend", "tree", marks=pytest.mark.slow),
        pytest.param("factor", "tree", marks=pytest.mark.slow),
    ],
)
def test_values_and_gradients_are_those_of_the_native_filter(name, kernel):
    model, channels = MODELS[name]
    compared(model, series(channels), kernel)


def test_other_paths_of_weights_are_the_same():
    compared(MODELS["level"][0], series(), "scan", schemes.Structures())


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["seasons", "arima", "own-state-space", "dynamic-factors"])
def test_registered_models_have_the_values_of_the_native_filter(name, kernel):
    compared(ENTRIES[name].model, ENTRIES[name].data, kernel)


@pytest.mark.slow
def test_steps_without_noise_are_left_to_the_scan():
    """A smooth trend without noise: a step given the one before is known, which has no element."""
    data = fo.sequences(np.cumsum(np.cumsum(np.random.default_rng(0).normal(size=8))))
    compared(fo.models.Structural("smooth trend", noise=False), data, "tree")


def test_folds_that_do_not_determine_the_start_are_not_finite():
    data = fo.sequences(np.arange(5.0) ** 2)
    objective = objective_of(fo.models.Structural("trend"), data, "scan")
    weights = np.ones((1, 5))
    weights[0, 1:] = 0.0
    assert objective.values_and_gradients(objective.start(None)[None], weights)[0] == np.inf


@pytest.mark.slow
def test_a_fit_by_jax_is_that_of_the_native_filter():
    data = series(seed=3)
    native, other = (
        fo.fit(fo.models.Structural("fixed"), data, restarts=1, kernel=kernel)
        for kernel in ("native", "scan")
    )
    assert other.status.ok
    assert other.value == pytest.approx(native.value, rel=1e-10)


def test_other_kernels_are_refused():
    with pytest.raises(ValueError, match="kernel must be one of"):
        fo.fit(fo.models.Structural(), np.arange(9.0), kernel="lattice")
