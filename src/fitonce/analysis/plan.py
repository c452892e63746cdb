"""The cost of a model, before it runs: time and memory of every call, in one table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fitonce.analysis.predictions import Prediction, predictions
from fitonce.core.arguments import naming
from fitonce.core.memory import IMPORTS, checked_limit
from fitonce.core.renamed import deprecated
from fitonce.core.wording import counted, duration, memory
from fitonce.data.sequences import with_lengths
from fitonce.engines.elimination import JunctionTree
from fitonce.fitting.finish import by_products
from fitonce.fitting.fit import Fit
from fitonce.fitting.footprint import matrix_bytes
from fitonce.fitting.hessian import LARGE
from fitonce.folds import Folds
from fitonce.folds.catalogue import FOLD_KINDS, FoldOptions
from fitonce.objectives.base import Objective
from fitonce.objectives.families import family_of
from fitonce.objectives.prepared import require_fit


@dataclass(frozen=True)
class Plan:
    """Time and memory of a model on data; printed, a table.

    Attributes:
        parameters: D; None where that needs the data.
        sequences, sites: of the data.
        hessian_bytes: at most, to form and factor H.
        cross_bytes: of J, for folds of whole sequences.
        limit: bytes that a call may add to memory.
        dense: whether H is formed; otherwise solutions come from products with it.
        folds: which, in words.
        rows: a `Prediction` for each call.
        tree: the junction tree of a model on a graph.
    """

    parameters: int | None
    sequences: int
    sites: int
    hessian_bytes: float
    cross_bytes: float
    limit: float
    dense: bool
    folds: str = ""
    rows: list[Prediction] = field(default_factory=list)
    tree: JunctionTree | None = None

    def to_frame(self) -> pd.DataFrame:
        """One row for each call: `seconds`, with `compiling` in it, `bytes` at the peak, and `fits`:
        whether a call would take the limit."""
        rows = [(*row, self._allows(row)) for row in self.rows]
        return pd.DataFrame(rows, columns=[*Prediction._fields, "fits"]).set_index("call")

    def _allows(self, row: Prediction) -> bool:
        """With less than the libraries take every call is refused."""
        return max(row.bytes, IMPORTS) <= self.limit

    @property
    def width(self) -> int:
        """Of the junction tree."""
        return self._tree().width

    @property
    def entries(self) -> int:
        """Of the tables of the junction tree."""
        return self._tree().entries

    @property
    def bytes(self) -> int:
        """Deprecated: `tree.bytes`."""
        deprecated("Plan.bytes", "Plan.tree.bytes")
        return self._tree().bytes

    @property
    def seconds(self) -> float:
        """Deprecated: `tree.seconds`."""
        deprecated("Plan.seconds", "Plan.tree.seconds")
        return self._tree().seconds

    def _tree(self) -> JunctionTree:
        if self.tree is None:
            raise AttributeError("only a model on a graph has a junction tree")
        return self.tree

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.fits import of_plan  # only notebooks need it

        return of_plan(self, [self._allows(row) for row in self.rows])

    def __repr__(self) -> str:
        lines = [] if self.tree is None else [str(self.tree)]
        if self.parameters is not None:
            lines += self._sizes()
        if self.rows:
            lines += [f"  {self.folds}", f"  {'':<12}{'time':>10}{'compiling':>12}{'memory':>12}"]
        for row in self.rows:
            compiling = duration(row.compiling) if row.compiling >= 0.01 else ""
            over = "" if self._allows(row) else "  more than is allowed"
            columns = f"{duration(row.seconds):>10}{compiling:>12}{memory(row.bytes):>12}"
            lines.append(f"  {row.call:<12}{columns}{over}")
        return "\n".join(lines)

    def _sizes(self) -> list[str]:
        form = (
            "formed and factored" + (" in place" if (self.parameters or 0) > LARGE else "")
            if self.dense
            else "not formed: solved by products, with certified residuals"
        )
        return [
            f"Plan: D = {counted(self.parameters or 0, 'parameter')}, "
            f"{counted(self.sequences, 'sequence')}, {counted(self.sites, 'site')}",
            f"  H   {memory(self.hessian_bytes)} at most, of {memory(self.limit)} allowed; {form}",
            f"  J   {memory(self.cross_bytes)} for folds of sequences",
        ]


def plan(
    model: Any,
    data: Any = None,
    folds: Folds | None = None,
    *,
    lengths: Any = None,
    memory_limit: float | str | None = None,
) -> Plan:
    """What a model will cost, before it is fitted: time and peak memory of the fit, of every method of
    `cross_validate`, and of `loo`, `influence` and `bootstrap`.

    Times come from counts of work and from what pieces of it take on little data, timed now; they are
    right to about a factor of two, but for how many steps a fit takes, and how many folds "auto" must
    refine, which only a run shows. Memory is what a call adds to this process at its peak.

    Args:
        model: one of `fo.models`, or a `Fit`.
        data: the data to fit. A field on a graph needs none for its junction tree alone: width, entries
            and memory.
        folds: from `fo.folds`; None: the usual ones of the model.
        lengths: of the sequences, where `data` is one array or table with the rows of all of them.
        memory_limit: of the calls, in bytes or as text such as "2GB"; None: half of this machine's
            memory.
    """
    limit, fitted = checked_limit(memory_limit), model if isinstance(model, Fit) else None
    model = model if fitted is None else fitted.model
    data = with_lengths(data, lengths)
    family = family_of(model)
    tree = None if family.plan is None else family.plan(model)
    if fitted is None and data is None:
        if tree is None:
            raise ValueError(f"a plan of {model} needs the data: fo.plan(model, data)")
        return Plan(None, 1, len(tree.states), 0.0, 0.0, limit, True, tree=tree)
    objective: Objective = fitted.objective if fitted else family.objective(model, data, None)
    if fitted is None:
        require_fit(objective)
    if fitted is not None and data is not None:
        raise ValueError("a fit has its data: fo.plan(fit, folds=...), got other data as well")
    if folds is None:
        with naming("data are too few for the usual folds, give folds="):
            folds = FOLD_KINDS[family.usual_folds].make(model, objective.collection, FoldOptions())
    if not isinstance(folds, Folds):
        raise ValueError(f"folds must come from fo.folds, got {type(folds).__name__}")
    if folds.lengths is not None:
        objective.collection.require_lengths(folds.lengths)
    size, sites = objective.space.size, objective.collection
    return Plan(
        size,
        sites.n_sequences,
        sites.n_sites,
        matrix_bytes(size),
        8.0 * size * sites.n_sequences,
        limit,
        not by_products(objective) or (objective.traits.formed and matrix_bytes(size) <= limit),
        folds.describe(),
        predictions(objective, folds, fitted, limit),
        tree,
    )
