"""Sentences of refusals that were hard to read, and files that were refused and need not be."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app
from fitonce.core.arguments import naming, shown
from fitonce.data.reading import read_file


def refused(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 2, done.output
    return done.stderr


def test_a_range_that_goes_down_is_refused_as_one(tmp_path):
    said = refused("select", tmp_path / "x.csv", "--model", "poisson-hmm", "--states", "3..1")
    assert "--states must go from the smaller number to the larger, got '3..1'" in said


def test_a_folder_that_is_no_journal(tmp_path):
    assert "folder must be the folder of a journal, got '" in refused("journal", tmp_path / "nothing")
    assert shown(tmp_path) == repr(str(tmp_path))


def test_an_error_keeps_its_class_where_the_argument_is_named():
    with pytest.raises(fo.MemoryLimitError, match="folds: too much"), naming("folds"):
        raise fo.MemoryLimitError("too much")
    with pytest.raises(ValueError, match="path: gone") as found, naming("path"):
        raise OSError("gone")
    assert type(found.value) is ValueError


def test_arrays_with_lengths_are_sequences(tmp_path):
    x, lengths = np.random.default_rng(0).normal(size=(30, 2)), np.array([10, 5, 15])
    np.savez(tmp_path / "h.npz", X=x, lengths=lengths)
    found = read_file(tmp_path / "h.npz")
    assert found.data.lengths.tolist() == [10, 5, 15]
    assert found.data.channels == ("X0", "X1")
    np.testing.assert_array_equal(found.data.values[1, :5], x[10:15])
    assert "3 sequences by 'sequence'" in found.notes
    np.savez(tmp_path / "wrong.npz", X=x, lengths=np.array([10, 5]))
    with pytest.raises(ValueError, match="must have the same length, got"):
        read_file(tmp_path / "wrong.npz")


def test_commands_say_in_json_what_they_wrote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts = np.random.default_rng(0).poisson(3.0, 30).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(1), counts, restarts=1)
    fit.save("fit.json")
    fo.cross_validate(fit, fo.folds.kfold(counts, 3), method="ij").save("a.json")
    fo.cross_validate(fit, fo.folds.kfold(counts, 3), method="none").save("b.json")
    calls = {
        "states.csv": ["decode", "fit.json", "--save"],
        "made.json": ["sample", "fit.json", "--n", "4", "--save"],
        "compare.html": ["compare", "a.json", "b.json", "--report"],
    }
    for name, words in calls.items():
        done = CliRunner().invoke(app, [*words, name, "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["wrote"] == [name]
        assert (tmp_path / name).is_file()
