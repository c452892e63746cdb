"""The waist: what fitting, folds and methods ask of an objective, whatever computes it.

    F(theta, w) = -log p(data; theta, w) - log p(theta)

`compiled` computes it for chains and custom densities in one JAX program, `fields` for graphs with a
junction tree between two of them. Arrays in and out are NumPy, with a leading fold axis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from fitonce.engines.chain import Kernel
from fitonce.numerics import Array
from fitonce.parallel import Parallel
from fitonce.params import ParameterSpace
from fitonce.weighting import Scheme

CLUSTERS = 32  # parts of one sequence or graph that count as observations


@dataclass(frozen=True)
class Program:
    """All that is known when a program is compiled. Hashable: equal programs are compiled once."""

    model: Any
    space: ParameterSpace
    scheme: Scheme
    kernel: Kernel | None


class WithoutProducts:
    """Objectives that only know whole Hessians."""

    has_products = False
    has_blocks = False
    bends = False

    def products(
        self, thetas: np.ndarray, directions: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray]:
        raise NotImplementedError("this objective has no products with its Hessians")

    def products_at(self, theta: np.ndarray, directions: np.ndarray) -> np.ndarray:
        raise NotImplementedError("this objective has no products with its Hessian")

    def slopes_along(self, theta: np.ndarray, changes: np.ndarray) -> np.ndarray:
        raise NotImplementedError("this objective has no products with its J")

    def preconditioner(
        self, theta: np.ndarray, weights: np.ndarray | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        raise NotImplementedError("this objective has no products to precondition")

    def run_on(self, parallel: Parallel) -> Self:
        """Folds go to workers as they are; there is no sharding over devices."""
        if parallel == "devices":
            raise ValueError(
                "parallel='devices' is for chains; give a number of worker processes or None, "
                f"got 'devices' for {type(self).__name__}"
            )
        return self


class Objective(Protocol):
    """F for one data set; weights are per site (or sequence)."""

    @property
    def program(self) -> Program: ...

    @property
    def prepared(self) -> Any:
        """The data as the model reads it."""
        ...

    @property
    def layout(self) -> Any:
        """Where sites are; None when the model takes weights itself."""
        ...

    @property
    def base(self) -> np.ndarray:
        """(P,) the weights of the full fit."""
        ...

    @property
    def bytes_per_fold(self) -> int:
        """About how much memory one fold needs."""
        ...

    @property
    def closed_form(self) -> bool:
        """Whether `hessians` costs a few gradients and not D of them."""
        ...

    @property
    def convex(self) -> bool:
        """Whether F is strictly convex in theta at the weights of any fold, so that no Hessian is needed
        to tell a minimum."""
        ...

    def bytes_per_loss(self, touched: int) -> int:
        """About how much memory the losses of one fold need that leaves out so many things."""
        ...

    @property
    def has_products(self) -> bool:
        """Whether it multiplies by Hessians without forming them: `products`, `products_at` and
        `slopes_along`."""
        ...

    def products(
        self, thetas: np.ndarray, directions: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray]:
        """(F, D) each fold's Hessian times its direction (F, D)."""
        ...

    def products_at(self, theta: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """(m, D) H at the full fit's weights times directions (m, D)."""
        ...

    def slopes_along(self, theta: np.ndarray, changes: np.ndarray) -> np.ndarray:
        """(F, D) J times changes (F, P) of the path coordinates."""
        ...

    def preconditioner(
        self, theta: np.ndarray, weights: np.ndarray | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        """An approximate H^-1, at the full fit's weights or others, as a function of columns (D, m)."""
        ...

    @property
    def has_blocks(self) -> bool:
        """Whether `preconditioner` is better than nothing: parameters belong to states that tell of
        themselves."""
        ...

    @property
    def bends(self) -> bool:
        """Whether F has bent valleys, as networks have: secants that start far off leave them."""
        ...

    @property
    def cheap_cross(self) -> bool:
        """Whether J costs less than a gradient for each of a few folds."""
        ...

    def coordinates(self, weights: np.ndarray) -> Array | np.ndarray:
        """Path coordinates of weights (..., P)."""
        ...

    def value(self, theta: np.ndarray, weights: np.ndarray | None = None) -> float:
        """F(theta, w), with the full fit's weights by default."""
        ...

    def gradients(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D)."""
        ...

    def values_and_gradients(
        self, thetas: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(F,), (F, D)."""
        ...

    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D, D)."""
        ...

    def derivatives(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradient, H and J (D, path coordinates) at the full fit's weights."""
        ...

    def cross(self, theta: np.ndarray) -> np.ndarray:
        """J (D, path coordinates) at the full fit's weights."""
        ...

    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(x_t | x_-t) (sites,) and its derivatives by theta (D, sites)."""
        ...

    def posterior(self, theta: np.ndarray) -> np.ndarray:
        """(sites, K) probabilities of the latent states given all data."""
        ...

    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F,) log p(kept data), latent states kept, up to what does not depend on the weights."""
        ...

    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        """(F, M): -log p(x_t | kept data) of what is `scored` (F, M), latent states kept."""
        ...

    @property
    def clusters(self) -> np.ndarray:
        """(P,) parts of the data that count as one observation each, in a standard error."""
        ...

    def with_scheme(self, scheme: Scheme) -> Objective:
        """The same along another path."""
        ...

    def run_on(self, parallel: Parallel) -> Objective:
        """The same, with its work elsewhere, see `fitonce.parallel`."""
        ...
