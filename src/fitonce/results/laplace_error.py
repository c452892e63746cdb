"""A Laplace approximation beside the same number by importance sampling."""

from __future__ import annotations

from dataclasses import dataclass

_FEW = 50.0  # effective draws


@dataclass(frozen=True)
class LaplaceError:
    """The log-likelihood of all data at the parameters of a fit, computed twice.

    Attributes:
        laplace: by the Laplace approximation, of which the fit is the maximum.
        sampled: by importance sampling from it: exact but for random error.
        monte_carlo: standard error of `sampled`.
        effective: the number of equal weights that are worth as much as those of the draws; of the
            sequence where it is smallest.
        draws: how many.
    """

    laplace: float
    sampled: float
    monte_carlo: float
    effective: float
    draws: int

    @property
    def error(self) -> float:
        """How much too large the approximation is, in nats."""
        return self.laplace - self.sampled

    def __repr__(self) -> str:
        lines = [
            f"log-likelihood by the Laplace approximation: {self.laplace:,.4f}",
            f"  by importance sampling: {self.sampled:,.4f}, standard error {self.monte_carlo:.2g} "
            f"({self.draws:,} draws, worth {self.effective:,.0f})",
            f"  the approximation is off by {self.error:+.2g} nats",
        ]
        if not self.effective >= _FEW:
            lines.append("  few draws count: neither number is to be trusted")
        return "\n".join(lines)
