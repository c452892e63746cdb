"""What a model will take, said before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fitonce import fields
from fitonce.ending import checked_limit, is_formed, matrix_bytes
from fitonce.hessian import LARGE
from fitonce.models.base import FieldModel
from fitonce.problem import objective_of


@dataclass(frozen=True)
class Plan:
    """What second derivatives of a model take.

    Attributes:
        parameters: D.
        sequences, sites: of the data.
        hessian_bytes: what forming and factoring H takes at most.
        cross_bytes: what J takes, for folds of whole sequences.
        limit: bytes that H may take.
        dense: whether H is formed; else solutions come from products with it.
    """

    parameters: int
    sequences: int
    sites: int
    hessian_bytes: float
    cross_bytes: float
    limit: float
    dense: bool

    def __repr__(self) -> str:
        form = (
            "formed and factored" + (" in place" if self.parameters > LARGE else "")
            if self.dense
            else "not formed: solutions by products, with certified residuals"
        )
        return (
            f"Plan: D = {self.parameters:,} parameters, {self.sequences:,} sequences, "
            f"{self.sites:,} sites\n"
            f"  H   {_size(self.hessian_bytes)} at most, of {_size(self.limit)} allowed; {form}\n"
            f"  J   {_size(self.cross_bytes)} for folds of sequences"
        )


def plan(model: Any, data: Any = None, *, memory_limit: float | None = None) -> Any:
    """What a model takes, before it is fitted.

    Of a field on a graph: its junction tree, with width, entries and memory. Of other models: the size
    of H, and whether it is formed.

    Args:
        model: one of `fo.models`.
        data: what it would be fitted to; not needed for a field.
        memory_limit: bytes that H may take; None: half of this machine's memory.
    """
    if isinstance(model, FieldModel):
        return fields.plan(model)
    limit = checked_limit(memory_limit)
    if data is None:
        raise ValueError(f"a plan of {model} needs the data: fo.plan(model, data)")
    objective, read = objective_of(model, data)
    size = objective.program.space.size
    need = matrix_bytes(size)
    many = getattr(read, "n_sequences", 1)
    sites = getattr(read, "n_sites", len(objective.base))
    dense = is_formed(objective, limit)
    return Plan(size, many, sites, need, 8.0 * size * many, limit, dense)


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"
