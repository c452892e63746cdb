"""Files of words and tags, features of words, and what labelled data is refused for."""

from __future__ import annotations

import numpy as np
import pytest

import fitonce as fo
from conftest import shared
from fitonce.data.tagged import to_iob2

CRF = fo.models.LinearChainCRF


@pytest.fixture
def read(tmp_path):
    def write_and_read(text, **options):
        path = tmp_path / "some.conll"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return fo.read_conll(path, **options)

    return write_and_read


@pytest.mark.parametrize(
    ("iob1", "iob2"),
    [
        ("O O", "O O"),
        ("I-X I-X O I-Y", "B-X I-X O B-Y"),
        ("I-X B-X I-X", "B-X B-X I-X"),
        ("I-X I-Y I-Y B-Y", "B-X B-Y I-Y B-Y"),
        ("B-X I-X", "B-X I-X"),
        ("B-X I-Y", "B-X B-Y"),
        ("O I-X", "O B-X"),
    ],
)
def test_every_entity_begins_with_b(iob1, iob2):
    assert to_iob2(iob1.split()) == iob2.split()
    assert to_iob2(iob2.split()) == iob2.split()


def test_iob1_is_told_by_an_entity_that_begins_inside(read):
    text = "a I-X\nb I-X\nc B-X\n\nd O\n"
    assert read(text).tags == [["B-X", "I-X", "B-X"], ["O"]]
    assert read(text, scheme="iob1").tags == [["B-X", "I-X", "B-X"], ["O"]]
    assert read(text, scheme="iob2").tags == [["I-X", "I-X", "B-X"], ["O"]]
    assert read("a B-X\nb I-X\n").tags == [["B-X", "I-X"]]


def test_four_columns_of_conll_2003(read):
    text = (
        "-DOCSTART- -X- -X- O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP I-MISC\n\n"
        "-DOCSTART- -X- O O\n\nPeter NNP I-NP I-PER\n"
    )
    found = read(text)
    assert found.words == [["EU", "rejects", "German"], ["Peter"]]
    assert found.tags == [["B-ORG", "O", "B-MISC"], ["B-PER"]]
    assert found.tag_names == ("O", "B-MISC", "B-ORG", "B-PER")
    assert repr(found) == "Tagged(2 sentences, 4 words, 4 tags)"
    assert len(found) == 2
    chunks = read(text, tag=2)
    assert chunks.tags == [["B-NP", "B-VP", "B-NP"], ["B-NP"]]
    assert read(text, word=1).words == [["NNP", "VBZ", "JJ"], ["NNP"]]


def test_comments_and_numbered_words_of_universal_ner(read):
    text = (
        "# newdoc id = one\n# sent_id = 1\n# text = in Rio 2\n"
        "1\tin\tO\n2\tRio\tB-LOC\n3\t2\tO\n\n# text = Rio\n1\tRio\tB-LOC\n\n"
    )
    found = read(text)
    assert found.words == [["in", "Rio", "2"], ["Rio"]]
    assert found.tags == [["O", "B-LOC", "O"], ["B-LOC"]]
    assert read(text, word=0).words == [["1", "2", "3"], ["1"]]
    more = "1\tin\tO\t-\tsomeone\n2\tRio\tB-LOC\t-\tsomeone\n"
    assert read(more, tag=2).tags == [["O", "B-LOC"]]
    assert read(more, tag=2).words == [["in", "Rio"]]


def test_words_that_are_numbers_are_words(read):
    assert read("1 O\n2 O\n").words == [["1", "2"]]
    assert read("1\tCD\tO\n3\tCD\tO\n").words == [["1", "3"]]


def test_lines_of_tabs_and_spaces_end_a_sentence(read):
    found = read("@paul\tO\nLondon\tB-location\n\t\n  \nEye\tO\n \t \n\n\n")
    assert found.words == [["@paul", "London"], ["Eye"]]
    assert found.tags == [["O", "B-location"], ["O"]]


def test_windows_lines_and_words_with_spaces(read):
    found = read("New York\tB-X\r\nis\tO\r\n\r\nfar\tO\r\n")
    assert found.words == [["New York", "is"], ["far"]]
    assert found.tags == [["B-X", "O"], ["O"]]


