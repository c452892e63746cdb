"""Models: parameters, prior and potentials.

`HMM` and `PottsMixture` take any emission, `Custom` any log density, `CustomField` any factor graph.
"""

from fitonce.models.crf import LinearChainCRF
from fitonce.models.custom import Custom
from fitonce.models.custom_field import CustomField
from fitonce.models.emissions.autoregression import LinearAutoregression, NeuralAutoregression
from fitonce.models.emissions.base import Emission, EmissionTraits
from fitonce.models.emissions.categorical_regression import CategoricalRegression
from fitonce.models.emissions.categories import Categorical, Multinomial
from fitonce.models.emissions.continuous import (
    Beta,
    Exponential,
    Gamma,
    GaussianRegression,
    LogNormal,
    StudentT,
    VonMises,
    ZeroInflatedGamma,
)
from fitonce.models.emissions.count_regressions import (
    BinomialRegression,
    NegativeBinomial,
    PoissonRegression,
    ZeroInflatedPoisson,
)
from fitonce.models.emissions.counts import Binomial, Poisson
from fitonce.models.emissions.gaussian import Gaussian
from fitonce.models.emissions.linear_regression import LinearRegression
from fitonce.models.emissions.mixture import GaussianMixture
from fitonce.models.emissions.product import Product
from fitonce.models.emissions.switching import SwitchingRegression
from fitonce.models.emissions.switching_autoregression import SwitchingAutoregression
from fitonce.models.hmm import HMM
from fitonce.models.named import (
    ARHMM,
    BinomialSites,
    CategoricalHMM,
    EventCounts,
    GaussianHMM,
    GaussianSites,
    NeuralARHMM,
    PoissonHMM,
    PoissonSites,
)
from fitonce.models.potts import PottsMixture
from fitonce.models.space.factors import DynamicFactor
from fitonce.models.space.own import StateSpace
from fitonce.models.space.sarimax import SARIMAX
from fitonce.models.space.structural import Structural

__all__ = [
    "ARHMM",
    "HMM",
    "SARIMAX",
    "Beta",
    "Binomial",
    "BinomialRegression",
    "BinomialSites",
    "Categorical",
    "CategoricalHMM",
    "CategoricalRegression",
    "Custom",
    "CustomField",
    "DynamicFactor",
    "Emission",
    "EmissionTraits",
    "EventCounts",
    "Exponential",
    "Gamma",
    "Gaussian",
    "GaussianHMM",
    "GaussianMixture",
    "GaussianRegression",
    "GaussianSites",
    "LinearAutoregression",
    "LinearChainCRF",
    "LinearRegression",
    "LogNormal",
    "Multinomial",
    "NegativeBinomial",
    "NeuralARHMM",
    "NeuralAutoregression",
    "Poisson",
    "PoissonHMM",
    "PoissonRegression",
    "PoissonSites",
    "PottsMixture",
    "Product",
    "StateSpace",
    "Structural",
    "StudentT",
    "SwitchingAutoregression",
    "SwitchingRegression",
    "VonMises",
    "ZeroInflatedGamma",
    "ZeroInflatedPoisson",
]
