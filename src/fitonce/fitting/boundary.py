"""Probabilities of categories that are exactly zero: whether the objective is lowest there.

A zero outside the support of an emission has no coordinate, so that a certificate says nothing about
it. It is an optimum on the boundary if the objective rises as the probability grows at the expense of
the others of its state. With p = epsilon in its place, the slope is that of its log-ratio over epsilon:

    dF / dp = N - n / epsilon        N, n: expected numbers of the state, and of the category in it
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fitonce.core.numerics import in_float64
from fitonce.core.status import Outcome, Status
from fitonce.core.wording import counted
from fitonce.models.hmm import HMM
from fitonce.objectives.families import objective_of

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit

_NEARLY = 1e-7  # in place of zero: large against rounding, small against what it changes
_ROUNDING = 1e-5  # relative to N


@in_float64
def zero_probabilities(fit: Fit) -> pd.DataFrame:
    """One row per category of an HMM that is impossible in a state (`support` of `Categorical` or of
    `Multinomial`), unless probabilities are frozen: its `name`, the `slope` of -log p(data) as its
    probability grows, in nats per unit of probability, and whether zero is an `optimum`: the slope is
    not negative, and the prior is not above one."""
    emission: Any = getattr(fit.model, "emission", None)
    if getattr(emission, "support", None) is not None and not isinstance(fit.model, HMM):
        raise ValueError(f"zero_probabilities needs an HMM, got {type(fit.model).__name__}")
    known = "probability" in dict(getattr(fit.model, "frozen", ()))
    if known or getattr(emission, "support", None) is None:
        return pd.DataFrame({"name": [], "slope": [], "optimum": np.zeros(0, bool)})
    flat = replace(emission, support=None, concentration=1.0)
    params = {name: np.asarray(value, float) for name, value in fit.params.items()}
    zero = params["probability"] == 0
    near = np.where(zero, _NEARLY, params["probability"])
    near = near / near.sum(-1, keepdims=True)
    frozen = {name: value for name, value in params.items() if name != "probability"}
    objective = objective_of(replace(fit.model, emission=flat, frozen=frozen), fit.data)
    theta = objective.space.to_free(params | {"probability": near})
    slopes = objective.gradients(theta[None], objective.base[None])[0].reshape(*zero.shape[:-1], -1)
    by_entry = np.concatenate([slopes, -slopes.sum(-1, keepdims=True)], -1) / near
    states = fit.objective.state_probabilities(fit.theta)[fit.objective.base > 0].sum(0)
    above = np.broadcast_to(np.asarray(emission.concentration) > 1.0, zero.shape)
    places = np.argwhere(zero)
    rows = [(f"probability[{','.join(map(str, at))}]", by_entry[tuple(at)]) for at in places]
    names, found = zip(*rows, strict=True)
    allowed = -_ROUNDING * states[places[:, 0]]
    optimum = (np.array(found) >= allowed) & ~above[zero]
    return pd.DataFrame({"name": names, "slope": found, "optimum": optimum})


def with_zeros(fit: Fit) -> Fit:
    """The fit with a status that also says whether zeros among its probabilities are optima."""
    found = zero_probabilities(fit)
    if not len(found):
        return fit
    if found["optimum"].all():
        said = (
            f"{counted(len(found), 'probability', 'probabilities')} at zero, an optimum on the boundary"
        )
        message = f"{fit.status.message}; {said}" if fit.status.message else said
        return replace(fit, status=Status(fit.status.outcome, message))
    worst = found[~found["optimum"]].sort_values("slope").iloc[0]
    message = (
        f"'{worst['name']}' is held at zero, but -log p(data) changes by {worst['slope']:.3g} per unit "
        "of it, or its prior is above one: zero is no optimum; fit with this category possible"
    )
    return replace(fit, status=Status(Outcome.NOT_A_MINIMUM, message))
