from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import expit

from fitonce.core.constraints import Covariance, Free, Frozen, Ordered, Positive, Proportion, Simplex
from fitonce.core.parameters import ParameterSpace, freeze, leaf_name
from fuzzing.engine_strategies import constraints
from fuzzing.strategies import seeds


@settings(max_examples=60, deadline=None, derandomize=True)
@given(constraints())
def test_value_to_free_and_back(case):
    constraint, value = case
    space = ParameterSpace({"a": constraint})
    theta = space.to_free({"a": value})
    assert theta.shape == (space.size,) == (len(space.names),)
    with jax.enable_x64(True):
        back = np.asarray(space.to_params(jnp.asarray(theta))["a"])
    assert back.shape == constraint.shape
    np.testing.assert_allclose(back, value, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(back == 0, value == 0)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(constraints(), seeds)
def test_free_to_value_and_back_with_a_finite_jacobian_of_full_rank(case, seed):
    space = ParameterSpace(case[0])
    theta = np.random.default_rng(seed).normal(size=space.size)
    with jax.enable_x64(True):
        value = np.asarray(space.to_params(jnp.asarray(theta)))
        jacobian = np.asarray(jax.jacfwd(space.to_params)(jnp.asarray(theta)))
    np.testing.assert_allclose(space.to_free(value), theta, rtol=1e-9, atol=1e-10)
    assert np.isfinite(jacobian).all()
    assert space.size == 0 or np.linalg.matrix_rank(jacobian.reshape(-1, space.size)) == space.size


@pytest.mark.parametrize(
    ("constraint", "value", "free"),
    [
        (Free((2,)), [1, -2], [1, -2]),
        (Positive(), np.exp(3.0), [3]),
        (Proportion(), 0.8, [np.log(4.0)]),
        (Simplex((3,)), np.array([2, 3, 1]) / 6, np.log([2, 3])),
        (Simplex((3,), (True, True, False)), [0.75, 0.25, 0], [np.log(3)]),
        (Ordered((3,)), [-1, 0, 2], [-1, 0, np.log(2)]),
        (Covariance((2, 2)), [[4, 2], [2, 10]], [np.log(2), 1, np.log(3)]),
        (Frozen.at([1.0, 2.0]), [1, 2], []),
    ],
)
def test_free_coordinates_are_what_the_docstrings_say(constraint, value, free):
    np.testing.assert_allclose(ParameterSpace(constraint).to_free(value), free, rtol=1e-14, atol=1e-15)


def test_shares_of_extreme_odds_have_logarithms():
    odds = np.array([-1e300, -1000.0, -40.0, 0.3, 36.0, 1000.0])
    share = Proportion((6,)).values(odds[:, None])[:, 0]
    assert np.isfinite(np.log(share)).all()
    assert np.isfinite(np.log1p(-share)).all()
    np.testing.assert_allclose(share[2:5], expit(odds[2:5]), rtol=1e-15)
    step = Proportion((6,)).values(odds[:, None] + 1e-30j)[:, 0]
    np.testing.assert_allclose(step.imag[2:5] / 1e-30, (share * expit(-odds))[2:5], rtol=1e-12)


NESTED = {
    "transition": Simplex((3, 3), ((1, 1, 0), (1, 1, 1), (0, 0, 1))),
    "layers": [{"scale": Positive()}, {"scale": Frozen.at(2.0)}],
    "covariance": Covariance((1, 2, 2)),
}
VALUES = {
    "transition": [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.0, 0.0, 1.0]],
    "layers": [{"scale": 3.0}, {"scale": 2.0}],
    "covariance": np.array([[[2.0, 1.0], [1.0, 2.0]]]),
}


def test_names_follow_the_pytree_and_skip_frozen_unsupported_and_reference_entries():
    assert ParameterSpace(NESTED).names == [
        *("covariance[0,0,0]", "covariance[0,1,0]", "covariance[0,1,1]"),
        "layers.0.scale",
        *("transition[0,0]", "transition[1,0]", "transition[1,1]"),
    ]
    assert ParameterSpace(Free()).names == ["theta"]
    assert leaf_name(()) == "theta"


def test_nested_values_lists_among_them_come_back_in_the_same_pytree():
    space = ParameterSpace(NESTED)
    with jax.enable_x64(True):
        back = jax.tree.map(np.asarray, space.to_params(jnp.asarray(space.to_free(VALUES))))
    assert back["layers"][1]["scale"] == 2.0
    for name in ("transition", "covariance"):
        np.testing.assert_allclose(back[name], VALUES[name], rtol=1e-15, atol=0)
    assert jax.tree.structure(back) == jax.tree.structure(NESTED)


