"""The cases of `benchmarks limits`: a model, data and folds as source, and the call that is measured."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """`source` makes `model`, `data` and `folds`, a function of the data as they were read; `call` is a
    method of `cross_validate`, "loo", "influence" or "bootstrap"; `limit`: a memory_limit, also set as
    a hard limit of the process."""

    name: str
    source: str
    call: str
    limit: str | None = None


_BLOCKS = "folds = lambda read: fo.folds.blocks(read, percent={percent}, n={n})\n"
_WHOLE = "folds = fo.folds.structures\n"


def _chain(model: str, data: str, percent: int = 10, n: int = 20) -> str:
    return f"model = fo.models.{model}\n{data}\n" + _BLOCKS.format(percent=percent, n=n)


def _walk(states: int, steps: int) -> str:
    return f"z = np.cumsum(rng.random({steps}) < 0.1) % {states}\n"


def _counts(states: int, steps: int) -> str:
    return _walk(states, steps) + "data = rng.poisson(4.0 + 9.0 * z)"


def _normal(states: int, steps: int, channels: int) -> str:
    return _walk(states, steps) + f"data = 3.0 * z[:, None] + rng.normal(size=({steps}, {channels}))"


def _grid(rows: int, columns: int, classes: int, n: int) -> str:
    return f"""
