"""Against dynamax on the same data and model: leave-one-sequence-out by its own refits, and by `auto`."""

from __future__ import annotations

import os
import platform
import time

import numpy as np

import fitonce as fo

STEPS, SEQUENCES, STATES, ITERATIONS = 200, 20, 3, 200


def _data() -> np.ndarray:
    rng = np.random.default_rng(0)
    z = np.zeros((SEQUENCES, STEPS), int)
    for t in range(1, STEPS):
        moves = rng.random(SEQUENCES) >= 0.9
        z[:, t] = np.where(moves, rng.integers(STATES, size=SEQUENCES), z[:, t - 1])
    return np.array([-2.0, 0.0, 2.0])[z][..., None] + 0.8 * rng.normal(size=(SEQUENCES, STEPS, 2))


def main() -> None:
    import jax
    import jax.numpy as jnp
    import jax.random as jr
    from dynamax.hidden_markov_model import DiagonalGaussianHMM

    x = _data()
    with jax.enable_x64(True):
        theirs, given = DiagonalGaussianHMM(STATES, 2), jnp.asarray(x)
        begin, props = theirs.initialize(jr.PRNGKey(0), method="kmeans", emissions=given)
        params, _ = theirs.fit_em(begin, props, given, num_iters=ITERATIONS, verbose=False)

        def refit(left: int) -> float:
            """From the full fit, all folds of one shape, so that it compiles once."""
            train = jnp.concatenate([given[:left], given[left + 1 :]])
            own, _ = theirs.fit_em(params, props, train, num_iters=ITERATIONS, verbose=False)
            return -float(theirs.marginal_log_prob(own, given[left]))

        refit(0)  # compile
        start = time.perf_counter()
        losses = np.array([refit(left) for left in range(SEQUENCES)])
        peer_seconds = time.perf_counter() - start
    fit = fo.from_dynamax(theirs, params, props, x).polish()
    folds = fo.folds.structures(fit.data)
    fo.cross_validate(fit, folds)  # load
    start = time.perf_counter()
    ours = fo.cross_validate(fit, folds)
    seconds = time.perf_counter() - start
    exact = fo.cross_validate(fit, folds, method="exact")
    gaps = [np.abs(cv.folds["loss"].to_numpy() - losses).max() for cv in (ours, exact)]
    print(
        f"{os.cpu_count()} cores, {platform.machine()}; leave-one-sequence-out on {SEQUENCES} x {STEPS}"
    )
    print(
        f"  dynamax, {ITERATIONS} EM steps from the full fit  {losses.mean():.4f}   {peer_seconds:8.3f} s"
    )
    print(
        f"  fitonce auto                        {ours.estimate:.4f}   {seconds:8.3f} s"
        f"   {peer_seconds / seconds:.0f}x faster; folds within {gaps[0]:.1e} of theirs, tolerance "
        f"{ours.tolerance:.1e}"
    )
    print(
        f"  fitonce exact                       {exact.estimate:.4f}   {exact.seconds:8.3f} s"
        f"   folds within {gaps[1]:.1e} of theirs"
    )
