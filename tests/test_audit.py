"""The label audit: what it says, where it says it, and planted errors that it finds."""

from __future__ import annotations

from functools import lru_cache

import matplotlib as mpl
import numpy as np
import pytest

import fitonce as fo
from fitonce.objectives.abilities import HasLabels

mpl.use("Agg")
TAGS = ("O", "B-X", "I-X")


def drawn(count=200, seed=0):
    """Features that tell the tag well, and words that name their place."""
    rng = np.random.default_rng(seed)
    features, labels, words = [], [], []
    for n in range(count):
        z = [0]
        for _ in range(rng.integers(3, 9)):
            z.append(int(rng.choice(3 if z[-1] else 2)))
        features.append(4.0 * np.eye(3)[z] + rng.normal(size=(len(z), 3)))
        labels.append([TAGS[k] for k in z])
        words.append([f"w{n}-{t}" for t in range(len(z))])
    return features, labels, words


@lru_cache
def planted():
    """1 % of the labels exchanged."""
    features, labels, words = drawn()
    rng = np.random.default_rng(1)
    ends = np.cumsum([len(z) for z in labels])
    sites = np.sort(rng.choice(ends[-1], ends[-1] // 100, replace=False))
    for site in sites:
        n = int(np.searchsorted(ends, site, side="right"))
        t = int(site - ends[n] + len(labels[n]))
        labels[n][t] = str(rng.choice([tag for tag in TAGS if tag != labels[n][t]]))
    data = fo.labelled(features, labels, tags=TAGS, words=words)
    fit = fo.fit(fo.models.LinearChainCRF(), data)
    return fit, fo.influence(fit), sites


def test_planted_errors_are_found():
    _, audit, sites = planted()
    order = audit.top(len(audit.tokens))["site"].to_numpy()
    assert np.isin(sites, order[: len(order) // 20]).mean() >= 0.8


def test_losses_are_those_of_refits_without_the_label():
    fit, audit, sites = planted()
    chosen = [int(sites[0]), 5, 77]
    exact = fo.cross_validate(fit, fo.folds.sites([[s] for s in chosen], fit.data), method="exact")
    found = audit.tokens.set_index("site").loc[chosen, "loss"].to_numpy()
    control = audit.tokens.set_index("site").loc[chosen, "control"].to_numpy()
    truth = exact.folds["loss"].to_numpy()
    assert np.abs(found - truth).max() < 0.3 * np.abs(control - truth).max()


def test_an_unfinished_fit_is_named_in_report_and_table():
    fit, _, _ = planted()
    far = fo.fit_at(fit.model, fit.data, fit.params_at(fit.theta + 0.5))
    audit = fo.influence(far, damping=1e-5)
    assert (audit.tokens["loss"] >= 0).all()
    for text in (audit.report(3), repr(audit)):
        assert "not stationary" in text
        assert "H damped by 1e-05" in text


def test_the_residual_gradient_brings_the_losses_nearer_to_those_of_the_optimum():
    fit, audit, _ = planted()
    near = fo.influence(fo.fit_at(fit.model, fit.data, fit.params_at(fit.theta + 0.02)))
    off, control = (near.tokens[name] - audit.tokens["loss"] for name in ("loss", "control"))
    assert off.abs().mean() < 0.3 * control.abs().mean()


def test_a_report_shows_words_in_their_sentence_and_what_the_rest_says():
    _, audit, _ = planted()
    row = audit.top(1).iloc[0]
    text = audit.report(1)
    assert f"[{row['word']}]" in text
    assert f"labelled {row['label']}; the model says {row['rather']}" in text
    assert row["word"] == f"w{row['sequence']}-{row['time']}"


def test_tables_and_plot():
    fit, audit, _ = planted()
    assert isinstance(fit.objective, HasLabels)
    assert len(audit.to_dataframe()) == fit.data.n_sites
    assert len(audit.sequences) == fit.data.n_sequences
    top = audit.top(3, by="per_token", of="sequences")
    assert top["per_token"].is_monotonic_decreasing
    assert audit.plot("displacement").get_ylabel() == "displacement"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: a.top(0), "n must be an integer of at least 1, got 0"),
        (lambda a: a.report("x"), "n must be an integer"),
        (lambda a: a.top(by="size"), r"by must be one of \('loss', 'displacement'\), got 'size'"),
        (lambda a: a.top(of="words"), r"of must be one of \('tokens', 'sequences'\), got 'words'"),
        (lambda a: a.plot("per_token"), "by must be one of"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call(planted()[1])


@pytest.mark.parametrize("by", ["loss", "displacement"])
def test_labels_of_the_plot_are_words_that_do_not_overlap(by):
    _, audit, _ = planted()
    axes = audit.plot(by)
    axes.figure.draw_without_rendering()
    assert {text.get_text() for text in axes.texts} == set(audit.top(10, by)["word"])
    boxes = [text.get_window_extent() for text in axes.texts]
    inside = axes.get_window_extent()
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    assert all(inside.y0 <= box.y0 and box.y1 <= inside.y1 for box in boxes)
    assert axes.get_ylim()[0] == 0.0


def test_an_audit_is_a_table():
    _, audit, _ = planted()
    assert audit.table is audit.tokens
    assert len(audit) == len(audit.table)
    assert audit.to_dataframe().equals(audit.tokens)
    assert audit.to_dataframe("sequences").equals(audit.sequences)
    assert audit.table.to_csv(index=False).startswith("sequence,time,site,word,label,loss,")
    with pytest.raises(ValueError, match=r"of must be one of \('tokens', 'sequences'\), got 'folds'"):
        audit.to_dataframe("folds")


def test_an_audit_groups_what_it_doubts_by_kind():
    _, audit, _ = planted()
    doubted = audit.tokens[audit.tokens["label"] != audit.tokens["rather"]]
    counts = doubted.groupby(["label", "rather"]).size()
    kinds = audit.kinds.set_index(["label", "rather"])["count"]
    assert kinds.sort_index().to_dict() == counts.sort_index().to_dict()
    label, rather = kinds.index[0]
    top = audit.top(3, label=label, rather=rather)
    assert set(zip(top["label"], top["rather"], strict=True)) == {(label, rather)}
    assert f"  {label} -> {rather} " in audit.report(2)
    assert f"labelled {label}; the model says {rather}" in audit.report(1, label=label, rather=rather)
    with pytest.raises(ValueError, match='label and rather choose among tokens, got of="sequences"'):
        audit.top(3, of="sequences", label=label)
