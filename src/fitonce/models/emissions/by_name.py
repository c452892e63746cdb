"""Emissions by name, as `HMM` and `PottsMixture` take them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fitonce.core.arguments import shown
from fitonce.models.emissions.adapted import as_emission
from fitonce.models.emissions.base import Emission
from fitonce.models.emissions.categories import Multinomial
from fitonce.models.emissions.continuous import (
    Beta,
    Exponential,
    Gamma,
    LogNormal,
    StudentT,
    VonMises,
    ZeroInflatedGamma,
)
from fitonce.models.emissions.count_regressions import NegativeBinomial, ZeroInflatedPoisson
from fitonce.models.emissions.counts import Binomial, Poisson
from fitonce.models.emissions.gaussian import Gaussian
from fitonce.models.emissions.mixture import GaussianMixture

EMISSIONS: dict[str, Callable[[], Emission]] = {
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
    "zero-inflated-poisson": ZeroInflatedPoisson,
    "bernoulli": partial(Binomial, 1.1, 1.1, trials=1),
    "multinomial": Multinomial,
    "gaussian": Gaussian,
    "gaussian-mixture": GaussianMixture,
    "student-t": StudentT,
    "log-normal": LogNormal,
    "gamma": Gamma,
    "zero-inflated-gamma": ZeroInflatedGamma,
    "exponential": Exponential,
    "beta": Beta,
    "von-mises": VonMises,
}


def read_emission(given: Any, more: dict[str, Callable[[], Emission]] | None = None) -> Emission:
    """The emission itself, or the one of this name, with its defaults; `more` names are known, too."""
    if not isinstance(given, str):
        return as_emission(given)
    known = EMISSIONS | (more or {})
    if given not in known:
        raise ValueError(
            f"emission must be one of {', '.join(known)}, or an fo.models.Emission, got {shown(given)}"
        )
    return known[given]()
