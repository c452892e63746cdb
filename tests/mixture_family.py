"""A family that the package knows nothing of: independent sites from a mixture of normals.

All that it takes is here: a model, an objective and one record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

import fitonce as fo
from fitonce.core.constraints import Free, Simplex
from fitonce.core.numerics import in_float64
from fitonce.core.parameters import ParameterSpace
from fitonce.data.reading import read_file
from fitonce.models.prior_words import prior_words
from fitonce.objectives import priors
from fitonce.objectives.base import CLUSTERS, Program, Traits
from fitonce.objectives.derivatives import AutodiffObjective
from fitonce.objectives.families import families, register
from fitonce.objectives.family import STATES, Family, Loaded, NamedModel


@dataclass(frozen=True)
class IidMixture:
    """p(x_v) = sum_k share[k] Normal(x_v; centre[k], 1)."""

    n_components: int = 2

    def __str__(self):
        return f"IidMixture of {self.n_components}"

    def parameters(self):
        return {"share": Simplex((self.n_components,)), "centre": Free((self.n_components,))}

    def log_prior_at(self, params, x):
        return jnp.sum(jnp.log(params["share"])) - 0.5 * jnp.sum((params["centre"] / 10.0) ** 2)

    def log_joint(self, params, x):
        """(V, K) log p(x_v, z_v = k)."""
        squares = (x[:, None] - params["centre"]) ** 2
        return jnp.log(params["share"]) - 0.5 * squares - 0.5 * jnp.log(2 * jnp.pi)


@prior_words.register
def _(model: IidMixture):
    return {"share": "Dirichlet(2)", "centre": "Normal(0, 10^2)"}


def _log_densities(program, theta, x):
    return logsumexp(program.model.log_joint(program.space.to_params(theta), x), -1)


def _values(program, thetas, weights, x):
    each = jax.vmap(lambda theta, w: w @ _log_densities(program, theta, x))(thetas, weights)
    return -each - priors.log_priors(program, thetas, x)


@partial(jax.jit, static_argnums=0)
def _slopes(program, theta, x):
    densities = partial(_log_densities, program, x=x)
    return densities(theta), jax.jacfwd(densities)(theta).T


@in_float64
def mixture_objective(model, data, kernel=None):
    read_data = fo.sequences(data)
    x = np.where(read_data.observed, read_data.values, 0.0)[read_data.valid][:, 0]
    program = Program(model, ParameterSpace(model.parameters()), fo.schemes.A())
    return MixtureObjective(program, read_data.weights, read_data, jnp.asarray(x))


@dataclass(frozen=True, eq=False)
class MixtureObjective(AutodiffObjective):
    program: Program
    base: np.ndarray
    data: Any
    x: Any

    values = staticmethod(_values)

    @property
    def arrays(self):
        return (self.x,)

    @property
    def traits(self):
        return Traits(site="site", resampling=("iid",), linear_in_weights=True)

    @property
    def clusters(self):
        return np.arange(len(self.base)) // -(-len(self.base) // CLUSTERS)

    @property
    def bytes_per_fold(self):
        return 80 * self.model.n_components * len(self.base)

    def start(self, rng):
        x = np.asarray(self.x)[self.base > 0]
        at = np.linspace(0.1, 0.9, self.model.n_components) if rng is None else np.sort(rng.random(2))
        share = np.full(self.model.n_components, 1.0 / self.model.n_components)
        return self.space.to_free({"share": share, "centre": np.quantile(x, at)})

    @in_float64
    def log_prior(self, theta):
        return float(priors.log_prior(self.program, jnp.asarray(theta), self.x))

    @in_float64
    def leave_one_out(self, theta):
        values, slopes = _slopes(self.program, jnp.asarray(theta), self.x)
        return np.asarray(values) * self.base, np.asarray(slopes) * self.base

    @in_float64
    def log_likelihoods(self, thetas, weights):
        each = [_slopes(self.program, jnp.asarray(theta), self.x)[0] for theta in thetas]
        return np.einsum("fv,fv->f", weights, np.stack(each))

    @in_float64
    def pointwise_losses(self, thetas, weights, scored):
        each = [_slopes(self.program, jnp.asarray(theta), self.x)[0] for theta in thetas]
        return -np.take_along_axis(np.stack(each), scored, 1)

    @in_float64
    def state_probabilities(self, theta):
        params = self.space.to_params(jnp.asarray(theta))
        return np.asarray(jax.nn.softmax(self.model.log_joint(params, self.x), -1))

    def decode(self, theta):
        states = self.state_probabilities(theta).argmax(1)
        return np.split(states, self.data.offsets[1:])

    def for_prediction(self, data=None):
        return self if data is None else mixture_objective(self.model, data)

    def for_resampling(self, kind):
        return self

    def with_scheme(self, scheme):
        if not isinstance(scheme, fo.schemes.A):
            raise ValueError(f"independent sites are left out by scheme A, got scheme {scheme.name}")
        return replace(self, program=replace(self.program, scheme=scheme))


def _load(path, columns, options):
    found = read_file(path, columns)
    return Loaded(found.data, found.notes, str(found.data))


MIXTURES = Family(
    name="mixture",
    accepts=lambda model: isinstance(model, IidMixture),
    objective=mixture_objective,
    usual_folds="iid",
    folds=("iid", "points", "kfold"),
    models=(
        NamedModel(
            "iid-mixture", "independent numbers", lambda o, _: IidMixture(o["states"]), (STATES,)
        ),
    ),
    load=_load,
)

if MIXTURES.name not in {family.name for family in families()}:
    register(MIXTURES)
