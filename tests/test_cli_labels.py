"""A tagging corpus on the command line: files of any kind, scores, suspects."""

from __future__ import annotations

import io
import json
import re

import pandas as pd
import pytest

import fitonce as fo
from commanding import run, said

WORDS = [["Ada", "met", "Mr", "Babbage"], ["She", "lived", "in", "Oslo"], ["Bob", "left"]] * 5
TAGS = [["B-PER", "O", "B-PER", "I-PER"], ["O", "O", "O", "B-LOC"], ["B-PER", "O"]] * 5
COMMAND = ["--model", "crf", "--restarts", "1", "--folds", "sequences", "--k", "3", "--no-cache"]


@pytest.fixture
def corpus(tmp_path):
    """The same sentences as files of every kind."""
    pairs = [list(zip(*each, strict=True)) for each in zip(WORDS, TAGS, strict=True)]
    conll = "\n\n".join("\n".join(map("\t".join, pair)) for pair in pairs) + "\n"
    table = [(n, word, word[-1], tag) for n, pair in enumerate(pairs) for word, tag in pair]
    crfsuite = "\n\n".join("\n".join(f"{tag}\tw[0]={word}" for word, tag in pair) for pair in pairs)
    lines = [json.dumps({"tokens": w, "tags": t}) for w, t in zip(WORDS, TAGS, strict=True)]
    (tmp_path / "a.conll").write_text(conll)
    pd.DataFrame(table, columns=["nr", "surface", "last", "ner"]).to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "a.crfsuite").write_text(crfsuite + "\n")
    return tmp_path


OWN_NAMES = ["--group", "nr", "--word-column", "surface", "--tag-column", "ner"]


def test_every_kind_of_file_gives_the_same_scores(corpus):
    files = {"a.conll": [], "a.csv": OWN_NAMES, "a.jsonl": []}
    found = []
    for name, options in files.items():
        text = said("cv", corpus / name, *COMMAND, *options, "--features", "words", "--json")
        document = json.loads(text)
        found.append([document[key] for key in ("label_scores", "confusion", "suspects", "estimate")])
    assert found[0] == found[1] == found[2]
    scores = pd.DataFrame(found[0][0])
    assert {"accuracy", "precision", "recall", "f1"} == set(scores["score"])
    data = fo.read_tagged(corpus / "a.conll").labelled("words")
    fit = fo.fit(fo.models.LinearChainCRF(support="iob2"), data)
    cv = fo.cross_validate(fit, fo.folds.structures(data, k=3))
    row = scores[(scores["of"] == "entities") & (scores["name"] == "all") & (scores["score"] == "f1")]
    assert row["value"].item() == pytest.approx(cv.label_scores().entity_f1.value)


def test_scores_and_suspects_are_printed_and_saved(corpus):
    wrong = (corpus / "a.conll").read_text().replace("left\tO", "left\tB-LOC", 1)
    (corpus / "wrong.conll").write_text(wrong)
    text = said(
        "cv", corpus / "wrong.conll", *COMMAND, "--features", "words", "--suspects", 1,
        "--save", corpus / "cv.json",
    )  # fmt: skip
    assert "entity F1" in text
    assert "The 1 most suspicious of 50 held-out labels" in text
    assert "sequence 2: Bob [left]" in text
    assert "[left] labelled B-LOC" in text
    assert fo.load(corpus / "cv.json").suspects(1).table["word"].tolist() == ["left"]
    assert "B-LOC -> O " in text.split("By kind, given -> predicted")[1]
    one = ["--label", "LOC", "--rather", "O"]
    document = json.loads(said("cv", corpus / "wrong.conll", *COMMAND, *one, "--json"))
    assert {(row["label"], row["rather"]) for row in document["suspect_kinds"]} == {("B-LOC", "O")}
    assert {row["label"] for row in document["suspects"]} == {"B-LOC"}
    table = corpus / "audit.csv"
    words = ["influence", corpus / "wrong.conll", "--model", "crf", *one, "--save", table, "--json"]
    audited = json.loads(said(*words))
    assert {row["label"] for row in audited["rows"]} == {"B-LOC"}
    assert audited["wrote"] == [str(table)]
    quiet = said("cv", corpus / "wrong.conll", *COMMAND, "--quiet")
    assert len(quiet.strip().split("\n")) == 1
    none = said("cv", corpus / "wrong.conll", *COMMAND, "--suspects", 0)
    assert "suspicious" not in none
    every = json.loads(said("loo", corpus / "wrong.conll", "--model", "crf", "--json"))
    assert every["suspects"][0]["word"] == "left"


