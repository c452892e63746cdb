"""How often a fit ends above the best optimum that is known, and whether it is certified.

200 simulated series: eight emissions, 1 to 40 channels (12 where covariances are full), 2 to 8 states, 200
to 5,000 steps, states that last 5 to 100 steps, so that each comes about five times, and are apart in a few
channels or in many. Each is fitted as by default. The best known optimum is the lowest certified end, with
observations in every state, of 40 starts (the parameters that made the data, the first start and random
ones), of hmmlearn's best of five seeds where it has the emission, and of the default fits.

The study takes hours, and is kept in parts, as it runs, in the folder FITONCE_KEEP; FITONCE_KEEP=reproduce/kept
has what was run so far, and FITONCE_STARTS=0 prints it and runs nothing. FITONCE_STEP says what to run: "now",
the default fits; "known", the 40 starts; "peer", hmmlearn; "before", the default fits of an earlier version whose
`src` is on PYTHONPATH. "select" chooses among 1 to K + 2 states for 40 of the series and for 20 neurons;
"caution" starts each fold of 40 fits cold, 40 times.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fitonce as fo
from reproduce import chosen

SETS = 25  # of each emission
EMISSIONS = (
    "poisson",
    "negative-binomial",
    "gaussian",
    "gaussian-full",
    "gamma",
    "bernoulli",
    "categorical",
    "product",
)
_CATEGORIES = 5


@dataclass(frozen=True)
class Made:
    """A series (T, C), the model to fit, and the parameters that made it."""

    x: np.ndarray
    model: Any
    params: dict[str, np.ndarray]


def made(emission: str, seed: int) -> Made:
    """A simulated series."""
    rng = np.random.default_rng([EMISSIONS.index(emission), seed])
    channels = int(np.exp(rng.uniform(0.0, np.log(41.0))))
    if emission == "gaussian-full":
        channels = max(2, min(channels, 12))
    if emission == "product":
        channels = max(2, channels)
    states = int(rng.integers(2, 9))
    steps = int(np.exp(rng.uniform(np.log(200.0), np.log(5000.0))))
    longest = np.clip(steps / (5.0 * states), 6.0, 100.0)
    stay = 1.0 - 1.0 / np.exp(rng.uniform(np.log(5.0), np.log(longest)))
    apart = float(np.exp(rng.uniform(np.log(0.5), np.log(2.0))))  # of levels, beside the usual one
    tuned = rng.random(channels) < rng.choice([0.3, 1.0])  # channels that differ between states
    tuned[0] = True
    moves = np.cumsum((rng.random(steps) > stay) * rng.integers(1, states, steps))
    path = (rng.integers(states) + moves) % states
    transition = np.full((states, states), (1.0 - stay) / (states - 1))
    np.fill_diagonal(transition, stay)
    chain = {"initial": np.full(states, 1.0 / states), "transition": transition}
    level = (
        apart * rng.normal(size=(states, channels)) * tuned
    )  # in units of the noise, where there is one
    x, params, model = _DRAWN[emission](level, path, rng)
    return Made(x, model, {**chain, **params})


def _poisson(level: np.ndarray, path: np.ndarray, rng: np.random.Generator) -> Any:
    rate = np.exp(rng.normal(0.5, 1.0, level.shape[1]) + level)
    return rng.poisson(rate[path]).astype(float), {"rate": rate}, fo.models.PoissonHMM(len(level))


def _negative_binomial(level: np.ndarray, path: np.ndarray, rng: np.random.Generator) -> Any:
    mean, size = np.exp(rng.normal(1.0, 1.0, level.shape[1]) + level), np.full(level.shape, 3.0)
    x = rng.poisson(rng.gamma(size[path], (mean / size)[path])).astype(float)
    return x, {"mean": mean, "size": size}, fo.models.HMM(len(level), fo.models.NegativeBinomial())


def _gaussian(level: np.ndarray, path: np.ndarray, rng: np.random.Generator) -> Any:
    spread = np.exp(0.3 * rng.normal(size=level.shape))
    x = 1.5 * level[path] + spread[path] * rng.normal(size=(len(path), level.shape[1]))
    return x, {"mean": 1.5 * level, "variance": spread**2}, fo.models.GaussianHMM(len(level))


def _gaussian_full(level: np.ndarray, path: np.ndarray, rng: np.random.Generator) -> Any:
    states, channels = level.shape
    factor = np.eye(channels) + 0.5 * rng.normal(size=(states, channels, channels)) / np.sqrt(channels)
    noise = rng.normal(size=(len(path), channels))
    x = 1.5 * level[path] + np.einsum("tij,tj->ti", factor[path], noise)
    covariance = factor @ factor.transpose(0, 2, 1)
    model = fo.models.GaussianHMM(states, covariance="full")
    return x, {"mean": 1.5 * level, "covariance": covariance}, model


def _gamma(level: np.ndarray, path: np.ndarray, rng: np.random.Generator) -> Any:
    mean, shape = np.exp(rng.normal(size=level.shape[1]) + level), np.full(level.shape, 2.0)
    x = rng.gamma(shape[path], (mean / shape)[path])
    x = np.maximum(x, 1e-12)
    return x, {"mean": mean, "shape": shape}, fo.models.HMM(len(level), fo.models.Gamma())


def _bernoulli(level: np.ndarray, path: np.ndarray, rng: np.random.Generator) -> Any:
    rate = 1.0 / (1.0 + np.exp(-1.5 * level))
    x = (rng.random((len(path), level.shape[1])) < rate[path]).astype(float)
    return x, {"rate": rate}, fo.models.HMM(len(level), "bernoulli")


def _categorical(level: np.ndarray, path: np.ndarray, rng: np.random.Generator) -> Any:
    logits = 1.5 * rng.normal(size=(*level.shape, _CATEGORIES)) * np.abs(level)[..., None]
    probability = np.exp(logits)
    probability /= probability.sum(-1, keepdims=True)
    below = np.cumsum(probability, -1)[path]
    x = (rng.random(below.shape[:-1])[..., None] > below[..., :-1]).sum(-1).astype(float)
    return x, {"probability": probability}, fo.models.HMM(len(level), fo.models.Categorical(_CATEGORIES))


def _product(level: np.ndarray, path: np.ndarray, rng: np.random.Generator) -> Any:
    """The first half of the channels are numbers, the others counts."""
    half = level.shape[1] // 2
    numbers, of_numbers, _ = _gaussian(level[:, :half], path, rng)
    counts, of_counts, _ = _poisson(level[:, half:], path, rng)
    names = [f"x{c}" for c in range(level.shape[1])]
    first, last = tuple(names[:half]), tuple(names[half:])
    model = fo.models.HMM(len(level), fo.models.Product({first: "gaussian", last: "poisson"}))
    params = {f"{'+'.join(first)}.{name}": value for name, value in of_numbers.items()}
    params |= {f"{'+'.join(last)}.{name}": value for name, value in of_counts.items()}
    return np.concatenate([numbers, counts], 1), params, model


_DRAWN = {
    "poisson": _poisson,
    "negative-binomial": _negative_binomial,
    "gaussian": _gaussian,
    "gaussian-full": _gaussian_full,
    "gamma": _gamma,
    "bernoulli": _bernoulli,
    "categorical": _categorical,
    "product": _product,
}


ABOVE = 3.0  # nats: a fit that is as far above the best known optimum is off
STARTS = int(os.environ.get("FITONCE_STARTS", 40))
_SEEDS = 5  # of hmmlearn
_PEERS = {"poisson", "gaussian", "gaussian-full", "categorical"}
_FEW = 0.01  # observations in a state


def now(one: Made) -> dict[str, Any]:
    """A fit as by default."""
    began, spent = time.perf_counter(), time.process_time()
    fit = fo.fit(one.model, one.x, progress=False)
    return {
        "value": fit.value,
        "ok": fit.ok,
        "starts": fit.optima.starts,
        "seconds": time.perf_counter() - began,
        "processors": time.process_time() - spent,
    }


def known(one: Made) -> dict[str, Any]:
    """The lowest certified end of the starts."""
    from fitonce.core.numerics import in_float64
    from fitonce.fitting.carriers import has_empty_state
    from fitonce.fitting.descent import descend
    from fitonce.objectives.families import objective_of

    objective = objective_of(one.model, fo.sequences(one.x), None)

    @in_float64
    def ends() -> list[np.ndarray]:
        rng = np.random.default_rng(1)
        begun = [objective.space.to_free(one.params), objective.start(None)]
        begun += [objective.start(rng) for _ in range(STARTS - len(begun))]
        runs = sorted(descend(objective, begun), key=lambda run: run.value)
        return [run.x for run in runs if np.isfinite(run.value)]

    for theta in ends()[:6]:
        fit = fo.fit(one.model, one.x, init=objective.space.params_at(theta), progress=False)
        if fit.ok and not has_empty_state(fit.objective, fit.theta):
            return {"value": fit.value}
    return {"value": None}


def peer(one: Made) -> dict[str, Any]:
    """The best of hmmlearn's fits from some seeds by its own likelihood, and the optimum it leads to."""
    from hmmlearn import hmm

    states, emission = one.model.n_states, one.model.emission
    began = time.perf_counter()
    fits = []
    for seed in range(_SEEDS):
        how = {"random_state": seed, "n_iter": 200, "tol": 1e-3}
        if isinstance(emission, fo.models.Poisson):
            model, x = hmm.PoissonHMM(states, **how), one.x.astype(int)
        elif isinstance(emission, fo.models.Gaussian):
            model, x = hmm.GaussianHMM(states, emission.covariance, **how), one.x
        else:
            model, x = hmm.CategoricalHMM(states, n_features=_CATEGORIES, **how), one.x.astype(int)
        fits.append((model.fit(x).score(x), model))
    seconds = time.perf_counter() - began
    best = max(fits, key=lambda pair: -np.inf if np.isnan(pair[0]) else pair[0])[1]
    names = {"initial": best.startprob_, "transition": best.transmat_}
    if isinstance(emission, fo.models.Poisson):
        names["rate"] = best.lambdas_
    elif isinstance(emission, fo.models.Gaussian):
        names["mean"] = best.means_
        full = emission.covariance == "full"
        names |= {"covariance": best.covars_} if full else {"variance": _diagonals(best.covars_)}
    else:
        names["probability"] = best.emissionprob_[:, None]
    floor = {
        name: np.maximum(value, 1e-6) if name != "mean" and name != "covariance" else value
        for name, value in names.items()
    }
    for name in ("initial", "transition", "probability"):
        if name in floor:
            floor[name] = floor[name] / floor[name].sum(-1, keepdims=True)
    fit = fo.fit(one.model, one.x, init=floor, progress=False)
    return {"value": fit.value if fit.ok else None, "seconds": seconds}