def test_freeze_takes_a_leaf_out_of_the_vector_and_holds_its_value():
    space = ParameterSpace(freeze({"a": Free((2,)), "b": Positive()}, {"a": [5, 6]}))
    assert space.names == ["b"]
    assert space.to_params(jnp.zeros(1))["a"].tolist() == [5.0, 6.0]


def test_a_frozen_probability_may_be_zero():
    assert freeze({"a": Simplex((2,))}, {"a": [1, 0]}) == {"a": Frozen((1.0, 0.0))}


def test_spaces_are_equal_and_hash_alike_when_their_constraints_agree():
    def space(**changes):
        support = np.array([[True, True], [False, True]])
        return ParameterSpace({"a": Simplex((2, 2), support), "b": Frozen.at([1.0])} | changes)

    assert space() == space()
    assert hash(space()) == hash(space())
    others = [space(b=Frozen.at([2.0])), space(a=Simplex((2, 2))), space(c=Free()), "space"]
    assert all(space() != other for other in others)


def test_an_empty_space_has_no_coordinates():
    assert ParameterSpace({}).to_free({}).shape == (0,)


SINGULAR = [[1.0, 2.0], [2.0, 4.0]]
SUPPORT = Simplex((2,), (True, False))
PROBABILITIES = "parameter 'theta' must be positive probabilities that sum to one along the last axis"


@pytest.mark.parametrize(
    ("constraint", "value", "sentence"),
    [
        (Free((2,)), [1.0], "parameter 'theta' must have shape (2,), got (1,)"),
        (Free((2,)), [1.0, np.nan], "parameter 'theta' must be finite, got [1.0, nan]"),
        (Free(), "x", "parameter 'theta' must be numeric, got 'x'"),
        (Positive(), 0.0, "parameter 'theta' must be positive numbers, got 0.0"),
        (Proportion(), 1.0, "parameter 'theta' must be numbers between 0 and 1, got 1.0"),
        (Simplex((2,)), [0.5, 0.6], f"{PROBABILITIES}, got [0.5, 0.6]"),
        (Simplex((2,)), [0.0, 1.0], f"{PROBABILITIES}, got [0.0, 1.0]"),
        (SUPPORT, [0.5, 0.5], f"{PROBABILITIES}, zero outside its support, got [0.5, 0.5]"),
        (Ordered((2,)), [1.0, 1.0], "parameter 'theta' must be increasing numbers, got [1.0, 1.0]"),
        (Covariance((2, 2)), SINGULAR, "must be symmetric positive definite matrices, got [[1.0, 2.0]"),
        (Covariance((2, 2)), [[2.0, 1.0], [0.0, 2.0]], "must be symmetric positive definite matrices"),
        (Frozen.at([1.0]), [2.0], "parameter 'theta' must be the frozen value [1.0], got [2.0]"),
        ({"a": Free(), "b": Free()}, {"b": 1.0, "c": 2.0}, "must be a pytree of a, b; got b, c"),
        ({"a": Free()}, {}, "init or params must be a pytree of a; got none"),
    ],
)
def test_values_that_break_their_constraint_are_refused_in_words(constraint, value, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        ParameterSpace(constraint).to_free(value)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Simplex(()), "a simplex needs entries along a last axis, got shape ()"),
        (lambda: Simplex((2,), (True,)), "support must have shape (2,) and a true entry in each"),
        (lambda: Simplex((1, 1), ((0,),)), "a true entry in each row, got [[False]]"),
        (lambda: Ordered(()), "ordered numbers need a last axis, got shape ()"),
        (
            lambda: Covariance((2, 3)),
            "covariances must be square in the last two axes, got shape (2, 3)",
        ),
        (lambda: ParameterSpace({"a": 3}), "parameter 'a' must be a constraint, got int"),
        (lambda: ParameterSpace(Free()).to_params(jnp.ones(2)), "theta must have shape (1,), got (2,)"),
        (
            lambda: freeze({"a": Free()}, {"b": 1}),
            "frozen names ['b'] but the model's parameters are ['a']",
        ),
        (
            lambda: freeze({"a": Positive()}, {"a": -1}),
            "parameter 'a' must be positive numbers, got -1.0",
        ),
        (lambda: freeze({"a": Free()}, {"a": "x"}), "parameter 'a' must be numeric, got 'x'"),
        (lambda: freeze({"a": SUPPORT}, {"a": [0, 1]}), "parameter 'a' must be positive probabilities"),
        (lambda: freeze({"a": Simplex((2,))}, {"a": [0, 0]}), "parameter 'a' must be positive prob"),
    ],
)
def test_faults_of_construction_are_refused_in_words(make, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()
