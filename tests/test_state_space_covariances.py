"""Matrices of a user's own state-space model that are no covariances, or no matrices, anywhere."""

from __future__ import annotations

import numpy as np
import pytest

import fitonce as fo
from fitonce.models.space.covariances import are_covariances, fault_of
from fitonce.objectives.families import objective_of

Y = 5.0 * np.cumsum(np.random.default_rng(1).normal(size=40))
KINDS = {"noise": "variance"}


def _model(state_cov, start=0.5):
    """Two states with this covariance of "c"."""

    def build(p):
        given = {"design": np.ones((1, 2)), "obs_cov": p["noise"] * np.eye(1)}
        return given | {"transition": np.diag([1.0, 0.5]), "state_cov": state_cov(p["c"])}

    return fo.models.StateSpace(build, {"noise": 1.0, "c": start}, KINDS)


CORRELATED = _model(lambda c: np.array([[1 + 0 * c, c], [c, 1 + 0 * c]]))
ASYMMETRIC = _model(lambda c: np.array([[1 + 0 * c, c], [-c, 1 + 0 * c]]), 0.0)
HIDDEN = _model(lambda c: np.diag([1e10 + 0 * c, c]))


@pytest.mark.parametrize(
    ("model", "c", "got"),
    [
        (CORRELATED, 1.5, "eigenvalue -0.5"),
        (ASYMMETRIC, 0.3, "an asymmetric one"),
        (HIDDEN, -1.0, "eigenvalue -1"),
    ],
)
@pytest.mark.parametrize("kernel", ["native", "scan"])
def test_there_is_no_likelihood_where_a_matrix_is_no_covariance(model, c, got, kernel):
    objective = objective_of(model, Y, kernel)
    theta = objective.space.to_free({"noise": np.array(1.0), "c": np.array(c)})
    values, _ = objective.values_and_gradients(theta[None], objective.base[None])
    assert values[0] == np.inf  # line searches step back from it
    words = f"'state_cov' must be symmetric without negative eigenvalues at these parameters, got {got}"
    assert words in objective.fault(theta, objective.base)
    for refused in (
        lambda: fo.fit_at(model, Y, {"noise": 1.0, "c": c}),
        lambda: fo.fit(model, Y, init={"noise": 1.0, "c": c}),
    ):
        with pytest.raises(ValueError, match=words):
            refused()


def test_no_fit_is_certified_beyond_covariances():
    """The likelihood rises up to a correlation of 1, and rose beyond it."""
    fit = fo.fit(CORRELATED, Y, restarts=4)
    assert not fit.ok
    assert fit.params["c"] == pytest.approx(1.0, abs=1e-6)
    assert "where a covariance of your own does" in fit.status.message


def test_random_starts_have_covariances():
    model = _model(lambda c: np.array([[1 + 0 * c, c], [c, 1 + 0 * c]]), 0.95)
    objective, rng = objective_of(model, Y), np.random.default_rng(0)
    starts = np.stack([objective.start(rng) for _ in range(20)])
    values, _ = objective.values_and_gradients(starts, np.tile(objective.base, (20, 1)))
    assert np.isfinite(values).all()
    assert len(np.unique(starts[:, 0])) == 20


def _rotated(*eigenvalues):
    basis, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(len(eigenvalues),) * 2))
    return (basis * eigenvalues) @ basis.T


@pytest.mark.parametrize(
    ("matrix", "fine"),
    [
        (np.zeros((2, 2)), True),
        (np.diag([1e10, 0.0, 1e-10]), True),
        (np.outer([1e5, 1.0, 0.0], [1e5, 1.0, 0.0]), True),
        (np.outer([1e8, 1.0], [1e8, 1.0]), True),
        (np.diag([1.0, -1e-16]), True),  # rounding
        (_rotated(1.0, 2.0, 0.0), True),
        (1e-30 * _rotated(1.0, 2.0, 0.0), True),
        (np.diag([1e10, -1.0]), False),
        (np.array([[1e16, 2e8], [2e8, 1.0]]), False),
        (np.array([[1.0, 1e-3], [1e-3, 0.0]]), False),
        (np.array([[0.0, 1e-9], [1e-9, 0.0]]), False),
        (np.diag([1e-20, -1e-20]), False),
        (_rotated(1.0, 2.0, -1e-3), False),
        (np.array([[1e10, 1.0], [-1.0, 1.0]]), False),
        (np.array([[np.nan]]), False),
        (np.diag([1.0, np.inf]), False),
    ],
)
def test_covariances_are_told_from_others_whatever_their_scale(matrix, fine):
    assert are_covariances(matrix) == fine
    assert (fault_of(matrix[None]) == "") == fine


def test_each_step_is_checked_alone():
    many = np.stack([np.eye(2) * 1e9, np.array([[1.0, 2.0], [2.0, 1.0]]), np.eye(2)])
    np.testing.assert_array_equal(are_covariances(many), [True, False, True])
    assert fault_of(many) == "eigenvalue -1 at step 1"


def _plain(**given):
    """A random walk with noise and these matrices."""

    def build(p):
        usual = {"design": np.eye(1), "transition": np.eye(1), "state_cov": np.eye(1)}
        return usual | {"obs_cov": p["noise"] * np.eye(1)} | given

    return fo.models.StateSpace(build, {"noise": 1.0}, KINDS)


@pytest.mark.parametrize("name", ["design", "transition", "state_cov", "obs_cov"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_named(name, bad):
    with pytest.raises(ValueError, match=f"'{name}' must be finite at init, got {bad}"):
        fo.fit(_plain(**{name: np.full((1, 1), bad)}), Y)


def test_a_stationary_start_of_no_finite_transition_is_refused_in_words():
    model = _plain(transition=np.full((1, 1), np.nan), initial_state_cov="stationary")
    with pytest.raises(ValueError, match="'transition' must be finite at init, got nan"):
        fo.fit(model, Y)


def test_something_must_be_random():
    model = _plain(state_cov=np.zeros((1, 1)), obs_cov=np.zeros((1, 1)))
    with pytest.raises(ValueError, match="must have a variance above zero at init, got zeros only"):
        fo.fit(model, Y)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"state_cov": np.ones((1, 2))}, r"'state_cov' must have the shape \(1, 1\) .*, got \(1, 2\)"),
        ({"selection": np.ones((1, 2))}, r"'state_cov' must have the shape \(2, 2\) .*, got \(1, 1\)"),
        ({"selection": np.ones((3, 1))}, r"'selection' must have the shape \(1, 1\) .*, got \(3, 1\)"),
        ({"initial_state_cov": np.eye(2)}, r"'initial_state_cov' must have the shape \(1, 1\)"),
        ({"diffuse": np.ones(2, bool)}, r"'diffuse' must have the shape \(1,\)"),
    ],
)
def test_shapes_are_checked_first(given, words):
    with pytest.raises(ValueError, match=words):
        fo.fit(_plain(**given), Y)


def test_matrices_may_be_of_bools():
    whole, ones = (fo.fit(_plain(design=np.array([[one]])), Y, restarts=1) for one in (True, 1.0))
    assert whole.log_likelihood == ones.log_likelihood
