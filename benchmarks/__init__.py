"""Speed: `python -m benchmarks [NAME ...]`. Ratios are against a peer measured in the same run."""

from __future__ import annotations

from typing import Any


def brought_in(theirs: float, read: Any, fit: Any, auto: Any) -> str:
    """Their log-likelihood beside that of the fit as it was read, how far that was from the minimum, and
    the verdicts of its folds."""
    verdicts = ", ".join(
        f"{count} {name}" for name, count in auto.folds["verdict"].value_counts().items()
    )
    return (
        f"  log-likelihood of the fit {theirs:.6f} there, {read.log_likelihood:.6f} here, "
        f"{read.value - fit.value:.1e} nats above the minimum; auto: {verdicts}"
    )
