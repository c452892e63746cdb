"""The neural tagger: batches, checkpoints, and its CRF layer against the model's."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

import fitonce as fo
from fitonce import neural
from fitonce.neural import checkpoint
from fitonce.neural.encoding import batches, encode, encoding_of

SMALL = neural.Settings(
    hidden=6, layers=2, char_width=5, char_filters=4, word_width=8, batch=7, learning_rate=1e-2
)
WORDS = (("Ada", "B-PER"), ("Lovelace", "I-PER"), ("met", "O"), ("in", "O"), ("London", "B-LOC"))


def tagged(count, seed):
    """Names are followed by surnames, the rest comes in any order."""
    rng = np.random.default_rng(seed)
    words, tags = [], []
    for _ in range(count):
        chosen = [int(k) for k in rng.choice([0, 2, 3, 4], rng.integers(1, 20))]
        chosen = [
            k for first in chosen for k in ((0, 1) if first == 0 and rng.random() < 0.5 else (first,))
        ]
        words.append([WORDS[k][0] for k in chosen])
        tags.append([WORDS[k][1] for k in chosen])
    return fo.Tagged(words, tags)


TRAIN, HELD = tagged(40, 0), tagged(15, 1)


def trained(**options):
    return neural.train(TRAIN, HELD, settings=SMALL, progress=False, **{"epochs": 2, **options})


@lru_cache
def usual():
    return trained(epochs=6)


def test_training_lowers_the_loss_and_tags():
    tagger = usual()
    losses = [row["validation"] for row in tagger.history]
    assert losses[-1] < 0.9 * losses[0]
    assert [len(s) for s in tagger.scores(HELD.words)] == [len(s) for s in HELD.words]


def test_batches_hold_every_sentence_once_and_padding_counts_for_nothing():
    encoding, _ = encoding_of(TRAIN, None)
    encoded = encode(encoding, TRAIN.words, TRAIN.tags)
    seen = np.concatenate([m for m, _ in batches(encoded, 7, np.random.default_rng(0))])
    assert sorted(seen) == list(range(len(TRAIN)))
    for members, batch in batches(encoded, 7):
        assert float(batch.counted.sum()) == len(members)


@pytest.mark.slow
def test_scores_do_not_depend_on_the_batch():
    tagger = usual()
    together = tagger.scores(HELD.words)
    for number in (0, 7):
        alone = tagger.scores([HELD.words[number]])[0]
        np.testing.assert_allclose(alone, together[number], atol=1e-5)  # float32


def test_the_network_loss_is_that_of_the_crf_on_its_scores():
    tagger = usual()
    data = tagger.labelled(HELD)
    fit = fo.fit_at(fo.models.LinearChainCRF("scores"), data, tagger.crf)
    objective = fit.objective.with_scheme(fo.schemes.Structures())
    losses, _ = objective.sequence_evidence(fit.theta, np.arange(len(HELD)))
    # The last epoch may not be the best one, whose parameters these are.
    assert losses.mean() == pytest.approx(min(r["validation"] for r in tagger.history), rel=1e-4)


@pytest.mark.slow
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(tmp_path):
    whole = trained(epochs=3)
    trained(epochs=1, checkpoint=tmp_path / "tagger.npz")
    resumed = trained(epochs=3, checkpoint=tmp_path / "tagger.npz", resume=True)
    assert [r["validation"] for r in resumed.history] == [r["validation"] for r in whole.history]
    for one, other in zip(
        checkpoint.leaves(resumed.network), checkpoint.leaves(whole.network), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_saved_tagger_comes_back(tmp_path):
    tagger = usual()
    tagger.save(tmp_path / "saved.npz")
    again = neural.load(tmp_path / "saved.npz")
    assert again.tags == tagger.tags
    for one, other in zip(tagger.scores(HELD.words), again.scores(HELD.words), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="saved tagger, not a checkpoint"):
        trained(checkpoint=tmp_path / "saved.npz", resume=True)


def test_a_truncated_checkpoint_is_named_and_the_one_before_is_kept(tmp_path):
    path = tmp_path / "tagger.npz"
    trained(epochs=2, checkpoint=path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"tagger.npz is not a complete checkpoint.*npz.previous"):
        trained(checkpoint=path, resume=True)
    assert len(neural.load(tmp_path / "tagger.npz.previous").history) == 1


def test_the_crf_layer_is_trained_towards_its_optimum():
    data = usual().labelled(TRAIN)
    start = {"transition": np.zeros((4, 4)), "start": np.zeros(4), "end": np.zeros(4)}
    layers = neural.train_crf_layer(data, start, epochs=30, learning_rate=0.05, batch=7, progress=False)
    model = fo.models.LinearChainCRF("scores")
    best = fo.fit(model, data).value
    values = [fo.fit_at(model, data, layers[k].params).value for k in (0, 5, 30)]
    assert values[0] > values[1] > values[2] > best
    assert values[2] - best < 0.1 * (values[0] - best)


def test_the_residual_gradient_carries_an_unfinished_layer_to_the_exact_refits():
    data = usual().labelled(TRAIN)
    model = fo.models.LinearChainCRF("scores")
    fit = fo.fit(model, data)
    near = fit.params_at(fit.theta + 0.05 * np.random.default_rng(0).normal(size=len(fit.theta)))
    folds = fo.folds.structures(data)
    exact = fo.cross_validate(fit, folds, method="exact").folds["loss"]
    unfinished = fo.fit_at(model, data, near)
    assert not unfinished.ok
    errors = [
        (fo.cross_validate(unfinished, folds, check=False, **options).folds["loss"] - exact).abs().mean()
        for options in ({"method": "none"}, {"method": "ij", "residual": False}, {"method": "ij"})
    ]
    assert errors[2] < 0.3 * errors[1]
    assert errors[2] < 0.3 * errors[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: usual().labelled(fo.Tagged([["a"]], [["B-X"]])), "'B-X', which is not one of the 4"),
        (lambda: neural.train(TRAIN, fo.Tagged([["a"]], [["B-X"]])), "sentence 0, word 0 is 'B-X'"),
        (lambda: usual().scores([[]]), "sentences: sentence 0 is empty"),
        (lambda: usual().scores(["a text"]), "must be a list of words, got 'a text'"),
        (lambda: neural.Settings(dropout=1.0), "dropout must be at least 0 and less than 1"),
        (lambda: neural.Settings(hidden=0), "hidden must be an integer of at least 1"),
        (lambda: trained(epochs=0), "epochs must be an integer of at least 1"),
        (lambda: trained(resume=True), "resume=True needs checkpoint="),
        (lambda: neural.load("nowhere.npz"), "expected a checkpoint, found none"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
