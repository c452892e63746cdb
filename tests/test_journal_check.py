"""A journal is listed, checked and cleaned."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app
from fitonce.crossval.journal import packed

DRAFT = ".d.entry.0123abcd.part"


@pytest.fixture
def folder(tmp_path):
    entry = packed((np.arange(3.0),))
    (tmp_path / "a.entry").write_bytes(entry)
    (tmp_path / "b.entry").write_bytes(entry[:-1])
    (tmp_path / "c.entry").mkdir()
    (tmp_path / DRAFT).write_bytes(b"half")
    (tmp_path / "e.part").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    return tmp_path


def test_every_file_has_a_state(folder):
    found = fo.check_journal(folder)
    assert found["state"].to_dict() == {
        "a.entry": "whole",
        "b.entry": "damaged",
        "c.entry": "damaged",
        DRAFT: "abandoned draft",
        "e.part": "not of a journal",
        "notes.txt": "not of a journal",
    }
    assert found.loc[DRAFT, "size"] == 4
    assert len(os.listdir(folder)) == 6


def test_cleaning_removes_what_is_damaged_and_nothing_else(folder):
    fo.check_journal(folder, clean=True)
    assert sorted(os.listdir(folder)) == ["a.entry", "c.entry", "e.part", "notes.txt"]


def test_the_command_prints_it(folder):
    said = CliRunner().invoke(app, ["journal", str(folder)])
    assert said.exit_code == 0
    assert "3 entries" in said.output
    assert "damaged: 2" in said.output
    assert "b.entry" in said.output
    told = json.loads(CliRunner().invoke(app, ["journal", str(folder), "--clean", "--json"]).output)
    assert told["cleaned"] is True
    assert {row["file"] for row in told["entries"] if row["state"] == "damaged"} == {
        "b.entry",
        "c.entry",
    }


@pytest.mark.parametrize("given", [None, 5, "no such folder", ""])
def test_what_is_not_a_folder_is_refused(given):
    with pytest.raises(ValueError, match="folder must be the folder of a journal, got"):
        fo.check_journal(given)