def _diagonals(covariances: np.ndarray) -> np.ndarray:
    return np.diagonal(covariances, axis1=1, axis2=2) if covariances.ndim == 3 else covariances


def has_peer(emission: str, seed: int) -> bool:
    """Whether hmmlearn has the emission; its categories have one channel."""
    return emission in _PEERS and (emission != "categorical" or made(emission, seed).x.shape[1] == 1)


_STEPS: dict[str, Callable[[Made], dict[str, Any]]] = {
    "now": now,
    "before": now,
    "known": known,
    "peer": peer,
}


def main(part: str | None = None) -> None:
    step = os.environ.get("FITONCE_STEP", "now" if STARTS else "")
    parts = chosen(part, [*EMISSIONS, "select", "caution"])
    if step in ("now", "before"):  # so that nothing is compiled or loaded within a time
        for emission in set(parts) & set(EMISSIONS):
            one = made(emission, 0)
            fo.fit(one.model, one.x[:200], restarts=1, optima=0, progress=False)
    for seed in range(SETS if step else 0):
        for emission in parts:
            if emission in EMISSIONS and (step != "peer" or has_peer(emission, seed)):
                _run(step, emission, seed)
    for special, run in (("select", select), ("caution", caution)):
        if special in parts and (STARTS or part is not None):
            run()
    _show(pd.DataFrame(_kept()), [name for name in parts if name in EMISSIONS])


