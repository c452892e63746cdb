"""Fits of CRFsuite: the same log-likelihood, objective and folds."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fitonce as fo
from crfsuite_cases import NAMES, data, log_likelihood, sentences, stored, trained


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_model_has_its_log_likelihood_and_is_where_its_training_ended(name, tmp_path):
    model, score = stored(name, tmp_path)
    fit = fo.from_crfsuite(model, *data())
    assert fit.log_likelihood == pytest.approx(score, abs=1e-8)
    penalty = model.c2 * np.sum(fit.theta**2)
    assert fit.value == pytest.approx(-score + penalty, abs=1e-8)
    polished = fit.polish()
    assert polished.ok, polished.status
    # Trained to a gradient of 1e-9 of the weights: the minimum of the same objective.
    assert (fit.distance < 1e-5) == (name != "early")
    gain = fit.value - polished.value
    assert (gain > 1.0) if name == "early" else (-1e-10 < gain < 1e-10)


def test_a_model_file_needs_its_options(tmp_path):
    model, score = stored("every", tmp_path)
    how = {"c2": 0.3, "all_possible_states": True, "all_possible_transitions": True}
    fit = fo.from_crfsuite(model.modelfile.name, *data(), **how)
    assert fit.log_likelihood == pytest.approx(score, abs=1e-8)
    assert fit.distance < 1e-5


def test_transitions_that_do_not_occur_have_the_score_zero(tmp_path):
    model, _ = stored("usual", tmp_path)
    fit = fo.from_crfsuite(model, *data())
    tags = fit.data.tags
    never = tags.index("O"), tags.index("I-X")
    assert fit.params["transition"][never] == 0
    assert not [name for name in fit.names if name == f"transition[{never[0]},{never[1]}]"]
    tagged = fo.marginals(fit, data()[0])  # possible all the same
    assert min(rows[:, tags.index("I-X")][0] for rows in tagged) > 0


def test_folds_are_refits_with_the_same_weights(tmp_path):
    """Leaving sentences out changes the objective as CRFsuite's own would be, by their terms alone."""
    model, _ = stored("every", tmp_path)
    fit = fo.from_crfsuite(model, *data()).polish()
    cv = fo.cross_validate(fit, fo.folds.structures(fit.data, k=4))
    assert (cv.folds["verdict"] == "good").all()
    X, y = data()
    for fold, left_out in enumerate(fo.folds.structures(fit.data, k=4).dropped[:2]):
        kept = [n for n in range(len(X)) if n not in left_out]
        part = fo.labelled([X[n] for n in kept], [y[n] for n in kept], tags=fit.data.tags)
        again = fo.fit(fit.model, part)
        rest = fo.labelled(
            [X[n] for n in left_out], [y[n] for n in left_out], tags=fit.data.tags,
            attributes=part.attributes,
        )  # fmt: skip
        at = fo.fit_at(fit.model, rest, again.params)
        assert cv.folds["loss"][fold] == pytest.approx(-at.log_likelihood / len(left_out), rel=1e-4)


