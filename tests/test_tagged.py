"""Words and tags from tables, JSON lines and files of CRFsuite, and what is refused in them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import fitonce as fo

SENTENCES = [["Ada", "met", 'Mr "B"', "Babbage"], ["She", "lived", "in", "Oslo , then"]] * 4
TAGS = [["B-PER", "O", "B-PER", "I-PER"], ["O", "O", "O", "B-LOC"]] * 4
POS = [["N", "V", "N", "N"], ["P", "V", "A", "N"]] * 4


@pytest.fixture
def written(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def rows(first_only=False):
    table = pd.DataFrame(
        [
            (f"s{n}", word, pos, 1.5 * k, tag)
            for n, (words, kinds, tags) in enumerate(zip(SENTENCES, POS, TAGS, strict=True))
            for k, (word, pos, tag) in enumerate(zip(words, kinds, tags, strict=True))
        ],
        columns=["Sentence #", "Word", "POS", "place", "Tag"],
    )
    if first_only:
        table["Sentence #"] = table["Sentence #"].where(~table["Sentence #"].duplicated())
    return table


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("first_only", [False, True])
def test_a_table_with_a_token_a_row(tmp_path, ending, first_only):
    path = tmp_path / f"some.{ending}"
    table = rows(first_only)
    if ending == "parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    found = fo.read_tagged(path, columns=["POS", "place"])
    assert found.words == SENTENCES
    assert found.tags == TAGS
    assert found.attributes[0][:2] == [{"POS": "N", "place": 0.0}, {"POS": "V", "place": 1.5}]
    assert found.labelled().attributes[:3] == ("POS:N", "place", "POS:V")
    assert fo.read_tagged(path).attributes is None


def test_empty_lines_and_names_of_ones_own(written):
    text = "surface;ner;x\nAda;I-PER;1\nmet;;2\n\n;;\nOslo;I-LOC;3\n"
    found = fo.read_tagged(written("a.csv", text), word="surface", tag="ner", columns=["x"])
    assert found.words == [["Ada", "met"], ["Oslo"]]
    assert found.tags == [["B-PER", None], ["B-LOC"]]
    assert found[1:].attributes == [[{"x": 3.0}]]
    assert repr(found) == "Tagged(2 sentences, 3 words, 2 tags, 1 without a tag)"
    numbers = fo.read_tagged(written("b.csv", "label,x\nA,1\nB,2\n\nA,3\n"), columns=["x"])
    assert numbers.words == [["(0)", "(1)"], ["(0)"]]
    assert numbers.labelled().features.toarray().ravel().tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="features words need words, but the file has none"):
        numbers.labelled("words")


def test_a_quotation_mark_is_a_word_between_tabs(written):
    found = fo.read_tagged(written("a.tsv", 'word\ttag\n"\tO\nno"pe\tO\n\n""""\tO\n'))
    assert found.words == [['"', 'no"pe'], ['"']]


@pytest.mark.parametrize("as_list", [False, True])
def test_json_lines(written, as_list):
    objects = [
        {"id": n, "tokens": words, "ner_tags": [None if tag == "O" else tag for tag in tags], "pos": pos}
        for n, (words, tags, pos) in enumerate(zip(SENTENCES, TAGS, POS, strict=True))
    ]
    objects.insert(1, {"id": 9, "tokens": [], "ner_tags": [], "pos": []})
    text = json.dumps(objects) if as_list else "\n".join(map(json.dumps, objects)) + "\n\n"
    found = fo.read_tagged(written("a.jsonl", text), columns=["pos"])
    assert found.words == SENTENCES
    assert found.tags[0] == ["B-PER", None, "B-PER", "I-PER"]
    assert found.attributes[1][0] == {"pos": "P"}
    own = '{"words": ["a", "b"], "labels": [1, 0], "f": [{"x": 2.0, "w": "a"}, ["b"]]}\n' * 2
    named = fo.read_tagged(written("b.jsonl", own), columns=["f"])
    assert named.tags == [["1", "0"]] * 2
    assert named.labelled().attributes == ("x", "w:a", "b")


