"""Second derivatives of F of models of labels: covariances of counts, as matrices and by products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from fitonce.core import memory
from fitonce.core.chunks import unit_rows
from fitonce.core.wording import counted
from fitonce.core.wording import memory as in_words
from fitonce.data.labelled import UNKNOWN
from fitonce.models.crf import LinearChainCRF
from fitonce.objectives import priors
from fitonce.objectives.base import LinearMap
from fitonce.objectives.labels.changes import Changes
from fitonce.objectives.labels.layout import LabelLayout
from fitonce.objectives.labels.native import NativeChains

_MATRIX = 6000  # parameters: up to here, one H saves more products than it costs
FORMED = 12000  # places of sparse weights: beyond, products do without a matrix
_COLUMNS = 64  # of H at a time


def prior_precision(model: object) -> float | None:
    """Of a Gaussian prior, where the model says that it has one."""
    return model.prior_precision if isinstance(model, LinearChainCRF) else None


@dataclass(frozen=True, eq=False)
class SecondDerivatives:
    """Of the terms that all folds share, and of each fold's own, which are not linear in theta."""

    layout: LabelLayout

    @property
    def _shared(self) -> np.ndarray:
        """(N,) how often each sequence counts."""
        return self.layout.data.sequence_weights

    @property
    def _places(self) -> int:
        """Of weights, with those that are always zero: what work on compressed rows takes memory for."""
        design = self.layout.design
        return design.width * len(self.layout.data.tags) if design.is_sparse else 0

    def hessian(self, theta: np.ndarray, own: Changes) -> np.ndarray:
        """(D, D) at theta (D,), of one fold with these terms."""
        if self._places > FORMED:
            return self._by_products(theta, own)
        chains = self.layout.chains
        unknown = np.broadcast_to(np.int32(UNKNOWN), self.layout.labels.shape)
        found = chains.covariance(theta, self._shared, np.arange(len(self._shared)), unknown)
        if len(own.fold):
            found += chains.covariance(theta, *own[1:])
        precision = prior_precision(chains.program.model)
        if precision is None:
            found -= priors.hessian(chains.program, theta, None)
        else:
            found[np.diag_indices_from(found)] += precision
        found += found.T  # different to rounding
        found *= 0.5
        return found

    def _by_products(self, theta: np.ndarray, own: Changes) -> np.ndarray:
        """The same column by column, where memory allows a matrix of this size."""
        needed = 8.0 * len(theta) ** 2
        if needed > memory.checked_limit(None):
            raise ValueError(
                f"H of {counted(len(theta), 'parameter')} would take {in_words(needed)}, more than half "
                "of this machine's memory; multiply and solve with it by fit.hessian_operator"
            )
        found = np.empty((len(theta), len(theta)))
        for index, unit in unit_rows(len(theta), _COLUMNS):
            found[index] = self.products(theta, unit, own)
        found += found.T
        found *= 0.5
        return found

    def products(self, theta: np.ndarray, directions: np.ndarray, own: Changes) -> np.ndarray:
        """(m, D) the same times directions (m, D)."""
        chains, precision = self._native()
        found = chains.products_of_totals(theta, directions, self._shared)
        if own.weights is not None:
            found += directions @ chains.covariance(theta, *own[1:])
        elif len(own.fold):
            found += chains.products(theta, directions, *own[1:4])
        return found + precision * directions

    def preconditioner(self, theta: np.ndarray) -> LinearMap:
        """An approximate inverse, of the terms that all folds share and the prior."""
        chains, precision = self._native()
        if max(len(theta), self._places) > _MATRIX:
            return chains.preconditioner(theta, self._shared, precision)
        everyone, unknown = (
            np.arange(len(self._shared)),
            np.broadcast_to(UNKNOWN, self.layout.labels.shape),
        )
        matrix = chains.covariance(theta, self._shared, everyone, unknown)
        matrix[np.diag_indices_from(matrix)] += precision
        factor = linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return lambda columns: linalg.cho_solve(factor, columns, check_finite=False)

    def _native(self) -> tuple[NativeChains, float]:
        chains = self.layout.chains
        precision = prior_precision(chains.program.model)
        if not isinstance(chains, NativeChains) or precision is None:
            raise ValueError(f"{chains.program.model} has no products with its Hessians on this kernel")
        return chains, precision
