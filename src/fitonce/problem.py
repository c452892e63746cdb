"""From a model and data to the objective that is fitted: which of them it is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from fitonce.compiled import CompiledObjective, layout_of
from fitonce.corpus import corpus_of
from fitonce.data import Sequences, sequences
from fitonce.engines.chain import KERNELS, Kernel
from fitonce.fields import FieldObjective, field_layout, plan
from fitonce.labelled import Labelled, labelled
from fitonce.labels import LabelObjective
from fitonce.models.base import ChainModel, Conditions, FieldModel, LabelModel
from fitonce.models.custom import Custom
from fitonce.numerics import in_float64
from fitonce.objective import Objective, Program
from fitonce.params import ParameterSpace
from fitonce.weighting import A, C


@in_float64
def objective_of(model: Any, data: Any, kernel: Kernel | None = None) -> tuple[Objective, Any]:
    """F of a model on data, and the data as read."""
    if kernel is not None and kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {KERNELS} or None, got '{kernel}'")
    if isinstance(model, Custom):
        prepared = jax.tree_util.tree_map(jnp.asarray, _plain(data))
        space = ParameterSpace(model.space())
        base = np.ones(model.count(prepared))
        return CompiledObjective(Program(model, space, A(), kernel), prepared, None, base), data
    if not isinstance(model, (ChainModel, FieldModel, LabelModel)):
        raise ValueError(
            f"model must be one of fo.models or have its methods, got {type(model).__name__}"
        )
    if isinstance(model, LabelModel):
        return _of_labels(model, data, kernel)
    if isinstance(data, Labelled):
        raise ValueError(f"labelled data needs a model of labels such as LinearChainCRF, got {model}")
    read: Sequences = sequences(data)
    read = model.modelled(read) if isinstance(model, Conditions) else read
    prepared = model.prepare(read)
    space = ParameterSpace(model.parameters(prepared))
    program = Program(model, space, A(), kernel)
    if isinstance(model, FieldModel):
        tree = plan(model)
        layout = field_layout(tree.scopes, tree.starts, read.weights > 0)
        return FieldObjective(program, prepared, layout, read.weights, tree), read
    return CompiledObjective(program, prepared, layout_of(read), read.weights), read


def _of_labels(model: LabelModel, data: Any, kernel: Kernel | None) -> tuple[LabelObjective, Labelled]:
    if kernel is not None:
        raise ValueError(f"a model of labels has one kernel: kernel must be None, got '{kernel}'")
    read = labelled(*data) if isinstance(data, tuple) and len(data) == 2 else data
    prepared = model.prepare(read)
    program = Program(model, ParameterSpace(model.parameters(prepared)), C(), None)
    return LabelObjective(program, prepared, corpus_of(program, prepared), prepared.weights), prepared


def _plain(data: Any) -> Any:
    if isinstance(data, Sequences):
        raise ValueError(
            "Custom takes arrays as they are; pass data.values[0] and handle missing values"
        )
    if isinstance(data, (pd.DataFrame, pd.Series)):
        return data.to_numpy()
    return data
