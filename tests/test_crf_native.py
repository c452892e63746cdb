"""CRFs by native loops: against enumeration, the programs of JAX and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fitonce as fo
from crf_cases import CASES, draw
from fitonce.core.numerics import in_float64
from fitonce.objectives import priors
from fitonce.objectives.families import objective_of
from fitonce.objectives.labels import design, native_covariance, native_passes

KINDS = [(name, sparse) for name in CASES for sparse in (False, True)]


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}-{'sparse' if kind[1] else 'dense'}")
def kind(request, monkeypatch):
    """A case, with its features in compressed rows or not; work in several pieces and threads."""
    name, sparse = request.param
    monkeypatch.setattr(design, "_SMALL", 0 if sparse else np.inf)
    monkeypatch.setattr(design, "_SPARSE", 1.0)
    monkeypatch.setattr(design, "_TOGETHER", 8)
    monkeypatch.setattr(native_covariance, "_BYTES", 8 * 200)
    monkeypatch.setattr(native_passes, "_FEW", 3)
    return CASES[name], sparse


def test_values_gradients_and_hessians_match_enumeration(kind):
    case, sparse = kind
    problem = draw(case, 1, unknown=True)
    assert problem.fit.objective.layout.design.is_sparse == sparse
    value, gradient, hessian = problem.twin.objective(problem.theta)
    assert_allclose(problem.fit.value, value, rtol=1e-12)
    assert_allclose(problem.fit.gradient, gradient, atol=1e-11)
    assert_allclose(problem.fit.H, hessian, atol=1e-11)


def test_products_are_those_of_the_hessian_of_each_fold(kind):
    case, _ = kind
    problem = draw(case, 2, unknown=True)
    objective, rng = problem.fit.objective, np.random.default_rng(0)
    thetas, directions = rng.normal(size=(2, 2, len(problem.theta)))
    weights = problem.data.weights * (rng.random((2, problem.data.n_sites)) < 0.6)
    found = objective.products(thetas, directions, weights)
    for theta, direction, weight, product in zip(thetas, directions, weights, found, strict=True):
        assert_allclose(product, problem.twin.objective(theta, weight)[2] @ direction, atol=1e-10)
    hessian = problem.twin.objective(thetas[0])[2]
    assert_allclose(objective.products_at(thetas[0], directions), directions @ hessian, atol=1e-10)


def test_products_along_the_path_of_kept_labels():
    problem = draw(CASES["linear"], 3)
    rng = np.random.default_rng(1)
    weights, direction = rng.random(problem.data.n_sites)[None], rng.normal(size=len(problem.theta))
    found = problem.fit.objective.products(problem.theta[None], direction[None], weights)[0]
    assert_allclose(found, problem.twin.objective(problem.theta, weights[0])[2] @ direction, atol=1e-9)


@pytest.mark.parametrize("scheme", ["C", "structures"])
def test_products_with_the_cross_derivatives_are_those_of_the_matrix(scheme):
    problem = draw(CASES["iob2"], 4, unknown=True)
    curve = fo.curvature(problem.fit, scheme)
    change = np.random.default_rng(0).normal(size=(3, len(curve.objective.base)))
    change *= curve.objective.base != 0
    assert_allclose(curve.objective.slopes_along(problem.theta, change), change @ curve.J.T, atol=1e-12)


def test_native_loops_and_jax_agree_on_ragged_sentences():
    """Some thirty sentences, too many for an enumeration; features of both kinds of columns."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(1, 30, size=30)
    features = [rng.normal(size=(n, 5)) * (rng.random((n, 5)) < 0.5) for n in lengths]
    labels = [[f"{k}" for k in rng.integers(0, 6, size=n)] for n in lengths]
    data = fo.labelled(features, labels, tags=[str(k) for k in range(6)])
    model = fo.models.LinearChainCRF()
    native, scan = (objective_of(model, data, kernel) for kernel in ("native", "scan"))
    theta, base = rng.normal(size=(1, native.space.size)), native.base[None]
    for mine, theirs in zip(*(o.values_and_gradients(theta, base) for o in (native, scan)), strict=True):
        assert_allclose(mine, theirs, rtol=1e-11, atol=1e-10)
    assert_allclose(native.hessians(theta, base), scan.hessians(theta, base), atol=1e-9)
    assert native.decode(theta[0]) == scan.decode(theta[0])


def test_potentials_that_underflow_are_done_again_in_logarithms():
    """A sentence whose first token all but excludes the only tag from which the second can follow."""
    model = fo.models.LinearChainCRF("scores", support=[[1, 0], [1, 1]], start_support=None)
    scores = [np.array([[900.0, 0.0], [0.0, 900.0], [0.0, 800.0]]), np.array([[0.0, 1.0]])]
    data = fo.labelled(scores, [["b", "b", "b"], ["a"]], tags=["a", "b"])
    found = [objective_of(model, data, kernel) for kernel in ("native", "scan")]
    theta = np.random.default_rng(0).normal(size=(1, found[0].space.size))
    values, slopes = zip(*(o.values_and_gradients(theta, o.base[None]) for o in found), strict=True)
    assert_allclose(*values, atol=1e-12)  # differences of numbers of size 1,700
    assert_allclose(*slopes, atol=1e-12)
    chains = found[0].layout.chains.chains(theta[0])
    assert native_passes._scaled(chains, np.empty(chains.unary.shape)).again.tolist() == [True, False]
    hessians = [o.hessians(theta, o.base[None]) for o in found]
    assert_allclose(*hessians, atol=1e-12)


@in_float64
def test_the_prior_in_closed_form_is_that_of_the_model():
    problem = draw(CASES["random"], 6)
    theta, objective = problem.theta, problem.fit.objective
    derived = priors.values_and_slopes(objective.program, theta[None], None)
    assert_allclose(objective.log_prior(theta), derived[0][0], rtol=1e-13)
    assert_allclose(objective._priors(theta[None])[1], derived[1], rtol=1e-13)
    precision = -priors.hessian(objective.program, theta, None)
    assert_allclose(precision, problem.fit.model.prior_precision * np.eye(len(theta)), atol=1e-13)


def test_a_kernel_must_be_known():
    problem = draw(CASES["linear"], 0)
    with pytest.raises(ValueError, match="must be 'native', 'scan' or None, got 'tree'"):
        fo.fit(problem.fit.model, problem.data, kernel="tree")
