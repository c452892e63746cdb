"""Solutions by products: conjugate gradients, H as a matrix and without one, large folds."""

from __future__ import annotations

import dataclasses
from functools import cache
from unittest import mock

import jax
import numpy as np
import pytest

import fitonce as fo
from ar_cases import fitted, wide
from fitonce.core.status import Outcome
from fitonce.crossval import methods
from fitonce.fitting import finish, footprint, hessian
from fitonce.fitting.batched_lbfgs import batched_lbfgs
from fitonce.fitting.certificate import certify_by_products as told
from fitonce.fitting.conjugate_gradients import conjugate_gradients
from fitonce.fitting.hessian import DenseHessian, ImplicitHessian, IndefiniteError, UnsolvedError
from fitonce.fitting.newton_cg import newton_cg, newton_cg_afresh

pytestmark = pytest.mark.xdist_group("krylov")  # one worker fits and compiles once


def definite(size, seed=0, condition=100.0):
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(size, size)))
    found = (turn * np.geomspace(1.0, condition, size)) @ turn.T
    return 0.5 * (found + found.T)


def same(vectors, rows):
    return np.array(vectors)


def solve(matrices, rhs, precondition=same, **options):
    options = {"tolerance": 1e-12, "most": 200, "certify": True} | options
    return conjugate_gradients(
        lambda v, rows: np.einsum("nij,nj->ni", matrices[rows], v), rhs, precondition, **options
    )


@pytest.fixture(scope="module")
def systems():
    matrices = np.array([definite(12, seed) for seed in range(4)])
    return matrices, np.random.default_rng(9).normal(size=(4, 12))


def test_each_row_is_the_solution_of_its_own_system(systems):
    matrices, rhs = systems
    found = solve(matrices, rhs)
    expected = np.linalg.solve(matrices, rhs[..., None])[..., 0]
    np.testing.assert_allclose(found.x, expected, atol=1e-9)
    assert (found.lowest > 0).all()


def test_a_radius_ends_the_solution_on_its_edge(systems):
    """Steihaug: never longer than the radius, on it where the whole solution would be, and better than
    the step along the gradient that ends there."""
    matrices, rhs = systems
    whole = solve(matrices, rhs)
    weights = np.geomspace(0.5, 3.0, 12)
    sized = lambda v: np.sqrt((v**2 / weights).sum(1))  # noqa: E731 - the norm of the preconditioner's inverse
    scaled = lambda v, rows: v * weights  # noqa: E731
    radii = np.array([0.1, 0.5, 1.001, 10.0]) * sized(whole.x)
    found = solve(matrices, rhs, scaled, radii=radii)
    np.testing.assert_allclose(found.sizes, sized(found.x), rtol=1e-9)
    np.testing.assert_array_equal(found.edges, [True, True, False, False])
    np.testing.assert_allclose(found.sizes[:2], radii[:2], rtol=1e-9)
    np.testing.assert_allclose(found.x[2:], whole.x[2:], atol=1e-8)
    model = lambda x: 0.5 * np.einsum("ni,nij,nj->n", x, matrices, x) - (rhs * x).sum(1)  # noqa: E731
    np.testing.assert_allclose(found.falls, -model(found.x), rtol=1e-9)
    down = rhs * weights
    slope, bend = (rhs * down).sum(1), np.einsum("ni,nij,nj->n", down, matrices, down)
    along = np.minimum(slope / bend, radii / sized(down))
    assert (model(found.x) <= model(along[:, None] * down) + 1e-12).all()


def test_negative_curvature_is_followed_to_the_edge():
    matrix, rhs = np.diag([1.0, 2.0, -1.0])[None], np.array([[1.0, 1.0, 1.0]])
    found = solve(matrix, rhs, radii=5.0)
    np.testing.assert_allclose(np.linalg.norm(found.x), 5.0)
    assert found.edges[0]
    assert found.lowest[0] < 0
    assert found.falls[0] > 0


