"""What a call needs: a fit, where it may have been given a model."""

from __future__ import annotations

from typing import Any

from fitonce.fitting.fit import Fit
from fitonce.objectives.families import families


def require_a_fit(fit: Any) -> None:
    """Raise unless `fit` is one; a model is told from other things."""
    if isinstance(fit, Fit):
        return
    model = any(family.accepts(fit) for family in families())
    hint = "; a model is fitted first: fit = fo.fit(model, data)" if model else ""
    raise ValueError(f"fit must be a Fit from fo.fit, got {type(fit).__name__}{hint}")
