"""Saved fits as commands read them: with their model and their data, which commands cannot be given."""

from __future__ import annotations

from pathlib import Path

from fitonce.fitting.fit import Fit
from fitonce.fitting.loading import WithoutDataError, WithoutModelError, load_fit

# Packages whose state-space models are code, and models of ours that are alike.
_IMPORTED = ("statsmodels", "dynamax")
_ALIKE = {
    "UnobservedComponents": "structural",
    "SARIMAX": "sarimax",
    "ARIMA": "sarimax",
    "DynamicFactor": "dynamic-factor",
}


def opened(path: Path) -> Fit:
    """The fit in a file; where it is not whole, what to type or to do instead is said."""
    try:
        return load_fit(path)
    except WithoutModelError as error:
        kind, _, package = error.described.partition(" of ")
        model = f"fo.from_{package}(...).model" if package in _IMPORTED else "..."
        alike = f"fit `--model {_ALIKE[kind]}` to the data, or " if kind in _ALIKE else ""
        raise ValueError(
            f"{path.name} is a fit of {error.described}, a model that is code, which files do not hold: "
            f'commands cannot read it; {alike}go on in Python, fo.load("{path.name}", model={model})'
        ) from None
    except WithoutDataError:
        raise ValueError(
            f"{path.name} was saved without its data, which commands need: `fitonce fit` saves them, "
            f'or save them in Python, fo.load("{path.name}", data=...).save("whole.json")'
        ) from None