def test_bent_valleys_are_followed_to_their_end():
    """Rosenbrock's function from its usual start, preconditioned by nothing; two folds at once, one of
    which starts elsewhere."""

    def value(x):
        return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()

    firsts, seconds = (jax.jit(jax.vmap(make(value))) for make in (jax.value_and_grad, jax.hessian))
    with jax.enable_x64(True):
        ends = newton_cg(
            lambda t, _: tuple(np.array(part) for part in firsts(t)),
            lambda t, v, _: np.einsum("nij,nj->ni", np.array(seconds(t)), v),
            same,
            np.array([[-1.2, 1.0], [3.0, -4.0]]),
            tolerance=1e-9,
            most_steps=200,
        )
    assert ends.done.all()
    np.testing.assert_allclose(ends.thetas, 1.0, atol=1e-7)


def quadratic(matrix, centre, height=0.0):
    """Values, gradients and products of folds that share one quadratic."""

    def evaluate(thetas, _):
        off = thetas - centre
        slopes = off @ matrix
        return height + 0.5 * np.einsum("nd,nd->n", off, slopes), slopes

    return evaluate, lambda t, v, _: v @ matrix


@pytest.mark.parametrize("seed", range(12))
def test_what_is_done_is_as_near_as_it_says(seed):
    """Random quadratics, some nearly flat, from random radii: the certificate against the truth."""
    rng = np.random.default_rng(seed)
    matrix = definite(6, seed, condition=10.0 ** rng.uniform(0, 10)) * 10.0 ** rng.uniform(-8, 4)
    centre, tolerance = rng.normal(size=6), 1e-7
    evaluate, products = quadratic(matrix, centre)
    start = centre + rng.normal(size=(4, 6)) * 10.0 ** rng.uniform(-6, 1)
    ends = newton_cg(
        evaluate, products, same, start, tolerance=tolerance, radii=10.0 ** rng.uniform(-4, 3, 4)
    )
    off = ends.thetas - centre
    true = np.sqrt(np.einsum("nd,de,ne->n", off, matrix, off))
    assert (true[ends.done] <= 10 * tolerance).all()
    assert np.isfinite(ends.lowest).all()


def test_an_edge_hides_no_flat_direction():
    matrix = np.diag([1.0, 1e-10])
    evaluate, products = quadratic(matrix, np.zeros(2))
    start = np.array([[1e-3, 900.0]])
    ends = newton_cg(
        evaluate, products, same, start, tolerance=1e-6, radii=np.array([1.1e-3]), most_steps=3
    )
    assert not ends.done[0]  # 9e-3 standard errors away


def test_an_edge_at_once_is_no_failure(systems):
    matrices, rhs = systems
    found = solve(matrices, rhs, radii=1e-6)
    assert (found.iterations == 1).all()
    assert (found.lowest > 0).all()


@pytest.mark.parametrize("height", [0.0, 1e8])
def test_radii_grow_where_steps_keep_their_word(height):
    evaluate, products = quadratic(definite(6), np.full(6, 50.0), height)
    ends = newton_cg(evaluate, products, same, np.zeros((1, 6)), tolerance=1e-4, radii=np.array([1e-3]))
    assert ends.done[0]
    np.testing.assert_allclose(ends.thetas, 50.0, atol=1e-3)


def test_a_preconditioner_made_anew_follows_a_valley():
    def value(x):
        return 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2

    firsts, seconds = (jax.jit(jax.vmap(make(value))) for make in (jax.value_and_grad, jax.hessian))

    def renew(place):
        bent, turn = np.linalg.eigh(np.array(seconds(place[None])[0]))
        return lambda columns: (turn / np.maximum(np.abs(bent), 1e-3)) @ (turn.T @ columns)

    with jax.enable_x64(True):
        end = newton_cg_afresh(
            lambda t, _: tuple(np.array(part) for part in firsts(t)),
            lambda t, v, _: np.einsum("nij,nj->ni", np.array(seconds(t)), v),
            renew,
            np.array([-1.2, 1.0]),
            tolerance=1e-9,
            most_steps=45,
        )
    assert end.done[0]
    assert end.products[0] > 10  # of all rounds
    np.testing.assert_allclose(end.thetas[0], 1.0, atol=1e-7)


