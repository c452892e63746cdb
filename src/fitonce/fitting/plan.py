"""The cost of a model, before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fitonce.core.memory import checked_limit
from fitonce.core.wording import counted, memory
from fitonce.fitting.finish import by_products
from fitonce.fitting.footprint import matrix_bytes
from fitonce.fitting.hessian import LARGE
from fitonce.objectives.families import family_of


@dataclass(frozen=True)
class Plan:
    """Memory for the second derivatives of a model.

    Attributes:
        parameters: D.
        sequences, sites: of the data.
        hessian_bytes: at most, to form and factor H.
        cross_bytes: of J, for folds of whole sequences.
        limit: bytes that H may take.
        dense: whether H is formed; otherwise solutions come from products with it.
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
            else "not formed: solved by products, with certified residuals"
        )
        return (
            f"Plan: D = {counted(self.parameters, 'parameter')}, {counted(self.sequences, 'sequence')}, "
            f"{counted(self.sites, 'site')}\n"
            f"  H   {memory(self.hessian_bytes)} at most, of {memory(self.limit)} allowed; {form}\n"
            f"  J   {memory(self.cross_bytes)} for folds of sequences"
        )


def plan(model: Any, data: Any = None, *, memory_limit: float | None = None) -> Any:
    """What a model will cost, before it is fitted.

    For a field on a graph: its junction tree, with width, entries and memory. For other models: the size
    of H, and whether it is formed.

    Args:
        model: one of `fo.models`.
        data: the data to fit; not needed for a field.
        memory_limit: bytes that H may take; None: half of this machine's memory.
    """
    family = family_of(model)
    if family.plan is not None:
        return family.plan(model)
    limit = checked_limit(memory_limit)
    if data is None:
        raise ValueError(f"a plan of {model} needs the data: fo.plan(model, data)")
    objective = family.objective(model, data, None)
    size, sites = objective.space.size, objective.collection
    need = matrix_bytes(size)
    dense = not by_products(objective) or need <= limit
    cross = 8.0 * size * sites.n_sequences
    return Plan(size, sites.n_sequences, sites.n_sites, need, cross, limit, dense)
