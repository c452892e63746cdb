"""What inputs are drawn from: data, folds, graphs, labels and models, valid, odd and hostile.

Recipes hold plain Python values only, so that one that fails can be written down as a test. Those that
are `plain` are valid in every respect; others have something odd, which may be fine or not.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any

from hypothesis import strategies as st

seeds = st.integers(0, 10_000)
HUGE = 10**400

# Single values that do not belong where numbers are.
strange = st.sampled_from(
    [inf, -inf, nan, 1e300, -1e300, 1e-300, 1e15, 1e6, 2.0**53, -1.0, -0.0, 0.5, HUGE, -HUGE, True, None,
     "", "x", "3", "\u96ea", "a\0b", 1j, b"1", [], [1.0], {}, (1, 2)]
)  # fmt: skip
names = st.sampled_from(
    ["a", "b", "", " ", "\u96ea", "e\u0301", "=1+1", "a,b", '"', "<b>", "x" * 300, "\u202e"]
)

# --- values of observations ------------------------------------------------------------------------

_numbers = st.floats(-50, 50, allow_nan=False, width=32)
_positive = st.floats(0.015625, 50, width=32)
VALUES: dict[str, st.SearchStrategy[float]] = {
    "counts": st.integers(0, 25).map(float),
    "binary": st.integers(0, 1).map(float),
    "categories": st.integers(0, 3).map(float),
    "numbers": _numbers,
    "positive": _positive,
    "zeros and positive": st.one_of(st.just(0.0), _positive, _positive),
    "shares": st.floats(0.015625, 0.984375, width=32),
    "angles": st.floats(-3.0, 3.0, width=32),
}
# What each emission is of.
EMISSIONS = {
    "poisson": "counts", "binomial": "counts", "negative-binomial": "counts", "zero-inflated": "counts",
    "gaussian": "numbers", "spherical": "numbers", "fixed": "numbers", "full": "numbers",
    "tied": "numbers", "student-t": "numbers", "log-normal": "positive", "gamma": "positive",
    "zero-inflated-gamma": "zeros and positive", "exponential": "positive", "beta": "shares",
    "von-mises": "angles", "categorical": "categories",
}  # fmt: skip


@st.composite
def rows_of(draw: Any, values: str, channels: int, steps: int, missing: bool) -> list[list[float]]:
    """(steps, channels) numbers, some of them nan where `missing`."""
    one = VALUES[values]
    one = st.one_of(one, one, one, one, st.just(nan)) if missing else one
    row = st.lists(one, min_size=channels, max_size=channels)
    return draw(st.lists(row, min_size=steps, max_size=steps))


@st.composite
def sequences_of(draw: Any, values: str, whole: bool = False) -> list[list[list[float]]]:
    """One to three sequences with the same channels; `whole`: a step is missing in all or in none."""
    channels = draw(st.sampled_from([1, 1, 2, 3]))
    lengths = draw(st.lists(st.sampled_from([1, 2, 3, 5, 8]), max_size=3)) or [1]
    lengths[draw(st.integers(0, len(lengths) - 1))] = 8
    missing = draw(st.booleans())
    data = [draw(rows_of(values, channels, steps, missing)) for steps in lengths]
    if whole:
        return [[[nan] * channels if nan_in(row) else row for row in part] for part in data]
    return data


DAMAGES = (
    "a strange value", "a strange value", "a strange value", "all missing", "a channel missing",
    "a sequence missing", "constant", "ragged", "no rows", "no sequences", "one value", "repeated",
    "flat", "text", "tiny differences", "far apart", "one point each",
)  # fmt: skip


@st.composite
def damaged(draw: Any, data: list[list[list[Any]]]) -> Any:
    """The same sequences with something odd about them."""
    data = [[list(row) for row in part] for part in data]
    how = draw(st.sampled_from(DAMAGES))
    part = draw(st.integers(0, len(data) - 1))
    step = draw(st.integers(0, len(data[part]) - 1))
    if how == "a strange value":
        data[part][step][draw(st.integers(0, len(data[part][step]) - 1))] = draw(strange)
    elif how == "all missing":
        data = [[[nan] * len(row) for row in one] for one in data]
    elif how == "a channel missing":
        data = [[[nan, *row[1:]] for row in one] for one in data]
    elif how == "a sequence missing":
        data[part] = [[nan] * len(row) for row in data[part]]
    elif how == "constant":
        data = [[[2.0] * len(row) for row in one] for one in data]
    elif how == "ragged":
        data[part][step] = data[part][step] * 2
    elif how == "no rows":
        data[part] = []
    elif how == "no sequences":
        data = []
    elif how == "one value":
        data = [[[3.0]]]
    elif how == "repeated":
        data = [data[part]] * 3
    elif how == "flat":
        return draw(st.sampled_from([data[part][step], data[part], data[part][step][0], [[data]]]))
    elif how == "text":
        data = [[[str(one) for one in row] for row in rows] for rows in data]
    elif how == "tiny differences":
        data = [[[1e6 + 1e-6 * one for one in row] for row in rows] for rows in data]
    elif how == "far apart":
        data[part][step] = [draw(st.sampled_from([1e4, 1e8, 1e20, 1e90, -1e50]))] * len(data[part][step])
    elif how == "one point each":
        data = [[row] for rows in data for row in rows]
    return data


def nan_in(row: list[float]) -> bool:
    return any(one != one for one in row)


FORMS = ("arrays", "one array", "lists", "tables", "named tables", "lengths", "float32", "objects")
forms = st.sampled_from(FORMS)

# --- folds -----------------------------------------------------------------------------------------

_indices = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)
_bad_indices = st.lists(
    st.one_of(st.integers(-3, 30), st.sampled_from([0, 0, 1, 2**62, 0.5, nan, True, None, "1", [0]])),
    max_size=5,
)
_bad_numbers = st.sampled_from([0, -1, 1, 2.5, nan, inf, 10**6, HUGE, None, "2", True, [2], 99.9, 100])


def _folds(kind: str, **options: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"kind": st.just(kind), "options": st.fixed_dictionaries(options)})


plain_folds = st.one_of(
    _folds("points"),
    _folds("kfold", k=st.integers(2, 3), blocks=st.booleans(), seed=seeds),
    _folds("iid", percent=st.sampled_from([20, 34.5]), n=st.integers(1, 4), seed=seeds),
)
odd_folds = st.one_of(
    plain_folds,
    _folds("blocks", percent=st.sampled_from([13, 25, 60.0]), n=st.integers(1, 4), seed=seeds),
    _folds("future", start=st.integers(0, 9)),
    _folds("future", steps=st.integers(0, 9), horizon=st.integers(1, 3)),
    _folds("structures"),
    _folds("structures", k=st.integers(2, 4), blocks=st.booleans(), seed=seeds),
    _folds("sites", index_sets=st.lists(_indices, min_size=1, max_size=4)),
    _folds("sites", index_sets=st.lists(_bad_indices, max_size=3)),
    _folds("kfold", k=_bad_numbers),
    _folds("iid", percent=_bad_numbers, n=st.just(2)),
    _folds("blocks", percent=st.just(20), n=_bad_numbers.filter(lambda n: n != 10**6)),
    _folds("future", start=_bad_numbers),
)

# --- hidden chains ---------------------------------------------------------------------------------

_flags = st.lists(st.booleans(), min_size=2, max_size=2)
HMM_OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "initial_concentration": st.one_of(st.floats(1.0, 5.0), strange),
    "transition_concentration": st.one_of(st.floats(1.0, 5.0), strange),
    "support": st.one_of(st.lists(_flags, min_size=2, max_size=2), strange),
    "initial_support": st.one_of(_flags, strange),
    "stickiness": st.one_of(st.floats(0.0, 50.0), strange),
    "stationary": st.one_of(st.booleans(), strange),
    "end_prior": st.one_of(st.just((1.1, 1.1)), strange),
    "n_states": st.one_of(st.integers(-1, 4), strange),
    "frozen": st.one_of(st.just({"initial": [0.5, 0.5]}), strange),
}
_some_options = st.sampled_from(sorted(HMM_OPTIONS)).flatmap(
    lambda name: st.fixed_dictionaries({name: HMM_OPTIONS[name]})
)
METHODS = ("none", "ij", "onestep", "newton", "exact", "exact", "auto")


@st.composite
def chains(draw: Any) -> dict[str, Any]:
    """An HMM, its data and folds. `fit`: how parameters are found; None: they are drawn by `seed`."""
    emission = draw(st.sampled_from(sorted(EMISSIONS)))
    odd = draw(st.sampled_from([(), (), ("data",), ("folds",), ("model",), ("data", "folds")]))
    whole = emission in ("full", "tied")  # parts of such steps are the one thing here that is compiled
    data = draw(sequences_of(EMISSIONS[emission], whole))
    fit = draw(st.sampled_from([None, None, None, *METHODS]))
    zeros = draw(st.sampled_from([0.0, 0.0, 0.0, 0.4]))
    plain_options = st.sampled_from([{}, {}, {}, {"stationary": True}, {"end_prior": (1.1, 1.1)}])
    return {
        "emission": emission,
        "states": draw(st.sampled_from([1, 2, 2, 3])),
        "options": draw(_some_options if "model" in odd else plain_options),
        "data": draw(damaged(data)) if "data" in odd else data,
        "form": draw(forms),
        "folds": draw(odd_folds if "folds" in odd else plain_folds),
        "fit": fit,
        "loss": draw(st.sampled_from(["pointwise", "pointwise", "joint"])),
        "seed": draw(seeds),
        "far": draw(st.sampled_from([1.0, 1.0, 1.0, 30.0])),
        "zeros": zeros,
        "plain": not odd and zeros == 0.0 and _enough(data),
    }


def _enough(data: list[list[list[float]]]) -> bool:
    """Whether every channel has some observed values that differ, and there are folds of them."""
    rows = [row for part in data for row in part if any(one == one for one in row)]
    columns = list(zip(*rows, strict=True))
    return len(rows) >= 5 and all(len({one for one in column if one == one}) > 2 for column in columns)


# --- graphs ----------------------------------------------------------------------------------------

GRAPH_FORMS = ("pairs", "array", "matrix", "sparse", "networkx", "table")
_graph_folds = st.one_of(
    _folds("points"),
    _folds("regions", hops=st.integers(0, 2), n=st.integers(1, 2), seed=seeds),
    _folds("regions", percent=st.sampled_from([20, 50.0]), n=st.integers(1, 2), seed=seeds),
    _folds("regions", hops=st.just(0), n=st.just(2), buffer=st.integers(0, 2)),
    _folds("spatial_kfold", k=st.integers(2, 4), seed=seeds),
    _folds("buffered", hops=st.integers(0, 2)),
    _folds("kfold", k=st.integers(2, 3), blocks=st.booleans(), seed=seeds),
    _folds("sites", index_sets=st.lists(_bad_indices, max_size=3)),
    _folds("regions", hops=_bad_numbers, n=st.just(1)),
    _folds("spatial_kfold", k=_bad_numbers),
)


@st.composite
def graphs(draw: Any) -> dict[str, Any]:
    """A Potts field on a graph: isolated sites, repeated edges and several parts are fine."""
    sites = draw(st.sampled_from([1, 3, 6, 6, 6]))  # few: each number is compiled
    odd = draw(st.sampled_from([(), (), (), ("edges",), ("data",), ("folds",), ("model",)]))
    inside = st.integers(0, sites - 1)
    ends = st.tuples(inside, inside).filter(lambda pair: pair[0] != pair[1])
    edges: Any = draw(st.lists(ends, max_size=8)) if sites > 1 else []
    if "edges" in odd:
        wild = st.one_of(st.integers(-2, sites + 1), strange)
        edges = [
            *edges,
            draw(st.one_of(st.tuples(wild, wild), st.tuples(wild), st.just((1, 1)), strange)),
        ]
    emission = draw(st.sampled_from(["poisson", "poisson", "gaussian", "fixed", "categorical"]))
    values = draw(rows_of(EMISSIONS[emission], 1, sites, draw(st.booleans())))
    data: Any = [row[0] for row in values]
    if "data" in odd:
        data[draw(inside)] = draw(strange)
        data = draw(st.sampled_from([data, data, data[:-1], [], [data, data], [nan] * sites]))
    folds = draw(_graph_folds if "folds" in odd else st.one_of(_folds("points"), _folds("buffered")))
    beta = draw(st.one_of(strange, st.sampled_from([1e5, -3.0])) if "model" in odd else st.sampled_from(
        [0.0, 0.5, -1.0, 4.0]))  # fmt: skip
    return {
        "sites": sites,
        "edges": edges,
        "form": draw(st.sampled_from(GRAPH_FORMS)) if "edges" not in odd else "pairs",
        "emission": emission,
        "classes": draw(st.sampled_from([1, 2, 2, 2, 3])),
        "beta": beta,
        "data": data,
        "folds": folds,
        "loss": draw(st.sampled_from(["pointwise", "pointwise", "joint"])),
        "fit": draw(st.sampled_from([None, None, None, "exact", "onestep"])),
        "seed": draw(seeds),
        "plain": not odd
        and len({one for one in data if one == one}) > 2
        and sites > 3
        and not (folds["kind"] == "buffered" and _all_near(edges, data)),
    }


def _all_near(edges: list[tuple[int, int]], data: list[float]) -> bool:
    """Whether every observed site is a neighbour of one of them, so that leaving that out leaves
    nothing."""
    seen = {site for site, one in enumerate(data) if one == one}
    ends = [*edges, *((j, i) for i, j in edges)]
    return any(seen <= {site, *(j for i, j in ends if i == site)} for site in seen)


# --- labels ----------------------------------------------------------------------------------------

_label = st.sampled_from(["a", "b", "a", "b", None])
_iob = st.sampled_from(["O", "B-X", "I-X", "B-Y", "O", None])
_features = st.floats(-3, 3, width=32)


@st.composite
def labels(draw: Any) -> dict[str, Any]:
    """A linear-chain CRF, its features, labels and folds."""
    odd = draw(st.sampled_from([(), (), ("labels",), ("features",), ("model",), ("folds",)]))
    lengths = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    width = draw(st.sampled_from([1, 2]))
    row = st.lists(_features, min_size=width, max_size=width)
    features: Any = [draw(st.lists(row, min_size=n, max_size=n)) for n in lengths]
    one = draw(st.sampled_from([_label, _label, _iob]))
    said: Any = [draw(st.lists(one, min_size=n, max_size=n)) for n in lengths]
    options: dict[str, Any] = {}
    part = draw(st.integers(0, len(lengths) - 1))
    if "labels" in odd:
        wild = st.one_of(
            names, st.sampled_from([-1, 0, 1, 1.0, nan, "", inf, HUGE, True, [1], b"a", 1j])
        )
        said[part] = draw(
            st.one_of(st.lists(wild, max_size=5), strange, st.just([None] * lengths[part]))
        )
        if draw(st.booleans()):
            options["tags"] = draw(st.one_of(st.lists(names, max_size=4), strange, st.just(["a", "b"])))
    if "features" in odd:
        step = draw(st.integers(0, lengths[part] - 1))
        features[part][step] = draw(st.one_of(row, strange, st.lists(strange, max_size=2)))
    wild_options = {
        "support": st.one_of(st.just("iob2"), st.lists(_flags, min_size=2, max_size=2), strange),
        "start_support": st.one_of(_flags, strange),
        "scale": st.one_of(st.floats(0.1, 100.0), strange),
        "min_freq": strange,
        "biases": strange,
    }
    chosen = st.sampled_from(sorted(wild_options)).flatmap(
        lambda name: st.fixed_dictionaries({name: wild_options[name]})
    )
    return {
        "features": features,
        "labels": said,
        "reading": options,
        "options": draw(chosen) if "model" in odd else {},
        "sparse": draw(st.sampled_from([False, False, True])) if "features" not in odd else False,
        "folds": draw(
            odd_folds if "folds" in odd else st.one_of(_folds("points"), _folds("structures"))
        ),
        "loss": draw(st.sampled_from(["pointwise", "joint"])),
        "fit": draw(st.sampled_from([None, None, "exact", "onestep"])),
        "seed": draw(seeds),
        "plain": False,
    }