def test_a_hash_with_a_tag_is_a_word(read):
    """In newspapers of CoNLL-2000 it is the sign of the pound."""
    assert read("#\tO\n#Oslo\tB-X\n").words == [["#", "#Oslo"]]
    assert read("# # B-NP\n3 CD I-NP\n").words == [["#", "3"]]
    assert read("a O\n# O\n").words == [["a", "#"]]


def test_a_comment_is_none_of_the_words_whatever_it_ends_in(read):
    lines = "# text = He gave type O\n# newdoc O\n# text = a\tb\n1\tHe\tO\n2\tgave\tO\n"
    assert read(lines).words == [["He", "gave"]]


@pytest.mark.parametrize("mark", ["\u2028", "\u0085"])
def test_only_ends_of_lines_end_lines(read, mark):
    """Marks that str.splitlines() takes for ends of lines occur inside words of the web."""
    assert read(f"a{mark}b\tO\nc\tO\n").words == [[f"a{mark}b", "c"]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a O\nb\n", r"some\.conll, line 2: expected a word and a tag, got 'b'"),
        ("a\tO\nb\t\n", r"line 2: expected a word and a tag, got 'b\\t'"),
        ("", "holds no sentences: expected lines of a word and a tag"),
        ("\n\t\n# nothing\n-DOCSTART- O\n", "holds no sentences"),
        (b"caf\xe9 O\n", r"some\.conll must be UTF-8 text, but byte 3 is not"),
    ],
)
def test_files_that_are_refused(read, text, sentence):
    with pytest.raises(ValueError, match=sentence):
        read(text)


def test_columns_and_schemes_that_are_refused(read, tmp_path):
    with pytest.raises(ValueError, match=r"line 2: expected 3 columns as in most lines, got 'b O'"):
        read("a X O\nb O\n", tag=2)
    with pytest.raises(ValueError, match=r"too few for word=5, tag=-1"):
        read("a O\n", word=5)
    with pytest.raises(ValueError, match=r"scheme must be one of .*, got 'bioes'"):
        read("a O\n", scheme="bioes")
    with pytest.raises(
        ValueError, match=r"expected the path of a file of words and tags, found none at .*gone"
    ):
        fo.read_conll(tmp_path / "gone")
    with pytest.raises(ValueError, match="found none at"):
        fo.read_conll(tmp_path)


