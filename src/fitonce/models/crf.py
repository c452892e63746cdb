"""Conditional random fields on chains: labels given features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.core.constraints import Constraint, Free, Scores, as_tuples
from fitonce.core.numerics import Array, is_number
from fitonce.core.parameters import Params
from fitonce.data.labelled import UNKNOWN, Labelled
from fitonce.models.potentials import Linear


@dataclass(frozen=True)
class LinearChainCRF:
    """p(z | x) of tags z along a sequence, given features x.

        log p(z | x) = sum_t x_t' weights[:, z_t] + bias[z_t] + sum_t transition[z_t, z_t+1]
                       + start[z_1] + end[z_T] - log Z(x)

    Args:
        features: "linear", as above, or "scores": the features are the scores of the tags themselves,
            one column per tag, such as those of a network whose layers are frozen. Then there are no
            weights and no bias: K^2 + 2 K parameters.
        support: which transitions can happen: "iob2" (I-X only after B-X or I-X, and not first), (K, K)
            bools, or None for all. The others have probability zero, exactly.
        start_support: (K,) bools, which tags can be first; None: all, or what "iob2" says.
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
                    raise ValueError(f"{name} must be bools with {axes} axes, some of them true")
                object.__setattr__(self, name, as_tuples(mask.astype(bool).tolist()))

    def __str__(self) -> str:
        return "LinearChainCRF" + (", scores given" if self.features == "scores" else "")

    def prepare(self, data: Labelled) -> Labelled:
        """The data, checked: as many scores as tags, and labels that can happen."""
        if not isinstance(data, Labelled):
            raise ValueError(f"LinearChainCRF needs data from fo.labelled, got {type(data).__name__}")
        if self.features == "scores" and data.features.shape[1] != len(data.tags):
            raise ValueError(
                f"features='scores' needs a column for each of {len(data.tags)} tags, "
                f"got {data.features.shape[1]}"
            )
        first, moves = self.masks(data.tags)
        heads = data.offsets
        inside = np.ones(data.n_sites, bool)
        inside[heads] = False
        labels = data.labels
        here = np.flatnonzero(inside & (labels != UNKNOWN))
        here = here[labels[here - 1] != UNKNOWN]
        self._refuse(data, here[~moves[labels[here - 1], labels[here]]])
        begun = heads[labels[heads] != UNKNOWN]
        self._refuse(data, begun[~first[labels[begun]]])
        if not moves.all():
            self._refuse_unreachable(data, first, moves)
        return data

    def _refuse_unreachable(self, data: Labelled, first: np.ndarray, moves: np.ndarray) -> None:
        """Follow what can be through labels that are not known."""
        partly = np.flatnonzero(np.minimum.reduceat(data.labels, data.offsets) == UNKNOWN)
        for sequence in partly:
            start = int(data.offsets[sequence])
            reach = first
            for token, label in enumerate(data.labels[start : start + data.lengths[sequence]]):
                reach = reach if token == 0 else reach @ moves
                reach = reach & (np.arange(len(first)) == label) if label != UNKNOWN else reach
                if not reach.any():
                    raise ValueError(
                        f"sequence {sequence} has no tags that support= allows from its start to "
                        f"token {token}; mend its labels, or use support=None"
                    )

    def _refuse(self, data: Labelled, sites: np.ndarray) -> None:
        if sites.size == 0:
            return
        where = data.sites.iloc[int(sites[0])]
        tag, token = data.tags[data.labels[sites[0]]], int(where["time"])
        before = "first" if token == 0 else f"after '{data.tags[data.labels[sites[0] - 1]]}'"
        raise ValueError(
            f"sequence {int(where['sequence'])}, token {token} has tag '{tag}' {before}, which support= "
            f"forbids ({sites.size} such in all); mend the labels, read IOB1 files with fo.read_conll, "
            "or use support=None"
        )

    def masks(self, tags: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """(K,) tags that can be first, and (K, K) moves that can happen."""
        count = len(tags)
        moves = np.ones((count, count), bool)
        first = np.ones(count, bool)
        if self.support == "iob2":
            goes_on = np.array([tag.startswith("I-") for tag in tags])
            kind = np.array([tag[2:] if tag[:2] in ("B-", "I-") else "" for tag in tags])
            moves = ~goes_on[None] | (kind[:, None] == kind[None])
            first = ~goes_on
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
        """Constraints of the parameters by name."""
        count = len(prepared.tags)
        first, moves = self.masks(prepared.tags)
        found: dict[str, Constraint] = {
            "start": Scores((count,), as_tuples(first.tolist())),
            "end": Free((count,)),
            "transition": Scores((count, count), as_tuples(moves.tolist())),
        }
        if self.features == "linear":
            found["weights"] = Free((prepared.features.shape[1], count))
            found["bias"] = Free((count,))
        return found

    def start(self, prepared: Labelled, rng: np.random.Generator | None) -> Params:
        """Zeros: with all labels known the objective is convex, and any start will do. Else there may
        be other optima, and `rng` draws other starts."""
        drawn = {name: np.zeros(leaf.shape) for name, leaf in self.parameters(prepared).items()}
        if rng is not None and (prepared.labels == UNKNOWN).any():
            drawn = {name: rng.normal(size=value.shape) for name, value in drawn.items()}
        first, moves = self.masks(prepared.tags)
        drawn["start"] = np.where(first, drawn["start"], -np.inf)
        drawn["transition"] = np.where(moves, drawn["transition"], -np.inf)
        return drawn

    def log_prior_at(self, params: Params, prepared: Any) -> Array:
        """Normal(0, scale^2) on every parameter."""
        leaves = [jnp.where(jnp.isfinite(v), v, 0.0) for v in jax.tree_util.tree_leaves(params)]
        squares = jnp.stack([jnp.sum(leaf**2) for leaf in leaves])
        return -0.5 * jnp.sum(squares) / self.scale**2

    def design(self, features: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """(sites, Q') what multiplies `stack`'s rows at each token, and (sites, K) scores that are given
        or None. The last two columns mark the first and the last token, so that start and end scores are
        weights like any other."""
        ends = np.cumsum(lengths)
        marks = np.zeros((len(features), 2))
        marks[ends - lengths, 0] = marks[ends - 1, 1] = 1.0
        if self.features == "scores":
            return marks, features
        return np.concatenate([features, np.ones((len(features), 1)), marks], 1), None

    def stack(self, params: Params) -> Linear:
        """The parameters as `design` reads them."""
        possible = jnp.isfinite(params["start"])
        rows = [jnp.where(possible, params["start"], 0.0)[None], params["end"][None]]
        if self.features == "linear":
            rows = [params["weights"], params["bias"][None], *rows]
        return Linear(jnp.concatenate(rows), params["transition"], jnp.where(possible, 0.0, -jnp.inf))

    def bytes_per_fold(self, prepared: Labelled) -> int:
        """Of potentials, messages and marginals, with some padding."""
        return 8 * 15 * prepared.n_sites * len(prepared.tags)
