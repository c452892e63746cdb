"""Linear-chain conditional random fields: labels given features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from fitonce.core.arguments import read_bools, require, require_choice, require_number, shown
from fitonce.core.constraints import Constraint, Free, Mask, Scores, Sparse, as_tuples
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
        biases: whether tags have the scores `bias`, `start` and `end` of their own. False: only what is
            among the features, as in CRFsuite.
        all_possible_states: whether every feature has a weight for every tag. False: for those tags that
            it occurs with in the data, a zero for others, as CRFsuite does by default. None: True for
            features in arrays, False for sparse ones.
        all_possible_transitions: whether every transition has a score. False: those that occur in the
            data; others have the score zero, and are not forbidden.
        min_freq: leave out the weights of features (and transitions, where not all have a score) whose
            values with a tag add up to less than this.
    """

    features: Literal["linear", "scores"] = "linear"
    support: Any = None
    start_support: Any = None
    scale: float = 3.0
    biases: bool = True
    all_possible_states: bool | None = None
    all_possible_transitions: bool = True
    min_freq: float = 0.0

    def __post_init__(self) -> None:
        require_choice("features", self.features, ("linear", "scores"))
        fine = is_number(self.scale) and 1e-6 <= self.scale <= 1e6
        require(fine, "scale", "a number between 1e-6 and 1e6", self.scale)
        self._check_choices()
        for name, axes in (("support", 2), ("start_support", 1)):
            value = getattr(self, name)
            if isinstance(value, str):
                if name != "support" or value != "iob2":
                    kinds = "'iob2', bools or None" if name == "support" else "bools or None"
                    raise ValueError(f"{name} must be {kinds}, got {shown(value)}")
            elif value is not None:
                wanted = f"bools with {counted(axes, 'axis', 'axes')}, some of them true"
                mask = read_bools(name, value, wanted, axes)
                require(mask.any(), name, wanted, value)
                object.__setattr__(self, name, as_tuples(mask.tolist()))

    def _check_choices(self) -> None:
        for name, allowed in (
            ("biases", (True, False)),
            ("all_possible_states", (True, False, None)),
            ("all_possible_transitions", (True, False)),
        ):
            value = getattr(self, name)
            if not any(value is each for each in allowed):
                raise ValueError(f"{name} must be {' or '.join(map(str, allowed))}, got {shown(value)}")
        require_number("min_freq", self.min_freq, least=0)
        if not self.all_possible_transitions and self.support is not None:
            raise ValueError(
                "all_possible_transitions=False gives transitions that do not occur the score zero, and "
                "support= forbids some; use one of them"
            )
        if not self.biases and self.start_support is not None:
            raise ValueError("start_support needs start scores, got biases=False")

    def __str__(self) -> str:
        return "LinearChainCRF" + (", scores given" if self.features == "scores" else "")

    def prepare(self, data: Labelled) -> Labelled:
        """The data, after checking that scores match the tags and that the labels are possible."""
        if not isinstance(data, Labelled):
            raise ValueError(f"LinearChainCRF needs data from fo.labelled, got {type(data).__name__}")
        if self.features == "scores" and data.is_sparse:
            raise ValueError("features='scores' needs scores in arrays, got sparse features")
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
            "transition": Scores((count, count), as_tuples(moves.tolist()))
            if self.all_possible_transitions
            else Sparse(Mask.of(self._transitions_seen(prepared))),
        }
        if self.biases:
            constraints["start"] = Scores((count,), as_tuples(first.tolist()))
            constraints["end"] = Free((count,))
        if self.features == "linear":
            constraints["weights"] = self._weights(prepared)
            if self.biases:
                constraints["bias"] = Free((count,))
        return constraints

    def _weights(self, data: Labelled) -> Constraint:
        every = self.all_possible_states
        if every is None:
            every = not data.is_sparse
        shape = (data.features.shape[1], len(data.tags))
        if every and not self.min_freq:
            return Free(shape)
        rows = data.features.tocoo() if data.is_sparse else sparse.coo_array(data.features)
        tags = data.labels[rows.row]
        known = tags != UNKNOWN
        places = (rows.col[known], tags[known])
        kept = np.zeros(shape, bool)
        kept[places] = True  # also where the value is zero
        if self.min_freq:
            sums = np.zeros(shape)
            np.add.at(sums, places, rows.data[known])
            kept &= sums >= self.min_freq
        return Sparse(Mask.of(kept))

    def _transitions_seen(self, data: Labelled) -> np.ndarray:
        """(K, K) those that occur, at least `min_freq` times."""
        inside = np.ones(data.n_sites, bool)
        inside[data.offsets] = False
        here = np.flatnonzero(inside)
        pairs = np.stack([data.labels[here - 1], data.labels[here]])
        counts = np.zeros((len(data.tags), len(data.tags)))
        np.add.at(counts, tuple(pairs[:, (pairs != UNKNOWN).all(0)]), 1.0)
        return counts >= max(self.min_freq, 1.0)

    def start(self, prepared: Labelled, rng: np.random.Generator | None) -> Params:
        """Zeros; with unknown labels the objective may have several optima, and `rng` draws starts."""
        leaves = self.parameters(prepared)
        drawn = {name: np.zeros(leaf.shape) for name, leaf in leaves.items()}
        if rng is not None and (prepared.labels == UNKNOWN).any():
            drawn = {name: rng.normal(size=value.shape) for name, value in drawn.items()}
        first, moves = self.masks(prepared.tags)
        if self.biases:
            drawn["start"] = np.where(first, drawn["start"], -np.inf)
        drawn["transition"] = np.where(moves, drawn["transition"], -np.inf)
        for name, leaf in leaves.items():
            if isinstance(leaf, Sparse):
                drawn[name] *= leaf.mask.array
        return drawn

    @property
    def prior_precision(self) -> float:
        """Of the prior: minus its second derivative by every parameter."""
        return 1.0 / self.scale**2

    def log_prior_at(self, params: Params, prepared: Any) -> Array:
        """Normal(0, scale^2) on every parameter."""
        leaves = [jnp.where(jnp.isfinite(v), v, 0.0) for v in jax.tree_util.tree_leaves(params)]
        return -0.5 * jnp.sum(jnp.stack([jnp.sum(leaf**2) for leaf in leaves])) / self.scale**2

    def design(self, features: Any, lengths: np.ndarray) -> tuple[Any, np.ndarray | None]:
        """The design matrix (sites, Q') of `stack`'s weights, and fixed scores (sites, K) or None. The
        last two columns mark first and last tokens, so that start and end scores are weights, too."""
        count, ends = features.shape[0], np.cumsum(lengths)
        marks = np.zeros((count, 2 if self.biases else 0))
        if self.biases:
            marks[ends - lengths, 0] = marks[ends - 1, 1] = 1.0
        if self.features == "scores":
            return marks, features
        if not self.biases:
            return features, None
        columns = [features, np.ones((count, 1)), marks]
        return (sparse.hstack if sparse.issparse(features) else np.hstack)(columns), None

    def stack(self, params: Params) -> Linear:
        """The parameters in the layout of `design`."""
        numbers: Any = np if isinstance(params["transition"], np.ndarray) else jnp
        rows = [params["weights"]] if self.features == "linear" else []
        first = numbers.zeros(params["transition"].shape[0])
        if self.biases:
            possible = numbers.isfinite(params["start"])
            rows += [params["bias"][None]] if self.features == "linear" else []
            rows += [numbers.where(possible, params["start"], 0.0)[None], params["end"][None]]
            first = numbers.where(possible, 0.0, -numbers.inf)
        weights = numbers.concatenate(rows) if rows else numbers.zeros((0, len(first)))
        return Linear(weights, params["transition"], first)

    def bytes_per_fold(self, prepared: Labelled) -> int:
        """Memory of potentials, messages and marginals, with some padding, and of weights."""
        count = len(prepared.tags)
        weights = 4 * prepared.features.shape[1] * count if prepared.is_sparse else 0
        return 8 * (15 * prepared.n_sites * count + weights)