import networkx as nx
edges = np.array(nx.convert_node_labels_to_integers(nx.grid_2d_graph({rows}, {columns})).edges)
data = rng.poisson(3.0 + 8.0 * (np.arange({rows * columns}) % {columns} * {classes} // {columns})) * 1.0
model = fo.models.PottsMixture(edges, n_classes={classes}, emission="poisson")
folds = lambda read: fo.folds.regions(model, percent=10, n={n})
"""


def _dense_labels(sentences: int, columns: int, folds: str = _WHOLE) -> str:
    return f"""
features = [rng.normal(size=(int(rng.integers(4, 20)), {columns})) for _ in range({sentences})]
tags = [["abc"[int(row[0] + rng.normal() > 0) + int(row[1] > 1)] for row in part] for part in features]
data, model = fo.labelled(features, tags), fo.models.LinearChainCRF(scale=1.0)
{folds}"""


_WORDS = """
words = [[f"w{k}" for k in rng.zipf(1.5, int(rng.integers(5, 25))) % 3000] for _ in range(400)]
tags = [["ab"[int(len(word) > 3)] for word in part] for part in words]
data, model = fo.labelled(fo.word_features(words), tags), fo.models.LinearChainCRF()
folds = lambda read: fo.folds.structures(read, n=40, seed=0)
"""


def _regression(rows: int, columns: int) -> str:
    return f"""
import jax.numpy as jnp
x = rng.normal(size=({rows}, {columns}))
y = x.sum(1) + rng.normal(size={rows})
log_density = lambda p, d, w: -0.5 * jnp.sum(w * (d[1] - d[0] @ p["slope"]) ** 2)
model, data = fo.models.Custom(log_density, {{"slope": np.zeros({columns})}}), (x, y)
folds = lambda read: fo.folds.kfold({rows}, 10)
"""


_FIELD = """
import jax.numpy as jnp
scopes = [(k, k + 1) for k in range(59)]
data = rng.normal(3.0 * (np.arange(60) % 20 < 10), 1.0)
factors = lambda p: [p["tie"] * jnp.eye(2)] * 59
emission = lambda p, x: -0.5 * (x[:, None] - p["mean"]) ** 2
prior = lambda p: -0.5 * (p["tie"] ** 2 + (p["mean"] ** 2).sum() / 9.0)
init = {"tie": np.array(0.5), "mean": np.array([0.0, 3.0])}
model = fo.models.CustomField(scopes, factors, emission, init, log_prior=prior)
folds = lambda read: fo.folds.kfold(60, 6)
"""
_SEQUENCES = """
data = [3.0 * (np.cumsum(rng.random(200) < 0.1) % 3)[:, None] + rng.normal(size=(200, 2))
        for _ in range(40)]
model = fo.models.GaussianHMM(3)
"""
_REFUSED_FOLDS = _counts(2, 1_000_000) + "\nmodel = fo.models.PoissonHMM(2)\n"
_SLOW_WALK = "data = 0.2 * np.cumsum(rng.normal(size=({0}, {1})), 0) + rng.normal(size=({0}, {1}))"

CASES = (
    Case("Poisson, 107 counts, 3 states", _chain("PoissonHMM(3)", _counts(3, 107), n=100), "auto"),
    Case("Poisson, 50,000 counts, 1,000 folds", _chain("PoissonHMM(2)", _counts(2, 50_000), n=1000), "ij"),
    Case("Poisson, 20,000 counts", _chain("PoissonHMM(2)", _counts(2, 20_000)), "loo"),
    Case("Poisson, 200,000 counts", _chain("PoissonHMM(2)", _counts(2, 200_000), 1, 20), "onestep"),
    Case("Gaussian, full, 3 channels", _chain('GaussianHMM(2, covariance="full")', _normal(2, 2000, 3)), "exact"),
    Case("Gaussian, 40 sequences of 200", _SEQUENCES + _WHOLE, "newton"),
    Case("Gaussian, 12 states", _chain("GaussianHMM(12)", _normal(12, 3000, 2)), "auto"),
    Case("Gaussian, full, 12 channels", _chain('GaussianHMM(4, covariance="full")', _normal(4, 1500, 12)), "onestep"),
    Case("categorical, 20 kinds", _chain("CategoricalHMM(3, 20)", _walk(3, 4000) + "data = (z * 5 + rng.integers(8, size=4000)) % 20"), "auto"),
    Case("Student t", _chain('HMM(2, "student-t")', _normal(2, 1000, 1)), "onestep"),
    Case("gamma", _chain('HMM(2, "gamma")', _walk(2, 1500) + "data = rng.gamma(2.0 + 5 * z, 1.0 + z)"), "influence"),
    Case("negative binomial", _chain('HMM(2, "negative-binomial")', _counts(2, 2000)), "newton"),
    Case("von Mises", _chain('HMM(2, "von-mises")', _walk(2, 1500) + "data = rng.vonmises(2.0 * z, 3.0)"), "bootstrap"),
    Case("durations, 4 stages", _chain('HMM(2, "poisson", durations="negative-binomial", stages=4)', _counts(2, 800)), "auto"),
    Case("AR(1), 2 channels", _chain("ARHMM(2, 1)", _SLOW_WALK.format(800, 2)), "auto"),
    Case("AR(3), 4 channels", _chain("ARHMM(3, 3)", _SLOW_WALK.format(3000, 4)), "onestep"),
    Case("AR(5), 12 channels, 8 states", _chain("ARHMM(8, 5)", _SLOW_WALK.format(2000, 12), n=5), "onestep"),
    Case("neural AR(1), 3 hidden", _chain("NeuralARHMM(2, 1, hidden=3)", _SLOW_WALK.format(400, 1)), "auto"),
    Case("neural AR(2), 12 hidden", _chain("NeuralARHMM(2, 2, hidden=12)", _SLOW_WALK.format(1500, 2)), "onestep"),
    Case("map, 6 x 6", _grid(6, 6, 2, 10), "exact"),
    Case("map, 12 x 12", _grid(12, 12, 2, 50), "auto"),
    Case("map, 8 x 60, 3 classes", _grid(8, 60, 3, 10), "onestep"),
    Case("map, 14 x 14", _grid(14, 14, 2, 10), "onestep"),
    Case("CRF, 60 sentences", _dense_labels(60, 5), "auto"),
    Case("CRF, 400 sentences, words", _WORDS, "onestep"),
    Case("CRF, labels one by one", _dense_labels(120, 5), "loo"),
    Case("custom, 1,000 rows, 5 columns", _regression(1000, 5), "auto"),
    Case("custom, 20,000 rows, 40 columns", _regression(20_000, 40), "onestep"),
    Case("custom field, 60 sites", _FIELD, "auto"),
    Case("Poisson, 100,000 counts, hard limit", _chain("PoissonHMM(2)", _counts(2, 100_000), 1, 20), "auto", "220MB"),
    Case("Gaussian, 40 sequences, hard limit", _SEQUENCES + _WHOLE, "exact", "120MB"),
)  # fmt: skip

# What cannot fit: each line is refused.
REFUSED = {
    "10**9 states": "fo.models.PoissonHMM(10**9)",
    "10**12 hidden units": "fo.models.NeuralARHMM(2, 1, hidden=10**12)",
    "10**12 folds": "fo.folds.blocks(100, 10, 10**12)",
    "a graph of 2**62 sites": "fo.graph([(0, 2**62)])",
    "map, 60 x 60": _grid(60, 60, 2, 10) + "fo.fit(model, data)",
    "3,000 states on 50 counts": "fo.fit(fo.models.PoissonHMM(3000), rng.poisson(4.0, 50))",
    "10**6 counts in 200 MB, loo": _REFUSED_FOLDS
    + "fit = fo.fit(model, data, restarts=1, optima=0)\nfo.loo(fit, memory_limit='200MB')",
    "10,000 folds of 10**5 in 2 GB": "data = rng.poisson(4.0, 10**6)\n"
    "fit = fo.fit(fo.models.PoissonHMM(1), data)\n"
    "fo.cross_validate(fit, fo.folds.iid(data, percent=10, n=10**4), memory_limit='2GB')",
    "a bootstrap of 10**9": "fit = fo.fit(fo.models.PoissonHMM(1), rng.poisson(4.0, 60))\n"
    "fo.bootstrap(fit, n=10**9)",
    "10**5 workers": "fit = fo.fit(fo.models.PoissonHMM(1), rng.poisson(4.0, 60))\n"
    "fo.cross_validate(fit, fo.folds.kfold(60, 5), parallel=fo.Workers(10**5))",
}
