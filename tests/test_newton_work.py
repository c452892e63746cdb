"""What a fit costs: one H for each accepted point, factors before eigenvalues, proofs by bounds."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

import fitonce as fo
from fitonce.crossval import loo, stepped
from fitonce.fitting.factor import factor_of
from fitonce.objectives.chain.native import NativeChainObjective
from fitonce.objectives.labels.objective import LabelObjective

TAGS = ("a", "b", "c")


@lru_cache
def sentences(unknown=False):
    """Twenty sentences with eighteen features: D = 72, so that Newton's method uses products."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 12, size=20)
    features = [rng.normal(size=(n, 18)) for n in lengths]
    labels = [[TAGS[k] for k in (3 * (x[:, 0] > 0) + 2 * (x[:, 1] > 0.5)) % 3] for x in features]
    if unknown:
        labels[3][0] = labels[5][1] = None
    return fo.labelled(features, labels, tags=TAGS)


@pytest.fixture
def eigen_decompositions(monkeypatch):
    """Counts calls of LAPACK's eigenvalues of full matrices."""
    counted = []
    for module in (np.linalg, scipy.linalg):
        for name in ("eigh", "eigvalsh", "eig", "eigvals", "svd"):
            original = getattr(module, name)
            wrapped = lambda *args, _original=original, **kwargs: (  # noqa: E731
                counted.append(len(args[0])), _original(*args, **kwargs)
            )[1]  # fmt: skip
            monkeypatch.setattr(module, name, wrapped)
    return counted


def hessians_at(monkeypatch, kind):
    """The points at which H was formed."""
    points, original = [], kind.hessians

    def formed(self, thetas, weights):
        points.extend(np.array(thetas))
        return original(self, thetas, weights)

    monkeypatch.setattr(kind, "hessians", formed)
    return points


def test_a_convex_fit_is_certified_without_its_hessian(monkeypatch, eigen_decompositions):
    points = hessians_at(monkeypatch, LabelObjective)
    fit = fo.fit(fo.models.LinearChainCRF(scale=2.0), sentences())
    assert fit.ok
    assert "convex" in str(fit.status)
    assert not points
    assert not eigen_decompositions
    fo.cross_validate(fit, fo.folds.structures(fit.data), method="ij", check=False)
    assert len(points) == 1  # for the folds, at the fit
    assert_allclose(points[0], fit.theta)
    assert not eigen_decompositions


def test_the_bound_holds_and_the_distance_is_no_more_than_it_says():
    fit = fo.fit(fo.models.LinearChainCRF(scale=2.0), sentences())
    assert fit.smallest_eigenvalue == 1 / 4.0
    rounding = np.finfo(float).eps * len(fit.theta) * np.linalg.norm(fit.H, 2)  # of the eigenvalues
    assert np.linalg.eigvalsh(fit.H)[0] >= fit.smallest_eigenvalue - rounding
    assert np.sqrt(fit.gradient @ np.linalg.solve(fit.H, fit.gradient)) <= fit.distance <= 1e-6


def test_a_point_that_is_not_stationary_is_judged_by_its_hessian():
    fit = fo.fit(fo.models.LinearChainCRF(), sentences())
    moved = {name: value + 0.01 for name, value in fit.params.items()}
    there = fo.fit_at(fit.model, fit.data, moved)
    assert not there.ok
    distance = np.sqrt(there.gradient @ np.linalg.solve(there.H, there.gradient))
    assert_allclose(there.distance, distance, rtol=1e-8)
    assert_allclose(there.smallest_eigenvalue, np.linalg.eigvalsh(there.H)[0], rtol=1e-6)


def test_labels_known_in_part_are_certified_by_a_factor(eigen_decompositions):
    fit = fo.fit(fo.models.LinearChainCRF(), sentences(unknown=True), restarts=1)
    assert fit.ok, str(fit.status)
    assert "smallest eigenvalue of H" in str(fit.status)
    assert not eigen_decompositions
    assert fit.objective.least_curvature is None


def test_newton_forms_each_hessian_once_and_no_eigenvalues(monkeypatch, eigen_decompositions):
    points = hessians_at(monkeypatch, NativeChainObjective)
    x = np.random.default_rng(1).poisson(np.repeat([2.0, 9.0, 2.0], 60))
    fit = fo.fit(fo.models.PoissonHMM(2), x, restarts=1)
    assert fit.ok
    assert len(points) == len(np.unique(np.array(points), axis=0))
    assert_allclose(points[-1], fit.theta)
    assert not eigen_decompositions


def test_a_factor_tells_what_the_eigenvalues_do():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(6, 9)) * np.array([1e3, 1, 1e-3, 1, 1, 1])[:, None]
    matrix, gradient = root @ root.T, rng.normal(size=6)
    factor = factor_of(matrix)
    assert_allclose(factor.solve(gradient), np.linalg.solve(matrix, gradient), rtol=1e-9)
    assert_allclose(
        factor.length(gradient) ** 2, gradient @ np.linalg.solve(matrix, gradient), rtol=1e-9
    )
    assert_allclose(factor.lowest, np.linalg.eigvalsh(matrix)[0], rtol=1e-6)
    assert factor_of(matrix - 2 * factor.lowest * np.eye(6)) is None
    assert factor_of(np.outer(gradient, gradient)) is None
    assert factor_of(np.full((2, 2), np.nan)) is None


def test_loo_in_pieces_is_loo_at_once(monkeypatch):
    fit = fo.fit(fo.models.LinearChainCRF(), sentences())
    whole = fo.loo(fit, refine=3)
    monkeypatch.setattr(loo, "KEPT_BYTES", 0)
    monkeypatch.setattr(stepped, "_BYTES", 8 * len(fit.theta) * 7)
    monkeypatch.setattr("fitonce.objectives.labels.objective._PIECE_BYTES", 8 * len(fit.theta) * 5)
    parts = fo.loo(fit, refine=3)
    assert isinstance(parts.theta, stepped.SteppedThetas)
    assert parts.theta.shape == whole.theta.shape
    assert_allclose(np.asarray(parts.theta), whole.theta, rtol=1e-9, atol=1e-10)
    assert_allclose(parts.theta[4], whole.theta[4], rtol=1e-9, atol=1e-10)
    for column in ("loss", "control", "error", "distance", "move"):
        assert_allclose(parts.folds[column], whole.folds[column], rtol=1e-7, atol=1e-9)


def test_sparse_slopes_step_as_far_as_dense_ones():
    fit = fo.fit(fo.models.LinearChainCRF(), sentences())
    curve, rng = fo.curvature(fit), np.random.default_rng(3)
    slopes = rng.normal(size=(9, len(fit.theta))) * (rng.random((9, len(fit.theta))) < 0.03)
    expected = np.linalg.solve(fit.H, (slopes - fit.gradient).T).T
    assert_allclose(stepped.one_step(curve, slopes), expected, rtol=1e-9, atol=1e-12)
    assert_allclose(stepped.one_step(curve, slopes, many=True), expected, rtol=1e-9, atol=1e-12)
