"""HMMs of dynamax: the same log-likelihood, objective and folds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import fitonce as fo
import hmmlearn_cases
from dynamax_cases import NAMES, SEQUENCES, data, fitted, inputs_of, log_likelihood, stored

# Beyond a constant, -value is log p + log prior: the constants of their normalised priors cancel in
# differences of the objective at two parameter vectors.
_SLOW = ("GaussianMixtureHMM", "LinearRegressionHMM", "LinearAutoregressiveHMM")  # JAX compiles
every_name = [pytest.param(n, marks=[pytest.mark.slow] if n in _SLOW else []) for n in NAMES]


def brought(name, params=None, props=None):
    model, at, trained, said = stored(name)
    x, u = data(name)
    return fo.from_dynamax(model, params or at, props or trained, x, u), said


@pytest.mark.parametrize("name", every_name)
def test_a_stored_fit_has_its_log_likelihood_and_polishes(name):
    fit, said = brought(name)
    assert fit.log_likelihood == pytest.approx(said["log_likelihood"], abs=1e-8)
    polished = fit.polish()
    assert polished.ok, polished.status
    # EM with closed M steps ends there; Adam's 50 steps in each M step end nearby.
    assert fit.distance < 1.0
    assert fit.value >= polished.value - 1e-9


CLOSED = ("GaussianHMM", "DiagonalGaussianHMM", "SharedCovarianceGaussianHMM", "PoissonHMM",
          "CategoricalHMM", "BernoulliHMM", "MultinomialHMM", "GaussianMixtureHMM",
          "DiagonalGaussianMixtureHMM", "LinearRegressionHMM")  # fmt: skip


@pytest.mark.parametrize("name", [p for p in every_name if p.values[0] in CLOSED])
def test_priors_are_theirs_since_their_em_ends_at_our_minimum(name):
    """150 steps with closed M steps: the gradient is that small only with their prior."""
    fit, _ = brought(name)
    assert fit.distance < 0.02, fit.status


def _props(name, **groups):
    """All trained, but for the named parameters of a group."""
    trained = stored(name)[2]
    for group, names in groups.items():
        for one in names:
            setattr(getattr(trained, group), one, SimpleNamespace(trainable=False))
    return trained


def test_parameters_that_are_not_trained_are_frozen():
    props = _props("PoissonHMM", transitions=["transition_matrix"], emissions=["rates"])
    fit, said = brought("PoissonHMM", props=props)
    assert {name.split("[")[0] for name in fit.names} == {"initial"}
    assert fit.log_likelihood == pytest.approx(said["log_likelihood"], abs=1e-8)


def test_one_sequence_and_lists_are_read():
    model, at, trained, _ = stored("PoissonHMM")
    x, _ = data("PoissonHMM")
    whole = fo.from_dynamax(model, at, trained, x)
    one = fo.from_dynamax(model, at, trained, x[0])
    parts = fo.from_dynamax(model, at, trained, [x[0], x[1][:30]])
    assert one.log_likelihood == pytest.approx(whole.log_likelihood_of([x[0]])[0])
    assert len(parts.data.lengths) == 2


def test_the_lowest_precision_is_raised():
    """Parameters in float32 sum to one only to seven digits."""
    model, at, trained, said = stored("CategoricalHMM")
    for group in (at.initial, at.transitions, at.emissions):
        for key, value in vars(group).items():
            setattr(group, key, value.astype(np.float32))
    fit = fo.from_dynamax(model, at, trained, data("CategoricalHMM")[0])
    assert fit.log_likelihood == pytest.approx(said["log_likelihood"], abs=1e-3)
    assert fit.params["transition"].sum(1) == pytest.approx(1.0, abs=1e-14)


class LowRankGaussianHMM:
    """As if of dynamax."""


class LinearGaussianSSM:
    """As if of dynamax."""


def _changed(name, part=None, **attributes):
    model = stored(name)[0]
    for key, value in attributes.items():
        setattr(model if part is None else getattr(model, part), key, value)
    return model


def _derived(name, part=None, called="Other", **methods):
    """The model, of a subclass with these methods, or with a component of one."""
    model = stored(name)[0]
    base = model if part is None else getattr(model, part)
    other = type(called, (type(base),), methods)()
    other.__dict__.update(base.__dict__)
    if part is None:
        return other
    setattr(model, part, other)
    return model


def test_subclasses_that_only_inherit_are_read():
    _, at, trained, said = stored("PoissonHMM")
    derived = _derived("PoissonHMM", note="of ours", initialize=lambda self: None)
    fit = fo.from_dynamax(derived, at, trained, data("PoissonHMM")[0])
    assert fit.log_likelihood == pytest.approx(said["log_likelihood"], abs=1e-8)


@pytest.mark.parametrize(
    ("name", "model", "props", "given", "sentence"),
    [
        ("PoissonHMM", _derived("PoissonHMM", log_prior=None), None, None,
         "Other has its own log_prior, so it is not the PoissonHMM that from_dynamax would read"),
        ("PoissonHMM", _derived("PoissonHMM", called="PoissonHMM", log_prior=None), None, None,
         "PoissonHMM has its own log_prior, so it is not the PoissonHMM"),
        ("PoissonHMM", _derived("PoissonHMM", "emission_component", distribution=None), None, None,
         "the emission_component of a PoissonHMM must be a PoissonHMMEmissions, got Other"),
        ("PoissonHMM", _derived("PoissonHMM", "emission_component", "PoissonHMMEmissions",
                                distribution=None), None, None,
         "PoissonHMMEmissions has its own distribution, so it is not the PoissonHMMEmissions"),
        ("PoissonHMM", hmmlearn_cases.stored("PoissonHMM")[0], None, None,
         "reads HMMs of dynamax, got a PoissonHMM of hmmlearn: use fo.from_hmmlearn"),
        ("PoissonHMM", hmmlearn_cases.stored("GMMHMM diag")[0], None, None,
         "reads HMMs of dynamax, got a GMMHMM of hmmlearn: use fo.from_hmmlearn"),
        ("PoissonHMM", type("PoissonHMM", (), {})(), None, None,
         "reads HMMs of dynamax, got a PoissonHMM of test_dynamax"),
        ("PoissonHMM", LowRankGaussianHMM(), None, None, "not read a LowRankGaussianHMM: no emission"),
        ("PoissonHMM", LinearGaussianSSM(), None, None, "reads GaussianHMM, .*, got LinearGaussianSSM"),
        ("PoissonHMM", _changed("PoissonHMM", transition_component=object()), None, None,
         "the transition_component of a PoissonHMM must be a StandardHMMTransitions, got object"),
        ("PoissonHMM", None, None, (np.zeros(5), None), "emissions must have 2 axes, or 3 for a batch"),
        ("PoissonHMM", None, None, (np.zeros((5, 2)), np.zeros((5, 1))), "has no inputs, got some"),
        ("LogisticRegressionHMM", None, None, (np.zeros(5), None), "needs inputs, got none"),
        ("LogisticRegressionHMM", None, None, (np.zeros(5), np.zeros((4, 2))),
         r"inputs must be as long as emissions, \[5\], got \[4\]"),
        ("GammaHMM", None, _props("GammaHMM", emissions=["rate"]), None, "whose rate alone is frozen"),
        ("SphericalGaussianHMM", _changed(
            "SphericalGaussianHMM", "emission_component", emission_prior_mean_cov=np.diag([1.0, 2.0])),
         None, None, "emission_prior_mean_covariance must be a number times the identity"),
        ("DiagonalGaussianHMM", _changed(
            "DiagonalGaussianHMM", "emission_component", emission_prior_conc=np.array([0.1, 0.2])),
         None, None, "must be one number for all channels"),
    ],
)  # fmt: skip
def test_what_cannot_be_mapped_is_refused_by_name(name, model, props, given, sentence):
    own, at, trained, _ = stored(name)
    x, u = data(name) if given is None else given
    with pytest.raises(ValueError, match=sentence):
        fo.from_dynamax(model or own, at, props or trained, x, u)


def _theirs(params, name, fit, theta):
    """Their parameters at one of our free vectors."""
    import jax.numpy as jnp

    ours = {key: jnp.asarray(value) for key, value in fit.params_at(theta).items()}
    own = params.emissions
    make = {
        "mean": lambda v: {"biases" if hasattr(own, "biases") else "means": v},
        "covariance": lambda v: {"covs" if hasattr(own, "covs") else "cov": v},
        "variance": lambda v: {"scales" if hasattr(own, "scales") else "scale_diags": jnp.sqrt(v)},
        "weight": lambda v: {"weights": v},
        "rate": lambda v: {"rates": v} if hasattr(own, "rates") else {"probs": v},
        "probability": lambda v: {"probs": v},
        "coefficients": lambda v: {"weights": v},
    }
    new = {}
    if name == "GammaHMM":
        new = {"concentration": ours["shape"][:, 0], "rate": (ours["shape"] / ours["mean"])[:, 0]}
    elif name == "LogisticRegressionHMM":
        rate = ours["rate"][:, 0]
        new = {"weights": ours["coefficients"][:, 0], "biases": jnp.log(rate) - jnp.log1p(-rate)}
    elif name == "CategoricalRegressionHMM":
        padded = jnp.pad(ours["coefficients"][:, 0], ((0, 0), (0, 1), (0, 0)))
        new = {"weights": padded, "biases": jnp.log(ours["probability"][:, 0])}
    else:
        for key in set(ours) - {"initial", "transition"}:
            new |= make[key](ours[key])
    return params._replace(
        initial=params.initial._replace(probs=ours["initial"]),
        transitions=params.transitions._replace(transition_matrix=ours["transition"]),
        emissions=own._replace(**new),
    )


their_own_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.slow
@their_own_warnings
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_their_log_likelihood_and_prior(name):
    """Away from the optimum: the gradient and H of the objective, by differences of theirs."""
    jax = pytest.importorskip("jax")
    pytest.importorskip("dynamax")
    x, _ = data(name)
    with jax.enable_x64(True):
        model, params, props = fitted(name, 5)
        fit = fo.from_dynamax(model, params, props, x, inputs_of(model, name))
        assert fit.log_likelihood == pytest.approx(log_likelihood(model, params, name), abs=1e-8)
        known = inputs_of(model, name)

        @jax.jit
        def total(at):
            one = lambda x, u: model.marginal_log_prob(at, x, u)  # noqa: E731
            each = jax.vmap(one, (0, None if known is None else 0))(jax.numpy.asarray(x), known)
            return each.sum() + model.log_prior(at)

        def theirs(theta):
            return -float(total(_theirs(params, name, fit, theta)))

        rng = np.random.default_rng(0)
        for direction in rng.normal(size=(3, len(fit.theta))):
            step = 1e-4 / np.linalg.norm(direction)
            ahead, behind = (theirs(fit.theta + s * step * direction) for s in (1, -1))
            slope = (ahead - behind) / (2 * step)
            assert fit.gradient @ direction == pytest.approx(slope, rel=1e-5, abs=1e-4)
            step *= 30
            ahead, here, behind = (theirs(fit.theta + s * step * direction) for s in (1, 0, -1))
            second = (ahead - 2 * here + behind) / step**2
            assert direction @ fit.H @ direction == pytest.approx(second, rel=1e-3, abs=1e-2)


@pytest.mark.slow
@their_own_warnings
@pytest.mark.parametrize("name", ["GaussianHMM", "PoissonHMM", "LinearAutoregressiveHMM"])
def test_folds_are_those_of_their_refits(name):
    """Leave-one-sequence-out, each refit of theirs from the same start as their full fit."""
    jax = pytest.importorskip("jax")
    pytest.importorskip("dynamax")
    with jax.enable_x64(True):
        model, params, props = fitted(name, 400)
        fit = fo.from_dynamax(model, params, props, data(name)[0], inputs_of(model, name))
        cv = fo.cross_validate(fit.polish(), fo.folds.structures(fit.data))
        for left in range(SEQUENCES):
            keep = [n for n in range(SEQUENCES) if n != left]
            again = fitted(name, 400, keep)[1]
            loss = -log_likelihood(model, again, name, [left])
            assert cv.folds["loss"][left] == pytest.approx(loss, abs=5e-3)
