"""--model hmm --emission 'step=gamma,turn=von-mises': an emission for each column, from a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from commanding import run, said
from fitonce.cli.examples import example_of
from fitonce.cli.request import Request
from fitonce.objectives.families import objective_of

M = fo.models
TRACKS = "step=gamma,turn=von-mises"
QUICK = ["--restarts", "1", "--optima", "0", "--no-cache"]


@pytest.fixture
def tracks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example_of("hmm").write(tmp_path, force=False)
    table = pd.read_csv("tracks.csv").drop(columns="day")
    table.to_csv("tracks.csv", index=False)
    return table


def loaded(emission, **columns):
    return Request(
        Path("tracks.csv"), "hmm", quiet=True, options={"emission": emission}, **columns
    ).loaded()


def test_each_column_has_its_emission_as_in_python(tracks):
    found, model = loaded("turn=von-mises, step = gamma", group="elk")
    assert str(model) == "HMM, 2 states, VonMises x Gamma emission"
    data = fo.sequences({elk: part[["step", "turn"]] for elk, part in tracks.groupby("elk")})
    other = M.HMM(2, M.Product({"step": M.Gamma(), "turn": M.VonMises()}))
    one, two = objective_of(model, found.data), objective_of(other, data)
    at = two.start(None)
    assert one(at) == pytest.approx(two(at), rel=1e-12)
    assert found.data.names.sequences == ("Ada", "Bo")


def test_one_emission_is_for_all_columns_and_others_are_for_several(tracks):
    tracks.assign(kind=np.arange(len(tracks)) % 3, yes=2, no=1).to_csv("tracks.csv", index=False)
    assert loaded("student-t", columns="step,turn")[1] == M.HMM(2, "student-t")
    _, model = loaded("yes+no=multinomial,step=log-normal")
    assert [names for names, _ in model.emission.parts] == [("yes", "no"), ("step",)]
    assert loaded("categorical", columns="kind")[1] == M.HMM(2, M.Categorical(3))


@pytest.mark.parametrize(
    "emission", ["k+cat=categorical", "k=categorical,cat=categorical", "categorical"]
)
def test_each_column_has_its_own_number_of_categories(tracks, emission):
    """Both had the larger number of them."""
    pd.DataFrame({"k": np.arange(60) % 10, "cat": np.arange(60) // 7 % 3}).to_csv("tracks.csv")
    _, model = loaded(emission, columns="k,cat")
    assert model == M.HMM(2, M.Product({"k": M.Categorical(10), "cat": M.Categorical(3)}))


@pytest.mark.parametrize(
    ("emission", "columns", "sentence"),
    [
        ("step=gama,turn=von-mises", None, "--emission of column 'step' must be one of poisson, .* got "
         "'gama'; is it gamma?"),
        ("gama", None, "--emission of all columns must be one of poisson, .* got 'gama'; is it gamma?"),
        ("stp=gamma", None, "'stp' is not a column; columns are elk, step, turn"),
        ("step=gamma,turn", None, "must be like step=gamma,turn=von-mises, .* got 'turn' in"),
        ("=gamma", None, "must be like step=gamma,turn=von-mises"),
        ("+=gaussian", None, "must be like step=gamma,turn=von-mises, .* got '\\+=gaussian' in"),
        ("step=", None, "must be like step=gamma,turn=von-mises"),
        ("step=gamma,step=gamma", None, "column 'step' is named twice"),
        (TRACKS, "step", "--columns must be those that --emission names, step, turn, got step"),
        ("elk=gamma", None, "column 'elk' must hold numbers, got 'Ada' in row 0"),
    ],
)  # fmt: skip
def test_what_is_refused(tracks, emission, columns, sentence):
    with pytest.raises(ValueError, match=sentence):
        loaded(emission, columns=columns)


def test_values_that_an_emission_does_not_take_are_refused_with_their_column(tracks):
    tracks.assign(turn=tracks["turn"] * 100).to_csv("tracks.csv", index=False)
    done = run("fit", "tracks.csv", "--model", "hmm", "--emission", "turn=gamma,step=gamma", *QUICK)
    assert done.exit_code == 2
    assert "turn: a gamma emission needs positive numbers, got -" in done.stderr


def test_every_command_takes_tracks(tracks):
    words = ["tracks.csv", "--model", "hmm", "--emission", TRACKS, "--group", "elk", *QUICK]
    said("fit", *words, "--save", "fit.json")
    fit = fo.load("fit.json")
    assert fit.params["step.mean"].shape == (2, 1)
    ahead = json.loads(said("forecast", "fit.json", "--steps", 2, "--sequence", "Ada", "--json"))["rows"]
    assert {row["channel"] for row in ahead} == {"step", "turn"}
    states = said("decode", "fit.json", "--csv").split("\n")
    assert states[0] == "sequence,time,state,probability"
    folds = ["--folds", "sequences", "--method", "onestep"]
    found = json.loads(said("cv", *words, *folds, "--report", "cv.html", "--json"))
    assert (found["folds"], found["failed"]) == (2, 0)
    assert "Gamma x VonMises" in Path("cv.html").read_text()
    best = json.loads(said("select", *words, "--states", "1..2", *folds, "--json"))
    assert best["best"] == "2 states"


def test_products_are_described_under_either_name():
    shown = said("models", "product")
    assert shown == said("models", "hmm")
    assert "--emission step=gamma,turn=von-mises" in shown
    done = run("fit", "x.csv", "--model", "product")
    assert "--model must be one of hmm (columns of different kinds" in done.stderr
