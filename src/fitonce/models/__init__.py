"""Models: parameters, prior and potentials.

`HMM` takes any emission, `Custom` any log density, `CustomField` any factor graph.
"""

from fitonce.models.autoregression import (
    ARHMM,
    LinearAutoregression,
    NeuralARHMM,
    NeuralAutoregression,
)
from fitonce.models.crf import LinearChainCRF
from fitonce.models.custom import Custom
from fitonce.models.custom_field import CustomField
from fitonce.models.emissions import Categorical, Poisson
from fitonce.models.events import EventCounts
from fitonce.models.gaussian import Gaussian
from fitonce.models.hmm import HMM, CategoricalHMM, GaussianHMM, PoissonHMM
from fitonce.models.potts import PottsMixture
from fitonce.models.sites import BinomialSites, GaussianSites, PoissonSites

__all__ = [
    "ARHMM",
    "HMM",
    "BinomialSites",
    "Categorical",
    "CategoricalHMM",
    "Custom",
    "CustomField",
    "EventCounts",
    "Gaussian",
    "GaussianHMM",
    "GaussianSites",
    "LinearAutoregression",
    "LinearChainCRF",
    "NeuralARHMM",
    "NeuralAutoregression",
    "Poisson",
    "PoissonHMM",
    "PoissonSites",
    "PottsMixture",
]
