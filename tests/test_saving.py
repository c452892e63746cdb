"""Saved results: what comes back is what was written, and damage is noticed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fitonce as fo
from canonical import COUNTS, poisson_fit
from fitonce.objectives.families import objective_of

pytestmark = pytest.mark.xdist_group("canonical")  # one worker makes the fits that they share


@pytest.fixture(scope="module")
def cv():
    return fo.cross_validate(poisson_fit(), fo.folds.blocks(COUNTS, percent=10, n=6))


@pytest.fixture
def saved(cv, tmp_path):
    return cv.save(tmp_path / "cv.json", about={"command": "fitonce cv x.csv"})


def test_all_of_a_result_comes_back(cv, saved):
    found = fo.load(saved)
    shown = repr(found.fit).splitlines()
    assert len(shown) < 16
    assert shown[0].startswith("Summary of a fit of ")
    assert repr(found) == repr(cv)
    assert found.pointwise.equals(cv.pointwise)
    assert found.folds.equals(cv.folds)
    np.testing.assert_array_equal(found.theta, cv.theta)
    assert found.about["command"] == "fitonce cv x.csv"
    assert found.about["versions"]["fitonce"] == fo.__version__
    assert found.fit.parameters["value"].tolist() == cv.fit.to_dataframe()["value"].tolist()
    np.testing.assert_array_equal(
        found.fit.values, np.where(cv.fit.data.observed, cv.fit.data.values, np.nan)[0, :, 0]
    )


def test_what_was_read_can_be_written_again(saved, tmp_path):
    again = fo.load(saved).save(tmp_path / "again.json")
    assert again.read_bytes() == saved.read_bytes()


def test_a_file_that_is_there_stays(cv, saved):
    before = saved.read_bytes()
    with pytest.raises(ValueError, match="exists; pass force=True"):
        cv.save(saved)
    assert saved.read_bytes() == before
    cv.save(saved, force=True)


def test_parameters_by_fold_need_the_model(saved):
    with pytest.raises(ValueError, match="has no model"):
        fo.load(saved).params(0)


def changed(path, **new):
    document = json.loads(path.read_text())
    document.update(new)
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ({"version": 99}, "has format version 99, this fitonce reads 2"),
        ({"format": "x"}, "not marked as 'fitonce result'"),
        ({"estimate": "two"}, "expected a number"),
        ({"method": 3}, "expected a string"),
        ({"folds": {}}, "folds has no column 'loss'"),
        ({"estimate": 10**400}, "damaged"),
        ({"pointwise": {}}, "pointwise has no column"),
        ({"theta": {"dtype": ">f8", "shape": [0], "zlib": ""}}, "expected an array of numbers"),
        ({"theta": {"dtype": "<f8", "shape": [400_000_000], "zlib": ""}}, "claims the shape"),
        ({"theta": {"dtype": "|O", "shape": [1], "zlib": ""}}, "expected an array of numbers"),
        ({"theta": {"dtype": "(2,", "shape": [1], "zlib": ""}}, "expected an array of numbers"),
        ({"theta": {"dtype": "<f8,(", "shape": [1], "zlib": ""}}, "expected an array of numbers"),
        ({"theta": {"dtype": "<f8", "shape": [3], "zlib": "eJwDAAAAAAE="}}, "is incomplete"),
    ],
)
def test_damage_is_said(saved, new, words):
    with pytest.raises(ValueError, match=words):
        fo.load(changed(saved, **new))


def test_the_log_likelihood_is_that_of_the_data_alone(cv):
    flat = fo.models.PoissonHMM(2, initial_concentration=1.0, transition_concentration=1.0)
    without_prior = objective_of(flat, cv.fit.data)(cv.fit.theta)
    assert cv.summary.log_likelihood == pytest.approx(-without_prior, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "value"),
    [("estimate", 0.001), ("se", -1.0), ("left_out", "all of it"), ("fingerprint", "other"),
     ("about", {"command": "another"})],
)  # fmt: skip
def test_a_file_that_was_changed_is_refused(saved, name, value):
    changed(saved, **{name: value})
    with pytest.raises(ValueError, match="damaged result: it was changed after it was written"):
        fo.load(saved)


def test_words_about_a_result_come_back_by_name(cv, tmp_path):
    found = fo.load(cv.save(tmp_path / "cv.json", about={10: "ten", 2: "two", "x": 1.5}))
    assert {key: found.about[key] for key in ("10", "2", "x")} == {"10": "ten", "2": "two", "x": 1.5}
    with pytest.raises(ValueError, match="about must hold only strings and finite numbers"):
        cv.save(tmp_path / "other.json", about={"x": np.int64(3)})
    assert not (tmp_path / "other.json").exists()