def test_certified_residuals_are_those_of_the_solution(systems):
    matrices, rhs = systems
    found = solve(matrices, rhs, tolerance=1e-3)
    left = rhs - np.einsum("nij,nj->ni", matrices, found.x)
    expected = np.linalg.norm(left, axis=1) / np.linalg.norm(rhs, axis=1)
    np.testing.assert_allclose(found.residuals, expected, rtol=1e-10)
    assert (found.residuals <= 1e-3 * (1 + 1e-6)).all()


def test_each_row_has_its_own_tolerance():
    """One system four times, so large that no row needs as many products as it has unknowns."""
    matrices = np.tile(definite(60, condition=10.0), (4, 1, 1))
    rhs = np.tile(np.random.default_rng(9).normal(size=60), (4, 1))
    tolerance = np.array([1e-1, 1e-4, 1e-8, 2.0])
    found = solve(matrices, rhs, tolerance=tolerance)
    assert found.iterations[3] == 0  # already there
    assert 0 < found.iterations[0] < found.iterations[1] < found.iterations[2] < 50
    assert (found.residuals <= tolerance * (1 + 1e-6)).all()
    assert (found.residuals[:2] > tolerance[1:3]).all()  # none goes on to the next one's


def test_a_good_preconditioner_takes_one_product(systems):
    matrices, rhs = systems
    inverses = np.linalg.inv(matrices)
    found = solve(matrices, rhs, lambda v, rows: np.einsum("nij,nj->ni", inverses[rows], v))
    assert (found.iterations <= 2).all()
    np.testing.assert_allclose(found.lowest, 1.0, rtol=1e-6)


def test_a_preconditioner_changes_the_way_and_not_the_solution(systems):
    matrices, rhs = systems
    diagonal = np.einsum("nii->ni", matrices)
    found = solve(matrices, rhs, lambda v, rows: v / diagonal[rows])
    np.testing.assert_allclose(np.einsum("nij,nj->ni", matrices, found.x), rhs, atol=1e-9)


def test_the_smallest_curvature_met_is_the_smallest_eigenvalue(systems):
    matrices, rhs = systems
    found = solve(matrices, rhs)
    np.testing.assert_allclose(found.lowest, np.linalg.eigvalsh(matrices)[:, 0], rtol=1e-6)


def test_an_indefinite_matrix_is_told_and_others_go_on(systems):
    matrices, rhs = systems
    bent = matrices.copy()
    values, vectors = np.linalg.eigh(bent[1])
    values[0] = -5.0
    bent[1] = (vectors * values) @ vectors.T
    found = solve(bent, rhs)
    assert found.lowest[1] <= 0
    assert (found.lowest[[0, 2, 3]] > 0).all()
    assert np.isfinite(found.x).all()
    assert (found.residuals[[0, 2, 3]] < 1e-10).all()


def test_a_first_direction_that_goes_downhill_is_returned():
    rhs = np.array([[1.0, 2.0]])
    found = solve(-np.eye(2)[None], rhs)
    assert found.lowest[0] <= 0
    np.testing.assert_array_equal(found.x, rhs)


def test_a_right_hand_side_of_zero_has_the_solution_zero(systems):
    matrices, rhs = systems
    rhs = rhs * np.array([1.0, 0.0, 1.0, 1.0])[:, None]
    found = solve(matrices, rhs)
    assert (found.x[1] == 0).all()
    assert (found.iterations[1], found.residuals[1]) == (0, 0.0)
    assert np.isnan(found.lowest[1])
    assert (found.residuals[[0, 2, 3]] < 1e-10).all()


