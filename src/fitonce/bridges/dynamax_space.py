"""Linear-Gaussian state-space models of dynamax: the same matrices and likelihood.

States may be shifted, or turned and scaled, without a change of the likelihood, if all parameters that
would notice are trained. Such a model has no isolated optimum, so that its states are given one form:
see `_centred` and `_settled`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.bridges.classes import require_inherited
from fitonce.core.constraints import Constraint, Covariance, Free, Frozen, Positive
from fitonce.core.factor_constraints import Loadings
from fitonce.data.sequences import Sequences
from fitonce.fitting.fit import Fit, fit_at
from fitonce.models.space.system import Series, SpaceModel, System, Values, folds_of

KIND = "LinearGaussianSSM"
_ROOTED = 1e8  # the condition of I - dynamics.weights beyond which shifts cost too many digits
_SINGULAR = 1e-14  # an eigenvalue of a covariance, relative to its largest
_FIELDS = {
    "initial": ("mean", "cov"),
    "dynamics": ("weights", "bias", "input_weights", "cov"),
    "emissions": ("weights", "bias", "input_weights", "cov"),
}
# A subclass that has one of these is another model, or is fitted to another objective.
_OWN = (
    "log_prior", "initial_distribution", "transition_distribution", "emission_distribution",
    "marginal_log_prob", "filter", "smoother", "e_step", "m_step", "fit_em", "fit_sgd",
)  # fmt: skip
_OF_STATES = (
    "initial_mean", "initial_cov", "dynamics_weights", "dynamics_bias", "dynamics_input_weights",
    "dynamics_cov", "emissions_weights",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class DynamaxSpace(SpaceModel):
    """A linear-Gaussian state-space model with the parameters of dynamax.

    Attributes:
        values: parameters by name, such as `dynamics_weights`, where a fit starts.
        constraints: of each of them.
        covariates: names of the inputs.
    """

    values: dict[str, np.ndarray]
    constraints: dict[str, Constraint]
    covariates: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{KIND} of dynamax"

    def leaves(self, steps: Series) -> dict[str, Constraint]:
        return dict(self.constraints)

    def start(self, steps: Series, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        found = {}
        for name, leaf in self.constraints.items():
            free = leaf.to_free(self.values[name])
            moved = free if rng is None else free + rng.normal(0.0, 0.3, free.shape)
            found[name] = leaf.values(moved[:, None])[..., 0] if len(free) else self.values[name]
        return found

    def system(self, values: Values, steps: Series) -> System:
        folds, kind = folds_of(values)
        width, size = self.values["emissions_weights"].shape
        found = System.zeros(size, width, folds, kind)
        noise = values["emissions_cov"]
        if noise.ndim == 2:  # a diagonal
            noise = np.einsum("cf,cd->cdf", noise, np.eye(width))
        drift, offset = values["dynamics_bias"][None], values["emissions_bias"][None]
        if self.covariates:
            ahead = np.concatenate([steps.covariates[1:], steps.covariates[-1:]])  # of the step entered
            drift = drift + np.einsum("tq,nqf->tnf", ahead, values["dynamics_input_weights"])
            known = steps.covariates
            offset = offset + np.einsum("tq,cqf->tcf", known, values["emissions_input_weights"])
        return found._replace(
            loading=values["emissions_weights"][None],
            offset=offset,
            noise=noise[None],
            moving=values["dynamics_weights"][None],
            drift=drift,
            shaking=values["dynamics_cov"][None],
            mean=values["initial_mean"],
            spread=values["initial_cov"],
        )


def from_linear_gaussian(model: Any, params: Any, props: Any, data: Sequences) -> Fit:
    """See `from_dynamax`."""
    require_inherited(model, KIND, _OWN, "from_dynamax")
    size, width = int(model.state_dim), int(model.emission_dim)
    count = len(data.covariate_names)
    if count != int(model.input_dim):
        raise ValueError(f"inputs must have {int(model.input_dim)} columns, got {count}")
    values, frozen = _read(params, props, size, width, count)
    leaves = _leaves(values, size)
    if not {"initial_mean", "dynamics_bias", "emissions_bias"} & frozen:
        values, known = _centred(values)
        frozen = frozen | {known}
    if _open(values, frozen):
        unit = _unit(values, frozen)
        values, others = _settled(values, unit, size, width)
        leaves |= others
        frozen = frozen | {unit}
    leaves |= {name: Frozen.at(values[name]) for name in frozen}
    if not count:
        for name in ("dynamics_input_weights", "emissions_input_weights"):
            del leaves[name], values[name]
    made = DynamaxSpace(values, leaves, data.covariate_names)
    return fit_at(made, data, values)


def _read(
    params: Any, props: Any, size: int, width: int, count: int
) -> tuple[dict[str, np.ndarray], set[str]]:
    """Values by our names, in float64, and the names of those that are not trained."""
    shapes = {
        "initial_mean": (size,), "initial_cov": (size, size),
        "dynamics_weights": (size, size), "dynamics_bias": (size,),
        "dynamics_input_weights": (size, count), "dynamics_cov": (size, size),
        "emissions_weights": (width, size), "emissions_bias": (width,),
        "emissions_input_weights": (width, count), "emissions_cov": (width, width),
    }  # fmt: skip
    values, frozen = {}, set()
    for group, fields in _FIELDS.items():
        for field in fields:
            name, given = f"{group}_{field}", getattr(getattr(params, group), field)
            trained = getattr(getattr(props, group), field)
            if given is None:  # it has none
                given, trained = np.zeros(shapes[name]), None
            if callable(given):
                raise ValueError(f"{group}.{field} must be an array, got a function of time")
            array = np.asarray(given, float)
            diagonal = name == "emissions_cov" and array.shape == (width,)
            if array.shape != shapes[name] and not diagonal:
                raise ValueError(
                    f"{group}.{field} must have shape {shapes[name]}, the same at all times, got "
                    f"{array.shape}"
                )
            values[name] = array
            if trained is None or not trained.trainable or not array.size:
                frozen.add(name)
    return values, frozen


def _leaves(values: dict[str, np.ndarray], size: int) -> dict[str, Constraint]:
    found: dict[str, Constraint] = {name: Free(value.shape) for name, value in values.items()}
    for name in ("initial_cov", "dynamics_cov", "emissions_cov"):
        shape = values[name].shape
        found[name] = Covariance(shape) if len(shape) == 2 else Positive(shape)
    return found


def _unit(values: dict[str, np.ndarray], frozen: set[str]) -> str:
    """The covariance that becomes I: one that stays as it is, if there is one that is not zero."""
    known = "initial_cov" in frozen and np.any(values["initial_cov"])
    return "initial_cov" if known else "dynamics_cov"


def _open(values: dict[str, np.ndarray], frozen: set[str]) -> bool:
    """Whether states can be turned without a change of what is known."""
    fixed = [name for name in _OF_STATES if name in frozen and np.any(values[name])]
    if set(fixed) - {"initial_cov", "dynamics_cov"}:
        return False
    if len(fixed) == 2:
        one, other = values["initial_cov"], values["dynamics_cov"]
        ratio = np.trace(other) / max(np.trace(one), 1e-300)
        return bool(np.allclose(other, ratio * one, rtol=1e-6, atol=1e-9 * np.abs(other).max()))
    return True


def _centred(values: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str]:
    """The same model with shifted states, and the name of what is zero by that and stays so: the bias of
    the dynamics or, where a root at 1 lets no shift do this, as of random walks, the first mean."""
    weights, bias = values["dynamics_weights"], values["dynamics_bias"]
    apart = np.eye(len(bias)) - weights
    rooted = np.linalg.cond(apart) > _ROOTED
    shift = values["initial_mean"] if rooted else np.linalg.solve(apart, bias)
    moved = values | {
        "initial_mean": values["initial_mean"] - shift,
        "dynamics_bias": bias - apart @ shift if rooted else np.zeros(len(bias)),
        "emissions_bias": values["emissions_bias"] + values["emissions_weights"] @ shift,
    }
    return moved, "initial_mean" if rooted else "dynamics_bias"


def _settled(
    values: dict[str, np.ndarray], unit: str, size: int, width: int
) -> tuple[dict[str, np.ndarray], dict[str, Constraint]]:
    """The same model with other states: one covariance is I, weights of emissions are lower triangular
    with a positive diagonal, and with fewer channels than states so is their product with the dynamics,
    row after row, until all rotations are settled."""
    spread = np.linalg.eigvalsh(values[unit])
    if not spread[0] > _SINGULAR * spread[-1]:
        raise ValueError(
            f"{unit.replace('_', '.', 1)} must be positive definite where states may be turned without "
            "a change of the likelihood: do not train emissions.weights or dynamics.weights"
        )
    apart = np.linalg.cholesky(values[unit])
    weights, move = (
        values["emissions_weights"] @ apart,
        np.linalg.solve(apart, values["dynamics_weights"] @ apart),
    )
    rows, last = [weights], weights
    while width * len(rows) < size:
        last = last @ move
        rows.append(last)
    turn, upper = np.linalg.qr(np.concatenate(rows)[:size].T, mode="complete")
    signs = np.ones(size)
    signs[: upper.shape[1]] = np.where(np.diag(upper) < 0, -1.0, 1.0)
    onto = apart @ (turn * signs)  # old states from new ones
    back = np.linalg.inv(onto)
    found = dict(values)
    for name in ("initial_mean", "dynamics_bias", "dynamics_input_weights"):
        found[name] = back @ values[name]
    for name in ("initial_cov", "dynamics_cov"):
        made = back @ values[name] @ back.T
        found[name] = 0.5 * (made + made.T)
    found["dynamics_weights"] = back @ values["dynamics_weights"] @ onto
    found["emissions_weights"] = values["emissions_weights"] @ onto
    found[unit] = np.eye(size)
    loads = Loadings((width, size), tuple(range(min(width, size))), (1.0,) * width)
    moves = Loadings((size, size), tuple(range(size)), (1.0,) * size, width)
    leaves: dict[str, Constraint] = {"emissions_weights": loads, "dynamics_weights": moves}
    for name, leaf in (("emissions_weights", loads), ("dynamics_weights", moves)):
        found[name] = np.where(leaf.kept, found[name], 0.0)
    return found, leaves
