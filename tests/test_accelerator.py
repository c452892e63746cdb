"""The road of an accelerator, on JAX's CPU: weights of folds are sent once, rows are chosen there."""

from __future__ import annotations

from functools import cache

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

import fitonce as fo
from fitonce.core.deferred import float64, jax
from fitonce.core.numerics import as_floats, on_device
from fitonce.crossval import batches, fold_weights
from fitonce.crossval.batches import Batches
from fitonce.folds.record import Folds

METHODS = ("none", "ij", "onestep", "newton", "exact", "auto")
FAMILIES = ("chain", "graph", "custom", "space")  # the last one reads weights on the host


def density(params, x, weights):
    z = (x - params["mean"]) * jnp.exp(-params["log_scale"])
    return jnp.sum(weights * (-0.5 * z**2 - params["log_scale"]))


@cache
def fitted(family):
    """A fit by programs of JAX, and folds of it."""
    rng = np.random.default_rng(0)
    if family == "graph":
        graph = fo.graph(nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 6)))
        y = rng.normal(size=30) + 2.0 * (np.arange(30) % 6 > 2)
        fit = fo.fit(fo.models.PottsMixture(graph, emission="gaussian", beta=0.4), y)
        return fit, fo.folds.spatial_kfold(graph, 10, data=y)
    if family == "custom":
        points = rng.normal(1.0, 2.0, size=40)
        fit = fo.fit(fo.models.Custom(density, {"mean": 0.0, "log_scale": 0.0}), points)
        return fit, fo.folds.kfold(40, 8)
    levels = np.where((np.arange(120) // 20) % 2, 9.0, 2.0)
    if family == "chain":
        y, model = rng.poisson(levels).astype(float), fo.models.PoissonHMM(2)
    else:
        y, model = levels + rng.normal(size=120), fo.models.Structural()
    return fo.fit(model, y, kernel="scan"), fo.folds.iid(y, percent=10, n=20, seed=0)


@pytest.fixture
def accelerator(monkeypatch):
    """As if there were one; notes how many rows of weights are made on the host, and on the device."""
    made = {"host": [], "device": []}
    on_host, on_device = Folds.weights_of, fold_weights._without

    def weights_of(self, chosen):
        chosen = list(chosen)
        made["host"].append(len(chosen))
        return on_host(self, chosen)

    def without(folds):
        made["device"].append(len(folds))
        return on_device(folds)

    for module in (batches, fold_weights):
        monkeypatch.setattr(module, "on_cpu", lambda: False)
        monkeypatch.setattr(module, "device_bytes", lambda: 2**30)
    monkeypatch.setattr(Folds, "weights_of", weights_of)
    monkeypatch.setattr(fold_weights, "_without", without)
    return made


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_numbers_of_a_cpu(family, method, request):
    fit, folds = fitted(family)
    usual = fo.cross_validate(fit, folds, method=method, optima=0)
    request.getfixturevalue("accelerator")
    found = fo.cross_validate(fit, folds, method=method, optima=0)
    np.testing.assert_allclose(found.folds["loss"], usual.folds["loss"], rtol=1e-9)
    np.testing.assert_allclose(found.folds["control"], usual.folds["control"], rtol=1e-9)
    assert found.se == pytest.approx(usual.se, rel=1e-9)
    assert list(found.folds["verdict"]) == list(usual.folds["verdict"])
    assert list(found.folds["rung"]) == list(usual.folds["rung"])


@pytest.mark.parametrize("family", FAMILIES[:3])
@pytest.mark.parametrize("method", ["ij", "onestep"])
def test_weights_are_made_and_sent_once(family, method, accelerator):
    fit, folds = fitted(family)
    fo.cross_validate(fit, folds, method=method, optima=0)
    assert accelerator["device"] == [len(folds)]
    assert set(accelerator["host"]) <= {1}  # single folds, as checks ask


def test_joint_losses_are_those_of_a_cpu(request):
    fit, _ = fitted("chain")
    folds = fo.folds.blocks(fit.data, percent=10, n=6, seed=0)
    usual = fo.cross_validate(fit, folds, loss="joint", optima=0)
    request.getfixturevalue("accelerator")
    found = fo.cross_validate(fit, folds, loss="joint", optima=0)
    np.testing.assert_allclose(found.folds["loss"], usual.folds["loss"], rtol=1e-9)


def test_small_chunks_give_the_same(accelerator):
    fit, folds = fitted("chain")
    whole = fo.cross_validate(fit, folds, method="onestep")
    parts = fo.cross_validate(fit, folds, method="onestep", chunk=3)
    np.testing.assert_allclose(parts.folds["loss"], whole.folds["loss"], rtol=1e-12)


def test_rows_of_some_folds_come_from_the_device(accelerator):
    fit, folds = fitted("chain")
    made = Batches.of_folds(fit.objective, folds, 8).weights_of
    everything = made.where_they_run(np.arange(len(folds)))
    assert on_device(everything)
    some = made.some(np.array([7, 2, 2, 11])).where_they_run(np.array([3, 0, 1]))
    assert on_device(some)
    np.testing.assert_array_equal(everything, folds.weights)
    np.testing.assert_array_equal(some, folds.weights[[11, 7, 2]])
    assert accelerator["device"] == [len(folds)]


def test_weights_that_are_too_large_stay_on_the_host(accelerator, monkeypatch):
    monkeypatch.setattr(fold_weights, "device_bytes", lambda: 2**10)
    fit, folds = fitted("chain")
    made = Batches.of_folds(fit.objective, folds, 8).weights_of
    assert isinstance(made.where_they_run(np.arange(3)), np.ndarray)


def test_loops_on_the_cpu_keep_weights_on_the_host(accelerator):
    y = fitted("chain")[0].data
    native = fo.fit(fo.models.PoissonHMM(2), y, kernel="native")
    folds = fo.folds.iid(y, percent=10, n=4, seed=0)
    made = Batches.of_folds(native.objective, folds, 8).weights_of
    assert isinstance(made.where_they_run(np.arange(4)), np.ndarray)


def test_numbers_of_jax_are_not_fetched():
    with float64():
        there = jax.device_put(np.ones(3))
        assert as_floats(there) is there
    assert as_floats([1, 2]).dtype == float
