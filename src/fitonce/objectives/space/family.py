"""State-space models: structural time series and what else is linear and Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fitonce.data.reading import Columns, read_file
from fitonce.models.space.system import SpaceModel
from fitonce.objectives.family import Family, Loaded
from fitonce.objectives.space.objective import space_objective


def _load(path: Path, columns: Columns, options: Mapping[str, Any]) -> Loaded:
    found = read_file(path, columns)
    return Loaded(found.data, found.notes, str(found.data))


SPACES = Family(
    "state-space",
    lambda model: isinstance(model, SpaceModel),
    space_objective,
    load=_load,
)
