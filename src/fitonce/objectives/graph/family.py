"""Hidden fields on graphs: Potts mixtures and custom factor graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import shown
from fitonce.core.wording import counted
from fitonce.data.cells import as_numbers
from fitonce.data.edge_files import edges_of
from fitonce.data.graph import graph
from fitonce.data.map_files import GEOJSON, OTHERS
from fitonce.data.neighbours import WAYS
from fitonce.data.places import Names
from fitonce.data.reading import Columns, read_file
from fitonce.data.table_files import read_table
from fitonce.models.base import FieldModel
from fitonce.models.emissions.categorical_regression import CategoricalRegression
from fitonce.models.emissions.categories import Categorical, n_categories
from fitonce.models.emissions.continuous import GaussianRegression
from fitonce.models.emissions.count_regressions import BinomialRegression, PoissonRegression
from fitonce.models.emissions.counts import Binomial, Poisson
from fitonce.models.emissions.gaussian import Gaussian
from fitonce.models.potts import PottsMixture
from fitonce.objectives.family import EXPOSURE, STATES, Family, Loaded, NamedModel, Option
from fitonce.objectives.graph.map_options import load_map, of_graph
from fitonce.objectives.graph.objective import field_objective, junction_tree_of

_BETA = Option(
    "beta", str, "learned", "Coupling of neighbours, or 'learned'",
    several="Couplings, such as 0,0.5,1,learned",
)  # fmt: skip
_EDGES = Option("edges", Path, None, "File with two columns of neighbouring sites", of_data=True)
_MAP = (
    Option("names", str, None, "Column that names sites, or several, with commas", of_data=True),
    Option("neighbours", str, None, f"{', '.join(WAYS)}, or a file of pairs (maps)", of_data=True),
    Option("nearest", int, None, "How many nearest sites are neighbours; 4", of_data=True, least=1),
    Option("within", str, None, "How near neighbours are, such as '20 km'", of_data=True),
    Option("join", Path, None, "Table with further columns of the sites", of_data=True),
    Option("where", str, None, "Rows to take, such as 'year = 2018'", of_data=True),
    Option("layer", str, None, "Layer of a map file that has several", of_data=True),
    Option("coordinates", str, None, "Columns X,Y of a table of points", of_data=True),
    Option("regions", str, None, "Column of regions, for --folds regions", of_data=True),
)


def _load(path: Path, columns: Columns, options: Mapping[str, Any]) -> Loaded:
    """Values of sites in the order of the file, their graph and their exposures."""
    edges, exposure = options["edges"], options["exposure"]
    columns = columns.only(
        "modelled", "missing", "decimal", "covariates",
        otherwise="is for sequences, got a model on a graph",
    )  # fmt: skip
    if path.suffix.lower() in (*GEOJSON, *OTHERS) or any(options.get(one.name) for one in _MAP):
        return load_map(path, columns, options)
    if edges is None:
        raise ValueError(
            "a model on a graph needs neighbours: --edges, a file with two columns of sites, or "
            "--coordinates X,Y for a table of points; a map file has them"
        )
    table = read_table(path, columns.decimal)
    if exposure is not None and exposure not in table.columns:
        raise ValueError(f"'{exposure}' is not a column; columns are {', '.join(table.columns)}")
    others = [c for c in table.columns if table[c].dtype.kind in "biuf" and c != exposure]
    if columns.modelled is None and len(others) != 1:
        raise ValueError(
            f"a graph has one number for each site; choose its column with --columns, from "
            f"{', '.join(others) or 'none'}"
        )
    chosen = columns.modelled or (others[0],)
    if exposure is not None and exposure in columns.covariates:
        raise ValueError(f"'{exposure}' is the exposure, and cannot be a covariate too")
    found = read_file(path, replace(columns, modelled=chosen, gaps=False, ordered=False))
    known = None if exposure is None else _numbers(found.table[exposure])
    roles = (*chosen, exposure, *columns.covariates)
    apart = [name for name in found.table.columns if name not in roles]
    numbered, column = edges_of(edges, found.table[apart])
    links, data = graph(numbered, found.data.n_sites), found.data
    notes = [*found.notes, str(links)]
    if column is not None:
        notes.append(f"sites are named by '{column}'")
        data = replace(data, names=Names(("the graph",), tuple(map(str, found.table[column]))))
    notes += [] if exposure is None else [f"exposure: {exposure}"]
    text = f"{counted(data.n_sites, 'site')}, {int((data.weights == 0).sum()):,} missing"
    notes += [f"covariates: {', '.join(columns.covariates)}"] if columns.covariates else []
    return of_graph(data, notes, text, links, known, columns.covariates)


def _numbers(column: pd.Series) -> np.ndarray:
    """A column that must hold a number in every row."""
    found = as_numbers(column)
    bad = np.flatnonzero(found.isna())
    if bad.size:
        got = column.iloc[bad[0]]
        raise ValueError(
            f"'{column.name}' must be a number in every row, got {shown(got)} in row {bad[0]}"
        )
    return found.to_numpy(float)


def _beta(text: str) -> float | str:
    if text == "learned":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--beta must be a number or 'learned', got '{text}'") from None


def _idle(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """One class has no neighbours in another, and nothing that couples them."""
    return {"beta": "0"} if options["states"] == 1 else {}


def _potts(
    name: str,
    data: str,
    emission: Callable[[Any], Any],
    regression: Callable[[Any, tuple[str, ...]], Any],
    *options: Option,
) -> NamedModel:
    """`data`: what it is for, such as "counts"; `emission`: made from the data; `regression`: where it
    depends on covariates, made from these, too."""

    def make(given: Mapping[str, Any], data: Any) -> PottsMixture:
        given = {**given, **_idle(given)}
        known = given.get("covariates", ())
        made = regression(data, known) if known else emission(data)
        return PottsMixture(
            given["edges"], given["states"], emission=made, beta=_beta(given["beta"]),
            exposure=given.get("exposure") if made.traits.exposure else None,
        )  # fmt: skip

    flags = ", ".join(f"--{option.name}" for option in (_EDGES, *options))
    title = f"{data} on a map or a graph ({flags})"
    taken = (STATES, _BETA, _EDGES, *options, *_MAP)
    return NamedModel(f"potts-{name}", title, make, taken, covariates=True, idle=_idle)


GRAPHS = Family(
    name="graph",
    accepts=lambda model: isinstance(model, FieldModel),
    objective=field_objective,
    usual_folds="regions",
    covering_folds="spatial-kfold",
    folds=("regions", "spatial-kfold", "buffered", "iid", "points", "kfold"),
    n_states=lambda model: getattr(model, "n_classes", None),
    plan=junction_tree_of,
    models=(
        _potts(
            "poisson",
            "counts",
            lambda _: Poisson(),
            lambda _, known: PoissonRegression(known),
            EXPOSURE,
        ),
        _potts("gaussian", "numbers", lambda _: Gaussian(), lambda _, known: GaussianRegression(known)),
        _potts(
            "binomial",
            "counts out of trials",
            lambda _: Binomial(),
            lambda _, known: BinomialRegression(known),
            EXPOSURE,
        ),
        _potts(
            "categorical",
            "categories 0, 1, 2, ...",
            lambda data: Categorical(n_categories(data)),
            lambda data, known: CategoricalRegression(n_categories(data), known),
        ),
    ),
    load=_load,
    endings=(".geojson", *OTHERS),
)
