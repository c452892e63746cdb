"""Maps as the command line reads them: options to `read_map`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fitonce.core.wording import counted, split_names
from fitonce.data.map_columns import require_column
from fitonce.data.map_files import read_layer
from fitonce.data.maps import read_map
from fitonce.data.reading import Columns
from fitonce.data.sequences import Sequences
from fitonce.data.table_files import decimal_of, read_table
from fitonce.objectives.family import Loaded


def load_map(path: Path, columns: Columns, options: Mapping[str, Any]) -> Loaded:
    """Values, neighbours, exposures and shapes of the sites of a map."""
    names, exposure, join = _listed(options["names"]), options["exposure"], options["join"]
    coordinates = _coordinates(options["coordinates"])
    if options["edges"] is not None and options["neighbours"] is not None:
        raise ValueError("--edges and --neighbours both say who is a neighbour; give one of them")
    taken = [
        *(names or ()), *columns.covariates, exposure, options["regions"], *(coordinates or ()),
    ]  # fmt: skip
    found = read_map(
        path,
        _counts(path, columns, options, coordinates, [one for one in taken if one]),
        exposure=exposure,
        names=names,
        neighbours=options["edges"] or options["neighbours"],
        nearest=options["nearest"],
        within=options["within"],
        join=join,
        where=options["where"],
        layer=options["layer"],
        coordinates=coordinates,
        regions=options["regions"],
        covariates=columns.covariates,
        missing=columns.missing,
        decimal=columns.decimal,
    )
    counts = found.data.channels[0]
    text = f"{counted(found.graph.n_sites, 'site')}, {int((found.data.weights == 0).sum()):,} missing"
    notes = [f"modelled: {counts}", *found.notes]
    return of_graph(found.data, notes, text, found.graph, found.exposure, columns.covariates)


def of_graph(
    data: Sequences,
    notes: list[str],
    text: str,
    links: Any,
    exposure: np.ndarray | None,
    covariates: tuple[str, ...],
) -> Loaded:
    """Sites with what their model needs."""
    found = {"edges": links, "exposure": exposure, "covariates": covariates}
    return Loaded(data, notes, text, found)


def _counts(
    path: Path,
    columns: Columns,
    options: Mapping[str, Any],
    coordinates: tuple[str, str] | None,
    taken: list[str],
) -> str:
    """The column to model: the one that is named, or the only one that there is."""
    given = columns.modelled or ()
    if len(given) == 1:
        return given[0]
    join, decimal = options["join"], columns.decimal
    table = read_layer(path, options["layer"], coordinates, decimal_of(path, join, decimal)).table
    every = [table[name] for name in table.columns]
    if join is not None:
        other = read_table(join, decimal_of(join, path, decimal))
        every += [other[name] for name in other.columns if name not in table.columns]
    for name in given:
        require_column(table, name)
    free = [str(one.name) for one in every if one.dtype.kind in "iuf" and one.name not in taken]
    if not given and len(free) == 1:
        return free[0]
    raise ValueError(
        f"a map has one number for each site; choose its column with --columns, from "
        f"{', '.join(free) or 'none'}"
    )


def _listed(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(split_names(text))


def _coordinates(text: str | None) -> tuple[str, str] | None:
    found = _listed(text)
    if found is None:
        return None
    if len(found) != 2:
        raise ValueError(f"--coordinates must name two columns, such as lon,lat, got '{text}'")
    return found[0], found[1]
