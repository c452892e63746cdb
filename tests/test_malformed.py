"""Two hundred malformed inputs: one sentence, exit code 2, no traceback, and nothing is lost."""

from __future__ import annotations

import io
import json
import os
import zipfile

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fitonce as fo
from canonical import COUNTS, poisson_fit
from fitonce.cli import app

CV = ["cv", "FILE", "--model", "poisson-hmm", "--restarts", "1", "--n", "3", "--no-cache"]


def check(words, keep=None):
    """Run; `keep`: a file that must stay as it is."""
    before = keep.read_bytes() if keep is not None else None
    done = CliRunner().invoke(app, [str(word) for word in words])
    told = done.stderr
    assert done.exit_code == 2, f"{words}: exit {done.exit_code}\n{done.output}"
    assert "Traceback" not in done.output
    assert "went wrong" not in told, told
    ours = [line for line in told.split("\n") if line.startswith("fitonce: ")]
    ours = [line for line in ours if not line.endswith(" so far")]  # progress on a slow machine
    usage = "Usage:" in told or "Error \u2500" in told  # what typer refuses itself
    assert usage or len(ours) == 1, told
    assert usage or len(ours[0]) < 700
    if keep is not None:
        assert keep.read_bytes() == before
    return told


def of_file(path, *more):
    return [path if word == "FILE" else word for word in CV] + list(more)


TEXTS = {
    "nothing": b"",
    "spaces": b"   \n \n",
    "a header alone": b"a,b,c\n",
    "words": b"a\nx\ny\nz\n",
    "only missing": b"a,b\n,\n,\n",
    "ragged": b"a,b\n1,2\n1,2,3,4\n",
    "a quote that never ends": b'a,b\n1,"2\n3,4\n',
    "zero bytes": b"a,b\n1,\0\n",
    "latin-1": "a\nstra\xdfe\n".encode("latin-1"),
    "utf-16": "a\n1\n2\n".encode("utf-16"),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "infinity": b"a\n1\ninf\n3\n",
    "minus infinity": b"a\n1\n-inf\n3\n",
    "negative counts": b"a\n1\n-4\n3\n7\n",
    "halves of counts": b"a\n1\n2.5\n3\n7\n",
    "two columns of one name": b"a,a\n1,2\n3,4\n",
    "one row": b"a\n3\n",
    "html": b"<html><body>404</body></html>\n",
    "json": b'{"a": [1, 2, 3]}\n',
    "a huge number": b"a\n1\n1e400\n3\n",
    "complex numbers": b"a\n1+2j\n2\n3\n",
    "dates alone": b"day\n2024-01-01\n2024-01-02\n",
}


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt"])
@pytest.mark.parametrize("name", list(TEXTS))
def test_malformed_text(tmp_path, name, ending):
    path = tmp_path / f"x{ending}"
    path.write_bytes(TEXTS[name])
    keep = tmp_path / "out.json"
    keep.write_text("mine")
    check(of_file(path, "--save", keep, "--force"), keep)  # allowed to replace it, with a result


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "x.csv"
    who = ["a"] * 30 + ["b"] * 30
    frame = pd.DataFrame({"t": range(60), "count": np.arange(60) % 5, "who": who})
    frame.to_csv(path, index=False)
    return path


