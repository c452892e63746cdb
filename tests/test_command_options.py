"""Options of the commands: what they do, and which are refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from commanding import run
from fitonce.cli.choices import ModelChoice
from fitonce.cli.request import Request
from fitonce.cli.select_command import chosen


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
        (["future", "--horizon", "500"], "fewer than --horizon 500; give a higher percentage"),
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


def asked(model, **ranges):
    return chosen(Request(Path("x.csv"), model, options=ranges))


def test_options_that_make_no_difference_beside_one_state_are_not_varied():
    found = asked("potts-poisson", states="1..2", beta="0,0.5,learned")
    names = ["1 state", "2 states, beta 0", "2 states, beta 0.5", "2 states, beta learned"]
    assert list(found) == names
    assert found["1 state"].options["beta"] == "0"
    found = asked("poisson-hmm", states="1,2", durations="geometric,poisson", stages="5,10")
    assert list(found) == [
        "1 state",
        "2 states, durations geometric",
        "2 states, durations poisson, stages 5",
        "2 states, durations poisson, stages 10",
    ]


def test_select_says_what_there_was_no_time_for(walks):
    words = [
        "--model",
        "poisson-hmm",
        "--group",
        "walk",
        "--states",
        "1..3",
        "--restarts",
        "1",
        "--no-cache",
    ]
    done = run("select", walks, *words, "--max-seconds", "1e-6", "--json")
    found = json.loads(done.stdout)
    assert [row["model"] for row in found["models"]] == ["1 state"]
    assert list(found["skipped"]) == ["2 states", "3 states"]
    assert "no answer yet: 2 states has no certified fit" in found["sentence"]
    assert found["undecided"].endswith("try more seconds (max_seconds=, --max-seconds), or fewer starts")


def test_select_says_that_the_best_is_the_largest_asked_for(walks):
    words = [
        "--model",
        "poisson-hmm",
        "--group",
        "walk",
        "--states",
        "1,2",
        "--restarts",
        "1",
        "--no-cache",
    ]
    done = run("select", walks, *words, "--optima", "0")
    assert "the best, 2 states, has the largest number of states asked for; try more" in done.stdout


def test_days_of_the_week_without_counts_need_a_prior(tmp_path):
    times = pd.date_range("2024-01-01", periods=24 * 28, freq="h")
    counts = np.random.default_rng(0).poisson(6, len(times))
    frame = pd.DataFrame({"time": times, "count": counts})[times.day_of_week < 5]
    frame.to_csv(tmp_path / "weekdays.csv", index=False)
    words = ["fit", tmp_path / "weekdays.csv", "--model", "event-counts", "--steps-per-day", 24]
    done = run(*words, "--restarts", "1", "--no-cache")
    assert done.exit_code == 2
    assert "on day 5, 6 (of 0 to 6; the first step is on day 0) nothing was observed" in done.stderr
    done = run(*words, "--restarts", "1", "--no-cache", "--day-concentration", "1.5", "--json")
    found = json.loads(done.stdout)
    shares = [row["value"] for row in found["parameters"] if row["name"].startswith("day_share")]
    assert found["ok"]
    assert len(shares) == 6  # the last is what these leave
    # What no count speaks of is left to the prior: the mode of both days is the same.
    assert shares[5] == pytest.approx(1 - sum(shares), rel=1e-4)
    assert 0 < shares[5] < min(shares[:5])


def test_what_was_not_asked_for_and_the_model_with_its_rates_are_printed(walks):
    done = of_walks(walks, "--folds", "sequences", "--k", "3")
    before, _, after = done.stdout.partition("Cross-validation:")
    said = "model: HMM, 2 states, Poisson emission (by default --states 2 --durations geometric)"
    assert said in " ".join(before.split())
    assert before.count("Fit of HMM, 2 states, Poisson emission") == 1
    assert "rate: [[" in before
    assert "estimate" in after
    found = json.loads(of_walks(walks, "--folds", "sequences", "--k", "3", "--json").stdout)
    assert found["fit"]["model"] == "HMM, 2 states, Poisson emission"


def test_defaults_that_are_given_or_make_no_difference_are_not_called_defaults():
    of = ModelChoice("potts-poisson", {"states": 1})
    assert of.by_default(of.options) == ""
    of = ModelChoice("potts-poisson", {"beta": "0.5"})
    assert of.by_default(of.options) == "--states 2"
    assert ModelChoice("potts-poisson").by_default(()) == "--states 2 --beta learned"
    assert (
        ModelChoice("poisson-hmm", {"states": 3, "durations": "poisson"}).by_default(
            ("states", "durations")
        )
        == "--stages 10"
    )
