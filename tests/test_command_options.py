"""Options of the commands: what they do, and which are refused by name."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def walks(tmp_path_factory):
    """25 sequences of counts in one file."""
    path = tmp_path_factory.mktemp("data") / "walks.csv"
    rng = np.random.default_rng(0)
    walk = np.repeat(np.arange(25), 12)
    counts = rng.poisson(np.where(rng.random(300) < 0.5, 2, 9))
    pd.DataFrame({"walk": walk, "count": counts}).to_csv(path, index=False)
    return path


def of_walks(walks, *words):
    usual = [
        "--model",
        "poisson-hmm",
        "--group",
        "walk",
        "--restarts",
        "1",
        "--optima",
        "0",
        "--no-cache",
    ]
    return run("cv", walks, *usual, *words)


def test_k_folds_over_sequences_are_those_of_the_library(walks):
    done = of_walks(walks, "--folds", "sequences", "--k", "10", "--json")
    found = json.loads(done.stdout)
    assert (found["folds"], found["failed"]) == (10, 0)
    table = pd.read_csv(walks)
    data = fo.sequences({name: part[["count"]] for name, part in table.groupby("walk")})
    fit = fo.fit(fo.models.PoissonHMM(2), data, restarts=1, optima=0)
    cv = fo.cross_validate(fit, fo.folds.structures(data, k=10), optima=0)
    assert found["estimate"] == pytest.approx(cv.estimate, rel=1e-9)
    assert json.loads(of_walks(walks, "--folds", "sequences", "--json").stdout)["folds"] == 25


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sequences", "--k", "3", "--n", "3"], "--n leaves single sequences out, --k puts all"),
        (
            ["sequences", "--percent", "5"],
            "--percent is for blocks, iid, future, regions, got --folds seq",
        ),
        (["sequences", "--hops", "1"], "--hops is for regions, buffered, got --folds sequences"),
        (["sequences", "--horizon", "1"], "--horizon is for future, got --folds sequences"),
        (["blocks", "--k", "5"], "--k is for kfold, sequences, spatial-kfold, got --folds blocks"),
        (["kfold", "--n", "5"], "--n is for blocks, iid, future, sequences, regions, got --folds kfold"),
        (["sequences", "--k", "26"], "between 2 and the number of sequences (25), got 26"),
    ],
)
def test_options_that_a_kind_of_folds_does_not_use_are_refused_by_name(walks, words, said):
    done = of_walks(walks, "--folds", *words)
    assert done.exit_code == 2
    assert said in done.stderr