def test_attributes_and_columns(corpus):
    crfsuite = said("cv", corpus / "a.crfsuite", *COMMAND)
    assert "Labelled(15 sequences of 2 to 4 tokens, 10 features" in crfsuite
    columns = said("cv", corpus / "a.csv", *COMMAND, *OWN_NAMES, "--columns", "last")
    assert "Labelled(15 sequences of 2 to 4 tokens, 8 features" in columns
    (corpus / "v.txt").write_text("ada 1 2\noslo 3 4\n")
    vectors = said("cv", corpus / "a.conll", *COMMAND, "--vectors", corpus / "v.txt")
    assert "33 features" in vectors  # 30 shapes, two numbers, and whether there are any


@pytest.mark.parametrize("features", ["words", "shapes"])
def test_a_fit_decodes_other_files_with_its_own_features(corpus, features, monkeypatch):
    monkeypatch.chdir(corpus)
    said("fit", "a.conll", "--model", "crf", "--features", features, "--save", "fit.json")
    (corpus / "new.csv").write_text("sentence,word,tag\n1,Ada,NEW\n1,met,\n2,Oslo,x\n")
    found = pd.read_csv(io.StringIO(said("decode", "fit.json", "new.csv", "--csv")))
    expected = fo.predict(
        fo.load("fit.json"),
        fo.Tagged([["Ada", "met"], ["Oslo"]], [["O", "O"], ["O"]]).labelled(
            features, like=fo.load("fit.json").data
        ),
    )
    assert found["tag"].tolist() == [tag for tags in expected for tag in tags]
    if features == "words":
        assert found["tag"].iloc[0] == "B-PER"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("cv a.csv --model crf", "must have a column of words, such as 'word' or 'token', or"),
        ("cv a.csv --model crf --tag-column ner --word-column x", r"no column 'x' \(word\)"),
        ("cv a.conll --model crf --features letters", "features must be among words, shapes"),
        ("cv a.conll --model crf --time t", "--time is for tables of numbers, got words and tags"),
        ("cv a.conll --model crf --no-gaps", "--no-gaps is for tables of numbers"),
        ("cv a.conll --model crf --format xml", "format must be one of conll"),
        ("cv a.conll --model crf --scale 0", "scale must be a number between"),
        ("cv a.conll --model crf --encoding x", "encoding must be one that Python knows"),
        ("cv a.conll --model crf --vectors nowhere.txt", "a file of word vectors"),
        ("cv a.jsonl --model poisson-hmm", "a .jsonl file is for --model crf"),
        ("cv a.csv --model poisson-hmm --columns nr --suspects 3", "--suspects is for models of labels"),
        (
            "select a.csv --model poisson-hmm,gaussian-hmm --columns nr",
            "fitonce compare poisson-hmm.json",
        ),
        ("cv a.csv --model poisson-hmm --columns nr --rather x", "--rather is for models of labels"),
        ("cv a.conll --model crf --label PLACE", "--label must be one of the tags .* a type: LOC, PER"),
        ("cv a.csv --model poisson-hmm --columns nr --features words", "--features is for crf"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(corpus, monkeypatch, words, message):
    monkeypatch.chdir(corpus)
    done = run(*words.split())
    assert done.exit_code == 2, done.output
    assert re.search(message, done.stderr), done.stderr


def test_several_kinds_of_features_cannot_be_told_from_a_fit(corpus, monkeypatch):
    monkeypatch.chdir(corpus)
    said("fit", "a.conll", "--model", "crf", "--features", "words,shapes", "--save", "fit.json")
    done = run("decode", "fit.json", "a.conll")
    assert done.exit_code == 2
    assert "features of several kinds cannot be told from a fit" in done.stderr
