"""What the property tests of engines, constraints and scores draw from. Shapes are few where each is
compiled; the numbers come from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from fitonce.core.constraints import Covariance, Free, Frozen, Ordered, Positive, Proportion, Simplex
from fuzzing.strategies import seeds

# Steps, states, and whether transitions vary: each is a program to compile.
CHAIN_SHAPES = [(1, 3, False), (1, 3, True), (2, 3, False), (5, 3, False), (5, 3, True), (5, 1, False)]
chain_potentials = st.fixed_dictionaries(
    {
        "shape": st.sampled_from(CHAIN_SHAPES),
        "zeros": st.sampled_from(["none", "transitions", "start", "emission", "all"]),
        "shift": st.sampled_from([0.0, 1e4, -1e4]),
        "spread": st.sampled_from([1.0, 30.0, 500.0]),
        "wide": st.sampled_from([1.0, 60.0, 300.0]),
        "seed": seeds,
    }
)
native_chains: dict[str, st.SearchStrategy[Any]] = {
    "seed": seeds,
    "lengths": st.sampled_from([(1,), (5,), (3, 1, 4), (2, 2)]),
    "states": st.sampled_from([1, 2, 3]),
    "spread": st.sampled_from([1.0, 30.0, 3000.0]),
    "zeros": st.booleans(),
    "varying": st.booleans(),
    "links": st.sampled_from([None, (0.0, 1.0), (0.0, 0.3, 1.0)]),
}
factor_graphs: dict[str, st.SearchStrategy[Any]] = {
    "seed": seeds,
    "nodes": st.integers(1, 12),
    "most_states": st.integers(2, 4),
    "factors": st.integers(0, 14),
    "impossible": st.sampled_from([0.0, 0.0, 0.3]),
}
label_chains = st.fixed_dictionaries(
    {
        "moves": st.sampled_from(["every", "two steps", "onward"]),
        "labels": st.booleans(),
        "spread": st.sampled_from([1.0, 10.0, 3000.0]),
        "wide": st.sampled_from([1.0, 10.0, 1000.0]),
        "seed": seeds,
    }
)
small_crfs: dict[str, st.SearchStrategy[Any]] = {
    "seed": seeds,
    "unknown": st.booleans(),
    "spread": st.sampled_from([0.3, 1.0, 4.0]),
}
chunk_tags = st.lists(
    st.sampled_from(("O", *(f"{p}-{t}" for p in "BIES" for t in "XY"), "B", "I")), max_size=9
)


@st.composite
def constraints(draw: Any) -> tuple[Any, np.ndarray]:
    """A constraint of random shape, and a random value that meets it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = [Free, Positive, Proportion, Simplex, "support", Ordered, Covariance, Frozen]
    kind = draw(st.sampled_from(kinds))
    batch, width = draw(st.sampled_from([(), (2,), (3, 2)])), draw(st.sampled_from([1, 3]))
    shape = (*batch, width)
    if kind is Free:
        return Free(batch), rng.normal(size=batch) * 10
    if kind is Positive:
        return Positive(batch), np.exp(rng.normal(size=batch) * 5)
    if kind is Proportion:
        return Proportion(batch), rng.uniform(1e-6, 1.0 - 1e-6, size=batch)
    if kind is Ordered:
        return Ordered(shape), np.cumsum(rng.exponential(size=shape) + 0.01, -1) - 2
    if kind is Covariance:
        factor = rng.normal(size=(*shape, width))
        return Covariance((*shape, width)), factor @ np.swapaxes(factor, -1, -2) + np.eye(width)
    if kind is Frozen:
        value = rng.normal(size=batch)
        return Frozen.at(value), value
    support = rng.random(shape) < 0.6
    support[..., rng.integers(width)] = True
    support = support if kind == "support" else np.ones(shape, bool)
    value = rng.gamma(1.0, size=shape) * support + 1e-6 * support
    return Simplex(shape, support), value / value.sum(-1, keepdims=True)
