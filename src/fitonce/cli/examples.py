"""A small file for every model of the command line, and the command that fits it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fitonce.cli.choices import ModelChoice, model_options, named_models
from fitonce.core.writing import check_free, write_text
from fitonce.data.reading import Columns
from fitonce.data.sequences import sequences
from fitonce.objectives.base import Objective
from fitonce.objectives.families import objective_of

_STEPS = 84
_DAY = pd.date_range("2024-01-01", periods=_STEPS, freq="D").strftime("%Y-%m-%d")
_BUSY = np.arange(_STEPS) // 7 % 2  # weeks of two kinds


class Example(NamedTuple):
    """Contents of files by name, the first to be fitted, and options of the command."""

    files: Mapping[str, str]
    options: Mapping[str, str]

    def command(self, model: str) -> str:
        given = [word for name, value in self.options.items() for word in (f"--{name}", value)]
        file = next(iter(self.files))
        return shlex.join(["fitonce", "fit", file, "--model", model, *given, "--save", "fit.json"])

    def write(self, folder: Path, force: bool) -> list[Path]:
        """The files, in a folder that exists."""
        paths = [folder / name for name in self.files]
        for path in paths:  # all or none
            check_free(path, force)
        texts = self.files.values()
        return [write_text(path, text, force=force) for path, text in zip(paths, texts, strict=True)]


def _pick(low: float, high: float) -> np.ndarray:
    return np.where(_BUSY == 1, high, low)


_Draw = Callable[[np.random.Generator], np.ndarray]
_COLUMNS: dict[str, _Draw] = {
    "changes": lambda rng: rng.normal(_pick(-1.0, 2.0), _pick(0.5, 1.2)),
    "turns": lambda rng: rng.vonmises(_pick(-1.0, 1.5), 4.0),
    "amounts": lambda rng: rng.gamma(4.0, _pick(0.5, 3.0)),
    "shares": lambda rng: rng.beta(_pick(2, 8), _pick(8, 3)),
    "yes": lambda rng: (rng.random(_STEPS) < _pick(0.2, 0.8)).astype(int),
    "kinds": lambda rng: np.where(rng.random(_STEPS) < 0.8, 2 * _BUSY, rng.integers(3, size=_STEPS)),
    "counts": lambda rng: rng.poisson(_pick(2.0, 9.0)),
    "rain": lambda rng: (rng.random(_STEPS) > _pick(0.6, 0.1)) * rng.gamma(4.0, _pick(0.5, 3.0)),
}
_USUAL = {
    "poisson-hmm": "counts", "negative-binomial-hmm": "counts", "zero-inflated-poisson-hmm": "counts",
    "event-counts": "counts", "bernoulli-hmm": "yes", "categorical-hmm": "kinds",
    "gamma-hmm": "amounts", "exponential-hmm": "amounts", "log-normal-hmm": "amounts",
    "zero-inflated-gamma-hmm": "rain",
    "beta-hmm": "shares", "von-mises-hmm": "turns",
    "structural-poisson": "counts", "structural-binomial": "yes",
}  # fmt: skip
_SHOPS = {"north": 1.0, "south": 1.5, "east": 0.6}
_OF_SITES = {"potts-gaussian": "changes", "potts-categorical": "kinds", "potts-binomial": "counts"}
_TAGGED = [
    [("Ada", "B-PER"), ("met", "O"), ("Mr", "B-PER"), ("Babbage", "I-PER"), (".", "O")],
    [("She", "O"), ("lived", "O"), ("in", "O"), ("London", "B-LOC"), (".", "O")],
    [("Charles", "B-PER"), ("wrote", "O"), ("from", "O"), ("Paris", "B-LOC")],
]


def example_of(name: str) -> Example:
    """Of a model, whose name must be known."""
    choice = ModelChoice(name)
    if ".conll" in choice.family.endings:
        words = ["\n".join("\t".join(token) for token in sentence) for sentence in _TAGGED * 3]
        return Example({"tags.conll": "\n\n".join(words) + "\n"}, {})
    taken = {option.name for option in named_models()[name].options}
    if "edges" in taken:
        return _of_sites(name, "exposure" in taken)
    options = {"states": "2"} if "states" in taken else {}
    options |= {"steps-per-day": "4"} if "steps_per_day" in taken else {}
    if name == "multinomial-hmm":
        rng = np.random.default_rng(0)
        shares = np.where(_BUSY[:, None] == 1, [0.1, 0.3, 0.6], [0.6, 0.3, 0.1])
        votes = np.array([rng.multinomial(12, share) for share in shares])
        table = {"day": _DAY, "yes": votes[:, 0], "unsure": votes[:, 1], "no": votes[:, 2]}
        return Example({"votes.csv": _csv(table)}, options)
    if "emission" in taken:
        rng = np.random.default_rng(0)
        step = rng.gamma(4.0, _pick(0.05, 0.4)).round(3)
        half = _STEPS // 2
        table = {"elk": np.repeat(["Ada", "Bo"], half), "day": np.tile(_DAY[:half], 2), "step": step}
        table["turn"] = rng.vonmises(0.0, _pick(0.5, 6.0)).round(3)
        emission = {"emission": "step=gamma,turn=von-mises", "group": "elk"}
        return Example({"tracks.csv": _csv(table)}, options | emission)
    if "factors" in taken:
        rng = np.random.default_rng(0)
        common = rng.normal(size=_STEPS) + _pick(-1.0, 1.0)
        shops = {shop: share * common + rng.normal(0.0, 0.7, _STEPS) for shop, share in _SHOPS.items()}
        table = {"day": _DAY} | {shop: sales.round(3) for shop, sales in shops.items()}
        return Example({"shops.csv": _csv(table)}, options)
    wanted = [_USUAL[name]] if name in _USUAL else list(_COLUMNS)
    for column in wanted:  # a model that was registered elsewhere gets the first that it takes
        example = Example({f"{column}.csv": _csv({"day": _DAY, column: _drawn(column)})}, options)
        if len(wanted) == 1 or _takes(choice, column, options):
            return example
    raise ValueError(f"there is no example for --model {name}")


def _takes(choice: ModelChoice, column: str, options: Mapping[str, str]) -> bool:
    """Whether a model can be built for numbers of this kind."""
    given = {name.replace("-", "_"): int(value) for name, value in options.items()}
    data = sequences(pd.DataFrame({column: _drawn(column)}))
    try:
        objective_of(ModelChoice(choice.name, given).build(data, {}), data)
    except ValueError:
        return False
    return True


def _drawn(column: str) -> np.ndarray:
    found = _COLUMNS[column](np.random.default_rng(0))
    return found.round(3) if found.dtype.kind == "f" else found


def _of_sites(name: str, exposed: bool) -> Example:
    """Sites along a river and across it."""
    column = _OF_SITES.get(name, "counts")
    count = 40
    sites = {"site": [f"s{k}" for k in range(count)], column: _drawn(column)[:count]}
    options = {"states": "2", "beta": "0.5", "edges": "edges.csv", "columns": column}
    if exposed:
        sites["people"] = [50] * count
        options["exposure"] = "people"
    edges = [(k, k + 1) for k in range(count - 1)] + [(k, k + 8) for k in range(0, count - 8, 3)]
    table = {end: [f"s{pair[side]}" for pair in edges] for side, end in enumerate(("one", "other"))}
    return Example({"sites.csv": _csv(sites), "edges.csv": _csv(table)}, options)


def _csv(columns: Mapping[str, Any]) -> str:
    return pd.DataFrame(columns).to_csv(index=False)


def objective_on(name: str, example: Example, folder: Path) -> Objective:
    """F of a model on its example, whose files are in a folder."""
    plain = {key.replace("-", "_"): value for key, value in example.options.items()}
    known = {option.name: option for option in model_options().values()}
    given = {key: known[key].kind(value) for key, value in plain.items() if key in known}
    given |= {"edges": folder / given["edges"]} if "edges" in given else {}
    defaults = {key: option.default for key, option in known.items()}
    choice = ModelChoice(name, given)
    modelled = (plain["columns"],) if "columns" in plain else None
    file = folder / next(iter(example.files))
    columns = Columns(modelled, group=plain.get("group"))
    loaded = choice.family.load(file, columns, {**defaults, **given})
    return objective_of(choice.build(loaded.data, loaded.found), loaded.data)
