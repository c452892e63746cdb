"""H, J and folds of an autoregressive HMM as sequences, states and order grow; and with workers."""

from __future__ import annotations

import time

import numpy as np
from reproduce import cases

import fitonce as fo
from benchmarks.large import best, timed

LENGTH, CHANNELS = 60, 4
DAMPING = 1e4  # after 20 EM steps H need not be positive definite; it takes the same time


def simulated(count: int, states: int, order: int, seed: int = 0) -> list[np.ndarray]:
    """Sequences of linear autoregressions that take turns."""
    rng = np.random.default_rng(seed)
    turns = [np.linalg.qr(rng.normal(size=(CHANNELS, CHANNELS)))[0] * 0.8 for _ in range(states)]
    shift = rng.normal(0, 2, (states, CHANNELS))
    data = np.zeros((count, LENGTH + order, CHANNELS))
    state = rng.integers(states, size=count)
    for t in range(1, LENGTH + order):
        moves = rng.random(count) < 0.1
        state = np.where(moves, rng.integers(states, size=count), state)
        mean = np.einsum("nij,nj->ni", np.array(turns)[state], data[:, t - 1]) + shift[state]
        data[:, t] = mean + 0.3 * rng.normal(size=(count, CHANNELS))
    return list(data)


def row(count: int, states: int, order: int) -> str:
    data = simulated(count, states, order)
    model = fo.models.ARHMM(states, order)
    started = time.perf_counter()
    fit = fo.fit(model, data, restarts=1, max_iterations=20)
    took = time.perf_counter() - started
    objective, theta, base = fit.objective, fit.theta, fit.objective.base
    along = objective.with_scheme(fo.schemes.Structures())
    hessian = best(lambda: objective.hessians(theta[None], base[None]), 1)
    cross = best(lambda: along.cross(theta), 1)
    folds = fo.folds.structures(fit.data, n=min(count, 100))
    ij = best(lambda: fo.cross_validate(fit, folds, method="ij", check=False, damping=DAMPING), 1)
    return (
        f"N = {count:6,}, K = {states:2}, p = {order}: D = {len(theta):5,}; 20 EM steps {took:6.1f} s cold, "
        f"H {hessian:7.2f} s, J {cross:6.2f} s, ij of {len(folds)} folds {ij:6.2f} s"
    )


def main() -> None:
    print(f"{cases.machine()}; sequences of {LENGTH} steps of {CHANNELS} channels")
    for count in (100, 1_000, 10_000):
        print(row(count, 4, 1), flush=True)
    for states in (2, 8, 16, 32):
        print(row(100, states, 1), flush=True)
    for order in (0, 2, 3, 4, 5):
        print(row(100, 4, order), flush=True)
    workers()


def workers() -> None:
    """The same H, folds and refits with one and two worker processes, compiled."""
    data = simulated(1_000, 8, 2)
    fit = fo.fit(fo.models.ARHMM(8, 2), data, restarts=1)
    folds = fo.folds.structures(fit.data, n=20)
    base = None
    for parallel in (None, fo.Workers(1), fo.Workers(2)):
        problem = fit.objective.run_on(parallel)
        form = lambda p=problem: p.hessians(fit.theta[None], fit.objective.base[None])[0]  # noqa: E731
        form()
        matrix, hessian = timed(form)
        run = lambda p=parallel: fo.cross_validate(  # noqa: E731
            fit, folds, method="exact", check=False, parallel=p, chunk=5
        )
        run()
        cv, exact = timed(run)
        base = base or (hessian, exact, cv.estimate, matrix)
        print(
            f"parallel={parallel}: H {hessian:.2f} s (ratio {base[0] / hessian:.2f}), 20 refits {exact:.1f} s "
            f"(ratio {base[1] / exact:.2f}); differences: estimate {abs(cv.estimate - base[2]):.1e}, H "
            f"{np.abs(matrix - base[3]).max() / np.abs(matrix).max():.1e}",
            flush=True,
        )
