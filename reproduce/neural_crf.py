"""The paper's neural CRF: 500 sentences left out, one at a time, at several epochs of its CRF layer.

The paper's data (CoNLL-2003) may not be passed on; this is Universal NER on English EWT. All layers
but the CRF are frozen after training, and the CRF layer is trained on for 60 epochs. Held-out
probabilities from where it stands are compared with those of exact refits.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fitonce as fo
from fitonce import neural
from reproduce import cases, draw, ner, published
from reproduce.record import Record, Table

EPOCHS = (1, 5, 20, 60)  # of the CRF layer, in the four panels
CURVE = (0, 1, 2, 3, 5, 8, 12, 20, 30, 45, 60)
FOLDS = 500
VARIANTS: dict[str, dict[str, Any]] = {
    "none": {"method": "none"},
    "ij, paper": {"method": "ij", "residual": False, "damping": 1e-5},
    "ij, no residual": {"method": "ij", "residual": False},
    "ij": {"method": "ij"},
    "onestep, no residual": {"method": "onestep", "residual": False},
    "onestep": {"method": "onestep"},
}


DIFFERS = [
    "Data: Universal NER on English EWT in place of CoNLL-2003, which may not be passed on; smaller "
    "word vectors; fewer tags, which give a smaller CRF layer.",
    "Definition: a Gaussian prior on the CRF layer makes H positive definite without damping. 'ij, "
    "paper' leaves the remaining gradient out and damps, as the paper does; 'ij' keeps it in.",
    "Definition: the exact refits are certified minima and do not depend on the epoch.",
    "Machine: the paper gives its errors in figures only, without numbers.",
]


def trained() -> neural.Tagger:
    """The tagger, from its checkpoint where training was done or begun before."""
    cases.OUT.mkdir(exist_ok=True)
    return neural.train(
        ner.ewt("train"),
        ner.ewt("dev"),
        vectors=ner.glove(),
        checkpoint=cases.OUT / "ewt_tagger.npz",
        resume=True,
    )


def main() -> None:
    record = Record(
        "neural-crf",
        "Neural CRF, one sentence left out",
        ["fig:crf", "supp:crf_v_time"],
        differs=list(DIFFERS),
    )
    tagger = trained()
    _tell_training(record, tagger)
    data = tagger.labelled(ner.ewt("train"))
    model = fo.models.LinearChainCRF("scores")
    layers = neural.train_crf_layer(data, tagger.crf, epochs=max(CURVE))
    fit = fo.fit(model, data, init=layers[-1].params)
    _sizes(record, fit)
    _quality(record, tagger, fit)
    folds = fo.folds.structures(data, n=FOLDS, seed=0)
    exact = fo.cross_validate(fit, folds, method="exact")
    record.say(f"Exact: {exact.seconds:.0f} s, {exact.n_failed} folds without a certificate.")
    _times(record, model, data, fit, folds, exact)
    table = record.table(
        "Mean absolute error of a held-out probability against exact refits, from where the CRF layer "
        "stands after each epoch",
        ["epoch", "trained for", "gradient norm", "se from stationary", *VARIANTS],
    )
    rows = [_at(table, model, data, layers[epoch], folds, exact) for epoch in CURVE]
    _draw(record, rows, exact)
    record.write()


def _tell_training(record: Record, tagger: neural.Tagger) -> None:
    best = min(tagger.history, key=lambda row: row["validation"])
    seconds = sum(row["seconds"] for row in tagger.history)
    record.say(
        f"Tagger: {len(tagger.history)} epochs, {seconds:.0f} s when it was trained; best after epoch "
        f"{best['epoch']:.0f}, validation loss {best['validation']:.3f} a sentence."
    )


def _sizes(record: Record, fit: fo.Fit) -> None:
    record.beside("training sentences", published.CRF_SENTENCES, f"{fit.data.n_sequences:,}")
    record.beside("parameters of the CRF layer", published.CRF_PARAMETERS, len(fit.theta))
    size = ner.glove().vectors.shape[1]
    record.beside("word vectors", published.CRF_VECTORS, f"{size} dimensional")
    record.beside("folds", published.CRF_FOLDS, FOLDS)
    record.beside("training of the CRF layer alone", published.CRF_EPOCHS, f"{max(CURVE)} epochs")
    record.beside("damping of H (ij, paper)", published.CRF_DAMPING, VARIANTS["ij, paper"]["damping"])


def _quality(record: Record, tagger: neural.Tagger, fit: fo.Fit) -> None:
    for part in ("dev", "test"):
        tagged = ner.ewt(part)
        found = fo.predict(fit, tagger.labelled(tagged))
        start = fo.predict(fo.fit_at(fit.model, fit.data, tagger.crf), tagger.labelled(tagged))
        record.say(
            f"F1 of entities (seqeval), {part}: {ner.f1(start, tagged.tags):.4f} as trained, "
            f"{ner.f1(found, tagged.tags):.4f} with the CRF layer at its optimum."
        )


def _times(
    record: Record,
    model: fo.models.LinearChainCRF,
    data: fo.Labelled,
    fit: fo.Fit,
    folds: fo.Folds,
    exact: fo.CVResult,
) -> None:
    objective = fo.curvature(fit, "structures").objective
    objective.hessians(fit.theta[None], objective.base[None]), objective.cross(fit.theta)  # compile
    started = time.perf_counter()
    objective.cross(fit.theta)
    cross = time.perf_counter() - started
    objective.hessians(fit.theta[None], objective.base[None])
    both = time.perf_counter() - started
    fo.cross_validate(fit, folds, method="ij", check=False)
    quick = fo.cross_validate(fit, folds, method="ij", check=False).seconds - cross
    again = fo.fit(model, data).refit_seconds
    record.say(
        f"H and J {both:.2f} s warm (J {cross:.2f} s); {len(folds)} folds after that {quick:.2f} s; one "
        f"refit from scratch {again:.1f} s, by refinement {exact.seconds / len(folds):.2f} s; "
        f"{len(folds)} refits / (H, J and folds) {again * len(folds) / (both + quick):,.0f}, by "
        f"refinement {exact.seconds / (both + quick):.0f}."
    )


def _at(
    table: Table,
    model: fo.models.LinearChainCRF,
    data: fo.Labelled,
    layer: neural.Epoch,
    folds: fo.Folds,
    exact: fo.CVResult,
) -> dict[str, Any]:
    """Errors of held-out probabilities from one epoch's parameters."""
    fit = fo.fit_at(model, data, layer.params)
    truth = np.exp(-exact.folds["loss"].to_numpy())
    row: dict[str, Any] = {"layer": layer, "fit": fit, "errors": {}, "found": {}}
    for name, options in VARIANTS.items():
        cv = fo.cross_validate(fit, folds, check=False, **options)
        row["found"][name] = np.exp(-cv.folds["loss"].to_numpy())
        row["errors"][name] = np.abs(row["found"][name] - truth).mean()
    place = (f"{fit.gradient_norm:.1f}", f"{fit.distance:.2f}")
    table.add(
        layer.epoch, f"{layer.seconds:.0f} s", *place, *(f"{e:.1e}" for e in row["errors"].values())
    )
    return row


