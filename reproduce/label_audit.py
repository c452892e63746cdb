"""Label audit of emerging entities: the most suspicious labels, and planted errors that are found."""

from __future__ import annotations

import numpy as np
from scipy import stats

import fitonce as fo
from reproduce import cases, ner
from reproduce.labels_out import AXES, fitted

SHARE, SEEDS = 0.01, (0, 1, 2)
TOPS = (0.01, 0.05)


def main() -> None:
    print(cases.machine())
    audit = fo.influence(fitted())
    print(audit.report(25), "\n")
    train = ner.wnut("train")
    vectors = ner.glove().reduced(AXES)
    print(f"{SHARE:.0%} of the labels exchanged at random; share of them among the top:")
    print(f"{'':>6}" + "".join(f"{f'top {top:.0%}':>10}" for top in TOPS) + f"{'AUC':>8}   ranked by")
    for seed in SEEDS:
        data, sites = ner.flipped(train, SHARE, seed)
        fit = fo.fit(fo.models.LinearChainCRF(scale=1.0), ner.linear(data, vectors, train.tag_names))
        tokens = fo.influence(fit).tokens
        planted = np.isin(tokens["site"], sites)
        for name, column in (
            ("loss without the label", "loss"),
            ("displacement", "displacement"),
            ("loss at the fit (control)", "control"),
        ):
            score = tokens[column].to_numpy()
            order = np.argsort(-score, kind="stable")
            found = [planted[order[: int(top * len(order))]].sum() / planted.sum() for top in TOPS]
            rank = stats.rankdata(score)[planted].sum() - planted.sum() * (planted.sum() + 1) / 2
            area = rank / (planted.sum() * (~planted).sum())
            text = "".join(f"{share:>10.1%}" for share in found)
            print(f"seed {seed}{text}{area:>8.4f}   {name}")
