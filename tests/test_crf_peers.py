"""The same weights in CRFsuite and in LinearChainCRF: the same probabilities, best tags and fit."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np
import pytest

import fitonce as fo

peer = pytest.importorskip("sklearn_crfsuite", reason="needs the peers extra: sklearn-crfsuite")

FEATURES = ("capital", "digit", "ends in s")
ENDS = {"bias": "bias", "start": "first", "end": "last"}  # parameters here, attributes there
TAGS = ("O", "B-X", "I-X")
WORDS = ["Oslo", "is", "Rio", "Grande", "2", "buses", "Go", "now", "4s", "Alps"]


def sentences(seed, count):
    """Random words; a capital begins or goes on with an entity."""
    rng = np.random.default_rng(seed)
    words = [list(rng.choice(WORDS, size=length)) for length in rng.integers(1, 8, size=count)]
    tags = []
    for sentence in words:
        row = ["O"]
        for word in sentence:
            inside = word[0].isupper() and rng.random() < 0.9
            row.append("O" if not inside else "I-X" if row[-1] != "O" else "B-X")
        tags.append(row[1:])
    return words, tags


def binary(words):
    """(T, features) of 0 and 1."""
    return np.array([[w[0].isupper(), w[0].isdigit(), w.endswith("s")] for w in words], float)


def attributes(words):
    """The same as CRFsuite reads it, with attributes of every, the first and the last word."""
    rows = [{name: 1.0 for name, on in zip(FEATURES, row, strict=True) if on} for row in binary(words)]
    for row in rows:
        row["bias"] = 1.0
    rows[0]["first"] = rows[-1]["last"] = 1.0
    return rows


@lru_cache
def trained():
    words, tags = sentences(0, 12)
    crf = peer.CRF(
        c2=0.05,
        max_iterations=1000,
        epsilon=1e-10,
        delta=1e-14,
        all_possible_transitions=True,
        all_possible_states=True,
    )
    crf.fit([attributes(sentence) for sentence in words], tags)
    return crf


@lru_cache
def fitted():
    """A Fit at CRFsuite's weights, on its data, with its prior: c2 |w|^2 is |w|^2 / (2 scale^2)."""
    crf = trained()
    words, tags = sentences(0, 12)
    data = fo.labelled([binary(sentence) for sentence in words], tags, tags=TAGS)
    of = lambda name: np.array([crf.state_features_[name, tag] for tag in TAGS])  # noqa: E731
    params = {name: of(attribute) for name, attribute in ENDS.items()}
    params["weights"] = np.stack([of(name) for name in FEATURES])
    params["transition"] = np.array([[crf.transition_features_[s, t] for t in TAGS] for s in TAGS])
    assert min(np.abs(value).max() for value in params.values()) > 0.1
    return fo.fit_at(fo.models.LinearChainCRF(scale=1 / np.sqrt(2 * crf.c2)), data, params)


def log_probabilities():
    """CRFsuite's log p(tags | words) of the training sentences."""
    tagger = trained().tagger_
    found = []
    for sentence, row in zip(*sentences(0, 12), strict=True):
        tagger.set(attributes(sentence))
        found.append(np.log(tagger.probability(row)))
    return np.array(found)


# CRFsuite tells its weights with six decimals: errors of up to 5e-7, of either sign, in the some forty
# that a sentence of seven words adds up.
ROUNDED = 5e-6


def test_losses_of_sequences_are_those_of_crfsuite():
    fit = fitted()
    folds = fo.folds.structures(fit.data)
    result = fo.cross_validate(fit, folds, method="none", check=False)
    np.testing.assert_allclose(result.folds["loss"], -log_probabilities(), rtol=0, atol=ROUNDED)


def test_marginals_and_tags_of_new_sentences_are_those_of_crfsuite():
    fit, crf = fitted(), trained()
    words, _ = sentences(1, 25)
    new = [attributes(sentence) for sentence in words]
    ours = fo.marginals(fit, [binary(sentence) for sentence in words])
    for mine, theirs in zip(ours, crf.predict_marginals(new), strict=True):
        expected = np.array([[shares[tag] for tag in TAGS] for shares in theirs])
        np.testing.assert_allclose(mine, expected, rtol=0, atol=ROUNDED / 4)  # p (1 - p) is at most 1/4
    tags = fo.predict(fit, [binary(sentence) for sentence in words])
    assert tags == [list(row) for row in crf.predict(new)]
    assert set(itertools.chain(*tags)) == set(TAGS)


def test_the_fit_is_that_of_crfsuite():
    """CRFsuite stops at a gradient of 1e-10 of its weights, and rounds them."""
    at = fitted()
    ours = fo.fit(at.model, at.data)
    assert ours.ok, str(ours.status)
    np.testing.assert_allclose(ours.theta, at.theta, atol=ROUNDED)
    assert at.distance < 1e-4
    objective = -log_probabilities().sum() + trained().c2 * np.sum(at.theta**2)
    assert ours.value == pytest.approx(objective, rel=1e-6)
