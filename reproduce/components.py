"""Which parts a structural time series needs: `fo.select` beside AIC and BIC, on sunspots, the Nile and CO2.

Each series has a report, `out/components_NAME.html`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import fitonce as fo
from reproduce import chosen
from reproduce.cases import OUT, machine


def _nile() -> tuple[np.ndarray, dict[str, Any]]:
    from statsmodels.datasets import nile

    models = {level: fo.models.Structural(level) for level in ("fixed", "local", "drift", "trend")}
    return nile.load_pandas().data["volume"].to_numpy(float), models


def _sunspots() -> tuple[np.ndarray, dict[str, Any]]:
    from statsmodels.datasets import sunspots

    models = {}
    for level, cycle in product(("fixed", "local", "trend"), (False, True)):
        name = f"{level}{' + cycle' if cycle else ''}"
        waves = {"cycle": True, "periods": (5.0, 20.0)} if cycle else {}
        models[name] = fo.models.Structural(level, **waves)
    return sunspots.load_pandas().data["SUNACTIVITY"].to_numpy(float), models


def _co2() -> tuple[np.ndarray, dict[str, Any]]:
    from statsmodels.datasets import co2

    models = {}
    for level, harmonics in product(("local", "trend"), (0, 1, 2, 4)):
        seasons = {"seasonal": 365.25 / 7, "harmonics": harmonics} if harmonics else {}
        models[f"{level}{f' + {harmonics} harmonics' if harmonics else ''}"] = fo.models.Structural(
            level, **seasons
        )
    return co2.load_pandas().data["co2"].to_numpy(float), models


SERIES: dict[str, Callable[[], tuple[np.ndarray, dict[str, Any]]]] = {
    "nile": _nile,
    "sunspots": _sunspots,
    "co2": _co2,
}


def main(part: str | None = None) -> None:
    print(machine())
    OUT.mkdir(exist_ok=True)
    for name in chosen(part, SERIES):
        values, models = SERIES[name]()
        print(f"\n{name}, {len(values):,} steps")
        choice = fo.select(models, values, progress=False)
        print(choice)
        path = OUT / f"components_{name}.html"
        choice.to_html(path, force=True)
        print(f"report: {path}")
