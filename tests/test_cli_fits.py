"""Fits on the command line: fit, decode, forecast and sample, and every model with its example."""

from __future__ import annotations

import io
import json
import os
import re
import shlex

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from commanding import run, said
from fitonce.cli.choices import named_models
from fitonce.cli.examples import example_of

QUICK = ["--restarts", "1", "--optima", "0", "--no-cache"]
SLOW = ("neural-ar-hmm", "potts-gaussian", "potts-binomial", "potts-categorical", "ar-hmm")
SLOW += ("structural-binomial",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Counts by day with a covariate, two fits, and other data."""
    folder = tmp_path_factory.mktemp("fits")
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=60, freq="D")
    heat = rng.normal(size=60).round(3)
    counts = rng.poisson(np.exp(np.repeat([0.7, 2.2], 30) + 0.2 * heat))
    table = pd.DataFrame({"day": days, "count": counts, "heat": heat})
    table.to_csv(folder / "counts.csv", index=False)
    table.iloc[:7].assign(count=[1, 2, 9, 11, 12, 2, 1]).to_csv(folder / "week.csv", index=False)
    table[["heat"]].iloc[:3].to_csv(folder / "ahead.csv", index=False)
    pd.DataFrame({"a": counts, "b": heat}).to_csv(folder / "pairs.csv", index=False)
    np.savez(folder / "fit.npz", x=counts)
    words = ["fit", folder / "counts.csv", "--model", "poisson-hmm", *QUICK]
    said(*words, "--columns", "count", "--order-by", "rate", "--save", folder / "fit.json",
         "--table", folder / "fit.csv", "--plot", folder / "moves.png")  # fmt: skip
    said(*words, "--columns", "count", "--covariates", "heat", "--save", folder / "heat.json")
    return folder


def test_fit_gives_what_the_library_gives(folder):
    table = pd.read_csv(folder / "counts.csv")
    fit = fo.fit(fo.models.PoissonHMM(2), table["count"], restarts=1, optima=0, order_by="rate")
    found = fo.load(folder / "fit.json")
    np.testing.assert_allclose(found.params["rate"], fit.params["rate"], rtol=1e-9)
    assert found.data.channels == ("count",)
    parameters = pd.read_csv(folder / "fit.csv")
    np.testing.assert_allclose(parameters["se"], fit.to_dataframe()["se"], rtol=1e-6)
    assert (folder / "moves.png").stat().st_size > 1000


def test_fit_prints_numbers_or_one_line(folder):
    words = ["fit", folder / "counts.csv", "--model", "poisson-hmm", *QUICK, "--columns", "count"]
    document = json.loads(said(*words, "--json"))
    assert document["ok"]
    assert len(document["parameters"]) == 5
    assert len(said(*words, "--quiet").strip().split("\n")) == 1


def test_decode_is_that_of_the_fit(folder, tmp_path):
    fit = fo.load(folder / "fit.json")
    rows = pd.read_csv(io.StringIO(said("decode", folder / "fit.json", "--csv")))
    assert rows.columns.tolist() == ["day", "state", "probability"]
    assert rows["day"].iloc[0] == "2024-01-01"
    np.testing.assert_array_equal(rows["state"], fit.decode()[0])
    np.testing.assert_allclose(
        rows["probability"], fit.posterior().to_numpy()[np.arange(60), rows["state"]]
    )
    printed = said("decode", folder / "fit.json", folder / "week.csv", "--save", tmp_path / "w.csv")
    assert "wrote" in printed
    assert pd.read_csv(tmp_path / "w.csv")["state"].tolist() == [0, 0, 1, 1, 1, 0, 0]
    rows = json.loads(said("decode", folder / "fit.json", folder / "week.csv", "--json"))["rows"]
    assert rows[2] == {"day": "2024-01-03", "state": 1, "probability": rows[2]["probability"]}


def test_data_without_their_groups_are_said_to_be_one_sequence(folder, tmp_path):
    table = pd.read_csv(folder / "counts.csv").assign(site=np.repeat(["a", "b"], 30))
    table.to_csv(tmp_path / "sites.csv", index=False)
    words = ["--columns", "count", "--group", "site", "--save", tmp_path / "fit.json"]
    said("fit", tmp_path / "sites.csv", "--model", "poisson-hmm", *QUICK, *words)
    decoded = ["decode", tmp_path / "fit.json", tmp_path / "sites.csv", "--columns", "count"]
    assert "is read as one sequence, where the fit has 2; --group" in run(*decoded).stderr
    assert run(*decoded, "--group", "site").stderr == ""


def test_forecasts_go_on_where_the_data_end(folder, tmp_path):
    words = ["forecast", folder / "fit.json", "--steps", 3, "--paths", 50]
    rows = pd.read_csv(io.StringIO(said(*words, "--csv")))
    assert rows["day"].tolist() == ["2024-03-01", "2024-03-02", "2024-03-03"]
    expected = fo.load(folder / "fit.json").forecast(3, n=50).to_dataframe()
    np.testing.assert_allclose(rows["mean"], expected["mean"])
    assert len(json.loads(said(*words, "--json"))["rows"]) == 3
    said(*words, "--plot", tmp_path / "f.png", "--save", tmp_path / "f.json")
    assert json.loads((tmp_path / "f.json").read_text())[0]["channel"] == "count"
    with_heat = ["forecast", folder / "heat.json", "--steps", 3, "--covariates", folder / "ahead.csv"]
    assert "2024-03-03" in said(*with_heat)


def test_samples_are_those_of_the_library(folder, tmp_path):
    said("sample", folder / "fit.json", "--n", 30, "--seed", 4, "--save", tmp_path / "s.csv")
    rows = pd.read_csv(tmp_path / "s.csv")
    drawn = fo.load(folder / "fit.json").sample(30, seed=4)
    np.testing.assert_array_equal(rows["state"], drawn.states)
    np.testing.assert_array_equal(rows["count"], drawn.values[:, 0])  # noqa: PD011
    assert "more rows" in said("sample", folder / "fit.json")


def test_channels_do_not_take_the_place_of_steps_and_states_in_samples(tmp_path):
    table = pd.DataFrame({"step": np.arange(30) % 7, "state": np.arange(30) % 5})
    fo.fit(fo.models.PoissonHMM(2), table, restarts=1, optima=0).save(tmp_path / "fit.json")
    rows = json.loads(said("sample", tmp_path / "fit.json", "--n", 4, "--json"))["rows"]
    assert list(rows[0]) == ["number", "hidden_state", "step", "state"]
    drawn = fo.load(tmp_path / "fit.json").sample(4)
    assert [row["number"] for row in rows] == [1, 2, 3, 4]
    assert [row["hidden_state"] for row in rows] == drawn.states.tolist()
    assert [[row["step"], row["state"]] for row in rows] == drawn.values.tolist()  # noqa: PD011


def test_saved_fits_are_cross_validated(folder):
    fit = fo.load(folder / "fit.json")
    folds = ["--folds", "kfold", "--k", "5", "--optima", "0"]
    document = json.loads(said("cv", folder / "fit.json", *folds, "--json"))
    expected = fo.cross_validate(fit, fo.folds.kfold(fit.data, k=5), optima=0)
    assert document["estimate"] == pytest.approx(expected.estimate, rel=1e-9)
    assert "fit.json: HMM, 2 states" in said("cv", folder / "fit.json", *folds)
    document = json.loads(said("loo", folder / "heat.json", "--json"))
    one_out = fo.loo(fo.load(folder / "heat.json"))
    assert document["estimate"] == pytest.approx(one_out.estimate, rel=1e-9)
    assert len(json.loads(said("influence", folder / "fit.json", "--top", "4", "--json"))["rows"]) == 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("cv counts.csv", "--model must name a model, which `fitonce models` lists, got none"),
        ("select counts.csv", "--model must name a model, which `fitonce models` lists, got none"),
        ("cv fit.json --columns count", "--columns is for data that are fitted, got the fit fit.json"),
        ("loo fit.json --from 2024", "--from is for data that are fitted, got the fit fit.json"),
        ("cv fit.json --states 3", "--states is for models that are fitted, got a fit"),
        ("cv fit.json --folds regions", "--folds"),
        ("cv none.json", "expected a saved fit, got no file at none.json"),
        ("decode none.json", "expected a saved fit, got no file at none.json"),
        ("decode counts.csv", "counts.csv must be a saved fit, but is not JSON"),
        ("decode fit.json --time day", "--columns, --time, --group and --missing are for other data"),
        ("decode fit.json week.csv --columns cold", "'cold' is not a column"),
        ("forecast heat.json", "the model depends on ['heat']: give covariates= for each step"),
        ("forecast fit.json --covariates ahead.csv", "the model depends on none"),
        ("forecast fit.json --level 90", "a probability between 0 and 1 (0.9, not 90), got 90"),
        ("forecast fit.json --sequence 3", "sequence must be 0, the number of the only one, got 3"),
        ("sample fit.json --json --csv", "--json and --csv are two ways to print one table"),
        ("sample fit.json --save fit.csv", "fit.csv exists; pass force=True (--force)"),
        ("sample fit.json --save none/s.csv", "the folder none does not exist"),
        ("fit counts.csv --model poisson-hmm --save fit.json", "fit.json exists"),
        ("fit counts.csv --model crf", "must have a column of tags, such as"),
        ("fit counts.csv --model poisson", "--model must be one of poisson-hmm (counts"),
        (
            "fit counts.csv --model potts",
            "potts-binomial (counts out of trials on a map or a graph), pott",
        ),
        ("compare fit.json fit.json", "compare takes different results"),
        ("report fit.json r.html", "is not marked as 'fitonce result' (it is marked as 'fitonce fit')"),
        ("models nothing", "--model must be one of hmm, poisson-hmm"),
        ("models --example .", "--example needs the name of a model"),
        ("models poisson-hmm --example counts.csv", "must be a folder, got the file counts.csv"),
        ("fit pairs.csv --model structural", "--model structural is for one column, got a, b; choose "
         "one with --columns NAME"),
        ("fit pairs.csv --model sarimax", "--model sarimax is for one column, got a, b; choose one"),
        ("fit fit.npz --model poisson-hmm --decimal ,", "--decimal is for text files (.csv, .tsv"),
    ],
)  # fmt: skip
def test_mistakes_are_said_in_one_sentence(folder, monkeypatch, words, sentence):
    monkeypatch.chdir(folder)
    before = set(os.listdir())
    done = run(*words.split())
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().split("\n")) == 1
    assert set(os.listdir()) == before


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in named_models()]
)
def test_every_model_is_described_with_an_example_that_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = said("models", name, "--example", ".")
    command = example_of(name).command(name)
    assert command in printed
    described = json.loads(said("models", name, "--json"))
    assert described["example"] == command
    said(*shlex.split(command)[1:], *QUICK)
    fit = fo.load("fit.json") if name != "iid-mixture" else None  # whose model is code of the tests
    if fit is not None:
        shapes = {key: list(np.shape(value)) for key, value in fit.params.items()}
        assert shapes == described["parameters"]
    assert run("models", name, "--example", ".").exit_code == 2  # its files are there


@pytest.mark.parametrize("name", ["crf", "potts-poisson"])
def test_tags_and_classes_are_decoded(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said("models", name, "--example", ".")
    said(*shlex.split(example_of(name).command(name))[1:], *QUICK)
    rows = pd.read_csv(io.StringIO(said("decode", "fit.json", "--csv")))
    fit = fo.load("fit.json")
    if name == "crf":
        assert rows.columns.tolist() == ["sequence", "time", "word", "tag", "probability"]
        assert rows["tag"].tolist() == [tag for tags in fo.predict(fit) for tag in tags]
        again = pd.read_csv(io.StringIO(said("decode", "fit.json", "tags.conll", "--csv")))
        assert again["tag"].tolist() == rows["tag"].tolist()
    else:
        assert rows.columns.tolist() == ["site", "state", "probability"]
        assert rows["site"].iloc[-1] == "s39"
        np.testing.assert_array_equal(rows["state"], np.asarray(fit.posterior()).argmax(1))
        done = run("decode", "fit.json", "sites.csv")
        assert done.exit_code == 2
        assert "can only be decoded on the data of its fit" in done.stderr
    done = run("sample", "fit.json")
    assert done.exit_code == 2
    assert "sample needs an HMM or a state-space model, got" in done.stderr


def test_a_file_with_few_of_the_tags_is_decoded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said("models", "crf", "--example", ".")
    said(*shlex.split(example_of("crf").command("crf"))[1:], *QUICK)
    (tmp_path / "new.conll").write_text("Ada\tO\nlived\tO\n")
    found = pd.read_csv(io.StringIO(said("decode", "fit.json", "new.conll", "--csv")))
    assert len(found) == 2


def test_a_command_with_a_journal_goes_on_from_there(folder, tmp_path):
    words = ["cv", folder / "fit.json", "--n", "4", "--method", "onestep", "--optima", "0"]
    first, again = (run(*words, "--journal", tmp_path / "kept") for _ in range(2))
    assert "0 pieces found" in first.stdout
    assert re.search(r"[1-9]\d* pieces? found, 0 computed", again.stdout)
    refused = run(*words, "--journal", folder / "fit.json")
    assert refused.exit_code == 2
    assert "journal must be a folder, but" in refused.stderr


def test_fits_of_code_and_without_data_need_python(folder, tmp_path):
    def density(params, x, weights):
        return -0.5 * (weights * (x - params["centre"]) ** 2).sum()

    own = fo.fit(fo.models.Custom(density, {"centre": np.zeros(())}), np.arange(5.0))
    path = own.save(tmp_path / "own.json")
    words = 'commands cannot read it; go on in Python, fo.load("own.json", model=...)'
    for command in ("cv", "forecast"):
        assert words in run(command, path).stderr
    bare = fo.load(folder / "fit.json").save(tmp_path / "bare.json", data=False)
    assert "was saved without its data, which commands need" in run("cv", bare).stderr


def test_imported_fits_of_code_have_models_that_are_alike(tmp_path):
    peer = pytest.importorskip("statsmodels.api", reason="needs the peers extra: statsmodels")
    model = peer.tsa.UnobservedComponents(np.arange(9.0) ** 2, "llevel")
    path = fo.from_statsmodels(model.smooth([1, 1])).save(tmp_path / "imported.json")
    assert (
        "cannot read it; fit `--model structural` to the data, or go on in Python, "
        'fo.load("imported.json", model=fo.from_statsmodels(...).model)' in run("loo", path).stderr
    )


def test_the_folder_of_an_example_is_made(tmp_path):
    assert "counts.csv" in said("models", "poisson-hmm", "--example", tmp_path / "new" / "one")
    assert (tmp_path / "new" / "one" / "counts.csv").is_file()


def test_columns_whose_names_have_commas_are_chosen_in_quotes(tmp_path):
    """'"cars, mean",day' is read as a line of CSV; messages write such names so."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"cars, mean": rng.poisson(5, 40), "vans": rng.poisson(2, 40)})
    table["heat, air"] = rng.normal(size=40)
    table.to_csv(tmp_path / "x.csv", index=False)
    file, fit = tmp_path / "x.csv", tmp_path / "fit.json"
    words = ["fit", file, "--model", "poisson-hmm", *QUICK, "--save", fit, "--force"]
    known = ["--covariates", '"heat, air"', "--transition-covariates", '"heat, air"']
    said(*words, "--columns", '"cars, mean", vans', *known)
    assert fo.load(fit).data.channels == ("cars, mean", "vans")
    assert fo.load(fit).data.covariate_names == ("heat, air",)
    assert "probability" in said("decode", fit, file, "--columns", 'vans,"cars, mean"', "--csv")
    mixed = ["--emission", '"cars, mean"=poisson,vans=negative-binomial']
    said("fit", file, "--model", "hmm", *mixed, *QUICK, "--save", fit, "--force")
    assert fo.load(fit).data.channels == ("cars, mean", "vans")
    refused = run(*words, "--columns", "cars").stderr
    assert """'cars' is not a column; columns are "cars, mean", vans, "heat, air\"""" in refused
