"""HMMs fitted by dynamax in float64: live, and as `python tests/dynamax_cases.py` stored them: new ones,
and those that it is given by name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

STORED = Path(__file__).parent / "saved" / "dynamax.json"
SEQUENCES, STEPS = 5, 60
_GRADUAL = ("SphericalGaussianHMM", "GammaHMM", "LogisticRegressionHMM", "CategoricalRegressionHMM")
# What their constructors take, beyond the number of states; priors are those by default or stronger.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "GaussianHMM": {"emission_dim": 2, "emission_prior_mean": 1.0, "emission_prior_concentration": 0.5},
    "DiagonalGaussianHMM": {"emission_dim": 2, "emission_prior_mean_concentration": 0.5},
    "SphericalGaussianHMM": {"emission_dim": 2},
    "SharedCovarianceGaussianHMM": {"emission_dim": 2, "emission_prior_concentration": 0.5},
    "PoissonHMM": {"emission_dim": 2},
    "CategoricalHMM": {"emission_dim": 2, "num_classes": 3, "transition_matrix_stickiness": 2.0},
    "BernoulliHMM": {"emission_dim": 3, "emission_prior_concentration0": 1.5},
    "MultinomialHMM": {"emission_dim": 2, "num_classes": 3, "num_trials": 5},
    "GammaHMM": {},
    "GaussianMixtureHMM": {
        "num_components": 2, "emission_dim": 2, "emission_prior_mean_concentration": 0.1},
    "DiagonalGaussianMixtureHMM": {"num_components": 2, "emission_dim": 2},
    "LinearRegressionHMM": {"input_dim": 2, "emission_dim": 2},
    "LinearAutoregressiveHMM": {"emission_dim": 2, "num_lags": 2},
    "LogisticRegressionHMM": {"input_dim": 2, "emission_matrices_scale": 2.0},
    "CategoricalRegressionHMM": {"num_classes": 3, "input_dim": 2},
}  # fmt: skip
NAMES = list(ARGUMENTS)


def data(name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Emissions (N, T, ...) and inputs (N, T, 2), or None."""
    rng = np.random.default_rng(0)
    shape = (SEQUENCES, STEPS)
    z = np.cumsum(rng.random(shape) < 0.1, 1) % 2
    u = rng.normal(size=(*shape, 2))
    line = np.array([-1.0, 1.0])[z] + np.einsum("ntq,ntq->nt", np.array([[1.0, 0.5], [-0.5, 1.0]])[z], u)
    table = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])[z]

    def categories(logits: np.ndarray) -> np.ndarray:
        return np.argmax(logits + rng.gumbel(size=logits.shape), -1)

    if name in ("GaussianMixtureHMM", "DiagonalGaussianMixtureHMM"):
        centre = np.array([[[0.0, 0.0], [4.0, 0.5]], [[1.0, 6.0], [7.0, 7.0]]])
        return centre[z, (rng.random(shape) < 0.4).astype(int)] + rng.normal(size=(*shape, 2)), None
    if "Gaussian" in name or name == "LinearAutoregressiveHMM":
        return np.array([[0.0, 0.0], [2.5, -1.5]])[z] + rng.normal(size=(*shape, 2)) @ [
            [1, 0.4],
            [0, 0.8],
        ], None
    made = {
        "PoissonHMM": lambda: rng.poisson(np.array([[2.0, 7.0], [9.0, 3.0]])[z]),
        "CategoricalHMM": lambda: categories(np.log(np.stack([table, table[..., ::-1]], 2))),
        "BernoulliHMM": lambda: rng.random((*shape, 3)) < np.array(
            [[0.8, 0.2, 0.5], [0.1, 0.7, 0.6]])[z],
        "MultinomialHMM": lambda: rng.multinomial(5, np.stack([table, table[..., ::-1]], 2)),
        "GammaHMM": lambda: rng.gamma(np.array([2.0, 6.0])[z], np.array([1.0, 2.0])[z]),
        "LinearRegressionHMM": lambda: np.stack([line, -line], -1) + rng.normal(size=(*shape, 2)),
        "LogisticRegressionHMM": lambda: rng.random(shape) < 1 / (1 + np.exp(-2.0 * line)),
        "CategoricalRegressionHMM": lambda: categories(
            np.stack([2.0 * line, u[..., 0], 0.0 * line], -1)),
    }[name]()  # fmt: skip
    integers = name in ("CategoricalHMM", "CategoricalRegressionHMM")
    return made.astype(int if integers else float), u if "Regression" in name else None


def made(name: str) -> Any:
    """A live model without parameters."""
    import dynamax.hidden_markov_model as theirs

    return getattr(theirs, name)(2, **ARGUMENTS[name])


