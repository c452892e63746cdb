"""The interface between models and everything above them: what fits, folds and analyses ask of F.

    F(theta, w) = -log p(data; theta, w) - log p(theta)

Each family of models (chains, graphs, labels, custom densities) has one subclass of `Objective`. It
implements the abstract methods, and those optional methods that its `traits` declare. What only some
families can do is a protocol of `objectives.abilities`. Arrays are NumPy,
with a leading fold axis: thetas (F, D), weights (F, P).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from fitonce.core.deferred import jax
from fitonce.core.numerics import as_floats
from fitonce.core.parallel import Parallel
from fitonce.core.parameters import ParameterSpace
from fitonce.data.sequences import Collection
from fitonce.objectives.schemes import Increments, Scheme, Structures
from fitonce.objectives.simulation import Simulator

CLUSTERS = 32  # parts of a graph that count as one observation each
MANY_SEQUENCES = 8  # from here on, sequences are the observations, not stretches of time
ValuesAndSlopes = tuple[np.ndarray, np.ndarray]  # (n,) and their derivatives by theta, (n, D)
LinearMap = Callable[[np.ndarray], np.ndarray]  # of columns (D, m)
_DIRECTION, _DIRECTIONS = 0.2, 2**27  # bytes of derivatives along one, as a share of a point; along all


@dataclass(frozen=True)
class Program:
    """What is known at compile time. Hashable: equal programs are compiled once."""

    model: Any
    space: ParameterSpace
    scheme: Scheme
    kernel: Any = None


@dataclass(frozen=True)
class Traits:
    """What an objective is and can do, declared by its family.

    Attributes:
        exchangeable: whether its points have neither time nor neighbours of their own, so that only the
            folds may know of these.
        site: the column of tables that identifies a point: "time" within its sequence, or "site".
        resampling: the kinds of bootstrap that make sense.
        hidden_states: whether there are hidden states, with `state_probabilities`.
        normalised: whether `log_likelihoods` is zero without data; where it is not, what it is there is
            a log-partition to subtract.
        convex: whether F is strictly convex in theta at the weights of every fold, so that a stationary
            point is a minimum without a Hessian to prove it.
        linear_in_weights: whether gradients are linear in the weights.
        closed_form_hessian: whether `hessians` costs a few gradients rather than D of them.
        tangents_pay: whether `hessians`, at the cost of some gradients, is faster than differences of D.
        cheap_cross: whether J costs less than one gradient each for a few folds.
        cheap_rows: whether folds of little memory take little time, less than compiling: then few folds
            are padded to a common number, see `core.chunks.common_rows`.
        together: folds that run in one group, in hardly more time than one; a single one takes the
            memory of a group.
        products: whether it multiplies by Hessians without forming them: `products`, `products_at`,
            `slopes_along`.
        formed: whether H may be formed where memory allows; otherwise, with many parameters, solutions
            come from products with it.
        blocks: whether `preconditioner` is more than the identity: emission parameters are per state.
        strongly_nonquadratic: whether L-BFGS from far away may end in another optimum, as with networks.
        m_steps: whether fits start with EM, and which parameters `m_step` updates: "all", "some" or
            "none" (no EM).
        sequences: whether whole sequences can be left out and scored.
        simulates: whether it implements `simulator`: random data and forecasts.
        compiles: whether work is compiled by JAX, so that first calls take longer than later ones.
        weights_of_jax: whether weights may be arrays of JAX, which stay on an accelerator.
    """

    exchangeable: bool = False
    site: Literal["time", "site"] = "time"
    resampling: tuple[str, ...] = ()
    hidden_states: bool = True
    normalised: bool = True
    convex: bool = False
    linear_in_weights: bool = False
    closed_form_hessian: bool = False
    tangents_pay: bool = False
    cheap_cross: bool = False
    cheap_rows: bool = False
    together: int = 1
    products: bool = False
    formed: bool = True
    blocks: bool = False
    strongly_nonquadratic: bool = False
    m_steps: Literal["all", "some", "none"] = "none"
    sequences: bool = False
    simulates: bool = False
    compiles: bool = True
    weights_of_jax: bool = False

    @property
    def exact_hessians(self) -> bool:
        """Whether Hessians of folds are those of `hessians`, not differences of gradients."""
        return self.closed_form_hessian or self.tangents_pay


class Objective(ABC):
    """F of one model on one data set, along the path of one weighting scheme.

    Attributes:
        program: the model, its parameter space and the scheme.
        base: (P,) the weights of the full fit: 1 for what was observed, 0 for what is missing.
        data: the data of the fit, as read.
    """

    program: Program
    base: np.ndarray
    data: Any

    @property
    def model(self) -> Any:
        return self.program.model

    @property
    def space(self) -> ParameterSpace:
        return self.program.space

    @property
    def scheme(self) -> Scheme:
        return self.program.scheme

    def __repr__(self) -> str:
        size, weights = f"{self.space.size:,} free parameters", f"{len(self.base):,} weights"
        of = f"F(theta, weights) of {size} and {weights}"
        return f"{type(self).__name__}: {of}; fit.value is its value at the fit"

    def __call__(self, theta: Any, weights: Any = None) -> float:
        """F(theta, w): one weight per site (or sequence), the full fit's by default."""
        theta = np.asarray(theta, float)
        weights = self.base if weights is None else np.asarray(weights, float)
        if theta.shape != (self.space.size,):
            raise ValueError(f"theta must have shape ({self.space.size},), got {theta.shape}")
        if weights.shape != self.base.shape:
            raise ValueError(f"weights must have shape {self.base.shape}, got {weights.shape}")
        return float(self.values_and_gradients(theta[None], weights[None])[0][0])

    def gradients(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D)."""
        return self.values_and_gradients(thetas, weights)[1]

    # --- implemented by every family -----------------------------------------------------------------

    @property
    @abstractmethod
    def traits(self) -> Traits: ...

    @property
    @abstractmethod
    def clusters(self) -> np.ndarray:
        """(P,) the part of the data that each weight belongs to; standard errors treat each part as one
        observation or, `along_time`, as one step after the other."""

    @property
    @abstractmethod
    def bytes_per_fold(self) -> int:
        """Approximate memory of one fold."""

    @abstractmethod
    def start(self, rng: np.random.Generator | None) -> np.ndarray:
        """(D,) a starting point for a fit; a random variation of it when `rng` is given."""

    @abstractmethod
    def log_prior(self, theta: np.ndarray) -> float:
        """The log prior density, up to a constant."""

    @abstractmethod
    def values_and_gradients(self, thetas: np.ndarray, weights: np.ndarray) -> ValuesAndSlopes:
        """F (F,) and its gradients (F, D)."""

    @abstractmethod
    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D, D)."""

    @abstractmethod
    def cross(self, theta: np.ndarray) -> np.ndarray:
        """J (D, path coordinates) at the full fit's weights."""

    @abstractmethod
    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(x_t | x_-t) (sites,) and its derivatives by theta (D, sites)."""

    @abstractmethod
    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F,) log p(kept data), latent states kept, up to what does not depend on the weights."""

    @abstractmethod
    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        """(F, M): -log p(x_t | kept data) of the sites `scored` (F, M), latent states kept."""

    @abstractmethod
    def with_scheme(self, scheme: Scheme) -> Objective:
        """The same along the path of another scheme."""

    # --- with a default ------------------------------------------------------------------------------

    @property
    def along_time(self) -> bool:
        """Whether `clusters` are steps in time, whose losses depend on their neighbours."""
        return False

    @property
    def gradients_per_hessian(self) -> float:
        """How many gradients take as long as H of a fold: D by differences."""
        return float(self.space.size)

    @property
    def least_curvature(self) -> float | None:
        """A positive bound below all eigenvalues of H, whatever theta, at the full fit's weights; None:
        not known. With it a small gradient proves a minimum."""
        return None

    def leave_one_out_in_pieces(
        self, theta: np.ndarray, sites: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """`leave_one_out` of observed sites (m,): sites (n,), values (n,) and slopes (n, D) of some at a
        time, in order; by default of all at once."""
        values, slopes = self.leave_one_out(theta)
        yield sites, values[sites], slopes[:, sites].T

    def gains_without(
        self, theta: np.ndarray, sites: np.ndarray, values: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(n,) by how much F rises when each of some observed sites is left out, and the slopes of that
        (n, D), given `values` and `slopes` of their log densities (see `leave_one_out`): the same, where
        F has terms of all sites."""
        return values, slopes

    @property
    def collection(self) -> Collection:
        """The sites that can be left out: sequences with their lengths, weights and names."""
        return self.data

    @property
    def per_exposure(self) -> tuple[str, ...]:
        """Names of parameters that are rates per unit of exposure."""
        return ()

    @property
    def edges(self) -> np.ndarray | None:
        """(E, 2) pairs of neighbours, where sites lie on a graph."""
        return None

    def rival_starts(self) -> list[np.ndarray]:
        """Further starting points (D,) that are not random: fits take them after the first one."""
        return []

    @property
    def loss_data(self) -> Any:
        """The argument `data` of a user's own loss: a pytree of arrays."""
        return self.data

    def log_likelihood(self, theta: np.ndarray) -> float:
        """log p(all data), without the prior, which may be so large that F has no digits of the rest."""
        if self.traits.normalised:
            return float(self.log_likelihoods(theta[None], self.base[None])[0])
        both = np.stack([self.base, np.zeros_like(self.base)])
        with_data, without = self.log_likelihoods(np.stack([theta, theta]), both)
        return float(with_data - without)

    def coordinates(self, weights: np.ndarray) -> np.ndarray:
        """Path coordinates of weights (..., P): for most schemes the weights themselves."""
        return as_floats(weights)

    def bytes_per_loss(self, touched: int) -> int:
        """Approximate memory of the losses of one fold that leaves out `touched` units."""
        return self.bytes_per_fold

    @property
    def bytes_per_point(self) -> int:
        """Approximate memory of H or of a leave-one-out sweep, without what can be cut into pieces."""
        return self.bytes_per_fold

    @property
    def bytes_of_directions(self) -> int:
        """Approximate memory of derivatives along as many directions of H as are followed together."""
        return int(min(_DIRECTION * self.bytes_per_point * self.space.size, _DIRECTIONS))

    def shortened(self, sites: int) -> Objective:
        """On about so many sites of the data, to time work on; all where there is no such part."""
        return self

    def check_weights(self, theta: np.ndarray, weights: np.ndarray) -> None:  # noqa: B027
        """Raise where the weights (P,) of a fold have no effect on F."""

    def require_value(self, theta: np.ndarray) -> None:
        """Raise where it is known why F has no value at theta (D,)."""
        if fault := self.fault(theta):
            raise ValueError(fault)

    def fault(self, theta: np.ndarray, weights: np.ndarray | None = None) -> str:
        """Why F has no value at parameters (D,), or at these and the weights (P,) of a fold, in words;
        empty: it has one, or that is not known."""
        return ""

    def for_resampling(self, kind: str) -> Objective:
        """The same with weights that count how often each unit was drawn, see `analysis.bootstrap`."""
        return self.with_scheme(Structures() if kind == "structures" else Increments())

    def for_prediction(self, data: Any = None) -> Objective:
        """The same model on the data to predict for; None: the data of the fit."""
        if data is None:
            return self
        raise ValueError(f"{self.model} can only predict for the data of its fit, got other data")

    def run_on(self, parallel: Parallel) -> Self:
        """The same with its work run elsewhere, see `core.parallel`."""
        if parallel == "devices":
            raise ValueError(
                f"{self.model} does not run on several devices; parallel must be None or a number of "
                "worker processes, got 'devices'"
            )
        return self

    def identity(self) -> list[Any]:
        """Everything that results depend on, for the key of a journal: the program and the arrays."""
        program = self.program
        known = [program.model, program.scheme, program.kernel, program.space.names, self.base]
        return [*known, *self.content]

    @property
    def content(self) -> list[Any]:
        """The arrays that results depend on."""
        return jax.tree_util.tree_leaves(self.loss_data)

    # --- optional: declared by `traits` --------------------------------------------------------------

    def state_probabilities(self, theta: np.ndarray) -> np.ndarray:
        """(sites, K) probabilities of the hidden states given all data."""
        raise self._lacks("hidden states")

    def decode(self, theta: np.ndarray) -> list[Any]:
        """The jointly most probable states of each sequence."""
        raise self._lacks("most probable path of states")

    def simulator(self, theta: np.ndarray) -> Simulator:
        """What makes random data and forecasts."""
        raise self._lacks("random data")

    def m_step(
        self, theta: np.ndarray, weights: np.ndarray | None = None
    ) -> tuple[float, np.ndarray | None]:
        """One iteration of EM, at the full fit's weights by default: F at `theta`, and the next theta or
        None where the M step has no solution."""
        raise self._lacks("M steps")

    def products(self, thetas: np.ndarray, directions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D) each fold's Hessian times its direction (F, D)."""
        raise self._lacks("products with its Hessians")

    def products_at(self, theta: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """(m, D) H at the full fit's weights times directions (m, D)."""
        raise self._lacks("products with its Hessians")

    def slopes_along(self, theta: np.ndarray, changes: np.ndarray) -> np.ndarray:
        """(F, D) J times changes (F, P) of the path coordinates."""
        raise self._lacks("products with J")

    def preconditioner(self, theta: np.ndarray, weights: np.ndarray | None = None) -> LinearMap:
        """An approximate H^-1, by default at the full fit's weights, as a function of columns (D, m)."""
        raise self._lacks("products with its Hessians")

    def device_hessian(self, theta: np.ndarray) -> jax.Array | None:
        """H (D, D) at the full fit's weights, left on the accelerator; None: not formed there."""
        return None

    def _lacks(self, what: str) -> ValueError:
        return ValueError(f"{self.model} has no {what}")