def test_files_of_crfsuite_are_read_as_crfsuite_does(written, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    text = "B-NP\tw[0]=An\tpos[0]=DT:2\ta\\:b:0.5\tc\\\\\tw[0]=An\nO\tw[0]=x\n\nB-VP\tw[0]=met\n"
    found = fo.read_tagged(written("a.crfsuite", text))
    assert found.tags == [["B-NP", "O"], ["B-VP"]]
    assert found.words == [["An", "x"], ["met"]]
    first = found.attributes[0][0]
    assert first == {"w[0]=An": 2.0, "pos[0]=DT": 2.0, "a:b": 0.5, "c\\": 1.0}
    items = pycrfsuite.ItemSequence([{"w[0]=An": 2.0, "pos[0]=DT": 2.0, "a:b": 0.5, "c\\": 1.0}])
    assert items.items()[0] == first
    assert found.labelled().attributes == ("w[0]=An", "pos[0]=DT", "a:b", "c\\", "w[0]=x", "w[0]=met")


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", "x,y\n1,2\n", {}, "must have a column of tags, such as 'tag' or 'label', got x, y"),
        ("a.csv", "tag,y\n1,2\n", {}, "must have a column of words, such as 'word' or 'token'"),
        ("a.csv", "word,tag\na,O\nb,O\n", {}, "no empty lines and no column that tells sentences apart"),
        ("a.csv", "word,tag,sentence\na,O,1\nb,O,2\nc,O,1\n", {}, "row 4: sentence '1' begins again"),
        ("a.csv", "word,tag,sentence\na,O,\nb,O,2\n", {}, "the first row names no sentence"),
        ("a.csv", "word,tag\na,O,3\n\nb,O\n", {}, "row 2: expected 2 cells, as the first line"),
        ("a.csv", "word,word\na,O\n", {}, "two columns named 'word'"),
        ("a.csv", "word,tag\na,O\n\n,O\n", {}, "sentence 1 has a row without a word"),
        ("a.csv", "word,tag\na,O\n\nb,O\n", {"tag": "ner"}, r"no column 'ner' \(tag\); columns are"),
        ("a.csv", "word,tag\n", {}, "holds no sentences"),
        ("a.csv", "\n", {}, "must not be empty"),
        ("a.csv", "word,tag\nÄ,O\n".encode("latin-1"), {}, "byte 9 is not; name its encoding, such as"),
        ("a.csv", "word,tag\nÄ,O\n".encode("utf-16"), {}, "name its encoding, such as utf-16"),
        ("a.csv", b"word,tag\na\0,O\n", {}, "has zero bytes"),
        ("a.csv", "word,tag\na,O\n", {"encoding": "klingon"}, "one that Python knows, got 'klingon'"),
        ("a.csv", "word,tag\na,O\n", {"format": "xml"}, "one of conll, csv, jsonl, crfsuite, got 'xml'"),
        ("a.csv", "word,tag\na,O\n", {"scheme": "x"}, "scheme must be"),
        ("a.csv", "word,tag\na,O\n", {"columns": "pos"}, "columns must be a list of columns, got 'pos'"),
        ("a.jsonl", '{"tokens":["a"],"tags":["O","O"]}', {}, "expected as many tags as tokens, 1"),
        ("a.jsonl", '{"tokens":["a"],"tags":["O"],"p":[]}', {"columns": ["p"]}, "as many p as tokens"),
        ("a.jsonl", '{"tokens":"a b","tags":["O"]}', {}, "expected a list in 'tokens', got str"),
        ("a.jsonl", '{"tokens":["a"]}', {}, "expected a list of tags, such as 'tags', got tokens"),
        ("a.jsonl", '{"tokens":["a"],"tags":["O"]}', {"word": "w"}, "a list of tokens, 'w', got tokens"),
        ("a.jsonl", '{"tokens":[3],"tags":["O"]}', {}, "tokens must be text, got 3"),
        ("a.jsonl", '{"tokens":["a"],"tags":[[1]]}', {}, "tags must be text, numbers or null"),
        ("a.jsonl", '{"tokens"', {}, "line 1 is not JSON"),
        ("a.jsonl", "[{]", {}, "is not JSON"),
        ("a.jsonl", "[3]", {}, "entry 0: expected an object, got int"),
        ("a.jsonl", "", {}, "holds no sentences"),
        ("a.jsonl", "{}", {"sentence": "s"}, r"sentence \(--group\) is for tables"),
        ("a.crfsuite", "O\ta:x\n", {}, r"expected a number after the colon .* got 'a:x'"),
        ("a.crfsuite", "O a b\n", {}, "expected a tag and attributes between tabs, got 'O a b'"),
        ("a.crfsuite", "\ta\n", {}, "expected a tag before the first tab"),
        ("a.crfsuite", "O\ta\n", {"word": "w"}, "word is for files with columns"),
        ("a.conll", "a O\n", {"word": "w"}, "columns of CoNLL files have numbers, from 0, got 'w'"),
        ("a.conll", "a O\n", {"columns": [5]}, r"too few for word=0, tag=-1, columns=\[5\]"),
        ("a.conll", "a O\n", {"sentence": "s"}, "empty lines separate those of CoNLL files"),
        ("a.xyz", "a O\n", {}, "got a.xyz; name its format, one of conll, csv"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(written, name, content, options, message):
    with pytest.raises(ValueError, match=message):
        fo.read_tagged(written(name, content), **options)


def test_columns_of_conll_are_attributes(written):
    found = fo.read_tagged(written("a.txt", "EU NNP I-ORG\nhas VBZ O\n\nX Y O\n"), "conll", columns=[1])
    assert found.attributes == [[{"column1": "NNP"}, {"column1": "VBZ"}], [{"column1": "Y"}]]
    assert found.tags == [["B-ORG", "O"], ["O"]]


def test_features_by_name(written):
    found = fo.Tagged(SENTENCES, TAGS, [[{"pos": p} for p in row] for row in POS])
    vectors = fo.WordVectors(("ada", "oslo"), np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert not found.labelled("shapes").is_sparse
    np.testing.assert_array_equal(
        found.labelled("shapes").features, np.concatenate(fo.word_features(SENTENCES))
    )
    np.testing.assert_array_equal(
        found.labelled("vectors", vectors=vectors).features[0], [1.0, 2.0, 0.0]
    )
    assert found.labelled().attributes == ("pos:N", "pos:V", "pos:P", "pos:A")
    words = found.labelled("words")
    assert words.is_sparse
    assert {"word:ada", "pattern:Xxx", "begins:ad", "ends:da", "before:edge", "after:word:met"} <= set(
        words.attributes
    )
    both = found.labelled(["words", "columns", "shapes"], vectors=vectors)
    assert {"0:word:ada", "1:pos:N", "2:number0"} <= set(both.attributes)
    again = found[:1].labelled("words", like=words)
    assert (again.attributes, again.tags) == (words.attributes, words.tags)
    for wrong, message in (
        ("letters", "features must be among words, shapes, vectors, columns, got 'letters'"),
        ([], "features must be some of"),
        ("vectors", "needs a file of word vectors, got none"),
    ):
        with pytest.raises(ValueError, match=message):
            found.labelled(wrong)
    with pytest.raises(ValueError, match="needs columns beside words and tags, got none"):
        fo.Tagged(SENTENCES, TAGS).labelled("columns")
    with pytest.raises(ValueError, match="sentence 1 is empty"):
        fo.word_attributes([["a"], []])
    with pytest.raises(ValueError, match="shapes=False needs vectors"):
        fo.word_features(SENTENCES, shapes=False)


def test_a_semicolon_within_a_quoted_name_separates_nothing(written):
    read = fo.read_tagged(written("tokens.csv", '"a;b",word,tag\n1,Ada,B-PER\n2,met,O\n\n3,Ada,B-PER\n'))
    assert read.words == [["Ada", "met"], ["Ada"]]
    assert read.tags == [["B-PER", "O"], ["B-PER"]]
