"""The edge: importing, data sets, the command line, and the code in the documents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fitonce as fo
from conftest import shared
from fitonce.cli import app

ROOT = Path(__file__).parents[1]


def test_importing_changes_no_global_state():
    """Beyond what our dependencies change when they are imported themselves."""
    code = (
        "import warnings, sys, jax, pandas, scipy.optimize, scipy.sparse\n"
        "before = list(warnings.filters), dict(jax.config.values)\n"
        "import fitonce\n"
        "assert before == (list(warnings.filters), dict(jax.config.values))\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_exist():
    for name in fo.__all__:
        assert hasattr(fo, name)


def test_mocap6_has_the_known_facts(tmp_path):
    data = fo.datasets.load("mocap6", shared("data"))
    assert data.lengths.tolist() == [382, 205, 251, 446, 387, 387]
    assert len(data.channels) == 12
    assert data.channels[0] == "root.ty"
    (tmp_path / "dataset.npz").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"dataset\.npz is not the file of 'mocap6'"):
        fo.datasets.load("mocap6", tmp_path)


def test_dodgers_has_the_known_facts():
    series = fo.datasets.load("dodgers", shared("data"))
    assert series.n_sites == 50_400
    assert int((series.weights == 0).sum()) == 2_903
    missing = np.diff(np.concatenate([[0], series.weights == 0, [0]]))
    assert (missing == 1).sum() == 55
    assert not series.weights[:379].any()
    assert series.weights[379] == 1
    assert series.values.max() == 90


def test_a_changed_file_is_not_the_named_data_set(tmp_path):
    (tmp_path / "Dodgers.data").write_text("4/10/2005 0:00,3\n")
    with pytest.raises(ValueError, match="is not the file of 'dodgers'"):
        fo.datasets.load("dodgers", tmp_path)


def test_refusals_of_data_sets(tmp_path):
    with pytest.raises(ValueError, match=r"found no Dodgers\.data in"):
        fo.datasets.load("dodgers", tmp_path / "nowhere")
    with pytest.raises(
        ValueError, match=r"name must be one of \('dodgers', 'mocap124_standin', .*\), got 'x'"
    ):
        fo.datasets.load("x")
    with pytest.raises(ValueError, match="found none at"):
        fo.datasets.read_dodgers(tmp_path / "none")
    words = tmp_path / "words.txt"
    words.write_text("hello,world\nfoo,bar\n")
    with pytest.raises(ValueError, match="must have lines of 'time,count'"):
        fo.datasets.read_dodgers(words)


def test_simulated_traffic_comes_back_from_a_fit():
    series = fo.datasets.simulate_events(2, seed=3)
    assert series.n_sites == 2 * 7 * 288
    fit = fo.fit(fo.models.EventCounts(steps_per_day=288), series, restarts=1)
    assert fit.ok
    assert len(fit.theta) == 11
    assert fit.params["rate"] == pytest.approx(17.0, rel=0.05)


def small_file(tmp_path):
    counts = fo.datasets.simulate_events(2, missing=0.0, seed=1).values[0, :2200, 0].astype(int)
    path = tmp_path / "small.data"
    path.write_text("".join(f"4/10/2005 0:00,{c}\n" for c in counts))
    return path


def test_demo_prints_the_result_and_draws(tmp_path):
    picture = tmp_path / "demo.png"
    words = ["demo", "--data", str(small_file(tmp_path)), "--folds", "5", "--plot", str(picture)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    for part in ("stationary", "5 folds", "estimate", "control", str(picture)):
        assert part in done.output
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--data", "no-such-file"], "found none at no-such-file"),
        (["--plot", "no/such/folder/x.png"], "the folder no/such/folder does not exist"),
    ],
)
def test_demo_answers_bad_words_in_one_sentence(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["demo", *words])
    assert done.exit_code == 2
    assert sentence in done.output
    assert "Traceback" not in done.output