@pytest.mark.parametrize(
    ("where", "sentences", "tags"),
    [
        (("wnut17", "wnut17train.conll"), 3394, 13),
        (("wnut17", "emerging.dev.conll"), 1009, 13),
        (("wnut17", "emerging.test.annotated"), 1287, 13),
        (("uner_ewt", "en_ewt-ud-train.prelim-0c7ce0d.iob2"), 12_543, 7),
        (("uner_ewt", "en_ewt-ud-dev.iob2"), 2001, 7),
        (("uner_ewt", "en_ewt-ud-test.iob2"), 2077, 7),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else None,
)
def test_the_stored_corpora_have_their_published_sizes(where, sentences, tags):
    found = fo.read_conll(shared("data", *where))
    assert len(found) == sentences
    assert len(found.tag_names) == tags
    assert all(len(w) == len(t) > 0 for w, t in zip(found.words, found.tags, strict=True))
    # They are in IOB2, so that its support holds, and no word is the number of another column.
    assert all(to_iob2(row) == row for row in found.tags)
    assert not all(word.isdigit() for word in found.words[0])
    raw = shared("data", *where).read_text(encoding="utf-8").split("\n")
    lines = [line for line in raw if line.strip() and not line.startswith("# ")]
    assert sum(map(len, found.words)) == len(lines)


def test_a_corpus_becomes_labelled_data(read):
    found = read("Rio NNP B-LOC\nis VBZ O\n\nIn IN O\nNew NNP B-LOC\nYork NNP I-LOC\n")
    features = fo.word_features(found.words)
    data = fo.labelled(features, found.tags, tags=found.tag_names, words=found.words)
    assert data.tags == ("O", "B-LOC", "I-LOC")
    assert data.labels.tolist() == [1, 0, 0, 1, 2]
    assert data.words_of(1) == ["In", "New", "York"]
    assert data.lengths.tolist() == [2, 3]
    assert "2 sequences of 2 to 3 tokens" in repr(data)
    assert CRF(support="iob2").prepare(data) is data


def parts(*lengths, width=2):
    return [np.arange(length * width, dtype=float).reshape(length, width) for length in lengths]


def test_labels_that_are_not_known():
    data = fo.labelled(parts(3, 2), [["b", None, ""], [float("nan"), "a"]])
    assert data.tags == ("a", "b")
    assert data.labels.tolist() == [1, -1, -1, -1, 0]
    assert data.weights.tolist() == [1, 0, 0, 0, 1]
    numbers = fo.labelled(np.zeros((2, 2, 1)), [[10, -1], [2, 0]])
    assert numbers.tags == ("0", "2", "10")
    assert numbers.labels.tolist() == [2, -1, 1, 0]
    assert "1 of 4 labels unknown" in repr(numbers)
    assert numbers.words_of(1) == ["(0)", "(1)"]


def test_integers_are_the_same_tags_where_nan_makes_them_floats():
    data = fo.labelled(parts(3, 2), [np.array([0.0, np.nan, 10.0]), np.array([0, 2])], tags=[0, 2, 10])
    assert data.labels.tolist() == [0, -1, 2, 0, 1]
    assert fo.labelled(parts(2, 1), [np.array([0.0, np.nan]), [0]]).tags == ("0",)


@pytest.mark.parametrize(
    ("features", "labels", "options", "sentence"),
    [
        (parts(2), [["a", "c"]], {"tags": ["a", "b"]},
         "label of sequence 0, token 1 is 'c', which is not one of the 2 tags a, b"),
        (parts(2, 3), [["a", "b"], ["a", "a", "z"]], {"tags": ["a", "b"]},
         "label of sequence 1, token 2 is 'z'"),
        ([np.zeros((2, 2)), np.zeros((0, 2))], [["a", "b"], []], {}, "sequence 1 is empty"),
        ([[]], [[]], {}, "sequence 0 is empty"),
        ([np.array([[0.0, np.nan]])], [["a"]], {},
         "features must be finite, got nan in sequence 0, token 0, feature 1"),
        ([np.array([[0.0], [np.inf]])], [["a", "b"]], {}, "got inf in sequence 0, token 1, feature 0"),
        (parts(2, 2), [["a", "b"]], {}, "labels must have one entry for each of 2 sequences, got 1"),
        (parts(2), [["a", "b", "a"]], {}, r"labels of sequence 0 must be a list of 2.*got \(3,\)"),
        (parts(2), ["ab"], {}, "labels of sequence 0 must be a list of 2, one per token, got 'ab'"),
        (parts(2), [3], {}, r"labels of sequence 0 must be a list of 2, one per token, got \(\)"),
        ([np.zeros((2, 2)), np.zeros((1, 3))], [["a", "b"], ["a"]], {},
         r"every token must have the same number of features, got \[2, 3\]"),
        ([np.zeros(3)], [["a"] * 3], {},
         r"features of sequence 0 must have shape \(tokens, features\), got \(3,\)"),
        ([[[1.0, "y"]]], [["a"]], {}, "features of sequence 0 must be numbers, got list"),
        ([], [], {}, "features must hold at least one sequence, got none"),
        (np.zeros((3, 2)), [["a"] * 3], {}, "list with an entry per sequence, got a single table"),
        (7, [["a"]], {}, "features must be a list with an entry per sequence, got int"),
        (parts(1), "a", {}, "labels must be a list with an entry per sequence, got str"),
        (parts(2), [[None, ""]], {}, "labels must hold at least one known label, got none"),
        (parts(1), [["a"]], {"tags": ["a", "a"]}, "tags must be a list of different names, got"),
        (parts(1), [["a"]], {"tags": "abc"}, "tags must be a list of different names, got 'abc'"),
        (parts(1), [["a"]], {"tags": []}, r"tags must be a list of different names, got \[\]"),
        (parts(2), [["a", "b"]], {"words": [["one"]]}, "words of sequence 0 must be a list of 2"),
    ],
)  # fmt: skip
def test_labelled_data_that_is_refused(features, labels, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.labelled(features, labels, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"features": "deep"}, r"features must be one of \('linear', 'scores'\), got 'deep'"),
        ({"scale": 0.0}, "scale must be a number between 1e-6 and 1e6, got 0.0"),
        ({"scale": "wide"}, "scale must be a number between 1e-6 and 1e6, got 'wide'"),
        ({"support": "iob1"}, "support must be 'iob2', bools or None, got 'iob1'"),
        ({"start_support": "iob2"}, "start_support must be bools or None, got 'iob2'"),
        ({"support": [True, False]}, "support must be bools with 2 axes"),
        ({"support": [[2, 0], [0, 1]]}, "support must be bools with 2 axes"),
        (
            {"start_support": [False, False]},
            "start_support must be bools with 1 axis, some of them true",
        ),
    ],
)
def test_models_that_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        CRF(**options)


