"""Scores of held-out labels against seqeval, scikit-learn and refits; suspects; files."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import lru_cache

import matplotlib as mpl
import numpy as np
import pytest
import seqeval.metrics as seqeval
from hypothesis import given, settings
from seqeval.metrics.sequence_labeling import get_entities
from sklearn import metrics as sklearn

import fitonce as fo
from fitonce.results.labels.entities import are_chunks, entities
from fitonce.results.labels.kinds import GROUPS
from fitonce.results.labels.ratios import ratios
from fuzzing.engine_strategies import chunk_tags

mpl.use("Agg")
TAGS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
CRF = fo.models.LinearChainCRF


def drawn(count=40, seed=0):
    rng = np.random.default_rng(seed)
    features, labels, words = [], [], []
    for n in range(count):
        z = [0]
        for _ in range(rng.integers(3, 9)):
            allowed = {1: (0, 1, 2, 3), 2: (0, 2), 3: (0, 1, 4), 4: (0, 4)}.get(z[-1], (0, 0, 1, 3))
            z.append(int(rng.choice(allowed)))
        features.append(1.5 * np.eye(5)[z] + rng.normal(size=(len(z), 5)))
        labels.append([TAGS[k] for k in z])
        words.append([f"w{n}-{t}" for t in range(len(z))])
    return features, labels, words


@lru_cache
def validated(method="auto"):
    features, labels, words = drawn()
    data = fo.labelled(features, labels, tags=TAGS, words=words)
    fit = fo.fit(CRF(support="iob2", scale=1.0), data)
    return labels, fo.cross_validate(fit, fo.folds.structures(data, k=8), method=method)


def by_sentence(cv, column):
    table = cv.heldout_labels().sort_values("site")
    return [part[column].tolist() for _, part in table.groupby("sequence")]


@settings(deadline=None, max_examples=300)
@given(chunk_tags)
def test_entities_are_those_of_seqeval(tags):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [tuple(each) for each in entities(tags)] == get_entities(list(tags))


def test_bilou_is_read_as_bioes():
    assert entities(["U-X", "B-X", "I-X", "L-X", "L-X"]) == entities(["S-X", "B-X", "I-X", "E-X", "E-X"])
    assert are_chunks(("O", "B-A", "L-A", "U-A"))
    assert are_chunks(("B", "I", "O"))
    assert not are_chunks(("NOUN", "VERB", "O"))
    assert not are_chunks(("O",))
    assert not are_chunks(("I", "S"))


def test_scores_are_those_of_seqeval_and_scikit_learn():
    labels, cv = validated()
    scores = cv.label_scores()
    for column, which in (("predicted", "value"), ("control", "control")):
        said = by_sentence(cv, column)
        flat, flat_said = ([tag for row in rows for tag in row] for rows in (labels, said))
        assert getattr(scores.accuracy, which) == pytest.approx(sklearn.accuracy_score(flat, flat_said))
        assert getattr(scores.entity_f1, which) == pytest.approx(seqeval.f1_score(labels, said))
        of_all = {name: getattr(seqeval, f"{name}_score") for name in ("precision", "recall")}
        for name, theirs in of_all.items():
            assert getattr(scores.score(name), which) == pytest.approx(theirs(labels, said))
        by_type = seqeval.classification_report(labels, said, output_dict=True)
        for kind in ("LOC", "PER"):
            for name, key in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score")):
                found = getattr(scores.score(name, "entities", kind), which)
                assert found == pytest.approx(by_type[kind][key])
        theirs = sklearn.precision_recall_fscore_support(flat, flat_said, labels=TAGS)
        for name, row in zip(("precision", "recall", "f1"), theirs, strict=False):
            ours = [getattr(scores.score(name, "tags", tag), which) for tag in TAGS]
            np.testing.assert_allclose(ours, row)
        counts = cv.confusion().matrix("count" if column == "predicted" else "control")
        np.testing.assert_array_equal(counts, sklearn.confusion_matrix(flat, flat_said, labels=TAGS))
    assert scores.table.set_index(["of", "name"]).loc[("tags", "B-PER"), "support"].iloc[0] == sum(
        tag == "B-PER" for row in labels for tag in row
    )


def test_predictions_are_those_of_models_that_never_saw_the_sentence():
    features, labels, _ = drawn()
    _, cv = validated("exact")
    table = cv.heldout_labels()
    for fold in (0, 5):
        left = sorted(set(table.loc[table["fold"] == fold, "sequence"]))
        rest = [n for n in range(len(labels)) if n not in left]
        known = fo.labelled([features[n] for n in rest], [labels[n] for n in rest], tags=TAGS)
        alone = fo.fit(CRF(support="iob2", scale=1.0), known)
        rows = [table[table["sequence"] == n].sort_values("time") for n in left]
        assert [row["predicted"].tolist() for row in rows] == fo.predict(
            alone, [features[n] for n in left]
        )
        shares = fo.marginals(alone, [features[n] for n in left])
        for row, share, n in zip(rows, shares, left, strict=True):
            codes = [TAGS.index(tag) for tag in labels[n]]
            at = np.arange(len(codes))
            np.testing.assert_allclose(row["chance"], np.asarray(share)[at, codes], rtol=1e-5)
            codes = [TAGS.index(tag) for tag in row["predicted"]]
            np.testing.assert_allclose(row["predicted_chance"], np.asarray(share)[at, codes], rtol=1e-5)


def test_standard_errors_are_those_of_a_bootstrap_over_sequences():
    labels, cv = validated()
    said = by_sentence(cv, "predicted")
    rng, drawn_f1, drawn_accuracy = np.random.default_rng(0), [], []
    right = np.array([sum(map(str.__eq__, a, b)) for a, b in zip(labels, said, strict=True)])
    sizes = np.array([len(row) for row in labels])
    for _ in range(400):
        some = rng.integers(len(labels), size=len(labels))
        drawn_accuracy.append(right[some].sum() / sizes[some].sum())
        drawn_f1.append(seqeval.f1_score([labels[n] for n in some], [said[n] for n in some]))
    scores = cv.label_scores()
    assert scores.entity_f1.se == pytest.approx(np.std(drawn_f1), rel=0.2)
    assert scores.accuracy.se == pytest.approx(np.std(drawn_accuracy), rel=0.2)


def test_sequences_are_the_unit_of_standard_errors():
    above, below = np.array([[3.0], [1.0], [0.0]]), np.full((3, 1), 4.0)
    value, se = ratios(above, below)
    assert value == pytest.approx(1 / 3)
    means = np.array([3, 1, 0]) / 4
    assert se == pytest.approx(means.std(ddof=1) / np.sqrt(3))
    twice, se_of_two = ratios(np.repeat(above, 2, 1).sum(1, keepdims=True), 2 * below)
    np.testing.assert_allclose((twice, se_of_two), (value, se))  # the same tokens again say nothing
    for all_alike in (0.0, 4.0):
        assert np.isnan(ratios(np.full((3, 1), all_alike), below)[1])
    assert np.isnan(ratios(np.zeros((3, 1)), np.zeros((3, 1)))[0])


def test_single_labels_are_scored_given_the_kept_ones():
    _, cv = validated()
    fit, data = cv.fit, cv.fit.data
    some = fo.cross_validate(fit, fo.folds.iid(data, percent=10, n=6))
    held = some.heldout_labels()
    np.testing.assert_allclose(held["loss"], some.pointwise["loss"])
    np.testing.assert_array_equal(held["site"], some.pointwise["site"])
    assert (held["predicted_chance"] >= held["chance"] - 1e-12).all()
    scores = some.label_scores()
    assert "entities need whole sequences" in repr(scores)
    with pytest.raises(ValueError, match=r"no score \(f1, entities, all\)"):
        scores.entity_f1
    every = fo.loo(fit)
    np.testing.assert_allclose(every.heldout_labels()["loss"], every.pointwise["loss"])


def test_labels_that_are_not_known_are_not_scored():
    features, labels, words = drawn(12)
    labels[3][1] = None
    data = fo.labelled(features, labels, tags=TAGS, words=words)
    cv = fo.cross_validate(fo.fit(CRF(scale=1.0), data), fo.folds.structures(data, k=3), method="ij")
    held = cv.heldout_labels()
    assert len(held) == data.n_sites
    assert held.loc[(held["sequence"] == 3) & (held["time"] == 1), "label"].item() == ""
    scores = cv.label_scores()
    assert scores.table.iloc[0]["support"] == data.n_sites - 1
    assert "entities without 1 sequence that lack" in repr(scores)
    assert (cv.suspects(500).table["label"] != "").all()


def test_kernels_predict_the_same():
    features, labels, words = drawn(10)
    data = fo.labelled(features, labels, tags=TAGS, words=words)
    tables = []
    for kernel in ("native", "scan"):
        fit = fo.fit(CRF(scale=1.0), data, kernel=kernel)
        cv = fo.cross_validate(fit, fo.folds.structures(data, k=3))
        tables.append(cv.heldout_labels())
    assert tables[0]["predicted"].equals(tables[1]["predicted"])
    np.testing.assert_allclose(tables[0]["loss"], tables[1]["loss"], rtol=1e-5, atol=1e-8)


def test_planted_errors_lead_the_suspects_by_sentence():
    features, labels, words = drawn(80, seed=3)
    features = [3.0 * rows for rows in features]
    planted = {(7, 0): "B-LOC", (7, 2): "O", (30, 0): "B-PER"}
    planted = {at: tag for at, tag in planted.items() if labels[at[0]][at[1]] != tag}
    for (n, t), tag in planted.items():
        labels[n][t] = tag
    data = fo.labelled(features, labels, tags=TAGS, words=words)
    cv = fo.cross_validate(fo.fit(CRF(scale=1.0), data), fo.folds.structures(data, k=5))
    found = cv.suspects(40)
    table = found.table
    assert set(planted) <= set(zip(table["sequence"], table["time"], strict=True))
    assert table["loss"].is_monotonic_decreasing
    np.testing.assert_allclose(table["chance"], np.exp(-table["loss"]))
    assert (table["label"] != table["rather"]).all()
    first = table.iloc[0]
    assert f"[{first['word']}]" in first["sentence"]
    text = repr(found)
    assert text.count("sequence 7:") == 1  # all of a sentence's suspects together
    assert "without it the model says" in text
    with pytest.raises(ValueError, match="n must be an integer of at least 1, got 0"):
        cv.suspects(0)


def test_kinds_of_error_count_all_suspects_and_choose_among_them():
    """Against pandas on the table of held-out labels; confusions of types before missed names."""
    _, cv = validated()
    rows = cv.heldout_labels()
    wrong = rows[(rows["label"] != rows["predicted"]) & (rows["label"] != "")]
    wrong = wrong.sort_values("loss", ascending=False, kind="stable").drop_duplicates("site")
    expected = wrong.groupby(["label", "predicted"])["loss"].agg(["size", "max"])
    found = cv.suspects(1).kinds  # however few are listed
    assert found["count"].sum() == len(wrong) == cv.suspects(1).n_disagree
    for row in found.to_dict("records"):
        size, most = expected.loc[(row["label"], row["rather"])]
        assert (row["count"], row["loss"]) == (size, most)
        some = wrong[(wrong["label"] == row["label"]) & (wrong["predicted"] == row["rather"])]
        assert row["words"].split(", ")[0] == some["word"].iloc[0]
    crossed = (found["label"].str[2:] != found["rather"].str[2:]) & (found["label"] != "O")
    crossed &= found["rather"] != "O"
    assert crossed.any()
    assert crossed.tolist() == sorted(crossed, reverse=True)
    first = found.iloc[0]
    chosen = cv.suspects(500, label=first["label"], rather=first["rather"])
    assert len(chosen) == first["count"] == chosen.kinds["count"].sum()
    assert f"{first['count']} of the kind asked for" in repr(chosen)
    of_type = cv.suspects(500, label="LOC").table
    assert set(of_type["label"]) <= {"B-LOC", "I-LOC"}
    assert len(of_type) == wrong["label"].isin(["B-LOC", "I-LOC"]).sum()
    with pytest.raises(ValueError, match=r"label must be one of the tags .* or a type: .*; got 'X'"):
        cv.suspects(label="X")


def test_entities_that_were_dropped_have_a_place_of_their_own():
    """Tokens labelled O that the model is sure of, before entities that it missed; the share of these
    against pandas."""
    _, cv = validated()
    found = cv.suspects(5)
    groups = found.kinds["group"].tolist()
    assert list(dict.fromkeys(groups)) == [name for name in GROUPS if name in groups]
    dropped = found.kinds[found.kinds["group"] == "entity dropped"]
    assert (dropped["label"] == "O").all()
    assert dropped["loss"].is_monotonic_decreasing
    text = repr(found)
    assert text.index("perhaps dropped") < text.index("no entity where one was given")
    rows = cv.heldout_labels()
    inside = rows[~rows["label"].isin(["", "O"])]
    assert found.missed == (inside["predicted"] == "O").mean()
    assert "% of the tokens labelled as entities" not in text  # few are
    assert "45 % of the tokens labelled as entities" in repr(replace(found, missed=0.45))
    assert "--label O" in text
    again = found.by_sentence()
    assert again.sort_values("loss", ascending=False)["site"].tolist() == found.table["site"].tolist()
    assert again["sequence"].drop_duplicates().tolist() == found.table["sequence"].unique().tolist()
    only = cv.suspects(5, label="O")
    assert not any("--label" in note for note in only.notes)


def test_a_saved_result_has_the_same_labels(tmp_path):
    _, cv = validated()
    loaded = fo.load(cv.save(tmp_path / "cv.json"))
    assert repr(loaded.label_scores()) == repr(cv.label_scores())
    assert repr(loaded.confusion()) == repr(cv.confusion())
    assert repr(loaded.suspects(7)) == repr(cv.suspects(7))
    assert loaded.heldout_labels().equals(cv.heldout_labels())


def test_other_models_have_no_labels_to_score():
    counts = np.random.default_rng(0).poisson(3.0, 40)
    cv = fo.cross_validate(
        fo.fit(fo.models.HMM(1, "poisson"), counts), fo.folds.kfold(counts, 3), method="ij"
    )
    for ask in (cv.label_scores, cv.confusion, cv.suspects, cv.heldout_labels):
        with pytest.raises(ValueError, match="is for models of labels, such as LinearChainCRF, got"):
            ask()


def test_confusion_has_shares_with_standard_errors_and_a_plot():
    _, cv = validated()
    found = cv.confusion()
    shares = found.matrix("share").to_numpy()
    np.testing.assert_allclose(np.nansum(shares, 1), 1.0)
    row = found.most(1).iloc[0]
    counts, given_all = [], []
    table = cv.heldout_labels()
    for _, part in table.groupby("sequence"):
        mine = part[part["label"] == row["label"]]
        counts.append([(mine["predicted"] == row["predicted"]).sum()])
        given_all.append([len(mine)])
    value, se = ratios(np.array(counts, float), np.array(given_all, float))
    assert (row["share"], row["se"]) == (pytest.approx(value[0]), pytest.approx(se[0]))
    axes = found.plot()
    assert [text.get_text() for text in axes.get_yticklabels()] == list(TAGS)
    with pytest.raises(ValueError, match="of must be one of"):
        found.matrix("rate")