def _draw(record: Record, rows: list[dict[str, Any]], exact: fo.CVResult) -> None:
    truth = np.exp(-exact.folds["loss"].to_numpy())
    shown = [row for row in rows if row["layer"].epoch in EPOCHS]
    names = ("ij, paper", "ij")
    figure, axes = draw.panels(len(names), len(shown), 2.6, 2.7)
    for column, row in zip(axes.T, shown, strict=True):
        for axis, name in zip(column, names, strict=True):
            found = {"none": row["found"]["none"], "ij": row["found"][name]}
            draw.scatter(axis, truth, found, f"{name}, epoch {row['layer'].epoch}")
    draw.name_axes(figure, axes, "held-out probability, exact refit", "approximated")
    record.figure(
        figure,
        "neural-crf.png",
        "Each dot is a left-out sentence: the probability of its labels after an exact refit (across) "
        "and approximated (up), from the CRF layer as it stands after some epochs; above by the paper's "
        "expansion, below with the gradient that is left.",
    )
    record.figure(
        _errors(rows), "neural-crf-errors.png", "Mean error against time and against the gradient norm."
    )


def _errors(rows: list[dict[str, Any]]) -> Any:
    figure, axes = draw.panels(1, 2, 4.8, 3.6)
    left, right = axes[0]
    # One step is the expansion where whole sentences are left out: it would lie on top of it.
    for name, mark in zip(("none", "ij, paper", "ij"), ("ks-", "rx--", "bo-"), strict=True):
        errors = [row["errors"][name] for row in rows]
        left.semilogy([row["layer"].seconds for row in rows], errors, mark, ms=5, label=draw.label(name))
        norms = [row["fit"].gradient_norm for row in rows]
        right.loglog(norms, errors, mark.rstrip("-"), ms=5, label=draw.label(name))
    left.set(xlabel="seconds of training the CRF layer", ylabel="mean error of a probability")
    right.set(xlabel="gradient norm", ylabel="mean error of a probability")
    right.legend(fontsize=8)
    return figure