TAGS = ("O", "B-X", "I-X", "I-Y")


@pytest.mark.parametrize(
    ("model", "labels", "sentence"),
    [
        (CRF(support="iob2"), ["O", "I-X", "O"],
         r"sequence 1, token 1 has tag 'I-X' after 'O', which support= forbids \(1 such token in all\)"),
        (CRF(support="iob2"), ["I-X", "I-X", "I-Y"], r"sequence 1, token 2 has tag 'I-Y' after 'I-X'"),
        (CRF(support="iob2"), ["I-X", None, "O"], r"sequence 1, token 0 has tag 'I-X' first, which"),
        (CRF(start_support=[0, 1, 1, 1]), ["O", "O", "O"], "token 0 has tag 'O' first"),
        (CRF("scores"), ["O", "O", "O"], "needs one column per tag, 4 in all, got 2"),
        (CRF(support=np.ones((3, 3), bool)), ["O", "O", "O"],
         r"support must be 4 x 4 and start_support of length 4 .* got \(3, 3\) and \(4,\)"),
    ],
)  # fmt: skip
def test_labels_that_a_model_forbids(model, labels, sentence):
    data = fo.labelled(parts(2, 3), [["B-X", "I-X"], labels], tags=TAGS)
    with pytest.raises(ValueError, match=sentence):
        fo.fit(model, data)


def test_tags_none_of_which_can_be_first():
    data = fo.labelled(parts(2), [["I-X", "I-X"]])
    with pytest.raises(ValueError, match="no tag can be first among I-X"):
        fo.fit(CRF(support="iob2"), data)


@pytest.fixture(scope="module")
def tagger():
    """A CRF at zero."""
    data = fo.labelled(parts(2, 3), [["a", "b"], ["a", "a", "b"]])
    return fo.fit_at(CRF(), data, CRF().start(data, None))


@pytest.fixture(scope="module")
def hidden():
    """A hidden Markov model."""
    params = {
        "initial": [0.5, 0.5],
        "transition": [[0.6, 0.4], [0.4, 0.6]],
        "rate": [[1.0], [9.0]],
    }
    return fo.fit_at(fo.models.PoissonHMM(2), np.array([1.0, 9.0, 1.0, 8.0, 9.0, 2.0]), params)


@pytest.mark.parametrize("method", ["none", "ij", "onestep"])
def test_hidden_states_have_no_labels_to_leave_out(hidden, method):
    with pytest.raises(
        ValueError, match="scheme C leaves labels out, but this model's states are hidden"
    ):
        fo.cross_validate(hidden, fo.folds.sites([[0]], 6), scheme="C", method=method, check=False)


