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
from reproduce import cases, ner

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
    print(cases.machine())
    tagger = trained()
    best = min(tagger.history, key=lambda row: row["validation"])
    seconds = sum(row["seconds"] for row in tagger.history)
    print(
        f"tagger: {len(tagger.history)} epochs, {seconds:.0f} s; best after epoch "
        f"{best['epoch']:.0f}, validation loss {best['validation']:.3f} a sentence"
    )
    data = tagger.labelled(ner.ewt("train"))
    model = fo.models.LinearChainCRF("scores")
    layers = neural.train_crf_layer(data, tagger.crf, epochs=max(CURVE))
    fit = fo.fit(model, data, init=layers[-1].params)
    _quality(tagger, fit)
    folds = fo.folds.structures(data, n=FOLDS, seed=0)
    exact = fo.cross_validate(fit, folds, method="exact")
    print(f"{folds.describe()}\nexact: {exact.seconds:.0f} s, {exact.n_failed} without a certificate")
    _times(model, data, fit, folds, exact)
    rows = [_at(model, data, layers[epoch], folds, exact) for epoch in CURVE]
    _draw(rows, exact)


def _quality(tagger: neural.Tagger, fit: fo.Fit) -> None:
    for part in ("dev", "test"):
        tagged = ner.ewt(part)
        found = fo.predict(fit, tagger.labelled(tagged))
        start = fo.predict(fo.fit_at(fit.model, fit.data, tagger.crf), tagger.labelled(tagged))
        print(
            f"{part} F1 of entities (seqeval): {ner.f1(start, tagged.tags):.4f} as trained, "
            f"{ner.f1(found, tagged.tags):.4f} with the CRF layer at its optimum"
        )


def _times(
    model: fo.models.LinearChainCRF,
    data: fo.Labelled,
    fit: fo.Fit,
    folds: fo.Folds,
    exact: fo.CVResult,
) -> None:
    objective = fo.curvature(fit, "structures").objective
    objective.derivatives(fit.theta)
    started = time.perf_counter()
    objective.derivatives(fit.theta)
    both = time.perf_counter() - started
    started = time.perf_counter()
    objective.cross(fit.theta)
    cross = time.perf_counter() - started
    fo.cross_validate(fit, folds, method="ij", check=False)
    quick = fo.cross_validate(fit, folds, method="ij", check=False).seconds - cross
    again = fo.fit(model, data).refit_seconds
    print(
        f"D = {len(fit.theta)}; H and J {both:.2f} s warm (J {cross:.2f} s); {len(folds)} folds after "
        f"that {quick:.2f} s; one refit from scratch {again:.1f} s, by refinement "
        f"{exact.seconds / len(folds):.2f} s; {len(folds)} refits / (H, J and folds) "
        f"{again * len(folds) / (both + quick):,.0f}, by refinement "
        f"{exact.seconds / (both + quick):.0f}\n"
    )


def _at(
    model: fo.models.LinearChainCRF,
    data: fo.Labelled,
    layer: neural.Epoch,
    folds: fo.Folds,
    exact: fo.CVResult,
) -> dict[str, Any]:
    """Errors of held-out probabilities from one epoch's parameters."""
    fit = fo.fit_at(model, data, layer.params)
    truth = np.exp(-exact.folds["loss"].to_numpy())
    print(
        f"epoch {layer.epoch}, {layer.seconds:.0f} s: gradient norm {fit.gradient_norm:.1f}, "
        f"{fit.distance:.2f} standard errors from stationary; {fit.status.outcome.value}"
    )
    row: dict[str, Any] = {"layer": layer, "fit": fit, "errors": {}, "found": {}}
    for name, options in VARIANTS.items():
        cv = fo.cross_validate(fit, folds, check=False, **options)
        probability = np.exp(-cv.folds["loss"].to_numpy())
        off = np.abs(probability - truth)
        nats = np.abs(cv.folds["loss"].to_numpy() - exact.folds["loss"].to_numpy())
        row["errors"][name], row["found"][name] = off.mean(), probability
        print(
            f"  {name:>20}: mean error of a held-out probability {off.mean():.1e} (largest "
            f"{off.max():.1e}), of a loss {nats.mean():.1e} nats"
        )
    return row


def _draw(rows: list[dict[str, Any]], exact: fo.CVResult) -> None:
    import matplotlib.pyplot as plt

    truth = np.exp(-exact.folds["loss"].to_numpy())
    shown = [row for row in rows if row["layer"].epoch in EPOCHS]
    names = [name for name in VARIANTS if name != "ij, no residual"]  # the paper's, but for its damping
    size = (3.4 * len(shown), 3.4 * len(names))
    figure, axes = plt.subplots(len(names), len(shown), figsize=size, layout="constrained")
    for column, row in zip(axes.T, shown, strict=True):
        for ax, name in zip(column, names, strict=True):
            ax.plot([0, 1], [0, 1], "k--", lw=0.8)
            ax.plot(truth, row["found"][name], "r.", ms=4)
            ax.set_title(f"{name}, epoch {row['layer'].epoch}", fontsize=9)
            ax.set(xlabel="exact held-out probability", ylabel="approximate")
    figure.savefig(cases.OUT / "neural_crf.png", dpi=120)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    # One step is the expansion where whole sentences are left out: it would lie on top of it.
    for name, mark in zip(("none", "ij, paper", "ij"), ("ks-", "rx--", "bo-"), strict=True):
        errors = [row["errors"][name] for row in rows]
        axes[0].semilogy([row["layer"].seconds for row in rows], errors, mark, ms=5, label=name)
        norms = [row["fit"].gradient_norm for row in rows]
        axes[1].loglog(norms, errors, mark.rstrip("-"), ms=5, label=name)
    axes[0].set(xlabel="seconds of training the CRF layer", ylabel="mean error of a probability")
    axes[1].set(xlabel="gradient norm", ylabel="mean error of a probability")
    axes[1].legend(fontsize=8)
    figure.savefig(cases.OUT / "neural_crf_errors.png", dpi=120)
    print(f"scatter: {cases.OUT / 'neural_crf.png'}, errors: {cases.OUT / 'neural_crf_errors.png'}")
