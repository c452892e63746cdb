"""Against hmmlearn and dynamax: log-likelihood, an EM pass, and cross-validation by refitting.

The same model where there is one: Gaussian states with spherical noise are hmmlearn's
covariance_type="spherical", dynamax's SphericalGaussianHMM and our ARHMM(order=0, noise="state") with
flat priors. dynamax's autoregression has full covariances; its log-likelihood is compared at
spherical ones, its EM pass as it is.
"""

from __future__ import annotations

import logging
import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from reproduce import cases, mocap

import fitonce as fo
from benchmarks.large import best, timed

STATES, FLAT = 5, {"weight_scale": None, "bias_scale": None, "strength": 0.0}
PRIOR = 1.1  # Dirichlet, on both sides
EM_TOLERANCE, MOST_EM = 1e-4, 500


def main() -> None:
    print(f"{cases.machine()}; 100 training sequences of motion capture, 12 channels, {STATES} states")
    data = mocap.trials().train
    model = fo.models.ARHMM(STATES, 0, noise="state", **FLAT)
    fit = fo.fit(model, data, restarts=1)
    print(f"fitonce: fit {fit.seconds:.1f} s cold, {fit.refit_seconds:.1f} s compiled; {fit.status}")
    objective, theta, base = fit.objective, fit.theta, fit.objective.base
    value = objective.with_scheme(fo.schemes.A()).log_likelihoods(theta[None], base[None])[0]
    ours = best(lambda: objective.log_likelihoods(theta[None], base[None]))
    em = best(lambda: objective.m_step(theta + 0.01))
    print(f"  log-likelihood {value:.6f}, {ours * 1e3:.1f} ms; an EM pass {em * 1e3:.1f} ms")
    hmmlearn(fit, data, ours, em)
    dynamax(fit, data, ours, em)
    autoregression(data)


def hmmlearn(fit: fo.Fit, data: list[np.ndarray], ours: float, em: float) -> None:
    from hmmlearn.hmm import GaussianHMM

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    stacked, lengths = np.concatenate(data), [len(part) for part in data]

    def peer(n_iter: int, params: str = "stmc") -> Any:
        hmm = GaussianHMM(
            STATES, "spherical", n_iter=n_iter, tol=EM_TOLERANCE, params=params, init_params="",
            implementation="scaling", covars_prior=0.0, covars_weight=0.0, means_weight=0.0, startprob_prior=PRIOR,
            transmat_prior=PRIOR,
        )  # fmt: skip
        hmm.startprob_, hmm.transmat_ = fit.params["initial"], fit.params["transition"]
        hmm.means_, hmm.covars_ = fit.params["bias"], fit.params["variance"]
        return hmm

    at = peer(1)
    value = at.score(stacked, lengths)
    score = best(lambda: at.score(stacked, lengths))
    step = best(lambda: peer(1).fit(stacked, lengths))
    print(
        f"hmmlearn: log-likelihood {value:.6f}, {score * 1e3:.1f} ms ({score / ours:.1f} of ours); an EM pass "
        f"{step * 1e3:.1f} ms ({step / em:.1f} of ours)"
    )
    folds = fo.folds.structures(fit.data, n=20, seed=0)
    run = lambda: fo.cross_validate(fit, folds)  # noqa: E731
    _, cold = timed(run)
    cv, took = timed(run)
    losses, started = [], time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dropped in folds.dropped:
            kept = [part for n, part in enumerate(data) if n != dropped[0]]
            refit = peer(MOST_EM).fit(np.concatenate(kept), [len(part) for part in kept])
            losses.append(-refit.score(data[dropped[0]]))
    theirs = time.perf_counter() - started
    off = np.abs(np.array(losses) - cv.folds["loss"].to_numpy())
    print(
        f"  leave one sequence out, 20 folds: hmmlearn by refitting from our fit {np.mean(losses):.4f}, "
        f"{theirs:.1f} s; fitonce auto {cv.estimate:.4f}, {took:.1f} s ({cold:.1f} s cold), ratio "
        f"{theirs / took:.1f}; mean difference of a fold {off.mean():.1e}, largest {off.max():.1e} "
        f"(control {cv.control:.4f})"
    )


def dynamax(fit: fo.Fit, data: list[np.ndarray], ours: float, em: float) -> None:
    from dynamax.hidden_markov_model import SphericalGaussianHMM

    whole = np.stack([part for part in data if len(part) == mocap.LONGEST])  # it takes equal lengths
    same = fo.fit_at(fit.model, list(whole), fit.params)
    value = same.objective.log_likelihoods(same.theta[None], same.objective.base[None])[0]
    mine = best(lambda: same.objective.log_likelihoods(same.theta[None], same.objective.base[None]))
    step = best(lambda: same.objective.m_step(same.theta + 0.01))
    with jax.enable_x64(True):
        hmm = SphericalGaussianHMM(STATES, whole.shape[-1])
        params, _ = hmm.initialize(
            jax.random.PRNGKey(0),
            initial_probs=jnp.asarray(fit.params["initial"]),
            transition_matrix=jnp.asarray(fit.params["transition"]),
            emission_means=jnp.asarray(fit.params["bias"]),
            emission_scales=jnp.sqrt(jnp.asarray(fit.params["variance"])),
        )
        batch = jnp.asarray(whole)
        logs = jax.jit(jax.vmap(lambda x: hmm.marginal_log_prob(params, x)))
        score = best(lambda: logs(batch).block_until_ready())
        theirs = float(logs(batch).sum())
    print(
        f"dynamax, {len(whole)} sequences of {mocap.LONGEST} steps: log-likelihood {theirs:.6f} (ours "
        f"{value:.6f}), {score * 1e3:.1f} ms ({score / mine:.1f} of ours); our EM pass {step * 1e3:.1f} ms"
    )