def test_schemes_and_data_of_the_other_kind_of_model(tagger, hidden):
    with pytest.raises(ValueError, match=r"labels are left out by scheme C, .* got scheme A"):
        fo.curvature(tagger, "A")
    folds = fo.folds.sites([[0]], tagger.data)
    with pytest.raises(ValueError, match=r"labels are left out by scheme C, .* got scheme B"):
        fo.cross_validate(tagger, folds, scheme="B")
    with pytest.raises(ValueError, match="scheme C leaves out sites, but the folds leave out sequences"):
        fo.cross_validate(tagger, fo.folds.structures(tagger.data), scheme="C")
    with pytest.raises(ValueError, match="labelled data need a model of labels such as LinearChainCRF"):
        fo.fit(fo.models.GaussianHMM(2), tagger.data)
    with pytest.raises(ValueError, match=r"LinearChainCRF needs data from fo\.labelled, got ndarray"):
        fo.fit(CRF(), np.zeros((5, 2)))
    np.testing.assert_allclose(fo.marginals(hidden)[0], hidden.posterior())
    with pytest.raises(ValueError, match=r"fit must be a Fit from fo\.fit, got int"):
        fo.marginals(3)


def test_new_sequences_that_are_refused(tagger):
    with pytest.raises(ValueError, match="the model was fitted with 2 features, got 3"):
        fo.predict(tagger, parts(2, width=3))
    other = fo.labelled(parts(2), [["a", "c"]])
    with pytest.raises(
        ValueError, match=r"the model was fitted with tags a, b, got a, c; read the data"
    ):
        fo.predict(tagger, other)
    with pytest.raises(ValueError, match="sequence 1 is empty"):
        fo.marginals(tagger, [np.zeros((1, 2)), np.zeros((0, 2))])
    with pytest.raises(ValueError, match="features must be finite"):
        fo.predict(tagger, [np.full((1, 2), np.nan)])
    with pytest.raises(ValueError, match="features must hold at least one sequence"):
        fo.predict(tagger, [])


def test_features_and_labels_may_come_as_a_pair(tagger):
    data = tagger.data
    split = np.split(data.features, [2])
    pair = fo.fit_at(CRF(), (split, [["a", "b"], ["a", "a", "b"]]), tagger.params)
    assert pair.value == tagger.value
    assert pair.value == pytest.approx(np.log(4) + np.log(8), rel=1e-14)  # all paths alike


def test_word_vectors_from_text_and_from_arrays(tmp_path):
    text = tmp_path / "some.txt"
    text.write_text("the 0.5 -1\nOslo 2 3e-1\n", encoding="utf-8")
    found = fo.read_vectors(text)
    assert found.words == ("the", "Oslo")
    np.testing.assert_array_equal(found.vectors, [[0.5, -1.0], [2.0, 0.3]])
    assert (found.number("The"), found.number("Oslo"), found.number("oslo")) == (0, 1, -1)
    np.savez(tmp_path / "some.npz", words=np.array(["the", "Oslo"]), vectors=found.vectors)
    again = fo.read_vectors(tmp_path / "some.npz")
    assert again.words == found.words
    np.testing.assert_array_equal(again.vectors, found.vectors)
    assert again.width == 2


def test_reduced_vectors_are_principal_axes_of_unit_variance():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(200, 4)) * [5.0, 0.1, 2.0, 1.0] + 3.0
    words = tuple(map(str, range(200)))
    found = fo.WordVectors(words, vectors).reduced(2)
    assert found.words == words
    np.testing.assert_allclose(np.cov(found.vectors.T, ddof=0), np.eye(2), atol=1e-12)
    np.testing.assert_allclose(found.vectors.mean(0), 0.0, atol=1e-12)
    _, _, axes = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    scores = (vectors - vectors.mean(0)) @ axes[:2].T
    for k in range(2):
        assert abs(np.corrcoef(found.vectors[:, k], scores[:, k])[0, 1]) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no word vectors"),
        ("the\n", r"some\.txt, line 1: expected a word and its numbers"),
        ("the 1 2\nof 1\n", "line 2: expected a word and its numbers"),
        ("the 1 x\n", "line 1: expected a word and its numbers"),
    ],
)
def test_files_of_vectors_that_are_refused(tmp_path, text, sentence):
    path = tmp_path / "some.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=sentence):
        fo.read_vectors(path)


