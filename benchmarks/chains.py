"""Long chains on a CPU: one fold's gradient beside the passes of peers, and 1,000 folds of traffic.

A gradient needs the posterior of every step and the expected transitions, which is what the passes of
hmmlearn (scaled, in C++) and dynamax (JAX, compiled before) give; their densities are given. Ours has
them in its time, and the prior and the pull-back to parameters.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from reproduce import traffic
from reproduce.cases import machine
from scipy.special import gammaln

import fitonce as fo
from fitonce.objectives.families import objective_of

STEPS, FOLDS = 50_400, 64
STATES = (2, 5, 16, 64)
METHODS = ("ij", "onestep", "auto", "exact")


def main() -> None:
    print(machine())
    for states in STATES:
        _gradients(states)
    for method in METHODS:
        told = subprocess.run(
            [sys.executable, "-m", "benchmarks.chains", method],
            check=True,
            capture_output=True,
            text=True,
        )
        print(told.stdout.strip(), flush=True)


def _gradients(states: int) -> None:
    """One line: time of a fold's gradient, and of one pass of each peer on the same chain."""
    rng = np.random.default_rng(states)
    z = np.cumsum(rng.random(STEPS) < 0.05) % states
    counts = rng.poisson(4.0 * (z + 1))
    levels = 4.0 * np.arange(1, states + 1)
    params = {
        "initial": np.full(states, 1.0 / states),
        "transition": 0.9 * np.eye(states) + 0.1 / states,
        "rate": levels[:, None],
    }
    model, data = fo.models.PoissonHMM(states), fo.sequences(counts.astype(float))
    objective = objective_of(model, data)
    theta = objective.space.to_free(params)
    folds = 16 if states > 16 else FOLDS
    kept = np.ones((folds, STEPS))
    for fold, row in enumerate(kept):
        row[fold * 500 : fold * 500 + STEPS // 10] = 0.0
    thetas = np.tile(theta, (folds, 1))
    ours = _best(lambda: objective.values_and_gradients(thetas, kept)) / folds
    densities = np.exp(counts[:, None] * np.log(levels) - levels - gammaln(counts + 1.0)[:, None])
    hmmlearn = _best(lambda: _hmmlearn_pass(params, densities))
    dynamax = _best(_dynamax_pass(params, densities))
    print(
        f"T = {STEPS:,}, K = {states}: a fold's gradient {1e3 * ours:.2f} ms ({folds} folds on all cores); "
        f"hmmlearn {1e3 * hmmlearn:.1f} ms, {hmmlearn / ours:.1f} times ours; "
        f"dynamax {1e3 * dynamax:.1f} ms, {dynamax / ours:.1f} times ours",
        flush=True,
    )


def _hmmlearn_pass(params: dict[str, np.ndarray], densities: np.ndarray) -> Any:
    from hmmlearn import _hmmc

    initial, moves = params["initial"], params["transition"]
    _, ahead, scaling = _hmmc.forward_scaling(initial, moves, densities)
    behind = _hmmc.backward_scaling(initial, moves, densities, scaling)
    return _hmmc.compute_scaling_xi_sum(ahead, moves, behind, densities)


def _dynamax_pass(params: dict[str, np.ndarray], densities: np.ndarray) -> Callable[[], Any]:
    import jax
    from dynamax.hidden_markov_model import hmm_two_filter_smoother

    smooth = jax.jit(hmm_two_filter_smoother)

    def work() -> Any:
        with jax.enable_x64(True):
            given = (params["initial"], params["transition"], np.log(np.maximum(densities, 1e-300)))
            return jax.block_until_ready(smooth(*given))

    return work


def _best(work: Callable[[], Any], times: int = 3) -> float:
    """The shortest of some runs, after one that compiles or fills the caches."""
    work()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


def _traffic(method: str) -> None:
    """One line: 1,000 folds of 10 % of the traffic counts by one method, in this process."""
    fit = traffic.fit(traffic.load(), restarts=1)
    folds = fo.folds.blocks(fit.data, percent=10, n=1000, seed=0)
    fo.cross_validate(fit, folds.some(range(20)), method=method)  # small programs compile here
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    result = fo.cross_validate(fit, folds, method=method)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    verdicts = ", ".join(f"{n} {name}" for name, n in result.folds["verdict"].value_counts().items())
    print(
        f"traffic, 1,000 folds, {method}: {seconds:.1f} s; estimate {result.estimate:.4f}; {verdicts}, {result.n_failed} not certified; "
        f"peak {peak / 2**20:.2f} GiB, {(peak - before) / 2**20:.2f} above the fit's"
    )


if __name__ == "__main__":
    _traffic(sys.argv[1])