def inputs_of(model: Any, name: str) -> Any:
    """What their functions take as inputs (N, T, Q), or None."""
    import jax.numpy as jnp

    x, u = data(name)
    if name != "LinearAutoregressiveHMM":
        return u
    return jnp.stack([model.compute_inputs(jnp.asarray(part)) for part in x])


def fitted(name: str, steps: int | None = None, keep: Any = None) -> tuple[Any, Any, Any]:
    """A live model, its parameters after EM, and their properties; call within float64. `keep`: which
    sequences; all if None."""
    import jax.numpy as jnp
    import jax.random as jr

    model, (x, _), u = made(name), data(name), None
    u = inputs_of(model, name)
    chosen = np.arange(len(x)) if keep is None else np.asarray(keep)
    how = {"method": "kmeans", "emissions": jnp.asarray(x.reshape(-1, *x.shape[2:]))}
    plain = "Gaussian" not in name or "Mixture" in name
    params, props = model.initialize(jr.PRNGKey(3), **({} if plain else how))
    if "Mixture" in name:
        centre = jnp.array([[[0.0, 0.5], [3.5, 0.5]], [[1.0, 5.0], [6.0, 7.0]]])
        params = params._replace(emissions=params.emissions._replace(means=centre))
        spread = {"covs": jnp.tile(jnp.eye(2), (2, 2, 1, 1)), "scale_diags": jnp.ones((2, 2, 2))}
        own = {k: v for k, v in spread.items() if hasattr(params.emissions, k)}
        params = params._replace(emissions=params.emissions._replace(**own))
    moves = jnp.array([[0.9, 0.1], [0.1, 0.9]])
    params = params._replace(transitions=params.transitions._replace(transition_matrix=moves))
    steps = steps or (60 if name in _GRADUAL else 150)
    given = None if u is None else jnp.asarray(u)[chosen]
    params, _ = model.fit_em(
        params, props, jnp.asarray(x)[chosen], inputs=given, num_iters=steps, verbose=False
    )
    return model, params, props


def log_likelihood(model: Any, params: Any, name: str, which: Any = None) -> float:
    """Theirs, of some of the sequences."""
    import jax.numpy as jnp

    x, u = data(name)[0], inputs_of(model, name)
    total = 0.0
    for n in range(len(x)) if which is None else which:
        own = None if u is None else jnp.asarray(u[n])
        total += float(model.marginal_log_prob(params, jnp.asarray(x[n]), own))
    return total


# --- stored --------------------------------------------------------------------------------------------

_SKIPPED = ("m_step_optimizer", "m_step_num_iters")


def _numbers(thing: Any) -> dict[str, Any]:
    return {k: np.asarray(v).tolist() for k, v in vars(thing).items() if k not in _SKIPPED}


def _lists(group: Any) -> dict[str, Any]:
    return {key: np.asarray(value).tolist() for key, value in group._asdict().items()}


def stored(name: str) -> tuple[Any, Any, Any, dict[str, float]]:
    """Stand-ins for a model, parameters and properties, and what dynamax said of them."""
    found = json.loads(STORED.read_text())[name]

    def like(kind: str, attributes: dict[str, Any]) -> Any:
        one = type(kind, (), {})()
        for key, value in attributes.items():
            setattr(one, key, np.array(value) if isinstance(value, list) else value)
        return one

    model = like(name, found["model"])
    model.emission_shape = tuple(found["emission_shape"])
    for part, kind in (
        ("initial", "StandardHMMInitialState"),
        ("transition", "StandardHMMTransitions"),
        ("emission", f"{name}Emissions"),
    ):
        setattr(model, f"{part}_component", like(kind, found[part]))
    groups = {group: like(group, values) for group, values in found["params"].items()}
    trained = {
        group: SimpleNamespace(**{key: SimpleNamespace(trainable=True) for key in values})
        for group, values in found["params"].items()
    }
    return model, SimpleNamespace(**groups), SimpleNamespace(**trained), found["said"]


def _store() -> None:
    import jax

    everything = json.loads(STORED.read_text()) if STORED.exists() else {}
    for name in NAMES:
        if name in everything and name not in sys.argv:
            continue
        with jax.enable_x64(True):
            model, params, _ = fitted(name)
            said = {
                "log_likelihood": log_likelihood(model, params, name),
                "log_prior": float(model.log_prior(params)),
            }
            plain = ("num_states", "num_lags")
            everything[name] = {
                "model": {key: getattr(model, key) for key in plain if hasattr(model, key)},
                "emission_shape": list(model.emission_shape),
                "initial": _numbers(model.initial_component),
                "transition": _numbers(model.transition_component),
                "emission": _numbers(model.emission_component),
                "params": {group: _lists(getattr(params, group)) for group in params._fields},
                "said": said,
            }  # fmt: skip
        STORED.write_text(json.dumps(everything, indent=1) + "\n")
        print(name, said, flush=True)


if __name__ == "__main__":
    _store()