FLAGS = [
    ["--model", "poisson"], ["--model", ""], ["--model", "crf"], ["--model", "potts-poisson"],
    ["--states", "0"], ["--states", "-1"], ["--states", "x"], ["--states", "2.5"], ["--states", ""],
    ["--folds", "block"], ["--folds", "regions"], ["--folds", "buffered"], ["--folds", "sequences"],
    ["--percent", "0"], ["--percent", "100"], ["--percent", "-5"], ["--percent", "x"],
    ["--percent", "nan"], ["--percent", "0.001"], ["--n", "0"], ["--n", "-3"], ["--n", "x"],
    ["--folds", "kfold", "--k", "1"], ["--folds", "kfold", "--k", "1000"],
    ["--folds", "future", "--percent", "0"], ["--folds", "future", "--horizon", "0"],
    ["--method", "magic"], ["--scheme", "Z"], ["--scheme", "C"], ["--loss", "brier"],
    ["--max-seconds", "-1"], ["--max-seconds", "5", "--method", "ij"],
    ["--seed", "-1"], ["--seed", "x"], ["--restarts", "0"], ["--restarts", "-2"],
    ["--columns", "nope"], ["--columns", ""], ["--columns", "count,count2"], ["--columns", "who"],
    ["--time", "nope"], ["--time", "who"], ["--time", "count"], ["--group", "nope"],
    ["--from", "soon"], ["--to", "x", "--time", "t"], ["--from", "99", "--time", "t"],
    ["--missing", "x"], ["--edges", "nope.csv"], ["--exposure", "count"], ["--beta", "x"],
    ["--save", "no/such/folder/a.json"], ["--report", "no/such/folder/a.html"], ["--save", "."],
    ["--plot", "no/such/folder/a.png"], ["--frobnicate"], ["--states"],
    ["--order", "2"], ["--beta", "0.5"], ["--steps-per-day", "24"], ["--hops", "2"], ["--horizon", "3"],
    ["--k", "4"], ["--folds", "kfold", "--percent", "5"], ["--folds", "points", "--n", "3"],
]  # fmt: skip


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_wrong_flags(table, flags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = of_file(table)
    if flags == ["--beta", "x"]:
        pd.DataFrame({"i": range(59), "j": range(1, 60)}).to_csv("e.csv", index=False)
        words += ["--model", "potts-poisson", "--columns", "count", "--edges", "e.csv"]
    check([*words, *flags], table)


NO_FILE = [
    ["cv"], ["cv", "nope.csv", "--model", "poisson-hmm"], ["cv", ".", "--model", "poisson-hmm"],
    ["cv", "x.xlsx", "--model", "poisson-hmm"], ["select"], ["select", "x.csv"],
    ["select", "nope.csv", "--model", "poisson-hmm", "--states", "1..x"],
    ["select", "nope.csv", "--model", "poisson-hmm", "--states", "4..1"],
    ["select", "nope.csv", "--model", "poisson-hmm", "--states", "1..5000"],
    ["select", "nope.csv", "--model", "poisson-hmm", "--states", ""],
    ["compare"], ["compare", "a.json"], ["compare", "a.json", "b.json"], ["compare", ".", "."],
    ["compare", "a.json", "a.json"],
    ["report"], ["report", "nope.json", "x.html"], ["influence"], ["loo", "nope.csv"],
    ["data", "fetch", "nope"], ["data", "frob"], ["data", "fetch"], ["frob"], ["--frob"],
    ["reproduce", "nope"], ["demo", "--folds", "0"], ["demo", "--percent", "0"],
    ["demo", "--data", "nope"], ["demo", "--plot", "no/such/x.png"], ["demo", "--method", "x"],
    ["demo", "--seed", "-1"],
]  # fmt: skip


@pytest.mark.parametrize("words", NO_FILE, ids=" ".join)
def test_commands_without_what_they_need(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(words)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    cv = fo.cross_validate(poisson_fit(), fo.folds.blocks(COUNTS, percent=20, n=3))
    return cv.save(tmp_path_factory.mktemp("saved") / "a.json")


@pytest.mark.parametrize("part", np.linspace(0.0, 0.995, 20).tolist())
def test_truncated_saves(saved, tmp_path, part):
    content = saved.read_bytes()
    path = tmp_path / "b.json"
    path.write_bytes(content[: int(part * len(content))])
    check(["compare", saved, path], saved)


CHANGED = [
    ("format", 7), ("version", "x"), ("version", None), ("method", 3.5), ("scheme", []), ("loss", {}),
    ("estimate", "x"), ("se", {"a": 1}), ("error", "x"), ("folds", []), ("folds", {}),
    ("pointwise", None), ("pointwise", {"loss": ["a"]}), ("theta", 3.5), ("theta", {"dtype": "<f8"}),
    ("fit", "x"), ("fit", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), CHANGED, ids=str)
def test_saves_with_changed_fields(saved, tmp_path, name, value):
    document = json.loads(saved.read_text())
    assert name in document
    document[name] = value
    path = tmp_path / "b.json"
    path.write_text(json.dumps(document))
    check(["report", path, tmp_path / "r.html"])
    assert not (tmp_path / "r.html").exists()


def header_claiming(shape):
    """A .npy file whose header claims an array that is not there."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue() + b"\0" * 64


@pytest.mark.parametrize("kind", ["claims 2 GB", "not a zip", "a zip of nothing", "cut", "objects",
                                  "three axes", "lengths", "text"])  # fmt: skip
def test_malformed_arrays(tmp_path, kind):
    path = tmp_path / "x.npz"
    if kind == "claims 2 GB":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", header_claiming((2**28,)))
    elif kind == "not a zip":
        path.write_bytes(b"PK\x03\x04" + b"x" * 50)
    elif kind == "a zip of nothing":
        zipfile.ZipFile(path, "w").close()
    elif kind == "cut":
        np.savez(path, x=np.arange(100.0))
        path.write_bytes(path.read_bytes()[:200])
    elif kind == "objects":
        np.savez(path, x=np.array([{}, 1], object))
    elif kind == "three axes":
        np.savez(path, x=np.zeros((2, 3, 4)))
    elif kind == "lengths":
        np.savez(path, x=np.zeros(3), y=np.zeros(4))
    else:
        np.savez(path, x=np.array(["a", "b"]))
    check(of_file(path))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"x" * 100 + b"PAR1", b"a,b\n1,2\n"])
def test_malformed_parquet(tmp_path, content):
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    check(of_file(path))


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"\xff\xfe", b"word\n", b"a b\nc\n", b"a O\n\nb X Y Z\n"]
)
def test_malformed_conll(tmp_path, content):
    path = tmp_path / "x.conll"
    path.write_bytes(content)
    check(["cv", path, "--model", "crf"])


@pytest.mark.parametrize("content", [b"", b"a\n1\n", b"i,j\n0,x\n", b"i,j\n0,0.5\n", b"i,j\n0,99\n",
                                     b"i,j\n-1,2\n", b"i,j\n1,1\n"])  # fmt: skip
def test_malformed_edges(table, tmp_path, content):
    path = tmp_path / "e.csv"
    path.write_bytes(content)
    check(of_file(table, "--model", "potts-poisson", "--columns", "count", "--edges", path))


def test_a_file_that_may_not_be_opened(table, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied", str(table))

    monkeypatch.setattr("pathlib.Path.open", refuse)
    assert "cannot be opened: Permission denied" in check(of_file(table))


def test_a_folder_that_may_not_be_written_to(table, tmp_path, monkeypatch):
    allowed = os.access
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK and allowed(path, mode))
    assert "is not writable" in check(of_file(table, "--save", tmp_path / "a.json"))
