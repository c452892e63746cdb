"""A file that cannot be written costs no number, and the result is kept."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app
from fitonce.core import writing

QUICK = ["--model", "poisson-hmm", "--states", "2", "--restarts", "1", "--optima", "0", "--n", "2"]


@pytest.fixture
def file(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    pd.DataFrame({"y": rng.poisson(np.repeat([2, 9, 2], 20))}).to_csv(tmp_path / "y.csv", index=False)
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(kept))
    return tmp_path / "y.csv"


@pytest.fixture
def full(monkeypatch, file):
    """No room in the current folder."""
    real = os.replace

    def replace(draft, path):
        if Path(path).parent == file.parent.resolve():
            raise OSError(errno.ENOSPC, "No space left on device")
        real(draft, path)

    monkeypatch.setattr(writing.os, "replace", replace)


@pytest.mark.parametrize("how", [[], ["--json"], ["--quiet"]])
@pytest.mark.usefixtures("full")
def test_the_numbers_are_printed_and_the_result_is_kept(file, how):
    wanted = ["--report", "r.html", "--plot", "p.png"]
    done = CliRunner().invoke(app, ["cv", "y.csv", *QUICK, *wanted, *how])
    assert done.exit_code == 2
    assert re.search(r"\d\.\d{3}", done.stdout)
    assert "r.html could not be written: No space left on device" in done.stderr
    assert "p.png could not be written" in done.stderr
    kept = re.search(r"kept in (\S+);", done.stderr).group(1)
    if how == ["--json"]:
        assert json.loads(done.stdout)["estimate"] == fo.load(kept).estimate
        assert json.loads(done.stdout)["wrote"] == []
    assert f"`fitonce report {kept} FILE`" in done.stderr
    assert sorted(os.listdir(file.parent)) == ["kept", "y.csv"]


@pytest.mark.usefixtures("full", "file")
def test_fits_and_choices_are_printed_too():
    done = CliRunner().invoke(app, ["fit", "y.csv", *QUICK[:6], "--save", "f.json"])
    assert done.exit_code == 2
    assert "Fit of HMM, 2 states" in done.stdout
    kept = re.search(r"kept in (\S+);", done.stderr).group(1)
    assert fo.load(kept).ok
    some = ["--states", "1..2", *QUICK[4:]]
    done = CliRunner().invoke(app, ["select", "y.csv", *QUICK[:2], *some, "--save", "s.json"])
    assert done.exit_code == 2
    assert "difference: from the best" in done.stdout
    assert "s.json could not be written" in done.stderr


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_what_is_read_is_not_written(file, option):
    before = file.read_bytes()
    done = CliRunner().invoke(app, ["cv", "y.csv", *QUICK, option, str(file), "--force"])
    assert done.exit_code == 2
    assert "is read by this command, and cannot be written by it too" in done.stderr
    (file.parent / "link.csv").symlink_to(file)
    done = CliRunner().invoke(app, ["cv", "link.csv", *QUICK, option, "y.csv", "--force"])
    assert done.exit_code == 2
    assert file.read_bytes() == before
