"""Names on the command line to models and folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fitonce import folds as make
from fitonce import models
from fitonce.folds import Folds

CHAINS = {
    "poisson-hmm": "counts, one rate for each hidden state",
    "gaussian-hmm": "numbers, a mean and variances for each hidden state",
    "gaussian-hmm-full": "numbers, with full covariances",
    "categorical-hmm": "categories 0, 1, 2, ...",
    "ar-hmm": "numbers, a linear autoregression for each hidden state (--order)",
    "neural-ar-hmm": "numbers, a small network for each hidden state (--order)",
    "event-counts": "counts with days of the week and hidden events (--steps-per-day)",
}
FIELDS = {
    "potts-poisson": "counts on a graph (--edges, --exposure)",
    "potts-gaussian": "numbers on a graph (--edges)",
    "potts-binomial": "counts out of trials on a graph (--edges, --exposure)",
}
LABELS = {"crf": "tags of words (CoNLL files)"}
MODELS = CHAINS | FIELDS | LABELS

FOLDS = (
    "blocks", "iid", "points", "kfold", "future", "sequences", "regions", "spatial-kfold", "buffered",
)  # fmt: skip

# What an option is for: with others it would be ignored, and what is ignored was a slip.
_FOR_MODELS: dict[str, tuple[str, ...]] = {
    "states": tuple(name for name in MODELS if name not in ("event-counts", "crf")),
    "order": ("ar-hmm", "neural-ar-hmm"),
    "beta": tuple(FIELDS),
    "steps_per_day": ("event-counts",),
}
_FOR_FOLDS: dict[str, tuple[str, ...]] = {
    "percent": ("blocks", "iid", "future", "regions"),
    "n": ("blocks", "iid", "future", "sequences", "regions"),
    "k": ("kfold", "spatial-kfold"),
    "hops": ("regions", "buffered"),
    "horizon": ("future",),
}
_PERCENT = 10.0


def _check_used(asked: Any, uses: dict[str, tuple[str, ...]], option: str, name: str) -> None:
    for field in fields(asked):
        given = getattr(asked, field.name) != field.default
        if field.name in uses and given and name not in uses[field.name]:
            known = ", ".join(uses[field.name])
            raise ValueError(f"--{field.name.replace('_', '-')} is for {known}, got {option} {name}")


@dataclass(frozen=True)
class ModelChoice:
    """What was asked for: a name from `MODELS` and its numbers."""

    name: str
    states: int = 2
    order: int = 1
    beta: str = "learned"
    steps_per_day: int = 288
    edges: Any = None
    exposure: Any = None

    def __post_init__(self) -> None:
        if self.name not in MODELS:
            raise ValueError(f"--model must be one of {', '.join(MODELS)}, got '{self.name}'")
        _check_used(self, _FOR_MODELS, "--model", self.name)

    @property
    def on_graph(self) -> bool:
        return self.name in FIELDS

    def build(self, data: Any) -> Any:
        """The model; `data` for what it must know of them."""
        chains: dict[str, Callable[[], Any]] = {
            "poisson-hmm": lambda: models.PoissonHMM(self.states),
            "gaussian-hmm": lambda: models.GaussianHMM(self.states),
            "gaussian-hmm-full": lambda: models.GaussianHMM(self.states, covariance="full"),
            "categorical-hmm": lambda: models.CategoricalHMM(self.states, _categories(data)),
            "ar-hmm": lambda: models.ARHMM(self.states, self.order),
            "neural-ar-hmm": lambda: models.NeuralARHMM(self.states, self.order),
            "event-counts": lambda: models.EventCounts(steps_per_day=self.steps_per_day),
            "crf": lambda: models.LinearChainCRF(support=_support(data)),
        }
        if self.name in chains:
            return chains[self.name]()
        if self.edges is None:
            raise ValueError(f"--model {self.name} needs --edges, a file with two columns of sites")
        emission = self.name.removeprefix("potts-")
        return models.PottsMixture(
            self.edges,
            self.states,
            emission=emission,
            beta=_beta(self.beta),
            exposure=self.exposure,
        )


def _beta(text: str) -> float | str:
    if text == "learned":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--beta must be a number or 'learned', got '{text}'") from None


def _categories(data: Any) -> int:
    return int(np.max(data.values, initial=1.0)) + 1


def _support(data: Any) -> str | None:
    """IOB2's transitions, where tags are IOB2's."""
    tags = getattr(data, "tags", ())
    return "iob2" if any(str(tag).startswith("I-") for tag in tags) else None


def usual_folds(on_graph: bool, of_labels: bool) -> str:
    """What is left out where nobody says: regions, whole sentences, or blocks of time."""
    return "regions" if on_graph else "sequences" if of_labels else "blocks"


@dataclass(frozen=True)
class FoldChoice:
    """What was asked for: a name from `FOLDS`, None for what suits the data, and its numbers."""

    name: str | None = None
    percent: float = _PERCENT
    n: int | None = None
    k: int = 10
    hops: int | None = None
    horizon: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.name is not None and self.name not in FOLDS:
            raise ValueError(f"--folds must be one of {', '.join(FOLDS)}, got '{self.name}'")
        if self.name is not None:
            self.kind()

    def kind(self, usual: str = "blocks") -> str:
        """Its name, or what is usual for the model; other options must be for it."""
        name = self.name or usual
        _check_used(self, _FOR_FOLDS, "--folds", name)
        if name == "regions" and self.hops is not None and self.percent != _PERCENT:
            raise ValueError("--percent and --hops both say how large a region is; give one of them")
        return name

    def build(self, model: Any, data: Any) -> Folds:
        """The folds, for the data as a fit has them."""
        graph = getattr(model, "graph", None)
        labels = isinstance(model, models.LinearChainCRF)
        name = self.kind(usual_folds(graph is not None, labels))
        on_graph = name in ("regions", "spatial-kfold", "buffered")
        if on_graph and graph is None:
            raise ValueError(f"--folds {name} is for models on a graph, got one without --edges")
        if graph is not None and name in ("blocks", "future", "sequences"):
            raise ValueError(f"--folds {name} is for sequences; on a graph use regions or spatial-kfold")
        return self._on_graph(name, model, data) if on_graph else self._in_time(name, data)

    def _on_graph(self, name: str, model: Any, data: Any) -> Folds:
        if name == "buffered":
            return make.buffered(model, hops=1 if self.hops is None else self.hops, data=data)
        if name == "spatial-kfold":
            return make.spatial_kfold(model, self.k, seed=self.seed, data=data)
        percent = self.percent if self.hops is None else None
        return make.regions(model, hops=self.hops, percent=percent, n=self.n, seed=self.seed, data=data)

    def _in_time(self, name: str, data: Any) -> Folds:
        if name == "points":
            return make.points(data)
        if name == "kfold":
            return make.kfold(data, self.k, seed=self.seed)
        if name == "sequences":
            return make.structures(data, n=self.n, seed=self.seed)
        if name == "future":
            return make.future(data, steps=self._futures(data), horizon=self.horizon)
        count = 200 if self.n is None else self.n
        maker = make.blocks if name == "blocks" else make.iid
        return maker(data, self.percent, count, self.seed)

    def _futures(self, data: Any) -> list[int]:
        """How many last steps each fold leaves out: `n` of them, up to the percentage."""
        longest = int(np.max(data.lengths))
        most = max(int(longest * self.percent / 100), 1)
        if not 0 < self.percent < 100:
            raise ValueError(f"--percent must be between 0 and 100, got {self.percent:g}")
        count = min(most, 20 if self.n is None else self.n)
        return [int(v) for v in np.unique(np.linspace(1, most, max(count, 1)).astype(int))]
