"""The command line on files: what is printed and written, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from commanding import run
from fitonce.cli.choices import FoldChoice, ModelChoice
from fitonce.cli.request import Request
from fitonce.cli.select_command import chosen, numbers
from fitonce.core.interrupts import stoppable
from fitonce.data import datasets as fetching
from fitonce.data.edge_files import edges_of
from fitonce.data.reading import Columns
from fitonce.folds.catalogue import FOLD_KINDS, FoldOptions
from fitonce.objectives.families import families, objective_of
from fitonce.objectives.graph.family import GRAPHS

ROOT = Path(__file__).parents[1]
QUICK = ["--restarts", "1", "--n", "6", "--no-cache"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "counts.csv"
    rng = np.random.default_rng(0)
    times = pd.date_range("2024-01-01", periods=60, freq="D")
    frame = pd.DataFrame({"day": times, "count": rng.poisson(np.repeat([2, 9], 30)), "place": "x"})
    frame.drop(index=[7, 8]).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def saved(table, tmp_path_factory):
    """cv with everything that it can write."""
    folder = tmp_path_factory.mktemp("out")
    words = ["cv", table, "--model", "poisson-hmm", *QUICK, "--json"]
    outputs = ["--save", folder / "a.json", "--report", folder / "a.html", "--plot", folder / "a.png"]
    done = run(*words, *outputs)
    assert done.exit_code == 0, done.output
    return folder, json.loads(done.stdout)


def test_cv_gives_what_the_library_gives(table, saved):
    folder, printed = saved
    counts = pd.read_csv(table).set_index("day")["count"]
    counts.index = pd.to_datetime(counts.index)
    x = counts.asfreq("D").to_numpy()
    fit = fo.fit(fo.models.PoissonHMM(2), x, restarts=1)
    cv = fo.cross_validate(fit, fo.folds.blocks(x, percent=10, n=6))
    assert printed["estimate"] == pytest.approx(cv.estimate, rel=1e-9)
    assert printed["control"] == pytest.approx(cv.control, rel=1e-9)
    assert fo.load(folder / "a.json").estimate == printed["estimate"]
    assert (folder / "a.png").stat().st_size > 1000


def test_the_report_holds_exact_refits_and_influence(saved):
    text = (saved[0] / "a.html").read_text()
    for words in ("exact refits of 6 folds", 'id="chart-influence"', "counts.csv"):
        assert words in text


def test_nothing_is_replaced_without_force(table, saved):
    folder, _ = saved
    before = (folder / "a.json").read_bytes()
    done = run("cv", table, "--model", "poisson-hmm", *QUICK, "--save", folder / "a.json")
    assert done.exit_code == 2
    assert "exists; pass force=True (--force)" in done.stderr
    assert (folder / "a.json").read_bytes() == before


def test_compare_and_report_read_a_saved_result(saved, tmp_path):
    path = saved[0] / "a.json"
    (tmp_path / "b.json").write_bytes(path.read_bytes())
    done = run("compare", path, tmp_path / "b.json", "--plot", tmp_path / "c.png")
    assert done.exit_code == 0, done.output
    assert "not clearly worse: b" in done.stdout
    assert run("report", path, tmp_path / "r.html").exit_code == 0
    assert "</html>" in (tmp_path / "r.html").read_text()


def test_quiet_is_one_line(table):
    done = run("cv", table, "--model", "poisson-hmm", "--states", "1", *QUICK, "--quiet")
    assert done.exit_code == 0, done.output
    assert len(done.stdout.strip().split("\n")) == 1


def test_select_leaves_out_stretches_that_cover_the_data(table):
    words = ["select", table, "--model", "poisson-hmm", "--states", "1..2", "--no-cache", "--json"]
    done = run(*words, "--restarts", "1", "--optima", "0")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["simplest"] == "2 states"
    assert document["as_good"] == ["2 states"]
    assert "nats in all, p = " in document["sentence"]
    data = fo.sequences(np.r_[np.ones(7), np.nan, np.nan, np.ones(51)])  # days 7 and 8 are gaps
    covered = FoldChoice(covering=True).build(fo.models.PoissonHMM(1), data)
    assert len(covered) == 20
    assert sum(map(len, covered.scored)) == 58


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, "kfold"),
        ({"k": 5}, "kfold"),
        ({"percent": 10.0}, "blocks"),
        ({"n": 30}, "blocks"),
        ({"seed": 3}, "kfold"),
    ],
)
def test_options_of_other_folds_bring_those(given, kind):
    chain = ModelChoice("poisson-hmm", {}).family
    assert FoldChoice(None, FoldOptions(**given), covering=True).kind(chain) == kind
    for none in (0, 1):
        with pytest.raises(ValueError, match="k must be an integer between 2"):
            FoldChoice("kfold", FoldOptions(k=none)).build(
                fo.models.PoissonHMM(1), fo.sequences(np.ones(9))
            )


def test_select_names_a_winner(table, tmp_path):
    words = ["select", table, "--model", "poisson-hmm", "--states", "1..2", *QUICK]
    done = run(*words, "--json", "--plot", tmp_path / "p.png", "--report", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    text = run(*words).stdout
    assert re.search(r"^2 states, (95 %: .*; se from|too short to tell)", text, re.MULTILINE), text
    assert "; D: free parameters" in text
    found = json.loads(done.stdout)
    assert found["best"] == "2 states"
    page = (tmp_path / "r.html").read_text()
    assert "Model selection" in page
    assert "How many states? Chosen: " in page
    assert re.search(r"\d \(\d[\d.e-]*\)", page)  # the difference, and its paired standard error
    assert "Not in this report" not in page
    assert [row["model"] for row in found["models"]] == ["1 state", "2 states"]
    assert (tmp_path / "p.png").is_file()


def test_loo_and_influence(table, tmp_path):
    done = run("loo", table, "--model", "poisson-hmm", "--states", "1", "--restarts", "1", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["folds"] == 58
    done = run(
        "influence", table, "--model", "poisson-hmm", "--states", "1", "--restarts", "1", "--json",
        "-n", "3", "--save", tmp_path / "i.json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    top = json.loads(done.stdout)["rows"]
    assert len(top) == 3
    rows = {row["site"]: row for row in json.loads((tmp_path / "i.json").read_text())}
    assert len(rows) == 58
    assert rows[top[0]["site"]]["displacement"] == top[0]["displacement"]


def test_a_graph_has_an_edge_list(tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame({"y": rng.poisson(np.repeat([2, 8], 12))}).to_csv(tmp_path / "y.csv", index=False)
    pd.DataFrame({"from": range(23), "to": range(1, 24)}).to_csv(tmp_path / "e.csv", index=False)
    words = ["cv", tmp_path / "y.csv", "--model", "potts-poisson", "--edges", tmp_path / "e.csv"]
    done = run(*words, "--beta", "1", "--scheme", "B", *QUICK, "--json")
    assert done.exit_code == 0, done.output
    assert "regions" in json.loads(done.stdout)["left_out"]


def test_edges_may_be_names_of_a_column(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"site {letter}" for letter in "abcdefghijkl"]
    frame = pd.DataFrame({"name": names[::-1], "y": rng.poisson(4, 12)})
    frame.to_csv(tmp_path / "y.csv", index=False)
    pairs = pd.DataFrame({"from": names[:-1], "to": names[1:]})
    pairs.to_csv(tmp_path / "e.csv", index=False)
    found = load_file(tmp_path / "y.csv", Columns(("y",)), tmp_path / "e.csv")
    expected = {(11 - i, 10 - i) for i in range(11)}  # rows are in the other order
    assert {tuple(sorted(map(int, pair))) for pair in found.found["edges"].edges} == {
        tuple(sorted(pair)) for pair in expected
    }
    pairs.to_csv(tmp_path / "e.csv", index=False, header=False)  # the first line is an edge
    again = load_file(tmp_path / "y.csv", Columns(("y",)), tmp_path / "e.csv")
    np.testing.assert_array_equal(again.found["edges"].edges, found.found["edges"].edges)
    assert again.data.names.sites == tuple(names[::-1])
    pairs.assign(to="nowhere").to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(ValueError, match="'name' lacks 'nowhere'"):
        load_file(tmp_path / "y.csv", Columns(("y",)), tmp_path / "bad.csv")


@pytest.mark.parametrize(
    ("ids", "text", "expected"),
    [
        ([1001, 1003, 1005], "a,b\n1001,1005\n1003,1005\n", [[0, 2], [1, 2]]),
        ([1001, 1003, 1005], "0,2\n1,2\n", [[0, 2], [1, 2]]),
        ([0, 1, 2], "0,2\n", [[0, 2]]),
    ],
)
def test_numbers_of_edges_are_rows_or_codes(tmp_path, ids, text, expected):
    (tmp_path / "e.csv").write_text(text)
    found, _ = edges_of(tmp_path / "e.csv", pd.DataFrame({"id": ids, "name": list("xyz")}))
    assert found.to_numpy().tolist() == expected


def test_numbers_that_could_be_rows_or_codes_are_refused(tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    with pytest.raises(ValueError, match="could be row numbers from 0 or values of 'id'"):
        edges_of(tmp_path / "e.csv", pd.DataFrame({"id": [2, 0, 1]}))


def test_rows_of_a_graph_stay_in_their_order(tmp_path):
    """Edges count them, whatever dates a file has."""
    days = pd.date_range("2024-01-01", periods=6)[::-1]
    pd.DataFrame({"founded": days, "y": np.arange(6)}).to_csv(tmp_path / "y.csv", index=False)
    pd.DataFrame({"i": range(5), "j": range(1, 6)}).to_csv(tmp_path / "e.csv", index=False)
    found = load_file(tmp_path / "y.csv", Columns(), tmp_path / "e.csv")
    assert found.data.values[0, :, 0].tolist() == [0, 1, 2, 3, 4, 5]  # noqa: PD011 - not a DataFrame
    with pytest.raises(ValueError, match="--time is for sequences"):
        load_file(tmp_path / "y.csv", Columns(time="founded"), tmp_path / "e.csv")


@pytest.mark.parametrize(
    ("text", "said"),
    [("a,b\n", "no column has 'a', 'b'"), ("0,s1\n", "'name' lacks '0'"),
     ("s0,s1\n,s2\n", "two sites in every row, but row 1"),
     ("p,q\nr,s\n", "no column has 'p', 'q', 'r'"), ("s0,s9\ns1,s2\n", "'name' lacks 's9'")],
)  # fmt: skip
def test_edges_that_are_none_are_refused(tmp_path, text, said):
    pd.DataFrame({"name": ["s0", "s1", "s2"], "y": [1, 2, 3]}).to_csv(tmp_path / "y.csv", index=False)
    (tmp_path / "e.csv").write_text(text)
    with pytest.raises(ValueError, match=said):
        load_file(tmp_path / "y.csv", Columns(), tmp_path / "e.csv")


def test_a_model_that_cannot_be_made_is_skipped_in_a_range(tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame({"y": rng.poisson(np.repeat([2, 8], 8))}).to_csv(tmp_path / "y.csv", index=False)
    pd.DataFrame({"i": range(15), "j": range(1, 16)}).to_csv(tmp_path / "e.csv", index=False)
    words = ["select", tmp_path / "y.csv", "--model", "potts-poisson", "--edges", tmp_path / "e.csv"]
    done = run(*words, "--beta", "learned,much", *QUICK, "--method", "ij", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["best"] == "beta learned"
    assert found["skipped"] == {"beta much": "--beta must be a number or 'learned', got 'much'"}


def test_ctrl_c_twice_ends_at_once():
    before = signal.getsignal(signal.SIGINT)

    def interrupted():
        with stoppable() as stop:
            assert not stop()
            signal.raise_signal(signal.SIGINT)
            assert stop()
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_conll_file_has_tags(tmp_path):
    text = "Ada B-PER\nlives O\nin O\nParis B-LOC\n\nBob B-PER\nSmith I-PER\nsleeps O\n\n" * 6
    (tmp_path / "x.conll").write_text(text)
    done = run("cv", tmp_path / "x.conll", "--model", "crf", *QUICK, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["scheme"] == "structures"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", [3]), ("1..4", [1, 2, 3, 4]), ("2-3", [2, 3]), ("5,2,2", [2, 5])],
)
def test_ranges(text, expected):
    assert numbers(text, "--states", 1) == expected


GRAPH = fo.graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
DATA = {
    "chain": fo.sequences([np.arange(40.0) % 3, np.arange(30.0) % 3]),
    "graph": fo.sequences(np.arange(6.0) % 3),
    "labels": fo.labelled([np.eye(3), np.eye(3)], [["O", "B-X", "I-X"], ["B-X", "I-X", "O"]]),
}
SHARES = fo.sequences([(1.0 + np.arange(40.0) % 3) / 5, (1.0 + np.arange(30.0) % 3) / 5])
DATA_OF = {
    **dict.fromkeys(("gamma-hmm", "log-normal-hmm", "beta-hmm", "exponential-hmm"), SHARES),
    "bernoulli-hmm": fo.sequences([np.arange(40.0) % 2, np.arange(30.0) % 2]),
    "multinomial-hmm": fo.sequences(np.stack([np.arange(40.0) % 3, 5.0 + np.arange(40) % 2], 1)),
}
FOUND = {"edges": GRAPH, "exposure": np.full(6, 5.0)}
OTHER = {"states": 3, "order": 2, "beta": "0.5", "steps_per_day": 12, "day_concentration": 2.0}
NAMED = [(family, model) for family in families() for model in family.models if family.name in DATA]


@pytest.mark.parametrize(("family", "model"), NAMED, ids=[model.name for _, model in NAMED])
def test_every_model_that_is_listed_is_made_as_its_options_say(family, model):
    data = DATA_OF.get(model.name, DATA[family.name])
    taken = {option.name for option in model.options}
    found = {name: value for name, value in FOUND.items() if name in taken}
    assert model.name in run("models").stdout
    usual = ModelChoice(model.name).build(data, found)
    assert family.accepts(usual)
    objective = objective_of(usual, data)
    assert np.isfinite(objective(objective.start(None)))
    for name in taken & OTHER.keys():
        other = ModelChoice(model.name, {name: OTHER[name]}).build(data, found)
        states = {"chain": "n_states", "graph": "n_classes"}[family.name]
        if name == "states":
            assert (getattr(usual, states), getattr(other, states)) == (2, 3)
        elif name == "beta":
            assert (usual.beta, other.beta) == ("learned", 0.5)
        else:
            assert getattr(usual.emission, name) != getattr(other.emission, name) == OTHER[name]


def test_every_kind_of_folds_that_is_listed_is_made_as_its_options_say():
    models = {"chain": fo.models.PoissonHMM(2), "graph": fo.models.PottsMixture(GRAPH, beta=1.0)}
    given = {"percent": 20.0, "n": 2, "k": 3, "hops": 1, "horizon": 1, "buffer": "1"}
    counts = {"points": {"chain": 70, "graph": 6}, "buffered": {"graph": 6}}
    counts |= dict.fromkeys(("kfold", "spatial-kfold"), dict.fromkeys(models, 3))
    for family in families():
        if family.name not in models:
            continue
        for name in family.folds:
            # or another option, not both; distances need places
            either = {"regions": "hops", "sequences": "k", "buffered": "buffer"}
            idle = {"contiguous", either.get(name)}
            taken = [option for option in FOLD_KINDS[name].options if option not in idle]
            options = FoldOptions(**{option: given[option] for option in taken})
            folds = FoldChoice(name, options).build(models[family.name], DATA[family.name])
            assert len(folds) == counts.get(name, {}).get(family.name, 2), name
            assert folds.kind == ("sequences" if name == "sequences" else "sites")


def load_file(path, columns, edges, exposure=None):
    return GRAPHS.load(path, columns, {"edges": edges, "exposure": exposure})


def test_data_sets_are_listed(monkeypatch, tmp_path):
    monkeypatch.setenv("FITONCE_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache"))
    done = run("data", "list")
    assert done.exit_code == 0
    assert "dodgers" in done.stdout
    done = run("data", "fetch", "sids2")
    assert done.exit_code == 2
    assert "is not offered for download" in done.stderr
    (tmp_path / "mocap6").mkdir()
    (tmp_path / "mocap6" / "dataset.npz").write_bytes(b"x")
    assert run("data", "fetch", "mocap6").stdout.strip().endswith("dataset.npz")


def test_what_is_fetched_must_have_its_checksum(monkeypatch, tmp_path):
    """The file at the address is another one: nothing is kept."""
    archive = tmp_path / "other.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("Dodgers.data", "4/10/2005 0:00,3\n")
    source = replace(fetching.SOURCES["dodgers"], url=archive.as_uri())
    monkeypatch.setitem(fetching.SOURCES, "dodgers", source)
    monkeypatch.setenv("FITONCE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def copied(url, known_hash, fname, path, processor, progressbar):
        return processor(str(archive), "download", None)

    monkeypatch.setattr("pooch.retrieve", copied)
    done = run("data", "fetch", "dodgers")
    assert done.exit_code == 2
    assert "has the wrong checksum" in done.stderr
    assert not (tmp_path / "data" / "dodgers" / "Dodgers.data").exists()


def test_exposures_follow_their_rows(tmp_path):
    """Rows are put in the order of a column of dates, and so is what belongs to them."""
    days = pd.date_range("2024-01-01", periods=12)[::-1]
    table = pd.DataFrame({"day": days, "y": range(12), "exposure": range(1, 13)})
    table.to_csv(tmp_path / "y.csv", index=False)
    pd.DataFrame({"i": range(11), "j": range(1, 12)}).to_csv(tmp_path / "e.csv", index=False)
    loaded = load_file(tmp_path / "y.csv", Columns(("y",)), tmp_path / "e.csv", "exposure")
    seen = loaded.data.values[0, :, 0]  # noqa: PD011 - not a DataFrame
    assert (loaded.found["exposure"] == seen + 1).all()


@pytest.mark.slow
def test_orders_are_compared_on_what_all_of_them_score(tmp_path):
    x = np.cumsum(np.random.default_rng(0).normal(size=40))
    pd.DataFrame({"x": x}).to_csv(tmp_path / "x.csv", index=False)
    words = ["select", tmp_path / "x.csv", "--model", "ar-hmm", "--states", "1", "--order", "0..2"]
    done = run(*words, "--folds", "kfold", "--k", "4", "--restarts", "1", "--json", "--no-cache")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["best"] in ("order 1", "order 2")
    assert not found["skipped"]


@pytest.mark.parametrize(("model", "options", "names"), [
    ("crf", {}, ["crf"]),
    ("poisson-hmm", {"states": "2,3"}, ["2 states", "3 states"]),
])  # fmt: skip
def test_candidates_are_named_by_what_varies(model, options, names):
    assert list(chosen(Request(Path("x"), model, options=options))) == names


def test_outputs_have_files_of_their_own(table, tmp_path):
    words = ["cv", table, "--model", "poisson-hmm", *QUICK]
    done = run(*words, "--save", tmp_path / "a", "--report", tmp_path / "a")
    assert done.exit_code == 2
    assert "each output needs a file of its own" in done.stderr
    assert not (tmp_path / "a").exists()


def test_a_picture_of_no_kind_is_refused_before_the_work(table, tmp_path):
    words = ["cv", table, "--model", "poisson-hmm", "--plot", tmp_path / "x.xyz"]
    done = run(*words, "--save", tmp_path / "a.json")
    assert done.exit_code == 2
    assert not (tmp_path / "a.json").exists()


def test_compiled_programs_are_kept_where_the_environment_says(monkeypatch, tmp_path):
    code = (
        "import numpy as np, fitonce as fo\n"
        "from fitonce import compile_cache\n"
        "assert str(compile_cache.use()) == {!r}\n"
        "fo.fit(fo.models.PoissonHMM(1), np.arange(9.0), restarts=1, kernel='scan')\n"
    ).format(str(tmp_path / "kept"))
    environment = os.environ | {"FITONCE_CACHE": str(tmp_path / "kept")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert any((tmp_path / "kept").iterdir())
    monkeypatch.setenv("FITONCE_CACHE", "off")
    from fitonce.core import compile_cache

    assert compile_cache.use() is None


def test_ctrl_c_leaves_a_partial_result(tmp_path):
    """Interrupted in the middle of refits: what there is is printed, saved and called partial."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.tile(np.repeat([2, 9, 5], 50), 20))
    pd.DataFrame({"count": counts}).to_csv(tmp_path / "x.csv", index=False)
    words = ["cv", "x.csv", "--model", "poisson-hmm", "--states", "3", "--restarts", "1", "--n", "4000"]
    words += ["--method", "exact", "--save", "a.json", "--no-cache"]
    code = (
        "import sys; import fitonce.cli.steps as w; old = w.cross_validate\n"
        "def told(*a, **k):\n    print('READY', file=sys.stderr, flush=True); return old(*a, **k)\n"
        "w.cross_validate = told\nfrom fitonce.cli import app; app(sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    while "READY" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "partial result" in told
    found = fo.load(tmp_path / "a.json")
    assert found.about["interrupted"] is True
    assert "an interruption left" in found.treatment
