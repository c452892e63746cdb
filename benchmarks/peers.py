"""Against hmmlearn on the same data and model: log-likelihood, and cross-validation by refitting."""

from __future__ import annotations

import logging
import os
import platform
import time
import warnings

import numpy as np

import fitonce as fo

STEPS, SEQUENCES, STATES = 200, 40, 3


def _data() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    out = []
    for _ in range(SEQUENCES):
        z = np.zeros(STEPS, int)
        for t in range(1, STEPS):
            z[t] = z[t - 1] if rng.random() < 0.9 else rng.integers(STATES)
        out.append(np.array([-2.0, 0.0, 2.0])[z][:, None] + rng.normal(size=(STEPS, 2)) * 0.8)
    return out


def main() -> None:
    from hmmlearn import hmm

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    data = _data()
    # Maximum likelihood on both sides: no prior but a trace on the initial distribution.
    model = fo.models.GaussianHMM(STATES, strength=0.0, transition_concentration=1.0)
    fit = fo.fit(model, data)
    folds = fo.folds.structures(data)
    fo.cross_validate(fit, folds)  # compile
    start = time.perf_counter()
    ours = fo.cross_validate(fit, folds)
    seconds = time.perf_counter() - start
    exact = fo.cross_validate(fit, folds, method="exact")

    def refit(train: list[np.ndarray]) -> hmm.GaussianHMM:
        peer = hmm.GaussianHMM(
            STATES, "diag", n_iter=500, tol=1e-6, init_params="", covars_prior=0, covars_weight=0,
            means_weight=0, min_covar=0,
        )  # fmt: skip
        peer.startprob_, peer.transmat_ = fit.params["initial"], fit.params["transition"]
        peer.means_, peer.covars_ = fit.params["mean"], fit.params["variance"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return peer.fit(np.concatenate(train), [len(x) for x in train])

    start = time.perf_counter()
    losses = [-refit(data[:n] + data[n + 1 :]).score(data[n]) for n in range(SEQUENCES)]
    peer_seconds = time.perf_counter() - start
    print(
        f"{os.cpu_count()} cores, {platform.machine()}; leave-one-sequence-out on {SEQUENCES} x {STEPS}"
    )
    print(f"  hmmlearn, refit from the full fit  {np.mean(losses):.4f}   {peer_seconds:8.3f} s")
    print(
        f"  fitonce auto                       {ours.estimate:.4f}   {seconds:8.3f} s"
        f"   {peer_seconds / seconds:.0f}x faster"
    )
    print(f"  fitonce exact                      {exact.estimate:.4f}   {exact.seconds:8.3f} s")
    print(f"  control (none)                     {ours.control:.4f}")