def _path() -> Path | None:
    folder = os.environ.get("FITONCE_KEEP")
    return Path(folder) / "starts.jsonl" if folder else None


_memory: list[dict[str, Any]] = []


def _kept() -> list[dict[str, Any]]:
    path = _path()
    if path is None:
        return _memory
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _keep(row: dict[str, Any]) -> None:
    path = _path()
    if path is None:
        _memory.append(row)
        return
    with path.open("a") as file:
        print(json.dumps(row), file=file, flush=True)


def _run(step: str, emission: str, seed: int) -> None:
    done = {(row["step"], row["emission"], row["seed"]) for row in _kept()}
    if (step, emission, seed) in done:
        return
    one = made(emission, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of hmmlearn, that it did not converge
        try:
            found = _STEPS[step](one)
        except ValueError as error:
            found = {"value": None, "why": str(error)}
    shape = {"steps": len(one.x), "channels": one.x.shape[1], "states": one.model.n_states}
    found = {name: round(v, 4) if isinstance(v, float) else v for name, v in found.items()}
    _keep({"step": step, "emission": emission, "seed": seed, **shape, **found})


def _show(rows: pd.DataFrame, emissions: list[str]) -> None:
    if rows.empty or not emissions:
        return
    rows = rows[rows["emission"].isin(emissions)]
    index = ["emission", "seed"]
    rows = rows.assign(value=rows["value"].where(rows.get("ok", True) != False))  # noqa: E712
    values, seconds = (
        rows.pivot_table(index=index, columns="step", values=name, aggfunc="first")
        for name in ("value", "seconds")
    )
    best = values.min(axis=1)
    print(f"above the best known by more than {ABOVE:g} nats, and not certified")
    for name in [*emissions, "all"]:
        some = values if name == "all" else values[values.index.get_level_values(0) == name]
        said = []
        for step in ("before", "now", "peer"):
            if step not in some or some[step].notna().sum() == 0:
                continue
            own = some[step].notna() if step == "peer" else some.index.isin(_ran(rows, step))
            above = (some.loc[own, step] - best[some.index[own]] > ABOVE).sum()
            took = seconds[step].reindex(some.index[own]).median()
            failed = "" if step == "peer" else f", {_failed(rows, step, some.index)} not certified"
            said.append(f"{step} {above} of {int(own.sum())}{failed}, median {took:.2f} s")
        print(f"  {name:>18}: {'; '.join(said)}")
    if {"before", "now"} <= set(values):
        ratio = (seconds["now"] / seconds["before"]).dropna()
        print(f"time, now to before: median {ratio.median():.2f}, of {len(ratio)} series")
        both = values.dropna(subset=["before", "now"])
        lower = both["before"] - both["now"]
        print(
            f"now lower by more than 0.1 nats in {(lower > 0.1).sum()}, higher in {(lower < -0.1).sum()}"
        )
    if "now" in values:
        off = values["now"] - best
        for key in off[off > ABOVE].index:
            print(f"  {key[0]} {key[1]}: {off[key]:.2f} nats above")


def _ran(rows: pd.DataFrame, step: str) -> pd.MultiIndex:
    some = rows[rows["step"] == step]
    return pd.MultiIndex.from_frame(some[["emission", "seed"]])


def _failed(rows: pd.DataFrame, step: str, index: pd.MultiIndex) -> int:
    some = rows[rows["step"] == step].set_index(["emission", "seed"])
    return int((some.loc[some.index.isin(index), "ok"] != True).sum())  # noqa: E712 - missing is not true


def neurons(seed: int = 3, channels: int = 20, steps: int = 2000, states: int = 4) -> np.ndarray:
    """Counts of spikes of neurons, each with a rate of its own in each state."""
    rng = np.random.default_rng(seed)
    rate = rng.gamma(1.0, 3.0, (states, channels))
    moves = np.cumsum((rng.random(steps) > 0.95) * rng.integers(1, states, steps))
    return rng.poisson(rate[(rng.integers(states) + moves) % states]).astype(float)


def select() -> None:
    """What `fo.select` says, and AIC and BIC, for 40 of the series (five of each emission) and neurons."""
    series: list[tuple[str, Any, Any, int]] = [
        ("20 neurons x 2,000", neurons(), lambda k: fo.models.PoissonHMM(k), 4)
    ]
    for emission in EMISSIONS:
        for one in (made(emission, seed) for seed in _small(emission, 5)):
            make = lambda k, m=one.model: fo.models.HMM(k, m.emission)  # noqa: E731
            series.append((emission, one.x, make, one.model.n_states))
    done = {row["seed"] for row in _kept() if row["step"] == "select"}
    for number, (name, x, make, states) in enumerate(series):
        if number in done:
            continue
        candidates = {str(k): make(k) for k in range(1, states + 3)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.perf_counter()
            found = fo.select(candidates, x, progress=False)
        aic, bic = (found.table[column].idxmin() for column in ("aic", "bic"))
        row = {"chosen": "" if found.undecided else found.simplest, "aic": aic, "bic": bic}
        failed = [str(k) for k, outcome in found.table["fit"].items() if outcome != "stationary"]
        failed += list(found.skipped)
        seconds = round(time.perf_counter() - began, 1)
        row |= {"failed": failed, "truth": states, "undecided": found.undecided, "seconds": seconds}
        _keep({"step": "select", "emission": name, "seed": number, **row})
    rows = pd.DataFrame([row for row in _kept() if row["step"] == "select"])
    for row in rows.itertuples():
        said = f"chosen {row.chosen}" if row.chosen else row.undecided
        print(
            f"  {row.emission}, {row.truth} states: {said}; AIC {row.aic}, BIC {row.bic}; {row.seconds} s"
        )
    answered = rows[rows["chosen"] != ""]
    truth = answered["truth"].astype(str)
    print(
        f"{len(answered)} of {len(rows)} with an answer: true in {(answered['chosen'] == truth).sum()}, "
        f"AIC {(answered['aic'] == truth).sum()}, BIC {(answered['bic'] == truth).sum()}; "
        f"chosen beside a failed fit: {sum(_beside(row) for row in answered.itertuples())}"
    )


def _beside(row: Any) -> bool:
    return bool({str(int(row.chosen) + step) for step in (-1, 0, 1)} & set(row.failed))


def _small(emission: str, count: int) -> list[int]:
    """The first series of an emission that are small enough to be fitted many times."""
    found = []
    for seed in range(SETS):
        one = made(emission, seed)
        if one.x.size * one.model.n_states < 60_000 and one.model.n_states < 7:
            found.append(seed)
    return found[:count]


def caution() -> None:
    """How often folds of right fits are said to be where a better optimum may be, and are."""
    from reproduce import cold

    done = {(row["emission"], row["seed"]) for row in _kept() if row["step"] == "caution"}
    for emission in EMISSIONS:
        for seed in _small(emission, 5):
            if (emission, seed) in done:
                continue
            one = made(emission, seed)
            fit = fo.fit(one.model, one.x, progress=False)
            if not fit.ok or fit.value > (known(one)["value"] or np.inf) + ABOVE:
                continue  # not a right fit
            folds = fo.folds.blocks(one.x, percent=10, n=10, seed=0)
            began = time.perf_counter()
            cv = fo.cross_validate(fit, folds, progress=False)
            seconds = time.perf_counter() - began
            which = np.arange(len(folds))
            lowest = cold.side_by_side(fit, folds, which, 40).objectives
            batch = cold.objective_of(fit, folds)
            weights = folds.rebased(batch.base).weights_of(which)
            own = batch.values_and_gradients(cv.theta, weights)[0] if cv.theta.shape[1] else lowest
            said, off = (cv.folds["missed"] != "").to_numpy(), own > lowest + 0.01
            row = {"said": int(said.sum()), "off": int(off.sum()), "both": int((said & off).sum())}
            _keep({"step": "caution", "emission": emission, "seed": seed, "folds": len(folds), **row})
            print(f"  {emission} {seed}: {row} of {len(folds)} folds, {seconds:.1f} s", flush=True)
    rows = pd.DataFrame([row for row in _kept() if row["step"] == "caution"])
    total = rows[["folds", "said", "off", "both"]].sum()
    print(
        f"{len(rows)} fits, {total['folds']} folds: a better optimum may exist, said of {total['said']}; "
        f"40 cold starts end lower in {total['off']}; both in {total['both']}"
    )
