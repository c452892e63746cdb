"""HMMs with covariates: coverage of intervals of known coefficients, forecasts on simulated data, and the traffic
data with the time of day as a covariate, beside the paper's model.

* `coverage`: 100 series of 1,000 counts of two states, log means and log-odds of changes linear in a covariate each;
  how often 90 % intervals (value +- 1.645 standard errors) cover the coefficients.
* `pit`: 200 series, a forecast of 5 steps for each: the share of sampled values below what came then, drawn at random
  inside ties, should be uniform.
* `traffic`: the counts of a road, all of them, folds of contiguous blocks.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy import stats

import fitonce as fo
from reproduce import cases, chosen, traffic

SERIES = int(os.environ.get("FITONCE_SERIES", 100))
TRUE = {
    "coefficients[0,0,0]": 0.5,
    "coefficients[1,0,0]": -0.3,
    "transition_coefficients[0,1,0]": 1.0,
    "transition_coefficients[1,0,0]": -0.7,
}
LEVELS = np.log([2.0, 8.0])
CHANGES = np.array([-3.0, -2.0])  # log-odds


def simulated(seed: int, steps: int = 1000) -> tuple[fo.Sequences, np.ndarray]:
    """Counts with the covariates `heat` of means and `wind` of changes, and the hidden states."""
    rng = np.random.default_rng(seed)
    heat, wind = rng.normal(size=(2, steps))
    slopes, turns = np.array([0.5, -0.3]), np.array([1.0, -0.7])
    z = np.zeros(steps, int)
    for t in range(1, steps):
        odds = CHANGES[z[t - 1]] + turns[z[t - 1]] * wind[t]
        z[t] = z[t - 1] ^ (rng.random() < 1.0 / (1.0 + np.exp(-odds)))
    x = rng.poisson(np.exp(LEVELS[z] + slopes[z] * heat)).astype(float)
    return fo.sequences(x, covariates={"heat": heat, "wind": wind}), z


def model() -> Any:
    return fo.models.PoissonHMM(2, covariates=["heat"], transition_covariates=["wind"])


def main(part: str | None = None) -> None:
    print(cases.machine())
    for name in chosen(part, ["coverage", "pit", "traffic"]):
        {"coverage": coverage, "pit": pit, "traffic": beside_the_paper}[name]()


def coverage() -> None:
    inside: dict[str, list[bool]] = {name: [] for name in TRUE}
    apart: dict[str, list[float]] = {name: [] for name in TRUE}
    failed = 0
    for seed in range(SERIES):
        fit = fo.fit(model(), simulated(seed)[0])
        failed += not fit.ok
        by_rate = np.argsort(np.ravel(fit.params["rate"]))  # state 0 is the quiet one
        table = fit.to_dataframe().set_index("name")
        for name, true in TRUE.items():
            places = [int(c) for c in name.split("[")[1].strip("]").split(",")]
            places[0] = by_rate[places[0]]
            if name.startswith("transition"):
                places[1] = by_rate[places[1]]
            row = table.loc[f"{name.split('[')[0]}[{','.join(map(str, places))}]"]
            apart[name].append((row["value"] - true) / row["se"])
            inside[name].append(abs(apart[name][-1]) < 1.645)
    print(f"{SERIES} series of 1,000 counts, {failed} fits not certified")
    for name, true in TRUE.items():
        share = np.mean(inside[name])
        print(
            f"  {name}: true {true:+.1f}, 90 % intervals cover {100 * share:.0f} % "
            f"+- {100 * np.sqrt(0.09 / SERIES):.0f}, mean distance {np.mean(apart[name]):+.2f} se"
        )


def pit(series: int = 200, ahead: int = 5) -> None:
    places: list[np.ndarray] = []
    for seed in range(series):
        data, _ = simulated(1000 + seed, 400 + ahead)
        values, known = data.values[0, :, 0], data.covariates[0]
        part = fo.sequences(values[:400], covariates={"heat": known[:400, 0], "wind": known[:400, 1]})
        fit = fo.fit(model(), part)
        future = {"heat": known[400:, 0], "wind": known[400:, 1]}
        samples = fit.forecast(ahead, covariates=future, n=2000, seed=seed).samples[..., 0]
        below = (samples < values[400:]).mean(0)
        same = (samples == values[400:]).mean(0)
        places.append(below + np.random.default_rng(seed).random(ahead) * same)
    found = np.array(places)
    counts = np.histogram(found[:, 0], np.linspace(0, 1, 11))[0]
    print(f"{series} series, forecasts of {ahead} steps: share of paths below what came")
    print(
        f"  one step ahead, tenths: {counts.tolist()}, chi-squared p {stats.chisquare(counts).pvalue:.2f}"
    )
    counts = np.histogram(found[:, -1], np.linspace(0, 1, 11))[0]
    print(
        f"  {ahead} steps ahead, tenths: {counts.tolist()}, chi-squared p {stats.chisquare(counts).pvalue:.2f}"
    )
    for level in (50, 90):
        tail = 0.5 - level / 200
        held = ((found > tail) & (found < 1 - tail)).mean()
        print(f"  {level} % intervals hold {100 * held:.0f} %")


def beside_the_paper() -> None:
    plain = traffic.load()
    counts = np.where(plain.observed, plain.values, np.nan)[0, :, 0]
    step = np.arange(len(counts))
    day = fo.basis.fourier(step, period=traffic.STEPS_PER_DAY, order=4, name="day")
    week = fo.basis.fourier(step, period=7 * traffic.STEPS_PER_DAY, order=3, name="week")
    series = fo.sequences(counts, covariates=day.join(week))
    names = series.covariate_names
    candidates = {
        "EventCounts (the paper's)": fo.models.EventCounts(steps_per_day=traffic.STEPS_PER_DAY),
        "Poisson, no covariates": fo.models.PoissonHMM(2),
        "Poisson, day and week": fo.models.PoissonHMM(2, covariates=names),
        "negative binomial, day and week": fo.models.HMM(2, fo.models.NegativeBinomial(names)),
    }
    folds, found = fo.folds.blocks(series, percent=2, n=20, seed=0), {}
    for name, candidate in candidates.items():
        fit = fo.fit(candidate, series, restarts=2)
        print(f"  {name}: {len(fit.theta)} parameters, {fit.seconds:.0f} s, {fit.status}", flush=True)
        found[name] = fo.cross_validate(fit, folds, optima=0)
    print(fo.compare(found))