def _changed(folder, **attributes):
    model, _ = stored("usual", folder)
    for key, value in attributes.items():
        setattr(model, key, value)
    return model


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"algorithm": "ap"}, "algorithm='ap' stops where it stops"),
        ({"c1": 0.1}, "c1=0.1 makes the objective one with corners"),
        ({"c2": 0.0}, "c2 must be positive, got 0"),
        ({"c2": "much"}, "c2 must be a number of at least 0, got 'much'"),
        ({"modelfile": SimpleNamespace(name=None)}, "must be fitted first"),
    ],
)
def test_what_cannot_be_brought_is_refused_by_name(attributes, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        fo.from_crfsuite(_changed(tmp_path, **attributes), *data())


def test_other_things_and_other_data_are_refused(tmp_path):
    model, _ = stored("usual", tmp_path)
    X, y = data()
    with pytest.raises(ValueError, match="got Tagger"):
        fo.from_crfsuite(type("Tagger", (), {})(), X, y)
    with pytest.raises(ValueError, match="a CRF has its own options, got c2 as well"):
        fo.from_crfsuite(model, X, y, c2=1.0)
    with pytest.raises(ValueError, match=r"options of from_crfsuite are c1, .* got c3"):
        fo.from_crfsuite(model, X, y, c3=1.0)
    with pytest.raises(ValueError, match=r"without .* of its attributes, such as"):
        fo.from_crfsuite(model, X[:1], y[:1])
    with pytest.raises(ValueError, match="its parameters 'transition' have nothing"):
        fo.from_crfsuite(model, X, [["O"] * len(row) for row in y])
    (tmp_path / "other").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match="must be a model file of CRFsuite"):
        fo.from_crfsuite(tmp_path / "other", X, y)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_live(name):
    pytest.importorskip("sklearn_crfsuite")
    crf = trained(name)
    X, y = data()
    fit = fo.from_crfsuite(crf, X, y)
    assert fit.log_likelihood == pytest.approx(log_likelihood(crf), abs=1e-8)
    weights, tags, attributes = fit.params["weights"], fit.data.tags, fit.data.attributes
    told = crf.state_features_  # with six decimals
    for (attribute, tag), weight in told.items():
        assert weights[attributes.index(attribute), tags.index(tag)] == pytest.approx(weight, abs=6e-7)
    assert len(told) + len(crf.transition_features_) == len(fit.theta)
    words, _ = sentences(1, 10)
    new = [[{"word": word.lower(), "unseen": 1.0} for word in sentence] for sentence in words]
    assert fo.predict(fit, new) == [list(row) for row in crf.predict(new)]
    for ours, theirs in zip(fo.marginals(fit, new), crf.predict_marginals(new), strict=True):
        expected = np.array([[shares[tag] for tag in tags] for shares in theirs])
        np.testing.assert_allclose(ours, expected, atol=1e-10)


BROKEN = {
    "its header alone": (lambda whole: whole[:48], r"of [\d,]+ bytes as its header says, got 48"),
    "the first half": (lambda whole: whole[: len(whole) // 2], "of 8,720 bytes .* got 4,360"),
    "more": (lambda whole: whole + b"x", "of 8,720 bytes .* got 8,721"),
    "features elsewhere": (lambda whole: _with(whole, 28, 47), "its features are not where its header"),
    "features beyond its end": (lambda whole: _with(whole, 28, 2**31), "requires a buffer of at least"),
    "names elsewhere": (lambda whole: _with(whole, 36, 48), "its names are not where its header says"),
    "fewer labels": (lambda whole: _with(whole, 20, 1), "a feature has no such label or attribute"),
    "more labels": (lambda whole: _with(whole, 20, 10**6), "its names are not where its header says"),
    "weights that are none": (lambda whole: _with(whole, 76, 0x7FF80000), "or no finite weight"),
}


def _with(whole, place, number):
    """The file with another integer at this place."""
    return whole[:place] + struct.pack("<I", number) + whole[place + 4 :]


@pytest.mark.parametrize("how", BROKEN)
def test_broken_files_are_refused_in_one_sentence(how, tmp_path):
    model, _ = stored("usual", tmp_path)
    damage, sentence = BROKEN[how]
    broken = tmp_path / "broken.crfsuite"
    broken.write_bytes(damage(Path(model.modelfile.name).read_bytes()))
    with pytest.raises(ValueError, match=rf"broken\.crfsuite must be a .*{sentence}") as found:
        fo.from_crfsuite(broken, *data(), c2=0.1)
    assert "\n" not in str(found.value)


@pytest.mark.slow
def test_exact_folds_are_crfsuite_trained_again():
    """With all weights, so that a new training has those that only the left-out sentences have, too."""
    pytest.importorskip("sklearn_crfsuite")
    X, y = data()
    fit = fo.from_crfsuite(trained("every"), X, y).polish()
    folds = fo.folds.structures(fit.data, k=4)
    cv = fo.cross_validate(fit, folds, method="exact")
    for fold, left_out in enumerate(folds.dropped):
        kept = [n for n in range(len(X)) if n not in left_out]
        crf = trained("every", [X[n] for n in kept], [y[n] for n in kept])
        losses = []
        for n in left_out:
            crf.tagger_.set(X[n])
            losses.append(-np.log(crf.tagger_.probability(y[n])))
        assert cv.folds["loss"][fold] == pytest.approx(np.mean(losses), rel=1e-5)
