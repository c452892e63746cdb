"""log p(y | x) of labelled sequences that were not fitted."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import fitonce as fo

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(length, 2)) for length in (5, 1, 4, 6)]
Y = [[tag if RNG.random() < 0.8 else "c" for tag in np.where(x[:, 0] > 0, "a", "b")] for x in X]
NEW = RNG.normal(size=(3, 2))
PATHS = [list(path) for path in product("abc", repeat=3)]


@pytest.fixture(scope="module", params=["native", "scan"])
def fit(request):
    return fo.fit(fo.models.LinearChainCRF(), (X, Y), kernel=request.param)


def test_those_of_the_data_are_their_log_likelihood(fit):
    every = fit.log_likelihood_of((X, Y))
    assert every.shape == (4,)
    assert every.sum() == pytest.approx(fit.log_likelihood, rel=1e-12)
    assert fit.score((X, Y)) == pytest.approx(fit.score(), rel=1e-12)
    assert fit.log_likelihood_of((X[2:3], Y[2:3])) == pytest.approx(every[2:3], rel=1e-12)


def test_probabilities_of_all_paths_sum_to_one(fit):
    logs = fit.log_likelihood_of(([NEW] * len(PATHS), PATHS))
    assert np.exp(logs).sum() == pytest.approx(1.0, rel=1e-12)
    best = fit.decode([NEW])[0]
    assert PATHS[int(logs.argmax())] == best


def test_labels_that_are_unknown_are_summed_over(fit):
    logs = fit.log_likelihood_of(([NEW] * len(PATHS), PATHS))
    through = [path[1] == "b" for path in PATHS]
    found = fit.log_likelihood_of(([NEW], [[None, "b", None]]))
    assert found[0] == pytest.approx(np.log(np.exp(logs[through]).sum()), rel=1e-10)


def test_attributes_are_those_of_the_fit():
    words = [["Oslo", "is", "cold"], ["Rome", "is", "not"]]
    rows = [[{"word": word, "title": word.istitle()} for word in sentence] for sentence in words]
    tags = [["X", "O", "O"], ["X", "O", "O"]]
    fit = fo.fit(fo.models.LinearChainCRF(), (rows, tags))
    other = [[{"word": "Paris", "title": True}, {"word": "is", "title": False}]]
    paths = [list(path) for path in product(["X", "O"], repeat=2)]
    logs = fit.log_likelihood_of((other * 4, paths))
    assert np.exp(logs).sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    ("data", "lengths", "sentence"),
    [
        ([NEW], None, r"needs labelled data, from fo.labelled or a pair \(X, y\), got list"),
        (([NEW], [["a", "b", "z"]]), None, "token 2 is 'z', which is not one of the 3 tags a, b, c"),
        (([NEW[:, :1]], [["a", "b", "c"]]), None, "was fitted with 2 features, got 1"),
        (fo.labelled([NEW], [["a", "b", "a"]]), None, "was fitted with tags a, b, c, got a, b; read"),
        (([NEW], [["a", "b", "c"]]), [3], "lengths= is for one array of all sequences"),
    ],
)
def test_what_cannot_be_scored_is_refused(fit, data, lengths, sentence):
    with pytest.raises(ValueError, match=sentence):
        fit.log_likelihood_of(data, lengths=lengths)


def test_labels_that_the_support_forbids_are_refused():
    tags = [["O", "B-X", "I-X", "O", "O"], ["B-X"], ["O", "O", "B-X", "O"]]
    fit = fo.fit(fo.models.LinearChainCRF(support="iob2"), (X[:3], tags))
    with pytest.raises(ValueError, match="token 0 has tag 'I-X' first, which support= forbids"):
        fit.log_likelihood_of(([NEW], [["I-X", "O", "O"]]))