def test_too_few_products_leave_a_residual_that_says_so(systems):
    matrices, rhs = systems
    found = solve(matrices, rhs, most=2)
    assert (found.iterations == 2).all()
    assert (found.residuals > 1e-3).all()


@pytest.fixture
def in_place(monkeypatch):
    monkeypatch.setattr(hessian, "LARGE", 5)


NAMES = [f"a[{n}]" for n in range(12)]


@pytest.mark.usefixtures("in_place")
def test_a_matrix_factored_in_place_still_solves_and_multiplies():
    matrix = definite(12)
    found, rhs = DenseHessian(matrix.copy(), NAMES), np.random.default_rng(0).normal(size=(12, 3))
    np.testing.assert_allclose(found.product(rhs), matrix @ rhs, rtol=1e-12)
    np.testing.assert_allclose(found.solve(rhs), np.linalg.solve(matrix, rhs), rtol=1e-9)
    np.testing.assert_allclose(found.solve(rhs[:, 0]), np.linalg.solve(matrix, rhs[:, 0]), rtol=1e-9)
    np.testing.assert_allclose(found.product(rhs), matrix @ rhs, rtol=1e-12)
    np.testing.assert_allclose(found.product(rhs[:, 0]), matrix @ rhs[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(found.matrix(), matrix)
    np.testing.assert_array_equal(found.precondition(rhs), found.solve(rhs))


@pytest.mark.usefixtures("in_place")
def test_a_matrix_in_fortran_order_is_factored_too():
    matrix = definite(12)
    found = DenseHessian(np.asfortranarray(matrix), NAMES)
    np.testing.assert_allclose(found.solve(matrix[:, 0]), np.eye(12)[0], atol=1e-12)
    np.testing.assert_allclose(found.matrix(), matrix, rtol=1e-12)


@pytest.mark.usefixtures("in_place")
def test_the_smallest_eigenvalue_has_two_digits():
    matrix = definite(12)
    assert DenseHessian(matrix.copy(), NAMES).lowest == pytest.approx(
        np.linalg.eigvalsh(matrix)[0], rel=0.02
    )


@pytest.mark.usefixtures("in_place")
def test_damping_is_solved_with_and_not_shown():
    matrix = definite(12)
    plain = DenseHessian(matrix.copy(), NAMES)
    plain.solve(np.ones(12))  # damping after factoring needs the matrix back
    damped = plain.with_damping(2.0)
    expected = np.linalg.solve(matrix + 2.0 * np.eye(12), np.ones(12))
    np.testing.assert_allclose(damped.solve(np.ones(12)), expected, rtol=1e-9)
    np.testing.assert_allclose(damped.matrix(), matrix, rtol=1e-12)
    np.testing.assert_allclose(damped.product(np.ones(12)), matrix @ np.ones(12), rtol=1e-12)
    expected = np.linalg.solve(matrix, np.ones(12))
    np.testing.assert_allclose(plain.solve(np.ones(12)), expected, rtol=1e-9)
    assert plain.with_damping(0.0) is plain


@pytest.mark.usefixtures("in_place")
@pytest.mark.parametrize("place", [0, 7])
def test_an_indefinite_matrix_names_the_parameter_and_is_left_whole(place):
    matrix = definite(12)
    matrix[place, place] = -1.0
    found = DenseHessian(matrix.copy(), NAMES)
    for _ in range(2):
        with pytest.raises(IndefiniteError, match=rf"not positive definite.*'a\[{place}\]'"):
            found.solve(np.ones(12))
        np.testing.assert_array_equal(found.matrix(), matrix)
        np.testing.assert_allclose(found.product(np.ones(12)), matrix @ np.ones(12), rtol=1e-12)


@pytest.mark.usefixtures("in_place")
def test_damping_makes_an_indefinite_matrix_definite():
    matrix = definite(12)
    matrix[3, 3] = -1.0
    found = DenseHessian(matrix.copy(), NAMES)
    with pytest.raises(IndefiniteError, match="pass damping="):
        found.solve(np.ones(12))
    expected = np.linalg.solve(matrix + 100.0 * np.eye(12), np.ones(12))
    np.testing.assert_allclose(found.with_damping(100.0).solve(np.ones(12)), expected, rtol=1e-9)


@pytest.mark.parametrize("large", [5, 2000])
def test_a_matrix_that_is_not_finite_names_the_parameter(monkeypatch, large):
    monkeypatch.setattr(hessian, "LARGE", large)
    matrix = definite(12)
    matrix[4, 4] = np.nan
    with pytest.raises(IndefiniteError, match=r"H is not finite at 'a\[4\]'"):
        DenseHessian(matrix, NAMES).solve(np.ones(12))


class Quadratic:
    """An objective that is all curvature, as far as `Free` asks."""

    base = np.ones(1)

    def __init__(self, matrix):
        self.matrix = matrix

    def products_at(self, theta, directions, weights=None):
        return directions @ self.matrix

    def preconditioner(self, theta):
        return np.array


def test_h_by_products_solves_columns_and_says_how_well():
    matrix = definite(12)
    found, rhs = (
        ImplicitHessian(Quadratic(matrix), np.zeros(12)),
        np.random.default_rng(0).normal(size=(12, 3)),
    )
    np.testing.assert_allclose(found.solve(rhs), np.linalg.solve(matrix, rhs), atol=1e-9)
    assert found.residual <= 1e-9
    assert 0 < found.iterations <= 24
    np.testing.assert_allclose(found.product(rhs), matrix @ rhs, rtol=1e-12)
    assert found.solve(rhs[:, 0]).shape == (12,)
    damped = found.with_damping(3.0)
    np.testing.assert_allclose(
        damped.solve(rhs), np.linalg.solve(matrix + 3 * np.eye(12), rhs), atol=1e-9
    )


def test_h_by_products_refuses_what_is_indefinite_or_unsolved(monkeypatch):
    matrix = definite(12)
    with pytest.raises(IndefiniteError, match="without positive curvature"):
        ImplicitHessian(Quadratic(matrix - 2.0 * np.eye(12)), np.zeros(12)).solve(np.ones(12))
    monkeypatch.setattr(hessian, "_MOST_PRODUCTS", 2)
    with pytest.raises(UnsolvedError, match="but 1e-09 is required"):
        ImplicitHessian(Quadratic(matrix), np.zeros(12)).solve(np.ones(12))


def bowls(folds=3, size=8):
    """Convex quadratics with known minima, one for each fold."""
    matrices = np.array([definite(size, seed, 1e3) for seed in range(folds)])
    ends = np.random.default_rng(1).normal(size=(folds, size))

    def evaluate(thetas, rows):
        gap = thetas - ends[rows]
        slopes = np.einsum("nij,nj->ni", matrices[rows], gap)
        return 0.5 * np.einsum("ni,ni->n", gap, slopes), slopes

    def products(thetas, v, rows):
        return np.einsum("nij,nj->ni", matrices[rows], v)

    return evaluate, products, ends


def valley(thetas):
    """Rosenbrock's function of pairs of coordinates, plus a bowl."""
    x, y = thetas[:, ::2], thetas[:, 1::2]
    bend = y - x**2
    values = (10.0 * bend**2 + (1.0 - x) ** 2).sum(1)
    slopes = np.empty_like(thetas)
    slopes[:, ::2] = -40.0 * bend * x - 2.0 * (1.0 - x)
    slopes[:, 1::2] = 20.0 * bend
    return values, slopes


def valley_products(thetas, v, rows):
    x, y = thetas[:, ::2], thetas[:, 1::2]
    out = np.empty_like(v)
    out[:, ::2] = (120.0 * x**2 - 40.0 * y + 2.0) * v[:, ::2] - 40.0 * x * v[:, 1::2]
    out[:, 1::2] = -40.0 * x * v[:, ::2] + 20.0 * v[:, 1::2]
    return out


STARTS = np.array([[-1.2, 1.0, 0.5, 2.0], [0.0, 0.0, -0.5, -0.5], [1.0, 1.0, 1.0, 1.1]])


def test_newton_by_products_ends_at_the_minima_of_quadratics():
    evaluate, products, ends = bowls()
    found = newton_cg(evaluate, products, same, np.zeros((3, 8)), tolerance=1e-8)
    np.testing.assert_allclose(found.thetas, ends, atol=1e-8)
    assert found.done.all()
    assert (found.lowest > 0).all()
    assert (found.products > 0).all()


def test_newton_by_products_follows_a_curved_valley():
    found = newton_cg(lambda t, _: valley(t), valley_products, same, STARTS, tolerance=1e-8)
    np.testing.assert_allclose(found.thetas, 1.0, atol=1e-7)
    assert found.done.all()
    statuses = [
        told(*row).outcome
        for row in zip(found.gradients, found.distances, found.lowest, found.done, strict=True)
    ]
    assert statuses == [Outcome.STATIONARY] * 3


def test_a_fold_that_starts_at_its_minimum_is_stationary():
    start = np.ones((1, 4))  # where the gradient is exactly zero
    found = newton_cg(lambda t, _: valley(t), valley_products, same, start, tolerance=1e-8)
    np.testing.assert_array_equal(found.thetas, start)
    status = told(found.gradients[0], found.distances[0], found.lowest[0], bool(found.done[0]))
    assert status.outcome is Outcome.STATIONARY, str(status)


def test_newton_by_products_does_not_call_a_saddle_a_minimum():
    bend = np.diag([1.0, -1.0])

    def evaluate(thetas, rows):
        return 0.5 * np.einsum("ni,ij,nj->n", thetas, bend, thetas), thetas @ bend

    found = newton_cg(evaluate, lambda t, v, rows: v @ bend, same, np.array([[1.0, 1.0]]),
                      tolerance=1e-8, most_steps=5)  # fmt: skip
    assert not found.done[0]
    status = told(found.gradients[0], found.distances[0], found.lowest[0], bool(found.done[0]))
    assert status.outcome is Outcome.NOT_A_MINIMUM


def test_a_spent_budget_leaves_folds_where_they_are():
    evaluate, products, _ = bowls()
    start = np.zeros((3, 8))
    found = newton_cg(evaluate, products, same, start, tolerance=1e-8, spent=lambda: True)
    np.testing.assert_array_equal(found.thetas, start)
    assert not found.done.any()
    place = batched_lbfgs(evaluate, same, start, tolerance=1e-8, most=50, spent=lambda: True)
    np.testing.assert_array_equal(place.thetas, start)


def test_secants_end_at_the_minima_of_quadratics():
    evaluate, _, ends = bowls()
    found = batched_lbfgs(evaluate, same, np.zeros((3, 8)), tolerance=1e-6, most=300)
    np.testing.assert_allclose(found.thetas, ends, atol=1e-5)
    assert (found.values < 1e-10).all()
    np.testing.assert_array_equal(found.gradients, evaluate(found.thetas, np.arange(3))[1])


def test_the_rest_of_a_descent_is_foretold():
    evaluate, *_ = bowls()
    found = batched_lbfgs(evaluate, same, np.zeros((3, 8)), tolerance=0.3, most=300)
    assert (found.values > 1e-4).any()  # above the minima, which are zero
    np.testing.assert_allclose(found.values, found.gains, atol=0.3 * found.values.max())


def test_secants_follow_a_curved_valley():
    found = batched_lbfgs(lambda t, _: valley(t), same, STARTS, tolerance=1e-7, most=300)
    np.testing.assert_allclose(found.thetas, 1.0, atol=1e-5)


def test_folds_that_are_not_finite_stay_and_others_go_on():
    evaluate, products, ends = bowls()

    def broken(thetas, rows):
        values, slopes = evaluate(thetas, rows)
        return np.where(rows == 1, np.nan, values), slopes

    for end in (
        newton_cg(broken, products, same, np.zeros((3, 8)), tolerance=1e-8).thetas,
        batched_lbfgs(broken, same, np.zeros((3, 8)), tolerance=1e-7, most=300).thetas,
    ):
        np.testing.assert_allclose(end[[0, 2]], ends[[0, 2]], atol=1e-5)
        assert (end[1] == 0).all()


@cache
def without_matrix():
    """The same fit, as if there were too little memory for H."""
    fit = wide()
    with mock.patch.object(finish, "is_formed", return_value=False):
        return fo.fit(fit.model, fit.data, init=fit.params, kernel="scan")


def test_a_fit_of_many_parameters_is_certified():
    fit = wide()
    assert len(fit.theta) > 100
    assert fit.ok, str(fit.status)
    assert fit.hessian_operator.dense
    assert fit.distance < 1e-6


def test_a_fit_without_the_memory_for_h_is_the_same():
    fit, free = wide(), without_matrix()
    assert not free.hessian_operator.dense
    assert free.ok, str(free.status)
    assert "smallest curvature found" in str(free.status)
    np.testing.assert_allclose(free.theta, fit.theta, atol=1e-6)
    assert np.isnan(free.to_dataframe()["se"]).all()


def test_solutions_by_products_are_those_of_the_factor():
    fit = wide()
    rhs = np.random.default_rng(0).normal(size=(len(fit.theta), 3))
    found, expected = (
        ImplicitHessian(fit.objective, fit.theta).solve(rhs),
        fit.hessian_operator.solve(rhs),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("method", ["ij", pytest.param("exact", marks=pytest.mark.slow)])
def test_folds_without_the_memory_for_h_are_the_same(method):
    fit, free = wide(), without_matrix()
    free = dataclasses.replace(free, theta=fit.theta, gradient=fit.gradient)
    folds = fo.folds.structures(fit.data, n=3)
    found, expected = (
        fo.cross_validate(f, folds, method=method, check=False) for f in (free, fit)
    )  # fmt: skip
    np.testing.assert_allclose(found.theta, expected.theta, atol=1e-5)
    np.testing.assert_allclose(found.folds["loss"], expected.folds["loss"], rtol=1e-6)
    assert found.folds["ok"].all()


@pytest.mark.parametrize("method", ["exact", "newton"])
def test_products_and_matrices_take_folds_to_the_same_place(monkeypatch, method):
    fit = fitted()
    folds = fo.folds.structures(fit.data)
    curve = fo.curvature(fit, "structures")
    found = {}
    for limit in (0, 10**9):
        monkeypatch.setattr(footprint, "PRODUCTS_PAY", limit)
        found[limit] = fo.cross_validate(fit, folds, method=method)
        assert found[limit].folds["ok"].all()
    np.testing.assert_allclose(found[0].theta, found[10**9].theta, atol=1e-6)
    np.testing.assert_allclose(found[0].folds["loss"], found[10**9].folds["loss"], rtol=1e-6)
    if method == "exact":
        for cv in found.values():
            assert (cv.folds["status"] == "stationary").all()
            gradients = curve.objective.gradients(cv.theta, folds.weights)
            assert np.abs(gradients).max() < 1e-5


def test_large_newton_is_used_where_products_pay(monkeypatch):
    called = []
    monkeypatch.setattr(footprint, "PRODUCTS_PAY", 0)
    monkeypatch.setattr(
        methods, "large_newton", lambda *given: called.append(given) or methods.none(*given)
    )
    fit = fitted()
    fo.cross_validate(fit, fo.folds.structures(fit.data), method="newton", check=False)
    assert called
