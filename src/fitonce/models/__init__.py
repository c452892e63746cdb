"""Models: parameters, prior and potentials. `HMM` takes any emission; `Custom` any log density."""

from fitonce.models.custom import Custom
from fitonce.models.emissions import Categorical, Poisson
from fitonce.models.events import EventCounts
from fitonce.models.gaussian import Gaussian
from fitonce.models.hmm import HMM, CategoricalHMM, GaussianHMM, PoissonHMM

__all__ = [
    "HMM",
    "Categorical",
    "CategoricalHMM",
    "Custom",
    "EventCounts",
    "Gaussian",
    "GaussianHMM",
    "Poisson",
    "PoissonHMM",
]
