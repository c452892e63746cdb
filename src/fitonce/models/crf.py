"""Linear-chain conditional random fields: labels given features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fitonce.core.constraints import Constraint, Free, Scores, as_tuples
from fitonce.core.deferred import jax, jnp
from fitonce.core.numerics import Array, is_number
from fitonce.core.parameters import Params
from fitonce.core.wording import counted
from fitonce.data.labelled import UNKNOWN, Labelled
from fitonce.models.potentials import Linear


@dataclass(frozen=True)
class LinearChainCRF:
    """p(z | x) of tags z along a sequence, given features x.

        log p(z | x) = sum_t x_t' weights[:, z_t] + bias[z_t] + sum_t transition[z_t, z_t+1]
                       + start[z_1] + end[z_T] - log Z(x)

    Args:
        features: "linear", as above, or "scores": the features are the tags' scores themselves, one
            column per tag, such as those of a frozen network. Then there are no weights and no bias:
            K^2 + 2 K parameters.
        support: allowed transitions: "iob2" (I-X only after B-X or I-X, and not first), (K, K) bools, or
            None for all. The others have probability exactly zero.
        start_support: (K,) bools, which tags can be first; None: all, or those allowed by "iob2".
        scale: standard deviation of the Gaussian prior of every parameter.
    """

    features: Literal["linear", "scores"] = "linear"
    support: Any = None
    start_support: Any = None
    scale: float = 3.0

    def __post_init__(self) -> None:
        if self.features not in ("linear", "scores"):
            raise ValueError(f"features must be 'linear' or 'scores', got {self.features!r}")
        if not (is_number(self.scale) and 1e-6 <= self.scale <= 1e6):
            raise ValueError(f"scale must be a number between 1e-6 and 1e6, got {self.scale!r}")
        for name, axes in (("support", 2), ("start_support", 1)):
            value = getattr(self, name)
            if isinstance(value, str):
                if name != "support" or value != "iob2":
                    kinds = "'iob2', bools or None" if name == "support" else "bools or None"
                    raise ValueError(f"{name} must be {kinds}, got {value!r}")
            elif value is not None:
                mask = np.asarray(value)
                if mask.ndim != axes or not np.isin(mask, (0, 1)).all() or not mask.any():
                    wanted = f"bools with {counted(axes, 'axis', 'axes')}, some of them true"
                    raise ValueError(f"{name} must be {wanted}, got {mask.tolist()!r:.60}")
                object.__setattr__(self, name, as_tuples(mask.astype(bool).tolist()))

    def __str__(self) -> str:
        return "LinearChainCRF" + (", scores given" if self.features == "scores" else "")

    def prepare(self, data: Labelled) -> Labelled:
        """The data, after checking that scores match the tags and that the labels are possible."""
        if not isinstance(data, Labelled):
            raise ValueError(f"LinearChainCRF needs data from fo.labelled, got {type(data).__name__}")
        if self.features == "scores" and data.features.shape[1] != len(data.tags):
            raise ValueError(
                f"features='scores' needs one column per tag, {len(data.tags)} in all, "
                f"got {data.features.shape[1]}"
            )
        first, moves = self.masks(data.tags)
        heads, labels = data.offsets, data.labels
        inside = np.ones(data.n_sites, bool)
        inside[heads] = False
        here = np.flatnonzero(inside & (labels != UNKNOWN))
        here = here[labels[here - 1] != UNKNOWN]
        self._refuse(data, here[~moves[labels[here - 1], labels[here]]])
        heads = heads[labels[heads] != UNKNOWN]
        self._refuse(data, heads[~first[labels[heads]]])
        if not moves.all():
            self._refuse_unreachable(data, first, moves)
        return data

    def _refuse_unreachable(self, data: Labelled, first: np.ndarray, moves: np.ndarray) -> None:
        """Raise if unknown labels leave no possible tags, by a forward pass over the possible ones."""
        for sequence in np.flatnonzero(np.minimum.reduceat(data.labels, data.offsets) == UNKNOWN):
            start = int(data.offsets[sequence])
            reach = first
            for token, label in enumerate(data.labels[start : start + data.lengths[sequence]]):
                reach = reach if token == 0 else reach @ moves
                reach = reach & (np.arange(len(first)) == label) if label != UNKNOWN else reach
                if not reach.any():
                    raise ValueError(
                        f"sequence {sequence} has no tags that support= allows from its start to "
                        f"token {token}; correct its labels, or use support=None"
                    )

    def _refuse(self, data: Labelled, sites: np.ndarray) -> None:
        if sites.size == 0:
            return
        where = data.sites.iloc[int(sites[0])]
        tag, token = data.tags[data.labels[sites[0]]], int(where["time"])
        before = "first" if token == 0 else f"after '{data.tags[data.labels[sites[0] - 1]]}'"
        raise ValueError(
            f"sequence {int(where['sequence'])}, token {token} has tag '{tag}' {before}, which support= "
            f"forbids ({counted(sites.size, 'such token')} in all); correct the labels, read IOB1 files "
            "with fo.read_conll, or use support=None"
        )

    def masks(self, tags: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """(K,) tags that can be first, and (K, K) transitions that are possible."""
        count = len(tags)
        moves = np.ones((count, count), bool)
        first = np.ones(count, bool)
        if self.support == "iob2":
            continues = np.array([tag.startswith("I-") for tag in tags])
            kind = np.array([tag[2:] if tag[:2] in ("B-", "I-") else "" for tag in tags])
            moves = ~continues[None] | (kind[:, None] == kind[None])
            first = ~continues
        elif self.support is not None:
            moves = np.asarray(self.support)
        if self.start_support is not None:
            first = np.asarray(self.start_support)
        if moves.shape != (count, count) or first.shape != (count,):
            raise ValueError(
                f"support must be {count} x {count} and start_support of length {count} for the tags "
                f"{', '.join(tags)}, got {moves.shape} and {first.shape}"
            )
        if not first.any():
            raise ValueError(f"no tag can be first among {', '.join(tags)}")
        return first, moves

    def parameters(self, prepared: Labelled) -> dict[str, Constraint]:
        """The constraint of each parameter."""
        count = len(prepared.tags)
        first, moves = self.masks(prepared.tags)
        constraints: dict[str, Constraint] = {
            "start": Scores((count,), as_tuples(first.tolist())),
            "end": Free((count,)),
            "transition": Scores((count, count), as_tuples(moves.tolist())),
        }
        if self.features == "linear":
            constraints["weights"] = Free((prepared.features.shape[1], count))
            constraints["bias"] = Free((count,))
        return constraints

    def start(self, prepared: Labelled, rng: np.random.Generator | None) -> Params:
        """Zeros; with unknown labels the objective may have several optima, and `rng` draws starts."""
        drawn = {name: np.zeros(leaf.shape) for name, leaf in self.parameters(prepared).items()}
        if rng is not None and (prepared.labels == UNKNOWN).any():
            drawn = {name: rng.normal(size=value.shape) for name, value in drawn.items()}
        first, moves = self.masks(prepared.tags)
        drawn["start"] = np.where(first, drawn["start"], -np.inf)
        drawn["transition"] = np.where(moves, drawn["transition"], -np.inf)
        return drawn

    @property
    def prior_precision(self) -> float:
        """Of the prior: minus its second derivative by every parameter."""
        return 1.0 / self.scale**2

    def log_prior_at(self, params: Params, prepared: Any) -> Array:
        """Normal(0, scale^2) on every parameter."""
        leaves = [jnp.where(jnp.isfinite(v), v, 0.0) for v in jax.tree_util.tree_leaves(params)]
        return -0.5 * jnp.sum(jnp.stack([jnp.sum(leaf**2) for leaf in leaves])) / self.scale**2

    def design(self, features: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The design matrix (sites, Q') of `stack`'s weights, and fixed scores (sites, K) or None. The
        last two columns mark first and last tokens, so that start and end scores are weights, too."""
        ends = np.cumsum(lengths)
        marks = np.zeros((len(features), 2))
        marks[ends - lengths, 0] = marks[ends - 1, 1] = 1.0
        if self.features == "scores":
            return marks, features
        return np.concatenate([features, np.ones((len(features), 1)), marks], 1), None

    def stack(self, params: Params) -> Linear:
        """The parameters in the layout of `design`."""
        numbers: Any = np if isinstance(params["start"], np.ndarray) else jnp
        possible = numbers.isfinite(params["start"])
        rows = [numbers.where(possible, params["start"], 0.0)[None], params["end"][None]]
        if self.features == "linear":
            rows = [params["weights"], params["bias"][None], *rows]
        first = numbers.where(possible, 0.0, -numbers.inf)
        return Linear(numbers.concatenate(rows), params["transition"], first)

    def bytes_per_fold(self, prepared: Labelled) -> int:
        """Memory of potentials, messages and marginals, with some padding."""
        return 8 * 15 * prepared.n_sites * len(prepared.tags)
