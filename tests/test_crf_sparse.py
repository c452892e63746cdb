"""CRFs with sparse features: against the same features in arrays, enumeration-tested elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import fitonce as fo
from crfsuite_cases import data, sentences
from fitonce.objectives.families import objective_of
from fitonce.objectives.labels import layout, second_derivatives, sparse_preconditioner

CRF = fo.models.LinearChainCRF


@pytest.fixture
def large(monkeypatch):
    """As if there were 10^5 attributes: no matrices, and no slopes of single terms."""
    monkeypatch.setattr(second_derivatives, "FORMED", 0)
    monkeypatch.setattr(second_derivatives, "_MATRIX", 0)
    monkeypatch.setattr("fitonce.objectives.labels.objective.FORMED", 0)
    monkeypatch.setattr(layout, "WIDE", 0)


def dense(read):
    """The same in arrays."""
    ends = np.cumsum(read.lengths)[:-1]
    tags = np.split(np.array(read.tags)[read.labels], ends)
    return fo.labelled(np.split(read.features.toarray(), ends), tags, tags=read.tags)


def test_attributes_are_read_as_crfsuite_reads_them():
    row = {"word": "oslo", "title": True, "digit": False, "length": 4, "ends": ["o", "lo"]}
    row["next"] = {"word": "is", "all": {"low": 1.5}}
    read = fo.labelled([[row, ["plain", "plain"]], [{"word": "is"}]], [["a", "b"], ["a"]])
    assert read.attributes == (
        "word:oslo", "title", "digit", "length", "ends:o", "ends:lo", "next:word:is",
        "next:all:low", "plain", "word:is",
    )  # fmt: skip
    expected = [[1, 1, 0, 4, 1, 1, 1, 1.5, 0, 0], [0] * 8 + [2, 0], [0] * 9 + [1]]
    assert_allclose(read.features.toarray(), expected)
    assert read.features.nnz == 10  # a false one occurs
    again = fo.labelled([[{"word": "is", "new": 1.0}]], [["a"]], attributes=read.attributes)
    assert_allclose(again.features.toarray(), [[0] * 9 + [1]])
    sets = fo.labelled([[{"b", "a"}, frozenset("c")]], [["a", "b"]])
    assert sets.attributes == ("a", "b", "c")


def test_sparse_matrices_are_the_same_as_arrays():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(length, 5)) * (rng.random((length, 5)) < 0.4) for length in (3, 1, 4)]
    labels = [["a", "b", "a"], ["b"], ["a", "a", "b", "b"]]
    model = CRF(scale=1.0, all_possible_states=True)
    ours, same = (
        fo.fit(model, fo.labelled(features, labels))
        for features in ([sparse.coo_matrix(part) for part in parts], parts)
    )
    assert ours.data.is_sparse
    assert_allclose(ours.theta, same.theta, atol=1e-8)
    assert_allclose(fo.marginals(ours, parts)[0], fo.marginals(same, parts)[0], atol=1e-8)


@pytest.mark.parametrize("how", [{}, {"all_possible_states": False, "biases": False}])
def test_values_gradients_products_and_folds_are_those_of_arrays(how, large):
    read = fo.labelled(*data())
    found, expected = (objective_of(CRF(scale=1.5, **how), each) for each in (read, dense(read)))
    if not how:  # those that do not occur are parameters of arrays
        found = objective_of(CRF(scale=1.5, all_possible_states=True), read)
    assert found.traits.formed is False
    rng = np.random.default_rng(1)
    thetas, directions = rng.normal(size=(2, 3, found.space.size))
    for scheme, units in (("structures", read.n_sequences), ("C", read.n_sites)):
        along = fo.schemes.resolve_scheme(scheme, None, None)
        one, other = found.with_scheme(along), expected.with_scheme(along)
        weights = (rng.random((3, units)) < 0.7).astype(float)
        for mine, theirs in zip(
            one.values_and_gradients(thetas, weights), other.values_and_gradients(thetas, weights),
            strict=True,
        ):  # fmt: skip
            assert_allclose(mine, theirs, rtol=1e-11, atol=1e-10)
        assert_allclose(
            one.products(thetas, directions, weights),
            other.products(thetas, directions, weights), rtol=1e-9, atol=1e-9,
        )  # fmt: skip
        changes_of = weights - one.base
        assert_allclose(
            one.slopes_along(thetas[0], changes_of), changes_of @ other.cross(thetas[0]).T, atol=1e-9
        )
        scored = np.stack([np.flatnonzero(row == 0)[:4] for row in weights])
        assert_allclose(
            one.pointwise_losses(thetas, weights, scored),
            other.pointwise_losses(thetas, weights, scored), rtol=1e-10, atol=1e-10,
        )  # fmt: skip
        some = np.arange(5)
        if scheme == "C":
            values, slopes = next(iter(one.leave_one_out_in_pieces(thetas[0], some)))[1:]
            every = other.leave_one_out(thetas[0])
            assert_allclose(values, every[0][some], atol=1e-11)
            assert_allclose(slopes, every[1][:, some].T, atol=1e-11)


def test_h_of_many_places_comes_from_products(large):
    read = fo.labelled(*data())
    model = CRF(scale=1.5)
    found = objective_of(model, read)
    theta = np.random.default_rng(0).normal(size=found.space.size)
    gaps = 1e-5 * np.eye(len(theta))
    base = np.tile(found.base, (len(theta), 1))
    ahead, behind = (found.gradients(theta + sign * gaps, base) for sign in (1, -1))
    assert_allclose(found.hessians(theta[None], found.base[None])[0], (ahead - behind) / 2e-5, atol=1e-6)


def test_the_block_of_the_preconditioner_is_h(monkeypatch):
    """With all parameters in the block and nothing neglected."""
    read = fo.labelled(*data())
    found = objective_of(CRF(scale=1.5), read)
    theta = np.random.default_rng(0).normal(size=found.space.size)
    hessian = found.hessians(theta[None], found.base[None])[0]
    monkeypatch.setattr(sparse_preconditioner, "_CERTAIN", 0.0)
    monkeypatch.setattr(sparse_preconditioner, "_STEEP", -1.0)
    inverse = found.layout.chains.preconditioner(theta, read.sequence_weights, 1 / 1.5**2)
    assert_allclose(inverse(hessian), np.eye(len(theta)), atol=1e-9)


def test_the_preconditioner_is_symmetric_and_close_to_the_inverse():
    read = fo.labelled(*data())
    found = objective_of(CRF(scale=1.5), read)
    theta = np.zeros(found.space.size)
    hessian = found.hessians(theta[None], found.base[None])[0]
    inverse = found.layout.chains.preconditioner(theta, read.sequence_weights, 1 / 1.5**2)
    matrix = inverse(np.eye(len(theta)))
    assert_allclose(matrix, matrix.T, atol=1e-12)
    plain = np.linalg.cond(hessian / np.sqrt(np.outer(np.diag(hessian), np.diag(hessian))))
    values = np.linalg.eigvals(matrix @ hessian).real
    assert values.min() > 0
    assert values.max() / values.min() < plain


@pytest.mark.parametrize("method", ["ij", "onestep", "newton", "auto", "exact"])
def test_folds_by_products_are_those_by_matrices(method, large, monkeypatch):
    read = fo.labelled(*data())
    model = CRF(scale=1.0, biases=False)
    fit = fo.fit(model, read)
    assert fit.ok, fit.status
    assert not fit.hessian_operator.dense
    folds = fo.folds.structures(read, k=5)
    ours = fo.cross_validate(fit, folds, method=method)
    monkeypatch.setattr(second_derivatives, "FORMED", 10**6)
    monkeypatch.setattr("fitonce.objectives.labels.objective.FORMED", 10**6)
    same = fo.fit(model, read)
    assert same.hessian_operator.dense
    assert_allclose(fit.theta, same.theta, atol=1e-6)
    expected = fo.cross_validate(same, folds, method=method)
    tolerance = 2e-3 if method == "auto" else 1e-6  # auto stops where an error is small enough
    assert_allclose(ours.folds["loss"], expected.folds["loss"], rtol=tolerance)
    assert list(ours.folds["verdict"]) == list(expected.folds["verdict"])


def test_loo_of_labels_by_products(large, monkeypatch):
    words, tags = sentences(0, 8)
    read = fo.labelled([[{"word": w, "title": w.istitle()} for w in row] for row in words], tags)
    fit = fo.fit(CRF(scale=1.0), read)
    ours = fo.loo(fit, refine=0)
    monkeypatch.setattr(second_derivatives, "FORMED", 10**6)
    monkeypatch.setattr("fitonce.objectives.labels.objective.FORMED", 10**6)
    expected = fo.loo(fo.fit(CRF(scale=1.0), read), refine=0)
    assert_allclose(ours.folds["loss"], expected.folds["loss"], rtol=1e-6)


def test_plan_counts_products_not_matrices(large):
    read = fo.labelled(*data())
    plan = fo.plan(CRF(scale=1.0), read)
    assert not plan.dense
    assert "not formed: solved by products" in repr(plan)


def test_weights_of_few_occurrences_can_be_left_out():
    read = fo.labelled(*data())
    every, seen, frequent = (
        objective_of(CRF(biases=False, **how), read)
        for how in ({"all_possible_states": True}, {}, {"min_freq": 3})
    )
    assert every.space.size > seen.space.size > frequent.space.size
    counts = np.zeros((len(read.attributes), len(read.tags)))
    rows = read.features.tocoo()
    np.add.at(counts, (rows.col, read.labels[rows.row]), rows.data)
    kept = np.argwhere(counts >= 3)
    names = {f"weights[{a},{k}]" for a, k in kept}
    assert {name for name in frequent.space.names if name.startswith("weights")} == names


@pytest.mark.parametrize(
    ("features", "labels", "options", "sentence"),
    [
        ([[{"a": None}]], [["x"]], {}, "sequence 0, token 0 .* got NoneType"),
        ([[{"a": 1.0}, 3]], [["x", "y"]], {}, "sequence 0, token 1 .* got int"),
        ([[{"a": [1.0]}]], [["x"]], {}, "got float among them"),
        ([[{"a": np.nan}]], [["x"]], {}, "got nan in sequence 0, token 0, attribute 'a'"),
        ([[{"a": 1e200}]], [["x"]], {}, "between 1e-100 and 1e100"),
        ([[{"a": 1.0}], []], [["x"], []], {}, "sequence 1 is empty"),
        ([[{}], [{}]], [["x"], ["y"]], {}, "at least one attribute, got none"),
        ([np.ones((1, 2))], [["x"]], {"attributes": ["a"]}, "attributes= is for features that are"),
        ([sparse.eye_array(2), np.eye(2)], [["x", "y"]] * 2, {}, "all be sparse matrices, or none"),
        ([sparse.eye_array(2), sparse.eye_array(3)], [["x"] * 2, ["y"] * 3], {}, r"got \[2, 3\]"),
        ([sparse.csr_array((0, 2))], [[]], {}, r"shape \(tokens, features\), got \(0, 2\)"),
    ],
)
def test_bad_features_are_refused(features, labels, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.labelled(features, labels, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"biases": 1}, "biases must be True or False, got 1"),
        ({"all_possible_states": "seen"}, "all_possible_states must be True or False or None"),
        ({"min_freq": -1}, "min_freq must be a non-negative number, got -1"),
        ({"all_possible_transitions": False, "support": "iob2"}, "use one of them"),
        ({"biases": False, "start_support": [1, 0]}, "start_support needs start scores"),
    ],
)
def test_bad_choices_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        CRF(**options)


def test_sparse_features_where_arrays_are_needed_are_refused():
    read = fo.labelled(*data())
    with pytest.raises(ValueError, match="needs scores in arrays, got sparse features"):
        fo.fit(CRF("scores"), read)
    fit = fo.fit(CRF(), read)
    with pytest.raises(ValueError, match="a loss of one's own needs features in arrays"):
        fo.cross_validate(
            fit, fo.folds.structures(read, k=4), loss=lambda params, data, weights: weights
        )
    backwards = fo.labelled(*data(), attributes=fit.data.attributes[::-1])
    assert fo.predict(fit, backwards) == fo.predict(fit, read)
    others = fo.labelled(*data(), attributes=[*fit.data.attributes[1:], "other"])
    words = "columns of the fit, .* and with other besides; read the data with .* attributes="
    with pytest.raises(ValueError, match=words):
        fo.predict(fit, others)