def test_vectors_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match="expected the path of a file of word vectors, found none at"):
        fo.read_vectors(tmp_path / "gone")
    np.savez(tmp_path / "other.npz", names=np.array(["a"]))
    with pytest.raises(ValueError, match=r"other\.npz must hold words and vectors, got \['names'\]"):
        fo.read_vectors(tmp_path / "other.npz")
    with pytest.raises(
        ValueError, match=r"a vector for each of 2 words, got an array of shape \(3, 4\)"
    ):
        fo.WordVectors(("a", "b"), np.zeros((3, 4)))
    for width in (0, 5):
        with pytest.raises(ValueError, match=f"width must be between 1 and 4, got {width}"):
            fo.WordVectors(("a", "b"), np.zeros((2, 4))).reduced(width)


def test_the_stored_vectors_have_their_published_shape():
    found = fo.read_vectors(shared("data", "glove100", "glove6B100_subset_f16.npz"))
    assert found.vectors.shape == (40_444, 100)
    assert np.isfinite(found.vectors).all()
    assert found.number("the") >= 0


SHAPES = ("capital", "all capitals", "lower case", "digit", "punctuation", "hyphen", "at", "hash",
          "address", "apostrophe")  # fmt: skip


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Oslo", {"capital"}),
        ("EU", {"capital", "all capitals"}),
        ("bus", {"lower case"}),
        ("iPhone5", {"digit"}),
        ("1984", {"lower case", "digit"}),
        ("U.S.", {"capital", "all capitals"}),
        ("...", {"lower case", "punctuation"}),
        ("so-so", {"lower case", "hyphen"}),
        ("@paul", {"lower case", "at"}),
        ("#Oslo", {"hash"}),
        ("#", {"lower case", "punctuation"}),
        ("http://t.co/x", {"lower case", "address"}),
        ("fitonce.org", {"lower case", "address"}),
        ("it's", {"lower case", "apostrophe"}),
        ("Élan", {"capital"}),
        ("élan", {"lower case"}),
    ],
)
def test_shapes_of_words(word, expected):
    (found,) = fo.word_features([[word]], window=0)
    assert found.shape == (1, 10)
    assert {name for name, on in zip(SHAPES, found[0], strict=True) if on} == expected


def test_shapes_of_neighbours_and_vectors_stand_beside_a_words_own():
    vectors = fo.WordVectors(("in", "oslo"), np.array([[1.0, 2.0], [3.0, 4.0]]))
    words = [["In", "Oslo", "2"], ["Go"]]
    plain = fo.word_features(words, window=0)
    found = fo.word_features(words, vectors, window=2)
    assert [part.shape for part in found] == [(3, 53), (1, 53)]
    shapes, nothing = plain[0], np.zeros(10)
    by_shift = {-1: found[0][:, 10:20], 1: found[0][:, 20:30], -2: found[0][:, 30:40],
                2: found[0][:, 40:50]}  # fmt: skip
    # A shift of one is the word before, of minus one the word after.
    np.testing.assert_array_equal(by_shift[1], [nothing, shapes[0], shapes[1]])
    np.testing.assert_array_equal(by_shift[-1], [shapes[1], shapes[2], nothing])
    np.testing.assert_array_equal(by_shift[2], [nothing, nothing, shapes[0]])
    np.testing.assert_array_equal(by_shift[-2], [shapes[2], nothing, nothing])
    np.testing.assert_array_equal(found[0][:, :10], shapes)
    np.testing.assert_array_equal(found[0][:, 50:], [[1, 2, 0], [3, 4, 0], [0, 0, 1]])
    np.testing.assert_array_equal(found[1][:, 10:50], 0.0)
    np.testing.assert_array_equal(found[1][0, 50:], [0, 0, 1])
    assert [part.shape[1] for part in fo.word_features(words)] == [30, 30]


@pytest.mark.parametrize("window", [-1, 1.5, True, "one"])
def test_windows_that_are_refused(window):
    with pytest.raises(ValueError, match="window must be an integer of at least 0, got"):
        fo.word_features([["a"]], window=window)


def test_empty_sentences_are_refused():
    with pytest.raises(ValueError, match="sentence 1 is empty; leave empty sentences out"):
        fo.word_features([["a"], []])