def autoregression(data: list[np.ndarray]) -> None:
    from dynamax.hidden_markov_model import GaussianHMM, LinearAutoregressiveHMM

    whole = np.stack([part for part in data if len(part) == mocap.LONGEST])
    fit = fo.fit(fo.models.ARHMM(STATES, 1), list(whole), restarts=1)
    objective, theta, base = fit.objective, fit.theta, fit.objective.base
    value = objective.log_likelihoods(theta[None], base[None])[0]
    ours = best(lambda: objective.log_likelihoods(theta[None], base[None]))
    em = best(lambda: objective.m_step(theta + 0.001))
    channels = whole.shape[-1]
    with jax.enable_x64(True):
        hmm = LinearAutoregressiveHMM(STATES, channels, num_lags=1)
        start = fit.params["initial"] @ fit.params["transition"]  # the first step is given
        params, props = hmm.initialize(
            jax.random.PRNGKey(0),
            initial_probs=jnp.asarray(start),
            transition_matrix=jnp.asarray(fit.params["transition"]),
            emission_weights=jnp.asarray(fit.params["weight"]),
            emission_biases=jnp.asarray(fit.params["bias"]),
            emission_covariances=jnp.tile(fit.params["variance"] * jnp.eye(channels), (STATES, 1, 1)),
        )
        emissions, inputs = jnp.asarray(whole[:, 1:]), jnp.asarray(whole[:, :-1])
        logs = jax.jit(jax.vmap(lambda x, u: hmm.marginal_log_prob(params, x, inputs=u)))
        score = best(lambda: logs(emissions, inputs).block_until_ready())
        theirs = float(logs(emissions, inputs).sum())
        gaussian = GaussianHMM(STATES, channels)
        begun = gaussian.initialize(jax.random.PRNGKey(0))
        passes = {
            "LinearAutoregressiveHMM": _pass(hmm, (params, props), emissions, inputs),
            "GaussianHMM": _pass(gaussian, begun, jnp.asarray(whole), None),
        }
    print(
        f"autoregression of order 1, {len(whole)} sequences: log-likelihood ours {value:.6f}, "
        f"{ours * 1e3:.1f} ms; dynamax {theirs:.6f}, {score * 1e3:.1f} ms ({score / ours:.1f} of ours)\n"
        f"  an EM pass: ours {em * 1e3:.1f} ms; dynamax "
        + ", ".join(f"{n} {t * 1e3:.1f} ms ({t / em:.1f} of ours)" for n, t in passes.items())
    )
    folds = fo.folds.structures(fit.data, n=5, seed=0)
    cv, took = timed(lambda: fo.cross_validate(fit, folds))
    cv, took = timed(lambda: fo.cross_validate(fit, folds))
    with jax.enable_x64(True):
        started = time.perf_counter()
        losses = []
        for dropped in folds.dropped:
            keep = np.arange(len(whole)) != dropped[0]
            found, _ = hmm.fit_em(
                params, props, emissions[keep], inputs=inputs[keep], num_iters=100, verbose=False
            )
            n = int(dropped[0])
            losses.append(-float(hmm.marginal_log_prob(found, emissions[n], inputs=inputs[n])))
        theirs_s = time.perf_counter() - started
    print(
        f"  leave one sequence out, 5 folds: dynamax by 100 EM passes each (full covariances: another "
        f"model) {np.mean(losses):.2f}, {theirs_s:.1f} s; fitonce auto {cv.estimate:.2f} (control "
        f"{cv.control:.2f}), {took:.1f} s, ratio {theirs_s / took:.1f}"
    )


def _pass(hmm: Any, begun: tuple[Any, Any], emissions: Any, inputs: Any) -> float:
    """Seconds of one of dynamax's EM passes, compiled: its `fit_em` compiles anew at each call."""
    params, props = begun
    state = hmm.initialize_m_step_state(params, props)

    @jax.jit
    def step(params: Any) -> Any:
        expect = lambda x, u: hmm.e_step(params, x, u)  # noqa: E731
        stats, _ = jax.vmap(expect, in_axes=(0, None if inputs is None else 0))(emissions, inputs)
        return hmm.m_step(params, props, stats, state)[0]

    return best(lambda: jax.block_until_ready(step(params)))
